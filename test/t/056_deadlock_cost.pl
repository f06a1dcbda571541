# Copyright (c) 2026, lockredis contributors

# What the search for deadlocks costs, and that one search a key, by whichever of its waiters, finds
# the cycles of all of them (src/session/deadlock.c).  (That whoever is suspected searches, and the
# next one when the first has stopped or left, is the simulator's: its mutant never_suspected.)
#
# Costs are counted, not timed: the server says at DEBUG1 how many processes a
# search came to, how often it looked into PostgreSQL's lock manager, and how much
# memory it had.
#
# Proves G11.

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

$viewer->query(
	'CREATE TABLE t (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off);
	 INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');

# Logs each of its searches.
sub searcher
{
	my ($timeout) = @_;

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
sub crowd
{
	my ($count, $sql, $options) = @_;
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
#
my %seen;
foreach my $n (15, $waiters)
{
	my ($updater, $holder) = map { $node->session } 1 .. 2;

	$updater->query('BEGIN; UPDATE t SET n = 0 WHERE id = 1');
	my $rows = crowd($n, 'UPDATE t SET n = 0 WHERE id = 1;', '');
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
	is((scalar grep { $_->{pid} == $second->pid } searches()),
		0, 'and does not search');
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

end_test($node, $redis);
