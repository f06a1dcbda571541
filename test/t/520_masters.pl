# Copyright (c) 2026, lockredis contributors

# Five independent masters: what a majority says is so, whatever the others do.
# Taking, taking again, giving back, at the end of a transaction, and waiting.  534_masters_phases
# has the same with some of them gone or frozen.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = $masters->server('main');
my $one = $node->session;
my $two = $node->session;

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
	$two->start("SELECT redis_lock('w')");
	$node->wait_for_waiters('w', 1);
	$one->query_is("SELECT redis_unlock('w')", 't', 'given back');
	$two->wait;
	$two->query_is("SELECT redis_unlock('w')", 't', 'and gives it back');
}

$one->query_fails("SET lockredis.min_replicas = 1; SELECT redis_lock('replicas')",
	'55000', qr/replicas are not asked to confirm a lock of several masters/, 'no replicas');
$one->query('SET lockredis.min_replicas = 0');

done_testing();
