# Copyright (c) 2026, lockredis contributors

# Sentinels that were set up anew, and have lower numbers of failovers than were known,
# while one of them is away; that must not be taken for Sentinels that were cut off and
# name a former master.  And Sentinels that are set up anew long after the master was lost,
# which name the first master of all until they learn better: they have the same time to learn
# as others, which counts neither from the loss of the master nor while the watchdog is stopped.
#
# All Sentinels are false ones, so that each says what it is to say, when it is to.
# Proves G38.

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

# As ANEW_LIFE of src/store/redis/discovery.c, in seconds
my $life = 10;

# A server with masters of its own, of which all Sentinels name the first by that number
sub begin ($name, $epoch)
{
	my ($a, $b) = map { LockRedis::Redis->new(name => "$name $_") } 'a', 'b';
	my @sentinels = LockRedis::FalseSentinel->naming(($a => $epoch) x 3);
	my $node = LockRedis::Node->create(
		$name,
		url => LockRedis::FalseSentinel::url_of(@sentinels),
		settings => { 'lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '1s' });

	wait_until_used($node, $a);
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	return ($node, $a, $b, @sentinels);
}

# Set up anew long after the loss: for these the first half of that comes before all else.
my @late = map { [ begin($_, 7) ] } 'late', 'late_stopped';

$_->[1]->stop foreach @late;
pause(1);
kill 'STOP', my $watchdog = $late[1][0]->watchdog_pid;
my $lost_at = now();

# Set up anew, one away: the present master is named all the same, and what comes next
# is followed by the new numbers.
{
	my ($node, $a, $b, @sentinels) = begin('anew', 7);
	my $s = $node->session;
	my (@two) = @sentinels[ 0, 1 ];

	$sentinels[2]->stop;
	$_->names($a, epoch => 0) foreach @two;

	# What the third one has said last counts for some seconds.
	pause(4);
	# The watchdog and all others have to connect again.
	$a->kill_clients('');
	wait_until_used($node, $a);
	serves($s, 'set up anew, one away: the master is used');

	$_->names($b, epoch => 1) foreach @two;
	wait_until_used($node, $b);
	# Each of both, or it has no lower number next.
	LockRedis::FalseSentinel::wait_until_heard(@two);

	# Once more, and another master with it: not while the present one serves.
	$_->names($a, epoch => 0) foreach @two;
	never_used($node, $a, 3, 'set up anew with another master: not while the present one serves');
	my $from = now();
	$b->stop;
	wait_until_used($node, $a);
	cmp_ok(now() - $from, '>', $life - 1, 'set up anew with another master: when that has been away for long');
	serves($s, 'and then it is used');
}

# How long until two Sentinels that are set up anew are believed, when the master was
# lost before for longer than that?
poll_until('the master to have been away for long', sub { now() - $lost_at > $life + 1 });
$_->[5]->stop foreach @late;
my %from;
foreach (@late)
{
	my ($node, undef, $b, @two) = @$_[ 0 .. 4 ];

	$from{ $node->name } = now();
	$_->names($b, epoch => 0) foreach @two;
}
kill 'CONT', $watchdog;

# Meanwhile: cut off since before the last failover.  Never believed, however many they are and
# however long nobody else is there.
my ($stale, $former, $last, @cut_off) = begin('stale', 5);

$cut_off[2]->names($last, epoch => 9);
wait_until_used($stale, $last);
$cut_off[2]->stop;
$last->stop;
foreach (@late)
{
	my ($node, undef, $b) = @$_;

	wait_until_used($node, $b);
	cmp_ok(now() - $from{ $node->name }, '>', $life - 1, $node->name . ': believed when they had the time to learn');
}
never_used($stale, $former, $life + 2, 'two that are cut off: not believed');
like($stale->session->query("SELECT redis_try_lock('k')")->sqlstate,
	qr/^58/, 'two that are cut off: nobody is known');

# Nor after another start of the watchdog
$stale->replace_watchdog;
never_used($stale, $former, $life + 2, 'two that are cut off: nor by another watchdog');

done_testing();
