# Copyright (c) 2026, lockredis contributors

# Which numbers of failovers count when Sentinels begin to count anew: those of all
# together at once; and from then on those of who began anew, but not that of one that was
# cut off before, and tells of an old failover for as long as it likes.
#
# All Sentinels are false ones.
# Proves G38.

use strict;
use warnings FATAL => 'all';

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my ($a, $b, $c) = map { LockRedis::Redis->new(name => $_) } 'a', 'b', 'c';

sub begin
{
	my ($name, $master, @from) = @_;
	my $node = LockRedis::Node->create($name, url => LockRedis::FalseSentinel::url_of(@from));

	wait_until_used($node, $master);
	$node->log_since_here;
	return $node;
}

sub wait_until_numbered_anew
{
	my ($node) = @_;

	return poll_until('numbers to begin anew', sub { $node->logged(qr/number their failovers anew/) });
}

sub works
{
	my ($node, $name) = @_;

	return $node->session->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', $name);
}

# All configured ones have a lower number, which most of them have never passed.
{
	my @sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;

	$_->names($a, epoch => 5) foreach @sentinels[ 0, 1 ];
	$sentinels[2]->names($b, epoch => 9);
	my $node = begin('all', $b, @sentinels);

	$sentinels[2]->names($a, epoch => 5);
	wait_until_used($node, $a);
	works($node, 'all name another one, by a lower number: believed');
	$sentinels[1]->names($b, epoch => 6);
	wait_until_used($node, $b);
	works($node, 'and what one of them tells next');
	$_->stop foreach @sentinels;
	$node->stop;
}

# The third one was cut off when a was the master, by failover 5.  The others are at 9,
# and are set up anew, with the same master:
#
#   first, second   b by 9, then b by 0
#   watchdog        the number that it knows is 0
#   third           a by 5, as ever
#
# which is a later one than 0, and an earlier one than 9.
{
	my @sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;
	my @two = @sentinels[ 0, 1 ];

	$_->names($b, epoch => 9) foreach @two;
	$sentinels[2]->names($a, epoch => 5);
	my $node = begin('cut_off', $b, @sentinels);
	my $before = $node->lock_stat('failovers');

	$_->names($b, epoch => 0) foreach @two;
	wait_until_numbered_anew($node);

	# Their next one is one by one; had the third been believed it would be passed by.
	$two[0]->names($c, epoch => 1);
	wait_until_used($node, $c);
	works($node, 'one is cut off: the next failover of the others is followed');
	is($node->lock_stat('failovers') - $before, 1, 'one is cut off: it is not believed');

	# Another watchdog knows it as well.
	$two[1]->names($c, epoch => 1);
	my $watchdog = $node->watchdog_pid;
	kill 'TERM', $watchdog;
	poll_until('another watchdog', sub { ($node->watchdog_pid // $watchdog) != $watchdog });
	wait_until_used($node, $c);
	$two[0]->names($b, epoch => 2);
	wait_until_used($node, $b);
	is($node->lock_stat('failovers') - $before, 2, 'one is cut off: nor by another watchdog');

	# It meets the others: either they learn from it, or it from them.
	$two[1]->names($a, epoch => 5);
	wait_until_used($node, $a);
	works($node, 'others have learned from it: followed');
	$sentinels[2]->names($c, epoch => 6);
	wait_until_used($node, $c);
	works($node, 'and it counts as they do from then on');

	$_->stop foreach @sentinels;
	$node->stop;
}

# One that has a later number than all that were known when the others began anew
{
	my @sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;

	$_->names($b, epoch => 9) foreach @sentinels[ 0, 1 ];
	$sentinels[2]->names($a, epoch => 5);
	my $node = begin('later', $b, @sentinels);

	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	$sentinels[2]->names($a, epoch => 10);
	wait_until_used($node, $a);
	works($node, 'one tells a later failover than was known before: followed');
	$_->stop foreach @sentinels;
	$node->stop;
}

done_testing();
