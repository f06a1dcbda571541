# Copyright (c) 2026, lockredis contributors

# Five independent masters: what a majority says is so, whatever the others do.
# Taking, taking again, giving back, renewing and losing, with all of them and with
# two that are gone or stand still; what is left where a session could not give back.
# Proves G47.

use strict;
use warnings FATAL => 'all';

use LockRedis::Masters;
use LockRedis::Test;
use LockRedis::Wait qw(limit poll_until now);

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '60s', 'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => '60s' });
my $one = $node->session;
my $two = $node->session;

$node->wait_for_up;

# So many nodes have the lock.
sub have
{
	my ($key) = @_;

	return scalar grep { $_->pid && !$_->{frozen} && keys %{ $_->hash($key) } } @nodes;
}

sub has_in_the_end
{
	my ($key, $n, $what) = @_;

	poll_until("$what: $n nodes with $key", sub { have($key) == $n });
	pass($what);
	return;
}

# ---- all are there

{
	$one->query_is("SELECT redis_try_lock('all')", 't', 'taken');
	has_in_the_end('all', 5, 'by all of them');
	$two->query_is("SELECT redis_try_lock('all')", 'f', 'others are kept out');
	$one->query_is("SELECT redis_try_lock('all')", 't', 'taken again');
	has_in_the_end('all', 5, 'still there');
	$one->query_is("SELECT redis_unlock('all')", 't', 'given back once');
	has_in_the_end('all', 5, 'still had');
	$one->query_is("SELECT redis_unlock('all')", 't', 'and twice');
	has_in_the_end('all', 0, 'nobody has it');
	$two->query_is("SELECT redis_try_lock('all')", 't', 'others can take it');
	$two->query_is("SELECT redis_unlock('all')", 't', 'and give it back');
	has_in_the_end('all', 0, 'nobody has it');
}

# Two round trips, two commands a node
{
	$one->value("SELECT redis_lock('pair'), redis_unlock('pair')");
	has_in_the_end('pair', 0, 'pair');
	my @before = map { $_->script_calls } @nodes;
	$one->value("SELECT redis_lock('pair'), redis_unlock('pair')") foreach 1 .. 10;
	has_in_the_end('pair', 0, 'pairs');
	my @more = map { $nodes[$_]->script_calls - $before[$_] } 0 .. 4;
	ok(!(grep { $_ >= 30 } @more) && (grep { $_ >= 20 } @more) >= 3,
		"two commands a pair and node (@more)");
}

# A transaction
{
	$one->query("BEGIN; SELECT redis_xact_lock('t' || i) FROM generate_series(1, 20) i");
	has_in_the_end('t7', 5, 'a lock of a transaction');
	$one->query('COMMIT');
	poll_until('all to be gone', sub { !$masters->all_keys });
	pass('all are given back at its end');
}

# One that waits is told
{
	$one->query("SELECT redis_lock('w')");
	$two->start("SELECT redis_lock('w')");
	$node->wait_for_waiters('w', 1);
	$one->query_is("SELECT redis_unlock('w')", 't', 'given back');
	$two->wait;
	pass('who waited has it');
	$two->query_is("SELECT redis_unlock('w')", 't', 'and gives it back');
}

# ---- two are gone, or stand still

$one->query_fails("SET lockredis.min_replicas = 1; SELECT redis_lock('replicas')",
	'55000', qr/replicas are not asked to confirm a lock of several masters/, 'no replicas');
$one->query('SET lockredis.min_replicas = 0');

foreach my $way ('gone', 'frozen')
{
	$way eq 'gone' ? $_->stop : $_->freeze foreach @nodes[ 1, 3 ];
	$one->query_is("SELECT redis_try_lock('$way')", 't', "$way: taken by three of five");
	is(have($way), 3, 'they have it');
	$two->query_is("SELECT redis_try_lock('$way')", 'f', 'others are kept out');
	$one->query_is("SELECT redis_try_lock('$way')", 't', 'taken again');
	$one->query_is("SELECT redis_extend('$way', '90s')", 't', 'lengthened');
	$one->query_is("SELECT redis_is_locked('$way')", 't', 'it is locked');
	$one->query_is("SELECT redis_unlock('$way'), redis_unlock('$way')", 't|t', 'given back');
	$two->query_is("SELECT redis_try_lock('$way')", 't', 'others can take it');
	$two->query_is("SELECT redis_unlock('$way')", 't', 'and give it back');
	has_in_the_end($way, 0, 'nobody has it');
	if ($way eq 'gone')
	{
		$masters->restart_old(1, 3);
	}
	else
	{
		$_->thaw foreach @nodes[ 1, 3 ];
	}
	has_in_the_end($way, 0, "$way: nor when they are back");
}

done_testing();
