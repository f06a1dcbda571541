# Copyright (c) 2026, lockredis contributors

# Fencing: the table cannot be written by ordinary roles except through the
# functions, nor made to run their code as its owner; other schemas, databases,
# encodings; where nothing can be written; a record that its own transaction undoes.  (321_search_path has names in front of
# ours, 332_dump a dump, 042_server a standby.)
# Proves G17, G33.  Shows what is not guaranteed: N15.

use LockRedis::Test;
use LockRedis::Topic::Fencing;

start_servers();

# ----------
# Who may write the table
# ----------

my $seen = "SELECT max(token) FROM redis_fences WHERE key = ";

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE bob LOGIN;
CREATE ROLE service LOGIN;
GRANT EXECUTE ON FUNCTION redis_fence_check(text, bigint) TO service;
SQL
$one->value("SELECT redis_fenced_xact_lock('row')");

subtest 'ordinary roles' => sub {
	my $bob = $node->session(user => 'bob');

	$bob->query_is("SELECT redis_fenced_xact_lock('bob')", '1',
		'an ordinary role records through the function');
	is(row('bob'), 1, 'indeed');
	$bob->query_is("$seen 'bob'", '1', 'and may look at the table');
	# 365_rights has what it cannot do.

	# The owner of the extension.
	$one->query_is(
		"SELECT redis_fence_forget('bob'), redis_fence_forget('bob')",
		't|f', 'the owner may forget a key, once');
	is(row('bob'), '', 'forgotten');
	$bob->query_is("SELECT redis_fenced_xact_lock('bob')", '2',
		'a key that was forgotten starts from its counter');
	$one->query_is("BEGIN; SELECT redis_fence_forget('bob'); ROLLBACK",
		't', 'in a transaction that is rolled back');
	is(row('bob'), 2, 'not forgotten');
	$one->query_fails("SELECT redis_fence_forget(NULL)",
		'22004', qr/key must not be null/, 'null key');

	# Somebody else's identity is not left behind, by errors neither.
	$bob->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock('bob'); SELECT current_user",
		"3\nbob", 'the role is still itself');
	$two->start("SELECT redis_fence_check('bob', 50)");
	$node->wait_for_postgres_lock($two);
	$bob->query('ROLLBACK');
	$two->wait;
	$bob->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$two->query_is("SELECT redis_fence_check('bob', 60)", '', 'recorded: 60');
	my $result = $bob->query(<<'SQL');
DO $$
BEGIN
	PERFORM redis_fenced_xact_lock('bob');
EXCEPTION WHEN serialization_failure THEN
	RAISE NOTICE 'caught as %', current_user;
END $$
SQL
	is_deeply([ map { $_->message } $result->notices ],
		['caught as bob'], 'also after an error in the middle');
	$bob->query_fails("DELETE FROM redis_fences", '42501',
		qr/permission denied/, 'and has its own rights');
	$bob->query('ROLLBACK');

	# Through a function of the owner's, and with another role.
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$ SELECT public.redis_fenced_xact_lock('bob') $$;
GRANT service TO bob;
SQL
	$bob->query_is('SELECT definer()', '61', 'inside SECURITY DEFINER');
	$bob->query_is(
		"SET ROLE service; SELECT redis_fenced_xact_lock('bob'), current_user; RESET ROLE",
		'62|service', 'after SET ROLE');
	$bob->quit;
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Other databases
# ----------

# The extension in a schema of another name.
subtest 'another schema' => sub {
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other',
		'CREATE SCHEMA "Odd ""schema"; CREATE EXTENSION lockredis SCHEMA "Odd ""schema"');
	my $s = $node->session(dbname => 'other');

	$s->query_fails("SELECT redis_fenced_xact_lock('row')",
		'42883', qr/does not exist/, 'not on the path');
	my $before = counter('row') || 0;
	$s->query_is(
		q{SELECT "Odd ""schema".redis_fenced_xact_lock('row')},
		$before + 1, 'by its full name; keys are common to all databases');
	is($node->value(q{SELECT token FROM "Odd ""schema".redis_fences WHERE key = 'row'},
			dbname => 'other'),
		$before + 1, 'recorded there');
	is(row('row'), 1, 'each database has its own table');

	# Renamed while sessions have used it.
	$node->safe_psql('other', 'ALTER SCHEMA "Odd ""schema" RENAME TO locks');
	$s->query_is("SELECT locks.redis_fenced_xact_lock('row')",
		$before + 2, 'a schema that is renamed later');
	$s->query_is("SELECT locks.redis_fence_check('row', 100)", '', 'check');
	$s->query_is("SELECT locks.redis_fence_forget('row')", 't', 'forget');

	# Made anew while sessions have used it.
	$node->safe_psql('other',
		'DROP EXTENSION lockredis; CREATE EXTENSION lockredis SCHEMA locks');
	$s->query_is("SELECT locks.redis_fenced_xact_lock('row')",
		$before + 3, 'an extension that is made anew');
	$s->query_is('SELECT key, token FROM locks.redis_fences',
		'row|' . ($before + 3), 'recorded');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# The owner of a database owns the schema public and can rename it, but is no
# superuser.  A table of the same name stands where ours was, with a trigger:
# whatever finds our table by its name must not run it as the owner of ours.
subtest 'a schema that is put in the place of ours' => sub {
	$node->safe_psql('postgres',
		'CREATE ROLE carol LOGIN; CREATE DATABASE shop OWNER carol');
	$node->safe_psql('shop', 'CREATE EXTENSION lockredis');
	my ($carol, $other) =
	  map { $node->session(dbname => 'shop', user => 'carol') } 1 .. 2;
	my $witness = sub {
		return $node->value(q{SELECT string_agg(DISTINCT who, ' ') FROM w.witness},
			dbname => 'shop');
	};

	# Her session has used the table, so its statements are prepared.
	my $token = $carol->value("SELECT redis_fenced_xact_lock('shop')");
	my $setup = $carol->query(<<'SQL');
CREATE SCHEMA w;
CREATE TABLE w.witness (who text);
CREATE FUNCTION w.trigger() RETURNS trigger LANGUAGE plpgsql
	AS $$ BEGIN INSERT INTO w.witness VALUES (current_user); RETURN NEW; END $$;
ALTER SCHEMA public RENAME TO other;
CREATE SCHEMA public;
CREATE TABLE public.redis_fences (LIKE other.redis_fences INCLUDING ALL);
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON public.redis_fences
	FOR EACH ROW EXECUTE FUNCTION w.trigger();
SQL
	is($setup->{raw}, '', 'set up');
	my $result = $carol->query("SELECT other.redis_fenced_xact_lock('shop')");
	is($witness->(), '', 'no code of hers has run as the owner of the extension');
	is($result->out . ($result->error || ''),
		$token + 1, 'and the token is recorded');
	is( $node->value('SELECT token FROM other.redis_fences', dbname => 'shop'),
		$token + 1,
		'where it belongs');

	# A second session of hers exchanges the two schemas again and again, so that
	# some exchange comes after the name was looked up and before it is used.
	$setup = $carol->query(<<'SQL');
CREATE SEQUENCE w.stop;
CREATE PROCEDURE w.swap() LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT (SELECT is_called FROM w.stop) LOOP
		ALTER SCHEMA public RENAME TO between;
		ALTER SCHEMA other RENAME TO public;
		ALTER SCHEMA between RENAME TO other;
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE w.use(n int) LANGUAGE plpgsql AS $$
DECLARE
	recorded int := 0;
BEGIN
	WHILE recorded < n LOOP
		BEGIN
			PERFORM public.redis_fenced_xact_lock('shop');
			recorded := recorded + 1;
		EXCEPTION WHEN undefined_function OR undefined_table OR invalid_schema_name THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END $$;
SQL
	is($setup->{raw}, '', 'set up');
	$other->start('CALL w.swap()');
	is($carol->query('CALL w.use(200)', 600)->error, undef,
		'200 tokens recorded while schemas are exchanged');
	$node->value("SELECT nextval('w.stop')", dbname => 'shop');
	is($other->wait->error, undef, 'many times');
	is($witness->(), '', 'no code of hers has run as the owner of the extension');
	$_->quit foreach $carol, $other;
	nothing_left($node, $redis, keys => $counters);
};

subtest 'key_prefix' => sub {
	my $s = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });

	$s->query_is("SELECT redis_fenced_xact_lock('prefixed'), redis_fence('prefixed')",
		'1|1', 'taken');
	is(counter('app:prefixed'), 1, 'the prefix is part of the counter');
	is(row('app:prefixed'), 1, "and of the table's key");
	$s->query_is("SELECT redis_fence_check('prefixed', 7)", '', 'recorded: 7');
	is(row('app:prefixed'), 7, 'redis_fence_check');
	$s->query_is("SELECT redis_fenced_xact_lock('prefixed')", '8', 'raised');
	$s->query_is("SELECT redis_fence_forget('prefixed')", 't',
		'redis_fence_forget');
	is(row('app:prefixed'), '', 'forgotten');
	$s->quit;
	nothing_left($node, $redis, keys => $counters);
};

# Redis speaks UTF-8; the table has the key in the encoding of its database.
subtest 'encodings' => sub {
	my $key = "cl\xc3\xa9 \xc3\xbc";

	$node->safe_psql('postgres',
		"CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
	$node->safe_psql('postgres',
		"CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
	foreach my $dbname ('latin1', 'ascii')
	{
		$node->safe_psql($dbname, 'CREATE EXTENSION lockredis');
		my $s = $node->session(dbname => $dbname);

		$redis->cmd('FLUSHALL');
		$s->query_is("SELECT redis_fenced_xact_lock('$key')", '1', "$dbname: taken");
		is(counter($key), 1, "$dbname: the counter's name is UTF-8");
		$s->query_is(
			"SELECT key = '$key', octet_length(key), token FROM redis_fences",
			't|' . ($dbname eq 'latin1' ? 5 : 7) . '|1',
			"$dbname: the key is in the encoding of the database");
		$s->query_is("SELECT redis_fence_check('$key', 9)", '', "$dbname: check");
		$s->query_is("SELECT redis_fenced_xact_lock('$key')", '10', "$dbname: raised");
		$s->query_fails("SELECT redis_fence_check('$key', 2)",
			'23000', qr/of lock "\Q$key\E"/, "$dbname: the key in a message");
		$s->query_is("SELECT redis_fence_forget('$key')", 't', "$dbname: forget");
		if ($dbname eq 'ascii')
		{
			$s->query_fails(
				"SELECT redis_fenced_xact_lock(E'\\xff')",
				'22021', qr/invalid byte sequence/,
				"$dbname: no UTF-8, no key");
		}
		$s->quit;
	}
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# Where nothing can be written
# ----------

subtest 'a read-only transaction' => sub {
	my $before = counter('row') || 0;

	foreach my $function ('redis_fenced_xact_lock', 'redis_try_fenced_xact_lock')
	{
		$one->query_fails("BEGIN READ ONLY; SELECT $function('row')",
			'25006', qr/read-only transaction/, $function);
		$one->query('ROLLBACK');
	}
	$one->query_fails("BEGIN READ ONLY; SELECT redis_fence_check('row', 5000)",
		'25006', qr/read-only transaction/, 'redis_fence_check');
	$one->query('ROLLBACK');
	is(counter('row') || 0, $before, 'no token was drawn');
	nothing_left($node, $redis, keys => $counters);
};

# ----------
# A record that its own transaction undoes
# ----------

# A transaction that has recorded a token, and then undoes or outdoes that
# itself: with redis_fence_forget, redis_fence_check of a higher token, statements
# of the table's owner, or a new table.  When it takes the lock again, its token
# has to be in the table at COMMIT, and above all others:
#
#	 BEGIN
#	 redis_fenced_xact_lock	  the row has the token
#	 redis_fence_forget		  the row is gone
#	 redis_fenced_xact_lock	  what was remembered of the first call is not true
#	 COMMIT					  without a row a late holder would get in
#
# Also with the undoing rolled back, and at each isolation level.  Other sessions
# cannot do it meanwhile, since the row is locked.
my $keys = 0;

my $lock = "redis_fenced_xact_lock('k')";

# A transaction of the statements; KEY in them is a new key, 'k' the same.
sub transaction ($statements, $output, $row, $name)
{
	$keys++;
	$statements =~ s/'k'/'k$keys'/g;
	my $result = $one->query($statements);
	is($result->error ? $result->error->message : $result->out, $output, $name);
	$one->query('ROLLBACK') if $result->error;
	is(row("k$keys"), $row, "$name: recorded");
	return;
}

foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	# The WARNING that the snapshot is older than the lock is not the subject.
	$one->query('SET client_min_messages = error');
	my $begin = "BEGIN ISOLATION LEVEL $level";

	transaction("$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT redis_try_fenced_xact_lock('k'); COMMIT",
		"1\nt\n1", 1, "$level, forgotten, and try");
	transaction("$begin; SELECT $lock; SELECT redis_fence_check('k', 10); SELECT $lock; COMMIT",
		"1\n\n11", 11, "$level, a higher token");
	transaction("$begin; SELECT $lock; SELECT redis_fence_check('k', 1); SELECT $lock; COMMIT",
		"1\n\n1", 1, "$level, the same token");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT redis_fence_check('k', 10); SELECT $lock; COMMIT",
		"1\nt\n\n11", 11, "$level, forgotten, and a higher token");
	transaction("$begin; SELECT $lock; DELETE FROM redis_fences; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, deleted by the owner");
	transaction("$begin; SELECT $lock; UPDATE redis_fences SET token = 10 WHERE key = 'k'; SELECT $lock; COMMIT",
		"1\n11", 11, "$level, changed by the owner");
	transaction("$begin; SELECT $lock; TRUNCATE redis_fences; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, truncated");
	transaction(
		"$begin; SELECT $lock; DROP EXTENSION lockredis; CREATE EXTENSION lockredis; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, a new table");

	# Rolled back: the row is as before, and the hold has what it has.
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1\n1", 1, "$level, forgotten, recorded and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_check('k', 10); SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\n\n11\n11", 11, "$level, a higher token and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); RELEASE s; SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten in a subtransaction that commits");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SAVEPOINT s; SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1\n1", 1, "$level, recorded again in what is rolled back");
	transaction("$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; ROLLBACK",
		"1\nt\n1", '', "$level, all rolled back");

	# The same with a hold over several transactions, which knows its record.
	transaction(
		"SELECT redis_fenced_lock('k'); SELECT $lock; $begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; COMMIT; SELECT redis_unlock('k')",
		"1\n1\n1\nt\n1\nt", 1, "$level, a session-level lock");
	$one->query('RESET client_min_messages');
}

# Another session cannot come between.
$one->query_is("SELECT redis_fenced_xact_lock('between')", '1', 'a row');
$one->query_is("BEGIN; SELECT redis_fenced_xact_lock('between')", '2', 'recorded');
foreach my $what (
	"SELECT redis_fence_forget('between')",
	"SELECT redis_fence_check('between', 10)",
	'DELETE FROM redis_fences',
	'TRUNCATE redis_fences',
	'DROP EXTENSION lockredis')
{
	$two->query_fails("BEGIN; SET LOCAL lock_timeout = '100ms'; $what",
		'55P03', qr/lock timeout/, "$what waits");
	$two->query('ROLLBACK');
}
$two->start("SELECT redis_fence_forget('between')");
poll_until('the other session to wait',
	sub { $node->value('SELECT cardinality(pg_blocking_pids(' . $two->pid . '))') > 0 });
$one->query_is("SELECT redis_fenced_xact_lock('between'); COMMIT", '2', 'still recorded');
is($two->wait->out, 't', 'then it is forgotten');
is(row('between'), '', 'indeed');
$one->query_is("SELECT redis_fenced_xact_lock('between')", '3', 'the next transaction');
is(row('between'), 3, 'records it');

# Taking it again and again asks Redis nothing.
$one->query("BEGIN; SELECT redis_fenced_xact_lock('again')");
# Not what the watchdog sends: it has the releases that a COMMIT waits for no longer.
my @requests = $redis->session_commands(
	sub {
		$one->query_is("SELECT count(redis_fenced_xact_lock('again')) FROM generate_series(1, 100)",
			100, 'a hundred times');
	});
is(scalar @requests, 0, 'without a request');
$one->query('COMMIT');

end_test($node, $redis, keys => $counters);
