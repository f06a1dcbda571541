# Copyright (c) 2026, lockredis contributors

# What the table does not stand in for, in fallback mode: token locks, semaphores, latches and
# conditions.  As in Redis while that is there; 58000 while it is away, also for who waits (who
# waits for a condition has lost his lock then); what was to be counted then is when it is back.
# Who comes for another lock of a key waits until a token lock that this server has taken has
# surely ended.
# Proves G1, G25.

use LockRedis::Test;
use LockRedis::Topic::Condition;

my $node;

# A Redis that is slow for a moment is not one that is away, but where it is to be away.
my $patient = { 'lockredis.fallback_after' => '19s' };
($node, $redis, $proxy) = LockRedis::Node->create_fallback('main', settings => $patient);
my ($one, $two, @waiters) = map { $node->session } 1 .. 6;
my ($for_token, $for_semaphore, $for_latch, $for_condition) = @waiters;
my $away = qr/not available while Redis is out of reach/;

# ---- Redis is there

$one->query_is("SELECT redis_token_lock('k', '1h', 'secret')", 'secret', 'a token lock');
is($redis->cmd('GET', 'k'), 'secret', 'in Redis');
$one->query_is("SELECT redis_semaphore_init('s', 1), redis_semaphore_acquire('s'), redis_latch_init('l', 5)",
	't||t', 'numbers');
$for_condition->query("SELECT redis_lock('a')");
await($for_condition, 'a');
$two->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')", '|1|t');
is(told($for_condition), 't', 'a condition');
await($for_condition, 'a');
$node->queue_up('k', $for_token => "SELECT redis_token_lock('k', '1h', 'next')");
$node->queue_up('s', $for_semaphore => "SELECT redis_semaphore_acquire('s')");
$node->queue_up('l', $for_latch => "SELECT redis_latch_wait('l')");
$two->query("SELECT redis_lock('c')");
$one->query("BEGIN; SELECT redis_latch_xact_count_down('l')");

# ---- it is away

$node->set('lockredis.fallback_after' => '1s');
$node->cut_off($proxy);
$_->wait(limit(60))->fails('58000', $away, 'who waits is told that it is away') foreach @waiters;
$one->query_is('COMMIT', '', 'a COMMIT');
is($node->count_locks("kind = 'latch' AND pid IS NULL"), 1,
	'what is to be counted');
$for_condition->query_is("SELECT redis_is_held('a')", 'f', 'who waited for the condition does not have the lock');
$for_condition->query_warns("SELECT redis_unlock('a')", 'f', '01000', qr/lost/, 'seen');
$two->query_fails("SELECT $_", '58000', $away, $_)
  foreach "redis_token_lock('other', '1h', 'secret')", "redis_try_token_lock('other', '0', '1h')",
  "redis_token_unlock('k', 'secret')", "redis_token_extend('k', 'secret', '2h')",
  "redis_token_is_held('k', 'secret')", "redis_semaphore_acquire('s')",
  "redis_semaphore_release('s')", "redis_semaphore_xact_release('s')",
  "redis_semaphore_available('s')", "redis_semaphore_add('s', 1)", "redis_latch_wait('l')",
  "redis_latch_count_down('l')", "redis_latch_init('x', 1)", "redis_condition_wait('c')",
  "redis_condition_notify('c')", "redis_condition_notify_all('c')";
$two->query_is("SELECT redis_is_held('c')", 't', 'a lock that was moved to the table stays');
$one->query_is("SELECT redis_try_lock('k', '200ms')", 'f', 'the lease of the token lock still runs');

# ---- it is back

$node->reconnect($proxy);
$node->set(%$patient);
poll_until('it to be counted', sub { $redis->cmd('GET', 'l') == 4 });
poll_until('the lock to be in Redis again', sub { $redis->cmd('EXISTS', 'c') == 1 });
poll_until('no row but its own', sub { $node->count_locks == 1 });
is($redis->cmd('GET', 'l'), 4, 'counted once');
is($redis->cmd('GET', 's'), 0, 'nothing else is');
$one->query_is("SELECT redis_semaphore_release('s'), redis_semaphore_available('s')", '|1', 'a semaphore');
$one->query_is("SELECT redis_token_is_held('k', 'secret'), redis_token_unlock('k', 'secret')", 't|t',
	'the token lock');
$one->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')", '|0|t',
	'nobody waits for the condition any more');
$two->query_is("SELECT redis_condition_notify('c'), redis_unlock('c')", '0|t', 'as before');
end_test($node, $redis, keys => qr/^(?:[sl]$|lockredis_tickets:)/);
