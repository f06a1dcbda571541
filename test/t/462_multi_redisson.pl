# Copyright (c) 2026, lockredis contributors

# The real Redisson's RedissonMultiLock and calls of ours for overlapping sets of keys: who
# waits for whom.  302_torture_kinds has many of both at once.
# Proves G1, G21.

use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my ($node, $redis) = LockRedis::Node->create_with_redis('main');
my $java = LockRedis::Redisson->new;

$java->connect('a', $redis);

my $one = $node->session;

$one->query_is("SELECT redis_multi_lock(ARRAY['k', 'l'])", '', 'ours');
is($java->value('a.1', 'multi.tryLock', 'm,l', 0, -1), 'false', 'Redisson gets none of it');
is($redis->cmd('EXISTS', 'm'), 0, 'and keeps none');
is($java->value('a.1', 'multi.tryLock', 'm,n', 0, -1), 'true', 'but others');
$one->query_is("SELECT redis_try_multi_lock(ARRAY['n', 'o'])", 'f', 'which we do not get');
$one->start("SELECT redis_multi_lock(ARRAY['n', 'o'])");
$node->wait_for_waiters('n', 1);
$java->call('a.1', 'multi.unlock', 'm,n')->or_die;
is($one->wait(limit(20))->error, undef, 'until Redisson gives them back');
my $waits = $java->send('a.1', 'multi.lock', 'o,l', -1);
$redis->wait_for_subscribers('o', 1);
$one->query_is("SELECT redis_multi_unlock(ARRAY['k', 'l', 'n', 'o'])", 't', 'given back');
ok(!$java->wait($waits, 60)->error, 'Redisson has waited for that');
$java->call('a.1', 'multi.unlock', 'o,l')->or_die;

$one->quit;
$java->shutdown('a');
$java->stop;
nothing_left($node, $redis, keys => qr/unlock_latch/);
done_testing();
