# Copyright (c) 2026, lockredis contributors

# No function takes a key under which lockredis or Redisson keep what belongs to another
# one, with and without a prefix, and nothing is done there.  Proves G33.

use LockRedis::Test;
use LockRedis::Topic::Rights;

my ($node, $redis, $s) = servers(sessions => 1);
my $prefixed = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });
my $tagged = $node->session(settings => { 'lockredis.key_prefix' => '{app}:' });
my $ours = $node->session(settings => { 'lockredis.key_prefix' => 'lockredis_' });
my $half = $node->session(settings => { 'lockredis.key_prefix' => 'redisson' });

my @functions = sort grep { $judged{$_}{call} =~ /%s/ } keys %judged;
cmp_ok(scalar @functions, '>=', 80, 'functions with a key');
foreach my $call (map { call_of($_, 'lockredis_tickets:{other}') } @functions)
{
	$s->query_fails($call, '42501', qr/lock key "lockredis_tickets:\{other\}" is reserved/, $call);
}

# Every name that is derived from a key: of Redisson, of ours, of a name with braces.
my @derived = (
	'redisson_lock_token:{k}', 'redisson_lock_queue:{k}', 'redisson_lock_timeout:{k}',
	'redisson_unlock_latch:{k}:1', 'redisson_',
	'redisson_lock_token:k{tag}', 'redisson__timeout__set:{k}',
	'lockredis_writers:{k}', 'lockredis_places::k{tag}', 'lockredis_tickets:{k}',
	'lockredis_condition_waiting:{k}:0', 'lockredis_',
	'{k}:timeout', 'k{tag}:timeout', '{k}:a-b:1:rwlock_timeout:1',
	'k{tag}:a-b:1:rwlock_timeout:23');
foreach my $name (@derived)
{
	$s->query_fails("SELECT redis_try_lock('$name')", '42501', qr/is reserved/, $name);
	$prefixed->query_fails("SELECT redis_try_lock('$name')",
		'42501', qr/"app:\Q$name\E" is reserved/, "$name behind a prefix");
}
$tagged->query_fails("SELECT redis_try_lock('$_')", '42501', qr/is reserved/, "$_ behind a tag")
  foreach 'k:timeout', 'redisson_lock_token:{k}', 'k:a-b:1:rwlock_timeout:1';
$ours->query_fails("SELECT redis_try_lock('tickets:{k}')",
	'42501', qr/is reserved/, 'a prefix that makes it one');
$half->query_fails("SELECT redis_try_lock('_lock_token:{k}')",
	'42501', qr/is reserved/, 'half of it is in the prefix');
is(scalar $redis->all_keys, 0, 'there is nothing anywhere');

# And what is not.
foreach my $name (
	'k:timeout', 'redisson', 'lockredis', 'my redisson_lock', 'Redisson_lock', '{k}', 'k{tag}',
	'{k}:timeouts', '{k}:timeout:1', '{k}:rwlock_timeout:', '{k}:rwlock_timeout:1x',
	'k:rwlock_timeout:1', ':timeout', '17')
{
	$s->query_is("SELECT redis_try_lock('$name'), redis_unlock('$name')",
		't|t', "$name is a key");
}
$half->query_is("SELECT redis_try_lock(':k'), redis_unlock(':k')", 't|t', 'so is one behind a prefix');

end_test($node, $redis);
