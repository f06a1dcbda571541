# Copyright (c) 2026, lockredis contributors

# The extension in a schema of its own, as the documentation recommends, and in
# public: the same functions, views and tables, found by the search path or by
# their qualified names only; upgrade; table mode.  332_dump has dumps of it, 340_docs_commands
# has what a grant on all functions of public hands out.
# Proves G33, G34.

use LockRedis::Test;

# As the documentation has it
sub create_extension ($node, $dbname, $version = undef)
{
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
# ----------
# Upgrade
# ----------

my $where = q{SELECT extversion || ' ' || extnamespace::regnamespace FROM pg_extension WHERE extname = 'lockredis'};
my $version = $node->value(
	q{SELECT default_version FROM pg_available_extensions WHERE name = 'lockredis'});

$node->value('CREATE DATABASE upgraded');
create_extension($node, 'upgraded', '1.0');
$node->value('ALTER EXTENSION lockredis UPDATE', dbname => 'upgraded');
is($node->value($where, dbname => 'upgraded'), "$version lockredis", 'upgraded, in its place');

{
	my $s = $node->session(dbname => 'upgraded', user => 'alice', settings => { search_path => 'pg_catalog' });

	works('upgraded', 'lockredis.', $s);
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
