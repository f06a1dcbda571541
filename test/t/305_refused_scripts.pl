# Copyright (c) 2026, lockredis contributors

# A Redis that refuses to write, as a master does that was made a replica: whatever the
# kind of lock, to be refused is an error and no answer.  It is not taken for somebody
# else's name, so nothing is lost, and what was to be given back is so afterwards.
# Proves G3, G5.

use LockRedis::Test;

# No lease ends while it refuses.
my ($node, $redis) = servers(settings => { 'lockredis.lease' => '10min' });
my %kinds = (
	reentrant => [ 'redis_lock', 'redis_unlock' ],
	fair => [ 'redis_fair_lock', 'redis_unlock' ],
	read => [ 'redis_read_lock', 'redis_read_unlock' ],
	write => [ 'redis_write_lock', 'redis_write_unlock' ],
	permit => [ 'redis_permit_lock', 'redis_permit_unlock' ]);

foreach my $kind (sort keys %kinds)
{
	my ($lock, $unlock) = @{ $kinds{$kind} };
	my $session = $node->session;

	$session->query("SELECT redis_permit_set('a', 2)") if $kind eq 'permit';
	$session->query_is("SELECT $lock('a')", '', "$kind: had");
	$session->query_is("SELECT redis_extend('a', '11min', '$kind')", 't', "$kind: extended");
	$redis->cmd('REPLICAOF', '127.0.0.1', 1);
	my $refused = $session->query("SELECT redis_extend('a', '12min', '$kind')");
	like($refused->sqlstate // $refused->out, qr/^58/, "$kind: refused is an error");
	$redis->cmd('REPLICAOF', 'NO', 'ONE');
	$node->wait_for_up;
	$session->query_is("SELECT redis_is_held('a', '$kind'), redis_extend('a', '12min', '$kind')",
		't|t', "$kind: had as before");

	$redis->cmd('REPLICAOF', '127.0.0.1', 1);
	my $given_back = $session->query("SELECT $unlock('a')");
	is($given_back->out, 't', "$kind: nobody has lost it");
	$redis->cmd('REPLICAOF', 'NO', 'ONE');
	$node->wait_for_up;
	poll_until("$kind: given back",
		sub { $kind eq 'permit' ? $redis->cmd('GET', 'a') == 2 : !$redis->cmd('EXISTS', 'a') });
	$redis->cmd('DEL', 'a');
	$session->quit;
}

is($node->lock_stat('losses'), 0, 'no loss');

end_test($node, $redis);
