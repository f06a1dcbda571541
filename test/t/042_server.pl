# Copyright (c) 2026, lockredis contributors

# lockredis as a part of the server: loaded or not, on a hot standby and after its
# promotion, beside parallel workers, in single-user mode and pg_upgrade's servers.
# (040_watchdog and 391_primary_failover have crashes.)
# Proves G4, G8, G34.

use IPC::Run;
use LockRedis::Test;

my $redis = LockRedis::Redis->new;

# What $hint says without shared_preload_libraries.
my $not_loaded = qr/must be loaded via.*HINT:.*shared_preload_libraries/s;

# Calls of all functions of the extension, with some argument of each type.
sub all_calls ($node)
{
	return split /\n/, $node->value(
		q{
		SELECT format('%s %s(%s)',
					  CASE prokind WHEN 'p' THEN 'CALL'
								   ELSE 'SELECT * FROM' END,
					  p.oid::regproc,
					  (SELECT string_agg(
							  CASE a.type WHEN 'text'::regtype THEN '''k'''
										  WHEN 'interval'::regtype THEN '''1s'''
										  WHEN 'int8'::regtype THEN '1'
										  WHEN 'int4'::regtype THEN '1'
										  ELSE 'NULL' END, ', ' ORDER BY a.n)
						 FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n)))
		  FROM pg_proc p
		  JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
		  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
		 WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		   AND p.prorettype <> 'trigger'::regtype
		 ORDER BY 1});
}

#
# Not preloaded: CREATE EXTENSION loads the library, and says that it is too late.
#
my $plain = LockRedis::Node->create(
	'plain',
	redis => $redis,
	extension => 0,
	settings => { shared_preload_libraries => '' });
my $one = $plain->session;
$one->query_warns(
	'CREATE EXTENSION lockredis',
	'', '55000',
	qr/not loaded via "shared_preload_libraries".*HINT:.*restart the server/s,
	'not preloaded: created, with a warning');
my @calls = all_calls($plain);
cmp_ok(scalar @calls, '>=', 16, 'not preloaded: functions are found');
push @calls, map { "SELECT * FROM $_" }
  qw(redis_locks redis_lock_stats redis_lock_status);
foreach my $session ($one, $plain->session)
{
	my @wrong = grep {
		my $result = $session->query($_);
		($result->sqlstate || '') ne '55000' || $result->{raw} !~ $not_loaded
	} @calls;
	is("@wrong", '', 'not preloaded: every function and view says so');
}
$one->query_is('DISCARD ALL', '', 'not preloaded: DISCARD ALL');
$one->query_is('DROP EXTENSION lockredis; CREATE EXTENSION lockredis',
	'', 'not preloaded: dropped and created again');
is(scalar $redis->clients, 0, 'not preloaded: nobody went to Redis');
$one->quit;

# The same data directory, loaded as it should be.
$plain->append_conf('postgresql.conf', "shared_preload_libraries = 'lockredis'");
$plain->restart;
$plain->wait_for_up;
is( $plain->value("SELECT redis_try_lock('k'), redis_unlock('k')"),
	't|t',
	'preloaded after a restart');

#
# pg_upgrade's servers (postgres -b): no watchdog, no locks, no harm.
#
$plain->stop;
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-w', '-D',
	$plain->data_dir, '-l', $plain->logfile, '-o', '-b', 'start');
$plain->_update_pid(1);
is($plain->watchdog_pid, undef, 'binary upgrade: no watchdog');
$one = $plain->session;
$one->query_fails("SELECT redis_lock('k')",
	'55000', $not_loaded, 'binary upgrade: no locks');
$one->quit;
$plain->stop;

#
# Single-user mode: given leases work, and end with the session.
#
sub single_user ($sql, $name)
{
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[
			'postgres', '--single', '-F', '-j', '-D', $plain->data_dir,
			'postgres'
		],
		'<',
		\"$sql;\n\n",
		'>',
		\$out,
		'2>',
		\$err,
		IPC::Run::timeout(180));
	is($?, 0, "single-user mode: $name") || diag $err;
	return "$out$err";
}

like(
	single_user(
		"SELECT redis_try_lock('single', '0', '600s') AS taken, redis_hold_count('single') AS holds",
		'a given lease'),
	qr/taken = "t".*holds = "1"/s,
	'single-user mode: taken');
is($redis->cmd('EXISTS', 'single'),
	0, 'single-user mode: given back at its end');
like(
	single_user(
		"DROP EXTENSION lockredis;\n\nCREATE EXTENSION lockredis", 'DDL'),
	qr/^(?!.*ERROR)/s,
	'single-user mode: dropped and created');

#
# Preloaded, but the extension is not created anywhere.
#
my $primary = LockRedis::Node->create(
	'primary',
	redis => $redis,
	extension => 0,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 5
	});
ok($primary->watchdog_pid, 'not created: the watchdog runs');
is( $primary->value(
		'CREATE TABLE t (i int); INSERT INTO t VALUES (1); SELECT count(*) FROM t'
	),
	1,
	'not created: the server is fine');
is($primary->value('DISCARD ALL; SELECT 1'), 1, 'not created: DISCARD ALL');

$primary->value('CREATE EXTENSION lockredis');
my $two;

#
# Parallel query: the functions stay in the leader, and what gets into a worker
# by a function that is marked wrongly is refused there.
#
my $parallel =
  $primary->value('SHOW server_version_num') >= 160000
  ? 'debug_parallel_query'
  : 'force_parallel_mode';
$one = $primary->session;
$one->query(
	qq{
	CREATE TABLE big AS SELECT i FROM generate_series(1, 20000) i;
	ANALYZE big;
	SET $parallel = on;
	SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;});
like(
	$one->query(
		'EXPLAIN ANALYZE SELECT count(*) FROM big WHERE i % 2 = 0')->out,
	qr/Workers Launched: [1-9]/,
	'parallel: workers run');
$one->query_is(
	"SELECT count(*) FROM big WHERE i <= 50 AND redis_try_lock('p ' || i)",
	50, 'parallel: taken');
$one->query_is(
	"SELECT count(*) FROM big WHERE i <= 100 AND redis_is_held('p ' || i)",
	50, 'parallel: by the leader');
is( $primary->value('SELECT count(*), count(DISTINCT pid) FROM redis_locks'),
	'50|1',
	'parallel: by nobody else');
$one->query_is('SELECT redis_unlock_all()', 50, 'parallel: given back');
$one->query(
	q{
	CREATE FUNCTION sneak(k text) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE
	AS $$ BEGIN RETURN redis_try_lock(k); END $$;
	CREATE FUNCTION peep(k text) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE
	AS $$ BEGIN RETURN redis_is_held(k); END $$;
	SELECT redis_lock('mine');});
foreach my $function ('sneak', 'peep')
{
	$one->query_fails("SELECT $function('mine')",
		'25000', qr/parallel worker/, "parallel: $function in a worker is refused");
}
$one->query_is("RESET ALL; SELECT sneak('mine'), peep('mine')",
	't|t', 'parallel: the session is fine');
$one->quit;
nothing_left($primary, $redis, name => 'parallel: nothing is left');

#
# A hot standby with the same library and the same Redis.
#
$primary->backup('backup');
my $standby = LockRedis::Node->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$standby->wait_for_up;
$primary->wait_for_catchup($standby);

$one = $primary->session;
$two = $standby->session(settings => { 'lockredis.lease' => '5s' });
$two->query_is('SELECT pg_is_in_recovery()', 't', 'standby: in recovery');
$one->query("SELECT redis_lock('both')");
$two->query_is("SELECT redis_try_lock('both')",
	'f', 'standby: a lock of the primary excludes it');
$two->start("SELECT redis_lock('both')");
$standby->wait_for_waiters('both', 1);
$redis->wait_for_subscribers('both', 1);
$one->query("SELECT redis_unlock('both')");
is($two->wait(15)->error, undef, 'standby: woken by the primary');
$one->query_is("SELECT redis_try_lock('both')",
	'f', 'standby: its lock excludes the primary');
$two->query_is(
	"BEGIN; SELECT redis_try_xact_lock('transaction'); COMMIT",
	't', 'standby: in a transaction');
$redis->wait_for_key('transaction', 0);
$two->query_fails("SELECT $_", '25006', qr/read-only|recovery/, "standby: $_ writes the fence table")
  foreach "redis_fenced_xact_lock('fenced')", "redis_fence_check('fenced', 1)",
  "redis_fence_forget('fenced')";
# Promoted while a lock is held and another one awaited: both go on.
my $watchdog = $standby->watchdog_pid;
my $three = $standby->session;
my $owner = $redis->owner_of('both');
$one->query("SELECT redis_lock('awaited')");
$three->start("SELECT redis_lock('awaited')");
$standby->wait_for_waiters('awaited', 1);
$standby->promote;
$two->query_is("SELECT redis_is_held('both'), pg_is_in_recovery()",
	't|f', 'promoted: still held');
is_deeply($redis->hash('both'), { $owner => 1 }, 'promoted: the same in Redis');
is($standby->watchdog_pid, $watchdog, 'promoted: the same watchdog');
my $renewals =
  $standby->value(q{SELECT renewals FROM redis_locks WHERE key = 'both'});
$one->query("SELECT redis_unlock('awaited')");
is($three->wait(15)->error, undef, 'promoted: a waiter goes on');
$two->query_is("BEGIN; SELECT redis_fenced_xact_lock('fenced') > 0; COMMIT",
	't', 'promoted: the fence table can be written');
poll_until('a renewal',
	sub { $standby->value(q{SELECT renewals FROM redis_locks WHERE key = 'both'}) > $renewals });
$two->query_is("SELECT redis_unlock('both')", 't', 'promoted: given back');
$_->quit foreach $one, $two, $three;
nothing_left(
	[ $primary, $standby ], $redis,
	name => 'promoted: nothing is left',
	keys => qr/fenced/);
$standby->stop;
$redis->cmd('FLUSHALL');

#
# Reload: what needs a restart.
#
$primary->set('lockredis.max_locks' => 20);
is( $primary->value(
		q{SELECT setting, pending_restart FROM pg_settings
		   WHERE name = 'lockredis.max_locks'}),
	'10000|t',
	'reload: max_locks needs a restart');
end_test($primary, $redis, name => 'nothing is left');
