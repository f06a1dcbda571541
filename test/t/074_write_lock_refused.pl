# Copyright (c) 2026, lockredis contributors

# A session has a write lock and a read lock of a key, which are one hash in Redis.  Redis
# refuses the release of the write lock, for longer than that would have lived by itself.
# The renewals of the read lock keep it there meanwhile, so it is released all the same when
# Redis does it again: the session goes on reading, and others read with it.
# Proves G20.

use LockRedis::Test qw(:DEFAULT run);

my $redis = LockRedis::Redis->new;
my $lease = limit(5);

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');

my $node = LockRedis::Node->create(
	'main',
	url => 'redis://bob@127.0.0.1:' . $redis->port,
	settings => { 'lockredis.lease' => 3 * $lease . 's', 'lockredis.command_timeout' => '20s' });
my ($one, $two) = map { $node->session } 1 .. 2;

$node->wait_for_up;
run($one, "SELECT redis_write_lock('k', '${lease}s'), redis_read_lock('k')");
is($redis->hash('k')->{mode}, 'write', 'one writes');
$redis->cmd('ACL', 'SETUSER', 'bob', 'resetkeys', '~k', '~{k}:*');
$one->query("SELECT redis_write_unlock('k')");

# Longer than its lease
pause(2 * $lease);
is($redis->hash('k')->{mode}, 'write', 'its release is refused');
$redis->cmd('ACL', 'SETUSER', 'bob', '~*');
poll_until('the release', sub { $redis->hash('k')->{mode} eq 'read' });
pass('it is released when Redis does it');
$one->query_is("SELECT redis_is_held('k', 'read'), redis_is_held('k', 'write')", 't|f',
	'one reads on');
$two->query_is("SELECT redis_try_read_lock('k'), redis_read_unlock('k')", 't|t', 'and two with it');
run($one, "SELECT redis_read_unlock('k')");
end_test($node, $redis);
