# Copyright (c) 2026, lockredis contributors

# Deadlocks among locks of several kinds: over one of several readers, between several keys
# at once and single ones, between three kinds; the DETAIL names the key of each edge,
# and whoever is not in the cycle is left alone.
# Proves G11.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three, $four) = servers(sessions => 4,
	settings => { 'lockredis.lease' => '1h', deadlock_timeout => '1h' });
my $soon = limit(60);

# The others wait already; this one looks, so it is the victim.
sub is_victim ($session, $sql, $name, @edges)
{
	my $result;

	$session->query("SET deadlock_timeout = '50ms'");
	$session->start($sql);
	$result = $session->wait($soon);
	$result->fails('40P01', qr/deadlock detected/, "$name: 40P01");
	foreach my $edge (@edges)
	{
		my ($waiter, $key, $blocker) = @$edge;

		like($result->detail,
			qr/Process \Q${\ $waiter->pid}\E waits for Redis lock "\Q$key\E".*blocked by process \Q${\ $blocker->pid}\E\./,
			"$name: the edge of $key");
	}
	$session->query("RESET deadlock_timeout");
	return;
}

# It waits for the key, as one of so many.
sub waits ($session, $key, $sql)
{
	my $n = $node->count_locks("key = '$key' AND waiting_since IS NOT NULL");

	$session->start($sql);
	$node->wait_for_waiters($key, $n + 1);
	return;
}

sub ends ($session, $name)
{
	is($session->wait($soon)->error, undef, "$name: goes on");
	return;
}

# A writer waits for all who read: a cycle over the second of them is enough.
$one->query("SELECT redis_read_lock('k')");
$two->query("SELECT redis_read_lock('k')");
$four->query("SELECT redis_read_lock('k')");
$three->query("SELECT redis_lock('x')");
waits($three, 'k', "SELECT redis_write_lock('k')");
is_victim($two, "SELECT redis_lock('x')", 'one of three readers',
	[ $two, 'x', $three ], [ $three, 'k', $two ]);
ok($three->is_running, 'the writer waits for the readers');
$_->query_is("SELECT redis_read_unlock('k')", 't') foreach $one, $two, $four;
ends($three, 'the writer');
$three->query_is("SELECT redis_write_unlock('k'), redis_unlock('x')", 't|t');

# Several keys at once, against single ones in another order.
$one->query("SELECT redis_lock('c')");
$two->query("SELECT redis_lock('a')");
waits($two, 'c', "SELECT redis_multi_lock('{b,c}')");
is_victim($one, "SELECT redis_multi_lock('{a,b}')", 'several keys',
	[ $one, 'a', $two ], [ $two, 'c', $one ]);
$one->query_is("SELECT redis_unlock('c')", 't');
ends($two, 'the other one');
$two->query_is("SELECT redis_multi_unlock('{a,b,c}')", 't');

# Round over three kinds; who waits beside is left alone.
$one->query("SELECT redis_fair_lock('f')");
$two->query("SELECT redis_write_lock('w')");
$three->query("SELECT redis_multi_lock('{p,q}')");
waits($four, 'f', "SELECT redis_fair_lock('f')");
waits($two, 'f', "SELECT redis_fair_lock('f')");
waits($one, 'q', "SELECT redis_lock('q')");
is_victim($three, "SELECT redis_read_lock('w')", 'three kinds',
	[ $three, 'w', $two ], [ $two, 'f', $one ], [ $one, 'q', $three ]);
is((scalar grep { $_->is_running } $one, $two, $four), 3, 'nobody else ends');
$three->query_is("SELECT redis_multi_unlock('{p,q}')", 't');
ends($one, 'the one with the fair lock');
$one->query_is("SELECT redis_unlock('f'), redis_unlock('q')", 't|t');
ends($four, 'the one beside');
$four->query_is("SELECT redis_unlock('f')", 't');
ends($two, 'the writer');
$two->query_is("SELECT redis_unlock('f'), redis_write_unlock('w')", 't|t');
end_test($node, $redis);
