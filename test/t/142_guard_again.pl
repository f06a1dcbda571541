# Copyright (c) 2026, lockredis contributors

# The commit guard looks again after it has waited for Redis.  COMMIT
# fails if a hold is lost, by whatever instant the guard ends at; the margin; a
# lease that no request can keep is refused.
# Proves G12.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $proxy, $one) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 1,
	settings => {
		max_prepared_transactions => 1,
		'lockredis.lease' => '10min',
		'lockredis.connect_timeout' => '1min',
		'lockredis.command_timeout' => '1min'
	});

run($one, 'CREATE TABLE t (a int)');

# Nothing was committed, and it was counted.
sub refused_once
{
	my ($before, $name) = @_;

	return is_deeply(
		[ $node->count_rows('t'), $node->value('SELECT count(*) FROM pg_prepared_xacts'), $node->lock_stat('commits_refused') ],
		[ $before->{rows}, 0, $before->{refused} + 1 ],
		"$name: nothing is committed, and it is counted");
}

sub before
{
	return { rows => $node->count_rows('t'), refused => $node->lock_stat('commits_refused') };
}

sub delay
{
	my ($key, $seconds, $times) = @_;

	return $proxy->rule(
		on => 'reply',
		match => $key,
		action => 'delay',
		ms => int($seconds * 1000),
		times => $times // 1);
}

# Scenario, COMMIT of one (more of them, by force, of a renewed lease and PREPARE TRANSACTION, are the
# simulator's: its mutants guard_*, look_1_guard_once and sql_prepare_unguarded):
#
# one    has "fast" for a lease, enough of which is left, and "slow"
# guard  fast: fine.  slow: is to be verified, asks
#        ... no answer until the lease of fast has ended
# guard  slow is ours
#
# The old one committed now, when somebody else may have had fast.
my $lease = limit(4);
my $slow_and = "SET lockredis.commit_guard = 'verify'; BEGIN; SELECT LOCK('slow');
	SET lockredis.commit_guard = 'lease'; INSERT INTO t VALUES (1); SELECT LOCK";

subtest 'COMMIT while the lease of another one ends' => sub {
	my $before = before();
	run($one, ($slow_and =~ s/LOCK/redis_xact_lock/gr) . "('fast', '$lease s')");
	my $id = delay('slow', $lease * 1.5);
	$one->query_fails('COMMIT', '40001',
		qr/could not commit because the lock "fast" was lost\nDETAIL:  Its lease expired.*Start the transaction again/s,
		'refused');
	is($proxy->acted($id), 1, 'slow was asked for');
	refused_once($before, 'COMMIT');
};

# Each answer takes nearly as long as the lease: never enough is left, however
# often it is renewed.  (On a busy machine it ends before.)
subtest 'a lease that is shorter than a request' => sub {
	my $tiny = limit(0.4);
	my $before = before();

	$one->in_time(
		"ROLLBACK; SET lockredis.commit_guard = 'verify'; BEGIN; INSERT INTO t VALUES (1);
		 SELECT redis_xact_lock('tiny', '$tiny s')");
	my $id = delay('tiny', $tiny * 0.93, 0);
	my $result = $one->query('COMMIT');
	$result->fails('40001',
		qr/could not commit because the (?:lease of the )?lock "tiny" (?:is about to end|was lost)/,
		'refused');
	cmp_ok($proxy->acted($id), '<=', 6, 'after five requests, the release is another one');
	refused_once($before, 'COMMIT');
	$proxy->clear;
	run($one, 'ROLLBACK; RESET lockredis.commit_guard');
};

end_test($node, $redis);
