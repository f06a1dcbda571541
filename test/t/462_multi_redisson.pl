# Copyright (c) 2026, lockredis contributors

# The real Redisson's RedissonMultiLock and calls of ours for overlapping sets of keys:
# counters that are written under them, and who waits for whom.
# Proves G1, G21.

use strict;
use warnings FATAL => 'all';

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Wait qw(limit);
use POSIX ();

LockRedis::Redisson->need;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);
my $java = LockRedis::Redisson->new;

$java->connect('a', $redis);
$node->wait_for_up;

my $one = $node->session;

#
# Each pair of three keys, on both sides: a counter for all of them, which two of them
# together protect from everybody.
#
{
	my $steps = 15;
	my @sets = ([ 'x', 'y' ], [ 'z', 'y' ], [ 'x', 'z' ]);
	my %children;

	$redis->cmd('SET', 'counter', 0);
	foreach my $n (0 .. 2)
	{
		my $pid = fork();
		die "could not fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			eval { count_up($sets[$n], $steps); 1 } or print STDERR "session $n: $@";
			POSIX::_exit($@ ? 1 : 0);
		}
		$children{$pid} = $n;
	}
	my @threads = map {
		$java->send("a.$_", 'multi.counter', join(',', @{ $sets[$_] }), 'counter', $steps,
			"$PostgreSQL::Test::Utils::log_path/462.history")
	} 0 .. 2;
	ok(!$java->wait($_, 300)->error, 'a thread of Redisson') foreach @threads;
	foreach my $pid (sort { $a <=> $b } keys %children)
	{
		poll_until("session $children{$pid} to end",
			sub { waitpid($pid, POSIX::WNOHANG()) == $pid }, 300);
		is($?, 0, "session $children{$pid}");
	}
	is($redis->cmd('GET', 'counter'), 6 * $steps, 'no update is lost');
	is($redis->cmd('EXISTS', 'x', 'y', 'z'), 0, 'nothing is left of the locks');
	$redis->cmd('DEL', 'counter');
}

sub count_up
{
	my ($set, $steps) = @_;

	Test::More->builder->output('/dev/null');
	my $session = $node->session;
	my $conn = $redis->connection;
	my $keys = 'ARRAY[' . join(',', map { quoted($_) } @$set) . ']';

	foreach (1 .. $steps)
	{
		$session->value("SELECT redis_multi_lock($keys)");
		$conn->call('SET', 'counter', $conn->call('GET', 'counter') + 1);
		die 'lost' if $session->value("SELECT redis_multi_unlock($keys)") ne 't';
	}
	$session->quit;
	return;
}

#
# What each sees of the other.
#
$one->query_is("SELECT redis_multi_lock(ARRAY['k', 'l'])", '', 'ours');
is($java->value('a.1', 'multi.tryLock', 'm,l', 0, -1), 'false', 'Redisson gets none of it');
is($redis->cmd('EXISTS', 'm'), 0, 'and keeps none');
is($java->value('a.1', 'multi.tryLock', 'm,n', 0, -1), 'true', 'but others');
$one->query_is("SELECT redis_try_multi_lock(ARRAY['n', 'o'])", 'f', 'which we do not get');
$one->start("SELECT redis_multi_lock(ARRAY['n', 'o'])");
$node->wait_for_waiters('n', 1);
$java->call('a.1', 'multi.unlock', 'm,n')->or_die;
is($one->wait(limit(20))->error, undef, 'until Redisson gives them back');
my $waits = $java->send('a.1', 'multi.lock', 'o,l', -1);
$redis->wait_for_subscribers('o', 1);
$one->query_is("SELECT redis_multi_unlock(ARRAY['k', 'l', 'n', 'o'])", 't', 'given back');
ok(!$java->wait($waits, 60)->error, 'Redisson has waited for that');
$java->call('a.1', 'multi.unlock', 'o,l')->or_die;

$one->quit;
$java->shutdown('a');
$java->stop;
nothing_left($node, $redis, keys => qr/unlock_latch/);
done_testing();
