# Copyright (c) 2026, lockredis contributors

# Table mode under contention, and the table as an interface.  Exact counts of
# 16 sessions, and of sessions together with programs that have only SQL;
# redis_lock_rows is usable after an explicit GRANT and not before, by the
# statements of docs/table-mode.md; a session that waits notices a release by
# hand; rows by hand expire, and an open transaction makes its own key busy and
# no other.
# Proves G1, G25.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use LockRedis::Test qw(:DEFAULT counting_script);
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table);
my $one = $node->session;
my $two = $node->session;

$node->wait_for_up;
$node->safe_psql(
	'postgres', q{
	CREATE TABLE counter (k int PRIMARY KEY, v int NOT NULL);
	INSERT INTO counter SELECT i, 0 FROM generate_series(1, 20) i;
	CREATE ROLE program LOGIN;
	GRANT SELECT, UPDATE ON counter TO program});

#
# 16 sessions read, add and write without any other protection: on one key, on
# a few, and on more than there are sessions.
#
foreach my $case ([ 1, 25 ], [ 3, 25 ], [ 20, 50 ])
{
	my ($keys, $transactions) = @$case;
	my $script = "$PostgreSQL::Test::Utils::tmp_check/count_$keys.sql";
	my $output = '';

	PostgreSQL::Test::Utils::append_to_file($script, counting_script($keys));
	$node->value('UPDATE counter SET v = 0');
	IPC::Run::run(
		[
			'pgbench', '-n', '-c', 16, '-j', 2, '-t', $transactions, '-f',
			$script, $node->connstr('postgres')
		],
		'>',
		\$output,
		'2>&1',
		IPC::Run::timeout(limit(120)));
	is($?, 0, "16 sessions, $keys keys: nobody failed") || diag $output;
	is($node->value('SELECT sum(v) FROM counter'),
		16 * $transactions, "16 sessions, $keys keys: the count is exact");
}
nothing_left($node, $table, name => 'nothing is left of the counting');

# The statements of docs/table-mode.md
my $take = q{
	INSERT INTO redis_lock_rows AS r (key, owner, lease, expires_at)
	VALUES ('%1$s', '%2$s', '%3$s', clock_timestamp() + '%3$s'::interval)
	ON CONFLICT (key) DO UPDATE
	SET owner = EXCLUDED.owner, hold_count = 1, fence = NULL,
		lease = EXCLUDED.lease, acquired_at = clock_timestamp(),
		expires_at = EXCLUDED.expires_at, instance = NULL, comment = NULL
	WHERE r.expires_at <= clock_timestamp()
	RETURNING key};
my $lengthen = q{
	UPDATE redis_lock_rows SET expires_at = clock_timestamp() + '%3$s'::interval
	WHERE key = '%1$s' AND owner = '%2$s'
	RETURNING key};
my $give_back =
  q{DELETE FROM redis_lock_rows WHERE key = '%1$s' AND owner = '%2$s' RETURNING key};

# A role that was given the table, and no function
$node->safe_psql(
	'postgres', q{
	REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
	REVOKE EXECUTE ON ALL PROCEDURES IN SCHEMA public FROM PUBLIC});
my $program = $node->session(user => 'program');
{
	foreach my $sql (
		'SELECT * FROM redis_lock_rows',
		sprintf($take, 'mine', 'program 1', '1h'),
		sprintf($give_back, 'mine', 'program 1'),
		'SELECT * FROM redis_lock_counters')
	{
		$program->query_fails($sql, '42501', qr/permission denied/,
			'without a GRANT: ' . substr($sql =~ s/^\s+//r, 0, 30));
	}
	$node->safe_psql('postgres',
		'GRANT SELECT, INSERT, UPDATE, DELETE ON redis_lock_rows TO program');

	$one->query_is("SELECT redis_lock('ours')", '', 'a lock of a session');
	$program->query_is(sprintf($take, 'ours', 'program 1', '1h'),
		'', 'is not taken by a program');
	$program->query_is(sprintf($give_back, 'ours', 'program 1'),
		'', 'nor given back');
	$one->query_is("SELECT redis_unlock('ours')", 't', 'it was not disturbed');
	$program->query_is(sprintf($take, 'ours', 'program 1', '1h'),
		'ours', 'then the program has it');
	$one->query_is("SELECT redis_try_lock('ours'), redis_lock_owner('ours')",
		'f|program 1', 'and the session does not');
	$program->query_is(sprintf($take, 'ours', 'program 2', '1h'),
		'', 'nor does another program');
	$program->query_is(sprintf($lengthen, 'ours', 'program 1', '2h'),
		'ours', 'kept for longer');
	$one->query_is("SELECT redis_lock_ttl('ours') > '1h'", 't', 'as is told');
	$program->query_is(sprintf($lengthen, 'ours', 'program 2', '2h'),
		'', 'not by another program');

	# The session looks every half second; much later it would be an accident.
	$one->start("SELECT redis_lock('ours')");
	$node->wait_for_waiters('ours', 1);
	my $since = now();
	$program->query_is(sprintf($give_back, 'ours', 'program 1'),
		'ours', 'given back by the program');
	is($one->wait(3)->error, undef, 'a waiting session notices');
	note sprintf 'after %.2f s', now() - $since;
	$one->query_is("SELECT redis_unlock('ours')", 't', 'given back');
}

# A program stops: its row ends when it says so, not before.
{
	my $lease_ms = limit(1) * 1000;

	$program->query_is(sprintf($take, 'stopped', 'program 1', "${lease_ms}ms"),
		'stopped', 'taken for a moment');
	$one->query_is(
		q{SELECT redis_lock('stopped');
		  SELECT redis_lock_owner('stopped') <> 'program 1'},
		"\nt", 'the session has it in the end');
	is( $node->value(
			qq{SELECT acquired_at >= clock_timestamp() - interval '1 min',
				instance IS NOT NULL, comment IS NULL
			   FROM redis_lock_rows WHERE key = 'stopped'}),
		't|t|t',
		'in a row of its own making');
	$one->query_is("SELECT redis_unlock('stopped')", 't', 'given back');

	# Not before: "two" looks while the row counts.
	$program->query(sprintf($take, 'stopped', 'program 1', '1h'));
	$two->start("SELECT redis_lock('stopped')");
	$node->wait_for_waiters('stopped', 1);
	pause(1.5);
	ok($two->is_running, 'not taken while the row counts');
	$program->query(sprintf($lengthen, 'stopped', 'program 1', '10ms'));
	is($two->wait(3)->error, undef, 'taken when it has expired');
	$two->query_is("SELECT redis_unlock('stopped')", 't', 'given back');
	$program->query_is(sprintf($take, 'swept', 'program 1', '10ms'),
		'swept', 'one that nobody wants');
	poll_until('it to be swept away', sub { !$table->cmd('EXISTS', 'swept') });
}

# An open transaction that has inserted a row.  While it is open its key is busy
# and all others are as ever, for one session and for many at a time; then it is
# rolled back, or committed with a row that counts for a moment.
foreach my $end ('ROLLBACK', 'COMMIT')
{
	my $idle = $node->session(user => 'program');
	my @others = map { $node->session } 1 .. 4;

	$idle->query('BEGIN');
	$idle->query_is(sprintf($take, 'idle', 'idle program', '2s'),
		'idle', "$end: a row that nobody sees yet");
	$one->query_is("SELECT redis_try_lock('idle')", 'f', "$end: busy");
	$one->start("SELECT redis_lock('idle')");
	$node->wait_for_waiters('idle', 1);
	my $since = now();
	$_->start(
		q{DO $$ BEGIN
			FOR i IN 1 .. 20 LOOP
				PERFORM redis_lock('free ' || pg_backend_pid());
				IF redis_try_lock('idle') THEN
					RAISE EXCEPTION 'taken';
				END IF;
				PERFORM redis_unlock('free ' || pg_backend_pid());
			END LOOP; END $$}) foreach @others;
	is_deeply([ map { $_->wait(limit(20))->error } @others ],
		[ (undef) x 4 ], "$end: other keys go on");
	note sprintf '%s: 80 pairs and tries in %.2f s', $end, now() - $since;
	ok($one->is_running, "$end: the key is still busy");
	$idle->query($end);
	is($one->wait(limit(6))->error, undef, "$end: the key comes free");
	is( $node->value(
			q{SELECT instance IS NOT NULL FROM redis_lock_rows WHERE key = 'idle'}),
		't',
		"$end: and is the session's");
	$one->query_is("SELECT redis_unlock('idle')", 't', "$end: given back");
	$_->quit foreach $idle, @others;
}

# Sessions and programs add to one counter.  A program asks again and again, as
# nobody tells it of a release.
{
	my $by_hand = sub {
		my ($name) = @_;
		my ($try, $free) = map { s/RETURNING key//r } $take, $give_back;
		return sprintf qq{
			DO \$\$ DECLARE n int; BEGIN
				FOR i IN 1 .. 10 LOOP
					LOOP
						$try;
						GET DIAGNOSTICS n = ROW_COUNT;
						COMMIT;
						EXIT WHEN n = 1;
						PERFORM pg_sleep(0.02);
					END LOOP;
					SELECT v INTO n FROM counter WHERE k = 1;
					PERFORM pg_sleep(0.002);
					UPDATE counter SET v = n + 1 WHERE k = 1;
					COMMIT;
					$free;
					GET DIAGNOSTICS n = ROW_COUNT;
					COMMIT;
					IF n <> 1 THEN
						RAISE EXCEPTION 'not mine any more';
					END IF;
					PERFORM pg_sleep(0.01);
				END LOOP;
			END \$\$}, 'both', $name, '1h';
	};
	my $by_function = q{
		DO $$ DECLARE n int; BEGIN
			FOR i IN 1 .. 25 LOOP
				PERFORM redis_lock('both');
				SELECT v INTO n FROM counter WHERE k = 1;
				PERFORM pg_sleep(0.002);
				UPDATE counter SET v = n + 1 WHERE k = 1;
				COMMIT;
				IF NOT redis_unlock('both') THEN
					RAISE EXCEPTION 'not mine any more';
				END IF;
				COMMIT;
			END LOOP;
		END $$};
	my @programs = map { $node->session(user => 'program') } 1 .. 2;
	my @sessions = map { $node->session } 1 .. 4;

	$node->value('UPDATE counter SET v = 0');
	$sessions[$_]->start($by_function) foreach 0 .. 3;
	$programs[$_]->start($by_hand->("program $_")) foreach 0 .. 1;
	is_deeply([ map { $_->wait(limit(90))->error } @programs, @sessions ],
		[ (undef) x 6 ], 'two programs and four sessions add');
	is($node->value('SELECT v FROM counter WHERE k = 1'),
		2 * 10 + 4 * 25, 'and none is lost');
	$_->quit foreach @programs, @sessions;
}

$program->quit;
nothing_left($node, $table);
done_testing();
