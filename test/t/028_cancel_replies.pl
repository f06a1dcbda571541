# Copyright (c) 2026, lockredis contributors

# Interrupts, and what meets them: a reply that stops in the middle, lock_timeout, a block that
# catches the cancel.  Whatever was or will be taken is given back.  (A next holder before the
# request of the one who was stopped arrives, or a renewal, is the simulator's: its mutants
# no_orphan, late_create, lua_create_late, lua_release_owner.)
# Proves G5, G18.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# A reply that stops in the middle, and a cancel.
{
	my $s = $node->connected_session;

	$rule = $proxy->rule(
		on => 'reply',
		match => 'half',
		action => 'truncate',
		bytes => 2,
		then => 'hold');
	$s->start("SELECT redis_lock('half')");
	rule_acted();
	$s->cancel;
	$s->wait(10)->fails('57014', qr/user request/,
		'cancelled in the middle of a reply');
	key_is_free('half', 'given back');
	$proxy->release;
	$s->query_is("SELECT redis_try_lock('half', '10 s'), redis_unlock('half')",
		't|t', 'the rest of the reply is not taken for another one');
	$s->quit;
}

# ----------
# lock_timeout
# ----------

{
	my $one = $node->session(settings => { lock_timeout => '300ms' });

	# A request in flight is not cut by it.
	hold_next('timeout');
	$one->start("SELECT redis_lock('timeout')");
	rule_acted();
	pause(0.4);
	ok($one->is_running, 'lock_timeout does not cut a request');
	$proxy->release;
	my $result = $one->wait;
	ok(!$result->error || $result->sqlstate eq '58030',
		'which then has its outcome')
	  || diag $result->{raw};
	$one->query('SELECT redis_unlock_all()');
	$one->quit;
	nothing_left($node, $redis, name => 'nothing is left of lock_timeout');
}

# ----------
# A block that catches the cancel and goes on
# ----------

# Three attempts: the first is cancelled as a waiter, the second with its
# request on the way, the third has the lock when the holder has gone.
{
	my $one = $node->connected_session;

	$redis->foreign_lock('caught');
	$redis->after_second_look('caught', sub { $one->start(<<'SQL') });
DO $$
BEGIN
	FOR i IN 1 .. 3 LOOP
		BEGIN
			PERFORM redis_lock('caught');
			RAISE NOTICE 'attempt % has it', i;
		EXCEPTION WHEN query_canceled THEN
			RAISE NOTICE 'attempt % was cancelled', i;
		END;
	END LOOP;
END $$
SQL
	hold_next('caught');
	$one->cancel;
	rule_acted();
	$one->cancel;
	$node->wait_for_waiters('caught', 1);
	poll_until('the subscription', sub { is_awaited('caught') });
	$redis->foreign_unlock('caught');
	my $result = $one->wait(10);
	is_deeply([ $result->error, map { $_->message } $result->notices ],
		[
			undef,
			'attempt 1 was cancelled',
			'attempt 2 was cancelled',
			'attempt 3 has it'
		],
		'a DO block catches the cancel and goes on');
	$proxy->release;
	$one->query_is("SELECT redis_is_held('caught'), redis_unlock('caught')",
		't|t', 'and holds the lock');
	$one->quit;
	nothing_left($node, $redis, name => 'nothing is left of caught cancels');
}

end_test($node, $redis, clients => 2,
	name => 'only the watchdog is connected');
