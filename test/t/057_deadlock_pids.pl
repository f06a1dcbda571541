# Copyright (c) 2026, lockredis contributors

# Process ids that occur again.  A process that ends leaves its id in its PGPROC
# until that is used again (before PostgreSQL 17), and the system may give the
# id to another session meanwhile.  The search for deadlocks
# (src/session/deadlock.c) has to take it for the one who lives.
#
# Nobody can ask for an id.  So gdb writes that of a session of the cycle over
# those that were left behind:
#
#   holder has k;  second has row 1, waits for k;  holder waits for row 1
#
# Proves G11.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my ($node, $redis, $viewer) = servers(
	sessions => 1,
	settings => {
		deadlock_timeout => '1h',
		autovacuum => 'off',
		log_min_error_statement => 'panic'
	});

$viewer->query('CREATE TABLE t (id int, n int); INSERT INTO t VALUES (1, 0)');

# The order in which PGPROCs are used depends on the version: one that has ended
# is on either side of the session, so that one of them is looked at first.
my $before = $node->session;
my $second = $node->session(settings => { deadlock_timeout => '100ms' });
my ($after, $holder) = map { $node->session } 1 .. 2;

$holder->query("BEGIN; SELECT redis_xact_lock('k')");
$second->query('BEGIN; UPDATE t SET n = 0 WHERE id = 1');
$second->start("SELECT redis_lock('k')");
$node->wait_for_waiters('k', 1);
foreach my $gone ($before, $after)
{
	$gone->quit;
	poll_until('the session to end',
		sub { $viewer->value('SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $gone->pid) == 0 });
}

my $gdb = LockRedis::Debugger->new($viewer->pid);
my $said = $gdb->tell(sprintf <<'END', $second->pid);
set $procs = (*(PROC_HDR **) &ProcGlobal)->allProcs
set $i = 0
set $left = 0
while $i < (*(PROC_HDR **) &ProcGlobal)->allProcCount
if $procs[$i].pid != 0 && $procs[$i].procLatch.owner_pid == 0
set $procs[$i].pid = %d
set $left = $left + 1
end
set $i = $i + 1
end
printf "left behind: %%d\n", $left
END
$gdb->let_go;
my ($left) = $said =~ /left behind: (\d+)/;
ok(defined $left, 'gdb knows the PGPROCs') or diag($said);
if ($viewer->value("SELECT current_setting('server_version_num')::int < 170000") eq 't')
{
	cmp_ok($left, '>=', 2, 'ids were left behind');
}
else
{
	is($left, 0, 'PostgreSQL leaves no id behind any more');
}

$holder->start('UPDATE t SET n = 0 WHERE id = 1');
$second->wait(30)->fails('40P01', qr/deadlock detected/, 'the cycle is found');
$second->query('ROLLBACK');
$holder->wait(30);
$holder->query('COMMIT');
$_->quit foreach $second, $holder;
end_test($node, $redis);
