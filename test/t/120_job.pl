# Copyright (c) 2026, lockredis contributors

# CALL redis_with_lock: design.md section 1.  The lock is taken, a commit gives
# the command a fresh snapshot, the command runs, commits, and the lock is given
# back; busy means that nothing happened at all; errors come through as they
# are; whatever ends the command, the lock is given back, not before its
# transaction has ended, and not before hold_at_least has passed; nothing but
# the runner gives it back.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;

my $lease_ms = limit(2) * 1000;
my $redis = lock_store;
my %settings = (
	'lockredis.lease' => "${lease_ms}ms",
	'lockredis.command_timeout' => limit(2) . 's');
my $node =
  LockRedis::Node->create('main', redis => $redis, settings => \%settings);

$node->wait_for_up;
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE done (what text);
CREATE ROLE bob LOGIN;
GRANT ALL ON done TO bob;
SQL

my $one = $node->session;
my $two = $node->session;

# What was done, in order; forgotten by asking.
sub done
{
	return $node->value(
		q{WITH d AS (DELETE FROM done RETURNING ctid, what) SELECT string_agg(what, ' ' ORDER BY ctid) FROM d}
	);
}

sub quote
{
	my ($text) = @_;

	$text =~ s/'/''/g;
	return "'$text'";
}

# Start a job whose command sleeps once it has done its first part, and wait
# until it does.
sub start_sleeper
{
	my ($s, $key, %opts) = @_;
	my $command = ($opts{before} || "INSERT INTO done VALUES ('begun')")
	  . '; SELECT pg_sleep(600)';
	my $more = $opts{more} ? ", $opts{more}" : '';

	$s->start("CALL redis_with_lock('$key', " . quote($command) . "$more)");
	wait_for_sleep($s);
	return;
}

sub wait_for_sleep
{
	my ($s) = @_;

	return poll_until(
		'the command to sleep',
		sub {
			$node->value(
				"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND pid = "
				  . $s->pid) == 1;
		});
}

# ----------
# What it does
# ----------

subtest 'the order of things' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE watch (at text, visible bigint, locked boolean, xid xid8);
SQL
	$one->query_is(
		"CALL redis_with_lock('job', 'INSERT INTO done VALUES (''ran'')')",
		't', 'psql shows ran');
	is(done(), 'ran', 'it has run');
	$one->query_is("CALL redis_with_lock('job', 'SELECT 1')", 't', 'again');
	nothing_left($node, $redis);

	# In the command the key is locked and held by this session.
	$one->query_is(
		q{CALL redis_with_lock('job', 'INSERT INTO done SELECT scope || ''/'' || hold_count || ''/'' || granted FROM redis_locks')},
		't', 'seen from the command');
	is(done(), 'session/1/true', 'a hold of the session');

	# The command's transaction starts when the lock is had: what the holder
	# before has committed is visible.  two waits from before one's commit on.
	start_sleeper($one, 'fresh');
	$two->start(
		q{CALL redis_with_lock('fresh', 'INSERT INTO watch SELECT ''two'', count(*) FROM done', wait => NULL)}
	);
	$node->wait_for_waiters('fresh', 1);
	$node->safe_psql('postgres', "INSERT INTO done VALUES ('meanwhile')");
	$one->cancel;
	$one->wait->fails('57014', qr/user request/, 'the first is cancelled');
	is($two->wait->out, 't', 'the second one runs');
	is($node->value('SELECT visible FROM watch'),
		1, 'on a snapshot taken after the lock');
	is(done(), 'meanwhile', 'the first one was rolled back');

	# Even at a higher level, and without a warning.
	start_sleeper($one, 'fresh');
	$two->query("SET default_transaction_isolation = 'repeatable read'");
	$two->query('TRUNCATE watch');
	$two->start(
		q{CALL redis_with_lock('fresh', 'INSERT INTO watch SELECT current_setting(''transaction_isolation''), count(*) FROM done', wait => NULL)}
	);
	$node->wait_for_waiters('fresh', 1);
	$node->safe_psql('postgres', "INSERT INTO done VALUES ('meanwhile')");
	$one->cancel;
	$one->wait;
	my $result = $two->wait;
	is($result->out . $result->{raw}, 't', 'REPEATABLE READ: runs, no warning');
	is($node->value("SELECT at || ' ' || visible FROM watch"),
		'repeatable read 1', 'on a snapshot taken after the lock');
	$two->query('RESET default_transaction_isolation');
	done();

	# The lock goes after the commit, which takes a while here: whoever gets it
	# sees what was done.
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE slow (a int);
CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql
	AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION nap();
SQL
	$one->start("CALL redis_with_lock('visible', 'INSERT INTO slow VALUES (1)')");
	wait_for_sleep($one);
	$two->query_is(
		"CALL redis_with_lock('visible', 'INSERT INTO done SELECT count(*)::text FROM slow', wait => NULL)",
		't', 'a second job waits for the commit of the first');
	is($one->wait->out, 't', 'the first one');
	is(done(), '1', 'and sees what it has done');
	nothing_left($node, $redis);
};

# two has the lock.  Nothing of the caller is committed, no time is lost.
subtest 'busy' => sub {
	$two->query_is("SELECT redis_lock('busy')", '', 'held by another session');
	$one->query_is(
		"CALL redis_with_lock('busy', 'INSERT INTO done VALUES (''ran'')')",
		'f', 'ran is false');
	my $start = now();
	$one->query_is(
		"CALL redis_with_lock('busy', 'INSERT INTO done VALUES (''ran'')', wait => '300 ms')",
		'f', 'also after a wait');
	cmp_ok(now() - $start, '>=', 0.29, 'of so long');
	is(done(), '', 'nothing was done');

	# What the calling procedure has done stays uncommitted.
	$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE caller(key text) LANGUAGE plpgsql AS $$
DECLARE
	ran boolean;
	xid xid8 := pg_current_xact_id();
BEGIN
	INSERT INTO done VALUES ('caller');
	CALL redis_with_lock(key, 'INSERT INTO done VALUES (''ran'')', ran => ran);
	RAISE NOTICE 'ran: %, same transaction: %', ran, xid = pg_current_xact_id();
	ROLLBACK;
END $$;
SQL
	my $result = $one->query("CALL caller('busy')");
	is_deeply([ map { $_->message } $result->notices ],
		['ran: f, same transaction: t'], 'busy: nothing was committed');
	is(done(), '', 'so the caller can roll back');
	$result = $one->query("CALL caller('free')");
	is_deeply([ map { $_->message } $result->notices ],
		['ran: t, same transaction: f'], 'free: it was');
	is(done(), 'caller ran', 'the work of the caller too');

	# Somebody elsewhere has it.
	$redis->cmd('HSET', 'elsewhere', 'somebody:1', 1);
	$redis->cmd('PEXPIRE', 'elsewhere', 600_000);
	$one->query_is("CALL redis_with_lock('elsewhere', 'SELECT 1')",
		'f', 'held elsewhere');
	$redis->cmd('DEL', 'elsewhere');

	# It waits for as long as it is told, or as lock_timeout says.
	$one->start(
		"CALL redis_with_lock('busy', 'INSERT INTO done VALUES (''ran'')', wait => '10 minutes')"
	);
	$node->wait_for_waiters('busy', 1);
	$two->query_is("SELECT redis_unlock('busy')", 't', 'given back');
	is($one->wait->out, 't', 'a waiter runs then');
	is(done(), 'ran', 'indeed');
	$two->query_is("SELECT redis_lock('busy')", '', 'held again');
	$one->query_fails(
		"SET lock_timeout = '50 ms'; CALL redis_with_lock('busy', 'SELECT 1', wait => NULL)",
		'55P03', qr/lock timeout/, 'lock_timeout');
	$one->query('RESET lock_timeout');
	$one->start("CALL redis_with_lock('busy', 'SELECT 1', wait => NULL)");
	$node->wait_for_waiters('busy', 1);
	$one->cancel;
	$one->wait->fails('57014', qr/user request/, 'cancelled as a waiter');
	$two->query_is("SELECT redis_unlock('busy')", 't', 'given back');
	is(done(), '', 'nothing was done');
	nothing_left($node, $redis);
};

# ----------
# Where it may be called, and with what
# ----------

subtest 'callers' => sub {
	my $result = $one->query(<<'SQL');
DO $$
DECLARE
	did boolean;
BEGIN
	CALL redis_with_lock('do', 'INSERT INTO done VALUES (''do'')', ran => did);
	RAISE NOTICE 'ran: %', did;
	FOR i IN 1 .. 3 LOOP
		CALL redis_with_lock('do', format('INSERT INTO done VALUES (%L)', i), '0', NULL, NULL, did);
	END LOOP;
	RAISE NOTICE 'ran: %', did;
END $$
SQL
	is_deeply([ map { $_->message } $result->notices ],
		[ 'ran: t', 'ran: t' ], 'DO with a variable for ran');
	is(done(), 'do 1 2 3', 'each time');

	$one->query_fails(
		"DO 'BEGIN CALL redis_with_lock(''do'', ''SELECT 1''); END'",
		'42601', qr/"ran" is an output parameter/, 'DO without a variable for ran');

	# A loop over a cursor that was opened before: it survives the commits.
	$result = $one->query(<<'SQL');
DO $$
DECLARE
	did boolean;
	i int;
BEGIN
	FOR i IN SELECT g FROM generate_series(1, 5) g LOOP
		CALL redis_with_lock('cursor', format('INSERT INTO done VALUES (%L)', i), ran => did);
	END LOOP;
END $$
SQL
	is($result->{raw}, '', 'in a loop over a query');
	is(done(), '1 2 3 4 5', 'each time');

	# Procedures in procedures.
	$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE inner_job(INOUT did boolean) LANGUAGE plpgsql AS $$
BEGIN
	CALL redis_with_lock('inner', 'INSERT INTO done VALUES (''inner'')', ran => did);
END $$;
CREATE PROCEDURE outer_job() LANGUAGE plpgsql AS $$
DECLARE
	did boolean;
BEGIN
	INSERT INTO done VALUES ('before');
	CALL inner_job(did);
	INSERT INTO done VALUES ('after ' || did);
	ROLLBACK;
END $$;
CREATE PROCEDURE with_set() LANGUAGE plpgsql SET work_mem = '1MB' AS $$
DECLARE
	did boolean;
BEGIN
	CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''set'')', ran => did);
END $$;
CREATE PROCEDURE definer() LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	did boolean;
BEGIN
	CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''definer'')', ran => did);
END $$;
CREATE FUNCTION func() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	did boolean;
BEGIN
	CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''func'')', ran => did);
	RETURN did;
END $$;
CREATE PROCEDURE caught() LANGUAGE plpgsql AS $$
DECLARE
	did boolean;
BEGIN
	BEGIN
		CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''caught'')', ran => did);
	EXCEPTION WHEN invalid_transaction_termination THEN
		RAISE NOTICE 'caught: %', SQLERRM;
	END;
END $$;
SQL
	$one->query_is('CALL outer_job()', '', 'a procedure in a procedure');
	is(done(), 'before inner',
		'its lock commits what was before, and nothing of what comes after');

	# Where the transaction cannot be ended, nothing is taken.
	my $calls = $redis->script_calls;
	my @atomic = (
		"BEGIN; CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''block'')')",
		"SELECT 1\\; CALL redis_with_lock('atomic', 'INSERT INTO done VALUES (''implicit'')')",
		'SELECT func()',
		'CALL with_set()',
		'CALL definer()');
	foreach my $sql (@atomic)
	{
		my $result = $one->query($sql);

		$result->fails('2D000',
			qr/redis_with_lock cannot run inside a transaction block/, $sql);
		like($result->hint, qr/redis_xact_lock/, 'with a hint');
		$one->query('ROLLBACK');
	}
	$result = $one->query('CALL caught()');
	is_deeply([ map { $_->message } $result->notices ],
		['caught: redis_with_lock cannot run inside a transaction block'],
		'in an exception block');
	$one->query_fails(
		"BEGIN; DO 'DECLARE r bool; BEGIN CALL redis_with_lock(''atomic'', ''SELECT 1'', ran => r); END'",
		'2D000', qr/transaction block/, 'DO in a transaction block');
	$one->query('ROLLBACK');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls, 0, 'nothing was taken');
	};
	is(done(), '', 'and nothing done');

	# With session_locks off, as behind a transaction pooler.
	my $off = $node->session(settings => { 'lockredis.session_locks' => 'off' });
	$off->query_is(
		"CALL redis_with_lock('off', 'INSERT INTO done VALUES (''off'')')",
		't', 'lockredis.session_locks = off');
	is(done(), 'off', 'has run');
	$off->quit;

	# An ordinary role runs its command as itself.
	my $bob = $node->session(user => 'bob');
	$bob->query_is(
		"CALL redis_with_lock('bob', 'INSERT INTO done VALUES (current_user)')",
		't', 'an ordinary role');
	is(done(), 'bob', 'as itself');
	$bob->query_fails("CALL redis_with_lock('bob', 'TRUNCATE watch')",
		'42501', qr/permission denied/, 'with its own rights');
	$bob->quit;
	nothing_left($node, $redis);
};

subtest 'arguments' => sub {
	my @bad = (
		[ q{NULL, 'SELECT 1'}, '22004', qr/lock key must not be null/ ],
		[ q{'k', NULL}, '22004', qr/command must not be null/ ],
		[ q{'', 'SELECT 1'}, '22023', qr/must not be empty/ ],
		[ q{'k', 'SELECT 1', wait => '-1 ms'}, '22023', qr/wait must not be negative/ ],
		[ q{'k', 'SELECT 1', lease => '9 ms'}, '22023', qr/lease must be between/ ],
		[ q{'k', 'SELECT 1', lease => '25 days'}, '22023', qr/lease must be between/ ],
		[ q{'k', 'SELECT 1', hold_at_least => '-1 ms'}, '22023', qr/hold_at_least must be between/ ],
		[ q{'k', 'SELECT 1', hold_at_least => '25 days'}, '22023', qr/hold_at_least must be between/ ]);
	my $calls = $redis->script_calls;

	foreach my $bad (@bad)
	{
		my ($args, $sqlstate, $pattern) = @$bad;

		$one->query_fails("CALL redis_with_lock($args)",
			$sqlstate, $pattern, $args);
	}
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls - $calls, 0, 'nothing was taken');
	};
	$one->query_is("CALL redis_with_lock('k', 'SELECT 1', hold_at_least => '0')",
		't', 'hold_at_least 0');
	nothing_left($node, $redis);
};

# A plain client that has no psql around it: pgbench sends a simple query or
# Parse, Bind and Execute, with a parameter for the key.
subtest 'simple and extended protocol' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $script = "$dir/job.sql";

	append_to_file($script, <<'SQL');
\set k random(1, 1000000)
CALL redis_with_lock('pgbench ' || :k, 'INSERT INTO done VALUES (''pgbench'')');
SQL
	foreach my $protocol ('simple', 'extended', 'prepared')
	{
		command_ok(
			[
				'pgbench', '-n', '-t', '3', '-M', $protocol, '-f', $script,
				$node->connstr('postgres')
			],
			"pgbench, $protocol");
		is(done(), 'pgbench pgbench pgbench', "$protocol: it has run");
	}
	nothing_left($node, $redis);
};

# ----------
# Commands
# ----------

subtest 'commands' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO done VALUES ('b');
	COMMIT;
	INSERT INTO done VALUES ('c');
	ROLLBACK;
END $$;
SQL
	my %good = (
		'several statements' => [
			"INSERT INTO done VALUES ('a'); INSERT INTO done VALUES ('b'); UPDATE done SET what = what || 'x'",
			'ax bx'
		],
		'a statement that needs an earlier one' => [
			"CREATE TABLE made (a text); INSERT INTO made VALUES ('made'); INSERT INTO done SELECT a FROM made; DROP TABLE made",
			'made'
		],
		'RETURNING' => [ "INSERT INTO done VALUES ('r') RETURNING what", 'r' ],
		'SELECT' => [ 'SELECT 1; SELECT 2', '' ],
		'nothing' => [ '', '' ],
		'a comment' => [ '-- nothing', '' ],
		'DO' => [ "DO \$\$ BEGIN INSERT INTO done VALUES ('do'); END \$\$", 'do' ],
		'EXPLAIN' => [ 'EXPLAIN SELECT 1', '' ],
		'SHOW' => [ 'SHOW lockredis.lease', '' ],
		'a procedure that commits, among other statements' => [
			"INSERT INTO done VALUES ('a'); CALL commits(); INSERT INTO done VALUES ('d')",
			'a b d'
		],
		'locks of its own' => [
			"SELECT redis_xact_lock('x'); SELECT redis_fenced_xact_lock('y'); INSERT INTO done SELECT key FROM redis_locks ORDER BY key",
			'command x y'
		],
		'its own key at transaction level' => [
			"SELECT redis_xact_lock('command'); INSERT INTO done VALUES (redis_hold_count('command')::text)",
			'2'
		],
		'a DO that commits' => [
			"DO \$\$ BEGIN INSERT INTO done VALUES ('1'); COMMIT; INSERT INTO done VALUES ('2'); ROLLBACK; INSERT INTO done VALUES ('3'); END \$\$",
			'1 3'
		]);

	foreach my $name (sort keys %good)
	{
		my ($command, $expected) = @{ $good{$name} };

		$one->query_is("CALL redis_with_lock('command', " . quote($command) . ')',
			't', "$name: runs, its output is not shown");
		is(done(), $expected, "$name: what it has done");
	}

	# The result of a query is thrown away, not kept: this is 400 MB of it.
	my $before = memory_peak($one);
	$one->query_is(
		"CALL redis_with_lock('command', 'SELECT repeat(g::text, 200) FROM generate_series(100000, 500000) g')",
		't', 'a large result');
	my $grown = memory_peak($one) - $before;
	cmp_ok($grown, '<', 150_000, "is not kept in memory ($grown kB)");

	my %bad = (
		'COMMIT' => [ "INSERT INTO done VALUES ('a'); COMMIT", '2D000' ],
		'BEGIN' => [ 'BEGIN', '2D000' ],
		'SAVEPOINT' => [ 'SAVEPOINT a', '2D000' ],
		'COPY to the client' => [ 'COPY done TO STDOUT', '0A000' ],
		'VACUUM' => [ 'VACUUM done', '25001' ],
		'DISCARD ALL' => [ 'DISCARD ALL', '25001' ],
		'a syntax error' => [ "INSERT INTO done VALUES ('a'); SELEC 1", '42601' ],
		'a missing table' => [ "INSERT INTO done VALUES ('a'); SELECT * FROM no_such_table", '42P01' ],
		'an exception block that commits' => [
			"DO \$\$ BEGIN INSERT INTO done VALUES ('1'); BEGIN COMMIT; EXCEPTION WHEN division_by_zero THEN END; END \$\$",
			'2D000'
		]);
	foreach my $name (sort keys %bad)
	{
		my ($command, $sqlstate) = @{ $bad{$name} };

		$one->query_fails(
			"CALL redis_with_lock('command', " . quote($command) . ')',
			$sqlstate, qr/./, "$name is an error");
		is(done(), '', "$name: rolled back");
		$one->query_is("SELECT redis_is_locked('command')", 'f',
			"$name: released");
	}

	# The place of an error is one in the command, not in the CALL.  (Before
	# PostgreSQL 18 a statement begins with the blank that is before it.)
	foreach my $last ('SELEC 1', 'SELECT no_such_column')
	{
		my $error = $one->query("CALL redis_with_lock('command', 'SELECT 1; $last')")->{raw};
		like($error, qr/^LINE 1:\s+(?:SELECT 1; )?\Q$last\E\n/m, "$last: where it is");
		like($error, qr/^QUERY:\s+(?:SELECT 1; )?\Q$last\E$/m, "$last: in which query");
	}
	nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
	$redis->cmd('FLUSHALL');
};

sub memory_peak
{
	my ($s) = @_;
	my $status = slurp_file('/proc/' . $s->pid . '/status');

	return $status =~ /^VmHWM:\s+(\d+) kB/m ? $1 : die 'no VmHWM';
}

# A command that is a CALL may end transactions; the lock stays.
subtest 'a command that commits and rolls back' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 4 LOOP
		INSERT INTO done VALUES (i || '/' || redis_hold_count('steps') || '/' || redis_is_locked('steps'));
		PERFORM redis_xact_lock('step');
		IF i % 2 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		IF redis_hold_count('steps') <> 1 OR redis_hold_count('step') <> 0 THEN
			RAISE EXCEPTION 'held: %, %', redis_hold_count('steps'), redis_hold_count('step');
		END IF;
	END LOOP;
	PERFORM pg_sleep(600);
END $$;
SQL
	$one->start("CALL redis_with_lock('steps', 'CALL steps()')");
	wait_for_sleep($one);
	is(done(), '1/1/true 3/1/true', 'commits and rollbacks of the command');
	$two->query_is("CALL redis_with_lock('steps', 'SELECT 1')", 'f',
		'the lock stays');
	is($node->value('SELECT scope, granted FROM redis_locks'),
		'session|t', 'and is shown');
	$one->cancel;
	$one->wait->fails('57014', qr/user request/, 'cancelled');
	nothing_left($node, $redis);
};

# ----------
# Errors
# ----------

subtest 'errors of the command' => sub {
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE parent (a int PRIMARY KEY);
CREATE TABLE child (a int CONSTRAINT child_fk REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
SQL
	my $raise = <<'SQL';
DO $$ BEGIN
	INSERT INTO done VALUES ('a');
	RAISE EXCEPTION USING ERRCODE = 'LR123', MESSAGE = 'the message', DETAIL = 'The detail.', HINT = 'The hint.';
END $$
SQL
	my $result = $one->query("CALL redis_with_lock('error', " . quote($raise) . ')');
	$result->fails('LR123', qr/^ERROR:  LR123: the message$/m, 'SQLSTATE and message');
	is($result->detail, 'The detail.', 'detail');
	is($result->hint, 'The hint.', 'hint');
	is(done(), '', 'rolled back');
	$one->query_is("SELECT redis_is_locked('error'), redis_is_held('error')",
		'f|f', 'released');

	# At the command's commit.
	$one->query_fails(
		"CALL redis_with_lock('error', 'INSERT INTO done VALUES (''a''); INSERT INTO child VALUES (1)')",
		'23503', qr/child_fk/, 'a constraint that is deferred');
	is(done(), '', 'rolled back');
	$one->query_is("SELECT redis_is_locked('error')", 'f', 'released');

	# At the commit of the caller's own work: the command does not run.
	$one->query_fails(<<'SQL', '23503', qr/child_fk/, 'a commit before the command that fails');
DO $$
DECLARE
	did boolean;
BEGIN
	INSERT INTO child VALUES (1);
	CALL redis_with_lock('error', 'INSERT INTO done VALUES (''a'')', ran => did);
END $$
SQL
	is(done(), '', 'the command has not run');
	$one->query_is("SELECT redis_is_locked('error')", 'f', 'released');
	nothing_left($node, $redis);
};

# The command of a job is another job; both must be released whatever happens.
subtest 'jobs in jobs' => sub {
	my $command =
	  "CALL redis_with_lock('inner', 'INSERT INTO done SELECT key FROM redis_locks ORDER BY key')";

	$one->query_is("CALL redis_with_lock('outer', " . quote($command) . ')',
		't', 'a job in a job');
	is(done(), 'inner outer', 'with both locks');
	$command = "CALL redis_with_lock('outer', 'INSERT INTO done SELECT redis_hold_count(''outer'')')";
	$one->query_is("CALL redis_with_lock('outer', " . quote($command) . ')',
		't', 'of the same key');
	is(done(), '2', 'held twice');
	nothing_left($node, $redis);

	foreach my $key ('inner', 'outer')
	{
		my $how = $key eq 'inner' ? 'another key' : 'the same key';

		$command = "CALL redis_with_lock('$key', 'SELECT 1/0')";
		$one->query_fails(
			"CALL redis_with_lock('outer', " . quote($command) . ')',
			'22012', qr/division by zero/, "$how: the inner one fails");
		$one->query_is("SELECT redis_is_held('inner'), redis_is_held('outer')",
			'f|f', "$how: both are released");
		$one->query('SELECT redis_unlock_all()');
		is($node->value('SELECT count(*) FROM redis_locks'),
			0, "$how: nothing is held");

		# Left behind by the failure before, it would be there for ever.
		$one->quit;
		$one = $node->session;
		nothing_left($node, $redis);
	}

	# The inner one was busy: no error, the outer one goes on.
	$two->query("SELECT redis_lock('inner')");
	$command = <<'SQL';
DO $$
DECLARE
	did boolean;
BEGIN
	CALL redis_with_lock('inner', 'SELECT 1', ran => did);
	INSERT INTO done VALUES ('outer ' || did);
END $$
SQL
	$one->query_is("CALL redis_with_lock('outer', " . quote($command) . ')',
		't', 'the inner one is busy');
	is(done(), 'outer false', 'the outer one goes on');
	$two->query("SELECT redis_unlock('inner')");
	nothing_left($node, $redis);
};

my %stops = (
	'a cancel' => [ sub { $_[0]->cancel }, '57014' ],
	'pg_terminate_backend' => [ sub { $_[0]->terminate }, '57P01' ],
	'statement_timeout' => [ sub { }, '57014', "SET statement_timeout = '500ms'" ]);

foreach my $how (sort keys %stops)
{
	my ($stop, $sqlstate, $before) = @{ $stops{$how} };

	subtest "$how during the command" => sub {
		my $s = $node->session;

		$s->query($before) if $before;
		my $start = now();
		if ($before)
		{
			$s->start(
				"CALL redis_with_lock('stopped', 'INSERT INTO done VALUES (''a''); SELECT pg_sleep(600)')"
			);
		}
		else
		{
			start_sleeper($s, 'stopped');
		}
		$stop->($s);
		$s->wait->fails($sqlstate, qr/./, 'stopped');
		poll_until('the backend to end', sub { $s->is_gone })
		  if $sqlstate eq '57P01';
		is(done(), '', 'rolled back');
		is($redis->cmd('EXISTS', 'stopped'), 0, 'released');
		$s->quit;
		nothing_left($node, $redis);
	};
}

# ----------
# Nobody else gives the lock back
# ----------

subtest "the runner's hold" => sub {
	my $held = "INSERT INTO done SELECT redis_hold_count(''own'') || ''/'' || redis_is_locked(''own'')";

	foreach my $unlock ("redis_unlock('own')", 'redis_unlock_all()')
	{
		my $quoted = $unlock;
		$quoted =~ s/'/''/g;
		my $result = $one->query(
			"CALL redis_with_lock('own', 'SELECT $quoted; $held')");

		is($result->out, 't', "$unlock in the command");
		is( join('', map { $_->message } $result->warnings),
			$unlock =~ /all/ ? '' : 'you don\'t own the Redis lock "own"',
			$unlock =~ /all/ ? 'no warning' : 'a warning');
		is(done(), '1/true', 'does not give it back');

		# Holds of the command's own can be given back, one or all.
		$result = $one->query(
			"CALL redis_with_lock('own', 'SELECT redis_lock(''own''), redis_lock(''own''); SELECT $quoted; $held')"
		);
		is($result->{raw}, '', "$unlock of the command's own holds");
		is(done(), $unlock =~ /all/ ? '1/true' : '2/true', 'only those');
		is($one->value("SELECT redis_hold_count('own')"),
			$unlock =~ /all/ ? 0 : 1, 'what the command leaves held stays');
		$one->query('SELECT redis_unlock_all()');
	}
	nothing_left($node, $redis);

	# The session has the key already.
	$one->query_is("SELECT redis_lock('own')", '', 'held by the session');
	$one->query_is("CALL redis_with_lock('own', '$held')", 't', 'a job beside it');
	is(done(), '2/true', 'counts');
	$one->query_is("SELECT redis_hold_count('own')", '1', 'and leaves it');
	is_deeply([ values %{ $redis->hash('own') } ], [1], 'in Redis too');
	$one->query_fails("CALL redis_with_lock('own', 'SELECT 1/0')",
		'22012', qr/division/, 'a job that fails');
	$one->query_is("SELECT redis_hold_count('own')", '1', 'leaves it as well');
	$one->query_is("CALL redis_with_lock('own', 'SELECT redis_unlock_all()')",
		't', 'a command that gives back what the session held before');
	$one->query_is("SELECT redis_hold_count('own'), redis_is_locked('own')",
		'0|f', 'ends it');
	nothing_left($node, $redis);

	# The calling procedure has it at transaction level: that ends with the
	# first commit, and the job goes on.
	my $result = $one->query(<<'SQL');
DO $$
DECLARE
	did boolean;
BEGIN
	PERFORM redis_xact_lock('own');
	CALL redis_with_lock('own',
		'INSERT INTO done SELECT scope || redis_hold_count(''own'') FROM redis_locks', ran => did);
	INSERT INTO done VALUES (did || '/' || redis_is_locked('own'));
END $$
SQL
	is($result->{raw}, '', 'a caller that has it at transaction level');
	is(done(), 'session1 true/false', 'only the job has it in the command');
	nothing_left($node, $redis);
};

# ----------
# The lock is lost
# ----------

# A given lease that ends while the command runs; another session takes the lock
# meanwhile.  What has written must not commit.
subtest 'a lease that ends during the command' => sub {
	my $lease = limit(0.5);
	my $nap = $lease * 2;

	$one->start(
		"CALL redis_with_lock('lost', 'INSERT INTO done VALUES (''late''); SELECT pg_sleep($nap)', lease => '$lease s')"
	);
	wait_for_sleep($one);
	$two->query_is(
		"CALL redis_with_lock('lost', 'INSERT INTO done VALUES (''next'')', wait => NULL)",
		't', 'the next one has it when the lease has ended');
	my $result = $one->wait;
	$result->fails('40001', qr/could not commit because the lock "lost" was lost.*expired/s,
		'its commit is refused');
	is(done(), 'next', 'only the next one has done something');
	$one->query_is("SELECT redis_is_held('lost'), redis_hold_count('lost')",
		'f|0', 'the loss ends with the job');
	$one->query_is("CALL redis_with_lock('lost', 'SELECT 1')",
		't', 'which can be run again');
	nothing_left($node, $redis);

	# One that has written nothing has run: what it says is only a warning.
	$result = $one->query(
		"CALL redis_with_lock('lost', 'SELECT pg_sleep($nap)', lease => '$lease s')");
	is($result->out, 't', 'a command that has not written');
	my @warnings = $result->warnings;
	is(scalar @warnings, 1, 'with a warning');
	like($warnings[0]->message, qr/the lock "lost" was lost/, 'of the loss')
	  if @warnings;
	nothing_left($node, $redis);

	# Without the guard it commits.
	$result = $one->query(
		"SET lockredis.commit_guard = off; CALL redis_with_lock('lost', 'INSERT INTO done VALUES (''late''); SELECT pg_sleep($nap)', lease => '$lease s'); RESET lockredis.commit_guard"
	);
	is($result->error, undef, 'with the guard off');
	is(done(), 'late', 'it commits, so the guard it was');
	nothing_left($node, $redis);
};

# The command unlocks a hold of its own after the lock was lost.  That must not
# hide from the job's commits that its lock is gone.
subtest 'a loss that the command unlocks' => sub {
	foreach my $unlock ("redis_unlock('lost')", 'redis_unlock_all()')
	{
		my $command = <<"SQL";
DO \$\$ BEGIN
	PERFORM redis_lock('lost');
	PERFORM redis_force_unlock('lost');
	PERFORM $unlock;
	ROLLBACK;
	INSERT INTO done VALUES ('late');
END \$\$
SQL
		$one->query("CALL redis_with_lock('lost', " . quote($command) . ')')
		  ->fails('40001', qr/could not commit because the lock "lost" was lost/,
			"$unlock: the commit is refused");
		is(done(), '', "$unlock: nothing was done");
		$one->query_is("SELECT redis_hold_count('lost'), redis_lock('lost'), redis_unlock('lost')",
			'0||t', "$unlock: the loss ends with the job");
	}
	nothing_left($node, $redis);
};

# ----------
# hold_at_least
# ----------

# The key must be there for a while after the job has ended, and go by itself.
# What is left is compared with the clock of the test, as the holder started it
# after "start".
sub stays_locked
{
	my ($key, $start, $hold, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $left = $redis->cmd('PTTL', $key) / 1000;
	my $passed = now() - $start;

	cmp_ok($left, '>', $hold - $passed - 0.1, "$name: not shorter")
	  || diag "$passed s have passed";
	cmp_ok($left, '<=', $hold, "$name: not longer");
	return;
}

subtest 'hold_at_least' => sub {
	my $hold = limit(1);
	my $more = "hold_at_least => '$hold s'";
	my $start = now();

	# Shorter than the lease, longer than the command.
	$one->query_is(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''ran'')', $more)",
		't', 'a quick command');
	stays_locked('keep', $start, $hold, 'a quick command');
	is($node->value('SELECT count(*) FROM redis_locks'),
		0, 'nobody on this server holds it');
	$one->query_is("SELECT redis_is_held('keep'), redis_is_locked('keep')",
		'f|t', 'the session neither');
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
		'f', 'and cannot take it');
	$two->query_is(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''next'')', wait => NULL)",
		't', 'whoever waits gets it');
	cmp_ok(now() - $start, '>=', $hold, 'when the time has passed');
	is(done(), 'ran next', 'what was done');
	nothing_left($node, $redis);

	# Longer than the lease: no renewal is needed.
	my $long = $lease_ms / 1000 + limit(2);
	$start = now();
	$one->query_is(
		"CALL redis_with_lock('keep', 'SELECT 1', hold_at_least => '$long s')",
		't', 'longer than the lease');
	stays_locked('keep', $start, $long, 'longer than the lease');
	$redis->cmd('DEL', 'keep');

	# Passed already: given back at once.
	$one->query_is(
		"CALL redis_with_lock('keep', 'SELECT pg_sleep(0.2)', hold_at_least => '0.1 s')",
		't', 'a command that lasts longer');
	is($redis->cmd('EXISTS', 'keep'), 0, 'is released at its end');

	# It belongs to the key: whoever releases it in the end respects it.
	$start = now();
	$one->query_is("SELECT redis_lock('keep')", '', 'held by the session');
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1', hold_at_least => '$long s')",
		't', 'a job beside it');
	$one->query_is("SELECT redis_unlock('keep')", 't', 'given back');
	stays_locked('keep', $start, $long, 'beside a hold of the session');
	$redis->cmd('DEL', 'keep');
	nothing_left($node, $redis);

	# Not a command, so nothing to repeat: errors keep the key too.
	$start = now();
	$one->query_fails("CALL redis_with_lock('keep', 'SELECT 1/0', $more)",
		'22012', qr/division/, 'a command that fails');
	stays_locked('keep', $start, $hold, 'a command that fails');
	$redis->cmd('DEL', 'keep');

	# A lease that ends before hold_at_least: lost for the job, but nobody else
	# gets the key before its time.
	$start = now();
	$one->query_fails(
		"CALL redis_with_lock('keep', 'INSERT INTO done VALUES (''late''); SELECT pg_sleep(0.3)', lease => '100 ms', hold_at_least => '$long s')",
		'40001', qr/the lock "keep" was lost/, 'a lease that ends before');
	stays_locked('keep', $start, $long, 'a lease that ends before');
	poll_until('the watchdog to have done its part',
		sub { $node->value('SELECT count(*) FROM redis_locks') == 0 });
	stays_locked('keep', $start, $long, 'after it was given back');
	$two->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
		'f', 'nobody else has it meanwhile');
	$redis->cmd('DEL', 'keep');

	# Busy: neither is lengthened.
	$redis->cmd('HSET', 'keep', 'somebody:1', 1);
	$redis->cmd('PEXPIRE', 'keep', 600);
	$one->query_is("CALL redis_with_lock('keep', 'SELECT 1', hold_at_least => '1 hour')",
		'f', 'busy');
	cmp_ok($redis->cmd('PTTL', 'keep'), '<=', 600, "the other's lease stays");
	$redis->cmd('DEL', 'keep');
	nothing_left($node, $redis);
};

foreach my $how ('a cancel', 'pg_terminate_backend', 'the client vanishes')
{
	subtest "hold_at_least and $how" => sub {
		my $s =
		  $node->session(settings => { client_connection_check_interval => '100ms' });
		my $hold = limit(3);
		my $start = now();

		start_sleeper($s, 'keep', more => "hold_at_least => '$hold s'");
		if ($how eq 'a cancel')
		{
			$s->cancel;
			$s->wait->fails('57014', qr/user request/, 'cancelled');
		}
		else
		{
			$how =~ /terminate/ ? $s->terminate : $s->vanish;
			poll_until('the backend to end', sub { $s->is_gone });
		}
		stays_locked('keep', $start, $hold, $how);
		is($node->value('SELECT count(*) FROM redis_locks'),
			0, 'nobody on this server holds it');
		$two->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
			'f', 'and nobody can take it');
		is(done(), '', 'rolled back');
		$redis->cmd('DEL', 'keep');
		$s->quit;
		nothing_left($node, $redis);
	};
}

# Redis is frozen when the session is terminated, so its release is not
# answered; the watchdog gives it back later, and keeps the key all the same.
subtest 'hold_at_least, and Redis is frozen at the end' => sub {
	my $hold = limit(2) + limit(6);
	my $s = $node->session;
	my $start = now();

	start_sleeper($s, 'keep', more => "hold_at_least => '$hold s'");
	$redis->freeze;
	$s->terminate;
	poll_until('the backend to end', sub { $s->is_gone });
	is($node->value('SELECT count(*) FROM redis_locks WHERE pid IS NULL'),
		1, 'left to the watchdog');
	$redis->thaw;
	poll_until('the watchdog to give it back',
		sub { $node->value('SELECT count(*) FROM redis_locks') == 0 });
	stays_locked('keep', $start, $hold, 'given back by the watchdog');
	$redis->cmd('DEL', 'keep');
	$s->quit;
	nothing_left($node, $redis);
};

# The server crashes while the command runs.  Nobody gives the lock back; the
# key is there until its time has passed, since the first request asked for it.
foreach my $longer ('the lease', 'hold_at_least')
{
	subtest "a crash during the command, $longer is longer" => sub {
		my $lease = limit($longer eq 'the lease' ? 3 : 1);
		my $hold = limit($longer eq 'the lease' ? 1 : 3);
		my $longest = limit(3);
		my $s = $node->session;
		my $start = now();

		start_sleeper($s, 'keep', more => "lease => '$lease s', hold_at_least => '$hold s'");
		$s->kill9;
		$s->quit;
		$_->quit foreach $one, $two;
		poll_until('the server to restart',
			sub { eval { $node->value('SELECT 1') } });
		stays_locked('keep', $start, $longest, 'after the crash');
		$one = $node->session;
		$two = $node->session;
		$one->query_is("CALL redis_with_lock('keep', 'SELECT 1')",
			'f', 'busy for the new instance');
		is(done(), '', 'rolled back');
		poll_until('the key to go by itself',
			sub { !$redis->cmd('EXISTS', 'keep') });
		cmp_ok(now() - $start, '>=', $longest - 0.01, 'until its time has passed');
		nothing_left($node, $redis);
	};
}

# Two servers whose clocks differ start the same quick job, one after the other
# has finished.  Without hold_at_least it runs twice.
of_redis 'there is one server' => sub {
	subtest 'a quick job on two servers' => sub {
		my $other = LockRedis::Node->create(
			'other',
			redis => $redis,
			settings => \%settings);
		my $there = $other->session;
		my $hold = limit(3);

		$other->wait_for_up;
		foreach my $more ('', ", hold_at_least => '$hold s'")
		{
			my $ran = 0;
			foreach my $s ($one, $there, $one)
			{
				$ran++
				  if $s->value("CALL redis_with_lock('cron', 'SELECT 1'$more)") eq 't';
			}
			is($ran, $more ? 1 : 3, $more ? 'runs once' : 'without hold_at_least it does not');
		}
		$there->quit;
		$redis->cmd('DEL', 'cron');
		nothing_left([ $node, $other ], $redis);
		$other->stop;
	};
};

# ----------
# Redis is away
# ----------

# The command runs while Redis is frozen: its commit asks nobody, the release is
# left to the watchdog, and the user is told.
subtest 'Redis is frozen when the job ends' => sub {
	$one->start(
		"CALL redis_with_lock('frozen', 'INSERT INTO done VALUES (''ran''); SELECT pg_sleep(0.5)', lease => '1 hour')"
	);
	wait_for_sleep($one);
	$redis->freeze;
	my $result = $one->wait;
	is($result->out, 't', 'it has run');
	my @warnings = $result->warnings;
	is(join(' ', map { $_->sqlstate } @warnings), '08006', 'with a warning');
	is(done(), 'ran', 'and has committed');
	$redis->thaw;
	nothing_left($node, $redis);
};

# Redis is stopped before: nothing runs.
of_redis 'the worker is always started again' => sub {
	subtest 'no Redis' => sub {
		$redis->stop;
		$one->query_fails(
			"CALL redis_with_lock('down', 'INSERT INTO done VALUES (''ran'')')",
			'08001', qr/could not reach the lock store/, 'an error, not "busy"');
		is(done(), '', 'nothing has run');
		$redis->start;
		$node->wait_for_up;
		$one->query_is("CALL redis_with_lock('down', 'SELECT 1')", 't', 'back again');
		nothing_left($node, $redis);
	};
};

$one->quit;
$two->quit;
nothing_left($node, $redis);
done_testing();
