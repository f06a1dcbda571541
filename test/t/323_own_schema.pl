# Copyright (c) 2026, lockredis contributors

# The extension in a schema of its own, as the documentation recommends, and in
# public: the same functions, views and tables, found by the search path or by
# their qualified names only; upgrade, dump and restore; table mode.  And what a
# grant on all functions of public hands out.
# Proves G33, G34.

use LockRedis::Test;
use PostgreSQL::Test::Utils;

# As the documentation has it
sub create_extension
{
	my ($node, $dbname, $version) = @_;

	$node->safe_psql(
		$dbname, "CREATE SCHEMA lockredis;
		GRANT USAGE ON SCHEMA lockredis TO PUBLIC;
		CREATE EXTENSION lockredis SCHEMA lockredis" . (defined $version ? " VERSION '$version'" : ''));
	return;
}

# All kinds of locks, with functions that are called as $schema.name (or just by
# their names); the role may use what everybody may use.
sub works
{
	my ($name, $schema, $s) = @_;
	my $is = sub {
		my ($sql, $expected, $what) = @_;

		$sql =~ s/\b(?=redis_)/$schema/g;
		$s->query_is($sql, $expected, "$name: $what");
	};

	# The end of a transaction waits for its release for a tenth of a second; the watchdog has
	# it then.
	my $given_back = sub {
		poll_until("$name: it to be given back",
			sub { $s->value("SELECT count(*) FROM ${schema}redis_locks") == 0 });
	};

	$is->("SELECT redis_lock('k'), redis_hold_count('k'), redis_is_held('k'), redis_unlock('k')",
		'|1|t|t', 'session-level');
	$is->("BEGIN; SELECT redis_xact_lock('k'); SELECT redis_assert_held('k'); COMMIT", "\n",
		'transaction-level');
	$given_back->();
	$is->("SELECT redis_is_locked('k')", 'f', 'and given back');
	$is->("SELECT redis_fenced_xact_lock('k') > 0", 't', 'a token is recorded');
	$given_back->();
	$is->("SELECT token > 0 FROM redis_fences WHERE key = 'k'", 't', 'and is in the table');
	$is->("CALL redis_with_lock('k', 'SELECT 1')", 't', 'a job');
	$is->("SELECT count(*) FROM redis_locks", 0, 'redis_locks');
	$is->("SELECT acquires > 0 FROM redis_lock_stats", 't', 'redis_lock_stats');
	$is->("SELECT count(*) > 0 FROM redis_lock_status WHERE state = 'up'",
		't', 'redis_lock_status');
	$s->query_fails("SELECT ${schema}redis_force_unlock('k')",
		'42501', qr/permission denied/, "$name: what is not for everybody");
	return;
}

my ($node, $redis) = LockRedis::Node->create_with_redis('main');

$node->value('CREATE ROLE alice LOGIN');

# ----------
# Where it is, and how it is found
# ----------

$node->value('CREATE DATABASE app');
create_extension($node, 'app');
foreach my $case (
	[ 'public', 'postgres', 'public', '' ],
	[ 'public, qualified', 'postgres', 'pg_catalog', 'public.' ],
	[ 'own schema', 'app', 'public,lockredis', '' ],
	[ 'own schema, qualified', 'app', 'pg_catalog', 'lockredis.' ],
	[ 'own schema, empty path', 'app', "''", 'lockredis.' ])
{
	my ($name, $dbname, $path, $schema) = @$case;
	my $s = $node->session(
		dbname => $dbname,
		user => 'alice',
		settings => { search_path => $path });

	works($name, $schema, $s);
	$s->quit;
}
{
	my $s = $node->session(dbname => 'app', user => 'alice');

	$s->query_fails("SELECT redis_lock('k')",
		'42883', qr/does not exist/, 'own schema: not in the search path');
	$s->quit;
}

# One key in all databases, wherever the extension is
{
	my $one = $node->session(dbname => 'app');
	my $two = $node->session;

	$one->query("SELECT lockredis.redis_lock('shared')");
	$two->query_is("SELECT redis_try_lock('shared')", 'f', 'one key for both places');
	$one->query("SELECT lockredis.redis_unlock('shared')");
	$_->quit foreach $one, $two;
}

# ----------
# Grants
# ----------

my $allowed = q{SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
	WHERE proname IN ('redis_force_unlock', 'redis_fence_check', 'redis_fence_forget')
	  AND has_function_privilege('alice', oid, 'EXECUTE')};
foreach my $case (
	[ 'postgres', 'redis_fence_check redis_fence_forget redis_force_unlock' ],
	[ 'app', '' ])
{
	my ($dbname, $expected) = @$case;

	is($node->value($allowed, dbname => $dbname), '', "$dbname: revoked");
	$node->value('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO alice', dbname => $dbname);
	is($node->value($allowed, dbname => $dbname),
		$expected, "$dbname: after a grant on all functions in public");
}

# ----------
# Upgrade, dump, restore
# ----------

my $where = q{SELECT extversion || ' ' || extnamespace::regnamespace FROM pg_extension WHERE extname = 'lockredis'};
my $version = $node->value(
	q{SELECT default_version FROM pg_available_extensions WHERE name = 'lockredis'});

$node->value('CREATE DATABASE upgraded');
create_extension($node, 'upgraded', '1.0');
$node->value('ALTER EXTENSION lockredis UPDATE', dbname => 'upgraded');
is($node->value($where, dbname => 'upgraded'), "$version lockredis", 'upgraded, in its place');

my $dump = "$PostgreSQL::Test::Utils::tmp_check/own_schema.dump";
my $rows = 'SELECT string_agg(concat_ws($$=$$, key, token), $$,$$ ORDER BY key) FROM lockredis.redis_fences';

$node->value(q{SELECT lockredis.redis_fenced_xact_lock('dumped')}, dbname => 'app');
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('app') ], 'dumped');
$node->value('CREATE DATABASE restored');
command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), $dump ], 'restored');
is($node->value($where, dbname => 'restored'), "$version lockredis", 'in its schema');
is( $node->value($rows, dbname => 'restored'),
	$node->value($rows, dbname => 'app'),
	'with the tokens');
foreach my $dbname ('upgraded', 'restored')
{
	my $s = $node->session(
		dbname => $dbname,
		user => 'alice',
		settings => { search_path => 'pg_catalog' });

	works($dbname, 'lockredis.', $s);
	$s->quit;
}
nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
$node->stop;

# ----------
# Table mode: the worker finds its tables, whatever the search path is
# ----------

# For the clients only
$ENV{PGOPTIONS} = '-c search_path=public,lockredis';
my $table = LockRedis::Node->create(
	'table',
	mode => 'table',
	extension => 0,
	settings => { search_path => 'pg_catalog' });

create_extension($table, 'postgres');
$table->wait_for_up;
$table->value('CREATE ROLE alice LOGIN');
foreach my $path ('public,lockredis', 'pg_catalog')
{
	my $schema = $path =~ /lockredis/ ? '' : 'lockredis.';
	my $s = $table->session(user => 'alice', settings => { search_path => $path });

	works("table mode, $path", $schema, $s);
	$s->query("SELECT ${schema}redis_lock('row')");
	is($table->value("SELECT count(*) FROM lockredis.redis_lock_rows WHERE key = 'row'"),
		1, "table mode, $path: a row");
	$s->quit;
}
poll_until('the rows to go',
	sub { $table->value('SELECT count(*) FROM lockredis.redis_lock_rows') == 0 });

done_testing();
