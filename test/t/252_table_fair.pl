# Copyright (c) 2026, lockredis contributors

# Fair locks in table mode: the queue of the server is the order of all who wait there, so
# no plain lock passes; a try neither waits nor overtakes; who gives up costs the others
# nothing; the lock is the one of redis_lock; programs have a say by their rows.
# Proves G1, G5, G25.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table, settings => { 'lockredis.lease' => '1h' });
my @sessions = map { $node->session } 1 .. 6;
my ($holder, $one, $two, $three, $four, $five) = @sessions;
my $soon = limit(60);

sub signal_watchdog
{
	my ($signal) = @_;

	kill $signal, $node->watchdog_pid or die "could not signal the watchdog: $!";
	return;
}

# They have the key one after the other, in this order, and give it back.
sub have_it_in_turn
{
	my ($key, @waiting) = @_;

	while (my $next = shift @waiting)
	{
		is($next->wait($soon)->error, undef, "$key: the next one");
		is((scalar grep { $_->is_running } @waiting), scalar @waiting, "$key: and nobody else");
		$next->query_is("SELECT redis_unlock('$key')", 't', "$key: and back");
	}
	return;
}

#
# In order, with plain locks.  The watchdog is stopped meanwhile: it passes over who
# does not run for a second, as may be on a machine that is busy.
#
$holder->query_is("SELECT redis_fair_lock('a')", '', 'free');
is($table->hash('a')->{ $table->owner_of('a') }, 1, 'a row as of any lock');
signal_watchdog('STOP');
$node->queue_up('a',
	$one => "SELECT redis_fair_lock('a')",
	$two => "SELECT redis_lock('a')",
	$three => "SELECT redis_try_fair_lock('a', '1h')",
	$four => "SELECT redis_xact_lock('a')",
	$five => "SELECT redis_fair_lock('a')");
is( $node->value(
		'SELECT array_length(blocked_by, 1) FROM redis_locks WHERE NOT granted ORDER BY 1 DESC LIMIT 1'),
	5, 'the view: all before it are in the way of the last one');
$holder->query_is("SELECT redis_try_fair_lock('a')", 't', 'who has it takes it again');
$holder->query_is("SELECT redis_unlock('a'), redis_unlock('a')", 't|t', 'and gives it back');
have_it_in_turn('a', $one, $two, $three);
is($four->wait($soon)->error, undef, 'that of a transaction has ended with it');
have_it_in_turn('a', $five);

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

# Who gives up in the middle.
$holder->query("SELECT redis_fair_lock('c')");
$node->queue_up('c',
	$one => "SELECT redis_fair_lock('c')",
	$two => "SELECT redis_fair_lock('c')",
	$three => "SELECT redis_fair_lock('c')",
	$four => "SELECT redis_fair_lock('c')");
$two->cancel;
$two->wait($soon)->fails('57014', qr/cancel/, 'cancelled');
$three->terminate;
poll_until('it to be gone', sub { $node->count_locks("key = 'c' AND NOT granted") == 2 });
$holder->query_is("SELECT redis_unlock('c')", 't');
have_it_in_turn('c', $one, $four);
signal_watchdog('CONT');
$three = $node->session;

# Who does not run for a second is passed over, and comes after the next one.
$holder->query("SELECT redis_fair_lock('d')");
$node->queue_up('d',
	$one => "SELECT redis_fair_lock('d')",
	$two => "SELECT redis_fair_lock('d')");
$one->freeze;
$holder->query_is("SELECT redis_unlock('d')", 't');
is($two->wait($soon)->error, undef, 'the next one');
$one->thaw;
$two->query_is("SELECT redis_unlock('d')", 't');
is($one->wait($soon)->error, undef, 'the one that stood still');
$one->query_is("SELECT redis_unlock('d')", 't');

#
# It is a reentrant lock.
#
$one->query_is("SELECT redis_fair_lock('e'), redis_lock('e')", '|', 'taken again as that');
$one->query_is("SELECT redis_hold_count('e'), redis_hold_count('e', 'fair'), "
	. "redis_extend('e', '10min', 'fair'), redis_fenced_lock('e') > 0", '2|2|t|t', 'both kinds');
is($node->value("SELECT string_agg(kind || ' ' || hold_count, ',') FROM redis_locks WHERE key = 'e'"),
	'fair 3', 'the view');
$two->query_fails("SELECT redis_read_lock('e')", '42809', qr/fair lock/, 'no other kind');
$one->query_is("SELECT redis_unlock_all()", '1', 'all of it');
$one->query("BEGIN; SELECT redis_fair_xact_lock('f')");
$two->start("SELECT redis_fair_xact_lock('f')");
$node->wait_for_waiters('f', 1);
$one->query("COMMIT");
is($two->wait($soon)->error, undef, 'told by a COMMIT');
is($node->lock_stat('handoffs'), 0, 'nothing was passed on');

# By force, and the end of a lease.
$one->query("SELECT redis_fair_lock('g')");
$two->start("SELECT redis_fair_lock('g')");
$node->wait_for_waiters('g', 1);
is($node->value("SELECT redis_force_unlock('g')"), 't', 'by force');
is($two->wait($soon)->error, undef, 'the next one');
$one->query_warns("SELECT redis_unlock('g')", 'f', '01000', qr/lost/, 'the one who had it');
$two->query_is("SELECT redis_unlock('g')", 't');
$one->in_time("SELECT redis_fair_lock('g', '3s')");
$two->start("SELECT redis_fair_lock('g')");
is($two->wait($soon)->error, undef, 'the end of a lease');
$one->query_warns("SELECT redis_unlock('g')", 'f', '01000', qr/lost/, 'which was one');
$two->query_is("SELECT redis_unlock('g')", 't');

# A row of another instance, which outlives it.
ok($table->take('h', 'a program', '1h'), 'such a row');
$one->query_is("SELECT redis_try_fair_lock('h')", 'f', 'counts');
$node->queue_up('h', $one => "SELECT redis_fair_lock('h')", $two => "SELECT redis_fair_lock('h')");
ok($table->give_back('h', 'a program'), 'it goes');
is($one->wait($soon)->error, undef, 'then the first who waits');
$one->query_is("SELECT redis_unlock('h')", 't');
is($two->wait($soon)->error, undef, 'then the second');
$two->query_is("SELECT redis_unlock('h')", 't');

end_test($node, $table);
