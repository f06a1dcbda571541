# Copyright (c) 2026, lockredis contributors

# CALL redis_with_lock.  The lock is taken, a commit gives the command a fresh
# snapshot, the command runs, commits, and the lock is given back; busy means that
# nothing happened at all.  Where it may be called, and with what.
#
# CALL redis_with_lock where there is a transaction that nobody has begun: the
# commands of a pipeline up to its Sync, and of a query string.
# - What came before it in there is not committed by it: 2D000, and nothing has
#   happened, whatever came before (writing, a transaction-level lock, a query).
# - First in a pipeline it works, also several of them one after the other,
#   busy or not; what follows does not belong to its transaction.
# - A procedure that has ended the pipeline's transaction itself may call it,
#   and what it does afterwards belongs to the rest of the pipeline.
# Proves G24.

use IPC::Run;
use LockRedis::Test;
use LockRedis::Topic::Jobs;
use PostgreSQL::Test::Utils;

start_servers();

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

	# The command's transaction starts when the lock is acquired: what the holder
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
	is($node->value('SELECT visible FROM watch'), 1, 'on a snapshot taken after the lock');
	is(done(), 'meanwhile', 'the first one was rolled back');

	# The lock goes after the commit, which goes on until somebody waits: whoever gets
	# it sees what was done.
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE slow (a int);
CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql
	AS $$ BEGIN
		WHILE NOT EXISTS (SELECT FROM redis_locks WHERE waiting_since IS NOT NULL) LOOP
			PERFORM pg_sleep(0.1);
		END LOOP;
		PERFORM pg_sleep(0.2);
		RETURN NULL;
	END $$;
CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION nap();
SQL
	$one->start("CALL redis_with_lock('visible', 'INSERT INTO slow VALUES (1)')");
	$node->wait_for_event($one, 'PgSleep');
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
	$redis->foreign_lock('elsewhere');
	$one->query_is("CALL redis_with_lock('elsewhere', 'SELECT 1')", 'f', 'held elsewhere');
	$redis->cmd('DEL', 'elsewhere');

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
	is(done(), 'before inner', 'its lock commits what was before, and nothing of what comes after');

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

		$result->fails('2D000', qr/redis_with_lock cannot run inside a transaction block/, $sql);
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
	is($redis->script_calls - $calls, 0, 'nothing was taken');
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
	is($redis->script_calls - $calls, 0, 'nothing was taken');
	$one->query_is("CALL redis_with_lock('k', 'SELECT 1', hold_at_least => '0')",
		't', 'hold_at_least 0');
	nothing_left($node, $redis);
};

# ----------
# Pipelines
# ----------

$node->set(log_line_prefix => '%e ');
$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE before_and_after() LANGUAGE plpgsql AS $$
DECLARE
	ran boolean;
BEGIN
	CALL redis_with_lock('job', 'INSERT INTO done VALUES (''job'')', ran => ran);
	INSERT INTO done VALUES ('after');
END $$;
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
DECLARE
	ran boolean;
BEGIN
	COMMIT;
	CALL redis_with_lock('job', 'INSERT INTO done VALUES (''job'')', ran => ran);
END $$;
SQL

my $script = PostgreSQL::Test::Utils::tempdir() . '/script';

# Send the statements with one Sync at the end; returns what the server says,
# as "<SQLSTATE> ERROR:  <message>", or nothing.
sub pipeline (@statements)
{
	my $output = '';

	open my $fh, '>', $script or die "could not create $script: $!";
	print $fh join "\n", '\startpipeline', (map { "$_;" } @statements),
	  "\\endpipeline\n";
	close $fh or die $!;
	$node->log_since_here;
	IPC::Run::run(
		[
			'pgbench', '-n', '-t', 1, '-M', 'extended', '-f', $script, '-h',
			$node->host, '-p', $node->port, 'postgres'
		],
		'>', \$output, '2>&1', IPC::Run::timeout(120));
	like($output, qr/ERROR|actually processed: 1\/1/, 'sent') || diag $output;
	my ($error) = $node->log_text =~ /^(\w+ ERROR: .*)$/m;
	return $error || '';
}

my $job = q{CALL redis_with_lock('job', 'INSERT INTO done VALUES (''job'')')};
my $refused = qr/^2D000 ERROR:  redis_with_lock cannot run inside a transaction block$/;

#
# Refused
#

# Execute (something), Execute (CALL), Sync: the CALL would commit the something.
foreach my $before (
	q{INSERT INTO done VALUES ('before')},
	q{SELECT redis_xact_lock('other')},
	q{SELECT count(*) FROM done},
	q{CREATE TABLE created (a int)})
{
	like(pipeline($before, $job), $refused, "after $before");
	is(done(), '', 'nothing was done');
	is($redis->cmd('EXISTS', 'job'), 0, 'nor taken');
}
is($node->value(q{SELECT to_regclass('created') IS NULL}), 't', 'nor created');
like(pipeline(q{INSERT INTO done VALUES ('before')}, 'CALL before_and_after()'),
	$refused, 'from a procedure of the pipeline');
is(done(), '', 'nothing was done');
like(pipeline($job, q{INSERT INTO done VALUES ('between')}, $job),
	$refused, 'after another command after a job');
is(done(), 'job', 'the first job was done, and nothing else');
like(
	pipeline(q{INSERT INTO done VALUES ('before')}, q{CALL redis_await_lock('job')}),
	qr/^2D000 ERROR:  redis_await_lock cannot run inside a transaction block$/,
	'redis_await_lock after another command');
is(done(), '', 'nothing was done');
is($redis->cmd('EXISTS', 'job'), 0, 'nor taken');
like(pipeline('BEGIN', $job, 'COMMIT'), $refused, 'in a block of the pipeline');
is(done(), '', 'nothing was done');

# The simple protocol: one query string is one transaction.
my $s = $node->session;
foreach my $string (
	"INSERT INTO done VALUES ('before')\\; $job",
	"SELECT redis_xact_lock('other')\\; $job",
	"$job\\; INSERT INTO done VALUES ('after')")
{
	$s->query_fails($string, '2D000',
		qr/cannot run inside a transaction block.*first in a pipeline/s, $string);
	is(done(), '', 'nothing was done');
}

#
# Not refused
#

is(pipeline($job), '', 'alone');
is(done(), 'job', 'was done');
is(pipeline($job, $job, q{INSERT INTO done VALUES ('after')}), '', 'one after the other');
is(done(), 'job job after', 'all was done');
is(pipeline('BEGIN', q{INSERT INTO done VALUES ('block')}, 'COMMIT', $job),
	'', 'after a transaction that has ended');
is(done(), 'block job', 'both were done');

my $await = q{CALL redis_await_lock('job')};
is(pipeline($await, $await, q{INSERT INTO done SELECT redis_hold_count('job')::text}),
	'', 'redis_await_lock, twice');
is(done(), '2', 'the lock is held, and what follows is done');

# The client does not wait for the end of its session.
$node->wait_for_free($redis, 'job');

# Busy: nothing has happened, so the next one may.
$s->query(q{SELECT redis_lock('busy')});
is(pipeline(q{CALL redis_with_lock('busy', 'SELECT 1')}, $job), '', 'after a busy one');
is(done(), 'job', 'was done');
$s->query_is(q{SELECT redis_unlock('busy')}, 't', 'given back');

# What follows is a transaction of its own.
like(pipeline($job, q{INSERT INTO done VALUES ('after')}, 'SELECT 1/0'),
	qr/^22012 /, 'an error after it');
is(done(), 'job', 'takes back what followed, and not the job');

# A procedure's own later work belongs to the pipeline.
like(pipeline('CALL before_and_after()', 'SELECT 1/0'), qr/^22012 /,
	'an error after a procedure');
is(done(), 'job', 'takes back what the procedure has done after the job');

# One that ends the pipeline's transaction first, where PostgreSQL allows that.
my $error = pipeline(q{INSERT INTO done VALUES ('before')}, 'CALL commits()');
is(done(), $error ? '' : 'before job', 'a procedure that commits by itself')
  || diag $error;

end_test($node, $redis);
