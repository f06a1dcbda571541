# Copyright (c) 2026, lockredis contributors

# A fair lock passes from session to session of a server while nobody elsewhere waits:
# who waits has no place in Redis, and nothing is asked between two of them.  Who comes
# elsewhere is behind those who were there, and before those who come later.  Races, each
# forced with a proxy that holds one reply, or a session that is stopped: an answer that
# comes when the lock has been released, a session that does not run, a Redis that does not
# answer.  (An answer from before somebody came elsewhere, a line whose release takes its time,
# a lock whose terms change, and who is handed it while he asks, and gives up or is not answered,
# are the simulator's: its mutants place_clear_late, line_time, line_at_release, line_terms,
# handed_kept and announced_handed.)
# Proves G1, G18.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Topic::Fair;
use LockRedis::Wait qw(limit);

start_servers('lockredis.max_handoffs' => 32, 'lockredis.command_timeout' => '60s');
my ($one, $two, $three, $four, $five) = map { patient_session($near) } 1 .. 5;
my $x = patient_session($far);
my $soon = limit(60);

# None of them looks by itself in that time.
$_->query("SET deadlock_timeout = '1h'") foreach $one, $two, $three, $four, $five, $x;

# They get it one after the other, and nobody before.
sub in_order ($key, $name, @sessions)
{
	while (my $session = shift @sessions)
	{
		is($session->wait($soon)->error, undef, "$name: the next");
		ok($_->is_running, "$name: who comes later waits") foreach @sessions;
		$session->query_is("SELECT redis_unlock('$key')", 't', "$name: and back");
	}
	poll_until("$name: nothing to be left",
		sub { !$redis->cmd('EXISTS', $key) && !queue($key) });
	return;
}

#
# Nobody elsewhere: one question each, nothing between, nothing is left.
#
$one->query("SELECT redis_fair_lock('plain')");
my $owner = $redis->owner_of('plain');
my $calls = $redis->script_calls;
wait_here($_, 'plain') foreach $two, $three, $four;
is($redis->script_calls - $calls, 3, 'each asks once');
is(scalar queue('plain'), 0, 'and has no place');
is_deeply($redis->cmd('PUBSUB', 'CHANNELS', '*{plain}*'), [], 'nor a channel');
$two->cancel;
$two->wait($soon)->fails('57014', qr/cancel/, 'one gives up');
$one->query_is("SELECT redis_unlock('plain')", 't');
is($three->wait($soon)->error, undef, 'the next one has it');
is($redis->owner_of('plain'), $owner, 'which is the same lock');
is($redis->script_calls - $calls, 3, 'without a word to Redis');
$three->query_is("SELECT redis_unlock('plain')", 't');
in_order('plain', 'nobody elsewhere', $four);

#
# X comes elsewhere: B and C were before it, D comes after it.
#
$one->query("SELECT redis_fair_lock('foreign')");
wait_here($_, 'foreign') foreach $two, $three;
my $place = wait_fairly($x, 'foreign');
wait_fairly($four, 'foreign');
is((queue('foreign'))[0], $place, 'who came elsewhere has the first place');
$one->query_is("SELECT redis_unlock('foreign')", 't');
in_order('foreign', 'who came elsewhere', $two, $three, $x, $four);

#
# X has it, B, C, D have places; nobody elsewhere waits any more when B has it.
#
$x->query("SELECT redis_fair_lock('clear')");
wait_fairly($_, 'clear') foreach $two, $three, $four;
$x->query_is("SELECT redis_unlock('clear')", 't');
is($two->wait($soon)->error, undef, 'the first place');
$owner = $redis->owner_of('clear');
$two->query_is("SELECT redis_unlock('clear')", 't');
is($three->wait($soon)->error, undef, 'the second one');
is($redis->owner_of('clear'), $owner, 'is handed it');
poll_until('its place to be given up', sub { queue('clear') == 1 });
$three->query_is("SELECT redis_unlock('clear')", 't');
in_order('clear', 'places', $four);

#
# After max_handoffs in a row who comes has a place; who is there gets it before.
#
$near->set('lockredis.max_handoffs' => 1);
$one->query("SELECT redis_fair_lock('turns')");
wait_here($_, 'turns') foreach $two, $three;
$owner = $redis->owner_of('turns');
$one->query_is("SELECT redis_unlock('turns')", 't');
is($two->wait($soon)->error, undef, 'handed over once');
wait_fairly($four, 'turns');
$two->query_is("SELECT redis_unlock('turns')", 't');
is($three->wait($soon)->error, undef, 'and twice, as it was there');
is($redis->owner_of('turns'), $owner, 'the same lock');
$three->query_is("SELECT redis_unlock('turns')", 't');
is($four->wait($soon)->error, undef, 'then Redis gives it');
isnt($redis->owner_of('turns'), $owner, 'another lock');
$four->query_is("SELECT redis_unlock('turns')", 't');
$near->set('lockredis.max_handoffs' => 32);

#
# It ends without being handed over: B, C, D ask one after the other, in their order.
#
foreach my $how ('force', 'lease', 'terminate')
{
	my $holder = patient_session($near);

	$holder->query("SELECT redis_fair_lock('$how')");
	wait_here($_, $how) foreach $two, $three, $four;
	$near->value("SELECT redis_force_unlock('force')") if $how eq 'force';
	$holder->query("SELECT redis_extend('lease', '30s')") if $how eq 'lease';
	$holder->query_is("SELECT redis_unlock('lease')", 't') if $how eq 'lease';
	$holder->terminate if $how eq 'terminate';
	in_order($how, $how, $two, $three, $four);
	$holder->query("SELECT redis_unlock_all()") if $how eq 'force';
	$holder->quit unless $how eq 'terminate';
}

#
# C does not run: D has it after a second, and C comes after that.
#
$one->query("SELECT redis_fair_lock('stopped')");
wait_here($_, 'stopped') foreach $three, $four;
freeze_asleep($three);
$one->query_is("SELECT redis_unlock('stopped')", 't');
is($four->wait($soon)->error, undef, 'the next one');
$four->query_is("SELECT redis_unlock('stopped')", 't');
is($redis->cmd('EXISTS', 'stopped'), 0, 'and it is not handed to C again');
$three->thaw;
in_order('stopped', 'stopped', $three);

#
# B is handed the lock while it asks:
#
#	A has it	B asks; the answer is held, or the question
#	A releases: the lock is B's, which does not know yet
#	B reads the answer
#
# The answer to what "$session" asks is held.
sub ask_held ($key, $session)
{
	$proxy->rule(on => 'reply', match => $redis->owner_of($key), action => 'hold');
	$session->start("SELECT redis_fair_lock('$key')");
	poll_until('it to be held', sub { $proxy->stats->{held} > 0 });
	return;
}

# It has no place: it takes the same lock.  So does X after it, which comes meanwhile.
$calls = $redis->script_calls;
$one->query("SELECT redis_fair_lock('early')");
ask_held('early', $two);
$one->query_is("SELECT redis_unlock('early')", 't');
$owner = $redis->owner_of('early');
ok($owner, 'the lock is not released');
ok($two->is_running, 'and who is handed it waits for its answer');
is($redis->script_calls - $calls, 2, 'one question, and no release');
wait_fairly($x, 'early');
$proxy->let_go;
is($two->wait($soon)->error, undef, 'handed while it asked');
is($redis->owner_of('early'), $owner, 'the same lock');
$two->query_is("SELECT redis_unlock('early')", 't');
in_order('early', 'early', $x);

# It has a place behind X: the lock is passed on.
$one->query("SELECT redis_fair_lock('behind')");
wait_fairly($x, 'behind');
ask_held('behind', $two);
$one->query_is("SELECT redis_unlock('behind')", 't');
ok($x->is_running, 'X waits for what the answer says');
$proxy->let_go;
in_order('behind', 'behind X', $x, $two);

# Likewise one in line: C came after B had asked, and asks when B is answered.
$one->query("SELECT redis_fair_lock('line')");
wait_here($two, 'line');
my $granted = $proxy->rule(on => 'reply', match => '3600000', action => 'hold');
$near->value("SELECT redis_force_unlock('line')");
$proxy->wait_for_rule($granted);
wait_here($three, 'line');
my $asked = $proxy->rule(on => 'reply', match => '3600000', action => 'hold');
$proxy->release;
is($two->wait($soon)->error, undef, 'the first in line has it');
$proxy->wait_for_rule($asked);
$owner = $redis->owner_of('line');
$two->query_is("SELECT redis_unlock('line')", 't');
is($redis->owner_of('line'), $owner, 'the lock is kept for the second, which asks');
$proxy->let_go;
is($three->wait($soon)->error, undef, 'and which has it');
is($redis->owner_of('line'), $owner, 'the same lock');
$three->query_is("SELECT redis_unlock('line')", 't');
is($redis->cmd('EXISTS', 'line'), 0, 'and gives it back');
$one->query('SELECT redis_unlock_all()');

# C, which came after B was answered, does not pass B, which asks in line, when the lock fits again.
$one->query("SELECT redis_fair_lock('again')");
wait_here($_, 'again') foreach $two, $three;
$asked = $proxy->rule(match => 'redisson_lock_queue:{again}', action => 'hold');
$one->query("BEGIN; SELECT redis_fair_xact_lock('again', '2h')");
$proxy->wait_for_rule($asked);
$one->query('COMMIT');
$one->query_is("SELECT redis_unlock('again')", 't');
$proxy->let_go;
in_order('again', 'terms that fit again', $two, $three);

#
# C wants another lease, so it cannot be passed the lock, and B behind it needs a place.
#
$one->query("SELECT redis_fair_lock('terms')");
wait_fairly($three, 'terms', "SELECT redis_fair_lock('terms', '30min')");
wait_fairly($_, 'terms') foreach $two, $x;
$one->query_is("SELECT redis_unlock('terms')", 't');
in_order('terms', 'another lease', $three, $two, $x);

#
# The answer to the release of A comes late: B has the lock meanwhile, and passes it on.  That
# counts, whatever A reads then: D gets a place.
#
$near->set('lockredis.max_handoffs' => 0);
$one->query("SELECT redis_fair_lock('late answer')");
wait_fairly($_, 'late answer') foreach $two, $three;
$near->set('lockredis.max_handoffs' => 1);
my $release = $proxy->rule(on => 'reply', match => 'late answer', action => 'hold');
$one->start("SELECT redis_unlock('late answer')");
$proxy->wait_for_rule($release);
is($two->wait($soon)->error, undef, 'granted before the release is answered');
$owner = $redis->owner_of('late answer');
$two->query_is("SELECT redis_unlock('late answer')", 't');
is($three->wait($soon)->error, undef, 'passed on before the release is answered');
is($redis->owner_of('late answer'), $owner, 'the same lock');
$proxy->let_go;
is($one->wait($soon)->value, 't', 'the answer comes');
wait_fairly($four, 'late answer');
$three->query_is("SELECT redis_unlock('late answer')", 't');
in_order('late answer', 'late answer', $four);

#
# After max_handoffs, B has a place, and no message can reach it: it asks behind the release, and
# not after a second.  If it is faster than the release, it is made again.
#
foreach my $try (1 .. 5)
{
	my $key = "behind the release $try";

	$one->query("SELECT redis_fair_lock('$key')");
	wait_here($two, $key);
	$one->query_is("SELECT redis_unlock('$key')", 't');
	is($two->wait($soon)->error, undef, 'handed over once');
	$proxy->rule(match => "SUBSCRIBE\r\n", action => 'hold', times => 0);
	$three->start("SELECT redis_try_fair_lock('$key', wait => '900ms')");
	poll_until('its place', sub { queue($key) });
	$two->query_is("SELECT redis_unlock('$key')", 't');
	my $taken = $three->wait($soon)->value;
	$proxy->let_go;
	$three->query('SELECT redis_unlock_all()');
	next if $taken eq 'f' && $try < 5;
	is($taken, 't', 'who cannot be notified asks behind the release');
	last;
}

# Not if a session here waits for a plain lock, which hears of the release by its answer.
$one->query("SELECT redis_fair_lock('plain beside')");
wait_here($two, 'plain beside');
my $waits = $near->lock_stat('waits');
$five->start("SELECT redis_lock('plain beside')");
poll_until('it to be asleep', sub { $near->lock_stat('waits') > $waits });
$one->query_is("SELECT redis_unlock('plain beside')", 't');
is($two->wait($soon)->error, undef, 'handed over once');
$proxy->rule(match => "SUBSCRIBE\r\n", action => 'hold', times => 0);
$three->start("SELECT redis_fair_lock('plain beside')");
poll_until('its place', sub { queue('plain beside') });
$two->query_is("SELECT redis_unlock('plain beside')", 't');
is($five->wait($soon)->error, undef, 'who waits for a plain lock has it');
$proxy->let_go;
$five->query_is("SELECT redis_unlock('plain beside')", 't');
in_order('plain beside', 'plain beside', $three);
$near->set('lockredis.max_handoffs' => 32);

$near->set('lockredis.command_timeout' => '3s');

#
# B has no place and is stopped when the lock is not passed on: C goes ahead after a second.
#
$one->query("SELECT redis_fair_lock('counted')");
wait_here($_, 'counted') foreach $two, $three;
freeze_asleep($two);
$one->query_is("SELECT redis_extend('counted', '30min'), redis_unlock('counted')", 't|t');
is($three->wait($soon)->error, undef, 'behind one that is stopped');
$three->query_is("SELECT redis_unlock('counted')", 't');
$two->thaw;
in_order('counted', 'counted', $two);

#
# Redis does not answer the first of the line: those behind it fail with it.
#
$one->query("SELECT redis_fair_lock('silent')");
wait_here($_, 'silent') foreach $two, $three, $four;
freeze_asleep($_) foreach $three, $four;
$near->set('lockredis.max_handoffs' => 0);
$proxy->rule(match => 'silent', action => 'hold', times => 0);
$one->start("SELECT redis_unlock('silent')");
$two->wait($soon)->fails('58030', qr/did not answer/, 'the first');
$proxy->let_go;
$one->wait($soon);
foreach my $behind ($three, $four)
{
	$behind->thaw;
	$behind->wait($soon)->fails('58030', qr/could not reach.*first in the queue/s, 'and behind it');
}
poll_until('nothing to be left', sub { !$redis->cmd('EXISTS', 'silent') && !queue('silent') });
$near->set('lockredis.max_handoffs' => 32);

#
# W is notified of a condition of the lock, which is not the lock: it is taken away from A, and
# those who wait for it hear of that.
#
$two->query("SELECT redis_fair_lock('told')");
$two->start("SELECT redis_condition_wait('told')");
poll_until('its wait', sub { @{ $redis->cmd('KEYS', 'lockredis_condition_waiting:{told}*') } });
$one->query("SELECT redis_fair_lock('told')");
wait_here($three, 'told');
$waits = $near->lock_stat('waits');
$one->query_is("SELECT redis_condition_notify('told')", 1);
poll_until('it to wait for the lock', sub { $near->lock_stat('waits') > $waits });
$near->value("SELECT redis_force_unlock('told')");
in_order('told', 'told', $three, $two);
$one->query('SELECT redis_unlock_all()');

# A try does not go before those who wait, but before one that does not run.
$one->query("SELECT redis_fair_lock('try')");
wait_here($two, 'try');
$three->query_is("SELECT redis_try_fair_lock('try')", 'f', 'a try');
freeze_asleep($two);
$near->value("SELECT redis_force_unlock('try')");
poll_until('a try before one that is stopped',
	sub { $three->value("SELECT redis_try_fair_lock('try')") eq 't' });
$three->query_is("SELECT redis_unlock('try')", 't');
$two->thaw;
in_order('try', 'a try', $two);
$one->query('SELECT redis_unlock_all()');

$_->quit foreach $one, $two, $three, $four, $five, $x;
nothing_left([ $near, $far ], $redis);
done_testing();
