# Copyright (c) 2026, lockredis contributors

# Fallback mode: whatever has shown a session how long somebody elsewhere has a key keeps the
# table from giving that away before then: not only a lock that was asked for in vain, but a
# question about the key too, and a lock of another kind.
#
#   somebody else: has the key for ten minutes
#   A: redis_lock_ttl: ten minutes
#   Redis is away, for longer than a lease of ours
#   A: wants the key: busy, as somebody else may have it still
# Proves G26.

use LockRedis::Test;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '3s' });
my ($one, $two) = map { $node->session } 1 .. 2;

my %question = (
	is_locked => 'redis_is_locked',
	ttl => 'redis_lock_ttl',
	owner => 'redis_lock_owner');

foreach my $what (sort keys %question)
{
	$redis->foreign_lock($what);
	ok($one->value("SELECT $question{$what}('$what') IS NOT NULL"), "$what: somebody has it");
}

# A reader of Redisson's: no lock that redis_lock could wait for.
foreach my $key ('asked reader', 'seen reader')
{
	$redis->cmd('HSET', $key, 'mode', 'read', 'somebody:1', 1);
	$redis->cmd('PEXPIRE', $key, 600_000);
}
is($one->value("SELECT redis_lock_owner('seen reader')"), 'read', 'reader: somebody reads');
$one->query_fails("SELECT redis_try_lock('asked reader')", '42809', qr/does not hold a reentrant lock/,
	'reader: another kind of lock is in the way');

# A token lock, and one that was found when it was unlocked too late.
$redis->cmd('SET', 'token', 'secret', 'PX', 600_000);
is($one->value("SELECT redis_lock_owner('token')"), 'token', 'token: somebody has it');
$one->query("SELECT redis_lock('lost')");
$redis->replace_owner('lost', 'somebody:1');
$one->query_warns("SELECT redis_unlock('lost')", 'f', '01000', qr/somebody:1/,
	'lost: somebody else has it by now');

# What says nothing of a lock of somebody else holds off nobody.
$redis->cmd('SET', 'number', 5);
ok($one->value("SELECT NOT redis_is_locked('number')"), 'number: nobody has it');
$one->query("SELECT redis_lock('own', '1 hour')");
ok($two->value("SELECT redis_lock_ttl('own') > '1 minute'"), 'own: a session of this server has it');
$one->query("SELECT redis_unlock('own')");

$node->cut_off($proxy);
foreach my $key ('never seen', 'number', 'own')
{
	poll_until("$key to be free", sub { $one->value("SELECT redis_try_lock('$key')") eq 't' });
	pass("$key: had after one lease at most");
}
foreach my $key (sort keys %question, 'asked reader', 'lost', 'seen reader', 'token')
{
	$one->query_is("SELECT redis_try_lock('$key')", 'f', "$key: not before its lease has ended");
}
$one->query('SELECT redis_unlock_all()');
$node->reconnect($proxy);
$redis->cmd('FLUSHALL');
end_test($node, $redis);
