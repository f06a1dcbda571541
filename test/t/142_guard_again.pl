# Copyright (c) 2026, lockredis contributors

# The commit guard looks again after it has waited for Redis.  COMMIT
# fails if a hold is lost, by whatever instant the guard ends at; the margin; a
# lease that no request can keep is refused.
# Proves G12.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $proxy, $one, $two) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 2,
	settings => {
		max_prepared_transactions => 1,
		'lockredis.lease' => '10min',
		'lockredis.connect_timeout' => '1min',
		'lockredis.command_timeout' => '1min'
	});

run($one, 'CREATE TABLE t (a int)');
run($two, "SELECT redis_is_locked('connected')");

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

# Scenario, COMMIT of one (more of them are the simulator's: its mutants guard_* and
# look_1_guard_once):
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

# By force, while the answer is under way: the loss comes between the look at
# that hold and the end of the guard.
subtest 'PREPARE while another one is taken by force' => sub {
	my $before = before();
	run($one, ($slow_and =~ s/LOCK/redis_lock/gr) . "('forced')");
	my $id = $proxy->rule(on => 'reply', match => 'slow', action => 'hold');
	$one->start("PREPARE TRANSACTION 'p'");
	$proxy->wait_for_rule($id);
	is($two->value("SELECT redis_force_unlock('forced')"), 't', 'by force');
	$proxy->release;
	$one->wait->fails('55000',
		qr/could not commit because the lock "forced" was lost.*by force.*Call redis_unlock/s, 'refused');
	refused_once($before, 'PREPARE');
	$one->query('ROLLBACK; SELECT redis_unlock_all()');
};

# The default guard: little is left of a long lease, so it is renewed; that takes
# longer than what is left of a short one, which was fine.
subtest 'a short lease beside one that is renewed' => sub {
	my $long = limit(4);
	my $margin = $long / 10 < 1 ? $long / 10 : 1;
	my ($left, $delay, $short) = map { $_ * $margin } 0.9, 0.5, 0.3;
	my ($before, $result);

	poll_until(
		'an answer before the short lease has ended',
		sub {
			$proxy->clear;
			$before = before();
			run($one,
				"SET lockredis.commit_guard = 'lease'; ROLLBACK; BEGIN;
				 SELECT redis_xact_lock('long', '$long s'); INSERT INTO t VALUES (1)");
			delay('long', $delay);
			$result = $one->query(
				"SELECT pg_sleep(extract(epoch FROM expires_in) - $left)
				   FROM redis_locks WHERE key = 'long';
				 SELECT redis_xact_lock('short', '$short s'); COMMIT");
			return $result->{raw} !~ /after the lease had ended/;
		});
	$result->fails('40001', qr/could not commit because the lock "(?:short|long)" was lost/,
		'refused');
	refused_once($before, 'COMMIT');
	run($one, 'ROLLBACK');
	$proxy->clear;
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
