# Copyright (c) 2026, lockredis contributors

# Whom to believe when what is named by the highest number does not show up: after 3 s who
# is named by most Sentinels and says itself that it is a master, through a reload and
# another watchdog as well; until the one with the highest number says so, too.
#
# All Sentinels are false ones.
# Proves G38.

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my ($a, $b, $nobody) = map { LockRedis::Redis->new(name => $_) } 'a', 'b', 'nobody';
my $proxy = LockRedis::Proxy->new($b);
my $largest = '9223372036854775806';

$nobody->stop;

# A server, three Sentinels that name a by 5, and what it says of itself
sub begin
{
	my ($name) = @_;
	my @sentinels = LockRedis::FalseSentinel->naming(($a => 5) x 3);
	my $node = LockRedis::Node->create(
		$name,
		url => LockRedis::FalseSentinel::url_of(@sentinels),
		settings => { 'lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '1s' });
	wait_until_used($node, $a);
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	return ($node, @sentinels);
}

sub failovers { my ($node) = @_; return $node->lock_stat('failovers'); }

# Another one than that is never used for so long.
sub stays
{
	my ($node, $redis, $seconds, $name) = @_;
	my $before = failovers($node);

	pause($seconds);
	is(failovers($node), $before, "$name: stays");
	wait_until_used($node, $redis);
	return is(failovers($node), $before, "$name: is used");
}

# Who sees to it begins anew: by a reload of what connections are made by, or as another
# process.
sub begin_anew
{
	my ($node, $how, $seconds) = @_;

	if ($how eq 'reload')
	{
		$node->set('lockredis.tls_server_name' => "of_no_use_without_tls_$seconds");
	}
	else
	{
		$node->replace_watchdog;
	}
	return;
}

sub finish
{
	my ($node, @sentinels) = @_;

	$_->stop foreach @sentinels;
	$node->stop;
	return;
}

# One names a node that is not there, once, and is gone.  The others name the healthy one.
foreach my $how ('nothing else happens', 'reload', 'restart')
{
	my ($node, @sentinels) = begin('once_' . substr $how, 0, 3);
	my $before = failovers($node);

	$sentinels[2]->names($nobody, epoch => $largest);
	poll_until('the lie to be believed', sub { failovers($node) > $before });
	$sentinels[2]->stop;
	begin_anew($node, $how, 2) unless $how =~ /nothing/;
	wait_until_used($node, $a);
	serves($node, "named once by a number without end, $how: passed over");
	finish($node, @sentinels);
}

# It goes on to do so.
{
	my ($node, @sentinels) = begin('goes_on');
	my $before = failovers($node);

	$sentinels[2]->names($nobody, epoch => 99);
	poll_until('the lie to be believed', sub { failovers($node) > $before });
	wait_until_used($node, $a);
	stays($node, $a, 4, 'a liar that goes on');
	foreach my $how ('reload', 'restart')
	{
		begin_anew($node, $how, 3);
		wait_until_used($node, $a);
		stays($node, $a, 4, "a liar that goes on, $how");
	}
	is(failovers($node), $before + 2, 'a liar that goes on is believed once');

	# Failovers of the others are followed.
	$sentinels[0]->names($b, epoch => 6);
	wait_until_used($node, $b);
	serves($node, 'a liar that goes on: what the others do is followed');
	finish($node, @sentinels);
}

# The healthy one is named by a number that is none.  When it is gone the others make
# another one the master, by the next number of theirs.
foreach my $goes_on (0, 1)
{
	my ($node, @sentinels) = begin("number_$goes_on");

	$sentinels[2]->names($a, epoch => $largest);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	$sentinels[2]->stop unless $goes_on;
	begin_anew($node, 'reload', 2);
	wait_until_used($node, $a);
	LockRedis::FalseSentinel::wait_until_heard(@sentinels[ 0, 1 ]);
	$a->stop;
	$_->names($b, epoch => 6) foreach @sentinels[ 0, 1 ];
	wait_until_used($node, $b);
	serves($node, 'the right one by a wrong number: the next failover is followed');
	begin_anew($node, 'reload', 3);
	wait_until_used($node, $b);
	serves($node, 'the right one by a wrong number: after a reload');

	# It says that it is a master when it is back.
	$a->start;
	stays($node, $b, 4, 'the right one by a wrong number, back');
	finish($node, @sentinels);
}

# A failover that is one, told by one Sentinel only: the new master is heard of late, the
# former one lives on and is named by most.
{
	my ($node, @sentinels) = begin('slow');
	my $before = failovers($node);

	$proxy->mode('silent');
	$sentinels[2]->names($proxy, epoch => 6);
	poll_until('the former one to be left', sub { failovers($node) > $before });
	wait_until_used($node, $a);
	serves($node, 'a new master that is not heard of, and most name the former one: that is used');
	$proxy->mode('pass');
	$proxy->reset_all;
	wait_until_used($node, $proxy);
	serves($node, 'a new master: when it says that it is one');
	stays($node, $proxy, 4, 'a new master that has said so');
	begin_anew($node, 'reload', 2);
	wait_until_used($node, $proxy);

	# It is gone, and those that have not heard of it name the former one.
	$proxy->mode('refuse');
	$proxy->reset_all;
	poll_until('the new master to be missed', sub { !is_used($node, $proxy) });
	$before = failovers($node);
	pause(6);
	is(failovers($node), $before, 'one that has said so is not given up for a former one');
	$proxy->mode('pass');
	wait_until_used($node, $proxy);
	finish($node, @sentinels);
}

# The same, and most tell of it, or the former one does not say that it is a master
foreach my $what ('most', 'dead')
{
	my ($node, @sentinels) = begin($what);
	my $before = failovers($node);

	$proxy->mode('silent');
	$a->stop if $what eq 'dead';
	$sentinels[2]->names($proxy, epoch => 6);
	$sentinels[1]->names($proxy, epoch => 6) if $what eq 'most';
	poll_until('the former one to be left', sub { failovers($node) > $before });
	pause(6);
	is(failovers($node), $before + 1, "$what: the former one is not used again");
	$proxy->mode('pass');
	$proxy->reset_all;
	wait_until_used($node, $proxy);
	serves($node, "$what: the new one when it says so");
	is(failovers($node), $before + 1, "$what: one failover");
	$a->start if $what eq 'dead';
	finish($node, @sentinels);
}

done_testing();
