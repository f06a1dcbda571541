# Copyright (c) 2026, lockredis contributors

# A session that once held many locks does not keep the memory for them.
# Proves G30.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => { 'lockredis.max_locks' => 5000, 'lockredis.lease' => '10min' });
my $s = $node->session;

$node->wait_for_up;

sub memory
{
	return $s->value(
		q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext'}
	);
}

run($s, "SELECT redis_lock('one'); SELECT redis_unlock('one')");
my $before = memory();

foreach my $case (
	[ 'unlocked all', '', 'redis_lock', 'SELECT redis_unlock_all()' ],
	[ 'in a transaction', 'BEGIN;', 'redis_xact_lock', 'COMMIT' ],
	[ 'unlocked one by one', '', 'redis_lock',
		"SELECT count(redis_unlock('k ' || i)) FROM generate_series(1, 4000) i" ])
{
	my ($name, $begin, $lock, $end) = @$case;

	run($s, "$begin SELECT count($lock('k ' || i)) FROM generate_series(1, 4000) i");
	my $grown = memory() - $before;
	cmp_ok($grown, '>', 1_000_000, "$name: many locks take memory");
	run($s, $end);
	run($s, "SELECT redis_lock('one'); SELECT redis_unlock('one')");
	cmp_ok(memory() - $before, '<', $grown / 4, 'which is given back');

	# The room that is left is enough for some.
	run($s, "SELECT count(redis_lock('k ' || i)) FROM generate_series(1, 600) i");
	$s->query_is('SELECT redis_unlock_all()', 600, 'and locks work');
}

$s->quit;
nothing_left($node, $redis);
done_testing();
