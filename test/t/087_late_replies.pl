# Copyright (c) 2026, lockredis contributors

# Where replies usually take longer than recv() waits for them at first, it soon waits for longer,
# so a request does not need another system call to wait for its reply: counted, not timed.
#
# For bars of speed, not for a guarantee.

use FindBin;
use lib "$FindBin::Bin/../bench";

use Bench::Meter;
use LockRedis::Test qw(:DEFAULT run);

my $requests = 40;
my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy('main');
my $one = $node->session;

sub pairs ($n)
{
	return run($one, "SELECT count(redis_lock('k')), count(redis_unlock('k')) FROM generate_series(1, $n)");
}

# How often the session waited for anything but a reply in recv()
sub waits
{
	my $calls = Bench::Meter::system_calls([ $one->pid ], sub { pairs($requests / 2) });

	return ($calls->{epoll_wait} // 0) + ($calls->{epoll_pwait} // 0);
}

pairs(1);

# More than the 10 ms of a new connection, less than the 80 ms that it becomes at most.
$proxy->latency(20);
pairs(10);

# A machine that has much to do may need longer for some replies.
my $waits;
poll_until('replies to be waited for in recv()', sub { ($waits = waits()) < $requests / 2 });
cmp_ok($waits, '<', $requests / 2, "$waits other waits in $requests requests");

$proxy->latency(0);
end_test($node, $redis);
