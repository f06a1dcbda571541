# Copyright (c) 2026, lockredis contributors

# What goes wrong for some of several keys, or for one message of two: force takes a lock away
# from whoever may not be told; each lock of several that is found lost by its release is told.
# Proves G1, G20.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
$redis->cmd('ACL', 'SETUSER', 'some', 'on', 'nopass', '~ok*', '~lockredis_*', '~redisson_lock_*',
	'&redisson_lock__channel:{ok*}', '+@all');
my $node = LockRedis::Node->create('main', redis => $redis,
	url => 'redis://some@127.0.0.1:' . $redis->port, settings => { 'lockredis.lease' => '1h' });
$node->wait_for_up;
my $one = $node->session;

# Force: the lock is gone, and its holder is told, though not who waits for it.
$redis->cmd('RPUSH', 'redisson_lock_queue:{ok3}', 'somebody:1');
$one->query_is("SELECT redis_lock('ok3')", '');
$redis->cmd('ACL', 'SETUSER', 'some', 'resetchannels');
is($node->value("SELECT redis_force_unlock('ok3')"), 't', 'by force');
is($redis->cmd('EXISTS', 'ok3'), 0, 'it is gone');
$one->query_warns("SELECT redis_unlock('ok3')", 'f', '01000', qr/lost/, 'and its session knows');
$redis->cmd('ACL', 'SETUSER', 'some', 'allchannels');
$redis->cmd('DEL', 'redisson_lock_queue:{ok3}');

# Locks that their release finds lost: nobody looks before, since the watchdog is stopped.
$one->query_is("SELECT redis_multi_lock('{ok1,ok2,ok3,ok4}')", '');
kill 'STOP', $node->watchdog_pid or die $!;
$redis->cmd('DEL', 'ok2', 'ok4');
$redis->foreign_lock('ok4', ms => 3_600_000);
my $told = $one->query("SELECT redis_multi_unlock('{ok1,ok2,ok3,ok4}')");
is($told->value, 'f', 'two were lost');
is(join(' ', sort map { $_->{message} =~ /"(ok\d)"/ ? $1 : '' } $told->warnings), 'ok2 ok4',
	'a warning for each');
kill 'CONT', $node->watchdog_pid or die $!;
is(join(' ', $redis->all_keys), 'ok4', 'the others are given back');
$redis->cmd('DEL', 'ok4');

end_test($node, $redis);
