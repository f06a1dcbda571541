# Copyright (c) 2026, lockredis contributors

# What a backend and the watchdog use does not grow over 10,000 pairs of lock
# and unlock, 5,000 errors, 500 connections that were lost, and 500 errors
# without a store.
#
# Looked at: memory of the processes and memory contexts, sockets, rows of the
# lock table, keys and connections in Redis.  Not the memory of the processes under
# the address sanitizer, which keeps what was freed: what is left to be seen there
# is an access after that.
#
# Proves G30.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use LockRedis::Test;
use Process qw(sockets private_kb);

# Memory that is free at the end of the heap goes back at once, so that the
# size of a process does not depend on what it was at its largest.
local $ENV{MALLOC_TRIM_THRESHOLD_} = 1;
local $ENV{MALLOC_TOP_PAD_} = 0;

my ($node, $redis, $session) = servers(sessions => 1);

# A session that waits keeps a subscription, which has to be made anew too.
my $waiter = $node->session;

$node->safe_psql('postgres', q{
	-- Each kind of lock, scope and lease, time about; one round is 10 pairs.
	CREATE PROCEDURE pairs(rounds int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. rounds LOOP
			FOR j IN 1 .. 6 LOOP
				PERFORM redis_lock('leak' || j);
				PERFORM redis_unlock('leak' || j);
			END LOOP;
			PERFORM redis_try_lock('leak', '1s', '1min');
			PERFORM redis_try_lock('leak');
			PERFORM redis_unlock('leak');
			PERFORM redis_unlock('leak');
			PERFORM redis_fenced_lock('leak');
			PERFORM redis_unlock_all();
			BEGIN
				PERFORM redis_xact_lock('leak');
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
			END;
			PERFORM redis_xact_lock('leak');
			COMMIT;
		END LOOP;
	END $$;

	-- Errors of every place an acquire can fail in; one round is 10.
	CREATE PROCEDURE errors(rounds int) LANGUAGE plpgsql AS $$
	DECLARE
		command text;
		n int := 0;
	BEGIN
		FOR i IN 1 .. rounds LOOP
			FOREACH command IN ARRAY ARRAY[
				$q$SELECT redis_lock(NULL)$q$,
				$q$SELECT redis_lock(repeat('x', 256))$q$,
				$q$SELECT redis_lock('leak', '1ms')$q$,
				$q$SELECT redis_lock('a list')$q$,
				$q$SELECT redis_fenced_xact_lock('a list')$q$,
				$q$SELECT redis_is_locked('a list')$q$,
				$q$SELECT redis_force_unlock('a list')$q$,
				$q$SELECT redis_extend('leak', '1min')$q$,
				$q$SELECT redis_assert_held('leak')$q$,
				$q$SELECT redis_lock('leak'), redis_xact_lock('leak2'), 1 / 0$q$]
			LOOP
				BEGIN
					EXECUTE command;
				EXCEPTION WHEN OTHERS THEN
					n := n + 1;
				END;
			END LOOP;
			PERFORM redis_unlock_all();
			COMMIT;
		END LOOP;
		IF n <> 10 * rounds THEN
			RAISE 'only % errors', n;
		END IF;
	END $$;

	CREATE PROCEDURE unreached(n int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				PERFORM redis_lock('leak');
				RAISE 'the store is there';
			EXCEPTION WHEN system_error OR io_error THEN
			END;
		END LOOP;
	END $$;
});
$redis->cmd('RPUSH', 'a list', 'x');

sub usage
{
	my $watchdog = $node->watchdog_pid;

	return {
		contexts => $session->value(
			'SELECT sum(total_bytes) FROM pg_backend_memory_contexts'),
		session => private_kb($session->pid),
		watchdog => private_kb($watchdog),
		watchdog_pid => $watchdog,
		pid => [ $session->pid, $watchdog ],
		sockets => [ sockets($session->pid), sockets($watchdog) ]
	};
}

sub run ($sql)
{
	my $result = $session->query($sql, 600);

	die "$sql: $result->{raw}" if $result->dead || $result->error;
	return;
}

# So many times: connections are killed, and the session makes its own anew.  Not that of the
# waiter, which fails when the store ends two in a row with its question.
sub reconnect ($times)
{
	my $before = $node->lock_stat('connects');
	my $wrong = 0;

	foreach my $i (1 .. $times)
	{
		$redis->kill_clients($_) foreach 'session-' . $session->pid . '$', 'watchdog';
		my $result = $session->query(q{SELECT redis_try_lock('leak'), redis_unlock('leak')});
		$wrong++ unless $result->out eq 't|t' && $result->{raw} eq '';
	}
	is($wrong, 0, "$times lost connections were not noticed");
	cmp_ok($node->lock_stat('connects') - $before, '>=', $times, 'and were made anew');
	return;
}

# Those of these kinds that have a connection all the time.
sub all_connected (@roles)
{
	foreach my $role (@roles)
	{
		poll_until("a connection of the $role",
			sub { grep { $_->{name} =~ /^lockredis-$role-/ } $redis->clients });
	}
	return;
}

# What grows by $kb is a leak: 20 bytes a pair or error, 120 bytes a connection;
# malloc() has none smaller than 24.
sub does_not_grow ($what, $kb, $roles, $code)
{
	all_connected(@$roles);
	my $before = usage();
	$code->();
	all_connected(@$roles);
	my $after = usage();
	note sprintf '%s: contexts %+d bytes, session %+d kB, watchdog %+d kB',
	  $what, map { ($after->{$_} || 0) - ($before->{$_} || 0) }
	  qw(contexts session watchdog);

	cmp_ok($after->{contexts}, '<=', $before->{contexts} + 16384,
		"$what: memory contexts")
	  || diag $session->value(
		q{SELECT string_agg(name || ' ' || total_bytes, ', ') FROM pg_backend_memory_contexts WHERE total_bytes > 50000}
	  );
	is($after->{watchdog_pid}, $before->{watchdog_pid}, "$what: same watchdog");
	foreach my $process ('session', 'watchdog')
	{
		next unless defined $after->{$process};
		cmp_ok($after->{$process} - $before->{$process},
			'<', $kb, "$what: memory of the $process");
	}
	no_more_sockets($what, $before->{pid}, $before->{sockets});
	return;
}

# One more may be just open, as when the watchdog tries an address: it goes, a leak stays.
sub no_more_sockets ($what, $pids, $before)
{
	foreach my $i (0, 1)
	{
		my $now;
		eval {
			poll_until('sockets to go',
				sub { ($now = sockets($pids->[$i])) <= $before->[$i] }, 30);
		};
		cmp_ok($now, '<=', $before->[$i], "$what: sockets of the " . qw(session watchdog) [$i]);
	}
	return;
}

# The session waits for a key afterwards, so that the listener is connected again, which it need not
# be while nobody listens.
sub without_store ($times)
{
	$redis->stop;
	run("CALL unreached($times)");
	$redis->start;
	$node->wait_for_up;
	$redis->cmd('HSET', 'foreign', 'foreign:1', 1);    # without end
	$node->queue_up('foreign', $session => q{SELECT redis_lock('foreign')});
	all_connected('listener');
	$redis->cmd('DEL', 'foreign');
	$redis->tell_waiters('foreign');
	is($session->wait(30)->error, undef, 'there is a store again');
	$session->query_is(q{SELECT redis_unlock('foreign')}, 't', 'which gave a lock');
	return;
}

# Warm up.
run('CALL pairs(500)');
run('CALL errors(100)');
without_store(100);
$redis->cmd('RPUSH', 'a list', 'x');
$redis->cmd('HSET', 'foreign', 'foreign:1', 1);    # without end
$node->queue_up('foreign', $waiter => q{SELECT redis_lock('foreign')});
reconnect(200);

my @all = qw(session watchdog listener);
does_not_grow('pairs', 200, \@all, sub { run('CALL pairs(1000)') });
does_not_grow('errors', 100, \@all, sub { run('CALL errors(500)') });
does_not_grow('connections', 60, \@all, sub { reconnect(500) });

is( $node->value(
		q{SELECT acquires >= 10000 AND connects >= 500 FROM redis_lock_stats}),
	't', 'that much was done');
is($node->count_locks, 1, 'only the waiter is in the lock table');
$redis->cmd('DEL', 'foreign', 'a list');
$redis->tell_waiters('foreign');
is($waiter->wait(30)->error, undef, 'the waiter gets its lock');
$waiter->quit;

without_store(10);
does_not_grow('errors without a store', 60, \@all, sub { without_store(500) });

end_test($node, $redis, keys => qr/^redisson_lock_token:\{leak\}$/);
