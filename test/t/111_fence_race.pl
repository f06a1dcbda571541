# Copyright (c) 2026, lockredis contributors

# Two clients that both believe they hold the lock.  Of two
# such transactions the later one at the row of the fence table starts reading
# after the earlier one has committed, or fails; no update is lost if the lock is
# taken before the first read.  Each interleaving is also run with a plain lock
# and the commit guard off, where it must lose an
# update: else the test would prove nothing.
# Proves G16.  Shows what is not guaranteed: N2, N3.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);

# A holder is paused for longer than this.
my $lease = limit(2);
my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis);

$node->wait_for_up;
$node->safe_psql('postgres', 'CREATE TABLE account (v bigint NOT NULL)');

my $counters = qr/^redisson_lock_token:/;
my ($one, $two);

sub begin
{
	$redis->cmd('FLUSHALL');
	$node->safe_psql('postgres',
		'TRUNCATE account, redis_fences; INSERT INTO account VALUES (100)');
	($one, $two) = map { $node->session } 1 .. 2;
	return;
}

sub finish
{
	my (@other_nodes) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$_->quit foreach $one, $two;
	nothing_left([ $node, @other_nodes ], $redis, keys => $counters);
	return;
}

sub account { return $node->value('SELECT v FROM account'); }

# Read and write are two statements, as in an application.
sub read_account
{
	my ($s) = @_;

	return $s->value('SELECT v FROM account');
}

sub write_account
{
	my ($s, $v) = @_;

	return $s->query("UPDATE account SET v = $v");
}

# A client elsewhere takes the lock as RFencedLock does; returns its token.
sub take_elsewhere
{
	my $token = ($redis->token('acct') || 0) + 1;

	$redis->set_token('acct', $token);
	$redis->foreign_lock('acct');
	return $token;
}

# ----------
# A session that is paused in its transaction
# ----------

# one: lock, read; SIGSTOP; its lease ends
# two: lock; plain: read, write, commit.  Fenced: waits for one's row
# one: SIGCONT, write, commit
# two: fenced: read, write, commit
foreach my $lock ('redis_xact_lock', 'redis_fenced_xact_lock')
{
	foreach my $guard ('off', 'lease')
	{
		subtest "paused in the transaction, $lock, guard $guard" => sub {
			my $fenced = $lock =~ /fenced/;
			my $two_commits = sub {
				write_account($two, read_account($two) + 10);
				is($two->query('COMMIT')->error, undef, 'the new holder commits');
			};

			begin();
			$_->query("SET lockredis.commit_guard = $guard") foreach $one, $two;
			$one->query("BEGIN; SELECT $lock('acct', '$lease s')");
			my $seen = read_account($one);
			$one->freeze;

			$two->query('BEGIN');
			$two->start("SELECT $lock('acct', '1 hour')");
			if ($fenced)
			{
				$node->wait_for_postgres_lock($two);
				ok($two->is_running, 'the new holder waits for the row');
			}
			else
			{
				is($two->wait->error, undef, 'the new holder has the lock');
				$two_commits->();
			}

			$one->thaw;
			$one->query_is("SELECT redis_is_held('acct')", 'f',
				'the old one could know');
			write_account($one, $seen + 1);
			my $result = $one->query('COMMIT');
			if ($guard eq 'off')
			{
				is($result->error, undef, 'the old one commits');
			}
			else
			{
				$result->fails('40001', qr/the lock "acct" was lost.*expired/s,
					'the old one cannot commit');
			}
			if ($fenced)
			{
				is($two->wait->out, 2, 'the new holder goes on');
				$two_commits->();
			}
			my $expected =
				$guard eq 'lease' ? 110
			  : $fenced ? 111
			  : 101;
			is(account(), $expected,
				$expected == 101
				? "without either the new holder's update is lost"
				: 'no update is lost');
			finish();
		};
	}
}

# ----------
# A session that is paused before its transaction
# ----------

# one: lock; SIGSTOP; its lease ends
# two: lock, read, write, commit
# one: SIGCONT; in a transaction: fenced lock
# It comes second to the row, so it must fail; the guard is off.
foreach my $recorded (0, 1)
{
	subtest 'paused before its transaction'
	  . ($recorded ? ', with a token that it has recorded before' : '') => sub {
		begin();
		$_->query('SET lockredis.commit_guard = off') foreach $one, $two;
		$one->query_is("SELECT redis_fenced_lock('acct', '$lease s')",
			'1', 'the old one has token 1');
		$one->query_is("SELECT redis_fenced_xact_lock('acct', '$lease s')",
			'1', 'recorded')
		  if $recorded;
		$one->freeze;

		$two->query('BEGIN');
		$two->query_is("SELECT redis_fenced_xact_lock('acct')",
			'2', 'the new holder has token 2');
		write_account($two, read_account($two) + 10);
		is($two->query('COMMIT')->error, undef, 'and commits');

		$one->thaw;
		$one->query('BEGIN');
		$one->query_fails("SELECT redis_fenced_xact_lock('acct')",
			'55000', qr/the lock "acct" was lost/, 'the old one is refused');
		$one->query('ROLLBACK');

		# A client that has only the number, no session of ours.
		$one->query_fails("SELECT redis_fence_check('acct', 1)",
			'23000', qr/stale/, 'and so is its token');
		is(account(), 110, 'no update is lost');
		finish();
	};
}

# ----------
# A holder that does not know
# ----------

# The key is deleted in Redis and a client elsewhere takes it, ten seconds before
# a renewal would find out; one believes that it holds the lock, and its guard
# does too.  The other one comes with its own token.
#
# Who is at the row first:
# one: lock, read / other: check (waits) / one: write, commit / other: read
subtest 'the old holder is first at the row' => sub {
	begin();
	$one->query_is("BEGIN; SELECT redis_fenced_xact_lock('acct')",
		'1', 'the old one has token 1');
	my $seen = read_account($one);
	$redis->cmd('DEL', 'acct');
	is(take_elsewhere(), 2, 'the new holder has token 2');

	$two->query('BEGIN');
	$two->start("SELECT redis_fence_check('acct', 2)");
	$node->wait_for_postgres_lock($two);
	$one->query_is("SELECT redis_is_held('acct')", 't',
		'the old one believes that it holds the lock');
	write_account($one, $seen + 1);
	is($one->query('COMMIT')->error, undef, 'the old one commits');
	is($two->wait->error, undef, 'only then the new holder goes on');
	write_account($two, read_account($two) + 10);
	is($two->query('COMMIT')->error, undef, 'the new holder commits');
	is(account(), 111, 'no update is lost');
	$redis->cmd('DEL', 'acct');
	finish();
};

# other: check, read / one: lock (waits) / other: write, commit or roll back
foreach my $end ('COMMIT', 'ROLLBACK')
{
	subtest "the new holder is first at the row: $end" => sub {
		begin();
		$one->query_is("SELECT redis_fenced_lock('acct')",
			'1', 'the old one has token 1');
		$redis->cmd('DEL', 'acct');
		is(take_elsewhere(), 2, 'the new holder has token 2');

		$two->query_is("BEGIN; SELECT redis_fence_check('acct', 2)",
			'', 'the new holder is at the row');
		my $seen = read_account($two);
		$one->query('BEGIN');
		$one->query_is("SELECT redis_is_held('acct')", 't',
			'the old one believes that it holds the lock');
		$one->start("SELECT redis_fenced_xact_lock('acct')");
		$node->wait_for_postgres_lock($one);
		write_account($two, $seen + 10);
		is($two->query($end)->error, undef, "the new holder: $end");

		my $result = $one->wait;
		if ($end eq 'COMMIT')
		{
			my $somebody = $redis->somebody('somebody:1');
			$result->fails('55000',
				qr/the lock "acct" was lost.*taken by \Q$somebody\E/s,
				'the old one fails');
			$one->query('ROLLBACK');
			is(account(), 110, 'no update is lost');
		}
		else
		{
			# Nothing has happened yet that it could have missed.
			is($result->out, 1, 'the old one goes on');
			$seen = read_account($one);
			$two->query('BEGIN');
			$two->start("SELECT redis_fence_check('acct', 2)");
			$node->wait_for_postgres_lock($two);
			write_account($one, $seen + 1);
			is($one->query('COMMIT')->error, undef, 'and commits');
			is($two->wait->error, undef, 'before the new holder starts again');
			write_account($two, read_account($two) + 10);
			is($two->query('COMMIT')->error, undef, 'which then commits');
			is(account(), 111, 'no update is lost');
		}
		$one->query('SELECT redis_unlock_all()');
		$redis->cmd('DEL', 'acct');
		finish();
	};
}

# The same with a plain lock, which has no row to meet at: both commit.
subtest 'a plain lock and a holder that does not know' => sub {
	begin();
	$_->query('SET lockredis.commit_guard = off') foreach $one, $two;
	$one->query("BEGIN; SELECT redis_xact_lock('acct')");
	my $seen = read_account($one);
	$redis->cmd('DEL', 'acct');
	take_elsewhere();
	write_account($two, read_account($two) + 10);
	write_account($one, $seen + 1);
	is($one->query('COMMIT')->error, undef, 'the old one commits');
	is(account(), 101, "the new holder's update is lost");
	$redis->cmd('DEL', 'acct');
	finish();
};

# ----------
# The order of reading and locking
# ----------

# one: read / two: lock, read, write, commit / one: lock, write
# The documentation says that the lock comes first.  Where it does not, READ
# COMMITTED loses the update, and the higher levels fail at the fence table.
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	subtest "read before the lock, $level" => sub {
		begin();
		$one->query("BEGIN ISOLATION LEVEL $level");
		my $seen = read_account($one);
		$two->query("BEGIN; SELECT redis_fenced_xact_lock('acct')");
		write_account($two, read_account($two) + 10);
		$two->query('COMMIT');
		my $result = $one->query("SELECT redis_fenced_xact_lock('acct')");
		if ($level eq 'READ COMMITTED')
		{
			is($result->out, 2, 'the lock is had');
			write_account($one, $seen + 1);
			$one->query('COMMIT');
			is(account(), 101, 'and the update of the other one lost');
		}
		else
		{
			$result->fails('40001', qr/could not serialize/, 'refused');
			$one->query('ROLLBACK');
			is(account(), 110, 'no update is lost');
		}
		finish();
	};
}

# ----------
# The worked example: a paused session that comes back, and another server
# ----------

# Server A has the data.  one is a session on A, its lock is renewed.  Backend
# and watchdog of A are stopped for longer than the lease, as the whole machine
# would be.  Server B takes the lock, its client writes to A with the token that
# B gave it.  A goes on: one must not be able to do anything.
of_redis 'there is one server' => sub {
	subtest 'a paused session that comes back' => sub {
		my $b = LockRedis::Node->create('b', redis => $redis);
		my $on_b = $b->session;
		my $watchdog = $node->watchdog_pid;

		begin();
		$b->wait_for_up;
		$_->query("SET lockredis.lease = '$lease s'; SET lockredis.commit_guard = off")
		  foreach $one, $two;
		$one->query_is("SELECT redis_fenced_lock('acct')", '1', 'A has token 1');
		kill 'STOP', $watchdog;
		$one->freeze;

		$on_b->query_is("SELECT redis_fenced_lock('acct')",
			'2', 'B has token 2 when the lease has ended');
		$two->query_is("BEGIN; SELECT redis_fence_check('acct', 2)",
			'', 'which its client passes to A');
		write_account($two, read_account($two) + 10);
		is($two->query('COMMIT')->error, undef, 'it commits');

		$one->thaw;
		kill 'CONT', $watchdog;
		$one->query('BEGIN');
		$one->query_fails("SELECT redis_fenced_xact_lock('acct')",
			'55000', qr/the lock "acct" was lost/, 'A comes back, and is refused');
		$one->query('ROLLBACK; SELECT redis_unlock_all()');
		is(account(), 110, 'no update is lost');
		$on_b->query_is("SELECT redis_is_held('acct'), redis_unlock('acct')",
			't|t', 'B was not disturbed');

		# Inside its transaction, with the row: B's client waits, and one's commit is
		# the guard's business.
		foreach my $guard ('lease', 'off')
		{
			$one->query("SET lockredis.commit_guard = $guard");
			my $before = account();
			my $token = $one->value("BEGIN; SELECT redis_fenced_xact_lock('acct')");
			my $seen = read_account($one);
			kill 'STOP', $watchdog;
			$one->freeze;

			my $next = $on_b->value("SELECT redis_fenced_lock('acct')");
			is($next, $token + 1, "guard $guard: B has the next token");
			$two->query('BEGIN');
			$two->start("SELECT redis_fence_check('acct', $next)");
			$node->wait_for_postgres_lock($two);
			$one->thaw;
			kill 'CONT', $watchdog;
			write_account($one, $seen + 1);
			my $result = $one->query('COMMIT');
			is($result->sqlstate, $guard eq 'lease' ? '40001' : undef,
				"guard $guard: the commit of A");
			is($two->wait->error, undef, "B's client goes on after it");
			write_account($two, read_account($two) + 10);
			is($two->query('COMMIT')->error, undef, 'and commits');
			is(account() - $before, $guard eq 'lease' ? 10 : 11, 'no update is lost');
			$on_b->query('SELECT redis_unlock_all()');
		}
		$on_b->quit;
		finish($b);
		$b->stop;
	};
};

# ----------
# At random
# ----------

# Six sessions add one to the account, with leases that often end while they are
# at it; now and then the key is deleted, or everything.  The guard is off.  Each
# step also inserts a row, so the account must have as many as there are rows.
subtest 'at random' => sub {
	begin();
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE steps (worker int);
CREATE SEQUENCE stop;
CREATE PROCEDURE work(fenced boolean) LANGUAGE plpgsql AS $$
DECLARE
	seen bigint;
	got boolean;
BEGIN
	WHILE NOT (SELECT is_called FROM stop) LOOP
		BEGIN
			IF fenced THEN
				PERFORM redis_fenced_xact_lock('acct', '20 ms');
			ELSE
				PERFORM redis_xact_lock('acct', '20 ms');
			END IF;
			got := true;
		EXCEPTION WHEN serialization_failure OR system_error OR io_error THEN
			got := false;
		END;
		IF got THEN
			SELECT v INTO seen FROM account;
			PERFORM pg_sleep(random() * 0.03);
			UPDATE account SET v = seen + 1;
			INSERT INTO steps VALUES (pg_backend_pid());
		END IF;
		COMMIT;
	END LOOP;
END $$;
SQL
	my @workers = map {
		$node->session(settings => { 'lockredis.commit_guard' => 'off' })
	} 1 .. 6;

	foreach my $fenced ('false', 'true')
	{
		$node->safe_psql('postgres',
			"UPDATE account SET v = 0; TRUNCATE steps; SELECT setval('stop', 1, false); SELECT redis_lock_stats_reset()"
		);
		$_->start("CALL work($fenced)") foreach @workers;

		# The plain lock: until it has lost an update.  The fenced one: until
		# many leases have ended in the middle.
		my $losses;
		poll_until(
			'the workers to have worked',
			sub {
				$redis->cmd('DEL', 'acct') if rand() < 0.3;
				$redis->cmd('FLUSHALL') if rand() < 0.1;
				my ($v, $steps);
				($v, $steps, $losses) = split /\|/, $node->value(
					'SELECT v, (SELECT count(*) FROM steps), losses FROM account, redis_lock_stats');
				return $steps >= 100 && $losses >= 30
				  && ($fenced eq 'true' || $v < $steps);
			},
			60);
		$node->value(q{SELECT nextval('stop')});
		is_deeply(
			[ map { my $r = $_->wait; $r->error ? $r->{raw} : () } @workers ],
			[], "fenced $fenced: no error");
		my ($v, $steps) = split /\|/,
		  $node->value('SELECT v, (SELECT count(*) FROM steps) FROM account');
		if ($fenced eq 'true')
		{
			is($v, $steps,
				"fenced: none of $steps updates is lost, with $losses leases that ended");
		}
		else
		{
			cmp_ok($v, '<', $steps,
				"plain: of $steps updates " . ($steps - $v) . ' are lost');
		}
	}
	$_->quit foreach @workers;
	finish();
};

done_testing();
