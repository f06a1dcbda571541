# Copyright (c) 2026, lockredis contributors

# Places in the queue of a fair lock that are given up, of sessions that are cancelled,
# terminated or stand still; a queue that is lost: who comes after them is
# the next, and in the order of the others nothing changes.  (Answers and messages that are lost,
# and requests that come late, are the simulator's: its mutants no_orphan, early_place, late_create
# and still_subscribed.  082_counted and 097_fair_dead_places have servers that crash,
# 256_deadlock_kinds deadlocks.)
# Proves G1, G5, G18.

use LockRedis::Test;
use LockRedis::Topic::Fair;

start_servers();
my $holder = patient_session($near);
my $next = patient_session($far);
my $soon = limit(60);

#
# Who gives up leaves no place: behind others, and as the first while the lock is free.
#
foreach my $how ('limit', 'cancel', 'terminate')
{
	my $session = patient_session($far);
	my $sql = $how eq 'limit' ? "SELECT redis_try_fair_lock('a', '6s')" : undef;

	$holder->query("SELECT redis_fair_lock('a')");
	my $place = wait_fairly($session, 'a', $sql);
	my $other = wait_fairly($next, 'a');
	$session->cancel if $how eq 'cancel';
	$session->terminate if $how eq 'terminate';
	poll_until("$how: its place to be gone", sub { join(' ', queue('a')) eq $other });
	is($redis->cmd('ZSCORE', $_, $place), undef, "$how: nothing of it in $_")
	  foreach 'redisson_lock_timeout:{a}', 'lockredis_places:{a}';
	$holder->query_is("SELECT redis_unlock('a')", 't');
	gets_it($next, 'a', "$how: the next");
	is($session->wait($soon)->value, 'f', 'false') if $how eq 'limit';
	$session->quit unless $how eq 'terminate';
}

# The first of the queue leaves while the lock is free: nobody but it was notified.
$holder->query("SELECT redis_fair_lock('b')");
{
	my $first = patient_session($near);
	my $place = wait_fairly($first, 'b');

	wait_fairly($next, 'b');
	freeze_asleep($first);
	$holder->query_is("SELECT redis_unlock('b')", 't');
	poll_until('the watchdog to give its place up', sub { !grep { $_ eq $place } queue('b') });
	is($next->wait($soon)->error, undef, 'who stands still is passed over');
	$first->thaw;
	poll_until('a new place', sub { queue('b') == 1 });
	isnt((queue('b'))[0], $place, 'and starts anew');
	$next->query_is("SELECT redis_unlock('b')", 't');
	gets_it($first, 'b', 'it is the next then');
	$first->quit;
}

# Nobody tells of the end of a lease: who asks then tells the first, which stands still.
{
	my $first = patient_session($near);

	$redis->foreign_lock('k', ms => 10_000);
	wait_fairly($first, 'k');
	wait_fairly($next, 'k');
	freeze_asleep($first);
	# A moment later the next one may have it.
	poll_until('the end of the lease', sub { $redis->owner_of('k') ne 'somebody:1' });
	$holder->query_is("SELECT redis_try_fair_lock('k')", 'f', 'free, and somebody is the next');
	gets_it($next, 'k', 'who comes after the one that stands still');
	$first->thaw;
	gets_it($first, 'k', 'that one then');
	$first->quit;
}

# The queue is lost: who asks next stands in it again.
{
	my $session = $far->session(settings => { 'lockredis.wait_lease' => '3s' });

	$holder->query("SELECT redis_fair_lock('d')");
	wait_fairly($session, 'd');
	$redis->cmd('DEL', 'redisson_lock_queue:{d}', 'redisson_lock_timeout:{d}', 'lockredis_places:{d}');
	poll_until('its place', sub { queue('d') == 1 });
	$holder->query_is("SELECT redis_unlock('d')", 't');
	gets_it($session, 'd', 'who has lost its place');
	$session->quit;
}

# A lock that somebody deletes, and tells that: its session does not know yet, and who is
# told has it in its place all the same.
{
	my $session = patient_session($near);
	my ($place, $owner);

	foreach my $try (1 .. 5)
	{
		$holder->query("SELECT redis_fair_lock('j')");
		$place = wait_fairly($session, 'j');
		$redis->cmd('DEL', 'j');
		$redis->cmd('PUBLISH', "redisson_lock__channel:{j}:$place", '0');
		is($session->wait($soon)->error, undef, 'it has the lock');
		$owner = $redis->owner_of('j');
		$holder->query_warns("SELECT redis_unlock('j')", 'f', '01000', qr/was lost/,
			'the other one has lost it');
		$session->query_is("SELECT redis_unlock('j')", 't');
		last if $owner eq $place;
	}
	is($owner, $place, 'in its place');
	$session->quit;
}

# Who is notified has the lock, as the one whose place it was, even while the one before has
# not had its answer.  A session that does not run for a second has lost its place by
# right, so there are some tries.
{
	my $session = patient_session($near);
	my ($place, $owner);

	foreach my $try (1 .. 5)
	{
		$holder->query("SELECT redis_fair_lock('i')");
		$place = wait_fairly($session, 'i');

		# The release names its own owner, and no question of the session that waits does,
		# which asks once more when it is subscribed.
		my $id = $proxy->rule(on => 'reply', match => $redis->owner_of('i'), action => 'hold');
		$holder->start("SELECT redis_unlock('i')");
		$proxy->wait_for_rule($id);
		is($session->wait($soon)->error, undef, 'it has the lock');
		$owner = $redis->owner_of('i');
		$proxy->let_go;
		is($holder->wait($soon)->value, 't', 'the release is answered');
		$session->query_is("SELECT redis_unlock('i')", 't');
		last if $owner eq $place;
	}
	is($owner, $place, 'before the release was answered');
	$session->quit;
}

end_test([ $near, $far ], $redis);
