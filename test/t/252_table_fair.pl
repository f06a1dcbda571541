# Copyright (c) 2026, lockredis contributors

# Fair locks in table mode: the queue of the server is the order of all who wait there
# (253_fallback_kinds has them in turn), so no plain lock passes; a try neither waits nor overtakes;
# programs have a say by their rows.
# Proves G1, G5, G25.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table, settings => { 'lockredis.lease' => '1h' });
my ($holder, $one, $two, $three) = map { $node->session } 1 .. 4;

sub signal_watchdog ($signal)
{
	kill $signal, $node->watchdog_pid or die "could not signal the watchdog: $!";
	return;
}

# They have the key one after the other, and give it back.
sub have_it_in_turn ($key, @waiting)
{
	foreach my $next (@waiting)
	{
		is($next->wait(limit(60))->error, undef, "$key: the next one");
		$next->query_is("SELECT redis_unlock('$key')", 't', "$key: and back");
	}
	return;
}

# The watchdog is stopped meanwhile: it passes over who does not run for a second, as may be on
# a machine that is busy.
signal_watchdog('STOP');

# Nobody passes who wait, even while the key is free: the first of them stands still.
$holder->query("SELECT redis_fair_lock('b')");
$node->queue_up('b',
	$one => "SELECT redis_fair_lock('b')",
	$two => "SELECT redis_fair_lock('b')");
$one->freeze;
$holder->query_is("SELECT redis_unlock('b')", 't');
is($table->cmd('EXISTS', 'b'), 0, 'the key is free');
$three->query_is("SELECT redis_try_lock('b')", 'f', 'a plain lock does not pass');
$three->query_is("SELECT redis_try_fair_lock('b')", 'f', 'nor does a try');
$three->query_is("SELECT redis_try_multi_lock(ARRAY['b', 'c'])", 'f', 'nor several');
$three->query_is("SELECT redis_try_fair_lock('b', '100ms')", 'f', 'until its limit');
$one->thaw;
have_it_in_turn('b', $one, $two);
signal_watchdog('CONT');

# A row of another instance, which outlives it.
ok($table->take('h', 'a program', '1h'), 'such a row');
$one->query_is("SELECT redis_try_fair_lock('h')", 'f', 'counts');
$node->queue_up('h', $one => "SELECT redis_fair_lock('h')", $two => "SELECT redis_fair_lock('h')");
ok($table->give_back('h', 'a program'), 'it goes');
have_it_in_turn('h', $one, $two);
end_test($node, $table);
