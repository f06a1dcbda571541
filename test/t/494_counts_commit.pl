# Copyright (c) 2026, lockredis contributors

# A statement that took permits of a semaphore, or a token lock, and fails at its very end gives
# them back: when its own commit fails, behind a ROLLBACK in a procedure, in a deferred trigger,
# and when a cancel comes with the line of the log that a long wait is over; so does a job.  What
# an earlier statement of the transaction took stays.
# Proves G24, G43, G45.

use IPC::Run;
use LockRedis::Debugger;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

LockRedis::Debugger->need;

my ($node, $redis, $one, $two) = servers(
	sessions => 2, redis => lock_store,
	settings => { log_lock_waits => 'on', deadlock_timeout => '10ms' });

$one->query(<<'SQL');
SELECT redis_semaphore_init('s', 5);
CREATE TABLE taken (i int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO taken VALUES (1);
CREATE FUNCTION takes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM redis_semaphore_acquire('s');
	BEGIN
		RAISE 'caught';
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	RETURN NULL;
END $$;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE 'it fails';
END $$;
CREATE TABLE late (i int);
CREATE CONSTRAINT TRIGGER a AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION takes();
CREATE CONSTRAINT TRIGGER b AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW WHEN (NEW.i > 1) EXECUTE FUNCTION fails();
CREATE PROCEDURE rolls_back() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM redis_semaphore_acquire('s');
	ROLLBACK;
	RAISE 'it fails';
END $$;
CREATE PROCEDURE rolls_back_in_a_loop() LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT redis_semaphore_acquire('s') FROM generate_series(1, 2)
	LOOP
		ROLLBACK;
		RAISE 'it fails';
	END LOOP;
END $$;
SQL

# So many are free, and nothing is to be given back any more; then five are.
sub is_free ($n, $name)
{
	poll_until("$name: nothing to be given back", sub { $node->count_locks == 0 });
	$two->query_is("SELECT redis_semaphore_available('s')", $n, $name);
	$two->query("SELECT redis_semaphore_drain('s'), redis_semaphore_release('s', 5)");
	return;
}

# ----------
# The commit of the statement itself
# ----------

my $insert = "INSERT INTO taken SELECT 1 WHERE redis_try_semaphore_acquire('s', 2)";
my $select = "WITH i AS (INSERT INTO taken VALUES (1) RETURNING i) SELECT redis_semaphore_acquire('s') FROM i";

foreach my $sql ($insert, $select)
{
	$one->query_fails($sql, '23505', qr/duplicate key/, $sql);
	is_free(5, 'its commit fails: given back');
}

# By the extended protocol the statement ends before its transaction does.
my $script = PostgreSQL::Test::Utils::tempdir() . '/script';

foreach my $sql ($insert, $select)
{
	my $output = '';

	unlink $script;
	append_to_file($script, "$sql;\n");
	IPC::Run::run(
		[
			'pgbench', '-n', '-t', 1, '-M', 'extended', '-f', $script, '-h',
			$node->host, '-p', $node->port, 'postgres'
		],
		'>', \$output, '2>&1', IPC::Run::timeout(limit(120)));
	like($output, qr/duplicate key/, "extended protocol: $sql");
	is_free(5, 'extended protocol: given back');
}
$one->query_fails("WITH i AS (INSERT INTO taken VALUES (1) RETURNING i) SELECT redis_token_lock('t', '1h') FROM i",
	'23505', qr/duplicate key/, 'a token lock');
poll_until('it to be given back', sub { $node->count_locks == 0 });
$one->query_is("SELECT redis_token_lock('t', '1h', 'x'), redis_token_unlock('t', 'x')", 'x|t', 'is given back');

$one->query("BEGIN; $insert");
$one->query_fails('COMMIT', '23505', qr/duplicate key/, 'the commit of a block');
is_free(3, 'what a statement before it took stays');
$one->query("SELECT redis_semaphore_acquire('s')");
is_free(4, 'a commit that does not fail');

# ----------
# Procedures, and triggers that are deferred
# ----------

foreach my $procedure (qw(rolls_back rolls_back_in_a_loop))
{
	$one->query_fails("CALL $procedure()", 'P0001', qr/it fails/, $procedure);
	is_free(5, "$procedure: given back");
}
$one->query_fails('INSERT INTO late VALUES (2)', 'P0001', qr/it fails/, 'a deferred trigger');
is_free(5, 'a deferred trigger: given back');
$one->query('BEGIN; INSERT INTO late VALUES (2)');
$one->query_fails('COMMIT', 'P0001', qr/it fails/, 'a deferred trigger at a COMMIT');
is_free(5, 'a deferred trigger at a COMMIT: given back');
$one->query('BEGIN; INSERT INTO late VALUES (1); COMMIT');
is_free(4, 'a deferred trigger that does not fail');

# ----------
# A cancel that comes with the end of a long wait
# ----------

foreach (
	[ "SELECT redis_semaphore_acquire('s', 9)", '', "redis_semaphore_release('s', 4)", 9 ],
	[ "SELECT redis_token_lock('t', '1h')", "redis_token_lock('t', '1h', 'x')", "redis_token_unlock('t', 'x')", 5 ],
	[ "CALL redis_with_lock('job', 'SELECT 1', '1h')", "redis_lock('job')", "redis_unlock('job')", 5 ])
{
	my ($takes, $has, $gives, $free) = @$_;
	my $session = $node->session;
	my $stop;

	$two->query("SELECT $has") if $has;
	$node->log_since_here;
	$session->start($takes);
	poll_until('the line of the log', sub { $node->logged(qr/still waiting for Redis lock/) });
	$stop = LockRedis::Debugger->new($session->pid);
	$stop->run_to('long_wait_acquired');
	$two->query("SELECT $gives");
	$stop->wait_for_stop;
	$session->cancel;
	$stop->let_go;
	$session->wait(limit(60))->fails('57014', qr/./, "$takes: cancelled");
	is_free($free, "$takes: given back");
	$session->quit;
}
$one->query_is("SELECT redis_token_lock('t', '1h', 'y'), redis_token_unlock('t', 'y'), redis_is_locked('job')",
	'y|t|f', 'the token lock and the lock of the job, too');

$_->quit foreach $one, $two;
done_testing();
