# Copyright (c) 2026, lockredis contributors

# Waits longer than deadlock_timeout.  Of several sessions that find the same
# cycle at the same time one ends, and no session ends that is in none, however
# much they wait.  log_lock_waits logs
# such a wait as it does for PostgreSQL's locks.  (012_wait has redis_locks.blocked_by.)
#
# What the search for deadlocks costs, and that one search a key, by whichever of its waiters, finds
# the cycles of all of them (src/session/deadlock.c).  (That whoever is suspected searches, and the
# next one when the first has stopped or left, is the simulator's: its mutant never_suspected.)
# Costs are counted, not timed: the server says at DEBUG1 how many processes a
# search came to, how often it looked into PostgreSQL's lock manager, and how much
# memory it had.
#
# Proves G11, G36.

use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils ();

my $waiters = 60;
my $of_key = 8;
my $scripts = 0;
my ($node, $redis, $viewer) = servers(
	sessions => 1,
	settings => {
		deadlock_timeout => '1h',
		max_connections => $waiters + $of_key + 40,
		log_min_error_statement => 'panic',
		log_line_prefix => '[%p] '
	});
my @s = map { $node->session(settings => { deadlock_timeout => '50ms' }) } 1 .. 6;

$viewer->query(
	'CREATE TABLE t (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off);
	 INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');

sub pids { return join ', ', map { $_->pid } @_; }

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

$_->quit foreach @s;

# Logs each of its searches.
sub searcher ($timeout)
{
	return $node->session(
		settings => { deadlock_timeout => $timeout, log_min_messages => 'debug1' });
}

# Those in the log: as hashes.
sub searches
{
	my $log = $node->log_text;
	my @found;

	while ($log =~
		/^\[(\d+)\] DEBUG:\s+searched for a deadlock: (\d+) processes, (\d+) looks into the lock manager, (\d+) bytes, (\d+) suspects/mg)
	{
		push @found,
		  { pid => $1, processes => $2, looks => $3, bytes => $4, suspects => $5 };
	}
	return @found;
}

# That many connections, each with this statement; one process starts them.
sub crowd ($count, $sql, $options)
{
	my $script = "$PostgreSQL::Test::Utils::tmp_check/crowd" . ++$scripts . '.sql';

	open my $fh, '>', $script or die "could not write $script: $!";
	print $fh $sql;
	close $fh or die "could not write $script: $!";
	my $run = IPC::Run::start(
		[
			'pgbench', '-n', '-c', $count, '-j', 1, '-t', 1, '-f', $script,
			$node->connstr('postgres') . " options='$options'"
		],
		\'', '>', \my $out, '2>&1');

	return $run;
}

#
# A hot row: one session updates it, a crowd waits, and behind it who has the
# key, for which a second crowd waits.  A look at the queue of the tuple, one at
# the transaction that updates, and no more, whoever of the second crowd it is.
# All have had parallel workers.
#
my %seen;
my $parallel = $viewer->value(
	"SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
foreach my $n (15, $waiters)
{
	my ($updater, $holder) = map { $node->session } 1 .. 2;

	$updater->query('BEGIN; UPDATE t SET n = 0 WHERE id = 1');
	my $rows = crowd($n, "SET $parallel = on;\nSELECT count(*) FROM pg_class;\n"
		  . "SET $parallel = off;\nUPDATE t SET n = 0 WHERE id = 1;", '');
	poll_until(
		"$n waiters for the row",
		sub {
			$viewer->value(
				"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
			  == $n;
		});
	$holder->query("BEGIN; SELECT redis_lock('hot')");
	$holder->start('UPDATE t SET n = 0 WHERE id = 1');
	$node->wait_for_postgres_lock($holder);

	$node->log_since_here;
	my $began = now();
	my $keys = crowd($of_key, "SELECT redis_lock('hot'), redis_unlock('hot');",
		"-c deadlock_timeout=100ms -c log_min_messages=debug1");
	$node->wait_for_waiters('hot', $of_key);
	poll_until('five searches', sub { searches() >= 5 });
	my @found = searches();
	my $took = now() - $began;

	is_deeply(
		[ map { "$_->{processes} processes, $_->{looks} looks" } @found ],
		[ map { $n + 3 . ' processes, 2 looks' } @found ],
		"$n wait for the row: each search comes to all, with one look at each lock");
	cmp_ok(scalar @found, '<=', 10 * $took + 1,
		"$of_key wait for the key: one of them searches at a time");
	$seen{$n} = (sort { $b <=> $a } map { $_->{bytes} } @found)[0];
	cmp_ok($seen{$n}, '<=', 1024 * 1024, 'in less than a megabyte');

	$updater->query('ROLLBACK');
	$holder->wait(300);
	$holder->query("COMMIT; SELECT redis_unlock('hot')");
	foreach my $crowd ($rows, $keys)
	{
		$crowd->finish;
		is($crowd->full_result(0), 0, 'all of the crowd went on');
	}
	$_->quit foreach $updater, $holder;
}
cmp_ok(
	$seen{$waiters} - $seen{15},
	'<=',
	1000 * ($waiters - 15) + 16 * 1024,
	'memory grows with the waiters, and not with their square');

#
# Cycles.  searcher searches all the time and stands first in the queue, and
# another waiter of the same key is in the cycle: the holder waits for a row of
# its.
#
#   holder has k;  second has row 2, waits for k;  holder waits for row 2
#
# Told or not: nobody ends before it has waited for its own deadlock_timeout.
{
	my $first = searcher('20ms');
	my $second = searcher('1h');
	my $holder = $node->session;

	$holder->query("BEGIN; SELECT redis_xact_lock('patient')");
	$second->query('BEGIN; UPDATE t SET n = 0 WHERE id = 2');
	$first->start("SELECT redis_lock('patient')");
	$second->start("SELECT redis_lock('patient')");
	$node->wait_for_waiters('patient', 2);
	$node->log_since_here;
	$holder->start('UPDATE t SET n = 0 WHERE id = 2');
	poll_until('three searches that come to it',
		sub { 3 <= grep { $_->{suspects} == 1 } searches() });
	ok($second->is_running, 'a patient session is told, and waits on');
	is((scalar grep { $_->{pid} == $second->pid } searches()), 0, 'and does not search');
	$second->cancel;
	$second->wait(30)->fails('57014', qr/user request/, 'it is canceled');
	$second->query('ROLLBACK');
	$holder->wait(30);
	$holder->query('COMMIT');
	is($first->wait(30)->error, undef, 'the first one gets the lock');
	$first->query("SELECT redis_unlock('patient')");
	$_->quit foreach $first, $second, $holder;
}

# Two cycles over one key: neither is enough for the holder to go on.
#
#   holder has k;  second and third have t in share mode and wait for k;
#   holder wants to write t
{
	my $first = searcher('50ms');
	my @both = (searcher('200ms'), searcher('200ms'));
	my $holder = $node->session;

	$holder->query("BEGIN; SELECT redis_xact_lock('both')");
	$_->query('BEGIN; LOCK TABLE t IN SHARE MODE') foreach @both;
	$first->start("SELECT redis_lock('both')");
	$_->start("SELECT redis_lock('both')") foreach @both;
	$node->wait_for_waiters('both', 3);
	$holder->start('UPDATE t SET n = 0 WHERE id = 3');
	foreach my $i (0, 1)
	{
		$both[$i]->wait(60)
		  ->fails('40P01', qr/deadlock detected/, 'each of two cycles over one key is broken');
		$both[$i]->query('ROLLBACK');
	}
	is($holder->wait(30)->error, undef, 'the holder goes on');
	$holder->query('COMMIT');
	is($first->wait(30)->error, undef, 'and so does who was in neither');
	$first->query("SELECT redis_unlock('both')");
	$_->quit foreach $first, @both, $holder;
}

# A crowd that searches in place of all others, and that no hold here keeps from the key.
#
#   holder has c to read;  elsewhere waits to write c;  crowd waits to read c behind that
#   second has a row and waits to write c;  holder wants the row
{
	my $elsewhere = LockRedis::Node->create('elsewhere', redis => $redis);
	my ($holder, $second, @crowd) = map { searcher($_) } '200ms', '200ms', ('50ms') x 10;
	my $writer = $elsewhere->session;

	$holder->query("BEGIN; SELECT redis_read_lock('c')");
	$writer->start("SELECT redis_write_lock('c')");
	$elsewhere->wait_for_waiters('c', 1);
	poll_until('the writer to be before them', sub { $viewer->value("SELECT redis_try_read_lock('c')") eq 'f' });
	$_->start("SELECT redis_read_lock('c')") foreach @crowd;
	$node->wait_for_waiters('c', 10);
	$second->query('BEGIN; UPDATE t SET n = 1 WHERE id = 4');
	$second->start("SELECT redis_write_lock('c')");
	$node->wait_for_waiters('c', 11);
	$holder->start('UPDATE t SET n = 2 WHERE id = 4');
	poll_until('the deadlock to end', sub { !$holder->is_running || !$second->is_running });
	$_->cancel foreach $writer, @crowd, $second, $holder;
	$_->wait(30) foreach $writer, @crowd, $second, $holder;
	$_->quit foreach $writer, @crowd, $second, $holder;
	$elsewhere->stop;
}

end_test($node, $redis);
