# Copyright (c) 2026, lockredis contributors

# Semaphores and latches in fallback mode: as in Redis while that is there; 58000 while it
# is away, for those who wait, too; what was to be counted then is when it is back.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);

my ($node, $redis, $proxy) = LockRedis::Node->create_fallback('main');
my ($one, $two, $three) = map { $node->session } 1 .. 3;
my $soon = limit(60);

$one->query_is("SELECT redis_semaphore_init('s', 1), redis_semaphore_acquire('s'), redis_latch_init('l', 5)",
	't||t', 'Redis is there');
$node->queue_up('s', $two => "SELECT redis_semaphore_acquire('s')");
$node->queue_up('l', $three => "SELECT redis_latch_wait('l')");
$one->query("BEGIN; SELECT redis_latch_xact_count_down('l')");

$node->cut_off($proxy);
$_->wait($soon)->fails('58000', qr/not available while Redis is out of reach/, 'who waits is told')
  foreach $two, $three;
$one->query_is('COMMIT', '', 'a COMMIT');
$two->query_fails("SELECT $_", '58000', qr/not available while Redis is out of reach/, $_)
  foreach "redis_semaphore_acquire('s')", "redis_semaphore_release('s')",
  "redis_semaphore_xact_release('s')", "redis_semaphore_available('s')",
  "redis_semaphore_add('s', 1)", "redis_latch_wait('l')", "redis_latch_count_down('l')",
  "redis_latch_init('x', 1)";
is($node->value("SELECT count(*) FROM redis_locks WHERE kind = 'latch' AND pid IS NULL"), 1,
	'what is to be counted');

$node->reconnect($proxy);
poll_until('it is counted', sub { $redis->cmd('GET', 'l') == 4 });
poll_until('no row', sub { $node->value('SELECT count(*) FROM redis_locks') == 0 });
is($redis->cmd('GET', 'l'), 4, 'once');
is($redis->cmd('GET', 's'), 0, 'nothing else is');
$two->query_is("SELECT redis_semaphore_release('s'), redis_semaphore_available('s')", '|1', 'Redis is back');
done_testing();
