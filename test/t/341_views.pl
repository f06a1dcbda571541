# Copyright (c) 2026, lockredis contributors

# What exporters of metrics read:
# - every table, view and column says what it is (351_reference: every function); beside each interval
#   are its seconds, for those who drop intervals
# - database, role and application_name are those of pg_stat_activity, for
#   everybody; an orphan has none; a background worker is a session
# - held, waiting and condition_waiting are the rows of redis_locks; slots are all of them
# - the time waited counts when a wait ends, once, however it ends; that of a sleep at a condition
#   elsewhere, and its lock is not lost meanwhile
# - up is the state
# Proves G36.

use LockRedis::Test;

my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => { wal_level => 'logical', max_wal_senders => 5, deadlock_timeout => '50ms' });

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats;
	CREATE DATABASE shop;});
$node->safe_psql('shop', 'CREATE EXTENSION lockredis');
$node->wait_for_up;

my $admin = $node->session;
my $bob = $node->session(user => 'bob');
my $monitor = $node->session(user => 'monitor');
my $alice = $node->session(dbname => 'shop', user => 'alice');

# ----------
# Columns
# ----------

my $relations = q{pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass
	AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'};
$admin->query_is("SELECT c.oid::regclass FROM $relations WHERE obj_description(c.oid, 'pg_class') IS NULL",
	'', 'every table and view has a comment');
$admin->query_is(<<"SQL", '', 'every column has one');
SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN $relations ON c.oid = a.attrelid AND c.relkind IN ('r', 'v')
 WHERE a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL
SQL
$admin->query_is(<<"SQL", 'redis_lock_status.renewal_lag redis_lock_status.round_trip redis_locks.expires_in redis_locks.lease', 'intervals');
SELECT string_agg(c.oid::regclass || '.' || a.attname, ' ' ORDER BY c.oid::regclass::text, a.attname COLLATE "C")
  FROM $relations JOIN pg_attribute a ON a.attrelid = c.oid AND a.atttypid = 'interval'::regtype AND c.relkind = 'v'
SQL
$admin->query_is(<<"SQL", '', 'each with its seconds');
SELECT c.oid::regclass, a.attname
  FROM $relations JOIN pg_attribute a ON a.attrelid = c.oid AND a.atttypid = 'interval'::regtype AND c.relkind = 'v'
 WHERE NOT EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attname = a.attname || '_seconds'
	AND s.atttypid = 'double precision'::regtype)
SQL

# ----------
# redis_locks
# ----------

my $names = 'SELECT granted, datname, usename, application_name FROM redis_locks';
my $same = q{SELECT count(*), bool_and((l.datname, l.usename, l.application_name)
	IS NOT DISTINCT FROM (a.datname, a.usename, a.application_name)) FROM redis_locks l JOIN pg_stat_activity a USING (pid)};

$alice->query("SET application_name = 'shop-api'");
$bob->query("SET application_name = 'report'");
$alice->query_is("SELECT redis_lock('k', '10 min')", '', 'alice has it');
$node->queue_up('k', $bob => "SELECT redis_lock('k')");
my $seen = "t|shop|alice|shop-api\nf|postgres|bob|report";
foreach my $who ($admin, $monitor, $alice)
{
	$who->query_is("$names ORDER BY granted DESC", $seen, 'a superuser, pg_read_all_stats and an ordinary role');
	$who->query_is($same, '2|t', 'as in pg_stat_activity');
}
$alice->query_is('SELECT count(key), count(owner), count(usesysid) FROM redis_locks',
	'1|1|2', 'who does not see what the others lock');

$alice->query("SET application_name = 'shop-batch'");
$admin->query('ALTER ROLE alice RENAME TO alicia');
$admin->query_is("$names WHERE granted", 't|shop|alicia|shop-batch', 'new names');
$admin->query('ALTER ROLE alicia RENAME TO alice');

$admin->query_is('SELECT granted, lease_seconds, expires_in_seconds BETWEEN 1 AND 600 FROM redis_locks ORDER BY granted DESC',
	"t|600|t\nf|NULL|NULL", 'seconds');
my $seconds = q{SELECT count(*), bool_and(lease_seconds IS NOT DISTINCT FROM EXTRACT(epoch FROM lease)::float8),
	bool_and(expires_in_seconds IS NOT DISTINCT FROM EXTRACT(epoch FROM expires_in)::float8) FROM redis_locks};
$admin->query_is($seconds, '2|t|t', 'as the intervals');
$bob->cancel;
$bob->wait->fails('57014', qr/cancel/, 'bob waits no more');
$alice->query_is('SELECT redis_unlock_all()', 1, 'given back');

# An orphan is nobody's.  The watchdog, which would give it back, stands still.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;
my $rule = $proxy->rule(match => 'orphan', action => 'hold');
$alice->start("SELECT redis_lock('orphan', '1h')");
$proxy->wait_for_rule($rule);
$alice->cancel;
$alice->wait->fails('57014', qr/cancel/, 'cancelled while it asks');
$admin->query_is('SELECT key, pid, datname, usename, application_name, lease_seconds, expires_in_seconds FROM redis_locks',
	'orphan' . '|NULL' x 6, 'an orphan has no names');
$admin->query_is('SELECT held, waiting FROM redis_lock_stats', '0|0', 'is not held and does not wait');
$proxy->release;
$proxy->clear;
kill 'CONT', $watchdog;
poll_until('the orphan to be given back', sub { $admin->value('SELECT count(*) FROM redis_locks') == 0 });

# A background worker: the apply worker, whose trigger takes a lock and stops.
$node->safe_psql('shop', q{CREATE TABLE t (i int PRIMARY KEY);
	CREATE PUBLICATION p FOR TABLE t});
$node->safe_psql('shop', q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (i int PRIMARY KEY);
	CREATE FUNCTION on_t() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.redis_xact_lock('applied');
		PERFORM pg_advisory_xact_lock(1);
		RETURN NEW;
	END$$;
	CREATE TRIGGER on_t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION on_t();
	ALTER TABLE t ENABLE ALWAYS TRIGGER on_t;});
$admin->query('SELECT pg_advisory_lock(1)');
my $publisher = $node->connstr('shop') =~ s/'/''/gr;
$node->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '$publisher' PUBLICATION p WITH (create_slot = false, copy_data = false)"
);
$node->safe_psql('shop', 'INSERT INTO t VALUES (1)');
poll_until('the apply worker to have the lock',
	sub { $admin->value('SELECT count(*) FROM redis_locks WHERE granted') == 1 });
# PostgreSQL 17 calls it "logical replication apply worker".
$admin->query_is(q{SELECT l.key, l.scope, replace(a.backend_type, 'apply ', ''), l.datname, l.usename = current_user
	FROM redis_locks l JOIN pg_stat_activity a USING (pid)},
	'applied|transaction|logical replication worker|postgres|t', 'a background worker has the lock');
$admin->query_is($same, '1|t', 'with the names of pg_stat_activity');
$bob->query_is($same, '1|t', 'for everybody');
$admin->query('SELECT pg_advisory_unlock(1)');
poll_until('the row', sub { $admin->value('SELECT count(*) FROM t') == 1 });
$node->safe_psql('postgres', 'DROP SUBSCRIPTION s');

# ----------
# redis_lock_stats: this moment
# ----------

my $counted = q{SELECT s.held, s.waiting, s.held = l.held AND s.waiting = l.waiting
		AND s.condition_waiting = 0 AND s.slots = l.slots
	FROM redis_lock_stats s, (SELECT count(*) FILTER (WHERE granted) AS held, count(waiting_since) AS waiting,
		count(*) AS slots FROM redis_locks) l};
my $carol = $node->session;

$admin->query_is($counted, '0|0|t', 'nothing is held');
$alice->query("BEGIN; SELECT redis_lock('a'), redis_xact_lock('a'), redis_lock('a'), redis_xact_lock('b')");
$admin->query_is($counted, '3|0|t', 'a scope is a row');
$_->start("SELECT redis_lock('a')") foreach $bob, $carol;
$node->wait_for_waiters('a', 2);
$admin->query_is($counted, '3|2|t', 'two wait');
$bob->cancel;
$bob->wait->fails('57014', qr/cancel/, 'one no longer');
$admin->query_is($counted, '3|1|t', 'one waits');
$redis->cmd('DEL', 'b');
$alice->query("SELECT redis_extend('b', '1 min')");
$admin->query_is('SELECT count(*) FROM redis_locks WHERE lost_at IS NOT NULL', 1, 'one is lost');
$admin->query_is($counted, '2|1|t', 'and not held');
$alice->query('ROLLBACK; SELECT redis_unlock_all()');
is($carol->wait->error, undef, 'handed over');
$admin->query_is($counted, '1|0|t', 'held by who waited');
$carol->query('SELECT redis_unlock_all()');
$admin->query_is($counted, '0|0|t', 'nothing is held');

# ----------
# redis_lock_stats: the time waited
# ----------

sub waited { return $admin->value('SELECT wait_seconds FROM redis_lock_stats'); }

# A wait counts when it has ended, with no less than the time from when it was
# seen (waits is counted when one begins) to when it could end, and no more than
# there was.  $end: what ends it, or after how many seconds it ends by itself.
sub counts_wait ($name, $waiter, $sql, $end)
{
	my $before = waited();
	my $waits = $admin->value('SELECT waits FROM redis_lock_stats');
	my $start = now();
	my $ends = $start;

	$waiter->start($sql);
	poll_until("$name: it waits",
		sub { $admin->value('SELECT waits FROM redis_lock_stats') > $waits });
	my $seen = now();
	if (ref $end)
	{
		pause(0.3);
		is(waited(), $before, "$name: nothing while it waits");
		$ends = now();
		$end->();
	}
	else
	{
		$ends += $end;
	}
	my $result = $waiter->wait;
	poll_until("$name: the end of its backend", sub { $waiter->is_gone }) if $result->dead;
	my $most = now() - $start;
	my $waited = waited() - $before;
	cmp_ok($waited, '>', 0, "$name: counts");
	cmp_ok($waited, '>=', $ends - $seen - 0.01, "$name: what was waited");
	cmp_ok($waited, '<=', $most + 0.01, "$name: once");
	return $result;
}

$admin->query('SELECT redis_lock_stats_reset()');
is(waited(), 0, 'zero after a reset');
$alice->query_is("SELECT redis_try_lock('k')", 't', 'a lock that is free');
$bob->query_is("SELECT redis_try_lock('k')", 'f', 'a try that does not wait');
$alice->query("SELECT redis_lock('k'), redis_unlock('k')");
is(waited(), 0, 'did not wait');

is( counts_wait('handed over', $bob, "SELECT redis_lock('k')",
		sub { $alice->query("SELECT redis_unlock('k')") })->error,
	undef,
	'handed over: taken');
is($admin->value('SELECT handoffs FROM redis_lock_stats'), 1, 'without Redis');
foreach my $case (
	[ 'a try', "SELECT redis_try_lock('k', '600 ms')", 0.6 ],
	[ 'lock_timeout', "SET lock_timeout = '600ms'; SELECT redis_lock('k')", 0.6, '55P03' ],
	[ 'cancelled', "RESET lock_timeout; SELECT redis_lock('k')", sub { $alice->cancel }, '57014' ],
	[ 'in a job', "CALL redis_with_lock('k', 'SELECT 1', '600 ms')", 0.6 ])
{
	my ($name, $sql, $end, $sqlstate) = @$case;
	my $result = counts_wait($name, $alice, $sql, $end);

	is($result->sqlstate // $result->value, $sqlstate // 'f', "$name: how it ends");
}

# A FATAL error passes no handler.
counts_wait('terminated', $carol, "SELECT redis_lock('k')", sub { $carol->terminate });
$carol->quit;

# Handed over, and cut off while it asks for its token.
counts_wait(
	'handed over and cancelled',
	$alice,
	"SELECT redis_fenced_lock('k')",
	sub {
		$rule = $proxy->rule(match => 'redisson_lock_token', action => 'hold');
		$bob->query("SELECT redis_unlock('k')");
		$proxy->wait_for_rule($rule);
		$alice->cancel;
	})->fails('57014', qr/cancel/, 'handed over and cancelled: an error');
$proxy->release;
$proxy->clear;

# A sleep at a condition
my $waits = q{SELECT waits, timeouts, cancels, wait_seconds, losses FROM redis_lock_stats};
my $sleeps = 'SELECT condition_waits, condition_wait_seconds >= 0.3, condition_waiting, waiting FROM redis_lock_stats';
my $lost = 'SELECT count(lost_at), count(lost_reason) FROM redis_locks';
my $before = $admin->query($waits)->out;
$alice->query("SELECT redis_lock('c')");
$alice->start("SELECT redis_condition_wait('c')");
poll_until('a sleep', sub { $admin->query($sleeps)->out eq '1|f|1|0' });
$admin->query_is($lost, '0|1', 'a sleep: its lock is not lost');
pause(0.3);
$alice->cancel;
$alice->wait->fails('57014', qr/cancel/, 'a sleep: cancelled');
$admin->query_is($sleeps, '1|t|0|0', 'a sleep: counts by itself');
$admin->query_is($lost, '1|1', 'a sleep: without its end the lock is lost');
$alice->query("SELECT redis_unlock('c'), redis_lock('c')");
$alice->query_is("SELECT redis_condition_wait('c', '10 ms')", 'f', 'a sleep: until its time is over');
$admin->query_is($waits, $before, 'a sleep: counts as nothing else');
$admin->query_is($lost, '0|0', 'a sleep: it has the lock again');
$alice->query("SELECT redis_unlock('c')");

# The one that looks for a deadlock is the one that ends.
my $dave = $node->session(settings => { deadlock_timeout => '1h' });
$dave->query("SELECT redis_lock('second')");
$bob->query("SELECT redis_lock('first')");
counts_wait('a deadlock', $bob, "SELECT redis_lock('second')",
	sub { $dave->start("SELECT redis_lock('first')") })
  ->fails('40P01', qr/deadlock/, 'a deadlock: an error');
$bob->query_is('SELECT redis_unlock_all()', 1, 'the first is given back');
is($dave->wait->error, undef, 'the other one goes on');
$dave->quit;

$admin->query('SELECT redis_lock_stats_reset()');
is(waited(), 0, 'a reset sets it to zero');

# ----------
# redis_lock_status
# ----------

my $up = q{SELECT count(*), bool_and(up), bool_and(up = (state = 'up')) FROM redis_lock_status};
$bob->query_is($up, '1|t|t', 'up, for everybody');
poll_until('a round trip', sub { $admin->value('SELECT round_trip FROM redis_lock_status') ne 'NULL' });
$admin->query_is(
	q{SELECT round_trip_seconds = EXTRACT(epoch FROM round_trip)::float8, round_trip_seconds BETWEEN 0 AND 60,
		renewal_lag_seconds = EXTRACT(epoch FROM renewal_lag)::float8 FROM redis_lock_status},
	't|t|t', 'its seconds');
$redis->stop;
$proxy->reset_all;
poll_until('that it is down', sub { $admin->value('SELECT state FROM redis_lock_status') eq 'down' });
$bob->query_is($up, '1|f|t', 'down');
$redis->start;
$node->wait_for_up;
$bob->query_is($up, '1|t|t', 'up again');

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
