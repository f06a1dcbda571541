# Copyright (c) 2026, lockredis contributors

# Time limits of the server or the database are none of the table worker's: one
# that is shorter than its wait for a table that somebody locks would end it
# (FATAL; transaction_timeout, PostgreSQL 17), again and again.
#
#   somebody has locked redis_lock_rows;  a session asks for a lock;  the worker
#   waits for the table, 200 ms at a time, longer than each limit
#
# Before PostgreSQL 17 all but lock_timeout are for statements of clients only, and
# cannot end a worker.  A lock_timeout that is not its own would not end it either,
# but have it give up at once, so it is looked at how long it waits.
#
# Proves G25, G29.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $node = LockRedis::Node->create('main', mode => 'table');
my $admin = $node->session;
my @limits = qw(statement_timeout idle_in_transaction_session_timeout);

$node->wait_for_up;
push @limits, 'transaction_timeout'
  if $admin->value('SHOW server_version_num') >= 170000;

# Not for the connections of the test.
$ENV{PGOPTIONS} = join ' ', map { "-c $_=0" } @limits, 'lock_timeout';
$node->append_conf('postgresql.conf', "$_ = '30ms'") foreach @limits;
$node->append_conf('postgresql.conf', "lock_timeout = '1ms'");
$admin->query("ALTER DATABASE postgres SET $_ = '50ms'") foreach @limits;
$node->restart;
$node->wait_for_up;

my $blocker = $node->session;
my $one = $node->session;
my $worker = $node->table_worker_pid;

$node->log_since_here;

# It waits once each time that the table is locked, and may be missed by a busy
# machine.
my $waited = 0;
foreach my $round (1 .. 20)
{
	$blocker->query('BEGIN; LOCK TABLE redis_lock_rows IN ACCESS EXCLUSIVE MODE');
	$one->start("SELECT redis_lock('k')");
	my $until = now() + 1;
	while (!$waited && now() < $until)
	{
		pause(0.01);
		$waited = $blocker->value(
			"SELECT count(*) FROM pg_locks WHERE pid = $worker AND NOT granted AND clock_timestamp() > waitstart + interval '50 ms'"
		);
	}
	last if $waited;
	$blocker->query('COMMIT');
	$one->wait(30);
	$one->query("SELECT redis_unlock('k')");
}
ok($waited, 'the worker waits for the table, longer than any of these limits');

# The limits, and the worker's own time for a lock, are long over.
pause(1);
is($node->table_worker_pid, $worker, 'the worker is the same one');
$blocker->query('COMMIT');
is($one->wait(30)->error, undef, 'the lock is had in the end');
$one->query_is("SELECT redis_unlock('k')", 't', 'and given back');
is($node->table_worker_pid, $worker, 'the worker has not ended');
unlike($node->log_text, qr/terminating|canceling statement due to (?!lock)/,
	'and nothing was canceled');

$_->quit foreach $admin, $blocker, $one;
done_testing();
