# Copyright (c) 2026, lockredis contributors

# Others get their turn while sessions of one server hand a hot key to each other
# without a pause (lockredis.max_handoffs).
# A thread of Redisson and a session of another server wait for the key, one at a
# time and both at once, and have it within a bound that is far above what it
# takes; the sessions that share the key go on as well.  What it took is shown by
# a verbose run.
# Proves G22.

use List::Util qw(max);
use LockRedis::Redisson;
use LockRedis::Test;

LockRedis::Redisson->need;

my $redis = LockRedis::Redis->new;
my %settings = (settings => { max_connections => 50 });
my $node = LockRedis::Node->create('main', redis => $redis, %settings);
my $far = LockRedis::Node->create('far', redis => $redis, %settings);
my $java = LockRedis::Redisson->new;
my $elsewhere = $far->session;

$java->connect('a', $redis);
$_->wait_for_up foreach $node, $far;

# Longest that a turn may take to come, in seconds, and how long they are
# counted.
my $bound = limit(20);
my $seconds = 1.2;

# The foreign waiters: one turn, seconds until it came.
my %turn_of = (
	'Redisson' => sub {
		my $since = now();

		$java->call('a.1', 'lock', 'hot', -1)->or_die;
		my $took = now() - $since;
		$java->call('a.1', 'unlock', 'hot')->or_die;
		return $took;
	},
	'another server' => sub {
		my $result = $elsewhere->query("SELECT redis_lock('hot')");

		die $result->{raw} if defined $result->error;
		$elsewhere->value("SELECT redis_unlock('hot')") eq 't' or die 'not held';
		return $result->ms / 1000;
	},
	'both' => sub {
		my $since = now();
		my $number = $java->send('a.1', 'lock', 'hot', -1);

		$elsewhere->start(
			"SELECT redis_lock('hot')\\; SELECT redis_unlock('hot')");
		$java->wait($number)->or_die;
		$java->call('a.1', 'unlock', 'hot')->or_die;
		my $result = $elsewhere->wait;
		die $result->{raw} if defined $result->error;
		return now() - $since;
	});

# Turns while the time lasts.  In the pause before each the others have the key
# to themselves.
sub turns ($who)
{
	my $until = now() + $seconds;
	my @took;

	do
	{
		pause(0.02);
		push @took, $turn_of{$who}->();
	} while now() < $until;
	return @took;
}

# [ max_handoffs, sessions ]
foreach my $case ([ 0, 8 ], [ 32, 16 ])
{
	my ($max, $count) = @$case;
	my $name = "max_handoffs $max, $count sessions";

	$node->set('lockredis.max_handoffs' => $max);
	my @sessions = map { $node->session } 1 .. $count;
	$_->start(
		q{DO $$ BEGIN LOOP
		PERFORM redis_lock('hot'); PERFORM redis_unlock('hot');
		END LOOP; END $$}) foreach @sessions;
	poll_until(
		'the sessions to share the key',
		sub {
			$node->value(
				q{SELECT count(DISTINCT pid) FROM redis_locks WHERE key = 'hot'})
			  >= $count - 1;
		});

	foreach my $who ('Redisson', 'another server', 'both')
	{
		my ($acquires, $handoffs) = map { $node->lock_stat($_) } 'acquires', 'handoffs';
		my @took = turns($who);

		cmp_ok(max(@took), '<', $bound, "$name: $who gets its turn");
		$acquires = $node->lock_stat('acquires') - $acquires;
		$handoffs = $node->lock_stat('handoffs') - $handoffs;
		cmp_ok($acquires, '>', 0, "$name: $who: the others go on");

		cmp_ok($handoffs, $max == 0 ? '==' : '>', 0,
			"$name: $who: "
			  . ($max == 0 ? 'without a hand-over' : 'hand-overs in between'));
		note sprintf '%s: %s: %d turns, at most %.1f ms, %d acquires, %d handed over', $name, $who,
		  scalar @took, max(@took) * 1000, $acquires, $handoffs;
	}
	$_->cancel foreach @sessions;
	foreach my $s (@sessions)
	{
		die "not cancelled" if $s->wait(limit(20))->sqlstate ne '57014';
		$s->quit;
	}
	is($node->lock_stat('losses'), 0, "$name: no lock was lost");
}

$elsewhere->quit;
$java->shutdown('a');
$java->stop;
end_test([ $node, $far ], $redis);
