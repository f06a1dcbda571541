# Copyright (c) 2026, lockredis contributors

# Whoever gets a transaction-level lock sees what its last holder has committed, on
# a standby too: it is renewed until the commit is visible there; the cases of snapshots.
# (That it is released after the commit is visible and PostgreSQL's own locks are gone is the
# simulator's: its mutants early_at_pre_commit, early_before_locks and early_in_sub_abort.)
# Proves G4, G9.

use LockRedis::Test qw(:DEFAULT run);
use PostgreSQL::Test::Cluster;

my ($node, $redis, $one, $two, $three) = servers(
	sessions => 3,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 4,
		synchronous_commit => 'remote_apply',
		'lockredis.lease' => limit(6) . 's'
	});

run($one, q{CREATE TABLE counter (n int);
	  INSERT INTO counter VALUES (0);
	  CREATE TABLE ledger (n int)});

# ----------
# The four snapshot cases
# ----------

# One has the lock, has read the counter, and writes 1.  Two asks for the lock
# meanwhile, in one of the ways below, and waits.  One commits; two reads, adds
# 1, writes.  Right: two reads 1.  A lost update: it reads 0.
sub two_reads ($name, $lock, $read = undef)
{
	run($one, q{UPDATE counter SET n = 0; TRUNCATE ledger; BEGIN;
		  SELECT redis_xact_lock('case'); SELECT n FROM counter;
		  UPDATE counter SET n = 1; INSERT INTO ledger VALUES (1)});
	$two->start($lock);
	$node->wait_for_waiters('case', 1);
	run($one, 'COMMIT');
	my $result = $two->wait;
	is($result->error, undef, "$name: has the lock");
	return $read ? $two->value($read) : $result->value;
}

is( two_reads(
		'READ COMMITTED, a later statement',
		"BEGIN; SELECT redis_xact_lock('case')",
		'SELECT n FROM counter'),
	1,
	'reads what was committed');
$two->query_is(
	'UPDATE counter SET n = 1 + 1; COMMIT; SELECT n FROM counter',
	2, 'and no update is lost');

is( two_reads(
		'READ COMMITTED, reading in the statement that locks',
		"BEGIN; SELECT n, redis_xact_lock('case') FROM counter"),
	0,
	'reads what was there before');
$two->query_is(
	'UPDATE counter SET n = 0 + 1; COMMIT; SELECT n FROM counter',
	1, 'and an update is lost');

# PostgreSQL notices when the very row is written; not when something else is
# derived from it.
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	is( two_reads(
			"$level, locking inside",
			"BEGIN ISOLATION LEVEL $level; SELECT redis_xact_lock('case')",
			'SELECT n FROM counter'),
		0,
		'reads what was there before');
	$two->query_fails('UPDATE counter SET n = 0 + 1',
		'40001', qr/concurrent update/, 'PostgreSQL refuses to write that row');
	run($two, 'ROLLBACK');
	ok($node->wait_for_free($redis, 'case'), 'the lock is given back');
}
is( two_reads(
		'REPEATABLE READ, locking inside, writing elsewhere',
		"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT redis_xact_lock('case')",
		'SELECT count(*) FROM ledger'),
	0,
	'reads what was there before');
$two->query_is(
	'INSERT INTO ledger VALUES (0 + 1); COMMIT; SELECT count(*), max(n) FROM ledger',
	'2|1', 'and an update is lost');

foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	is( two_reads(
			"$level, locking before BEGIN",
			"SELECT redis_lock('case')",
			"BEGIN ISOLATION LEVEL $level; SELECT n FROM counter"),
		1,
		'reads what was committed');
	$two->query_is(
		"UPDATE counter SET n = 1 + 1; COMMIT; SELECT redis_unlock('case');
		 SELECT n FROM counter",
		"t\n2", 'and no update is lost');
}

# And unlocking before COMMIT: three has the lock while the change of two
# cannot be seen yet.
run($two,
	"UPDATE counter SET n = 0; BEGIN; SELECT redis_lock('case');
	 UPDATE counter SET n = 1; SELECT redis_unlock('case')"
);
$three->query_is(
	"BEGIN; SELECT redis_xact_lock('case'); SELECT n FROM counter; COMMIT",
	"\n0", 'unlocking before COMMIT shows the next holder the old state');
run($two, 'COMMIT');

# ----------
# Synchronous replication
# ----------

# The standby is configured before anybody has to wait for it.
$node->backup('base');
my $standby = LockRedis::Node->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$standby->wait_for_up;
$node->set(synchronous_standby_names => 'standby');
poll_until('the standby to be synchronous',
	sub { $node->value('SELECT sync_state FROM pg_stat_replication') eq 'sync' }
);

# The standby does not get any WAL while its receiver is stopped.
sub receiver ($signal)
{
	my $pid = $standby->value(
		'SELECT pid FROM pg_stat_activity WHERE backend_type = \'walreceiver\'');

	kill($signal, $pid) == 1 or die "could not signal $pid: $!";
	return;
}

sub renewals ($key)
{
	return $node->value(
		"SELECT renewals FROM redis_locks WHERE key = '$key' AND granted");
}

# One commits while the standby is stopped: its rows are not visible, so the
# lock has to stay.  A session of the standby waits for the lock, has it when
# the standby has applied the commit, and sees it.
{
	my $reader = $standby->session;

	run($one, 'TRUNCATE ledger');
	receiver('STOP');
	run($one, "BEGIN; SELECT redis_xact_lock('sync');
		 INSERT INTO ledger VALUES (1)");
	$one->start('COMMIT');
	$node->wait_for_event($one, 'SyncRep');
	$reader->start("SELECT redis_lock('sync')");
	$standby->wait_for_waiters('sync', 1);
	my $renewals = renewals('sync');
	poll_until('a lease and more to have passed', sub { renewals('sync') >= $renewals + 4 });
	ok($one->is_running && $reader->is_running,
		'commit and the next holder wait for the standby');
	is($redis->cmd('EXISTS', 'sync'), 1, 'the lock is held as long');
	$two->query_is(
		"SELECT redis_try_lock('sync'); SELECT count(*) FROM ledger",
		"f\n0", 'and the row is not visible');

	receiver('CONT');
	is($reader->wait->error, undef, 'a session of the standby gets the lock');
	$reader->query_is('SELECT count(*) FROM ledger', 1, 'and sees the row there');
	is($one->wait->error, undef, 'the commit has returned');
	$reader->query_is("SELECT redis_unlock('sync')", 't', 'given back');
	$reader->quit;
}

$_->quit foreach $one, $two, $three;
$node->set(synchronous_standby_names => '');
nothing_left([ $node, $standby ], $redis);
$standby->stop;
done_testing();
