# Copyright (c) 2026, lockredis contributors

# When more is due at once than a batch can take, the watchdog goes over all of it once
# for a batch, to choose what is most urgent: counted, not timed.
#
# For bars of speed, not for a guarantee.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my ($locks, $batch) = (640, 10);
my ($node, $redis, $one) = servers(
	sessions => 1, settings => { 'lockredis.lease' => '600s', 'lockredis.command_timeout' => '60s' });

run($one, "SELECT count(redis_lock('n' || i)) FROM generate_series(1, $locks) i");

# At a time when all of them are due, for a batch with little room
my $gdb = LockRedis::Debugger->new($node->watchdog_pid);
$gdb->run_to('lt_collect_due', 'connected');
$gdb->wait_for_stop;
$gdb->tell('set var now = now + 500000000');
$gdb->tell("set var max = $batch");
my $number = $gdb->tell('break lt_read_due') =~ /Breakpoint (\d+)/ ? $1 : die 'no breakpoint';
$gdb->tell("ignore $number 1000000");
my $taken = $gdb->tell('finish') =~ /Value returned is .* = (\d+)/ ? $1 : die 'no return';
my $looks = $gdb->tell("info breakpoints $number") =~ /already hit (\d+) time/ ? $1 : 0;
$gdb->let_go;

is($taken, $batch, 'a full batch');
cmp_ok($looks, '>=', $locks, 'all have been looked at');
cmp_ok($looks, '<', 2 * $locks, 'once');
$one->query_is('SELECT redis_unlock_all()', $locks, 'held all the time');

end_test($node, $redis);
