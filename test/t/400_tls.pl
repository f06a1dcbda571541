# Copyright (c) 2026, lockredis contributors

# Locks in a Redis with TLS.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Ca;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $node = LockRedis::Node->create('main', url => $redis->tls_url,
	settings => { 'lockredis.tls_ca_file' => $ca->file });
my $one = $node->session;
my $two = $node->session;

$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('k')", 't');
$two->query_is("SELECT redis_try_lock('k')", 'f');
$two->start("SELECT redis_lock('k')");
$node->wait_for_waiters('k', 1);
$one->query_is("SELECT redis_unlock('k')", 't');
is($two->wait(10)->error, undef, 'woken');
$two->quit;
nothing_left($node, $redis);
done_testing();
