# Copyright (c) 2026, lockredis contributors

# Who has it?  Whoever waits for a lock that is held elsewhere shows its owner, as Redis
# named it last: in redis_locks.blocked_by_owner, in the line of log_lock_waits, and in a
# CONTEXT line of each error that ends the wait.  A lock of this server is shown by its
# process.  An error that ends no wait has no such line, and no command is sent for it.
# Proves G36.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three, $viewer) = servers(
	sessions => 4, settings => { 'lockredis.command_timeout' => '10s' });

$viewer->query('CREATE ROLE nobody_of_us LOGIN; GRANT pg_read_all_stats TO nobody_of_us');

# Of the sessions that wait for the key, in the order in which they came
sub owners ($key, $as = undef)
{
	return ($as // $viewer)->value(
		"SELECT coalesce(string_agg(coalesce(blocked_by_owner, '-'), ' ' ORDER BY waiting_since), '')
		 FROM redis_locks WHERE waiting_since IS NOT NULL" . ($key ? " AND key = '$key'" : ''));
}

sub poll_owners ($key, $owners, $name)
{
	poll_until("$key to be blocked by $owners", sub { owners($key) eq $owners });
	return pass($name);
}

# The lines of an error that say where it was raised
sub context ($result) { return join "\n", $result->{raw} =~ /^CONTEXT:  (.*)$/mg; }

sub end_waits
{
	$_->cancel foreach @_;
	return map { $_->wait(20) } @_;
}

# ----------
# The view
# ----------

{
	$redis->foreign_lock('a', owner => 'elsewhere:7');
	$one->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	poll_owners('a', 'elsewhere:7', 'the owner elsewhere, as Redis has named it');
	$two->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 2);
	is(owners('a'), 'elsewhere:7 elsewhere:7', 'also for one that is behind and has not asked');

	my $stranger = $node->session(user => 'nobody_of_us');
	is(owners('', $stranger), 'elsewhere:7 elsewhere:7', 'pg_read_all_stats may see it');
	$viewer->query('REVOKE pg_read_all_stats FROM nobody_of_us');
	is(owners('', $stranger), '- -', 'others may not, as they may not see the key');
	$stranger->quit;

	# Another one has taken it meanwhile: known with the next answer.
	$redis->cmd('EVAL', q{redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'elsewhere:8', 1)
		return redis.call('PEXPIRE', KEYS[1], 600000)}, 1, 'a');
	$redis->tell_waiters('a');
	poll_owners('a', 'elsewhere:8 elsewhere:8', 'the next owner');

	# Of this server.
	$redis->foreign_unlock('a');
	$one->wait(20);
	is(owners('a'), '-', 'no owner elsewhere while a session of this server has it');
	is($viewer->value("SELECT blocked_by FROM redis_locks WHERE pid = " . $two->pid),
		'{' . $one->pid . '}', 'but that session');
	$one->query_is("SELECT redis_unlock('a')", 't');
	$two->wait(20);
	is($viewer->value("SELECT count(*) FROM redis_locks WHERE blocked_by_owner IS NOT NULL"),
		0, 'who does not wait is blocked by nobody');
	$two->query_is("SELECT redis_unlock('a')", 't');
}

# One that is found by no session: nobody waits, and the number is no pid of ours.
is($viewer->value("SELECT lockredis_blocked_by_owner(pg_backend_pid()) IS NULL
		AND lockredis_blocked_by_owner(-1) IS NULL AND lockredis_blocked_by_owner(0) IS NULL"),
	't', 'processes that do not wait');

# ----------
# Errors that end a wait
# ----------

{
	$redis->foreign_lock('a', owner => 'elsewhere:7');
	my $held = 'while waiting for Redis lock "a", held by owner "elsewhere:7"';

	my $result = $one->query("SET lock_timeout = '100ms'; SELECT redis_lock('a')");
	$result->fails('55P03', qr/lock timeout/, 'lock_timeout');
	is(context($result), $held, 'names key and owner');
	$one->query('RESET lock_timeout');

	# The one behind knows what the first one was told.
	$one->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	poll_owners('a', 'elsewhere:7', 'the first one waits');
	$two->start("SELECT redis_xact_lock('a')");
	$node->wait_for_waiters('a', 2);
	$three->query('SET statement_timeout = ' . limit(3000));
	$result = $three->query("SELECT redis_lock('a')");
	$result->fails('57014', qr/statement timeout/, 'statement_timeout');
	is(context($result), $held, 'names key and owner, behind others, too');
	$three->query('RESET statement_timeout');
	is(context($_), $held, 'so does a cancel') foreach end_waits($one, $two);

	# As a part of something else
	$one->query("SET lock_timeout = '100ms'");
	$result = $one->query(q{DO $$ BEGIN PERFORM redis_lock('a'); END $$});
	like(context($result), qr/^\Q$held\E$/m, 'in PL/pgSQL');
	like($result->{raw}, qr/PL\/pgSQL function inline_code_block/, 'besides its own lines');
	$result = $one->query("SELECT redis_multi_lock('{b,a}'::text[])");
	is(context($result), $held, 'of several keys the one that is not free');
	$one->query('RESET lock_timeout; SELECT redis_unlock_all()');
	poll_until('nothing to be left of the waits', sub { $node->count_locks('true') == 0 });

	# Only the server log has the last words of a session that is ended.
	my $four = $node->session;
	$four->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	poll_owners('a', 'elsewhere:7', 'one that is to be terminated waits');
	$node->log_since_here;
	$four->terminate;
	poll_until('it to be logged', sub { $node->logged(qr/FATAL: .*administrator command/) });
	# PostgreSQL 19 says who has sent the signal.
	like($node->log_text, qr/FATAL: .*\n(?:.*DETAIL: .*\n)?.*CONTEXT:  \Q$held\E\n/, 'FATAL');
	$four->quit;
	$redis->cmd('DEL', 'a');
}

# Held by a session of this server
{
	$one->query("SELECT redis_lock('a')");
	my $pid = $one->pid;
	foreach (1, 2)
	{
		my $result = $two->query("SET lock_timeout = '100ms'; SELECT redis_lock('a')");
		is(context($result), qq{while waiting for Redis lock "a", held by process $pid},
			'a process of this server');
	}
	$two->query('RESET lock_timeout');
	$one->query("SELECT redis_unlock('a')");
}

# ----------
# Other kinds
# ----------

# Cancels a statement once it waits, and is known to be blocked by that owner; its CONTEXT
sub context_of ($sql, $key, $owner = undef)
{
	$two->start("SELECT $sql");
	$node->wait_for_waiters($key, 1);
	poll_owners($key, $owner // '-', "$sql: waits");
	my ($result) = end_waits($two);
	$result->fails('57014', qr/user request/, "$sql: cancelled");
	return context($result);
}

$redis->cmd('HSET', 'w', 'mode', 'write', 'elsewhere:7:write', 1);
$redis->cmd('HSET', 'r', 'mode', 'read', 'elsewhere:7', 1);
$redis->cmd('PEXPIRE', $_, 600_000) foreach 'w', 'r';
$redis->foreign_lock('f', owner => 'elsewhere:7');
$redis->cmd('SET', 't', 'secret', 'PX', 600_000);
$viewer->query("SELECT redis_latch_set('l', 1), redis_permit_set('p', 0)");
foreach my $case (
	[ w => "redis_read_lock('w')", 'elsewhere:7', 'lock "w", blocked by owner "elsewhere:7"' ],
	[ w => "redis_write_lock('w')", 'elsewhere:7', 'lock "w", blocked by owner "elsewhere:7"' ],
	[ r => "redis_write_lock('r')", 'read', 'lock "r", held by readers' ],
	[ f => "redis_fair_lock('f')", 'elsewhere:7', 'lock "f", blocked by owner "elsewhere:7"' ],
	[ t => "redis_lock('t')", 'token', 'lock "t", held by a token' ],
	[ l => "redis_latch_wait('l')", undef, 'latch "l"' ],
	[ s => "redis_semaphore_acquire('s')", undef, 'semaphore "s"' ],
	[ p => "redis_permit_lock('p')", undef, 'permit "p"' ])
{
	my ($key, $sql, $owner, $context) = @$case;

	is(context_of($sql, $key, $owner), "while waiting for Redis $context", $sql);
}
$two->query("SELECT redis_lock('c')");
is(context_of("redis_condition_wait('c')", 'c'),
	'while waiting for a condition of Redis lock "c"', 'a condition');
$two->query('SELECT redis_unlock_all()');

# Bytes of somebody else
$redis->foreign_lock('x', owner => "\xff\x01\"");
my $context = context_of("redis_lock('x')", 'x', '\xff\x01"');
is($context, 'while waiting for Redis lock "x", held by owner "\xff\x01""',
	'an owner that is no text');

# Characters that would control a terminal, or end the line
{
	my $shown = '\x1b[2J\x0a\x7f\xc2\x9b' . "\xc3\xa9:1";

	$redis->foreign_lock('x1', owner => "\x1b[2J\x0a\x7f\xc2\x9b\xc3\xa9:1");
	$viewer->query_is("SELECT redis_lock_owner('x1')", $shown, 'controls: the owner');
	is(context_of("redis_lock('x1')", 'x1', $shown),
		"while waiting for Redis lock \"x1\", held by owner \"$shown\"", 'controls: the view and the context');

	# Whoever takes it away
	$two->query("SELECT redis_lock('x2')");
	$redis->cmd('DEL', 'x2');
	$redis->foreign_lock('x2', owner => "\x1b[2J\x0a\x7f\xc2\x9b\xc3\xa9:1");
	$two->query("SELECT redis_extend('x2', '1 min')");
	$viewer->query_is("SELECT lost_reason FROM redis_locks WHERE key = 'x2'", "taken by $shown", 'controls: a loss');

	# The watchdog writes that, which has no database and so no encoding.
	poll_until('the loss to be logged', sub { $node->logged(qr/lost the session-level lock "x2"/) });
	ok($node->logged(qr/lost the session-level lock "x2": taken by \Q$shown\E$/m), 'controls: the log');
	$two->query_fails("SELECT redis_assert_held('x2')", '55000', qr/taken by \Q$shown\E, seen/, 'controls: its error');
	$two->query('SELECT redis_unlock_all()');
}

# Characters that the client's encoding lacks do not replace the error by another one.
{
	my $star = "\xe2\x98\x86";

	$redis->foreign_lock($star, owner => $star);
	$two->query("SET lock_timeout = '100ms'");
	foreach (
		[ 'LATIN1', 'lock "\xe2\x98\x86", held by owner "\xe2\x98\x86"' ],
		[ 'UTF8', qq{lock "$star", held by owner "$star"} ])
	{
		my ($encoding, $shown) = @$_;
		my $result =
		  $two->query("SET client_encoding = '$encoding'; SELECT redis_lock(U&'\\2606')");

		$result->fails('55P03', qr/lock timeout/, "a name that $encoding has or lacks");
		is(context($result), "while waiting for Redis $shown", 'is shown so that it can be read');
	}
	$two->query('RESET lock_timeout');
}
is($redis->cmd('FLUSHALL'), 'OK');

# ----------
# The log, and what is no wait
# ----------

{
	$redis->foreign_lock('a', owner => 'elsewhere:7');
	$node->log_since_here;
	$one->query("SET log_lock_waits = on; SET deadlock_timeout = '50ms'");
	$one->start("SELECT redis_lock('a')");
	$node->wait_for_waiters('a', 1);
	$two->query("SET log_lock_waits = on; SET deadlock_timeout = '50ms'");
	$two->start("SELECT redis_lock('a')");
	my ($first, $second) = map { $_->pid } $one, $two;

	poll_until('both to be logged',
		sub { $node->times_logged(qr/still waiting for Redis lock "a"/) == 2 });
	like($node->log_text,
		qr/process $first still waiting.*\n.*DETAIL:  No process of this server is holding the lock\. Owner elsewhere: elsewhere:7\. Wait queue: $first/,
		'log_lock_waits names the owner');
	like($node->log_text,
		qr/process $second still waiting.*\n.*DETAIL: .*Owner elsewhere: elsewhere:7\. Wait queue: $first, $second\./,
		'also for the second one');
	unlike($node->log_text, qr/CONTEXT/, 'and does not say so twice');
	my ($result) = end_waits($one);
	end_waits($two);
	$_->query('RESET ALL') foreach $one, $two;

	# A try that does not wait, and an error without a wait
	$one->query_is("SELECT redis_try_lock('free'), redis_unlock('free')", 't|t');
	my @commands = grep { !/\[\d+ lua\]/ } $redis->session_commands(
		sub {
			$one->query_is("SELECT redis_try_lock('a')", 'f');
			$one->query_is("SELECT redis_try_lock('free'), redis_unlock('free')", 't|t');
		});
	is(scalar @commands, 3, 'a try is one command, and a pair two');
	$redis->cmd('DEL', 'a');
	$redis->cmd('HSET', 'a', 'x', 'y', 'z', 'u');
	$result = $one->query("SELECT redis_lock('a')");
	$result->fails('42809', qr/does not hold a reentrant lock/, 'an error without a wait');
	is(context($result), '', 'has no context');
	$redis->cmd('DEL', 'a');
}

# Nobody knows who has it: the store does not answer.
{
	$one->query("SELECT redis_try_lock('warm'), redis_unlock('warm')");
	$one->query('SET statement_timeout = ' . limit(2000));
	$redis->freeze;
	my $result = $one->query("SELECT redis_lock('a')");
	$result->fails('57014', qr/statement timeout/, 'Redis does not answer');
	is(context($result), 'while waiting for Redis lock "a"', 'it is known for what was waited');
	$redis->thaw;
	$one->query('RESET ALL');
	$node->wait_for_up;
}

end_test($node, $redis);
