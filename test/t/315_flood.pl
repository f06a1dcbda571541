# Copyright (c) 2026, lockredis contributors

# Messages on the channel of an awaited key that come faster than they can be
# taken, from a client that is broken or means harm.
#
# Checked: the watchdog goes on renewing meanwhile, so that nobody loses
# a lock; the waiter still waits; and it is woken when the flood is over.
#
# Proves G3, G28.

use LockRedis::Test;
use POSIX ();

need_tool('redis-benchmark');

# So that Redis does not end the flood by cutting off the listener.
my $redis = LockRedis::Redis->new(
	config => { 'client-output-buffer-limit' => [qw(pubsub 1gb 0 0)] });
my $node = LockRedis::Node->create('main', redis => $redis);
my $lease = limit(8);
my $holder = $node->session(settings => { 'lockredis.lease' => "${lease}s" });
my $waiter = $node->session;

$redis->foreign_lock('awaited');
$holder->query(
	q{SELECT redis_lock('held' || n) FROM generate_series(1, 50) n});
$node->queue_up('awaited', $waiter => q{SELECT redis_lock('awaited')});
poll_until('the subscription',
	sub { $redis->subscribers($redis->channel('awaited')) });

# Two leases long: who renews nothing until it is over has lost everything.
my $flood = fork();
die "could not fork: $!" unless defined $flood;
if ($flood == 0)
{
	no warnings 'exec';
	open STDOUT, '>', '/dev/null';
	exec 'redis-benchmark', '-s', $redis->socket_path, '-q', '-n', 2_000_000_000,
	  '-P', 200, '-c', 4, 'PUBLISH', 'redisson_lock__channel:{awaited}', 0;
	POSIX::_exit(127);
}
my $before = $node->lock_stat('renewals');
my $published = $redis->calls('publish');
pause(2 * $lease);
$published = $redis->calls('publish') - $published;
my $renewed = $node->lock_stat('renewals') - $before;
kill 'KILL', $flood;
waitpid $flood, 0;

note sprintf '%d messages in %.0f s, %d renewals', $published, 2 * $lease,
  $renewed;
cmp_ok($published, '>', 50_000, 'there was a flood');
cmp_ok($renewed, '>=', 100, 'each lock was renewed twice meanwhile');
$holder->query_is(
	q{SELECT count(*) FROM generate_series(1, 50) n WHERE redis_is_held('held' || n)},
	'50', 'no lock was lost');
ok($waiter->is_running, 'the waiter waits');

$redis->foreign_unlock('awaited');
is($waiter->wait(30)->error, undef, 'and has its lock after the flood');
end_test($node, $redis);
