# Copyright (c) 2026, lockredis contributors

# No notification of a condition is lost: one that comes at the end of the waiter's limit; of
# waiters that are cancelled when they were notified, stand still, or crash with their server; a
# watchdog that ends, answers that are lost, requests that come late.  What is told to those is the
# next one's, or they have it.  (Before it is subscribed, with a connection that is lost, and a
# first request that is not answered: the simulator's mutants confirm_ignored, still_subscribed and
# no_orphan.)
# Proves G44.

use LockRedis::Test;
use LockRedis::Topic::Condition;

start_servers();
my $notifier = patient($far);
my $next = patient($far);
my $soon = limit(60);

# Of a waiter who has the lock again, and nobody else was notified.
sub has_it ($session, $key, $name)
{
	is(told($session), 't', $name);
	$session->query_is("SELECT redis_is_held('$key'), redis_unlock('$key')", 't|t',
		"$name: with the lock");
	return;
}

sub notify ($key, $n, $name, $by = undef)
{
	($by || $notifier)->query_is("SELECT redis_lock('$key'), redis_condition_notify('$key'), "
		  . "redis_unlock('$key')", "|$n|t", $name);
	return;
}

sub waits_on ($session, $key, $name)
{
	ok($session->is_running && waiting($key) == 1, $name);
	return;
}

#
#    W: waits; its limit is over
#                              N: notifies; the message does not arrive
#    W: asks once more
#
{
	my $waiter = patient($near);

	$waiter->query("SELECT redis_lock('b')");
	my $id = $proxy->rule(on => 'message', match => 'lockredis_condition__channel:{b}:',
		action => 'drop');
	await($waiter, 'b', '', limit(5) . 's');
	notify('b', 1, 'notified');
	$proxy->wait_for_rule($id);
	has_it($waiter, 'b', 'told at its limit');
	$proxy->clear;
	$waiter->quit;
}

#
#    W: is notified, and waits for the lock, which N keeps
#    W: is cancelled (terminated, or at a limit: the simulator's mutants condition_told_kept and
#       condition_passed_as_acted)
#    X: is notified instead
#
{
	my $waiter = patient($near);

	$_->query("SELECT redis_lock('c')"), await($_, 'c') foreach $waiter, $next;
	$notifier->query_is("SELECT redis_lock('c'), redis_condition_notify('c')", '|1', 'one is notified');
	$near->wait_for_waiters('c', 1);
	poll_until('it waits for the lock', sub {
		$near->count_locks("key = 'c' AND kind = 'reentrant' AND waiting_since IS NOT NULL") });
	waits_on($next, 'c', 'not the other');
	$waiter->cancel;
	$waiter->wait($soon)->fails('57014', qr/cancel/, 'the one who was notified is cancelled');
	poll_until('the other one is notified', sub { waiting('c') == 0 });
	$notifier->query_is("SELECT redis_unlock('c')", 't');
	has_it($next, 'c', 'the other one instead');
	$waiter->query_warns("SELECT redis_unlock('c')", 'f', '01000', qr/released/, 'lost');
	$waiter->quit;
}

# The same while it sleeps: nobody is notified in vain.
{
	my $waiter = patient($near);

	$_->query("SELECT redis_lock('d')"), await($_, 'd') foreach $waiter, $next;
	$waiter->cancel;
	$waiter->wait($soon)->fails('57014', qr/cancel/, 'cancelled while it sleeps');
	poll_until('it leaves', sub { waiting('d') == 1 });
	$waiter->query_fails("SELECT redis_lock('d')", '55000',
		qr/has not been taken again.*redis_unlock/s, 'the lock is lost');
	$waiter->query_fails("BEGIN; CREATE TABLE t (); COMMIT", '55000', qr/could not commit/,
		'nothing is committed without it');
	$waiter->query("ROLLBACK");
	$waiter->query_warns("SELECT redis_unlock('d')", 'f', '01000', qr/lost/);
	$waiter->quit;
	notify('d', 1, 'the one who is there');
	has_it($next, 'd', 'has it');
}

#
#    W: stands still; is notified
#    X: is notified instead, when W has not run for a second
#    W: runs: has the lock again, and looks for himself
#
{
	my $waiter = patient($near);

	$_->query("SELECT redis_lock('e')"), await($_, 'e') foreach $waiter, $next;
	$waiter->freeze;
	notify('e', 1, 'one who stands still');
	poll_until('the other one is notified', sub { waiting('e') == 0 });
	has_it($next, 'e', 'the other one');
	$waiter->thaw;
	has_it($waiter, 'e', 'and that one, perhaps for nothing');
	$waiter->quit;
}

#
# With its watchdog, for longer than its lease: whoever notifies next finds out.
#
{
	my $waiter = $near->session(settings => { 'lockredis.wait_lease' => limit(6) . 's' });
	my $watchdog = $near->watchdog_pid;

	$_->query("SELECT redis_lock('f')"), await($_, 'f') foreach $waiter, $next;
	$waiter->freeze;
	kill 'STOP', $watchdog;
	notify('f', 1, 'one who does not count for long');
	poll_until('its time is over', sub { !$redis->cmd('EXISTS', condition_key('told', 'f'))
		  || $redis->cmd('ZCOUNT', condition_key('told', 'f'), '-inf', time * 1000) == 1 });
	notify('f', 0, 'its notification is the next one\'s');
	has_it($next, 'f', 'the next one');
	kill 'CONT', $watchdog;
	$waiter->thaw;
	has_it($waiter, 'f', 'the one who was notified first');
	$waiter->quit;
}

#
# A server crashes with one that was notified, and waits for the lock: the next one finds that out
# when it asks again.
#
{
	my $waiter = $near->session(settings => { 'lockredis.wait_lease' => limit(6) . 's' });
	my $other = $near->session;
	my $live = $far->session(settings => { 'lockredis.wait_lease' => limit(6) . 's' });

	$_->query("SELECT redis_lock('g')"), await($_, 'g') foreach $waiter, $live;
	$notifier->query_is("SELECT redis_lock('g'), redis_condition_notify('g')", '|1', 'notified');
	poll_until('it waits for the lock', sub {
		$near->count_locks("key = 'g' AND kind = 'reentrant' AND waiting_since IS NOT NULL") });
	waits_on($live, 'g', 'crash: not the other');
	$other->kill9;
	poll_until('it is passed on', sub { waiting('g') == 0 });
	$notifier->query_is("SELECT redis_unlock('g')", 't');
	has_it($live, 'g', 'the next one');
	$live->quit;
	poll_until('the crashed server', sub { eval { $near->value('SELECT 1') } }, 60);
	$near->wait_for_up;
}

# A watchdog that is ended is back after a second.
{
	my $waiter = patient($near);

	$waiter->query("SELECT redis_lock('h')");
	await($waiter, 'h');
	$near->replace_watchdog;
	notify('h', 1, 'notified');
	has_it($waiter, 'h', 'it subscribes again');
	$waiter->quit;
}

#
# The first request comes late: it does nothing, and the lock is given back.
#
{
	my $waiter = $near->session;

	$waiter->query("SELECT redis_lock('j')");
	my $id = $proxy->rule(match => 'lockredis_condition_waiting:{j}', action => 'hold');
	$waiter->start("SELECT redis_condition_wait('j')");
	$proxy->wait_for_rule($id);
	$waiter->cancel;
	$waiter->wait($soon)->fails('57014', qr/cancel/, 'cancelled');
	poll_until('the watchdog has given the lock back', sub { !$redis->cmd('EXISTS', 'j') });
	poll_until('and is through', sub { $near->count_locks("key = 'j' AND pid IS NULL") == 0 });
	$proxy->let_go;
	$proxy->clear;
	$notifier->query_is("SELECT redis_lock('j')", '', 'others have the lock');
	is(scalar waiting('j'), 0, 'nobody waits');
	$notifier->query_is("SELECT redis_condition_notify('j'), redis_unlock('j')", '0|t');
	$waiter->query("SELECT redis_unlock('j')");
	$waiter->quit;
}

# A notification that is not answered is not repeated: it may have told one, and would tell
# another one.
{
	my $teller = $near->session;

	$_->query("SELECT redis_lock('l')"), await($_, 'l') foreach $next, $notifier;
	$teller->query("SELECT redis_lock('l')");
	my $id = $proxy->rule(match => 'lockredis_condition_waiting:{l}', action => 'cut');
	is($teller->query("SELECT redis_condition_notify('l')")->sqlstate, '58030', 'no answer');
	$proxy->clear;
	is(scalar waiting('l'), 1, 'one was notified');
	$teller->query_is("SELECT redis_unlock('l')", 't', 'who tells has the lock all the same');
	has_it($next, 'l', 'the one who was notified');
	notify('l', 1, 'told', $teller);
	has_it($notifier, 'l', 'the other one');
	$teller->quit;
}

# All that Redis had is gone, as after a failover: who waits looks for himself.
{
	my $waiter = $near->session(settings => { 'lockredis.wait_lease' => '3s' });

	$waiter->query("SELECT redis_lock('k')");
	await($waiter, 'k');
	$redis->cmd('DEL', map { condition_key($_, 'k') } 'waiting', 'alive');
	has_it($waiter, 'k', 'for nothing');
	$waiter->quit;
}

end_test([ $near, $far ], $redis);
