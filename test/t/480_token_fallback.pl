# Copyright (c) 2026, lockredis contributors

# Token locks in fallback mode: while the table stands in for Redis there are none, also
# for who waits; who comes for another lock of the key waits until a token lock that this
# server has taken has surely ended.
# Proves G1, G25.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main');
my ($one, $two) = map { $node->session } 1 .. 2;
my $away = qr/"token" is not available while Redis is out of reach/;

$one->query_is("SELECT redis_token_lock('k', '1h', 'secret')", 'secret', 'in Redis');
is($redis->cmd('GET', 'k'), 'secret', 'there');
$two->start("SELECT redis_token_lock('k', '1h', 'next')");
$node->wait_for_waiters('k', 1);
$node->cut_off($proxy);
$two->wait->fails('58000', $away, 'who waits');
$one->query_fails("SELECT redis_token_lock('other', '1h', 'secret')", '58000', $away, 'lock');
$one->query_fails("SELECT redis_try_token_lock('other', '0', '1h')", '58000', $away, 'try');
$one->query_fails("SELECT redis_token_unlock('k', 'secret')", '58000', $away, 'unlock');
$one->query_fails("SELECT redis_token_extend('k', 'secret', '2h')", '58000', $away, 'extend');
$one->query_fails("SELECT redis_token_is_held('k', 'secret')", '58000', $away, 'is_held');
is($table->all_keys, 0, 'the table has none');

# The token lock is in Redis, whoever can ask that.
$one->query_is("SELECT redis_try_lock('k', '200ms')", 'f', 'its lease still runs');

$node->reconnect($proxy);
$one->query_is("SELECT redis_token_is_held('k', 'secret')", 't', 'it is there again');
$one->query_is("SELECT redis_token_unlock('k', 'secret')", 't', 'and given back');

nothing_left($node, $redis);
done_testing();
