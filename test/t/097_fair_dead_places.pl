# Copyright (c) 2026, lockredis contributors

# Fair locks beside Redisson: a place of a server that has crashed counts for wait_lease, by
# Redisson's scores too, however many of Redisson's clients stand behind it; and lockredis
# knows that it is dead for as long as it has a score.
# Proves G41.

use LockRedis::Test;
use LockRedis::Topic::Fair;

# What Redisson's client waits for at most, if it says nothing else (ms)
my $patience = 300_000;

# tryLockInnerAsync of RedissonFairLock, with its keys and arguments
my $acquire = q{
	while true do
		local firstThreadId2 = redis.call('lindex', KEYS[2], 0)
		if firstThreadId2 == false then
			break
		end
		local timeout = redis.call('zscore', KEYS[3], firstThreadId2)
		if timeout ~= false and tonumber(timeout) <= tonumber(ARGV[4]) then
			redis.call('zrem', KEYS[3], firstThreadId2)
			redis.call('lpop', KEYS[2])
		else
			break
		end
	end
	if redis.call('exists', KEYS[1]) == 0
		and (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == ARGV[2]) then
		redis.call('lpop', KEYS[2])
		redis.call('zrem', KEYS[3], ARGV[2])
		for i, member in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
			redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), member)
		end
		redis.call('hset', KEYS[1], ARGV[2], 1)
		redis.call('pexpire', KEYS[1], ARGV[1])
		return nil
	end
	if redis.call('zscore', KEYS[3], ARGV[2]) ~= false then
		return math.max(0, redis.call('pttl', KEYS[1]))
	end
	local lastThreadId = redis.call('lindex', KEYS[2], -1)
	local ttl
	if lastThreadId ~= false and lastThreadId ~= ARGV[2]
		and redis.call('zscore', KEYS[3], lastThreadId) ~= false then
		ttl = tonumber(redis.call('zscore', KEYS[3], lastThreadId)) - tonumber(ARGV[4])
	else
		ttl = redis.call('pttl', KEYS[1])
	end
	if redis.call('zadd', KEYS[3], ttl + tonumber(ARGV[3]) + tonumber(ARGV[4]), ARGV[2]) == 1 then
		redis.call('rpush', KEYS[2], ARGV[2])
	end
	return ttl};

start_servers();

sub now_ms
{
	my ($seconds, $us) = @{ $redis->cmd('TIME') };

	return $seconds * 1000 + int($us / 1000);
}

# A thread of Redisson asks; undef: it has the lock
sub redisson_asks ($key, $owner)
{
	return $redis->cmd('EVAL', $acquire, 3, $key, "redisson_lock_queue:{$key}",
		"redisson_lock_timeout:{$key}", 30_000, $owner, $patience, now_ms());
}

# By how much its score is higher than its end; read at once, as it may be renewed at any time.
sub higher_by ($key, $place)
{
	return $redis->cmd('EVAL',
		q{return redis.call('ZSCORE', KEYS[1], ARGV[1]) - redis.call('ZSCORE', KEYS[2], ARGV[1])},
		2, "redisson_lock_timeout:{$key}", "lockredis_places:{$key}", $place);
}

# For how much longer than it has a score it is known that it is ours
sub known_beyond_score ($key, $place)
{
	return $redis->cmd('EVAL', q{
		local time = redis.call('TIME')
		local now = time[1] * 1000 + math.floor(time[2] / 1000)
		return redis.call('PTTL', KEYS[2]) - (redis.call('ZSCORE', KEYS[1], ARGV[1]) - now)},
		2, "redisson_lock_timeout:{$key}", "lockredis_places:{$key}", $place);
}

sub ends { return $redis->cmd('ZSCORE', "lockredis_places:{$_[0]}", $_[1]); }

# The place is renewed once more.
sub renewed ($key, $place)
{
	my $before = ends($key, $place);

	return poll_until('it is renewed', sub { (ends($key, $place) // 0) > $before });
}

sub mortal_session
{
	return $far->session(settings => { 'lockredis.wait_lease' => limit(10) . 's' });
}

sub crash_of_far ($session)
{
	$session->kill9;
	poll_until('the crashed server', sub { eval { $far->value('SELECT 1') } }, 60);
	$far->wait_for_up;
	return;
}

my $holder = patient_session($near);

#
# In front of Redisson's
#
{
	my $dead = mortal_session();

	$holder->query("SELECT redis_fair_lock('a')");
	my $place = wait_fairly($dead, 'a');
	redisson_asks('a', "redisson:$_") foreach 1 .. 3;
	is(scalar queue('a'), 4, 'three of Redisson stand behind');
	renewed('a', $place);
	is(higher_by('a', $place), 0, 'it counts for no longer by its score');
	crash_of_far($dead);
	$holder->query_is("SELECT redis_unlock('a')", 't', 'given back');
	poll_until('Redisson to have it', sub { !defined redisson_asks('a', 'redisson:1') }, limit(60));
	is($redis->owner_of('a'), 'redisson:1', 'the first behind the dead one has it');
	$redis->cmd('DEL', map { "$_:{a}" } qw(redisson_lock_queue redisson_lock_timeout));
	$redis->cmd('DEL', 'a', 'lockredis_places:{a}');
}

#
# Behind one of Redisson's, who takes his time from all scores when he has the lock: it is
# higher by that.
#
{
	my $dead = mortal_session();

	$holder->query("SELECT redis_fair_lock('b')");
	redisson_asks('b', 'redisson:1');
	my $place = wait_fairly($dead, 'b');
	redisson_asks('b', 'redisson:2');
	foreach my $when ('at first', 'later')
	{
		is(higher_by('b', $place), $patience, "$when: higher by his time");
		renewed('b', $place);
	}
	crash_of_far($dead);

	# He has died, too, which takes nothing from the others.
	$redis->cmd('LREM', 'redisson_lock_queue:{b}', 0, $_), $redis->cmd('ZREM', 'redisson_lock_timeout:{b}', $_)
	  foreach 'redisson:1', 'redisson:2';
	cmp_ok(known_beyond_score('b', $place), '>=', -1000,
		'that it is dead is known for as long as it has a score');
	$holder->query_is("SELECT redis_unlock('b')", 't', 'given back');
	poll_until('its end', sub { (ends('b', $place) // 0) < now_ms() });
	$holder->query_is("SELECT redis_try_fair_lock('b')", 't', 'it is in nobody\'s way then');
	$holder->query_is("SELECT redis_unlock('b')", 't', 'given back');
	is(join(' ', grep { /\{b\}/ } $redis->all_keys), '', 'and nothing is left of it');
}

#
# When he has it, it counts as long as before, and who is gone from before it counts no more.
#
{
	my $session = patient_session($near);

	$holder->query("SELECT redis_fair_lock('c')");
	redisson_asks('c', "redisson:$_") foreach 1, 2;
	my $place = wait_fairly($session, 'c');
	is(higher_by('c', $place), 2 * $patience, 'two stand before it');
	$holder->query_is("SELECT redis_unlock('c')", 't', 'given back');
	is(redisson_asks('c', 'redisson:1'), undef, 'the first has it');
	is(higher_by('c', $place), $patience, 'one');
	$redis->cmd('DEL', 'c');
	is(redisson_asks('c', 'redisson:2'), undef, 'the second');
	is(higher_by('c', $place), 0, 'none');
	is(join(' ', queue('c')), $place, 'and it keeps its place');
	$redis->cmd('DEL', 'c');
	$redis->cmd('PUBLISH', "redisson_lock__channel:{c}:$place", '0');
	gets_it($session, 'c', 'notified');
	$session->quit;
}

end_test([ $near, $far ], $redis);
