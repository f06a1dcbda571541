# Copyright (c) 2026, lockredis contributors

# Interrupts, and what meets them: a next holder before the request of the one who
# was stopped arrives, a reply that stops in the middle, a renewal, lock_timeout, a block
# that catches the cancel.  Whatever was or will be taken is given back, and
# no later holder is disturbed.
# Proves G5, G18.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# ----------
# Somebody takes the key before a request arrives that nobody waits for
# ----------

# one's create is held on its way; one is cancelled; the key is taken, by a
# session that had queued behind one, or by a client elsewhere; then the create
# arrives, in time or too late.  Neither it nor the releases of the watchdog
# may touch the new holder.
foreach my $who ('a session of this server', 'a client elsewhere')
{
	foreach my $when ('in time', 'too late')
	{
		subtest "taken by $who, the create arrives $when" => sub {
			my $one = $node->connected_session;

			hold_next('contended');
			$one->start("SELECT redis_lock('contended')");
			rule_acted();
			if ($who eq 'a client elsewhere')
			{
				$redis->foreign_lock('contended');
			}
			else
			{
				$two->start("SELECT redis_lock('contended', '10 minutes')");
				$node->wait_for_waiters('contended', 2);
			}
			$one->cancel;
			$one->wait(10)->fails('57014', qr/user request/, 'cancelled');
			is($two->wait(10)->error, undef, 'the next in the queue has it')
			  if $who ne 'a client elsewhere';
			my $hash = $redis->hash('contended');

			poll_until('the orphan to be given up',
				sub { $node->count_locks('pid IS NULL') == 0 }) if $when eq 'too late';
			deliver();
			nothing_left(
				$node, $redis,
				name => 'the request leaves nothing',
				keys => qr/^contended$/) if $who eq 'a client elsewhere';
			poll_until('the orphan to be given up', sub { $node->count_locks('pid IS NULL') == 0 });
			is_deeply($redis->hash('contended'), $hash,
				'the lock is not touched');
			cmp_ok($redis->cmd('PTTL', 'contended'),
				'>', 300_000, 'nor its lease');
			if ($who eq 'a client elsewhere')
			{
				$redis->cmd('DEL', 'contended');
			}
			else
			{
				$two->query_is(
					"SELECT redis_is_held('contended'), redis_unlock('contended')",
					't|t', 'the holder was not disturbed');
			}
			$one->quit;
		};
	}
}

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
# While the watchdog renews
# ----------

# The renewal is held on its way; the session's statement is cancelled, which
# is none of the lock's business, and then the session is terminated.  Its lock
# is given back at once; when the renewal arrives it finds nothing.
{
	my $s = $node->connected_session;
	my $lease_ms = limit(9) * 1000;

	hold_next('renewed', skip => 1);
	$s->query_is(
		"SET lockredis.lease = '${lease_ms}ms'; SELECT redis_lock('renewed')",
		'', 'taken');
	$s->start('SELECT pg_sleep(60)');
	rule_acted();
	$node->wait_for_event($s, 'PgSleep');
	$s->cancel;
	$s->wait(10)->fails('57014', qr/user request/,
		'cancelled while the watchdog renews');
	$s->query_is("SELECT redis_is_held('renewed')", 't', 'still held');
	$s->terminate;
	poll_until('the backend to end', sub { $s->is_gone });
	key_is_free('renewed', 'terminated while the watchdog renews');
	deliver();
	is($redis->cmd('EXISTS', 'renewed'), 0, 'the renewal creates nothing');
	$s->quit;
	nothing_left($node, $redis, name => 'nothing is left of a renewed lock');
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

$_->quit foreach $two, $three;
nothing_left($node, $redis, clients => 2,
	name => 'only the watchdog is connected');
done_testing();
