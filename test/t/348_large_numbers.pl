# Copyright (c) 2026, lockredis contributors

# Numbers that do not fit: what another program has set, or what has become of releases, is
# told as it is or refused (22003), never as another number, and a semaphore that cannot be
# told is not emptied.  For nothing that a guarantee speaks of.

use LockRedis::Test;

my ($node, $redis) = LockRedis::Node->create_with_redis('main');
my $table = LockRedis::Node->create('table', mode => 'table');
my ($r, $t) = map { $_->session } $node, $table;
my $out_of_range = qr/integer out of range/;

$_->wait_for_up foreach $node, $table;

# Both stores: above 2^31 - 1 by releases.
foreach ([ $r, 'Redis' ], [ $t, 'table' ])
{
	my ($s, $name) = @$_;

	$s->query_is(
		"SELECT redis_semaphore_init('s', 2147483647), redis_semaphore_release('s', 3)",
		't|', "$name: more than an integer");
	$s->query_fails("SELECT redis_semaphore_$_('s')", '22003', $out_of_range, "$name: $_")
	  foreach 'available', 'drain', 'drain';
	$s->query_is("SELECT redis_semaphore_acquire('s', 3), redis_semaphore_drain('s'), redis_semaphore_available('s')",
		'|2147483647|0', "$name: was not emptied, and now it is");
	$s->query("SELECT redis_semaphore_add('s', -2147483648), redis_semaphore_add('s', -1)");
	$s->query_fails("SELECT redis_semaphore_drain('s')", '22003', $out_of_range, "$name: less than an integer");
	$s->query_is("SELECT redis_semaphore_add('s', 1), redis_semaphore_drain('s'), redis_semaphore_available('s')",
		'|-2147483648|0', "$name: the lowest one");

	$s->query_is("SELECT redis_latch_init('l', 9007199254740991), redis_latch_count('l'), redis_latch_count_down('l')",
		't|9007199254740991|9007199254740990', "$name: the largest latch");
	$s->query_fails("SELECT redis_semaphore_init('x', 1, '$_')",
		'22023', qr{22023: ttl must be between 10 milliseconds and 24 days}, "$name: ttl $_")
	  foreach '1 ms', '25 days', '-1 s';
}

# What others have set in Redis.
my $max = '9223372036854775807';

$redis->cmd('SET', 'l', $max);
$r->query_is("SELECT redis_latch_count('l'), redis_latch_wait('l', '0'), redis_latch_init('l', 1)",
	"$max|f|f", 'a latch of 2^63 - 1');
$r->query_is("SELECT redis_latch_count_down('l'), redis_latch_count('l')",
	'9223372036854775806|9223372036854775806', 'is counted down by one');
is($redis->cmd('GET', 'l'), '9223372036854775806', 'in Redis, too');
$redis->cmd('SET', 'l', '-5');
$r->query_is("SELECT redis_latch_count('l'), redis_latch_count_down('l')", '0|0', 'less than none');
$redis->cmd('SET', 'l', '99999999999999999999');
$r->query_fails("SELECT redis_latch_count('l')", '42809', qr/does not hold a latch/, 'one that Redis cannot count');

foreach my $number ('2147483648', '9007199254740993', $max, '99999999999999999999')
{
	$redis->cmd('SET', $_, $number) foreach 's', 'p';
	$r->query_fails("SELECT redis_$_", '22003', $out_of_range, "$_ of $number")
	  foreach "semaphore_available('s')", "semaphore_drain('s')", "permit_total('p')",
	  "permit_available('p')";
	is($redis->cmd('GET', 's'), $number, "$number: stays");
}
$redis->cmd('SET', 'p', $max);
$r->query_is("SELECT redis_permit_lock('p'), redis_is_locked('p')", '|f', 'a permit of 2^63 - 1');
like($r->value("SELECT redis_lock_owner('p')"), qr/^1 permit$/, 'who has it');
$r->query_is("SELECT redis_permit_set('p', 3), redis_permit_total('p'), redis_permit_available('p')",
	'|3|2', 'is made small again');
$r->query_is("SELECT redis_permit_unlock('p'), redis_permit_available('p')", 't|3', 'and given back');

$redis->cmd('FLUSHALL');
end_test($node, $redis);
