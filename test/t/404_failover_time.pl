# Copyright (c) 2026, lockredis contributors

# How long after the death of the master the next lock is granted, here and by
# Redisson in the same rounds.  For figures rather than for a proof: what it asserts
# is that both get their lock, and that it is not the lease that they wait for.
# LOCKREDIS_FAILOVER_ROUNDS: how many rounds (2).

use strict;
use warnings FATAL => 'all';

use LockRedis::Redisson;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Wait qw(limit now_ns);

LockRedis::Redisson->need;

my $rounds = $ENV{LOCKREDIS_FAILOVER_ROUNDS} || 2;
my $ha = LockRedis::Sentinels->new(down_after => limit(1500));
# Nobody waits for so long, and the end of the lease would be no news then.
my $node = LockRedis::Node->create('main', redis => $ha, settings => { 'lockredis.lease' => '20min' });
my $java = LockRedis::Redisson->new;
my $s = $node->session;
my (@ours, @theirs, @named);

$java->connect('a', $ha);
$node->wait_for_up;

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

foreach my $round (1 .. $rounds)
{
	my ($mine, $hers) = ("ours $round", "theirs $round");
	my ($ours, $theirs, $named, $thread);
	my $old = $ha->master;

	$s->query_is("SELECT redis_try_lock('$mine'), redis_unlock('$mine')", 't|t', 'before');
	is($java->value("a.$round", 'tryLock', $hers, 0, -1), 'true', 'Redisson before');
	$java->value("a.$round", 'unlock', $hers);

	my $death = now_ns();
	$old->kill9;
	$s->start("SELECT redis_lock('$mine')");
	$thread = $java->send("a.$round", 'lock', $hers, -1);
	poll_until(
		'both to have a lock',
		sub {
			# Whoever is told that there is nobody asks again.
			if (!$ours && !$s->is_running)
			{
				my $result = $s->wait;
				$ours = now_ns() unless $result->error;
				$s->start("SELECT redis_lock('$mine')") if $result->error;
			}
			if (!$theirs && $java->is_done($thread))
			{
				my $result = $java->wait($thread);
				$theirs = $result->ns unless $result->error;
				$thread = $java->send("a.$round", 'lock', $hers, -1) if $result->error;
			}
			$named ||= now_ns()
			  if grep { ($_->named || '') ne $old->address } $ha->sentinels;
			return $ours && $theirs;
		},
		240);
	push @ours, ($ours - $death) / 1e9;
	push @theirs, ($theirs - $death) / 1e9;
	push @named, ($named - $death) / 1e9;
	note sprintf 'round %d: a Sentinel names the new master after %.2f s, '
	  . 'a lock here after %.2f s, of Redisson after %.2f s',
	  $round, $named[-1], $ours[-1], $theirs[-1];
	$s->query_is("SELECT redis_unlock('$mine')", 't', 'unlocked');
	$java->call("a.$round", 'unlock', $hers);
	$old->start;
	$ha->wait_until_steady;
}
note sprintf 'median of %d: named after %.2f s, here %.2f s, Redisson %.2f s (%.2f times)',
  $rounds, median(@named), median(@ours), median(@theirs), median(@theirs) / median(@ours);
cmp_ok(median(@ours), '<', 1200, 'not the lease');

$java->stop;
nothing_left($node, $ha, keys => qr/^(?:theirs|redisson_unlock_latch:)/);
done_testing();
