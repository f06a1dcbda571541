# Copyright (c) 2026, lockredis contributors

# ALTER EXTENSION, while the extension is in use (the scripts of two later
# versions are put beside that of this one for the time of the test):
# - each version that was shipped has a path to this one
# - an update in place disturbs no holder, waiter, transaction or job, keeps
#   privileges and the fence table, and waits only for who records a token
# - an update that needs a newer library fails as a whole
# - the first version works with this library, and is like a new one after its
#   update; views of users stay, with what they show and who may read them
#   (218_publication_update has table mode)
# - SET SCHEMA is refused; only the owner may do any of it
# Proves G34.

use LockRedis::Test;

my $directory = `pg_config --sharedir`;
chomp $directory;
$directory .= '/extension';
if (!-w $directory)
{
	die "$directory is not writable\n" if $ENV{CI};
	plan(skip_all => "$directory is not writable");
}

my ($node, $redis) = LockRedis::Node->create_with_redis('main');
my $this = $node->value(
	q{SELECT default_version FROM pg_available_extensions WHERE name = 'lockredis'}
);

is( $node->value(
		"SELECT string_agg(source, ' ') FROM pg_extension_update_paths('lockredis') WHERE target = '$this' AND path IS NULL"
	),
	'',
	'each version has a path to this one');

# ----------
# The first version
# ----------

# Everything that the extension has, with comments and privileges, but for OIDs.
my $catalog = <<'SQL';
SELECT string_agg(what, E'\n' ORDER BY what COLLATE "C") FROM (
	SELECT concat_ws(' ', 'function', p.oid::regprocedure, pg_get_functiondef(p.oid), p.proacl, obj_description(p.oid, 'pg_proc')) AS what
	  FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	UNION ALL
	SELECT concat_ws(' ', 'relation', c.oid::regclass, c.relkind, c.relacl, c.reloptions, obj_description(c.oid, 'pg_class'), pg_get_viewdef(c.oid))
	  FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
	UNION ALL
	SELECT concat_ws(' ', 'column', a.attrelid::regclass, a.attnum, a.attname, a.atttypid::regtype, a.attnotnull, a.attacl, col_description(a.attrelid, a.attnum))
	  FROM pg_attribute a JOIN pg_depend d ON d.objid = a.attrelid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
	 WHERE a.attnum > 0
	UNION ALL
	SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger
	UNION ALL
	SELECT concat_ws(' ', 'constraint', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid > 16383
	UNION ALL
	SELECT concat_ws(' ', 'extension', extversion, extrelocatable, extconfig::regclass[], extcondition) FROM pg_extension WHERE extname = 'lockredis') x
SQL

# Each function, with arguments that suit it.
my $calls = <<'SQL';
SELECT format('%s %s(%s)', CASE prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT * FROM' END, p.oid::regproc,
	(SELECT string_agg(CASE WHEN a.type = 'int4'::regtype AND p.proname ~ 'permit' THEN '9' WHEN a.n = 1 AND p.proname ~ 'permit' THEN $$'p'$$ WHEN p.proargnames[a.n] = 'id' THEN quote_literal(repeat('0', 32)) WHEN a.type = 'int4'::regtype THEN '1' WHEN a.type = 'text[]'::regtype THEN $$'{k,l}'$$ WHEN a.n = 1 AND p.proname ~ 'semaphore' THEN $$'sem'$$ WHEN a.n = 1 AND p.proname ~ 'token|latch' THEN quote_literal(p.proname || random()) WHEN a.n = 1 AND p.proname ~ 'read|write' THEN $$'rw'$$ WHEN a.n = 1 AND p.proname ~ 'condition' THEN $$'c'$$ WHEN a.n = 1 THEN $$'k'$$ WHEN p.proargnames[a.n] = 'kind' THEN $$'reentrant'$$ WHEN a.type = 'text'::regtype THEN $$'SELECT'$$
		WHEN a.type = 'interval'::regtype AND p.proname ~ 'condition' THEN $$'1ms'$$ WHEN a.type = 'interval'::regtype THEN $$'1min'$$ WHEN a.type = 'int8'::regtype THEN '1000' ELSE 'NULL' END, ', ' ORDER BY a.n)
	   FROM unnest(proargtypes) WITH ORDINALITY AS a(type, n)))
  FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
 WHERE p.prorettype <> 'trigger'::regtype
 ORDER BY p.proname NOT LIKE '%permit_init', p.proname LIKE '%unlock%', p.proname LIKE '%assert%', p.proname LIKE '%acquire%', 1
SQL
my @views = map { "SELECT * FROM $_" } qw(redis_locks redis_lock_stats redis_lock_status redis_fences);

sub use_everything ($s, $dbname, $name)
{
	my @failed;

	$s->query("SELECT redis_lock('c')");
	foreach my $call (@views, (split /\n/, $node->value($calls, dbname => $dbname)), @views)
	{
		my $result = $s->query($call);
		push @failed, "$call: " . $result->error if $result->error;
	}
	is("@failed", '', "$name: every function and view works");
	$s->query('SELECT redis_unlock_all()');
	return;
}

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'first', 'fresh';
$node->safe_psql('first', q{CREATE EXTENSION lockredis VERSION '1.0'});
$node->safe_psql('fresh', 'CREATE EXTENSION lockredis');
my $first = $node->session(dbname => 'first');
$first->query("SELECT redis_lock('k')");
use_everything($first, 'first', '1.0');
$first->query(<<'SQL');
CREATE ROLE reader;
CREATE VIEW mine AS SELECT * FROM redis_locks;
CREATE VIEW numbers AS SELECT acquires, reset_at FROM redis_lock_stats;
CREATE VIEW stores AS SELECT s FROM redis_lock_status s;
CREATE VIEW internal AS SELECT key FROM lockredis_locks();
CREATE FUNCTION one_of(redis_locks) RETURNS text LANGUAGE sql AS 'SELECT $1.key';
GRANT SELECT ON mine, redis_fences TO reader;
REVOKE SELECT ON redis_locks FROM PUBLIC;
GRANT SELECT ON redis_locks TO reader;
PREPARE rows AS SELECT pid, key FROM redis_locks;
SELECT redis_lock('held');
EXECUTE rows;
-- One who may make triggers on the table is not to run code by that.
CREATE TABLE witness AS SELECT current_user AS who LIMIT 0;
CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO witness VALUES (current_user); RETURN OLD; END';
GRANT TRIGGER ON redis_fences TO reader;
SET ROLE reader;
CREATE TRIGGER spy BEFORE DELETE ON redis_fences EXECUTE FUNCTION spy();
RESET ROLE;
SQL
like($first->query('SELECT * FROM mine')->out, qr/\|held\|/, 'a view of a user');
$first->query_is("BEGIN; SET LOCAL session_replication_role = 'local'; ALTER EXTENSION lockredis UPDATE; SHOW session_replication_role; COMMIT", 'local', 'updated from 1.0');
$first->query_is('SELECT count(*) FROM witness', '0', 'and ran no trigger');
like($first->query('SELECT * FROM mine')->out, qr/^\d+(\|[^|]*){18}$/, 'it has its columns');
$first->query_is('SELECT key FROM mine', 'held', 'and shows what there is');
$first->query_is(
	'SELECT (SELECT count(*) FROM numbers), (SELECT count(*) FROM stores), (SELECT key FROM internal)',
	'1|1|held', 'so do others');
$first->query_is('SELECT one_of(l), l.datname FROM redis_locks l',
	'held|first', 'a function of its row type');
is($first->query('EXECUTE rows')->out, $first->pid . '|held', 'a prepared statement');
$first->query_is(
	q{SELECT has_table_privilege('reader', 'redis_locks', 'SELECT'), has_table_privilege('reader', 'redis_fences', 'SELECT'), has_table_privilege('public', 'redis_locks', 'SELECT')},
	't|t|f', 'privileges are as they were set');
$first->query_is("SELECT redis_unlock('held')", 't', 'the holder has it');
$first->query(
	'DROP TRIGGER spy ON redis_fences; DROP FUNCTION spy; DROP TABLE witness; DROP VIEW mine, numbers, stores, internal; DROP FUNCTION one_of; REVOKE TRIGGER ON redis_fences FROM reader; REVOKE SELECT ON redis_locks, redis_fences FROM reader; REVOKE ALL ON redis_locks FROM postgres; GRANT ALL ON redis_locks TO postgres; GRANT SELECT ON redis_locks TO PUBLIC'
);
$first->query("SELECT redis_lock('k')");
use_everything($first, 'first', 'updated');
is( $node->value($catalog, dbname => 'first'),
	$node->value($catalog, dbname => 'fresh'),
	'what was updated is like what is new');
$first->quit;
$node->safe_psql('postgres', "DROP DATABASE $_") foreach 'first', 'fresh';
$redis->cmd('FLUSHALL');

# ----------
# Two later versions
# ----------

my @scripts;
my $owner = $$;

sub script ($from, $to, $sql)
{
	my $path = "$directory/lockredis--$from--$to.sql";

	open my $fh, '>', $path or die "could not create $path: $!";
	push @scripts, $path;
	print $fh
	  "\\echo Use \"ALTER EXTENSION lockredis UPDATE TO '$to'\" to load this file. \\quit\n$sql";
	close $fh or die $!;
	return;
}

END
{
	unlink @scripts if defined $owner && $owner == $$;
}

# What updates usually do: a column, a new function, one and a view replaced.
my $view = $node->value(q{SELECT rtrim(pg_get_viewdef('redis_locks'::regclass), ';')});
script($this, 'next', <<"SQL");
ALTER TABLE redis_fences ADD COLUMN recorded_by regrole;
CREATE FUNCTION redis_now_held(key text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
CREATE OR REPLACE FUNCTION redis_is_held(key text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10;
CREATE OR REPLACE VIEW redis_locks AS SELECT v.*, 'new' AS more FROM ($view) v;
SQL
script('next', 'too-new', <<'SQL');
CREATE FUNCTION redis_first() RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION redis_second() RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_of_tomorrow'
LANGUAGE C;
SQL

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE TABLE written (what text);
	CREATE FUNCTION locked(k text) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN RETURN redis_is_held(k); END $$;});

sub version
{
	return $node->value(q{SELECT extversion FROM pg_extension WHERE extname = 'lockredis'});
}

# ----------
# In use
# ----------

my ($admin, $holder, $waiter, $writer, $recorder, $runner) =
  map { $node->session(settings => { 'lockredis.lease' => '6s' }) } 1 .. 6;
$holder->query("SELECT redis_lock('held'), redis_lock('held')");
$holder->query_is("SELECT locked('held')", 't', 'a function that was planned before');
$holder->query("PREPARE held AS SELECT redis_hold_count(\$1); EXECUTE held('held')");
$node->queue_up('held', $waiter => "SELECT redis_lock('held')");
$writer->query("BEGIN; SELECT redis_xact_lock('transaction'); INSERT INTO written VALUES ('before')");
$recorder->query("SELECT redis_fenced_xact_lock('recorded')");
my $token = $recorder->value("BEGIN; SELECT redis_fenced_xact_lock('recorded')");
$runner->start(
	q{CALL redis_with_lock('job', 'DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM written WHERE what = ''after'') LOOP PERFORM pg_sleep(0.05); COMMIT; END LOOP; END $$')}
);
poll_until('the job', sub { $redis->cmd('EXISTS', 'job') });

my $rows = q{SELECT string_agg(concat_ws(' ', pid, key, scope, granted, hold_count, fence, owner, waiting_since, lost_at), ',' ORDER BY pid, key, scope) FROM redis_locks};
my $before = $node->value($rows);
is(scalar(() = $before =~ /,/g), 4, 'four holds and a waiter');

my $alice = $node->session(user => 'alice');
$alice->query_fails($_, '42501', qr/must be owner of extension/, "$_: not by others")
  foreach "ALTER EXTENSION lockredis UPDATE TO 'next'",
  'ALTER EXTENSION lockredis SET SCHEMA pg_temp', 'DROP EXTENSION lockredis';

# The script changes the fence table, so it waits for who records a token.
$admin->query_fails(
	"SET lock_timeout = '300ms'; ALTER EXTENSION lockredis UPDATE TO 'next'",
	'55P03', qr/lock timeout/, 'while a token is recorded: waits');
is(version(), $this, 'nothing has changed');
$admin->query('RESET lock_timeout');
$admin->start("ALTER EXTENSION lockredis UPDATE TO 'next'");
poll_until('the update to wait',
	sub { $node->value('SELECT cardinality(pg_blocking_pids(' . $admin->pid . '))') > 0 });
is($node->value($rows), $before, 'meanwhile all have what they had');
$recorder->query_is('COMMIT', '', 'the token is committed');
is($admin->wait->error, undef, 'then it goes on');
is(version(), 'next', 'updated');
$node->wait_for_free($redis, 'recorded');
$before = join ',', grep { !/ recorded / } split /,/, $before;
is($node->value($rows), $before, 'all have what they had, by the new view');

# Everybody goes on, with what was planned before and what is new.
$holder->query_is("EXECUTE held('held'); SELECT locked('held'), redis_now_held('held')",
	"2\nt|t", 'the holder has it');
my $renewals = $node->value(q{SELECT renewals FROM redis_locks WHERE key = 'held' AND granted});
poll_until(
	'a renewal',
	sub {
		$node->value(q{SELECT renewals FROM redis_locks WHERE key = 'held' AND granted}) >
		  $renewals;
	});
$recorder->query_is("SELECT redis_fenced_xact_lock('recorded')",
	$token + 1, 'tokens are recorded by a session that did so before');
$recorder->query_is(q{SELECT token FROM redis_fences WHERE key = 'recorded'},
	$token + 1, 'indeed');
$writer->query_is("INSERT INTO written VALUES ('after'); COMMIT", '', 'the transaction commits');
ok($node->wait_for_free($redis, 'transaction'), 'and gives back');
is($runner->wait->out, 't', 'the job ends');
$holder->query_is("SELECT redis_unlock('held'), redis_unlock('held')", 't|t',
	'the holder gives back');
is($waiter->wait(60)->error, undef, 'the waiter goes on');
$waiter->query_is("SELECT redis_unlock('held')", 't', 'and gives back');

# ----------
# What does not work
# ----------

$holder->query("SELECT redis_lock('held')");
$admin->query_fails("ALTER EXTENSION lockredis UPDATE TO 'too-new'",
	'42883', qr/could not find function "lockredis_of_tomorrow"/,
	'a script for a newer library');
is(version(), 'next', 'fails');
$admin->query_fails('SELECT redis_first()', '42883', qr/does not exist/, 'as a whole');
$admin->query_fails("ALTER EXTENSION lockredis UPDATE TO '$_'", '22023', qr/no update path/, "no way to $_")
  foreach $this, 'unknown';
$admin->query("CREATE SCHEMA locks");
$admin->query_fails('ALTER EXTENSION lockredis SET SCHEMA locks',
	'0A000', qr/does not support SET SCHEMA/, 'it stays in its schema');
$holder->query_is("SELECT redis_unlock('held')", 't', 'nobody is disturbed');

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
