# Copyright (c) 2026, lockredis contributors

# What goes wrong for some of several keys, or for one message of two: a Redis user with
# rights to some keys gets none of several; force takes a lock away from whoever may not be
# told; each lock of several that is found lost by its release is told.
# Proves G1, G20.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
$redis->cmd('ACL', 'SETUSER', 'some', 'on', 'nopass', '~ok*', '~lockredis_*', '~redisson_lock_*',
	'&redisson_lock__channel:{ok*}', '+@all');
my $node = LockRedis::Node->create('main', redis => $redis,
	url => 'redis://some@127.0.0.1:' . $redis->port, settings => { 'lockredis.lease' => '1h' });
$node->wait_for_up;
my ($one, $two) = map { $node->session } 1 .. 2;

# Several keys.
$one->query_is("SELECT redis_multi_lock('{ok1,ok2}'), redis_multi_unlock('{ok1,ok2}')", '|t', 'all allowed');
foreach my $call ("redis_multi_lock('{ok1,no,ok2}')", "redis_try_multi_lock('{ok1,no,ok2}')",
	"redis_try_multi_lock('{ok1,no,ok2}', '10s')", "redis_multi_xact_lock('{ok1,no,ok2}')")
{
	$one->query_fails("SELECT $call", '58000', qr/denied access/, "$call: one is not allowed");
	poll_until('nothing to be left', sub { !$redis->all_keys && $node->count_locks('true') == 0 });
}
# Also where the allowed ones are had first, one after the other.
$two->query_is("SELECT redis_lock('ok1')", '');
$one->start("SELECT redis_multi_lock('{ok1,ok2,zz}')");
$node->wait_for_waiters('ok1', 1);
$two->query_is("SELECT redis_unlock('ok1')", 't');
$one->wait->fails('58000', qr/denied access/, 'one that is asked for later');
poll_until('nothing to be left', sub { !$redis->all_keys && $node->count_locks('true') == 0 });

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
