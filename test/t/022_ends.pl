# Copyright (c) 2026, lockredis contributors

# However a session or the server ends: session-level locks are released by
# DISCARD ALL and by the end of the session however it comes, many keys in one
# pipelined batch, in bounded time; what is not answered is left to the
# watchdog, which at a shutdown of the server serves until nothing is left or
# command_timeout has passed.  Crashes are in 391_primary_failover and 040_watchdog.
# (That a waiter goes on at once is the simulator's: its mutant no_nudge.)
# Proves G4.

use LockRedis::Test;

# The time-outs are far longer than what an end takes that does not have to
# wait for them, so that a test can tell the two apart.  Where a test does not
# say otherwise no lease ends: what goes away has been given back.
my $command_s = limit(10);
my $lease_s = limit(10);
my ($node, $redis) = servers(
	redis => lock_store,
	settings => {
		max_connections => 50,
		client_connection_check_interval => '100ms',
		'lockredis.lease' => '1h',
		'lockredis.command_timeout' => "${command_s}s"
	});

# So many keys need several commands: more than one script takes.
my $many = 250;
my $many_commands = 3;

sub hold_locks ($s, $n)
{
	return $s->value("SELECT count(redis_lock('end ' || i)) FROM generate_series(1, $n) i");
}

sub wait_until_gone ($s)
{
	poll_until('the backend to end', sub { $s->is_gone });
	return;
}

# Locks of other sessions are none of its business.
sub without_keeper { return grep { $_ ne 'keeper' } $redis->all_keys; }

# ----------
# With Redis there: everything is released when the session is gone
# ----------

my %ends = (
	'quit' => sub { $_[0]->quit },
	'a client that is killed' => sub { $_[0]->vanish },
	'pg_terminate_backend, idle' => sub { $_[0]->terminate },
	'pg_terminate_backend, active' => sub {
		my ($s) = @_;
		$s->start('SELECT pg_sleep(600)');
		$node->wait_for_event($s, 'PgSleep');
		$s->terminate;
	},
	'pg_terminate_backend, in a failed transaction' => sub {
		my ($s) = @_;
		$s->query("BEGIN; SELECT 1 / 0");
		$s->terminate;
	},
	'idle_session_timeout' =>
	  sub { $_[0]->query("SET idle_session_timeout = '10ms'") },
	'idle_in_transaction_session_timeout' => sub {
		$_[0]->query("SET idle_in_transaction_session_timeout = '10ms'; BEGIN");
	},
	'a client that is killed while the session waits' => sub {
		my ($s) = @_;
		$s->start("SELECT redis_lock('keeper')");
		$node->wait_for_waiters('keeper', 1);
		$s->vanish;
	});

my $keeper = $node->session;
$keeper->query_is("SELECT redis_lock('keeper', '10 minutes')", '', 'a session that nothing ends');

# Release scripts are known to Redis from here on.
$keeper->query_is("SELECT redis_lock('warm'), redis_unlock('warm')", '|t', 'warming up');

foreach my $end (sort keys %ends)
{
	subtest "$end, $many locks" => sub {
		my $s = $node->session;

		is(hold_locks($s, $many), $many, 'locks held');
		is(scalar(without_keeper()), $many, 'and in Redis');
		my $calls = $redis->script_calls;
		$ends{$end}->($s);
		wait_until_gone($s);

		$calls = $redis->script_calls - $calls if defined $calls;
		is_deeply([ without_keeper() ], [], 'none is left when the session is gone');
		of_redis 'no commands that could be counted' => sub {
			cmp_ok($calls, '<=', $many_commands, "released with $calls commands");
		};
		is($node->count_locks, 1, 'nor anything in the lock table');
		$s->quit;
	};
}

{
	my $s = $node->session;

	hold_locks($s, $many);
	hold_locks($s, 1);
	my $calls = $redis->script_calls;
	$s->query_is('DISCARD ALL', '', "DISCARD ALL, $many locks");
	$calls = $redis->script_calls - $calls if defined $calls;
	is_deeply([ without_keeper() ], [], 'everything is released');
	of_redis 'no commands that could be counted' => sub {
		cmp_ok($calls, '<=', $many_commands, "with $calls commands");
	};
	is($node->count_locks, 1, 'nothing is in the lock table');
	$s->query_is("SELECT redis_is_held('end 1'), redis_try_lock('end 1'), redis_unlock('end 1')",
		'f|t|t', 'locks can be taken again');
	$s->quit;
}

# ----------
# Without Redis
# ----------

# Sessions end, the first one within so many seconds; what they held is left to the watchdog.
sub ends_without ($name, $away, $most, $sqlstate, $back)
{
	my %s = map { $_ => $node->session } qw(quit terminate discard);

	$s{$_}->query(
		"SELECT count(redis_lock('$_ ' || i)) FROM generate_series(1, $many) i")
	  foreach keys %s;
	$away->();
	my $start = now();
	$s{quit}->quit;
	cmp_ok(now() - $start, '<', $most, "Redis $name: a session ends in time");
	$start = now();
	$s{terminate}->terminate;
	wait_until_gone($s{terminate});
	cmp_ok(now() - $start, '<', $command_s, "Redis $name: the next one at once");
	$start = now();
	$s{discard}->query_warns('DISCARD ALL', '', $sqlstate, qr/lock store/, 'DISCARD ALL warns');
	cmp_ok(now() - $start, '<', $command_s, 'and is quick');
	$s{discard}->query_is("SELECT redis_is_held('discard 1')", 'f', 'nothing is held after it');
	$back->();
	poll_until('all to be given back', sub { without_keeper() == 0 });
	$_->quit foreach values %s;
	return;
}

# Redis comes back with its data.
of_redis 'the worker is always started again' => sub {
	ends_without(
		'stopped', sub { $redis->stop(keep => 1) }, $command_s, '58000',
		sub {
			is($node->count_locks('pid IS NULL AND NOT granted'),
				3 * $many, 'the watchdog has it all');
			$redis->start;
			$node->wait_for_up;
		});
};

# Nobody can know that one that is frozen will not answer: the first one waits for
# command_timeout, those after it do not.
ends_without(
	'frozen', sub { $redis->freeze }, $command_s + limit(10), '58030', sub { $redis->thaw });
$keeper->quit;
nothing_left($node, $redis, name => 'nothing is left of sessions');

# ----------
# Stopping the server
# ----------

sub server_is_down { return !-e $node->data_dir . '/postmaster.pid'; }

# Smart: sessions go on, and so does the renewal of their locks; the last one's
# end is the end of the server.
{
	my $lease = limit(6);
	my $s = $node->session(settings => { 'lockredis.lease' => "${lease}s" });

	hold_locks($s, 2);
	kill 'TERM', $node->{_pid};
	poll_until(
		'new sessions to be refused',
		sub {
			my $new = $node->session(may_fail => 1);

			# The server would wait for one that it let in.
			$new->quit;
			return $new->connect_error;
		});
	poll_until('two renewals of both',
		sub { $s->value('SELECT min(renewals) FROM redis_locks WHERE pid = pg_backend_pid()') >= 2 });
	$s->query_is(
		"SELECT redis_is_held('end 1'), redis_is_held('end 2'), redis_unlock('end 2')",
		't|t|t', 'smart stop: locks are renewed as long as there is a session');
	my $start = now();
	$s->quit;
	poll_until('the server to end', \&server_is_down);
	cmp_ok(now() - $start, '<', $command_s, 'smart stop: ended at once');
	of_redis 'the server that has ended has it' => sub {
		is_deeply([ $redis->all_keys ], [], 'smart stop: everything is released');
		poll_until('its connections to end', sub { $redis->clients == 0 });
	};
	$node->stop('fast', fail_ok => 1);
}

# Ten sessions that hold locks and ten that wait, some for the others, some for
# a client elsewhere.
sub busy_sessions
{
	my @holders =
	  map { $node->session(settings => { 'lockredis.lease' => "${lease_s}s" }) }
	  1 .. 10;
	my @waiters = map { $node->session } 1 .. 10;

	$holders[$_]->query(
		"SELECT redis_lock('busy $_ ' || i) FROM generate_series(1, 20) i")
	  foreach 0 .. 9;
	$redis->cmd('HSET', 'elsewhere', 'client', 1);
	foreach my $i (0 .. 9)
	{
		my $key = $i % 2 ? "busy $i 1" : 'elsewhere';
		$waiters[$i]->start("SELECT redis_lock('$key')");
	}
	poll_until('all to wait', sub { $node->count_locks('waiting_since IS NOT NULL') == 10 });
	return (@holders, @waiters);
}

# Fast.
{
	$node->start;
	$node->wait_for_up;
	my @sessions = busy_sessions();
	my $start = now();
	$node->stop('fast');
	my $took = now() - $start;
	cmp_ok($took, '<', $command_s, "fast stop: quick ($took s)");
	of_table 'the server that has ended has it' => sub { $node->start };
	is_deeply([ $redis->all_keys ], ['elsewhere'], 'fast stop: everything is released');
	is_deeply($redis->hash('elsewhere'), { client => 1 }, "somebody else's lock is not touched");
	poll_until('its connections to end', sub { $redis->clients == 0 });
	$redis->cmd('DEL', 'elsewhere');
	$_->quit foreach @sessions;
}

# Fast, with Redis frozen: the sessions wait for command_timeout, and so does
# the watchdog.  What they have sent is done when Redis goes on, or the leases
# end.
of_redis 'the server waits for its worker' => sub {
	$node->append_conf('postgresql.conf', "lockredis.command_timeout = '4s'");
	$node->start;
	$node->wait_for_up;
	my @sessions = busy_sessions();
	$redis->freeze;
	my $start = now();
	$node->stop('fast');
	my $took = now() - $start;
	$redis->thaw;
	cmp_ok($took, '<', 2 * $command_s + limit(10), "fast stop, Redis frozen: bounded ($took s)");
	poll_until('all keys to go', sub { $redis->all_keys == 1 });
	$redis->cmd('DEL', 'elsewhere');
	$_->quit foreach @sessions;
};

# Fast, while a session waits for the reply of a create, which Redis has run: the
# watchdog gives the lock back before it ends.
of_redis 'nothing that could keep a reply' => sub {
	my $proxy = LockRedis::Proxy->new($redis);

	$node->append_conf('postgresql.conf', "lockredis.url = '" . $proxy->url . "'");
	$node->start;
	$node->wait_for_up;
	my $s = $node->session;
	$s->query("SELECT redis_is_locked('unanswered')");
	my $rule = $proxy->rule(on => 'reply', match => 'unanswered', action => 'hold');
	$s->start("SELECT redis_lock('unanswered')");
	$proxy->wait_for_rule($rule);
	is($redis->cmd('EXISTS', 'unanswered'), 1, 'fast stop, no reply: Redis has the lock');
	my $start = now();
	$node->stop('fast');
	my $took = now() - $start;
	cmp_ok($took, '<', $command_s + limit(10), "fast stop, no reply: bounded ($took s)");
	is_deeply([ $redis->all_keys ], [], 'fast stop, no reply: everything is released');
	$s->quit;
	$node->append_conf('postgresql.conf', "lockredis.url = '" . $redis->url . "'");
};

done_testing();
