# Copyright (c) 2026, lockredis contributors

# The real Redisson's RFairLock and sessions of two servers on the same key: all of them
# in the order in which they came, each told by whoever was before it; waits of both
# sides that are given up; plain locks of Redisson.
# Proves G1, G21.

use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::Topic::Fair;

LockRedis::Redisson->need;
start_servers('lockredis.max_handoffs' => 32);

my $java = LockRedis::Redisson->new;
my $soon = limit(60);

$java->connect('a', $redis);

my $threads = 0;

# One of those whose order is looked at.
sub of_redisson
{
	my $thread = 'a.' . ++$threads;
	my $command;

	return {
		begin => sub { $command = $java->send($thread, 'fair.lock', $_[0], 600_000) },
		is_done => sub { $java->is_done($command) },
		unlock => sub {
			$java->wait($command, $soon)->or_die;
			$java->call($thread, 'fair.unlock', $_[0])->or_die;
		} };
}

#
# In the order in which they came.
#
{
	my @sessions = map { (patient_session($near), patient_session($far)) } 1 .. 4;
	my @all = map { (of_ours($_), of_redisson()) } @sessions;

	order_kept('by turns', @all);
	order_kept('the other way round', reverse @all);
	order_kept('ours first', @all[ grep { $_ % 2 == 0 } 0 .. $#all ],
		@all[ grep { $_ % 2 == 1 } 0 .. $#all ]);
	$_->quit foreach @sessions;
	poll_until('nothing to be left', sub { !grep { !/latch/ } $redis->all_keys });
}

#
# A lock that passes inside a server: those of it who came before the first thread are before
# all threads, the others stand between them.
#
{
	my @ours = map { patient_session($near) } 1 .. 8;
	my @theirs = map { of_redisson() } 1 .. 8;
	my @order;

	$ours[0]->query("SELECT redis_fair_lock('inside')");
	wait_here($_, 'inside') foreach @ours[ 1 .. 3 ];
	foreach my $n (0 .. 7)
	{
		my $before = queue('inside');

		$theirs[$n]->{begin}->('inside');
		poll_until('its place', sub { queue('inside') > $before });
		wait_fairly($ours[ $n + 1 ], 'inside') if $n >= 3 && $n < 7;
	}
	@order = (
		(map { of_ours($_) } @ours[ 1 .. 3 ]),
		@theirs[ 0 .. 2 ],
		(map { ($theirs[$_], of_ours($ours[ $_ + 1 ])) } 3 .. 6), $theirs[7]);
	$ours[0]->query_is("SELECT redis_unlock('inside')", 't');
	while (my $next = shift @order)
	{
		poll_until('the next', sub { $next->{is_done}->() }, 60);
		ok(!(grep { $_->{is_done}->() } @order), 'it has the lock, and nobody behind it');
		$next->{unlock}->('inside');
	}
	$_->quit foreach @ours;
	poll_until('nothing to be left', sub { !grep { !/latch/ } $redis->all_keys });
}

#
# Waits that are given up, and plain locks of Redisson.
#
my $one = patient_session($near);
my $two = patient_session($far);

$one->query("SELECT redis_fair_lock('b')");
my $given_up = $java->send('a.1', 'fair.tryLock', 'b', 10_000, 600_000);
poll_until('its place', sub { queue('b') == 1 });
wait_fairly($two, 'b');
is($java->wait($given_up, $soon)->or_die->value, 'false', 'a thread gives up');
poll_until('no place', sub { queue('b') == 1 });
my $thread = $java->send('a.1', 'fair.lock', 'b', 600_000);
poll_until('its new place', sub { queue('b') == 2 });
$two->cancel;
$two->wait($soon)->fails('57014', qr/cancel/, 'a session gives up');
poll_until('no place of it', sub { queue('b') == 1 });
$one->query_is("SELECT redis_unlock('b')", 't');
ok(!$java->wait($thread, $soon)->error, 'the thread is notified');
is($java->value('a.1', 'owner', 'b'), $redis->owner_of('b'), 'and has it');
$two->start("SELECT redis_fair_lock('b')");
poll_until('a place', sub { queue('b') == 1 });
$java->call('a.1', 'fair.unlock', 'b')->or_die;
is($two->wait($soon)->error, undef, 'it tells us');

# RLock waits over the plain channel, and is notified by our fair lock.
$thread = $java->send('a.2', 'lock', 'b', 600_000);
$redis->wait_for_subscribers('b', 1);
$two->query_is("SELECT redis_unlock('b')", 't');
ok(!$java->wait($thread, $soon)->error, 'a plain lock of Redisson');
$one->query_is("SELECT redis_try_fair_lock('b')", 'f', 'it is a lock like any other');
$java->call('a.2', 'unlock', 'b')->or_die;
$one->query_is("SELECT redis_try_fair_lock('b')", 't', 'free');
is($java->value('a.2', 'fair.tryLock', 'b', 0, 1000), 'false', 'not for others');
$one->query_is("SELECT redis_unlock('b')", 't');

$_->quit foreach $one, $two;
$java->shutdown('a');
$java->stop;
end_test([ $near, $far ], $redis, keys => qr/latch/);
