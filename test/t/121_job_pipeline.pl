# Copyright (c) 2026, lockredis contributors

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
use PostgreSQL::Test::Utils;

my ($node, $redis) = servers(settings => { log_line_prefix => '%e ' });

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE done (what text);
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

# What was done, in order; forgotten by asking.
sub done
{
	return $node->value(
		q{WITH d AS (DELETE FROM done RETURNING ctid, what) SELECT string_agg(what, ' ' ORDER BY ctid) FROM d}
	);
}

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

# ----------
# Refused
# ----------

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

# ----------
# Not refused
# ----------

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
