# Copyright (c) 2026, lockredis contributors

# Five independent masters: what a majority says is so, whatever the others do.
# Taking, taking again, giving back, at the end of a transaction, and waiting; several keys at
# once, and token locks; with some of them gone.  (With most of them standing still: the
# simulator's mutant masters_answered.)
#
# A lock that a minority has forgotten is still had, and that minority gets it again
# from the next renewal; one that a majority has forgotten is lost.  What another
# client has of a minority is no obstacle; who has no majority gives back what he has.
# Tokens go up, whichever of the counters are behind.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = $masters->server('main', 'lockredis.lease' => '30s');
my ($one, $two) = map { $node->session } 1 .. 2;

# ---- all are there

{
	$one->query_is("SELECT redis_try_lock('all')", 't', 'taken');
	$masters->wait_for_owners('all', 5);
	$two->query_is("SELECT redis_try_lock('all')", 'f', 'others are kept out');
	$one->query_is("SELECT redis_try_lock('all')", 't', 'taken again');
	$masters->wait_for_owners('all', 5);
	$one->query_is("SELECT redis_unlock('all')", 't', 'given back once');
	$masters->wait_for_owners('all', 5);
	$one->query_is("SELECT redis_unlock('all')", 't', 'and twice');
	$masters->wait_for_owners('all', 0);
	$two->query_is("SELECT redis_try_lock('all')", 't', 'others can take it');
	$two->query_is("SELECT redis_unlock('all')", 't', 'and give it back');
	$masters->wait_for_owners('all', 0);
}

# Two round trips, two commands a node
{
	$one->value("SELECT redis_lock('pair'), redis_unlock('pair')");
	$masters->wait_for_owners('pair', 0);
	my @before = map { $_->script_calls } @nodes;
	$one->value("SELECT redis_lock('pair'), redis_unlock('pair')") foreach 1 .. 10;
	$masters->wait_for_owners('pair', 0);
	my @more = map { $nodes[$_]->script_calls - $before[$_] } 0 .. 4;
	ok(!(grep { $_ >= 30 } @more) && (grep { $_ >= 20 } @more) >= 3,
		"two commands a pair and node (@more)");
}

# A transaction
{
	$one->query("BEGIN; SELECT redis_xact_lock('t' || i) FROM generate_series(1, 20) i");
	$masters->wait_for_owners('t7', 5);
	$one->query('COMMIT');
	poll_until('all to be gone', sub { !$masters->all_keys });
}

# One that waits is told
{
	$one->query("SELECT redis_lock('w')");
	$node->queue_up('w', $two => "SELECT redis_lock('w')");
	$one->query_is("SELECT redis_unlock('w')", 't', 'given back');
	$two->wait;
	$two->query_is("SELECT redis_unlock('w')", 't', 'and gives it back');
}

$one->query_fails("SET lockredis.min_replicas = 1; SELECT redis_lock('replicas')",
	'55000', qr/replicas are not asked to confirm a lock of several masters/, 'no replicas');
$one->query('SET lockredis.min_replicas = 0');

# A connection of the watchdog that is made anew has all locks renewed.
sub renew_all
{
	poll_until('a connection of the watchdog', sub { $nodes[0]->kill_clients('watchdog') });
	return;
}

# These nodes forget the key, and whatever has to happen before a renewal does.
sub forget ($key, $numbers, $do = undef)
{
	my $watchdog = $node->watchdog_pid;

	kill 'STOP', $watchdog;
	$_->cmd('DEL', $key) foreach @nodes[@$numbers];
	$do->() if $do;
	kill 'CONT', $watchdog;
	return;
}

# ---- a minority has forgotten

$one->query("SELECT redis_lock('m'), redis_lock('m')");
$masters->wait_for_owners('m', 5);
$_->cmd('DEL', 'm') foreach @nodes[ 1, 4 ];
renew_all();
$masters->wait_for_owners('m', 5);
$one->query_is("SELECT redis_is_held('m')", 't', 'it is held');
$one->query_is("SELECT redis_unlock('m'), redis_unlock('m')", 't|t', 'given back');
$masters->wait_for_owners('m', 0);

# ---- somebody else has the minority

$one->query("SELECT redis_lock('s')");
$masters->wait_for_owners('s', 5);
foreach my $n (2, 3)
{
	$nodes[$n]->cmd('DEL', 's');
	$nodes[$n]->cmd('HSET', 's', 'other:1', 1);
}
renew_all();
$one->query_is("SELECT redis_extend('s', '90s')", 't', 'lengthened by the other three');
$one->query_is("SELECT redis_unlock('s')", 't', 'given back');
poll_until('ours to be gone', sub {
	(join ' ', map { join ',', '-', keys %{ $_->hash('s') } } @nodes) eq '- - -,other:1 -,other:1 -' });
$two->query_is("SELECT redis_try_lock('s')", 't', 'a minority is no obstacle');
$two->query_is("SELECT redis_unlock('s')", 't', 'given back');
$_->cmd('DEL', 's') foreach @nodes;

# ---- a majority has forgotten

$one->query("SELECT redis_lock('l')");
$masters->wait_for_owners('l', 5);
forget('l', [ 0, 2, 3 ]);
renew_all();
poll_until('the loss', sub { $one->value("SELECT redis_is_held('l')") eq 'f' });
$one->query_fails("SELECT redis_lock('l')", '55000', qr/lock "l" was lost/, 'and told');
$one->query("SELECT redis_unlock_all()");
$masters->wait_for_owners('l', 0);

# found by the release
$one->query("SELECT redis_lock('r')");
$masters->wait_for_owners('r', 5);
forget('r', [ 0, 2, 3 ], sub {
	$one->query_warns("SELECT redis_unlock('r')", 'f', '01000', qr/lost/, 'a release finds the loss');
});
$masters->wait_for_owners('r', 0);

# ---- others have a majority, or none has

foreach my $n (0, 1, 3)
{
	$nodes[$n]->cmd('HSET', 'o', "other:$n", 1);
	$nodes[$n]->cmd('PEXPIRE', 'o', 600_000);
}
$one->query_is("SELECT redis_try_lock('o')", 'f', 'busy: no majority is free');
poll_until('ours to be gone', sub {
	(join ' ', map { join ',', '-', keys %{ $_->hash('o') } } @nodes) eq
	  '-,other:0 -,other:1 - -,other:3 -' });
$one->query_is("SELECT redis_is_locked('o'), redis_lock_owner('o') IS NULL",
	't|t', 'locked, and nobody is the owner');
$one->query_is("SELECT redis_force_unlock('o')", 't', 'taken from all of them');
$masters->wait_for_owners('o', 0);
$one->query_is("SELECT redis_try_lock('o')", 't', 'so it can be acquired');
$one->query_is("SELECT redis_force_unlock('o')", 't', 'and taken away');
$masters->wait_for_owners('o', 0);
$one->query("SELECT redis_unlock_all()");

# ---- tokens

{
	my $last = 0;
	my $counter = 'redisson_lock_token:{f}';

	$nodes[$_]->cmd('SET', $counter, 10 * $_) foreach 0 .. 4;
	foreach my $down (0, 4, 1, 3)
	{
		$nodes[$down]->stop(keep => 1);
		my $token = $one->value("SELECT redis_fenced_lock('f')");
		cmp_ok($token, '>', $last, "token $token is above $last");
		$last = $one->value("SELECT redis_fenced_lock('f')");
		cmp_ok($last, '>=', $token, "that of the same lock again, $last, is not below");
		cmp_ok((grep { $_->pid && ($_->cmd('GET', $counter) || 0) >= $last } @nodes),
			'>=', 3, 'a majority has reached it');
		$one->query("SELECT redis_unlock('f'), redis_unlock('f')");
		$nodes[$down]{age} = 86400;
		$nodes[$down]->start;
	}
}

# ---- several keys at once

{
	$one->query("SELECT redis_multi_lock(ARRAY['a', 'b', 'd'])");
	cmp_ok($masters->have($_), '>=', 3, "$_ is held by a majority") foreach qw(a b d);
	$two->query_is("SELECT redis_try_multi_lock(ARRAY['d', 'e'])", 'f', 'all or none');
	$masters->wait_for_owners('e', 0);
	$one->query("SELECT redis_multi_unlock(ARRAY['a', 'b', 'd'])");
	$masters->wait_for_owners($_, 0) foreach qw(a b d);
}

# ---- token locks

{
	my $token = $one->value("SELECT redis_token_lock('t', '60s')");

	cmp_ok((grep { ($_->cmd('GET', 't') || '') eq $token } @nodes), '>=', 3,
		'a majority has the token');
	$two->query_is("SELECT redis_try_token_lock('t', '0', '60s') IS NULL", 't', 'others are kept out');
	$two->query_is("SELECT redis_token_unlock('t', '$token')", 't', 'who knows it gives it back');
	$masters->wait_for_owners('t', 0);

	# As redsync does it
	$masters->connect_to_all($one);
	$_->cmd('SET', 'q', 'other', 'PX', 600_000) foreach @nodes[ 0, 1, 3 ];
	$one->query_is("SELECT redis_try_token_lock('q', '0', '60s') IS NULL", 't',
		'another program has a majority');
	$nodes[1]->cmd('DEL', 'q');
	$token = $one->value("SELECT redis_try_token_lock('q', '0', '60s')");
	is((grep { ($_->cmd('GET', 'q') || '') eq $token } @nodes), 3, 'a minority is no obstacle');
	$one->query_is("SELECT redis_token_unlock('q', '$token')", 't', 'given back');
	is((grep { ($_->cmd('GET', 'q') || '') eq 'other' } @nodes), 2, 'theirs stays');
}

# ---- what several masters cannot do

$one->query_fails("SELECT redis_read_lock('k')", '55000', qr/not available with several masters/, 'read');
$one->query_fails("SELECT redis_fair_lock('k')", '55000', qr/not available with several masters/, 'fair');

# ---- two of five are gone, and three

$_->stop foreach @nodes[ 0, 1 ];
$one->query_is("SELECT redis_try_lock('n'), redis_unlock('n')", 't|t', 'three are enough');
poll_until('nothing to be left', sub { $masters->have('n') == 0 });
$nodes[2]->stop;
$one->query_fails("SELECT redis_try_lock('n')", '58030', qr/Master 1: .*\n.*Master 5: It/s, 'none');
poll_until('nothing to be left', sub { $masters->have('n') == 0 });

# Each call asks those that are there, in vain.  Its release is behind it, so it needs no
# record: that would stay until a majority is back, and there would soon be no room.
$one->query(q{
	DO $$
	BEGIN
		FOR i IN 1 .. 200 LOOP
			BEGIN
				PERFORM redis_try_lock('n' || i);
			EXCEPTION WHEN system_error OR io_error THEN
				CONTINUE;
			END;
			RAISE 'nobody can have it';
		END LOOP;
	END $$
});
$one->query_is('SELECT count(*) FROM redis_locks', '0', 'nor a record of any of 200 tries');
poll_until('nothing to be left of them', sub { !grep { $masters->have("n$_") } 1 .. 200 });

done_testing();
