# Copyright (c) 2026, lockredis contributors

# Two clients that both believe they hold the lock.  Of two
# such transactions the later one at the row of the fence table starts reading
# after the earlier one has committed, or fails; no update is lost if the lock is
# taken before the first read.  Each interleaving is also run with a plain lock
# and the commit guard off, where it must lose an
# update: else the test would prove nothing.
# Proves G16.  Shows what is not guaranteed: N2, N3.

use LockRedis::Test;

# A holder is paused for longer than this.
my $lease = limit(4);
my ($node, $redis) = servers();

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
	$_->quit foreach $one, $two;
	nothing_left($node, $redis, keys => $counters);
	return;
}

sub account { return $node->value('SELECT v FROM account'); }

# Read and write are two statements, as in an application.
sub read_account ($s) { return $s->value('SELECT v FROM account'); }

sub write_account ($s, $v) { return $s->query("UPDATE account SET v = $v"); }

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
			$one->query_is("SELECT redis_is_held('acct')", 'f', 'the old one could know');
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
		$two->query_is("SELECT redis_fenced_xact_lock('acct')", '2', 'the new holder has token 2');
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
	$one->query_is("BEGIN; SELECT redis_fenced_xact_lock('acct')", '1', 'the old one has token 1');
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
		$one->query_is("SELECT redis_fenced_lock('acct')", '1', 'the old one has token 1');
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
			$result->fails('55000',
				qr/the lock "acct" was lost.*taken by somebody:1/s,
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

done_testing();
