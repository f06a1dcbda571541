# Copyright (c) 2026, lockredis contributors

# Locks that follow the transaction.  Checks of the design: section 2, 2 (counts
# of both scopes, no round trip for taking again), 4 (released at commit,
# rollback, and rollback of the savepoint or exception block in which they were
# taken), 8 (PREPARE TRANSACTION, parallel workers), 9 (warnings), 10
# (session_locks); section 6, the end of a transaction (one pipelined batch of
# multi-key scripts); section 8, the counts of client commands.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

my $redis = lock_store;
my $proxy = $redis->proxy;

# Nothing is renewed in the middle of counting.
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	proxy => $proxy,
	settings => {
		'lockredis.lease' => '10min',
		'lockredis.max_locks' => 10_100,
		'lockredis.command_timeout' => limit(20) . 's',
		max_prepared_transactions => 2,
		max_parallel_workers => 4
	});
my $one = $node->session;
my $two = $node->session;

$node->wait_for_up;
run($one,
	q{CREATE TABLE t (a int);
	  CREATE TABLE pairs (a int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)}
);

# Redis has every script from here on, so that counts are right.
run($one,
	q{BEGIN;
	  SELECT redis_lock('warm'), redis_lock('warm'), redis_xact_lock('warm');
	  SELECT redis_unlock_all(); COMMIT});

# Does Redis have the lock?
sub there
{
	my ($key) = @_;

	return $redis->cmd('EXISTS', $key);
}

# The count that Redis shows for the only owner of a key; 0: nobody has it.
sub count_in_redis
{
	my ($key) = @_;
	my @counts = values %{ $redis->hash($key) };

	return @counts == 1 ? $counts[0] : scalar @counts;
}

# Run something, return how many client commands it cost.
sub commands_of
{
	my ($do) = @_;
	my $calls = sub { of_redis 'no commands' => sub { $redis->script_calls } };
	my $before = $calls->();

	$do->();
	return defined $before ? $calls->() - $before : undef;
}

# TAP: the statements give this output, no message, and so many commands.
sub costs
{
	my ($s, $sql, $output, $commands, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result;
	my $n = commands_of(sub { $result = $s->query($sql) });

	return is($result->out . $result->{raw}, $output, $name) unless defined $n;

	return is_deeply([ $result->out . $result->{raw}, $n ],
		[ $output, $commands ], "$name: $commands commands");
}

sub stat_of
{
	my ($name) = @_;

	return $node->value("SELECT $name FROM redis_lock_stats");
}

# scope|hold_count of the rows of one key in redis_locks
sub rows_of
{
	my ($key) = @_;

	return $node->value(
		"SELECT string_agg(scope || ' ' || hold_count, ', ' ORDER BY scope) FROM redis_locks WHERE key = '$key' AND granted"
	);
}

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
		$one->query_is("SELECT redis_is_held('k'), redis_hold_count('k')",
			't|1', 'held once');
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
		is(there('k'), 0, 'it is free');
		$one->query_is("SELECT redis_is_held('k'), redis_hold_count('k')",
			'f|0', 'not held');
		return unless $end =~ /CHAIN/;

		# The next transaction has begun, and has nothing of the one before.
		costs($one, "SELECT redis_xact_lock('k')", '', 1,
			'taking it in the chained transaction');
		costs($one, 'COMMIT', '', 1, 'giving that back');
		is(there('k'), 0, 'free again');
	};
}

# Two commands and nothing else, not even a PING.
of_redis 'no commands that could be looked at' => sub {
	my ($address) =
	  map { $_->{addr} } grep { $_->{cmd} eq 'evalsha' } $redis->clients;
	my $watch = $redis->monitor;
	run($one,
		"BEGIN; INSERT INTO t VALUES (1); SELECT redis_xact_lock('m');
		 COMMIT");
	my @lines = grep { !/"(?:TIME|INFO)"/i } $watch->stop;
	is_deeply(
		[ map { ($watch->args($_))[0] } @lines ],
		[qw(EVALSHA EVALSHA)],
		'a transaction with one lock sends two commands')
	  || diag @lines;
};

costs($one, "SELECT redis_xact_lock('single')", '', 2,
	'a single statement is a transaction');
is(there('single'), 0, 'which ends with it');
costs(
	$one,
	q{SELECT redis_xact_lock('implicit') \;
	  SELECT redis_is_held('implicit') \; INSERT INTO t VALUES (2)},
	"\nt",
	2,
	'an implicit block');
is(there('implicit'), 0, 'releases at its end');
$one->query_fails(q{SELECT redis_xact_lock('implicit') \; SELECT 1/0},
	'22012', qr/division/, 'an implicit block that fails');
is(there('implicit'), 0, 'releases too');

# At the error, not when the client gets round to say ROLLBACK.
$one->query("BEGIN; SELECT redis_xact_lock('failed'); SELECT 1/0");
is(there('failed'), 0, 'an error gives it back at once');
$one->query_is('ROLLBACK', '', 'the client hears of it later');

# ----------
# Savepoints
# ----------

# ROLLBACK TO twice: the savepoint stays, what was taken after it goes each time.
run($one,
	q{BEGIN; SELECT redis_xact_lock('outer'); SAVEPOINT a;
	  SELECT redis_xact_lock('in a'); SAVEPOINT b; SELECT redis_xact_lock('in b')}
);
is_deeply([ map { there($_) } 'outer', 'in a', 'in b' ],
	[ 1, 1, 1 ], 'three levels');
costs($one, 'ROLLBACK TO b', '', 1, 'the inner one rolled back');
is_deeply([ map { there($_) } 'outer', 'in a', 'in b' ],
	[ 1, 1, 0 ], 'gives back its lock only');
costs($one, 'ROLLBACK TO b', '', 0, 'and again');
$one->query_is("SELECT redis_try_xact_lock('in b')", 't', 'taken again');
costs($one, 'ROLLBACK TO b', '', 1, 'rolled back again');
is(there('in b'), 0, 'and given back again');
run($one, "SELECT redis_xact_lock('in b')");
$one->query_is('ROLLBACK TO a', '', 'both levels at once');
is_deeply([ map { there($_) } 'outer', 'in a', 'in b' ],
	[ 1, 0, 0 ], 'leave the outermost');
costs($one, 'COMMIT', '', 1, 'commit');
is(there('outer'), 0, 'gives that back');

# A released savepoint leaves its locks to its parent, whatever becomes of that.
run($one,
	q{BEGIN; SAVEPOINT a; SAVEPOINT b; SELECT redis_xact_lock('b1');
	  RELEASE b; SAVEPOINT c; SELECT redis_xact_lock('c1'); RELEASE c}
);
is_deeply([ map { there($_) } 'b1', 'c1' ], [ 1, 1 ], 'released, still held');
costs($one, 'ROLLBACK TO a', '', 1, 'their parent rolled back');
is_deeply([ map { there($_) } 'b1', 'c1' ], [ 0, 0 ], 'both are gone');
run($one,
	q{SELECT redis_xact_lock('b1'); RELEASE a; SAVEPOINT a;
	  SELECT redis_xact_lock('c1'); ROLLBACK TO a});
is_deeply([ map { there($_) } 'b1', 'c1' ],
	[ 1, 0 ], 'released before another one of that name is rolled back');
$one->query_is('COMMIT', '', 'commit');
is(there('b1'), 0, 'all released');

# Taken before: a rollback of a re-entry gives nothing back.
run($one,
	q{BEGIN; SELECT redis_xact_lock('before'); SAVEPOINT a;
	  SELECT redis_xact_lock('before')});
costs($one, 'ROLLBACK TO a', '', 0, 'a re-entry rolled back');
$one->query_is("SELECT redis_is_held('before'), redis_hold_count('before')",
	't|1', 'still held');
costs($one, 'ROLLBACK', '', 1, 'rollback');
is(there('before'), 0, 'released');

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

# What a savepoint has to remember of a lock goes with the lock.
{
	my $memory =
	  q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext'};
	my $loop =
	  q{DO $$ BEGIN FOR i IN 1 .. 4000 LOOP PERFORM redis_lock('loop'); PERFORM redis_unlock('loop'); END LOOP; END $$};

	run($one, 'BEGIN; SAVEPOINT a; ' . $loop =~ s/4000/10/r);
	my $before = $one->value($memory);
	run($one, $loop);
	cmp_ok($one->value($memory) - $before,
		'<', 100_000, 'a loop in a savepoint takes no memory');
	run($one, 'ROLLBACK');
}

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
is_deeply(
	[ $redis->all_keys ],
	[ sort((map { 'round ' . (2 * $_ - 1) } 1 .. 30), 'shared') ],
	'exception blocks in a loop keep what succeeded');
costs($one, 'COMMIT', '', 1, 'all given back by one command');
is_deeply([ $redis->all_keys ], [], 'all of them');

run($one,
	q{CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
	  DECLARE
	      seen text := '';
	  BEGIN
	      PERFORM redis_xact_lock('step'), redis_lock('kept');
	      seen := seen || redis_hold_count('step') || redis_is_locked('step')::int;
	      COMMIT;
	      seen := seen || redis_hold_count('step') || redis_is_locked('step')::int;
	      PERFORM redis_xact_lock('step');
	      ROLLBACK;
	      seen := seen || redis_hold_count('step') || redis_is_locked('step')::int;
	      PERFORM redis_xact_lock('step');
	      BEGIN
	          PERFORM redis_xact_lock('inner');
	          RAISE division_by_zero;
	      EXCEPTION WHEN division_by_zero THEN
	          seen := seen || redis_is_locked('inner')::int;
	      END;
	      COMMIT AND CHAIN;
	      seen := seen || redis_hold_count('step') || redis_is_locked('step')::int;
	      PERFORM redis_xact_lock('step');
	      RAISE NOTICE '%', seen || redis_hold_count('kept');
	  END $$});
{
	my $result = $one->query('CALL steps()');
	is_deeply([ $result->error, map { $_->message } $result->notices ],
		[ undef, '11' . '00' . '00' . '0' . '00' . '1' ],
		'transactions that end in a procedure');
	is_deeply([ $redis->all_keys ],
		['kept'], 'the last one ends with the call');
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
is(there('deferred 1'), 0, 'the trigger has not run');
$one->start('COMMIT');
$node->wait_for_waiters('deferred', 1);
is($node->value('SELECT count(*) FROM watched'), 0, 'commit waits');
$two->query_is("SELECT redis_unlock('deferred')", 't', 'unlocked');
is($one->wait->error, undef, 'committed');
is($node->value('SELECT count(*) FROM watched'), 2, 'rows are there');
is_deeply([ $redis->all_keys ], [], 'locks of deferred triggers are released');

# An error in the deferred work: the locks from before and from there go.
$one->query_fails(
	q{BEGIN; SELECT redis_xact_lock('unique');
	  INSERT INTO watched VALUES (3);
	  INSERT INTO pairs VALUES (1), (1);
	  COMMIT},
	'23505', qr/pairs_pkey/, 'a deferred constraint fails the commit');
is_deeply([ $redis->all_keys ], [], 'and releases');
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
is_deeply([ $redis->all_keys ], ['session too'],
	'but for the session-level one');
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
is_deeply([ $redis->all_keys ], [], 'locks of a holdable cursor are released');
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
is_deeply([ $redis->all_keys ], [], 'of the transaction');

# CREATE INDEX CONCURRENTLY has several transactions; the index expression is
# evaluated in the second one.  VACUUM ANALYZE has one for each table, and ends
# the lock of the first one before it looks at the second: the two tables hold
# one key in turn, which costs two commands each.
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
is(there('ddl'), 0, 'leaves no lock');
costs($one, 'CREATE INDEX ON second (locking(i))', '', 2, 'CREATE INDEX');
costs($one, 'VACUUM ANALYZE first, second',
	'', 4, 'VACUUM ends its transactions');
is(there('ddl'), 0, 'and leaves no lock');

# ----------
# Both scopes on one key
# ----------

subtest 'session-level first' => sub {
	run($one, "SELECT redis_lock('both'); SELECT redis_lock('both')");
	run($one, 'BEGIN');
	costs($one, "SELECT redis_xact_lock('both')", '', 0,
		'a transaction-level one beside them');
	is(count_in_redis('both'), 2, 'adds nothing in Redis');
	is(rows_of('both'), 'session 2, transaction 1', 'two rows in the view');
	$one->query_is("SELECT redis_hold_count('both')", 3, 'counts one more');
	costs($one, 'COMMIT', '', 0, 'its end');
	is(count_in_redis('both'), 2, 'takes nothing away');
	$one->query_is("SELECT redis_hold_count('both')", 2, 'two are left');
	$one->query_is("SELECT redis_unlock('both'), redis_unlock('both')",
		't|t', 'and given back');
	is(there('both'), 0, 'free');
};

subtest 'transaction-level first' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('both')");
	costs($one, "SELECT redis_lock('both')", '', 0,
		'the first session-level one on top');
	is(count_in_redis('both'), 1, 'Redis shows the session-level ones');
	$one->query_is("SELECT redis_hold_count('both')", 2, 'two holds');
	costs($one, "SELECT redis_lock('both')", '', 1, 'the second one');
	is(count_in_redis('both'), 2, 'Redis shows two');
	$one->query_is("SELECT redis_hold_count('both')", 3, 'three holds');
	costs($one, "SELECT redis_unlock('both')", 't', 1, 'unlocking one');
	is(count_in_redis('both'), 1, 'Redis shows one');
	costs($one, "SELECT redis_unlock('both')", 't', 0, 'unlocking the other');
	is(count_in_redis('both'), 1, 'the transaction has it');
	is(rows_of('both'), 'transaction 1', 'alone');
	$one->query_warns("SELECT redis_unlock('both')",
		'f', '01000', qr/don't own/, 'redis_unlock does not touch that');
	costs($one, 'SELECT redis_unlock_all()', 0, 0,
		'redis_unlock_all neither');
	is(count_in_redis('both'), 1, 'still held');
	$two->query_is("SELECT redis_try_lock('both')", 'f', 'from others');
	costs($one, 'COMMIT', '', 1, 'the end of the transaction does');
	is(there('both'), 0, 'free');
};

subtest 'the session keeps it' => sub {
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		run($one,
	"BEGIN; SELECT redis_xact_lock('both');
	 SELECT redis_lock('both'), redis_lock('both')"
		);
		costs($one, $end, '', 0, $end);
		is(count_in_redis('both'), 2, 'two holds in Redis');
		is(rows_of('both'), 'session 2', 'of the session');
		is($one->value('SELECT redis_unlock_all()'), 1, 'given back');
		is(there('both'), 0, 'free');
	}
};

# A re-entry asks the store only if the lease left is too short for it.
subtest 'leases' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('both', '1 min')");
	costs($one, "SELECT redis_lock('both', '30 s')", '', 0, 'a shorter lease');
	costs($one, "SELECT redis_lock('both', '2 min')", '', 1,
		'a second session-level one, longer');
	cmp_ok($redis->cmd('PTTL', 'both'), '>', 60_000, 'the lease grew');
	costs($one, "SELECT redis_xact_lock('both', '90 s')", '', 0,
		'again in the transaction, shorter');
	costs($one, "SELECT redis_xact_lock('both', '1 h')", '', 1, 'and longer');
	cmp_ok($redis->cmd('PTTL', 'both'), '>', 300_000, 'the lease grew again');
	costs($one, "SELECT redis_unlock('both'), redis_unlock('both')",
		't|t', 1, 'unlocked');
	$one->query_is('COMMIT', '', 'committed');
	is(there('both'), 0, 'free');
};

# ----------
# PREPARE TRANSACTION
# ----------

run($one, "BEGIN; INSERT INTO t VALUES (4); SELECT redis_xact_lock('2pc')");
$one->query_fails("PREPARE TRANSACTION 'p'",
	'0A000', qr/cannot PREPARE a transaction that holds Redis locks/,
	'PREPARE TRANSACTION with a transaction-level lock');
is(there('2pc'), 0, 'ends the transaction and gives it back');
is($node->value('SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing prepared');
$one->query_is(
	"BEGIN; SAVEPOINT a; SELECT redis_xact_lock('2pc'); ROLLBACK TO a;
	 INSERT INTO t VALUES (4); SELECT redis_lock('2pc'); PREPARE TRANSACTION 'p'",
	"\n", 'a session-level one does not matter');
$one->query_is("COMMIT PREPARED 'p'; SELECT redis_unlock('2pc')",
	't', 'and stays with the session');

# ----------
# Many locks
# ----------

# All three requests are in Redis although the reply to the first one has not
# come yet: so it is one pipelined batch.
of_redis 'nothing that could keep a reply' => sub {
	run($one,
	"BEGIN;
	 SELECT count(redis_xact_lock('many ' || i)) FROM generate_series(1, 250) i"
	);
	is(scalar($redis->all_keys), 250, '250 locks');
	my $before = $redis->script_calls;
	$proxy->rule(on => 'reply', match => 'many', action => 'hold');
	$one->start('COMMIT');
	poll_until('Redis to have released all', sub { !$redis->all_keys });
	ok($one->is_running, 'no reply has been read');
	is($redis->script_calls - $before, 3, 'released by three commands');
	$proxy->clear;
	$proxy->release;
	is($one->wait->error, undef, 'the reply comes');
	is($node->value('SELECT count(*) FROM redis_locks'), 0, 'none is left');
};

costs(
	$one,
	q{BEGIN; SAVEPOINT a;
	  SELECT count(redis_xact_lock('many ' || i)) FROM generate_series(1, 250) i;
	  ROLLBACK TO a; COMMIT},
	'250',
	250 + 3,
	'250 locks of a savepoint');

# Giving back costs a hundredth of the commands, so if it took as long as
# taking something would be quadratic.
{
	my $taken = $one->query(
		"BEGIN;
		 SELECT count(redis_xact_lock('mass ' || i)) FROM generate_series(1, 10000) i",
		limit(120));
	is($taken->out, 10000, '10,000 locks in one transaction');
	is($redis->cmd('DBSIZE'), 10000, 'Redis has them all');
	costs($one, "SELECT count(redis_xact_lock('mass ' || i)) FROM generate_series(1, 10000) i",
		10000, 0, 'all taken again');
	run($one, 'INSERT INTO t VALUES (5)');
	my $done;
	my $n = commands_of(sub { $done = $one->query('COMMIT') });
	of_redis 'no commands that could be counted' => sub {
		is($n, 100, 'released by a hundred commands');
	};
	is($done->error, undef, 'committed');
	of_redis 'no locks share a request' => sub {
		cmp_ok($done->ms, '<', $taken->ms / 2, 'in less time');
	};
	of_table 'a hundredth of the requests' => sub {
		cmp_ok($done->ms, '<', $taken->ms * 10, 'not in much more time');
	};
	is($redis->cmd('DBSIZE'), 0, 'nothing is left in Redis');
	is($node->value('SELECT count(*) FROM redis_locks'), 0, 'or in the table');
}

# More than there is room for: refused before anything is sent.
{
	my $acquires = stat_of('acquires');
	my $result = $one->query(
		q{BEGIN; SAVEPOINT a;
		  SELECT count(redis_xact_lock('over ' || i)) FROM generate_series(1, 11000) i},
		limit(120));
	$result->fails('53400', qr/lockredis\.max_locks/, 'too many locks');
	is(stat_of('acquires') - $acquires, 10_100, 'as many as max_locks says');
	is($redis->cmd('DBSIZE'), 0, 'all were given back at the error');
	$one->query_is(
		"ROLLBACK TO a; SELECT redis_xact_lock('over'); COMMIT",
		'', 'the transaction goes on');
}

# ----------
# Others wait for it
# ----------

foreach my $end ('COMMIT', 'ROLLBACK', 'ROLLBACK TO a')
{
	run($one, "BEGIN; SAVEPOINT a; SELECT redis_xact_lock('awaited')");
	$two->start("BEGIN; SELECT redis_xact_lock('awaited')");
	$node->wait_for_waiters('awaited', 1);
	is( $node->value(
			"SELECT scope, blocked_by FROM redis_locks WHERE waiting_since IS NOT NULL"
		),
		'transaction|{' . $one->pid . '}',
		'the view shows what is waited for');
	$one->query_is($end, '', $end);
	is($two->wait->error, undef, 'the next one has it');
	$two->query_is("SELECT redis_is_held('awaited'); COMMIT", 't', 'held');
	run($one, 'ROLLBACK') if $end =~ /TO/;
}
$one->query_is("BEGIN; SELECT redis_xact_lock('awaited')", '', 'once more');
$two->query_fails(
	"BEGIN; SET LOCAL lock_timeout = '50ms'; SELECT redis_xact_lock('awaited')",
	'55P03', qr/lock timeout/, 'lock_timeout while waiting');
run($two, 'ROLLBACK');
$two->query_is("SELECT redis_try_xact_lock('awaited', '50 ms')",
	'f', 'a bounded wait');
$one->query_is('COMMIT', '', 'given back');

# ----------
# Cancel, terminate, FATAL, a client that is gone
# ----------

{
	my $victim = $node->session;
	run($victim, "BEGIN; SELECT redis_xact_lock('victim')");
	$victim->start('SELECT pg_sleep(600)');
	poll_until('the victim to sleep',
		sub { $node->value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1 });
	$victim->cancel;
	$victim->wait->fails('57014', qr/cancel/, 'a cancelled statement');
	is(there('victim'), 0, 'gives back the locks of its transaction');
	$victim->query_is(
		"ROLLBACK; BEGIN; SELECT redis_xact_lock('victim')",
		'', 'the next transaction takes it');
	$victim->start('SELECT pg_sleep(600)');
	poll_until('the victim to sleep',
		sub { $node->value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1 });
	$victim->terminate;
	$victim->wait->fails('57P01', qr/terminating/, 'terminated');
	$victim->quit;
	is(there('victim'), 0, 'given back');
}
{
	my $idle = $node->session(
		settings => { idle_in_transaction_session_timeout => '100ms' });
	run($idle,
		"SELECT redis_lock('session'); BEGIN;
		 SELECT redis_xact_lock('idle')");
	poll_until('the idle session to be ended', sub { $idle->is_gone });
	is_deeply([ $redis->all_keys ], [], 'FATAL while idle gives back both kinds');
	$idle->quit;
}
{
	my $client = $node->session;
	run($client, "BEGIN; SELECT redis_xact_lock('client')");
	$client->vanish;
	poll_until('the lock to be given back', sub { !there('client') });
	poll_until('the backend to end', sub { $client->is_gone });
}
{
	# In the middle of waiting, with a lock held already.
	my $waiter = $node->session;
	run($one, "SELECT redis_lock('blocker')");
	run($waiter, "BEGIN; SELECT redis_xact_lock('mine')");
	$waiter->start("SELECT redis_xact_lock('blocker')");
	$node->wait_for_waiters('blocker', 1);
	$waiter->cancel;
	$waiter->wait->fails('57014', qr/cancel/, 'cancelled while waiting');
	is_deeply([ $redis->all_keys ], ['blocker'],
		'gives back what the transaction had');
	run($waiter, "ROLLBACK; BEGIN; SELECT redis_xact_lock('mine'); SAVEPOINT a");
	$waiter->start("SELECT redis_xact_lock('blocker')");
	$node->wait_for_waiters('blocker', 1);
	$waiter->cancel;
	$waiter->wait->fails('57014', qr/cancel/, 'cancelled in a savepoint');
	$waiter->query_is("ROLLBACK TO a; SELECT redis_is_held('mine')",
		't', 'keeps what was taken before it');
	$waiter->quit;
	is(there('mine'), 0, 'given back when the client leaves');
	$one->query_is("SELECT redis_unlock('blocker')", 't', 'unlocked');
}

# ----------
# Parallel workers
# ----------

{
	my $setting =
	  $node->value(
		"SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')"
	  );
	is( $node->value(
			q{SELECT DISTINCT proparallel, provolatile FROM pg_proc
			  WHERE proname IN ('redis_xact_lock', 'redis_try_xact_lock')}),
		'r|v',
		'parallel restricted');
	run($one,
	q{CREATE FUNCTION mislabelled(k text) RETURNS bool PARALLEL SAFE LANGUAGE plpgsql AS $$
		  BEGIN RETURN redis_try_xact_lock(k); END $$;
		  BEGIN; SELECT redis_xact_lock('leader')});
	run($one, "SET LOCAL $setting = on");
	is($one->value("SELECT count(*) > 0 FROM pg_class WHERE relname <> 'x'"),
		't', 'a worker ran while the leader held a lock');
	is(there('leader'), 1, 'its end did not release');
	$one->query_fails("SELECT mislabelled('leader')",
		'25000', qr/parallel worker/, 'a worker does not take locks');
	is(there('leader'), 0, 'the error gives the lock back');
	run($one, 'ROLLBACK');
	$one->query_is("SET $setting = on; SELECT redis_try_xact_lock('leader'); RESET $setting",
		't', 'the planner leaves the lock functions to the leader');
}

# ----------
# lockredis.session_locks
# ----------

{
	my $pooled = $node->session(settings => { 'lockredis.session_locks' => 'off' });
	$one->query_is("SELECT redis_lock('old')", '', 'somebody');
	foreach my $call (
		"redis_lock('s')", "redis_try_lock('s')",
		"redis_fenced_lock('s')", "redis_try_fenced_lock('s')")
	{
		$pooled->query_fails("SELECT $call",
			'0A000', qr/session_locks.*HINT:  Use redis_xact_lock/s,
			"session_locks = off: $call");
	}
	is(there('s'), 0, 'nothing was taken');
	$pooled->query_is(
		"BEGIN; SELECT redis_xact_lock('s'); SELECT redis_is_held('s'); COMMIT",
		"\nt", 'transaction-level locks are allowed');
	$pooled->query_is("SELECT redis_is_locked('old'), redis_unlock_all()",
		't|0', 'and so is everything else');
	$pooled->quit;
	$one->query_is("SELECT redis_unlock('old')", 't', 'unlocked');

	# One that was taken before: unlock and extend still work.
	run($one, "SELECT redis_lock('before'); SET lockredis.session_locks = off");
	$one->query_is(
		"SELECT redis_extend('before', '1 h'), redis_hold_count('before'), redis_unlock('before')",
		't|1|t',
		'unlock, extend and inspection work');
	run($one, 'RESET lockredis.session_locks');

	run($one, 'CREATE ROLE bob LOGIN');
	my $bob = $node->session(user => 'bob');
	$bob->query_fails('SET lockredis.session_locks = off',
		'42501', qr/permission denied/, 'for superusers');
	$bob->quit;
	run($one, 'DROP ROLE bob');
}

# ----------
# Warnings
# ----------

my $snapshot = qr/does not protect what the transaction reads/;
my $early = qr/given back before the changes of the transaction are visible/;

sub warns
{
	my ($s, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $s->query($sql);
	my @got = map {
		    $_->message =~ $snapshot ? 'snapshot'
		  : $_->message =~ $early ? 'early'
		  : $_->message
	} $result->warnings;

	return is_deeply([ $result->error, @got ], [ undef, @$expected ], $name)
	  || diag $result->{raw};
}

foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	subtest $level => sub {
		$one->query_warns("BEGIN ISOLATION LEVEL $level; SELECT redis_xact_lock('w')",
			'', '01000', qr/$snapshot.*DETAIL.*HINT:.*before BEGIN/s,
			'a transaction-level lock is warned of');
		warns($one, "SELECT redis_xact_lock('w2'); SELECT redis_try_lock('w3')",
			[], 'once');
		warns($one, 'COMMIT; SELECT redis_unlock_all()', [], 'end');
		warns($one,
			"BEGIN ISOLATION LEVEL $level; SELECT redis_lock('w');
			 SELECT redis_lock('w')",
			['snapshot'], 'a session-level one, too');
		warns($one, "ROLLBACK AND CHAIN; SELECT redis_xact_lock('w')",
			['snapshot'], 'again in the next transaction');
		warns($one, 'COMMIT; SELECT redis_unlock_all()', [], 'end');

		run($one, "SET default_transaction_isolation = '$level'");
		warns($one,
			"SELECT redis_lock('w'); BEGIN; SELECT 1; COMMIT;
			 SELECT redis_unlock('w')",
			[], 'a session-level lock before BEGIN is right');
		warns($one, "SELECT redis_xact_lock('w')",
			['snapshot'], 'a transaction-level one as a statement');
		warns($one, q{SELECT redis_lock('w') \; SELECT redis_unlock('w')},
			['snapshot'], 'an implicit block');
		warns($one,
			q{DO $$ BEGIN PERFORM redis_lock('w'), redis_lock('w');
			  PERFORM redis_unlock_all(); END $$},
			['snapshot'], 'a DO block');
		run($one,
	q{CREATE OR REPLACE PROCEDURE warned() LANGUAGE plpgsql AS $$
			  BEGIN
			      PERFORM redis_lock('w');
			      PERFORM redis_unlock('w');
			      COMMIT;
			      PERFORM redis_lock('w');
			      PERFORM redis_unlock('w');
			  END $$});
		warns($one, 'CALL warned()', [ 'snapshot', 'snapshot' ],
			'a procedure, in each of its transactions');
		warns($one, "SELECT redis_lock('w'); SELECT redis_unlock('w')",
			[], 'no DO or CALL any more');
		$one->query(q{DO $$ BEGIN RAISE 'failed'; END $$});
		warns($one, "SELECT redis_lock('w'); SELECT redis_unlock('w')",
			[], 'not after one that failed either');
		run($one, 'RESET default_transaction_isolation');
	};
}
warns(
	$one,
	q{BEGIN; SELECT redis_xact_lock('w'); SELECT redis_lock('w2');
	  SELECT redis_unlock('w2'); COMMIT;
	  DO $$ BEGIN PERFORM redis_lock('w2'); PERFORM redis_unlock('w2'); END $$},
	[],
	'READ COMMITTED is fine');

run($one, "SELECT redis_lock('early'), redis_lock('early 2'), redis_lock('early 3')");
warns($one, "BEGIN; SELECT redis_unlock('early 3')", [],
	'unlocking before anything was written');
run($one, 'INSERT INTO t VALUES (6)');
$one->query_warns("SELECT redis_unlock('early')",
	't', '01000', qr/$early.*HINT:.*redis_xact_lock/s,
	'unlocking after writing');
warns($one, "SELECT redis_unlock('early 2')", [], 'is warned of once');
warns($one, 'COMMIT', [], 'a transaction');
run($one, "SELECT redis_lock('early'), redis_lock('early 2')");
warns($one, 'BEGIN; INSERT INTO t VALUES (6); SELECT redis_unlock_all(); COMMIT',
	['early'], 'redis_unlock_all as well');
run($one, "SELECT redis_lock('early')");
warns($one, "INSERT INTO t VALUES (7); SELECT redis_unlock('early')",
	[], 'unlocking after the commit is right');

# Nobody sees a lock free that is still held, and the warning is kept for the
# unlock that matters.
run($one, "SELECT redis_lock('early'), redis_lock('early')");
warns($one, "BEGIN; INSERT INTO t VALUES (8); SELECT redis_unlock('early')",
	[], 'giving back one of two holds is no reason to warn');
warns($one, "SELECT redis_unlock('early'); COMMIT", ['early'],
	'giving back the last one is');
warns($one,
	"BEGIN; INSERT INTO t VALUES (9); SELECT redis_xact_lock('early');
	 SELECT redis_lock('early'); SELECT redis_unlock('early'); COMMIT",
	[], 'the transaction holds it to its end: no warning');

$_->quit foreach $one, $two;
nothing_left($node, $redis);
done_testing();
