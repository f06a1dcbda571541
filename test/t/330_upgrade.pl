# Copyright (c) 2026, lockredis contributors

# ALTER EXTENSION, while the extension is in use (the scripts of two later
# versions are put beside that of this one for the time of the test):
# - each version that was shipped has a path to this one
# - an update in place disturbs no holder, waiter, transaction or job, keeps
#   privileges and the fence table, and waits only for who records a token
# - an update that needs a newer library fails as a whole
# - SET SCHEMA is refused; only the owner may do any of it

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $directory = `pg_config --sharedir`;
chomp $directory;
$directory .= '/extension';
if (!-w $directory)
{
	die "$directory is not writable\n" if $ENV{CI};
	plan(skip_all => "$directory is not writable");
}

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);
my $this = $node->value(
	q{SELECT default_version FROM pg_available_extensions WHERE name = 'lockredis'}
);

is( $node->value(
		"SELECT string_agg(source, ' ') FROM pg_extension_update_paths('lockredis') WHERE target = '$this' AND path IS NULL"
	),
	'',
	'each version has a path to this one');

# ----------
# Two later versions
# ----------

my @scripts;
my $owner = $$;

sub script
{
	my ($from, $to, $sql) = @_;
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
script($this, 'next', <<'SQL');
ALTER TABLE redis_fences ADD COLUMN recorded_by regrole;
CREATE FUNCTION redis_now_held(key text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
CREATE OR REPLACE FUNCTION redis_is_held(key text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockredis_is_held'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10;
CREATE OR REPLACE VIEW redis_locks AS SELECT *, 'new' AS more FROM lockredis_locks();
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
	GRANT EXECUTE ON FUNCTION redis_force_unlock(text) TO alice;
	REVOKE EXECUTE ON FUNCTION redis_unlock_all() FROM PUBLIC;
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
$waiter->start("SELECT redis_lock('held')");
$node->wait_for_waiters('held', 1);
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
poll_until(
	'the update to wait',
	sub {
		$node->value('SELECT cardinality(pg_blocking_pids(' . $admin->pid . '))') > 0;
	});
is($node->value($rows), $before, 'meanwhile all have what they had');
$recorder->query_is('COMMIT', '', 'the token is committed');
is($admin->wait->error, undef, 'then it goes on');
is(version(), 'next', 'updated');
$before = join ',', grep { !/ recorded / } split /,/, $before;
is($node->value($rows), $before, 'all have what they had, by the new view');

# Everybody goes on, with what was planned before and what is new.
$holder->query_is("EXECUTE held('held'); SELECT locked('held'), redis_now_held('held')",
	"2\nt|t", 'the holder has it');
my $renewals =
  $node->value(q{SELECT renewals FROM redis_locks WHERE key = 'held' AND granted});
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
$writer->query_is("INSERT INTO written VALUES ('after'); COMMIT", '',
	'the transaction commits');
is($redis->cmd('EXISTS', 'transaction'), 0, 'and gives back');
is($runner->wait->out, 't', 'the job ends');
$holder->query_is("SELECT redis_unlock('held'), redis_unlock('held')", 't|t',
	'the holder gives back');
is($waiter->wait(6)->error, undef, 'the waiter goes on');
$waiter->query_is("SELECT redis_unlock('held')", 't', 'and gives back');

# Privileges are as they were set.
$alice->query_is("SELECT redis_force_unlock('nothing')", 'f', 'a grant has stayed');
$alice->query_fails('SELECT redis_unlock_all()', '42501', qr/permission denied/,
	'so has a revocation');
$alice->query_fails("SELECT redis_fence_check('k', 1)", '42501',
	qr/permission denied/, 'and what was nobody\'s');

# ----------
# What does not work
# ----------

$holder->query("SELECT redis_lock('held')");
$admin->query_fails("ALTER EXTENSION lockredis UPDATE TO 'too-new'",
	'42883', qr/could not find function "lockredis_of_tomorrow"/,
	'a script for a newer library');
is(version(), 'next', 'fails');
$admin->query_fails('SELECT redis_first()', '42883', qr/does not exist/, 'as a whole');
$admin->query_fails("ALTER EXTENSION lockredis UPDATE TO '$this'",
	'22023', qr/no update path/, 'there is no way back');
$admin->query_fails("ALTER EXTENSION lockredis UPDATE TO 'unknown'",
	'22023', qr/no update path/, 'nor to an unknown version');
$admin->query("CREATE SCHEMA locks");
$admin->query_fails('ALTER EXTENSION lockredis SET SCHEMA locks',
	'0A000', qr/does not support SET SCHEMA/, 'it stays in its schema');
$holder->query_is("SELECT redis_unlock('held')", 't', 'nobody is disturbed');

# ----------
# Other databases
# ----------

# Each has its version; locks are the server's.
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('postgres', 'CREATE DATABASE new');
$node->safe_psql('old', 'CREATE EXTENSION lockredis');
$node->safe_psql('new', q{CREATE EXTENSION lockredis VERSION 'next'});
my ($old, $new) = map { $node->session(dbname => $_) } 'old', 'new';
$old->query_is("SELECT redis_try_lock('both')", 't', 'the older version has the lock');
$new->query_is("SELECT redis_try_lock('both')", 'f', 'the newer one not');
$new->query_is('SELECT granted, more FROM redis_locks', 't|new', 'but sees it');
$new->query_is("SELECT redis_fenced_xact_lock('k') > 0, redis_now_held('k')",
	't|t', 'created by all scripts in a row');
$old->query_is("ALTER EXTENSION lockredis UPDATE TO 'next'; SELECT redis_now_held('both'), redis_unlock('both')",
	't|t', 'updated by the session that holds');

$_->quit foreach $admin, $holder, $waiter, $writer, $recorder, $runner, $alice,
  $old, $new;
nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
done_testing();
