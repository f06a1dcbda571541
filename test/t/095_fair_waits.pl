# Copyright (c) 2026, lockredis contributors

# Places in the queue of a fair lock that are given up, of sessions that are cancelled,
# terminated or stand still, of servers that crash; answers that are lost, requests that
# come late, a queue that is lost: who comes after them is the next, and in the order of
# the others nothing changes.
# Proves G1, G5, G18.

use LockRedis::Test;
use LockRedis::Topic::Fair;

start_servers();
my $holder = patient_session($near);
my $next = patient_session($far);
my $last = patient_session($near);
my $soon = limit(60);

#
# Who gives up leaves no place: behind others, and as the first while the lock is free.
#
foreach my $how ('limit', 'lock_timeout', 'cancel', 'terminate')
{
	my $session = patient_session($far);
	my $sql = $how eq 'limit' ? "SELECT redis_try_fair_lock('a', '6s')" : undef;

	$session->query("SET lock_timeout = '6s'") if $how eq 'lock_timeout';
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

# The first of the queue leaves while the lock is free: nobody but it was told.
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

# A server that crashes: all its places end together, when their leases do.
{
	my @dead = map { $far->session(settings => { 'lockredis.wait_lease' => '8s' }) } 1 .. 3;
	my $live = patient_session($near);

	$holder->query("SELECT redis_fair_lock('c')");
	wait_fairly($_, 'c') foreach @dead;
	wait_fairly($live, 'c');
	$dead[0]->kill9;
	$holder->query_is("SELECT redis_unlock('c')", 't');
	# Its message went to a dead one; one that asks again finds that out, and tells it.
	my $second = $near->session(settings => { 'lockredis.wait_lease' => '1s' });
	$second->start("SELECT redis_fair_lock('c')");
	# Who does not run for a second when he is told comes after the other one.
	poll_until('they are passed over', sub { !$live->is_running || !$second->is_running }, 60);
	poll_until('nobody but who is still there', sub { queue('c') <= 1 });
	foreach my $session ($live->is_running ? ($second, $live) : ($live, $second))
	{
		gets_it($session, 'c', 'one of those who are still there');
	}
	$live->quit;
	$second->quit;
}
poll_until('the crashed server', sub { eval { $far->value('SELECT 1') } }, 60);
$far->wait_for_up;
$next = patient_session($far);

# An answer is lost, to the first question or a later one: nothing is left.
foreach my $when ('first', 'later')
{
	my $key = "lost $when";
	my $session = $near->session(settings => { 'lockredis.wait_lease' => '3s' });

	$holder->query("SELECT redis_fair_lock('$key')");
	if ($when eq 'later')
	{
		wait_fairly($session, $key);
	}
	my $id = $proxy->rule(on => 'request', match => "redisson_lock_queue:{$key}", action => 'cut');
	$session->start("SELECT redis_fair_lock('$key')") if $when eq 'first';
	is(($session->wait($soon)->sqlstate), '58030', "$key: no answer");
	$proxy->clear;
	poll_until("$key: no place", sub { !queue($key) });
	$holder->query_is("SELECT redis_unlock('$key')", 't');
	poll_until("$key: all is given back", sub { !grep { /$key/ } $redis->all_keys });
	$session->quit;
}

# A request arrives when nobody waits for it any more: it takes nothing, nor a place.
foreach my $busy (0, 1)
{
	my $key = "late $busy";
	my $session = $near->session;

	$near->wait_for_up;
	$next->query("SELECT redis_fair_lock('$key')") if $busy;
	my $id = $proxy->rule(match => "redisson_lock_queue:{$key}", action => 'hold');
	$session->start("SELECT redis_fair_lock('$key')");
	$proxy->wait_for_rule($id);
	$session->cancel;
	$session->wait($soon)->fails('57014', qr/cancel/, "$key: cancelled");
	$proxy->let_go;
	poll_until("$key: it is given back",
		sub { $near->count_locks("key = '$key' AND pid IS DISTINCT FROM " . $next->pid) == 0 });
	is(scalar queue($key), 0, "$key: no place");
	$next->query_is("SELECT redis_unlock('$key')", 't') if $busy;
	is($redis->cmd('EXISTS', $key), 0, "$key: nothing is there");
	$session->quit;
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

# So is a message, with the connection over which they come.
{
	my $session = patient_session($near);

	$holder->query("SELECT redis_fair_lock('e')");
	wait_fairly($session, 'e');
	my $id = $proxy->rule(on => 'message', match => 'redisson_lock__channel:{e}', action => 'reset');
	$holder->query_is("SELECT redis_unlock('e')", 't');
	gets_it($session, 'e', 'told when it is subscribed again');
	$proxy->clear;
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

# Who is told has the lock, as the one whose place it was, even while the one before has
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

# Sessions that have one lock each and want the other one's.
$holder->query("SELECT redis_fair_lock('g')");
$last->query("SELECT redis_fair_lock('h')");
$holder->start("SELECT redis_fair_lock('h')");
$near->wait_for_waiters('h', 1);
$last->start("SELECT redis_fair_lock('g')");
{
	my ($victim) = poll_until('one of them to be chosen',
		sub { my @ended = grep { !$_->is_running } $holder, $last; @ended ? $ended[0] : undef });
	my $other = $victim == $last ? $holder : $last;

	is($victim->wait($soon)->sqlstate, '40P01', 'a deadlock is found');
	$victim->query_is('SELECT redis_unlock_all()', '1');
	is($other->wait($soon)->error, undef, 'and the other one goes on');
	$other->query_is('SELECT redis_unlock_all()', '2');
}

end_test([ $near, $far ], $redis);
