# Copyright (c) 2026, lockredis contributors

# Table mode without its table, and what administrators do to it.  The
# database or the extension is missing at first, goes and
# comes back, without a restart; redis_lock_status says what is wrong; DROP
# DATABASE of others, VACUUM FULL; a database that nobody can connect to, as its DROP was
# interrupted, it accepts no connections, or is damaged; a standby refuses with a clear
# error, and after its promotion has no locks but those that need no server.
# Proves G8, G19, G25.

use LockRedis::Test;

my $table = LockRedis::Table->new(dbname => 'locks');
my $node = LockRedis::Node->create(
	'main',
	redis => $table,
	settings => {
		# Its workers would die as ours do, of a database that is damaged.
		autovacuum => 'off',
		wal_level => 'replica',
		max_wal_senders => 4,
		hot_standby => 'on',
		'lockredis.database' => 'locks',
		'lockredis.command_timeout' => limit(2) . 's'
	});
my $one = $node->session;

# TAP: requests fail with that, and the status comes to say the same.
sub is_down ($says, $name)
{
	my $error;

	# While a worker ends and another one starts the words are others.
	poll_until(
		"an error like $says",
		sub {
			$error = $one->query("SELECT redis_try_lock('down')");
			return ($error->sqlstate || '') eq '55000' && $error->{raw} =~ $says;
		});
	$error->fails('55000', $says, "$name: a request");
	poll_until(
		'the status to say so',
		sub {
			$one->value('SELECT state FROM redis_lock_status') eq 'down'
			  && $one->value('SELECT last_error FROM redis_lock_status') =~ $says;
		});
	$one->query_is('SELECT count(*) FROM redis_locks', '0', "$name: no lock");
	return;
}

sub is_up ($name)
{
	poll_until('the lock store to be there',
		sub { !$one->query("SELECT redis_is_locked('up')")->error });
	$node->wait_for_up;
	$one->query_is("SELECT redis_try_lock('up'), redis_unlock('up')", 't|t', "$name: works");
	return;
}

# ----------
# Missing at first
# ----------

is_down(qr/database "locks" does not exist/i, 'no database');
$node->safe_psql('postgres', 'CREATE ROLE somebody; CREATE DATABASE locks');
is_down(qr/extension "lockredis" does not exist in database "locks"/i, 'no extension');
$node->safe_psql('locks', 'CREATE SCHEMA elsewhere; CREATE EXTENSION lockredis SCHEMA elsewhere');
$node->safe_psql('postgres', 'ALTER DATABASE locks SET search_path = elsewhere');
is_up('database and extension created');

# ----------
# What an administrator does
# ----------

{
	my $two = $node->session;

	$one->query_is("SELECT redis_lock('kept')", '', 'a lock');
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$two->query_is("SELECT redis_try_lock('x'), redis_unlock('x')", 't|t', 'busy');
	$node->safe_psql('postgres', 'DROP DATABASE other');
	$one->query_is("SELECT redis_is_held('kept')", 't', 'nothing is lost by that');
	my ($status, undef, $error) = $node->psql('postgres', 'DROP DATABASE locks');
	isnt($status, 0, 'the database of locks is not');
	like($error, qr/being accessed by other users/, 'as it is in use');
	$node->psql('locks', 'VACUUM FULL redis_lock_rows, redis_lock_counters', on_error_die => 1);
	$node->psql('locks', 'REINDEX TABLE redis_lock_rows', on_error_die => 1);
	$node->psql('locks', 'ANALYZE redis_lock_rows', on_error_die => 1);
	$two->query_is("SELECT redis_try_lock('kept'), redis_lock_owner('kept') IS NOT NULL",
		'f|t', 'VACUUM FULL and REINDEX: the lock is there');
	$one->query_is("SELECT redis_extend('kept', '1h'), redis_unlock('kept')",
		't|t', 'and is its own');

	$two->quit;
}

# The extension is dropped while a lock is held, and created again: the lock is
# lost, which is told, and the key is free.
{
	my $two = $node->session;

	$one->query_is("SELECT redis_lock('dropped', '1h')", '', 'a lock');
	$node->safe_psql('locks', 'DROP EXTENSION lockredis');
	$two->query_fails("SELECT redis_try_lock('down')",
		'55000', qr/extension "lockredis" does not exist/i, 'DROP EXTENSION');
	$node->safe_psql('locks', 'CREATE EXTENSION lockredis SCHEMA elsewhere');
	$one->query_is("SELECT redis_extend('dropped', '2h')", 'f', 'DROP EXTENSION: the lock is lost');
	$one->query_warns("SELECT redis_unlock('dropped')",
		'f', '01000', qr/lost/, 'DROP EXTENSION: as is told');
	$two->query_is("SELECT redis_try_lock('dropped'), redis_unlock('dropped')",
		't|t', 'CREATE EXTENSION: the key is free');
	$two->quit;
}

# Tables of another form, another name or another owner are not touched: code of one of them would
# run as the other.  An upgrade that came half way has none of shares.
foreach my $case (
	[ 'another type', qr/"redis_lock_rows" is not as the script/,
		'redis_lock_rows ALTER hold_count TYPE bigint', 'redis_lock_rows ALTER hold_count TYPE integer' ],
	[ 'counters of somebody else', undef,
		'redis_lock_counters OWNER TO somebody', 'redis_lock_counters OWNER TO CURRENT_USER',
		qr/table "redis_lock_counters" has another owner than table "redis_lock_rows"/i, 'fenced' ],
	[ 'no shares', undef, 'redis_lock_shares RENAME TO away', 'away RENAME TO redis_lock_shares',
		qr/has no/, 'read' ],
	[ 'shares of somebody else', undef,
		'redis_lock_shares OWNER TO somebody', 'redis_lock_shares OWNER TO CURRENT_USER',
		qr/table "redis_lock_shares" has another owner than table "redis_lock_rows"/i, 'read' ])
{
	my ($name, $says, $change, $undo, $of_kind, $kind) = @$case;

	$node->safe_psql('locks', "ALTER TABLE elsewhere.$change");
	is_down($says, $name) if defined $says;
	if (defined $kind)
	{
		is_up($name);
		$one->query_fails("SELECT redis_try_${kind}_lock('up')", '55000', $of_kind, "$name: a $kind lock");
	}
	$node->safe_psql('locks', "ALTER TABLE elsewhere.$undo");
	is_up("$name: undone");
}
$node->safe_psql(
	'locks', q{
	CREATE TABLE copy (LIKE redis_lock_rows INCLUDING ALL);
	ALTER EXTENSION lockredis DROP TABLE redis_lock_rows;
	DROP TABLE redis_lock_rows});
is_down(qr/has no table "redis_lock_rows"/, 'table dropped');
$node->safe_psql(
	'locks', q{
	ALTER TABLE copy RENAME TO redis_lock_rows;
	ALTER EXTENSION lockredis ADD TABLE redis_lock_rows});
is_up('table made anew');

# The database goes, by force, and comes back.
$node->safe_psql('postgres', 'DROP DATABASE locks WITH (FORCE)');
is_down(qr/database "locks" does not exist/i, 'DROP DATABASE');
$node->safe_psql('postgres', 'CREATE DATABASE locks');
$node->safe_psql('locks', 'CREATE EXTENSION lockredis');
is_up('database created anew');

# ----------
# A database that nobody can connect to
# ----------

# The worker waits instead of starting and dying each second: no worker dies meanwhile but the
# first one, which may find out by connecting, and one more.
sub is_down_calmly ($says, $name, $seconds)
{
	$node->log_since_here;
	# Until it has ended it grants what is asked for.
	my $worker = $node->table_worker_pid;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
	poll_until("$name: the worker to end", sub { ($node->table_worker_pid // 0) != $worker });
	is_down($says, $name);

	# Nothing can be waited for here: that something does not happen.
	pause($seconds);
	cmp_ok($node->times_logged(qr/FATAL: /), '<=', 2, "$name: the worker does not die again and again");
	$one->query_fails("SELECT redis_try_lock('down')", '55000', $says, "$name: says it still");
	return;
}

$node->value(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'locks'});
is_down_calmly(qr/Database "locks" cannot be used: .*invalid database/, 'invalid', 4);
$node->safe_psql('postgres', $_) foreach 'DROP DATABASE locks', 'CREATE DATABASE locks';
$node->safe_psql('locks', 'CREATE EXTENSION lockredis');
is_up('made anew');

$node->value('ALTER DATABASE locks ALLOW_CONNECTIONS false');
is_down_calmly(qr/Database "locks" cannot be used: .*not currently accepting connections/, 'closed', 4);
$node->value('ALTER DATABASE locks ALLOW_CONNECTIONS true');
is_up('opened');

my $version = $node->data_dir . '/base/'
  . $node->value(q{SELECT oid FROM pg_database WHERE datname = 'locks'}) . '/PG_VERSION';
rename $version, "$version.away" or die "could not rename $version: $!";
is_down_calmly(qr/Database "locks" cannot be used: .*is not a valid data directory/, 'damaged', 7);
ok($node->logged(qr/PG_VERSION/), 'damaged: it says why');
rename "$version.away", $version or die "could not rename $version.away: $!";
is_up('mended');

# ----------
# A standby
# ----------

{
	$one->query_is("SELECT redis_lock('primary', '1h')", '', 'a lock of the primary');
	$one->query_is(
		q{CALL redis_with_lock('kept', 'SELECT 1', hold_at_least => '1h')},
		't', 'a key that stays locked');
	ok($table->take('by hand', 'some program', '1h'), 'a row that needs no server');
	$one->query_is("SELECT redis_fenced_lock('fence')", '1', 'a token');
	$node->backup('base');
	my $standby = LockRedis::Node->new('standby');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));

	my $there = $standby->session;
	is( $standby->value(
			'SELECT count(*) FROM redis_lock_rows', dbname => 'locks'),
		4,
		'the rows are on the standby');
	foreach my $call (
		"redis_lock('x')", "redis_try_lock('primary')",
		"redis_fenced_lock('x')", "redis_is_locked('primary')")
	{
		$there->query_fails("SELECT $call", '25006', qr/standby/, "standby: $call");
	}
	is($standby->table_worker_pid, undef, 'no table worker there');

	$node->stop;
	$standby->promote;
	$standby->wait_for_up;
	$there->query_is(
		q{SELECT redis_try_lock('primary'), redis_try_lock('kept'),
			redis_try_lock('by hand')},
		't|f|f', 'promoted: of the locks those are left that need no server');
	$there->query_is("SELECT redis_fenced_lock('fence')", '2', 'promoted: tokens go on');
	$there->query_is('SELECT redis_unlock_all()', '2', 'promoted: given back');
	$table->use_node($standby);
	$table->cmd('DEL', $_) foreach 'kept', 'by hand';
	$there->quit;
	nothing_left($standby, $table);
}

done_testing();
