# Copyright (c) 2026, lockredis contributors

# Dumps, copies of the cluster and DROP while locks are held and awaited:
# - pg_dump neither waits for nor disturbs who holds, and has what is committed:
#   the fence table, and the privileges as the administrator has set them
# - pg_upgrade takes all of it over, and starts no watchdog on the way
# - DROP EXTENSION waits for who records a token only; what sessions hold they
#   keep, and give back at their end, or by name when it is there again
# - DROP DATABASE gives back what its sessions held, and nothing else
# Proves G34.

use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('old', redis => $redis);

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	GRANT EXECUTE ON FUNCTION redis_force_unlock(text), redis_fence_check(text, bigint) TO alice;
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION redis_lock(text, interval) TO alice;
	REVOKE SELECT ON redis_fences FROM PUBLIC;
	GRANT SELECT ON redis_fences TO alice;
	REVOKE SELECT ON redis_locks FROM PUBLIC;});

# Who may do what, for the two roles and everything that the extension has.
my $privileges = <<'SQL';
SELECT string_agg(concat_ws(' ', r, what), E'\n' ORDER BY r::text, what) FROM (
	SELECT r, p.oid::regprocedure::text || ' ' || has_function_privilege(r, p.oid, 'EXECUTE') AS what
	  FROM unnest('{alice,bob}'::name[]) r, pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
	UNION ALL
	SELECT r, c.oid::regclass::text || ' ' || has_table_privilege(r, c.oid, 'SELECT') || has_table_privilege(r, c.oid, 'INSERT')
	  FROM unnest('{alice,bob}'::name[]) r, pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
	  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis') x
SQL
my $before = $node->value($privileges);
like($before, qr/^alice redis_force_unlock\(text\) true$/m, 'a grant is seen');
like($before, qr/^bob redis_lock\(text,interval\) false$/m, 'so is a revocation');

# ----------
# pg_dump
# ----------

my ($holder, $waiter, $recorder) = map { $node->session } 1 .. 3;
$recorder->query(qq{SELECT redis_fenced_xact_lock(E'tab\\tline\\n"quote"''\\\\')});
$recorder->query("SELECT redis_fenced_xact_lock('committed')");
$holder->query("SELECT redis_lock('held')");
$node->queue_up('held', $waiter => "SELECT redis_lock('held')");
$recorder->query("BEGIN; SELECT redis_fenced_xact_lock('committed'), redis_fenced_xact_lock('open')");

my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump";
my $rows = q{SELECT string_agg(concat_ws('=', key, token, recorded_at), ',' ORDER BY key) FROM redis_fences};
my $committed = $node->value($rows);
command_ok(
	[
		'pg_dump', '-Fc', '--lock-wait-timeout=5s', '-f', $dump, '-d',
		$node->connstr('postgres')
	],
	'a dump waits for nobody');
$node->value('CREATE DATABASE restored');
command_ok(
	[ 'pg_restore', '-e', '-j', 2, '-d', $node->connstr('restored'), $dump ],
	'restored by two processes');
is($node->value($rows, dbname => 'restored'), $committed,
	'what was committed is there, byte by byte');
is($node->value($privileges, dbname => 'restored'), $before, 'privileges are as they were set');
unlike($committed, qr/open/, 'a token that is not committed is not in it');
is($node->count_locks(q{granted}), 3, 'all have what they had');

# ----------
# DROP
# ----------

# It waits for the transaction that has recorded a token.
my $admin = $node->session;
$admin->query_fails("SET lock_timeout = '300ms'; DROP EXTENSION lockredis",
	'55P03', qr/lock timeout/, 'DROP EXTENSION waits for who records');
$admin->query('RESET lock_timeout');
$recorder->query_is('COMMIT', '', 'which commits');
$node->wait_for_free($redis, $_) foreach 'committed', 'open';
my $given_out = $node->value(q{SELECT token FROM redis_fences WHERE key = 'committed'});
my $elsewhere = $node->session(dbname => 'restored');
$elsewhere->query("SELECT redis_lock('elsewhere')");
$recorder->query("BEGIN; SELECT redis_xact_lock('transaction')");
$recorder->query("CREATE TABLE t (what text); INSERT INTO t VALUES ('written')");
$admin->query_is('DROP EXTENSION lockredis', '', 'dropped, as nobody records');

$holder->query_fails("SELECT redis_unlock('held')",
	'42883', qr/does not exist/, 'its functions are gone');
is_deeply([ sort grep { !/token/ } $redis->all_keys ],
	[ 'elsewhere', 'held', 'transaction' ], 'what was held is still locked');
my $rows_elsewhere = q{SELECT string_agg(key || ' ' || granted, ', ' ORDER BY key, granted) FROM redis_locks};
is($node->value($rows_elsewhere, dbname => 'restored'),
	'elsewhere true, held false, held true, transaction true',
	'another database shows it');
$recorder->query_is('COMMIT', '', 'the transaction commits');
$redis->wait_for_key('transaction', 0);

# The waiter gets the lock when the holder ends, inside a function that is gone.
$holder->quit;
is($waiter->wait(10)->error, undef, 'a waiter gets the lock');
$admin->query_is('CREATE EXTENSION lockredis', '', 'created anew');
$waiter->query_is("SELECT redis_is_held('held'), redis_unlock('held')",
	't|t', 'what a session has it gives back by name');
$recorder->query_is("SELECT redis_fenced_xact_lock('committed') > $given_out", 't',
	'tokens go on, as Redis has the counter');
$elsewhere->query_is("SELECT redis_unlock('elsewhere')", 't', 'the other database did not notice');

# What a session takes last before it drops is given back at its end.
$waiter->query("SELECT redis_lock('last')");
$waiter->query_is('DROP EXTENSION lockredis', '', 'dropped by who holds');
$waiter->quit;
is($redis->cmd('EXISTS', 'last'), 0, 'given back by the end of the session');
$admin->query('CREATE EXTENSION lockredis');

# A database with sessions that hold locks.
my $stays = $node->session;
$stays->query("SELECT redis_lock('stays')");
$elsewhere->query("SELECT redis_lock('goes')");
$admin->query_is('DROP DATABASE restored WITH (FORCE)', '', 'a database is dropped');
poll_until('its lock to be given back', sub { !$redis->cmd('EXISTS', 'goes') });
$stays->query_is("SELECT redis_is_held('stays'), redis_unlock('stays')", 't|t',
	'that of another one stays');
$_->quit foreach $admin, $elsewhere, $recorder, $stays;
nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);

# ----------
# pg_upgrade
# ----------

# From a cluster to a new one of the same version, both with the library.
$node->safe_psql(
	'postgres', q{
	GRANT EXECUTE ON FUNCTION redis_force_unlock(text) TO alice;
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM PUBLIC;
	CREATE DATABASE second;});
$node->safe_psql('second', 'CREATE SCHEMA locks; CREATE EXTENSION lockredis SCHEMA locks');
my $token = $node->value("SELECT locks.redis_fenced_xact_lock('upgraded')", dbname => 'second');
$before = $node->value($privileges);
$committed = $node->value($rows);
my $new = LockRedis::Node->create('new', redis => $redis, start => 0);
$node->stop;
my $bindir = `pg_config --bindir`;
chomp $bindir;
my ($here, $output) = (PostgreSQL::Test::Utils::tempdir(), '');
my $monitor = $redis->monitor;
IPC::Run::run(
	[
		'pg_upgrade', '-b', $bindir, '-B', $bindir, '-d', $node->data_dir,
		'-D', $new->data_dir, '-p', $node->port, '-P', $new->port, '-s',
		$node->host, '-j', 1
	],
	'>', \$output, '2>&1',
	init => sub { chdir $here or die $! });
is($?, 0, 'pg_upgrade') || diag $output;
is_deeply([ $monitor->stop ], [], 'without a word to Redis');
$new->start;
is($new->value($rows), $committed, 'pg_upgrade: the fence table is there');
is($new->value($privileges), $before, 'pg_upgrade: and the privileges');
$redis->cmd('FLUSHALL');
is( $new->value("SELECT locks.redis_fenced_xact_lock('upgraded') > $token", dbname => 'second'),
	't',
	'pg_upgrade: tokens go on, even if Redis has lost the counter');
is($new->value("SELECT redis_try_lock('k'), redis_unlock('k')"), 't|t', 'pg_upgrade: locks work');
end_test($new, $redis, keys => qr/^redisson_lock_token:/);
