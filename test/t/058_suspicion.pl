# Copyright (c) 2026, lockredis contributors

# A search for a deadlock that comes to another session suspects that, and wakes it: it
# is to search as well.  That must not be lost when it comes in the very moment in which
# the other one looks whether it is suspected.  Each instruction of that is tried: the
# session is stopped there by a debugger, and suspected.
#
# No guarantee speaks of it: a deadlock would be found all the same, later.

use LockRedis::Debugger;
use LockRedis::Test;
use POSIX ();

LockRedis::Debugger->need;

my ($node, $redis, $holder, $waiter) = servers(
	sessions => 2, settings => { deadlock_timeout => '100ms' });

$holder->query_is("SELECT redis_lock('k')", '', 'a lock');
$node->queue_up('k', $waiter => "SELECT redis_lock('k')");

my $stop = LockRedis::Debugger->new($waiter->pid);
my $self = $node->pg_version >= 17 ? 'MyProcNumber' : 'MyProc->pgprocno';
my $wait = "lt_sessions[$self].wait";
my ($steps, $kept) = (0, 0);

# Where what it returns is, when it has
my $result = (POSIX::uname())[4] eq 'x86_64' ? '$rax' : '$x0';

sub is_inside { return $stop->tell('info symbol $pc') =~ /\blt_take_suspicion\b/; }

for (;; $steps++)
{
	$stop->run_to('lt_take_suspicion');
	$stop->wait_for_stop;
	$stop->tell("set var $wait.cycle.suspected = 0");

	# Over calls: sanitizers make some.
	$stop->tell("nexti $steps") if $steps;
	last unless is_inside();
	$stop->tell("set var $wait.cycle.suspected = $wait.generation");

	# More than once, if it is in a function that the compiler has put into this one.
	$stop->tell('finish') while is_inside();
	my ($taken) = $stop->tell("print $result & 1") =~ /\$\d+ = (\d+)/;
	my ($left) = $stop->tell("print $wait.cycle.suspected") =~ /\$\d+ = (\d+)/;
	if ($taken || $left) { $kept++; }
	else { diag "lost at instruction $steps"; }
}
$stop->let_go;
cmp_ok($steps, '>', 5, "$steps instructions");
is($kept, $steps, 'a suspicion is kept whenever it comes');

$holder->query_is("SELECT redis_unlock('k')", 't', 'unlocked');
is($waiter->wait->error, undef, 'and locked by who waited');
$waiter->query_is("SELECT redis_unlock('k')", 't', 'unlocked again');
end_test($node, $redis);
