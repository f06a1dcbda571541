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

my @masters = map { LockRedis::Redis->new(name => $_) } 'a', 'b';
my ($a, $b) = @masters;
my @sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;
my $node;

sub all_name { $_->names(@_) foreach @sentinels; return; }

# A server that knows nothing yet of these Sentinels
sub begin
{
	my ($name, $master, @from) = @_;

	$node->stop if $node;
	$node = LockRedis::Node->create(
		$name,
		url => LockRedis::FalseSentinel::url_of(@from),
		settings => {
			'lockredis.connect_timeout' => '1s',
			'lockredis.command_timeout' => '1s',
			'lockredis.lease' => '3s'
		});
	wait_until_used($node, $master);
	return $node->session;
}

# Nobody is believed in for so long.
sub never_used
{
	my ($master, $seconds, $name) = @_;
	my $until = now() + $seconds;
	my $used = 0;

	while (now() < $until && !$used)
	{
		$used = is_used($node, $master);
		pause(0.2);
	}
	return ok(!$used, $name);
}

# Set up anew, one away: the present master is named all the same, and what comes next
# is followed by the new numbers.
{
	all_name($a, epoch => 7);
	my $s = begin('anew', $a, @sentinels);
	my (@two) = @sentinels[ 0, 1 ];

	$sentinels[2]->stop;
	$_->names($a, epoch => 0) foreach @two;

	# What the third one has said last counts for some seconds.
	pause(4);
	# The watchdog and all others have to connect again.
	$a->kill_clients('');
	wait_until_used($node, $a);
	$s->query_is("SELECT redis_lock('k'), redis_unlock('k')",
		'|t', 'set up anew, one away: the master is used');

	$_->names($b, epoch => 1) foreach @two;
	wait_until_used($node, $b);

	# Once more, and another master with it: not while the present one serves.
	$_->names($a, epoch => 0) foreach @two;
	never_used($a, 3, 'set up anew with another master: not while the present one serves');
	my $from = now();
	$b->stop;
	wait_until_used($node, $a);
	cmp_ok(now() - $from, '>', 9, 'set up anew with another master: when that has been away for long');
	$s->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'and then it is used');
	$b->start;
}

# Cut off since before the last failover: never believed, however many they are and
# however long nobody else is there.
{
	@sentinels = map { LockRedis::FalseSentinel->new } 1 .. 3;
	all_name($a, epoch => 5);
	my $s = begin('stale', $a, @sentinels);

	$sentinels[2]->names($b, epoch => 9);
	wait_until_used($node, $b);
	$sentinels[2]->stop;
	$b->stop;
	never_used($a, 14, 'two that are cut off: not believed');
	like($s->query("SELECT redis_try_lock('k')")->sqlstate,
		qr/^58/, 'two that are cut off: nobody is known');

	# Nor after another start of the watchdog
	$node->replace_watchdog;
	never_used($a, 12, 'two that are cut off: nor by another watchdog');
	$b->start;
}

$_->stop foreach @sentinels, $node;

# As ANEW_LIFE of src/store/redis/discovery.c, in seconds
my $life = 10;

# How long until two Sentinels that are set up anew are believed, when the master was
# lost before for longer than that?
sub time_to_learn
{
	my ($name, %how) = @_;
	my ($a, $b) = map { LockRedis::Redis->new(name => "$name $_") } 'a', 'b';
	my @sentinels = LockRedis::FalseSentinel->naming(($a => 7) x 3);
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

cmp_ok(time_to_learn('late'), '>', $life - 1, 'set up anew long after the loss');
cmp_ok(time_to_learn('late_stopped', stopped => 1),
	'>', $life - 1, 'the watchdog was stopped meanwhile');

done_testing();
