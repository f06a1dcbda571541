# Copyright (c) 2026, lockredis contributors

# Waits longer than deadlock_timeout.  Of several sessions that find the same
# cycle at the same time one ends, and no session ends that is in none, however
# much they wait.  log_lock_waits logs
# such a wait as it does for PostgreSQL's locks.  (012_wait has redis_locks.blocked_by.)
# Proves G11, G36.

use LockRedis::Test;

my ($node, $redis) = servers(
	settings => { deadlock_timeout => '50ms', log_min_error_statement => 'panic' });
my @s = map { $node->session } 1 .. 6;
my $viewer = $node->session;

$viewer->query(
	'CREATE TABLE t (id int PRIMARY KEY, n int);
	 INSERT INTO t SELECT i, 0 FROM generate_series(1, 4) i');

sub pids
{
	return join ', ', map { $_->pid } @_;
}

#
# log_lock_waits, behind a local holder.
#
{
	my ($holder, $one, $two, $quiet) = @s;
	my ($pid, $pid_two, $pid_quiet) = map { $_->pid } $one, $two, $quiet;

	$node->log_since_here;
	$_->query('SET log_lock_waits = on') foreach $one, $two;

	# It is on by default since PostgreSQL 19.
	$quiet->query('SET log_lock_waits = off');
	$holder->query("SELECT redis_lock('a')");
	$one->query("SET deadlock_timeout = '1h'");
	$one->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	$quiet->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 2);
	$two->start("SELECT redis_lock('a')");
	poll_until(
		'the wait to be logged',
		sub {
			$node->logged(
				qr/LOG:  process $pid_two still waiting for Redis lock "a" after \d+\.\d{3} ms\n/);
		});
	my $queue = pids($one, $quiet, $two);
	my $holding = $holder->pid;
	like($node->log_text,
		qr/DETAIL:  Process holding the lock: $holding\. Wait queue: $queue\.\n/,
		'the log has the holder and the queue');

	# It goes on looking, and is not logged again.
	pause(0.3);
	$holder->query("SELECT redis_unlock('a')");
	$one->wait(10);
	$one->query("SELECT redis_unlock('a')");
	$quiet->wait(10);
	$quiet->query("SELECT redis_unlock('a')");
	$two->wait(10);
	$two->query("SELECT redis_unlock('a')");
	is($node->times_logged(qr/process $pid_two still waiting/), 1, 'once');
	is($node->times_logged(
			qr/LOG:  process $pid_two acquired Redis lock "a" after \d+\.\d{3} ms\n/),
		1, 'and once that it got the lock');
	is($node->times_logged(qr/process ($pid|$pid_quiet) (still|acquired)/),
		0, 'not a wait within deadlock_timeout, and not without log_lock_waits');
	$one->query('RESET deadlock_timeout');

	# No wait, no word of it.
	$node->log_since_here;
	$two->query("SELECT redis_lock('a'), redis_unlock('a')");
	is($node->times_logged(qr/Redis lock/), 0, 'a lock that was free is not logged');
}

# A deadlock is logged even if the error is caught.
{
	my ($other, $one) = @s;
	my $pid = $one->pid;

	$node->log_since_here;
	$other->query("SET deadlock_timeout = '1h'");
	$one->query("SELECT redis_lock('a')");
	$other->query("SELECT redis_lock('b')");
	$other->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	$one->query_is(
		q{DO $$ BEGIN PERFORM redis_lock('b');
		  EXCEPTION WHEN deadlock_detected THEN NULL; END $$},
		'', 'a deadlock that is caught');
	like($node->log_text,
		qr/LOG:  process $pid detected deadlock while waiting for Redis lock "b" after \d+\.\d{3} ms\n/,
		'is logged');
	unlike($node->log_text, qr/ERROR/, 'though not as an error');
	$one->query("SELECT redis_unlock('a')");
	$other->wait(10);
	$other->query('RESET deadlock_timeout; SELECT redis_unlock_all()');
	$_->query('RESET log_lock_waits') foreach @s;
}

#
# All of a cycle find it in the same moment.
#
# Each session has the key of its number and waits for the next one's.  Each is
# stopped as soon as it queues, so nobody looks before the last one has closed
# the cycle; when all go on the time of each is over, and they look at once.
# The last one may look before it is stopped, on a machine that is busy: that round
# is made again.
#
my @rounds = (1 .. 12);
my $too_early = 0;

while (defined(my $round = shift @rounds))
{
	my $n = 2 + $round % 5;
	my @ring = @s[ 0 .. $n - 1 ];
	my $before = $node->lock_stat('deadlocks');

	foreach my $i (0 .. $n - 1)
	{
		$ring[$i]->query("BEGIN; SELECT redis_xact_lock('k$i')");
		$ring[$i]->query("SET LOCAL deadlock_timeout = '300ms'");
	}
	foreach my $i (0 .. $n - 1)
	{
		my $next = ($i + 1) % $n;

		$ring[$i]->start("SELECT redis_xact_lock('k$next')");
		poll_until(
			"$i of $n to wait",
			sub {
				!$ring[$i]->is_running
				  || $node->count_locks("key = 'k$next' AND waiting_since IS NOT NULL") == 1;
			});
		$ring[$i]->freeze;
	}
	pause(0.35);
	if (!$ring[-1]->is_running && $too_early++ < 60)
	{
		push @rounds, $round;
	}
	$_->thaw foreach @ring;

	# Whoever has got all it wants, or has failed, lets the next one go on.
	my %open = map { $_ => $_ } @ring;
	my @victims;

	poll_until(
		'all of the ring to end',
		sub {
			foreach my $session (values %open)
			{
				next if $session->is_running;
				my $result = $session->wait;

				push @victims, $result->sqlstate if $result->error;
				$session->query('ROLLBACK');
				delete $open{$session};
			}
			return !%open;
		},
		30);
	is("@victims", '40P01', "one of $n dies");
	is($node->lock_stat('deadlocks') - $before, 1, 'and is counted');
}

#
# No false alarm.
#
# Transactions that take a few keys and rows, in one order, but many of them at
# once and with as many looks as can be: each wait of a millisecond is one.  What
# is wanted changes from one transaction to the next, so there are always
# some that wait for keys of others who wait for rows.
#
{
	my $before = $node->lock_stat('deadlocks');
	my $runs = 500;

	$node->log_since_here;
	foreach my $session (@s)
	{
		$session->query("SET deadlock_timeout = '1ms'; SET log_lock_waits = on");
		$session->start(
			qq{DO \$\$
			DECLARE
				wanted int;
			BEGIN
				FOR i IN 1 .. $runs LOOP
					wanted := trunc(random() * 15) + 1;
					FOR k IN 1 .. 4 LOOP
						CONTINUE WHEN (wanted >> (k - 1)) & 1 = 0;
						IF random() < 0.6 THEN
							PERFORM redis_xact_lock('k' || k);
						END IF;
						UPDATE t SET n = n + 1 WHERE id = k;
						IF random() < 0.1 THEN
							PERFORM pg_sleep(0.002);
						END IF;
					END LOOP;
					COMMIT;
				END LOOP;
			END \$\$});
	}
	my @errors = grep { defined } map { $_->wait(300)->error } @s;

	is(scalar @errors, 0, 'no session is the victim of a deadlock that is none');
	diag($_->message) foreach @errors;
	is($node->lock_stat('deadlocks'), $before, 'none was counted');
	my $looks = $node->times_logged(qr/still waiting for Redis lock/);
	cmp_ok($looks, '>', 100, "they looked ($looks times)");
}

end_test($node, $redis);
