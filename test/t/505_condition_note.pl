# Copyright (c) 2026, lockredis contributors

# Conditions: that somebody was told is noted for as long as anybody is known to wait,
# whatever lockredis.wait_lease who tells it has, and who was told: it is the next one's
# when a server has crashed with him.
# Proves G44.

use LockRedis::Test;
use LockRedis::Topic::Condition;

start_servers();

my $far_other = $far->session;
my $notifier = $near->session(settings => { 'lockredis.wait_lease' => '1s' });

sub of_wait_lease
{
	my ($node, $seconds) = @_;

	return $node->session(
		settings => { 'lockredis.wait_lease' => "${seconds}s", 'lockredis.lease' => '1h' });
}

# How long each of these keys lives, asked at once: both are made longer meanwhile.
sub lives
{
	my ($key, @what) = @_;

	return @{ $redis->cmd('EVAL',
		q{local t = {} for i, k in ipairs(KEYS) do t[i] = redis.call('PTTL', k) end return t},
		scalar @what, map { condition_key($_, $key) } @what) };
}

# Nobody reads the clock of Redis twice at once.
sub lives_as_long
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	my ($told, $alive) = lives($key, 'told', 'alive');

	return cmp_ok($told, '>', $alive - limit(2) * 1000, $name);
}

# Who was told crashes with his server; the next one asks.
{
	my $dead = of_wait_lease($far, limit(12));
	my $next = of_wait_lease($near, limit(15));

	foreach my $session ($dead, $next)
	{
		$session->query("SELECT redis_lock('a')");
		await($session, 'a');
	}
	my ($first) = waiting('a');
	$far_other->kill9;
	$notifier->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')",
		'|1|t', 'one that has crashed is told');
	ok(defined $redis->cmd('ZSCORE', condition_key('told', 'a'), $first), 'it is noted');
	lives_as_long('a', 'for as long as the other one waits');
	ok($next->is_running, 'the other one waits');
	is(told($next), 't', 'and is told when the dead one does not count any more');
	$next->query_is("SELECT redis_unlock('a')", 't', 'it has the lock');
	$next->quit;
}
poll_until('the crashed server', sub { eval { $far->value('SELECT 1') } }, 60);
$far->wait_for_up;

# Who was told waits for the lock, and is known for less long than who waits behind.
{
	my $told = of_wait_lease($near, limit(8));
	my $next = of_wait_lease($near, limit(24));

	foreach my $session ($told, $next)
	{
		$session->query("SELECT redis_lock('b')");
		await($session, 'b');
	}
	$notifier->query_is("SELECT redis_lock('b'), redis_condition_notify('b')", '|1', 'one is told');
	lives_as_long('b', 'as long as the one behind');
	$redis->cmd('PEXPIRE', condition_key($_, 'b'), limit(28) * 1000) foreach 'told', 'alive';
	poll_until('it asks again', sub { (lives('b', 'alive'))[0] > limit(32) * 1000 });
	lives_as_long('b', 'as long as the one that has asked again');
	$notifier->query_is("SELECT redis_unlock('b')", 't', 'given back');
	is(told($told), 't', 'it has it');
	$told->query_is("SELECT redis_condition_notify('b'), redis_unlock('b')", '1|t', 'tells the next');
	is(told($next), 't', 'which has it');
	$next->query_is("SELECT redis_unlock('b')", 't', 'given back');
	$_->quit foreach $told, $next;
}

end_test([ $near, $far ], $redis);
