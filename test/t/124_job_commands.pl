# Copyright (c) 2026, lockredis contributors

# CALL redis_with_lock, the command: which ones there may be, errors come
# through as they are, jobs in jobs; whatever ends the command, the lock is
# given back, not before its transaction has ended; nothing but the runner gives
# it back, or lets somebody else have it for a while: a second one of the same job
# never runs beside it.  A job's lock that is found lost when the runner gives it back, and
# how often a session has a lock besides a job that failed.
# Proves G2, G6, G24.

use LockRedis::Test qw(:DEFAULT quoted run);
use LockRedis::Topic::Jobs;
use PostgreSQL::Test::Utils;

start_servers();

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

		$one->query_is("CALL redis_with_lock('command', " . quoted($command) . ')',
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
			"CALL redis_with_lock('command', " . quoted($command) . ')',
			$sqlstate, qr/./, "$name is an error");
		is(done(), '', "$name: rolled back");
		released('command', "$name: released");
	}

	# The place of an error is one in the command, not in the CALL.  (Before
	# PostgreSQL 18 a statement begins with the blank that is before it.)
	foreach my $last ('SELEC 1', 'SELECT no_such_column')
	{
		my $error = $one->query("CALL redis_with_lock('command', 'SELECT 1; $last')")->{raw};
		like($error, qr/^LINE 1:\s+(?:SELECT 1; )?\Q$last\E\n/m, "$last: where it is");
		like($error, qr/^QUERY:\s+(?:SELECT 1; )?\Q$last\E$/m, "$last: in which query");
		released('command', "$last: released");
	}
	nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);
	$redis->cmd('FLUSHALL');
};

sub memory_peak ($s)
{
	my $status = slurp_file('/proc/' . $s->pid . '/status');

	return $status =~ /^VmHWM:\s+(\d+) kB/m ? $1 : die 'no VmHWM';
}

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
	my $result = $one->query("CALL redis_with_lock('error', " . quoted($raise) . ')');
	$result->fails('LR123', qr/^ERROR:  LR123: the message$/m, 'SQLSTATE and message');
	is($result->detail, 'The detail.', 'detail');
	is($result->hint, 'The hint.', 'hint');
	is(done(), '', 'rolled back');
	released('error', 'released');
	$one->query_is("SELECT redis_is_held('error')", 'f', 'and not held');

	# At the command's commit.
	$one->query_fails(
		"CALL redis_with_lock('error', 'INSERT INTO done VALUES (''a''); INSERT INTO child VALUES (1)')",
		'23503', qr/child_fk/, 'a constraint that is deferred');
	is(done(), '', 'rolled back');
	released('error', 'released');

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
	released('error', 'released');
	nothing_left($node, $redis);
};

# The command of a job is another job; both must be released whatever happens.
subtest 'jobs in jobs' => sub {
	my $command =
	  "CALL redis_with_lock('inner', 'INSERT INTO done SELECT key FROM redis_locks ORDER BY key')";

	$one->query_is("CALL redis_with_lock('outer', " . quoted($command) . ')',
		't', 'a job in a job');
	is(done(), 'inner outer', 'with both locks');
	$command = "CALL redis_with_lock('outer', 'INSERT INTO done SELECT redis_hold_count(''outer'')')";
	$one->query_is("CALL redis_with_lock('outer', " . quoted($command) . ')',
		't', 'of the same key');
	is(done(), '2', 'held twice');
	nothing_left($node, $redis);

	foreach my $key ('inner', 'outer')
	{
		my $how = $key eq 'inner' ? 'another key' : 'the same key';

		$command = "CALL redis_with_lock('$key', 'SELECT 1/0')";
		$one->query_fails(
			"CALL redis_with_lock('outer', " . quoted($command) . ')',
			'22012', qr/division by zero/, "$how: the inner one fails");
		$one->query_is("SELECT redis_is_held('inner'), redis_is_held('outer')",
			'f|f', "$how: both are released");
		$one->query('SELECT redis_unlock_all()');
		is($node->count_locks('pid IS NOT NULL'), 0, "$how: nothing is held");

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
	$one->query_is("CALL redis_with_lock('outer', " . quoted($command) . ')',
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
		released('stopped', 'released');
		$s->quit;
		nothing_left($node, $redis);
	};
}

# ----------
# Nobody else gives the lock back
# ----------

#   A: the job's command waits for a condition of the job's lock: that gives the lock back
#   B: runs the job, and has the lock
#   A: is told, waits until B has done, and goes on: the job has run twice
# Each of them, called by the command: what it returns, and the error that ends the job.
my @calls = (
	[ 'a wait for a condition', "redis_condition_wait('job', '1 s')", undef, '55000' ],
	[ 'a wait for a condition, of a lock that the command has besides',
		"redis_try_lock('job') AND redis_condition_wait('job', '1 s')", undef, '55000' ],
	[ 'an unlock', "redis_unlock('job')", 'false' ],
	[ 'an unlock of all', 'redis_unlock_all()', '0' ],
	[ 'an unlock of several', "redis_multi_unlock(ARRAY['job'])", 'false' ],
	[ 'one too many', "redis_try_lock('job') AND redis_unlock('job') AND redis_unlock('job')",
		'false' ]);

$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE undoes() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM redis_xact_lock('job');
	ROLLBACK;
	PERFORM redis_unlock_all();
	COMMIT;
END $$;
SQL

foreach my $call (@calls)
{
	my ($name, $sql, $returns, $sqlstate) = @$call;
	my $job = "INSERT INTO done SELECT ($sql)::text; INSERT INTO done SELECT pg_sleep(30)";

	$one->start("CALL redis_with_lock('job', " . quoted($job) . ')');
	if ($sqlstate)
	{
		$one->wait->fails($sqlstate, qr/cannot wait for a condition of the lock "job"/,
			"$name: an error");
		is(done(), '', "$name: nothing was done");
		$one->query('SELECT redis_unlock_all()');
		released('job', "$name: the lock is free");
		next;
	}
	$node->wait_for_event($one, 'PgSleep');
	$two->query_is("CALL redis_with_lock('job', 'INSERT INTO done VALUES (''twice'')')", 'f',
		"$name: the job does not run a second time");
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, "$name: ended");
	is(done(), '', "$name: which is rolled back");
	released('job', "$name: the lock is free");

	$one->query("CALL redis_with_lock('job', " . quoted("INSERT INTO done SELECT ($sql)::text") . ')');
	is(done(), $returns, "$name: returns");
	released('job', "$name: the lock is free after the job");
}

# A procedure of the command that ends transactions.
$one->start("CALL redis_with_lock('job', 'CALL undoes(); SELECT pg_sleep(30)')");
$node->wait_for_event($one, 'PgSleep');
$two->query_is("CALL redis_with_lock('job', 'SELECT 1')", 'f', 'after ROLLBACK and COMMIT');
$one->cancel;
$one->wait->fails('57014', qr/cancel/, 'ended');
released('job', 'the lock is free');

subtest "the runner's hold" => sub {
	my $held = "INSERT INTO done SELECT redis_hold_count(''own'') || ''/'' || redis_is_locked(''own'')";

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
# A loss that is found when the lock is given back
# ----------

# What else the session has of that key is lost as well and has yet to be told of; the transaction
# that goes on after the job has done nothing under the job's lock, so it may commit.
run($one, 'CREATE TABLE t (a int)');
run($_, "SET lockredis.lease = '10min'") foreach $one, $two;

my $job = q{CALL redis_with_lock('k', 'SELECT pg_advisory_lock_shared(1)', ran => ran)};
my $in_a_do = sub ($more) {
	return "DO \$\$ DECLARE ran boolean; BEGIN $job; $more; END \$\$";
};

# The lock goes while the command runs, which has written nothing.
sub run_and_lose ($sql, $lose)
{
	run($two, 'SELECT pg_advisory_lock(1)');
	$one->start($sql);
	poll_until('the command to wait',
		sub { $node->value('SELECT count(*) FROM pg_locks WHERE NOT granted') == 1 });
	$lose->();
	run($two, 'SELECT pg_advisory_unlock(1)');
	my $result = $one->wait;
	run($one, 'SELECT pg_advisory_unlock_all()');
	return $result;
}

# How the session knows: it does not before it gives the lock back; or it does.
my %lose = (
	'found by the release' => sub { $redis->cmd('DEL', 'k') },
	'known before' => sub { $node->value("SELECT redis_force_unlock('k')") });

foreach my $how (sort keys %lose)
{
	# The session has the key too: then it has to be known, as the job's hold is not the last.
	foreach my $holds ($how eq 'known before' ? (1, 2) : ())
	{
		run($one, "SELECT redis_lock('k')") foreach 1 .. $holds;
		my $result = run_and_lose($in_a_do->('NULL'), $lose{$how});
		is($result->error, undef, "$how, $holds holds: the job ends");
		is_deeply(
			[ map { $_->message } $result->warnings ],
			['the lock "k" was lost'],
			'with a warning');
		$one->query_fails('INSERT INTO t VALUES (1)',
			'55000', qr/"k" was lost.*redis_unlock/s, 'what the session has is lost');
		$one->query_warns("SELECT redis_unlock('k')", 'f', '01000', qr/"k" was lost/,
			'until it is unlocked');
		$one->query_is('INSERT INTO t VALUES (1); DELETE FROM t', '', 'which ends it');
	}

	# It has not.
	my $result = run_and_lose($in_a_do->('INSERT INTO t VALUES (2)'), $lose{$how});
	is($result->error, undef, "$how: what comes after the job is committed");
	is_deeply(
		[ map { $_->message } $result->warnings ],
		['the lock "k" was lost'],
		'with a warning');
	is($node->value('SELECT count(*) FROM t'), 1, 'indeed');
	run($one, 'DELETE FROM t');
}

# What the session unlocks then is another matter.
{
	run($one, "SELECT redis_lock('k')");
	my $result =
	  run_and_lose($in_a_do->("INSERT INTO t VALUES (3); PERFORM redis_unlock('k')"),
		$lose{'known before'});
	$result->fails('55000', qr/"k" was lost/, 'a loss that is unlocked after the job');
	is($node->value('SELECT count(*) FROM t'), 0, 'nothing was written');
}

#
# A job that fails beside holds of the session
#

# The store knows nothing of how many there are; the next one gets the lock as it should be.
foreach my $command ('SELECT 1/0', q{CALL redis_with_lock('k', 'SELECT 1/0')})
{
	run($one, "SELECT redis_lock('k'), redis_lock('k')");
	(my $quoted = $command) =~ s/'/''/g;
	$one->query_fails("CALL redis_with_lock('k', '$quoted')",
		'22012', qr/division/, "$command fails");
	$one->query_is("SELECT redis_hold_count('k')", 2, 'two holds are left');
	$one->query_is("SELECT redis_unlock('k'), redis_unlock('k')", 't|t', 'given back');
	is(scalar($redis->all_keys), 0, 'all of it');
}

# A waiter gets the lock as it should be.
{
	my $before = $node->lock_stat('handoffs');

	run($one, "SELECT redis_lock('k')");
	$one->query("CALL redis_with_lock('k', 'SELECT 1/0')");
	$two->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	run($one, "SELECT redis_unlock('k')");
	is($two->wait->error, undef, 'the next one has it');
	is($node->lock_stat('handoffs') - $before, 1, 'handed over');
	is_deeply([ values %{ $redis->hash('k') } ], [1], 'as it should be');
	run($two, "SELECT redis_unlock('k')");
}

# The lock was lost: its session sees it.
{
	run($one, "SELECT redis_lock('k')");
	$one->query(q{CALL redis_with_lock('k', 'SELECT redis_force_unlock(''k''); SELECT 1/0')});
	$one->query_fails("SELECT redis_lock('k')",
		'55000', qr/was lost/, 'a lock that was lost meanwhile is lost');
	$one->query_warns("SELECT redis_unlock('k')",
		'f', '01000', qr/was lost/, 'until it is unlocked');
}

end_test($node, $redis);
