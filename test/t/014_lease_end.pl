# Copyright (c) 2026, lockredis contributors

# What happens at the end of a lease: a local waiter takes over, with and without
# a watchdog; an extension that is not answered changes nothing.
# Proves G6, G19, G21, G29.

use LockRedis::Test;
use LockRedis::Topic::Leases;

start_servers('3s');

#
# A local waiter takes over when a given lease has ended, whose holder sits in
# a transaction and does nothing.
#
{
	$one->query("SELECT redis_lock('over', '6s')");
	$one->query("SELECT redis_lock('over', '6s')");
	$two->start("SELECT redis_lock('over')");
	$node->wait_for_waiters('over', 1);
	is( $viewer->query(
			q{SELECT granted, blocked_by FROM redis_locks
			  WHERE key = 'over' AND waiting_since IS NOT NULL})->out,
		'f|{' . $one->pid . '}',
		'the waiter is blocked by the holder');
	is($two->wait(20)->error, undef, 'the waiter has it');
	my $taken_by = $redis->owner_of('over');
	is( $viewer->query(
			q{SELECT pid, granted, lost_reason, blocked_by,
				expires_in IS NULL
			  FROM redis_locks WHERE key = 'over' ORDER BY granted})->out,
		join("\n",
			$one->pid . '|f|expired|NULL|t', $two->pid . '|t|NULL|NULL|f'),
		'one lost hold and one granted in redis_locks');
	cmp_ok(
		$viewer->value(
			q{SELECT extract(milliseconds FROM b.acquired_at - a.acquired_at)
			  FROM redis_locks a, redis_locks b
			  WHERE a.key = 'over' AND b.key = 'over'
			  AND NOT a.granted AND b.granted}),
		'>=', 5900, 'not before the end of the lease');

	$one->query_is("SELECT redis_is_held('over'), redis_hold_count('over')",
		'f|0', 'the holder does not have it');
	$one->query_warns("SELECT redis_unlock('over')",
		'f', '01000', qr/lost/, 'redis_unlock drops all holds of the key');

	is($redis->owner_of('over'), $taken_by, 'the new holder was not disturbed');
	$two->query_is("SELECT redis_is_held('over'), redis_unlock('over')",
		't|t', 'and gives it back');
}

#
# The same without a watchdog that could tell anybody: it is stopped.  A given
# lease ends, then a renewed one that nobody renews.  The waiters ask for given
# leases, which need no renewal either.
#
{
	my $watchdog = $node->watchdog_pid;
	my ($three, $holder) = map { $node->session } 1 .. 2;

	$holder->query("SELECT redis_lock('long')");
	$one->query("SELECT redis_lock('dark', '6s'), redis_lock('dark too')");
	$two->start("SELECT redis_lock('dark', '1min')");
	$three->start("SELECT redis_lock('dark too', '1min')");
	$node->wait_for_waiters('dark', 1);
	$node->wait_for_waiters('dark too', 1);
	kill 'STOP', $watchdog;

	# No longer than that: seconds later a left-over alarm of the backend's idle
	# time may make a waiter look that did not mean to.
	is($two->wait(9)->error, undef, 'a given lease has ended');
	is($three->wait(6)->error, undef, 'a lease was not renewed');
	my @owners = map { $redis->owner_of($_) } 'dark', 'dark too';
	$one->query_is(
		"SELECT redis_is_held('dark'), redis_is_held('dark too')",
		'f|f', 'the holder has lost both');

	# Another one, which the watchdog would renew if it had some time left.
	$redis->wait_for_key('long', 0);
	kill 'CONT', $watchdog;

	# What the watchdog wanted to renew and to give back are old owners.
	pause(1);
	is_deeply([ map { $redis->owner_of($_) } 'dark', 'dark too' ],
		\@owners, 'the new holders are not disturbed');
	$two->query_is("SELECT redis_is_held('dark'), redis_unlock('dark')",
		't|t', 'one has it');
	$three->query_is(
		"SELECT redis_is_held('dark too'), redis_unlock('dark too')",
		't|t', 'so has the other one');
	$one->query_is("SELECT redis_is_held('dark too')", 'f', 'still lost');
	is(row('dark too', 'granted, lost_reason'), 'f|expired', 'as shown');
	my $result = $one->query('SELECT redis_unlock_all()');
	is($result->out, '0', 'nothing to be given back');
	is(scalar(my @w = $result->warnings), 2, 'two losses');
	$three->quit;

	# The stopped watchdog has not renewed this one either.
	$holder->query_is("SELECT redis_is_held('long')",
		'f', 'a lock that nobody renews is lost');
	is($redis->cmd('EXISTS', 'long'), 0, 'in Redis as well');
	$holder->query_warns("SELECT redis_unlock('long')",
		'f', '01000', qr/lost/, 'and it is told');
	$holder->quit;
}

#
# Redis is away for a moment: an extend that cannot be asked for, or is not
# answered, is an error, and what there was stands.
#
{
	my $three = $node->session(settings => { 'lockredis.lease' => '15s' });
	my $stands = sub {
		my ($name) = @_;
		is(row('stands', 'granted, renewed, lease'),
			't|t|00:00:15', "$name: the renewed one stands");
		is( row('given', "granted, renewed, lease, expires_in < '1min'"),
			't|f|00:01:00|t', "$name: the given one stands");
	};

	$three->query("SELECT redis_lock('stands')");
	$three->query("SELECT redis_lock('given', '1min')");

	of_redis 'the worker is always started again' => sub {
		$redis->stop(keep => 1);
		$three->query_fails("SELECT redis_extend('stands', '30s')",
			'58000', qr/lock store/, 'stopped: extend of a renewed lock');
		$three->query_fails("SELECT redis_extend('given', NULL)",
			'58000', qr/lock store/, 'stopped: extend of a given lease');
		$three->query_fails("SELECT redis_extend('given', '10min')",
			'58000', qr/lock store/, 'stopped: a longer one');
		$stands->('stopped');
		$redis->start;
	};
	my $renewals = row('stands', 'renewals');
	poll_until('a renewal', sub { row('stands', 'renewals') > $renewals });
	cmp_ok($redis->cmd('PTTL', 'given'), '<=', 60_000, 'with the old lease');

	# The request arrives, and runs when Redis goes on.
	$node->set('lockredis.command_timeout' => '2s');
	$three->query_is("SELECT redis_is_locked('given')", 't', 'connected');
	$redis->freeze;
	$three->query_fails("SELECT redis_extend('stands', '30s')",
		'58030', qr/lock store/, 'frozen: extend of a renewed lock');
	$stands->('frozen');
	$redis->thaw;
	$renewals = row('stands', 'renewals');
	poll_until('a renewal', sub { row('stands', 'renewals') > $renewals });
	$node->wait_for_up;

	$three->query_is(
		"SELECT redis_is_held('stands'), redis_is_held('given')",
		't|t', 'both are held');
	$three->query_is(
		"SELECT redis_extend('given', '10min'), redis_extend('stands', '30s')",
		't|t', 'now they are extended');
	cmp_ok($redis->cmd('PTTL', 'given'), '>', 500_000, 'in Redis');
	$three->query_is('SELECT redis_unlock_all()', '2', 'given back');
	$three->quit;
}

end_test($node, $redis);
