# Copyright (c) 2026, lockredis contributors

# Losses that are found when session-level locks are given back inside of a
# transaction.  Each one is noted for the commit before
# anything can be raised or cancelled, and ROLLBACK TO forgets only those of locks
# that were taken inside.
# Proves G6, G12.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => { 'lockredis.command_timeout' => limit(60) . 's' });
my $one = $node->session;

run($one,
	q{CREATE TABLE t (a int);
	  SELECT redis_lock('warm'); SELECT redis_is_locked('warm'); SELECT redis_unlock('warm')});

sub is_refused
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$one->query('COMMIT')->fails(
		'55000',
		qr/could not commit because the lock "$key" was lost/,
		"$name: COMMIT is refused");
	$one->query('ROLLBACK');
	is($node->value('SELECT count(*) FROM t'), 0, 'nothing was written');
	return;
}

# The session is in the middle of what the rule holds back: cancel it there.
sub cancel_at
{
	my ($id, $sql, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$one->start($sql);
	$proxy->wait_for_rule($id);

	# What came before it has been passed on when it is held.
	if ($name =~ /answered in part/)
	{
		poll_until('the rest to be held', sub { $proxy->stats->{held} });
		$one->wait_until_read;
	}
	$one->cancel;
	return $one->wait;
}

# ----------
# Several losses found by one redis_unlock_all
# ----------

# Which of them comes first is a matter of their hashes, so there are twelve
# pairs.
foreach my $i (1 .. 12)
{
	run($one,
		"SELECT redis_lock('outer $i');
		 BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SELECT redis_lock('inner $i')");
	$redis->cmd('DEL', "outer $i", "inner $i");
	$one->query_warns('SELECT redis_unlock_all()',
		0, '01000', qr/2 Redis locks were lost/, "pair $i: both are lost");
	run($one, 'ROLLBACK TO s');
	is_refused("outer $i", "pair $i");
}

# What was lost inside only is forgotten with it.
run($one,
	q{SELECT redis_lock('outer');
	  BEGIN; SAVEPOINT s; SELECT redis_lock('inner 1'); SAVEPOINT s2; SELECT redis_lock('inner 2')});
$redis->cmd('DEL', 'inner 1', 'inner 2');
$one->query_warns('SELECT redis_unlock_all()',
	1, '01000', qr/2 Redis locks were lost/, 'two of three are lost');
$one->query_is(
	'ROLLBACK TO s; INSERT INTO t VALUES (1); COMMIT; DELETE FROM t',
	'', 'losses of locks that were taken inside are forgotten with it');

run($one,
	q{BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SELECT redis_lock('inner 1');
	  SAVEPOINT s2; SELECT redis_lock('inner 2')});
$redis->cmd('DEL', 'inner 1', 'inner 2');
$one->query('SELECT redis_unlock_all()');
run($one, 'ROLLBACK TO s2');
is_refused('inner 1', 'taken in two levels, the inner one rolled back');

# ----------
# Cancelled
# ----------

# "lost" is known to be lost, and is dropped; then the release of "slow" hangs.
foreach my $how ('SAVEPOINT', 'EXCEPTION')
{
	$one->in_time("SELECT redis_lock('lost', '50ms')");
	run($one, "SELECT redis_lock('slow')");
	$node->wait_for_loss('lost');
	run($one, 'BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s');
	my $id = $proxy->rule(match => 'slow', action => 'hold');
	if ($how eq 'SAVEPOINT')
	{
		cancel_at($id, 'SELECT redis_unlock_all()', 'a known loss')
		  ->fails('57014', qr/user request/, 'cancelled while a release hangs');
		run($one, 'ROLLBACK TO s');
	}
	else
	{
		is( cancel_at(
				$id,
				q{DO $$ BEGIN
				      PERFORM redis_unlock_all();
				  EXCEPTION WHEN query_canceled THEN
				      NULL;
				  END $$},
				'a known loss')->error,
			undef,
			'the same in an exception block');
	}
	$proxy->clear;
	$proxy->release;
	is_refused('lost', $how);
}

# The first hundred are answered: they were gone.  The rest is not.
{
	run($one, "SELECT count(redis_lock('many ' || i)) FROM generate_series(1, 150) i");
	$redis->cmd('FLUSHALL');
	run($one, 'BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s');
	my $id = $proxy->rule(on => 'reply', match => 'redisson_lock__channel', skip => 1, action => 'hold');
	cancel_at($id, 'SELECT redis_unlock_all()', 'answered in part')
	  ->fails('57014', qr/user request/, 'cancelled when a part has been answered');
	$proxy->clear;
	$proxy->release;
	run($one, 'ROLLBACK TO s');
	is_refused('many \d+', 'answered in part');
}

# The release has found the lock gone; who has taken it is asked in vain.
{
	run($one, "SELECT redis_lock('asked')");
	$redis->cmd('EVAL',
		'redis.call("DEL", KEYS[1]) return redis.call("HSET", KEYS[1], "other", 1)',
		1, 'asked');
	run($one, 'BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s');
	my $id = $proxy->rule(match => 'asked', skip => 1, action => 'hold');
	my $result = cancel_at($id, "SELECT redis_unlock('asked')", 'asked');
	$result->fails('57014', qr/user request/, 'cancelled while it asks who has the key');
	is_deeply(
		[ map { $_->message } $result->warnings ],
		['the lock "asked" was lost'],
		'and told of the loss');
	$proxy->clear;
	$proxy->release;
	run($one, 'ROLLBACK TO s');
	is_refused('asked', 'the question was cancelled');
	$redis->cmd('DEL', 'asked');
}

# ----------
# Of several holds of a key, beside one of the transaction
# ----------

# All session-level holds go, so that their number is 0 when the store is asked
# to write what is left and says that the lock is gone.  The transaction-level
# hold is lost too, but its subtransaction is rolled back, or its guard is off.
run($one,
	q{SELECT redis_lock('several'), redis_lock('several');
	  BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SELECT redis_xact_lock('several')});
$redis->cmd('DEL', 'several');
$one->query_warns('SELECT redis_unlock_all()',
	0, '01000', qr/"several" was lost/, 'several holds, found lost');
run($one, 'ROLLBACK TO s');
is_refused('several', 'several holds, that of the transaction rolled back');

run($one,
	q{SELECT redis_lock('several'), redis_lock('several');
	  BEGIN; INSERT INTO t VALUES (1); SET LOCAL lockredis.commit_guard = off;
	  SELECT redis_xact_lock('several')});
$redis->cmd('DEL', 'several');
$one->query_warns('SELECT redis_unlock_all()',
	0, '01000', qr/"several" was lost/, 'several holds, found lost');
is_refused('several', 'several holds, that of the transaction without a guard');

# ----------
# What is no unlocked loss
# ----------

# The loss of a transaction-level lock ends with its subtransaction.
run($one, "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SELECT redis_xact_lock('inside')");
$redis->cmd('DEL', 'inside');
$one->query_is('ROLLBACK TO s; COMMIT; DELETE FROM t',
	'', 'a transaction-level lock that its release finds gone');

# A lock stays that was taken in a savepoint that was rolled back; from then on it was
# taken in the one around that.  With that goes all that was done under it.
foreach my $outer (1, 0)
{
	run($one,
		q{BEGIN; INSERT INTO t VALUES (1); SAVEPOINT o; SAVEPOINT i; SELECT redis_lock('stays');
		  ROLLBACK TO i; INSERT INTO t VALUES (2)});
	$redis->cmd('DEL', 'stays');
	$one->query_warns("SELECT redis_unlock('stays')",
		'f', '01000', qr/"stays" was lost/, 'taken in a savepoint that was rolled back');
	if ($outer)
	{
		run($one, 'ROLLBACK TO o; COMMIT');
		is($node->value('SELECT count(*) FROM t'), 1, 'the one around it, too: commits');
		run($one, 'DELETE FROM t');
	}
	else
	{
		is_refused('stays', 'the one around it is not rolled back');
	}
}

# DISCARD ALL drops temporary tables, so it writes.
run($one, 'CREATE TEMP TABLE temporary (a int)');
$one->in_time("SELECT redis_lock('discarded', '50ms')");
$node->wait_for_loss('discarded');
$one->query_is('DISCARD ALL', '', 'DISCARD ALL with a known loss');
run($one, "CREATE TEMP TABLE temporary (a int); SELECT redis_lock('discarded')");
$redis->cmd('DEL', 'discarded');
$one->query_is('DISCARD ALL', '', 'DISCARD ALL that finds a loss');

# No transaction sees what belonged to one before.
$one->in_time("SELECT redis_lock('before', '50ms')");
$node->wait_for_loss('before');
$one->query("BEGIN; INSERT INTO t VALUES (1); SELECT redis_unlock('before'); ROLLBACK");
$one->query_is('INSERT INTO t VALUES (1); DELETE FROM t',
	'', 'the note ends with its transaction');

$one->quit;
poll_until('all to be given back', sub { !$redis->all_keys });
nothing_left($node, $redis);
done_testing();
