# Copyright (c) 2026, lockredis contributors

# Locks that follow the transaction: released at commit, at rollback, and at the
# rollback of the savepoint or exception block in which they were taken, whatever
# ends the transaction; what that costs, in client commands.
# Proves G4, G31.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Transactions;

start_servers();

# ----------
# From taking to the end of the transaction
# ----------

foreach my $end ('COMMIT', 'ROLLBACK', 'COMMIT AND CHAIN', 'ROLLBACK AND CHAIN')
{
	subtest $end => sub {
		$one->query_is('BEGIN', '', 'begin');
		costs($one, "SELECT redis_xact_lock('k')", '', 1, 'taking it');
		is(count_in_redis('k'), 1, 'Redis has it, once');
		is(rows_of('k'), 'transaction 1', 'the view shows its scope');
		$one->query_is("SELECT redis_is_held('k'), redis_hold_count('k')", 't|1', 'held once');
		costs(
			$one,
			q{SELECT redis_xact_lock('k');
			  SELECT redis_try_xact_lock('k');
			  SELECT redis_try_xact_lock('k', '1 s', '1 min');
			  SELECT redis_hold_count('k')},
			"\nt\nt\n1", 0, 'taking it again');
		$two->query_is(
			"SELECT redis_try_lock('k'), redis_try_xact_lock('k')",
			'f|f', 'others do not get it');
		costs($one, $end, '', 1, 'giving it back');
		is_free('k', 'it is free');
		$one->query_is("SELECT redis_is_held('k'), redis_hold_count('k')", 'f|0', 'not held');
		return unless $end =~ /CHAIN/;

		# The next transaction has begun, and has nothing of the one before.
		costs($one, "SELECT redis_xact_lock('k')", '', 1,
			'taking it in the chained transaction');
		costs($one, 'COMMIT', '', 1, 'giving that back');
		is_free('k', 'free again');
	};
}

# Two commands and nothing else, not even a PING.
# Connected anew, should a release have been answered too late before.
$one->query_is("SELECT redis_is_locked('m')", 'f', 'it is connected');
my @lines = $redis->session_commands(
	sub {
		run($one, "BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('m');
			 COMMIT");
	});
is_deeply(
	[ map { (LockRedis::Monitor->args($_))[0] } @lines ],
	[qw(EVALSHA EVALSHA)],
	'a transaction with one lock sends two commands')
  || diag @lines;

costs($one, "SELECT redis_xact_lock('single')", '', 2, 'a single statement is a transaction');
is_free('single', 'which ends with it');
costs(
	$one,
	q{SELECT redis_xact_lock('implicit') \;
	  SELECT redis_is_held('implicit') \; INSERT INTO t VALUES (2)},
	"\nt",
	2,
	'an implicit block');
is_free('implicit', 'releases at its end');
$one->query_fails(q{SELECT redis_xact_lock('implicit') \; SELECT 1/0},
	'22012', qr/division/, 'an implicit block that fails');
is_free('implicit', 'releases too');

# At the error, not when the client gets round to say ROLLBACK.
$one->query("BEGIN; SELECT redis_xact_lock('failed'); SELECT 1/0");
is_free('failed', 'an error gives it back at once');
$one->query_is('ROLLBACK', '', 'the client hears of it later');

# ----------
# Savepoints
# ----------

# [ what is done before, the statement, its commands if they are counted, the locks that are left,
# name ]
foreach my $step (
	[
		q{BEGIN; SELECT redis_xact_lock('outer'); SAVEPOINT a; SELECT redis_xact_lock('in a');
		  SAVEPOINT b; SELECT redis_xact_lock('in b')},
		'ROLLBACK TO b', 1, [ 'outer', 'in a' ], 'the inner one gives back its lock only'
	],
	[ '', 'ROLLBACK TO b', 0, [ 'outer', 'in a' ], 'the savepoint stays' ],
	[
		"SELECT redis_xact_lock('in b')", 'ROLLBACK TO b',
		1, [ 'outer', 'in a' ], 'what was taken after it goes each time'
	],
	[ "SELECT redis_xact_lock('in b')", 'ROLLBACK TO a', undef, ['outer'], 'both levels at once' ],
	[ '', 'COMMIT', 1, [], 'the outermost' ],

	# A released savepoint leaves its locks to its parent, whatever becomes of that.
	[
		q{BEGIN; SAVEPOINT a; SAVEPOINT b; SELECT redis_xact_lock('b1');
		  RELEASE b; SAVEPOINT c; SELECT redis_xact_lock('c1'); RELEASE c},
		'ROLLBACK TO a', 1, [], 'the parent of two that were released'
	],
	[
		q{SELECT redis_xact_lock('b1'); RELEASE a; SAVEPOINT a; SELECT redis_xact_lock('c1')},
		'ROLLBACK TO a', 1, ['b1'], 'released before another one of that name'
	],
	[ '', 'COMMIT', 1, [], 'all released' ],

	# Taken before: a rollback of a re-entry gives nothing back.
	[
		q{BEGIN; SELECT redis_xact_lock('before'); SAVEPOINT a; SELECT redis_xact_lock('before')},
		'ROLLBACK TO a', 0, ['before'], 'a re-entry'
	],
	[ '', 'ROLLBACK', 1, [], 'which is counted once' ])
{
	my ($before, $sql, $commands, $left, $name) = @$step;

	# Connected anew, should a release have been answered too late before.
	run($one, $before || "SELECT redis_is_locked('m')");
	defined $commands ? costs($one, $sql, '', $commands, "$sql: $name") : run($one, $sql);
	left_are($left, "$sql: $name: what is left");
}

# A session-level lock of a savepoint outlives its rollback, beside the
# transaction-level one of the same key that does not.
run($one,
	q{BEGIN; SAVEPOINT a; SELECT redis_xact_lock('mixed');
	  SELECT redis_lock('mixed')}
);
is(rows_of('mixed'), 'session 1, transaction 1', 'both scopes in a savepoint');
costs($one, 'ROLLBACK TO a', '', 0, 'rolled back');
is(rows_of('mixed'), 'session 1', 'the session-level one stays');
$one->query_is('ROLLBACK', '', 'and so after the rollback of all');
$one->query_is("SELECT redis_hold_count('mixed'), redis_unlock('mixed')",
	'1|t', 'until it is unlocked');

# ----------
# Exception blocks, procedures
# ----------

# Each round takes two locks, in a block that fails in every other round.
run($one,
	q{BEGIN;
	  DO $$
	  BEGIN
	      FOR i IN 1 .. 60 LOOP
	          BEGIN
	              PERFORM redis_xact_lock('round ' || i), redis_xact_lock('shared');
	              IF i % 2 = 0 THEN
	                  RAISE division_by_zero;
	              END IF;
	          EXCEPTION WHEN division_by_zero THEN
	              IF redis_is_held('round ' || i) THEN
	                  RAISE 'still held';
	              END IF;
	          END;
	      END LOOP;
	  END $$});
left_are([ (map { 'round ' . (2 * $_ - 1) } 1 .. 30), 'shared' ],
	'exception blocks in a loop keep what succeeded');
run($one, "SELECT redis_is_locked('m')");
costs($one, 'COMMIT', '', 1, 'all given back by one command');
left_are([], 'all of them');

run($one,
	q{CREATE FUNCTION stays_locked(k text) RETURNS int LANGUAGE plpgsql AS $$
	  BEGIN
	      FOR i IN 1 .. 6000 LOOP
	          IF NOT redis_is_locked(k) THEN
	              RETURN 0;
	          END IF;
	          PERFORM pg_sleep(0.01);
	      END LOOP;
	      RETURN 1;
	  END $$;
	  CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
	  DECLARE
	      seen text := '';
	  BEGIN
	      PERFORM redis_xact_lock('step'), redis_lock('kept');
	      seen := seen || redis_hold_count('step') || redis_is_locked('step')::int;
	      COMMIT;
	      seen := seen || redis_hold_count('step') || stays_locked('step');
	      PERFORM redis_xact_lock('step');
	      ROLLBACK;
	      seen := seen || redis_hold_count('step') || stays_locked('step');
	      PERFORM redis_xact_lock('step');
	      BEGIN
	          PERFORM redis_xact_lock('inner');
	          RAISE division_by_zero;
	      EXCEPTION WHEN division_by_zero THEN
	          seen := seen || stays_locked('inner');
	      END;
	      COMMIT AND CHAIN;
	      seen := seen || redis_hold_count('step') || stays_locked('step');
	      PERFORM redis_xact_lock('step');
	      RAISE NOTICE '%', seen || redis_hold_count('kept');
	  END $$});
{
	my $result = $one->query('CALL steps()');
	is_deeply([ $result->error, map { $_->message } $result->notices ],
		[ undef, '11' . '00' . '00' . '0' . '00' . '1' ],
		'transactions that end in a procedure');
	left_are(['kept'], 'the last one ends with the call');
	$one->query_is("SELECT redis_unlock('kept')",
		't', 'session-level locks outlive them');
}

# ----------
# At commit: deferred triggers, errors, holdable cursors
# ----------

# The deferred trigger asks for the lock when COMMIT runs: it waits there, and
# commits once the other session unlocks.
run($one,
	q{CREATE TABLE watched (a int);
	  CREATE FUNCTION take_deferred() RETURNS trigger LANGUAGE plpgsql AS $$
	  BEGIN
	      PERFORM redis_xact_lock('deferred');
	      PERFORM redis_xact_lock('deferred ' || NEW.a);
	      RETURN NULL;
	  END $$;
	  CREATE CONSTRAINT TRIGGER later AFTER INSERT ON watched
	  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION take_deferred()}
);
$two->query_is("SELECT redis_lock('deferred')", '', 'somebody has the lock');
run($one, 'BEGIN; INSERT INTO watched VALUES (1), (2)');
is($redis->cmd('EXISTS', 'deferred 1'), 0, 'the trigger has not run');
$one->start('COMMIT');
$node->wait_for_waiters('deferred', 1);
is($node->value('SELECT count(*) FROM watched'), 0, 'commit waits');
$two->query_is("SELECT redis_unlock('deferred')", 't', 'unlocked');
is($one->wait->error, undef, 'committed');
is($node->value('SELECT count(*) FROM watched'), 2, 'rows are there');
left_are([], 'locks of deferred triggers are released');

# An error in the deferred work: the locks from before and from there go.
$one->query_fails(
	q{BEGIN; SELECT redis_xact_lock('unique');
	  INSERT INTO watched VALUES (3);
	  INSERT INTO pairs VALUES (1), (1);
	  COMMIT},
	'23505', qr/pairs_pkey/, 'a deferred constraint fails the commit');
left_are([], 'and releases');
$one->query_is('SELECT 1', '1', 'the session goes on');

# An error between PRE_COMMIT, where the guard has let it pass, and the commit
# record: of two serializable transactions that have read what the other one
# has written the second one fails in its COMMIT.
$node->value('CREATE TABLE doctors AS SELECT i, true AS on_call FROM generate_series(1, 2) i');
foreach my $s ($one, $two)
{
	run($s,
	'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM doctors WHERE on_call'
	);
}
run($one, 'UPDATE doctors SET on_call = false WHERE i = 1');
run($two,
	q{UPDATE doctors SET on_call = false WHERE i = 2;
	  SELECT redis_lock('session too', '5 min'); SELECT redis_xact_lock('skew'), redis_xact_lock('session too')}
);
$one->query_is('COMMIT', '', 'the first one commits');
$two->query_fails('COMMIT', '40001', qr/during commit attempt/,
	'the second one fails late in its commit');
is(rows_of('session too'), 'session 1', 'its locks are given back');
left_are(['session too'], 'but for the session-level one');
$two->query_is("SELECT redis_unlock('session too')", 't', 'which is given back');
$two->query_is(
	"BEGIN; INSERT INTO t VALUES (3); SELECT redis_xact_lock('skew'); COMMIT",
	'', 'and the session can commit again');

# A holdable cursor is read to its end at COMMIT, before the locks go.
run($one,
	q{BEGIN; DECLARE c CURSOR WITH HOLD FOR
	  SELECT redis_try_xact_lock('row ' || i), redis_is_locked('row ' || i)
	  FROM generate_series(1, 3) i;
	  FETCH c; COMMIT});
left_are([], 'locks of a holdable cursor are released');
costs($one, 'FETCH ALL FROM c', "t|t\nt|t", 0, 'its rows were made by then');
run($one, 'CLOSE c');

# ----------
# COPY, and commands that end transactions in the middle
# ----------

run($one,
	q{CREATE FUNCTION lock_row() RETURNS trigger LANGUAGE plpgsql AS $$
	  BEGIN
	      PERFORM redis_xact_lock('copied ' || NEW.a);
	      RETURN NEW;
	  END $$;
	  CREATE TABLE copied (a int);
	  CREATE TRIGGER lock_row BEFORE INSERT ON copied FOR EACH ROW
	  EXECUTE FUNCTION lock_row();
	  BEGIN; CREATE TABLE made (a int); SELECT redis_xact_lock('with DDL')});
$one->query_is(
	"COPY copied FROM STDIN;\n1\n2\n\\.\nSELECT count(*) FROM copied;",
	'2', 'COPY, with a trigger that locks');
run($one,
	q{COPY (SELECT redis_xact_lock('copied out')) TO '/dev/null'});
is_deeply(
	[ $redis->all_keys ],
	[ 'copied 1', 'copied 2', 'copied out', 'with DDL' ],
	'locks of DDL and COPY are held');
$one->query_is('SELECT count(*) FROM copied; DROP TABLE made; COMMIT',
	'2', 'to the end');
left_are([], 'of the transaction');

# CREATE INDEX CONCURRENTLY has several transactions; the index expression is
# evaluated in the second one.  VACUUM ANALYZE has one for each table.
run($one,
	q{CREATE FUNCTION locking(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	  BEGIN
	      PERFORM public.redis_xact_lock('ddl');
	      RETURN i;
	  END $$;
	  CREATE TABLE first AS SELECT i FROM generate_series(1, 50) i;
	  CREATE TABLE second AS SELECT i FROM generate_series(1, 50) i});
costs($one, 'CREATE INDEX CONCURRENTLY ON first (locking(i))',
	'', 2, 'CREATE INDEX CONCURRENTLY');
is_free('ddl', 'leaves no lock');
costs($one, 'CREATE INDEX ON second (locking(i))', '', 2, 'CREATE INDEX');
run($one, 'VACUUM ANALYZE first, second');
is_free('ddl', 'VACUUM leaves no lock');

end_test($node, $redis);
