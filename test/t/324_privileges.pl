# Copyright (c) 2026, lockredis contributors

# What an ordinary role can and cannot do, as docs/security.md lists it:
# - who may create the extension, and what becomes of privileges that are changed
# - nobody gives back or sees more than is theirs
# - who takes all slots can be seen, and ended
# - a wrapper that is SECURITY DEFINER can fix the terms of its lock
# Proves G32, G33.  Shows what is not guaranteed: N16.

use File::Basename qw(dirname);
use LockRedis::Search qw(found make_search);
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

my ($node, $redis) = servers(settings => { 'lockredis.max_locks' => 30, max_connections => 60 });

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE ROLE carol LOGIN;
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	CREATE ROLE signals LOGIN IN ROLE pg_signal_backend;
	CREATE DATABASE shop OWNER carol;
	CREATE SCHEMA bob AUTHORIZATION bob;});

make_search($node);

my $admin = $node->session;
my $alice = $node->session(user => 'alice');
my $bob = $node->session(user => 'bob');
my $place = '127.0.0.1:' . $redis->port;

# ----------
# Privileges
# ----------

# What PUBLIC may do with each function, table and view is in 325_functions.
my $shop = $node->session(user => 'carol', dbname => 'shop');
$shop->query_fails('CREATE EXTENSION lockredis',
	'42501', qr/permission denied to create extension/,
	'the owner of a database cannot create it');
$shop->quit;
is( $node->value(
		q{SELECT DISTINCT superuser, trusted, relocatable FROM pg_available_extension_versions WHERE name = 'lockredis'}
	),
	't|f|f',
	'superuser, not trusted, not relocatable');

# Taken away from everybody, and given to one.
$node->safe_psql(
	'postgres', q{
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION redis_lock(text, interval) TO alice;
	REVOKE SELECT ON redis_fences FROM PUBLIC;});
$bob->query_fails("SELECT redis_lock('k')", '42501',
	qr/permission denied for function redis_lock/, 'EXECUTE can be revoked');
$alice->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'and granted');
$bob->query_fails('SELECT * FROM redis_fences', '42501',
	qr/permission denied for table redis_fences/, 'keys of the fence table can be hidden');
$bob->query_is("SELECT redis_fenced_xact_lock('k') > 0", 't',
	'who cannot read it still records');
$node->safe_psql(
	'postgres', q{
	GRANT EXECUTE ON FUNCTION redis_lock(text, interval) TO PUBLIC;
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM alice;
	GRANT SELECT ON redis_fences TO PUBLIC;});

# Processes.  The watchdog has no role, and is nobody's to end.
my $watchdog = $node->watchdog_pid;
$bob->query_fails("SELECT pg_terminate_backend($watchdog)",
	'42501', qr/must be|permission denied/, 'an ordinary role cannot end the watchdog');
my $signals = $node->session(user => 'signals');
$signals->query_fails("SELECT $_($watchdog)",
	'42501', qr/must be a? ?superuser|permission denied/, "nor can a role of pg_signal_backend: $_")
  foreach qw(pg_cancel_backend pg_terminate_backend);
is($node->watchdog_pid, $watchdog, 'it runs');

# ----------
# What others have
# ----------

$alice->query_is("SELECT redis_lock('alice''s'); SELECT redis_fenced_lock('fenced') > 0",
	"\nt", 'two locks of alice');
$alice->query("BEGIN; SELECT redis_xact_lock('in transaction')");
foreach my $key ("alice''s", 'fenced', 'in transaction')
{
	$bob->query_warns("SELECT redis_unlock('$key')",
		'f', '01000', qr/you don't own/, "no unlock of $key");
	$bob->query_fails("SELECT redis_extend('$key', '1h')",
		'55000', qr/you don't own/, "no extend of $key");
	$bob->query_fails("SELECT redis_assert_held('$key')",
		'55000', qr/you don't own/, "no assert of $key");
	$bob->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key'), redis_fence('$key')",
		'f|0|NULL', "$key is not held");
}
$bob->query_is('SELECT redis_unlock_all()', '0', 'redis_unlock_all gives nothing of hers');
$bob->query_is('DISCARD ALL', '', 'nor does DISCARD ALL');
is_deeply([ sort grep { !/token/ } $redis->all_keys ],
	[ "alice's", 'fenced', 'in transaction' ], 'all of it is still locked');

# What the views tell of them: never the key or the owner, lost or waiting.
$redis->cmd('DEL', "alice's");
$redis->foreign_lock("alice's", owner => 'thief:1');
$alice->query_is("SELECT redis_extend('alice''s', '1h')", 'f', 'alice finds out');
my $waiting = $node->session(user => 'alice');
$node->queue_up('fenced', $waiting => "SELECT redis_lock('fenced')");
my $hidden = q{SELECT count(*), count(key), count(owner), count(lost_reason), count(pid), count(usesysid)};
is( $node->value("$hidden FROM redis_locks"),
	'4|4|3|1|4|4', 'the administrator sees it all');
$bob->query_is("$hidden FROM $_", '4|0|0|0|4|4', "bob sees that they are there: $_")
  foreach 'redis_locks', 'lockredis_locks()';
unlike($bob->query('SELECT l FROM redis_locks l')->out,
	qr/alice's|fenced|in transaction|thief/, 'and in no column what they are');
is(found($bob, 'thief:1'), '', 'nor in any other view');
$node->safe_psql('postgres', 'GRANT alice TO bob');
$bob->query_is("$hidden FROM redis_locks", '4|4|3|1|4|4', 'a member of her role sees them');
$node->safe_psql('postgres', 'REVOKE alice FROM bob');
$bob->query_is('SELECT address FROM redis_lock_status', 'NULL', 'no address for bob');
like($node->value('SET ROLE monitor; SELECT address FROM redis_lock_status'),
	qr/\Q$place\E/, 'but for pg_monitor');
$waiting->cancel;
$waiting->wait;
$waiting->quit;
$alice->query('ROLLBACK');
$alice->query('SELECT redis_unlock_all()');
poll_until('all to be given back', sub { $node->count_locks == 0 });
$redis->cmd('FLUSHALL');

# Rows belong to the role that connected, whatever the session calls itself
# when it takes its first lock.
my $pooler = $node->session;
$pooler->query("SET SESSION AUTHORIZATION alice; SELECT redis_lock('first')");
$pooler->query("RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION bob; SELECT redis_lock('second')");
is( $node->value(
		q{SELECT count(*), count(DISTINCT a.usesysid), bool_and(l.usesysid = a.usesysid)
		    FROM redis_locks l JOIN pg_stat_activity a USING (pid)}),
	'2|1|t',
	'redis_locks.usesysid is that of pg_stat_activity');
$alice->query_is('SELECT key FROM redis_locks', "NULL\nNULL",
	'no role sees the keys of another through it');
$pooler->quit;

# ----------
# Slots
# ----------

# bob takes all that there are: others are refused with an error that is in the
# log, and the view tells whose they are.
$node->log_since_here;
$bob->query_is("SELECT count(redis_lock('b' || i)) FROM generate_series(1, 30) i",
	'30', 'bob takes all slots');
$alice->query_fails("SELECT redis_lock('k')", '53400',
	qr/out of slots.*HINT.*lockredis\.max_locks.*30/s, 'alice gets none');
ok($node->logged(qr/ERROR:  out of slots for Redis locks/), 'which is in the log');
is( $node->value(
		q{SELECT usesysid::regrole, count(*), max(current_setting('lockredis.max_locks')::int) FROM redis_locks GROUP BY 1}),
	'bob|30|30',
	'the administrator sees who has them');
$signals->query_is('SELECT pg_terminate_backend(' . $bob->pid . ')',
	't', 'and ends the session');
poll_until('the session to be gone', sub { $bob->is_gone });
$bob->quit;
$alice->query_is("SELECT redis_try_lock('k'), redis_unlock('k')",
	't|t', 'which frees them');
$bob = $node->session(user => 'bob');

# What takes no slot: keys that hold_at_least keeps, counters, rows of the fence
# table.  A role without these functions can make none.
$bob->query_is(
	"CALL redis_with_lock('kept', 'SELECT 1', hold_at_least => '10min')",
	't', 'hold_at_least');
$bob->query_is("SELECT redis_fenced_xact_lock('counted') > 0", 't', 'a counter');
ok(poll_until('the counted one to be given back', sub { $node->count_locks == 0 }),
	'no row of redis_locks');
is_deeply([ $redis->all_keys ], [ 'kept', 'redisson_lock_token:{counted}' ],
	'but keys in Redis');
my $costly = join ', ', map { "redis_$_" } (
	map { "$_(text, interval)" } 'fenced_lock', 'fenced_xact_lock'),
  map { "$_(text, interval, interval)" } 'try_fenced_lock',
  'try_fenced_xact_lock';
my $job = 'redis_with_lock(text, text, interval, interval, interval, boolean)';
$node->safe_psql('postgres',
	"REVOKE EXECUTE ON FUNCTION $costly FROM PUBLIC; REVOKE EXECUTE ON PROCEDURE $job FROM PUBLIC");
$bob->query_fails($_, '42501', qr/permission denied/, $_)
  foreach "CALL redis_with_lock('k2', 'SELECT 1', hold_at_least => '10min')",
  map { "SELECT redis_$_('k2')" }
  qw(fenced_lock fenced_xact_lock try_fenced_lock try_fenced_xact_lock);
is(scalar $redis->all_keys, 2, 'no more of them');
$node->safe_psql('postgres',
	"GRANT EXECUTE ON FUNCTION $costly TO PUBLIC; GRANT EXECUTE ON PROCEDURE $job TO PUBLIC");
$redis->cmd('FLUSHALL');

# ----------
# Wrappers
# ----------

# A function that is SECURITY DEFINER gives one lock, on its own terms: settings
# of the caller do not weaken it, and the caller cannot give it back alone.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE account (balance int);
INSERT INTO account VALUES (100);
CREATE FUNCTION withdraw(amount int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	SET lockredis.commit_guard = 'verify'
	SET lockredis.on_lost = 'mark'
	SET lockredis.lease = '10min'
AS $$
BEGIN
	PERFORM public.redis_xact_lock('account');
	UPDATE public.account SET balance = balance - amount;
END $$;
REVOKE EXECUTE ON FUNCTION redis_xact_lock(text, interval) FROM PUBLIC;
SQL
$bob->query_fails("SELECT redis_xact_lock('account')",
	'42501', qr/permission denied/, 'not without the wrapper');
$bob->query(
	"SET lockredis.commit_guard = off; SET lockredis.on_lost = terminate; SET lockredis.lease = '100ms'");
$bob->query_is('BEGIN; SELECT withdraw(10)', '', 'the wrapper takes it');
is( $node->value(q{SELECT lease = '10min', scope, usesysid::regrole FROM redis_locks}),
	't|transaction|bob', 'with its own lease');
$bob->query_warns("SELECT redis_unlock('account')",
	'f', '01000', qr/you don't own/, 'the caller cannot unlock it');
$bob->query_is('SELECT redis_unlock_all()', '0', 'by no means');
is($redis->cmd('EXISTS', 'account'), 1, 'it is locked');
$redis->cmd('DEL', 'account');
$bob->query_fails('COMMIT', '40001', qr/lost/,
	'the guard of the wrapper counts, not that of the caller');
is($node->value('SELECT balance FROM account'), 100, 'nothing was written');
$bob->query_is('RESET ALL; BEGIN; SELECT withdraw(10); COMMIT', '', 'again');
is($node->value('SELECT balance FROM account'), 90, 'withdrawn');
$node->safe_psql('postgres',
	'GRANT EXECUTE ON FUNCTION redis_xact_lock(text, interval) TO PUBLIC');

# As the page has it, where the extension has a schema of its own
{
	my $page = slurp_file(dirname(__FILE__) . '/../../docs/security.md');
	my ($wrapper) = $page =~ /^### One lock to one role\n+```sql\n(.*?)^```/ms;

	$node->safe_psql(
		'shop', "CREATE SCHEMA lockredis; GRANT USAGE ON SCHEMA lockredis TO PUBLIC;
		CREATE EXTENSION lockredis SCHEMA lockredis;
		CREATE TABLE account (balance int); INSERT INTO account VALUES (100);
		CREATE ROLE cashier LOGIN; $wrapper");
	my $cashier = $node->session(user => 'cashier', dbname => 'shop');

	$cashier->query_fails("SELECT lockredis.$_('account')",
		'42501', qr/permission denied for schema lockredis/, "wrapped: no $_")
	  foreach qw(redis_lock redis_try_xact_lock redis_fenced_lock redis_unlock);
	$cashier->query_is('SELECT withdraw(10)', '', 'but by the wrapper');
	$cashier->quit;
	is($node->safe_psql('shop', 'SELECT balance FROM account'), 90, 'withdrawn');
}

# The job runner runs as its caller, also after its commits, and not inside a
# procedure of somebody else's rights.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE ran_as (who text);
GRANT INSERT ON ran_as TO PUBLIC;
CREATE PROCEDURE job(command text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$ DECLARE ran boolean; BEGIN CALL public.redis_with_lock('job', command, ran => ran); END $$;
SQL
my $write = q{'INSERT INTO public.ran_as VALUES (current_user)'};
$bob->query_is("CALL redis_with_lock('job', $write)", 't', 'a job');
$admin->query_is("SET ROLE alice; CALL redis_with_lock('job', $write); SELECT current_user; RESET ROLE",
	"t\nalice", 'a job after SET ROLE');
$bob->query_fails("CALL job($write)", '2D000', qr/transaction block/,
	'none through a procedure that is SECURITY DEFINER');
$bob->query_fails("CALL redis_with_lock('job', 'UPDATE public.account SET balance = 0')",
	'42501', qr/permission denied for table account/, 'with no more rights than its caller has');
is($node->value(q{SELECT string_agg(who, ' ' ORDER BY who) FROM ran_as}),
	'alice bob', 'each ran as its caller');

end_test($node, $redis);
