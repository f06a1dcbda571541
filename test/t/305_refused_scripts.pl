# Copyright (c) 2026, lockredis contributors

# A Redis that refuses to write, as a master does that was made a replica: whatever the
# kind of lock, to be refused is an error and no answer.  It is not taken for somebody
# else's name, so nothing is lost, and what was to be given back is so afterwards.  Messages may
# be refused: force takes a lock away from whoever may not be told.  And each lock of several that
# is found lost by its release is told.
# Proves G1, G3, G5, G20.

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
my $one = $node->session;

# Force: the lock is gone, and its holder is told, though not who waits for it.
$redis->cmd('RPUSH', 'redisson_lock_queue:{ok3}', 'somebody:1');
$one->query_is("SELECT redis_lock('ok3')", '');
$redis->cmd('ACL', 'SETUSER', 'default', 'resetchannels');
is($node->value("SELECT redis_force_unlock('ok3')"), 't', 'by force');
is($redis->cmd('EXISTS', 'ok3'), 0, 'it is gone');
$one->query_warns("SELECT redis_unlock('ok3')", 'f', '01000', qr/lost/, 'and its session knows');
$redis->cmd('ACL', 'SETUSER', 'default', 'allchannels');
$redis->cmd('DEL', 'redisson_lock_queue:{ok3}');

# Locks that their release finds lost: nobody looks before, since the watchdog is stopped.
$one->query_is("SELECT redis_multi_lock('{ok1,ok2,ok3,ok4}')", '');
kill 'STOP', $node->watchdog_pid or die $!;
$redis->cmd('DEL', 'ok2', 'ok4');
$redis->foreign_lock('ok4', ms => 3_600_000);
my $told = $one->query("SELECT redis_multi_unlock('{ok1,ok2,ok3,ok4}')");
is($told->value, 'f', 'two were lost');
is(join(' ', sort map { $_->{message} =~ /"(ok\d)"/ ? $1 : '' } $told->warnings), 'ok2 ok4',
	'a warning for each');
kill 'CONT', $node->watchdog_pid or die $!;
is(join(' ', $redis->all_keys), 'ok4', 'the others are given back');
$redis->cmd('DEL', 'ok4');

end_test($node, $redis);
