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
my $reloads = 0;

$nobody->stop;

my $node = LockRedis::Node->create(
	'main',
	url => 'redis-sentinel://127.0.0.1:1/svc',
	settings => { 'lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '1s' });
my (@sentinels, $before);

# Three Sentinels that name a by 5
sub begin
{
	my @former = @sentinels;

	@sentinels = LockRedis::FalseSentinel->naming(($a => 5) x 3);
	follow($node, $a, @sentinels);
	$_->stop foreach @former;
	$before = failovers();
	return;
}

sub failovers { return $node->lock_stat('failovers'); }

# Another one than that is never used for so long.
sub stays ($redis, $name)
{
	my $first = failovers();

	pause(4);
	is(failovers(), $first, "$name: stays");
	wait_until_used($node, $redis);
	return is(failovers(), $first, "$name: is used");
}

# Who sees to it begins anew, by a reload of what connections are made by.
sub begin_anew ($redis)
{
	$node->set('lockredis.tls_server_name' => 'of_no_use_without_tls_' . ++$reloads);
	return wait_until_used($node, $redis);
}

# One names a node that is not there, and goes on to do so.  The others name the healthy one.
{
	begin();
	$sentinels[2]->names($nobody, epoch => 99);
	poll_until('the lie to be believed', sub { failovers() > $before });
	wait_until_used($node, $a);
	stays($a, 'a liar that goes on');
	$node->replace_watchdog;
	wait_until_used($node, $a);
	begin_anew($a);
	stays($a, 'a liar that goes on, anew');
	is(failovers(), $before + 2, 'a liar that goes on is believed once');

	# Failovers of the others are followed.
	$sentinels[0]->names($b, epoch => 6);
	wait_until_used($node, $b);
	serves($node, 'a liar that goes on: what the others do is followed');
}

# The healthy one is named by a number that is none.  When it is gone the others make
# another one the master, by the next number of theirs.
foreach my $goes_on (0, 1)
{
	begin();
	$sentinels[2]->names($a, epoch => $largest);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	$sentinels[2]->stop unless $goes_on;
	begin_anew($a);
	LockRedis::FalseSentinel::wait_until_heard(@sentinels[ 0, 1 ]);
	$a->stop;
	$_->names($b, epoch => 6) foreach @sentinels[ 0, 1 ];
	wait_until_used($node, $b);
	serves($node, 'the right one by a wrong number: the next failover is followed');
	begin_anew($b);
	serves($node, 'the right one by a wrong number: after a reload');

	# It says that it is a master when it is back.
	$a->start;
	stays($b, 'the right one by a wrong number, back');
}

# A failover that is one, told by one Sentinel only: the new master is heard of late, the
# former one lives on and is named by most.
{
	begin();
	$proxy->mode('silent');
	$sentinels[2]->names($proxy, epoch => 6);
	poll_until('the former one to be left', sub { failovers() > $before });
	wait_until_used($node, $a);
	serves($node, 'a new master that is not heard of, and most name the former one: that is used');
	$proxy->mode('pass');
	$proxy->reset_all;
	wait_until_used($node, $proxy);
	serves($node, 'a new master: when it says that it is one');
	stays($proxy, 'a new master that has said so');
	begin_anew($proxy);

	# It is gone, and those that have not heard of it name the former one.
	$proxy->mode('refuse');
	$proxy->reset_all;
	poll_until('the new master to be missed', sub { !is_used($node, $proxy) });
	$before = failovers();
	pause(4.5);
	is(failovers(), $before, 'one that has said so is not given up for a former one');
	$proxy->mode('pass');
	wait_until_used($node, $proxy);
}

# The same, and most tell of it, or the former one does not say that it is a master
foreach my $what ('most', 'dead')
{
	begin();
	$proxy->mode('silent');
	$a->stop if $what eq 'dead';
	$sentinels[2]->names($proxy, epoch => 6);
	$sentinels[1]->names($proxy, epoch => 6) if $what eq 'most';
	poll_until('the former one to be left', sub { failovers() > $before });
	pause(4.5);
	is(failovers(), $before + 1, "$what: the former one is not used again");
	$proxy->mode('pass');
	$proxy->reset_all;
	wait_until_used($node, $proxy);
	serves($node, "$what: the new one when it says so");
	is(failovers(), $before + 1, "$what: one failover");
	$a->start if $what eq 'dead';
}

# Two connect, and do not answer any more: they are down, though each connection is a good one.
{
	begin();
	my @silent = map { LockRedis::Proxy->new($_) } @sentinels[ 0, 1 ];
	$node->set('lockredis.url' => LockRedis::FalseSentinel::url_of(@silent, $sentinels[2]));
	poll_until('all to be up',
		sub { $node->value(q{SELECT string_agg(state, ' ') FROM redis_lock_status WHERE role = 'sentinel'}) eq 'up up up' });
	$_->rule(match => "\r\nSENTINEL\r\n", action => 'hold', times => 0) foreach @silent;
	poll_until(
		'both to be down',
		sub {
			$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'sentinel'"
				  . " AND state = 'down' AND last_error LIKE '%did not answer in time%'") == 2;
		});
	pass('Sentinels that do not answer are down');
}

$_->stop foreach @sentinels;
done_testing();
