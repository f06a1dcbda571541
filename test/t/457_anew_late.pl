# Copyright (c) 2026, lockredis contributors

# Sentinels that are set up anew long after the master was lost name the first master of
# all until they learn better.  They have the same time to learn as others: it counts
# neither from the loss of the master nor while the watchdog is stopped.
# Proves G38.

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

# As ANEW_LIFE of src/store/redis/discovery.c, in seconds
my $life = 10;

# How long until two Sentinels that are set up anew are believed, when the master was
# lost before for longer than that?
sub time_to_learn
{
	my ($name, %how) = @_;
	my ($a, $b) = map { LockRedis::Redis->new(name => "$name $_") } 'a', 'b';
	my @sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;

	$_->names($a, epoch => 7) foreach @sentinels;
	my $node = LockRedis::Node->create($name,
		url => LockRedis::FalseSentinel::url_of(@sentinels));
	wait_until_used($node, $a);
	pause(2);

	my $watchdog = $node->watchdog_pid;
	$a->stop;
	pause(1);
	kill 'STOP', $watchdog if $how{stopped};
	pause($life + 1);
	$sentinels[2]->stop;
	my $from = now();
	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	kill 'CONT', $watchdog if $how{stopped};
	wait_until_used($node, $b);
	return now() - $from;
}

cmp_ok(time_to_learn('anew'), '>', $life - 1, 'set up anew long after the loss');
cmp_ok(time_to_learn('stopped', stopped => 1),
	'>', $life - 1, 'the watchdog was stopped meanwhile');

done_testing();
