# Copyright (c) 2026, lockredis contributors

# A longer lease that is asked for a lock which is lost already, and whose key may not
# be touched any more: what is left of it lives for that long, so it is to be given
# back for that long.
#
#     session                              watchdog
#     redis_extend: the lock is held
#                                          its lease ends; to give it back is refused:
#                                          tried again until six seconds are over
#     asks for an hour, which it gets,
#     and learns of the loss
#                                          refused again: tried for an hour
#
# Proves G5, G20.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new;

sub denied
{
	my ($denied) = @_;

	$redis->cmd('ACL', 'SETUSER', 'bob', $denied ? ('resetkeys', '~other', '~redisson_lock__channel:*') : '~*');
	return;
}

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');
my ($node, $one) = LockRedis::Node->create(
	'main', sessions => 1,
	url => 'redis://bob@127.0.0.1:' . $redis->port,
	settings => { 'lockredis.connect_timeout' => '3s', 'lockredis.command_timeout' => '3s' });

my $stop = LockRedis::Debugger->new($one->pid);
$stop->run_to('lt_note_lease');
$node->log_since_here;

# In one request, while the watchdog stands still: however long this takes.
kill 'STOP', my $watchdog = $node->watchdog_pid;
$one->start("SELECT redis_lock('k', '6 s')\\; SELECT redis_extend('k', '1 h')");
$stop->wait_for_stop;
$redis->cmd('PEXPIRE', 'k', 600_000);
denied(1);
kill 'CONT', $watchdog;
poll_until('the loss', sub { $node->count_locks('lost_at IS NOT NULL') });
poll_until('a refusal', sub { $node->logged(qr/refuses to release the lock "k"/) });

# Now it may do so once, before the watchdog tries again.
kill 'STOP', $watchdog;
denied(0);
$stop->let_go;
is($one->wait->out, "\nf", 'it learns of the loss');
cmp_ok($redis->cmd('PTTL', 'k'), '>', 3_000_000, 'the key is locked for an hour');
denied(1);
kill 'CONT', $watchdog;
$one->query_warns("SELECT redis_unlock('k')", 'f', '01000', qr/was lost/, 'the loss is told');

# Longer than the first lease
pause(8);
denied(0);
$redis->kill_clients('watchdog');
poll_until('it to be given back', sub { !$redis->cmd('EXISTS', 'k') });
pass('it is given back when that is allowed again');
end_test($node, $redis);
