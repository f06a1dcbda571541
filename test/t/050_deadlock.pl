# Copyright (c) 2026, lockredis contributors

# Deadlocks: a cycle of sessions of one server
# that wait for each other's Redis locks, or partly for PostgreSQL's own locks,
# ends with 40P01 in one of them, the DETAIL has each edge, the server log the
# queries; whoever is not in the cycle is left alone.
#
# Who is the victim is decided by deadlock_timeout here: an eager session looks
# all the time, a patient one never does.  (That one of several who look at the
# same time breaks a cycle is tested in 055_long_wait.pl.)
#
# Proves G11.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		deadlock_timeout => '1h',
		max_prepared_transactions => 1,
		log_statement => 'none',
		log_min_error_statement => 'panic'
	});
my $eager = $node->session(settings => { deadlock_timeout => '50ms' });
my @patient = map { $node->session } 1 .. 3;
my $viewer = $node->session;

$node->wait_for_up;
$viewer->query(
	'CREATE TABLE t (id int PRIMARY KEY, n int);
	 INSERT INTO t VALUES (1, 0), (2, 0);
	 CREATE TABLE big AS SELECT g FROM generate_series(1, 1000) g');

sub key_edge ($waiter, $key, $level, $blocker)
{
	return sprintf 'Process %d waits for Redis lock%s (%s-level); blocked by process %d.',
	  $waiter->pid, defined $key ? " \"$key\"" : '', $level, $blocker->pid;
}

# The error, with exactly these lines in its DETAIL (text or pattern).
sub is_deadlock ($result, $name, @edges)
{
	my $pattern = join '\n', map { ref $_ ? $_ : quotemeta $_ } @edges;

	$result->fails('40P01', qr/deadlock detected/, "$name: 40P01");
	like($result->detail, qr/\A$pattern\z/, "$name: DETAIL");
	is($result->hint, 'See server log for query details.', "$name: HINT");
	return;
}

# It goes on; and then another statement
sub is_clean ($session, $name, $then = undef)
{
	my $error = $session->wait(20)->error;

	is($error ? $error->message : undef, undef, "$name: the other one goes on");
	$session->query($then) if defined $then;
	return;
}

#
# Two sessions, two keys.
#
# eager has a, patient has b and waits for a; eager asks for b.
#
foreach my $case ([ 'session', 'redis_lock' ], [ 'transaction', 'redis_xact_lock' ])
{
	my ($level, $lock) = @$case;
	my $other = $patient[0];
	my $before = $node->lock_stat('deadlocks');

	$node->log_since_here;
	$_->query('BEGIN') foreach $eager, $other;
	$eager->query("SELECT $lock('a')");
	$other->query("SELECT $lock('b')");
	$other->start("SELECT $lock('a')");
	$node->wait_for_waiters('a', 1);
	is_deadlock(
		$eager->query("SELECT $lock('b'), 'the eager one'"),
		"two keys, $level",
		key_edge($eager, 'b', $level, $other),
		key_edge($other, 'a', $level, $eager));

	is($node->lock_stat('deadlocks'), $before + 1, "two keys, $level: counted");
	my @story = (
		key_edge($eager, 'b', $level, $other),
		key_edge($other, 'a', $level, $eager),
		'Process ' . $eager->pid . ": SELECT $lock('b'), 'the eager one'",
		'Process ' . $other->pid . ": SELECT $lock('a')");
	my $story = join ';?\s+', map { quotemeta } @story;
	like($node->log_text, qr/ERROR:  deadlock detected\n.*DETAIL:  $story/,
		"two keys, $level: the server log has the edges and the queries");

	# A rollback frees what the transaction took; a session-level lock stays.
	$eager->query('ROLLBACK');
	if ($level eq 'session')
	{
		is($eager->value("SELECT redis_is_held('a')"),
			't', 'a session-level lock survives its deadlock');
		ok($other->is_running, 'and keeps the others waiting');
		$eager->query("SELECT redis_unlock('a')");
	}
	is_clean($other, "two keys, $level", 'COMMIT');
	$_->query('SELECT redis_unlock_all()') foreach $eager, $other;
}

#
# Three sessions, three keys, one of them with a lease of its own: that it would
# end by itself in a minute does not count.  And a fourth one, that waits
# for a session of the cycle without being part of it: it looks, and waits on.
#
{
	my ($two, $three) = @patient;
	my $outside = $node->session(settings => { deadlock_timeout => '10ms' });

	$eager->query("SELECT redis_lock('a')");
	$two->query("SELECT redis_lock('b', '60s')");
	$three->query("SELECT redis_lock('c')");
	$two->start("SELECT redis_lock('c')");
	$three->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('c', 1);
	$node->wait_for_waiters('a', 1);
	$outside->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 2);

	# Looked at from outside, a cycle of others is there all this time ...
	$eager->query("SET deadlock_timeout = '1s'");
	is_deadlock(
		$eager->query("SELECT redis_lock('b')"),
		'three keys',
		key_edge($eager, 'b', 'session', $two),
		key_edge($two, 'c', 'session', $three),
		key_edge($three, 'a', 'session', $eager));
	ok($outside->is_running, 'who is outside the cycle waits on');

	$eager->query("SET deadlock_timeout = '50ms'");
	$eager->query("SELECT redis_unlock_all()");
	is_clean($three, 'three keys, the third', "SELECT redis_unlock_all()");
	is_clean($two, 'three keys, the second', "SELECT redis_unlock_all()");
	is_clean($outside, 'three keys, outside');
	$outside->quit;
}

#
# A Redis lock and one of PostgreSQL's, closed by the session that waits for
# PostgreSQL's lock: PostgreSQL's own detector sees no cycle.
#
# eager has PostgreSQL's lock and waits for the key; it has looked before the
# cycle is closed (the server log says so), so it is found by a later look.
#
my @postgres_locks = (
	[
		'row',
		'UPDATE t SET n = n + 1 WHERE id = 1',
		'ShareLock on transaction \d+'
	],
	[
		'advisory',
		'SELECT pg_advisory_xact_lock(7)',
		'ExclusiveLock on advisory lock \[\d+,0,7,1\]'
	],
	[ 'table', 'LOCK TABLE t', 'AccessExclusiveLock on relation \d+ of database \d+' ]);

foreach my $case (@postgres_locks)
{
	my ($name, $lock, $wanted) = @$case;
	my $other = $patient[0];
	my ($pid, $other_pid) = ($eager->pid, $other->pid);

	$node->log_since_here;
	$_->query('BEGIN') foreach $eager, $other;
	$eager->query('SET LOCAL log_lock_waits = on');
	$eager->query($lock);
	$other->query("SELECT redis_xact_lock('a')");
	$eager->start("SELECT redis_xact_lock('a')");
	poll_until('a look that finds nothing',
		sub { $node->logged(qr/process $pid still waiting for Redis lock "a"/) });
	$other->start($lock);
	is_deadlock(
		$eager->wait(20),
		"key and $name",
		key_edge($eager, 'a', 'transaction', $other),
		qr/Process $other_pid waits for $wanted; blocked by process $pid\./);
	$eager->query('ROLLBACK');
	is_clean($other, "key and $name", 'COMMIT');
}

#
# The same, with a session in between that has never used a Redis lock, and
# closed by the one who waits for the key.
#
{
	my $other = $patient[0];
	my $innocent = $node->session;
	my $before = $node->lock_stat('deadlocks');

	$_->query('BEGIN') foreach $eager, $other, $innocent;
	$eager->query('UPDATE t SET n = n + 1 WHERE id = 1');
	$innocent->query('UPDATE t SET n = n + 1 WHERE id = 2');
	$other->query("SELECT redis_xact_lock('a')");
	$innocent->start('UPDATE t SET n = n + 1 WHERE id = 1');
	$node->wait_for_postgres_lock($innocent);
	$other->start('UPDATE t SET n = n + 1 WHERE id = 2');
	$node->wait_for_postgres_lock($other);

	# A bounded wait is no better off, as with lock_timeout.
	my $wait = $eager->query("SELECT redis_try_xact_lock('a', '30s')");
	my @pids = map { $_->pid } $eager, $other, $innocent;

	is_deadlock(
		$wait,
		'two row locks and a key',
		key_edge($eager, 'a', 'transaction', $other),
		qr/Process $pids[1] waits for ShareLock on transaction \d+; blocked by process $pids[2]\./,
		qr/Process $pids[2] waits for ShareLock on transaction \d+; blocked by process $pids[0]\./);
	$eager->query('ROLLBACK');
	is_clean($innocent, 'two row locks and a key, the innocent', 'COMMIT');
	is_clean($other, 'two row locks and a key', 'COMMIT');
	is($node->lock_stat('deadlocks'), $before + 1, 'two row locks and a key: one victim');
	$innocent->quit;
}

#
# One edge is that of a queue of PostgreSQL: other would share the table with
# eager, but not go before third, who wants it for itself.
#
{
	my ($other, $third) = @patient;
	my @pids = map { $_->pid } $eager, $other, $third;

	$_->query('BEGIN') foreach $eager, $other, $third;
	$eager->query('LOCK TABLE t IN SHARE MODE');
	$other->query("SELECT redis_xact_lock('a')");
	$third->start('LOCK TABLE t');
	$node->wait_for_postgres_lock($third);
	$other->start('LOCK TABLE t IN SHARE MODE');
	$node->wait_for_postgres_lock($other);
	is_deadlock(
		$eager->query("SELECT redis_xact_lock('a')"),
		'ahead in a queue',
		key_edge($eager, 'a', 'transaction', $other),
		qr/Process $pids[1] waits for ShareLock on relation \d+ of database \d+; blocked by process $pids[2]\./,
		qr/Process $pids[2] waits for AccessExclusiveLock on relation \d+ of database \d+; blocked by process $pids[0]\./);
	$eager->query('ROLLBACK');
	is_clean($third, 'ahead in a queue, the one ahead', 'COMMIT');
	is_clean($other, 'ahead in a queue', 'COMMIT');
}

#
# No cycle: whoever has the key waits for a row, of somebody who does not wait.
#
{
	my ($other, $third) = @patient;
	my $before = $node->lock_stat('deadlocks');

	$_->query('BEGIN') foreach $other, $third;
	$third->query('UPDATE t SET n = n + 1 WHERE id = 1');
	$other->query("SELECT redis_xact_lock('a')");
	$other->start('UPDATE t SET n = n + 1 WHERE id = 1');
	$node->wait_for_postgres_lock($other);
	$eager->query_is("SELECT redis_try_lock('a', '1s')", 'f',
		'a holder who waits for somebody else is no deadlock');
	$third->query('COMMIT');
	is_clean($other, 'no cycle', 'COMMIT');

	# Nor if that one is a prepared transaction, which is no process.
	$third->query("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; PREPARE TRANSACTION 'p'");
	$other->query("BEGIN; SELECT redis_xact_lock('a')");
	$other->start('UPDATE t SET n = n + 1 WHERE id = 1');
	$node->wait_for_postgres_lock($other);
	$eager->query_is("SELECT redis_try_lock('a', '300ms')", 'f',
		'nor is a prepared transaction');
	$third->query("COMMIT PREPARED 'p'");
	is_clean($other, 'a prepared transaction', 'COMMIT');
	is($node->lock_stat('deadlocks'), $before, 'no deadlock was counted');
}

#
# In PL/pgSQL, the error is caught: the exception block gives back what was taken
# in it, which breaks the cycle, and the transaction goes on.
#
{
	my $other = $patient[0];

	$other->query("BEGIN; SELECT redis_xact_lock('b')");
	$eager->start(
		q{DO $$
		BEGIN
			PERFORM redis_xact_lock('outer');
			INSERT INTO t VALUES (3, 0);
			BEGIN
				PERFORM redis_xact_lock('a');
				PERFORM pg_advisory_xact_lock_shared(9);
				PERFORM redis_xact_lock('b');
			EXCEPTION WHEN deadlock_detected THEN
				INSERT INTO t VALUES (4, 0);
			END;
			IF NOT redis_is_held('outer') OR redis_is_held('a') THEN
				RAISE EXCEPTION 'wrong locks are held';
			END IF;
			PERFORM redis_xact_lock('b');
			INSERT INTO t VALUES (5, 0);
		END $$});
	$node->wait_for_waiters('b', 1);
	$other->start("SELECT redis_xact_lock('a')");
	is_clean($other, 'caught by PL/pgSQL', 'COMMIT');
	is_clean($eager, 'caught by PL/pgSQL, the victim itself');
	is($viewer->value('SELECT count(*) FROM t WHERE id IN (3, 4, 5)'),
		3, 'its transaction has committed');
}

#
# Sessions of two databases.  An advisory lock of the same number in the other
# database is another lock.
#
{
	$viewer->query('CREATE DATABASE elsewhere');
	$node->safe_psql('elsewhere', 'CREATE EXTENSION lockredis');
	my $other = $node->session(dbname => 'elsewhere');

	$eager->query("SELECT redis_lock('a'), pg_advisory_lock(1)");
	$other->query("SELECT redis_lock('b'), pg_advisory_lock(1)");
	$other->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	is_deadlock(
		$eager->query("SELECT redis_lock('b')"),
		'two databases',
		key_edge($eager, 'b', 'session', $other),
		key_edge($other, 'a', 'session', $eager));
	$eager->query('SELECT redis_unlock_all(), pg_advisory_unlock_all()');
	is_clean($other, 'two databases');
	$other->quit;
}

#
# Parallel query: it is the worker of the holder that waits.
#
# other has the key; its worker waits for a table that eager has locked.
#
{
	my $other = $patient[0];
	my ($pid, $other_pid) = ($eager->pid, $other->pid);

	$other->query(
		'CREATE FUNCTION look() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE
		 AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
		 SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
		 SET min_parallel_table_scan_size = 0;
		 SET parallel_leader_participation = off');
	$_->query('BEGIN') foreach $eager, $other;
	$other->query("SELECT redis_xact_lock('a')");
	$eager->query('LOCK TABLE t');
	$other->start('SELECT sum(look()) FROM big');
	$node->wait_for_postgres_lock($other);
	isnt(
		$viewer->value(
			"SELECT count(*) FROM pg_stat_activity
			 WHERE leader_pid = $other_pid AND wait_event_type = 'Lock'"),
		0, 'a parallel worker waits');
	is_deadlock(
		$eager->query("SELECT redis_xact_lock('a')"),
		'parallel worker',
		key_edge($eager, 'a', 'transaction', $other),
		qr/Process (?!$other_pid )\d+ waits for AccessShareLock on relation \d+ of database \d+; blocked by process $pid\./);
	$eager->query('ROLLBACK');
	is_clean($other, 'parallel worker', 'COMMIT; DROP FUNCTION look()');
}

#
# Roles.  The victim may not see keys of other roles, except the one that is
# its own; the server log has all.
#
{
	$viewer->query(
		q{CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN;
		  CREATE ROLE auditor LOGIN; GRANT pg_read_all_stats TO auditor;
		  ALTER ROLE alice SET deadlock_timeout = '50ms';
		  ALTER ROLE auditor SET deadlock_timeout = '50ms'});
	foreach my $role ('alice', 'auditor')
	{
		my $one = $node->session(user => $role);
		my $two = $node->session(user => 'bob');
		my $three = $node->session(user => 'carol');

		$node->log_since_here;
		$one->query("SELECT redis_lock('a')");
		$two->query("SELECT redis_lock('b')");
		$three->query("SELECT redis_lock('secret')");
		$two->start("SELECT redis_lock('secret')");
		$three->start("SELECT redis_lock('a')");
		$node->wait_for_waiters('secret', 1);
		$node->wait_for_waiters('a', 1);
		is_deadlock(
			$one->query("SELECT redis_lock('b')"),
			"seen by $role",
			key_edge($one, 'b', 'session', $two),
			key_edge($two, $role eq 'auditor' ? 'secret' : undef, 'session', $three),
			key_edge($three, 'a', 'session', $one));
		my $hidden = key_edge($two, 'secret', 'session', $three);
		ok($node->logged(qr/\Q$hidden\E/), "the server log has all ($role)");
		$one->quit;
		is_clean($three, "roles ($role), the third");
		$three->quit;
		is_clean($two, "roles ($role), the second");
		$two->quit;
	}
}

# A session that ends reports what it has counted for pg_stat_database.
$_->quit foreach $eager, @patient;
is( $viewer->value('SELECT sum(deadlocks) FROM pg_stat_database'),
	$node->lock_stat('deadlocks'), 'pg_stat_database counts them too');

end_test($node, $redis);
