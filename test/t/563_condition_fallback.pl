# Copyright (c) 2026, lockredis contributors

# Conditions in fallback mode: as in Redis while that is there; 58000 while it is away, also for
# who waits, and his lock is lost then; a lock that was moved to the table has none; and what was
# waited for before is no more when Redis is back.
# A condition is no lock, so no guarantee speaks of it.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Topic::Condition;
use LockRedis::Wait qw(limit);

my $node;

($node, $redis, $proxy) = LockRedis::Node->create_fallback('main');
my ($one, $two, $three) = map { $node->session } 1 .. 3;
my $away = qr/not available while Redis is out of reach/;

$one->query("SELECT redis_lock('a')");
await($one, 'a');
$two->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')", '|1|t');
is(told($one), 't', 'Redis is there');
await($one, 'a');
$three->query("SELECT redis_lock('c')");

$node->cut_off($proxy);
$one->wait(limit(60))->fails('58000', $away, 'who waits is told that it is away');
$one->query_is("SELECT redis_is_held('a')", 'f', 'and does not have the lock');
$one->query_warns("SELECT redis_unlock('a')", 'f', '01000', qr/lost/, 'seen');
$three->query_fails("SELECT redis_condition_$_('c')", '58000', $away, $_)
  foreach 'wait', 'notify', 'notify_all';
$three->query_is("SELECT redis_is_held('c')", 't', 'the lock that was moved to the table stays');

$node->reconnect($proxy);
poll_until('the lock to be in Redis again', sub { $redis->cmd('EXISTS', 'c') == 1 });
poll_until('no row of who waited',
	sub { $node->value("SELECT count(*) FROM redis_locks WHERE key = 'a'") == 0 });
$one->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')", '|0|t',
	'nobody waits any more');
$three->query_is("SELECT redis_condition_notify('c'), redis_unlock('c')", '0|t', 'as before');
$_->quit foreach $one, $two, $three;
done_testing();
