# Copyright (c) 2026, lockredis contributors

# A server that answers in every way that Redis does not: wrong types, lengths
# and numbers, nesting, errors, bytes that are no protocol, replies cut, doubled,
# unasked, sliced, endless or missing.  test/fuzz/hostile spoils the replies of a
# real Redis.
#
# Checked, whatever is sent to a session, the watchdog or the listener:
# - no process dies of it;
# - each call ends within its budget, with a result that can be or with an error
#   of a documented kind, in the encoding of the client;
# - memory and descriptors do not grow;
# - when the server behaves again everything works, and nothing is left.
#
# LOCKREDIS_FUZZ_SEED and LOCKREDIS_FUZZ_CASES choose others; what a case was
# answered is found by its number in the log of the hostile server.
#
# Proves G28.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use Batch qw(run_batch states is_text);
use Hostile;
use LockRedis::Test;
use Process qw(sockets private_kb);

my $seed = $ENV{LOCKREDIS_FUZZ_SEED} || 1;
my $cases = $ENV{LOCKREDIS_FUZZ_CASES} || 1500;
note "seed $seed, $cases cases";

# Those who connect again only after a pause get fewer.
my $few = $cases / 100 < 60 ? $cases / 100 : 60;

# What a case costs that gets no answer.
my $connect_ms = limit(200);
my $command_ms = limit(100);

sub timeouts ($connect, $command)
{
	return ('lockredis.connect_timeout' => "${connect}ms", 'lockredis.command_timeout' => "${command}ms");
}

# Where an answer is what is looked for, it may take its time.
my @calm = timeouts(limit(10_000), limit(10_000));

my $redis = LockRedis::Redis->new;
my $hostile = Hostile->new($redis, $seed);
my $node = LockRedis::Node->create('main',
	url => $hostile->url,
	settings => { @calm, log_min_error_statement => 'panic' });
$node->wait_for_up;
$node->log_since_here;
my $watchdog = $node->watchdog_pid;

sub hostile_to ($who, $what, $percent, %more)
{
	return $hostile->attack(
		who => $who,
		what => $what,
		percent => $percent,
		%more);
}

# ----------
# Replies to requests
# ----------

# What may come out of a call beside its result, class 58, and 22003 for a
# counter that the server says is used up: 42809 for something that is no lock,
# 40001 or 55000 for one that is said to be gone (a transaction's or a session's),
# 55P03 for waiting too long, and what follows in a block, 25P02 and 3B001.
my @calls = (
	[ q{SELECT redis_try_lock(:'k')}, qw(42809) ],
	[ q{SELECT redis_try_lock(:'k', '5ms', '6s')}, qw(42809 55P03) ],
	[ q{SELECT redis_lock(:'k')}, qw(42809 55P03) ],
	[
		q{SELECT redis_try_lock(:'k'); SELECT redis_try_lock(:'k'); SELECT redis_unlock(:'k')},
		qw(42809 55000)
	],
	[ q{SELECT redis_try_xact_lock(:'k')}, qw(42809 40001) ],
	[
		q{BEGIN; SELECT redis_try_xact_lock(:'k'); SAVEPOINT s; SELECT redis_try_xact_lock(:'k' || 'b'); ROLLBACK TO s; COMMIT},
		qw(42809 40001 25P02 3B001)
	],
	[
		q{BEGIN; SET LOCAL lockredis.commit_guard = 'verify'; SELECT redis_try_xact_lock(:'k'); INSERT INTO written VALUES (1); COMMIT},
		qw(42809 40001 25P02)
	],
	[ q{SELECT redis_try_fenced_lock(:'k'); SELECT redis_fence(:'k')}, qw(42809) ],
	[ q{SELECT redis_try_fenced_xact_lock(:'k')}, qw(42809 40001) ],
	[
		q{SELECT redis_try_lock(:'k'); SELECT redis_try_fenced_lock(:'k')},
		qw(42809 55000)
	],
	[ q{\set had f
	SELECT redis_try_lock(:'k') AS had \gset
	\if :had
	SELECT redis_extend(:'k', '6s'); SELECT redis_extend(:'k', NULL); SELECT redis_unlock(:'k');
	\endif
	}, qw(42809 40001) ],
	[
		q{SELECT redis_try_lock(:'k' || n) FROM generate_series(1, 20) n; SELECT redis_unlock_all()},
		qw(42809 55000)
	],
	[ q{SELECT redis_lock_owner(:'k')}, qw(42809) ],
	[ q{SELECT redis_is_locked(:'k'), redis_lock_ttl(:'k')}, qw(42809) ],
	[ q{SELECT redis_force_unlock(:'k')}, qw(42809) ],
	[
		q{CALL redis_with_lock(:'k', 'SELECT 1', hold_at_least => '20ms')},
		qw(42809 55000)
	]);
my @always = qw(58000 58030 22003);

$node->safe_psql('postgres', q{
	CREATE TABLE written (n int);
	-- A node that let a request time out is asked by the watchdog only.
	CREATE PROCEDURE wait_until_heard() LANGUAGE plpgsql AS $$
	DECLARE
		detail text := 'lately';
	BEGIN
		WHILE detail ~ 'lately' LOOP
			BEGIN
				detail := '';
				PERFORM redis_is_locked('heard');
			EXCEPTION WHEN system_error OR io_error THEN
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
				PERFORM pg_sleep(0.005);
			END;
		END LOOP;
	END $$});

# What is behind the keys: nothing, a foreign lock, a token lock, a list.
sub plant ($n)
{
	my $key = "fuzz:$n:";
	my $kind = $n % 7;

	if ($kind == 1)
	{
		$redis->foreign_lock($key);
	}
	$redis->cmd('SET', $key, 'token', 'PX', 600_000) if $kind == 3;
	$redis->cmd('RPUSH', $key, 'x') if $kind == 5;
	return;
}

# How often each SQLSTATE was seen.
my %seen;

# Whether a case has ended as it may.
sub judge ($what, $call, $result)
{
	my %may = map { ("ERROR $_" => 1, "WARNING $_" => 1) } @always,
	  @$call[1 .. $#$call];
	my @states = states($result);
	my @wrong = grep { !$may{$_} && $_ ne 'WARNING 01000' } @states;

	$seen{$_}++ foreach @states;
	push @wrong, 'words without an SQLSTATE'
	  if $result->{raw} ne '' && !@states;
	push @wrong, 'not in the encoding of the client' unless is_text($result);
	diag "$what, $call->[0]: @wrong\n", $result->out, $result->{raw} if @wrong;
	return @wrong ? 1 : 0;
}

# Runs cases [from, to] and returns how many went wrong.
sub run_cases ($session, $from, $to)
{
	my $wrong = 0;

	plant($_) foreach $from .. $to;
	my @results = run_batch(
		$session,
		map {
			"\\set k fuzz:$_:\n$calls[ $_ % @calls ][0];\n"
			  . 'SELECT redis_unlock_all(); CALL wait_until_heard()'
		} $from .. $to);
	$wrong += judge("case $_", $calls[ $_ % @calls ], shift @results)
	  foreach $from .. $to;
	$redis->cmd('DEL', map { "fuzz:$_:" } $from .. $to);
	return $wrong;
}

sub does_not_grow ($pid, $before, $name)
{
	my $after = private_kb($pid);

	return unless defined $after;
	return cmp_ok($after - $before, '<', 4096, "$name does not grow by 4 MB");
}

# No call here lasts more than two budgets: one to take, one to give back.  The
# rest is for slow machines.  Who hangs is cut by it, and 57014 is in no list of
# what may come out.
#
# The lease is short, because a lock may have been taken though the session is
# told that it was not: only its end frees that.
my $one = $node->session(
	settings => {
		statement_timeout => 2 * ($connect_ms + $command_ms) + limit(20_000),
		lock_timeout => 6,
		'lockredis.lease' => '5s'
	});
is(run_cases($one, 1, 200), 0, 'nothing is wrong when nothing is spoiled');
ok(!grep({ /ERROR 58/ } keys %seen), 'and no call fails for the server')
  || diag join ', ', map { "$_: $seen{$_}" } sort keys %seen;

$node->set(timeouts($connect_ms, $command_ms));
my $before = private_kb($one->pid);
my $watchdog_before = private_kb($watchdog);
my $sockets = sockets($one->pid);
my $wrong = 0;
hostile_to('session', 'reply', 70);
for (my $n = 1000; $n < 1000 + $cases; $n += 250)
{
	my $last = $n + 249 < 999 + $cases ? $n + 249 : 999 + $cases;
	$wrong += run_cases($one, $n, $last);
}
is($wrong, 0, 'each call with spoiled replies ends as it may');
note 'raised: ', join ', ', map { "$_: $seen{$_}" } sort keys %seen;
cmp_ok($hostile->spoiled, '>', $cases / 2, 'many replies were spoiled');

# ----------
# Greetings
# ----------

# Each call makes a connection of its own.
hostile_to('session', 'greeting', 50, once => 1);
my $spoiled = $hostile->spoiled;
%seen = ();
$wrong = 0;
$wrong += judge('greeting', ['redis_is_locked'], $_)
  foreach run_batch($one,
	(q{SELECT redis_is_locked('greeted'); CALL wait_until_heard()}) x
	  ($cases / 5));
is($wrong, 0, 'each call on a spoiled connection ends as it may');
note 'raised: ', join ', ', map { "$_: $seen{$_}" } sort keys %seen;
cmp_ok($hostile->spoiled - $spoiled, '>', $cases / 20,
	'many greetings were spoiled');

$hostile->good;
$node->set(@calm);
$node->wait_until_asked($one);
$one->query_is(
	q{SELECT redis_try_lock('good'), redis_unlock('good')},
	't|t', 'the session works with a server that behaves');
is(sockets($one->pid), $sockets, 'and has no socket more');
does_not_grow($one->pid, $before, 'the session');

# ----------
# The watchdog
# ----------

$node->set(timeouts($connect_ms, $command_ms));

# Renewals of many locks, and orphans that the losses leave, while the session
# takes what it has lost again.
$one->query(q{
	SET lockredis.lease = '400ms';
	CREATE PROCEDURE keep_taking() LANGUAGE plpgsql AS $$
	BEGIN
		FOR k IN 1 .. 40 LOOP
			BEGIN
				IF NOT redis_is_held('kept' || k) THEN
					PERFORM redis_try_lock('kept' || k);
				END IF;
			EXCEPTION WHEN object_not_in_prerequisite_state THEN
				PERFORM redis_unlock('kept' || k);
			END;
		END LOOP;
	END $$;
	SET client_min_messages = error;
});
# Both of its greetings and of its replies are spoiled, until there were some of each.
sub spoil_for ($who, $do)
{
	foreach my $what ('greeting', 'reply')
	{
		hostile_to($who, $what, $what eq 'greeting' ? 15 : 30, once => $what eq 'greeting');
		my $before = $hostile->spoiled;
		poll_until("the $who to have got spoiled replies ($what)",
			sub { $do->(); $hostile->spoiled - $before >= $few }, 60);
	}
	$hostile->good;
	return;
}

spoil_for('watchdog',
	sub {
		my $result = $one->query('CALL keep_taking()');
		die "the session was lost: $result->{raw}" if $result->dead;
	});
$node->wait_for_up;
is($node->watchdog_pid, $watchdog, 'the watchdog has survived');
$one->query('SELECT redis_unlock_all(); RESET lockredis.lease');

# ----------
# The listener
# ----------

# Three sessions wait for foreign locks, whose release is told all the time.  They are
# answered, and wait for that as long as they did when they began, since a statement goes
# by the settings of its beginning; who listens is cut off by silence after a second.
$node->set(@calm);
my @waiters = map { $node->session } 1 .. 3;
foreach my $i (0 .. 2)
{
	$redis->foreign_lock("awaited$i");
	$waiters[$i]->start("SELECT redis_lock('awaited$i')");
}
$node->wait_for_waiters("awaited$_", 1) foreach 0 .. 2;
$node->set(timeouts(limit(1000), limit(1000)));
my $tell = sub { $redis->cmd('PUBLISH', "redisson_lock__channel:{awaited$_}", 0) foreach 0 .. 2 };
spoil_for('listener', $tell);
$redis->cmd('DEL', "awaited$_") foreach 0 .. 2;
foreach my $i (0 .. 2)
{
	# Without a message of the deletion: a poll a second, or a message.
	poll_until("waiter $i to have its lock", sub { $tell->(); !$waiters[$i]->is_running });
	is($waiters[$i]->wait->error, undef, "waiter $i has its lock");
}
is($node->watchdog_pid, $watchdog, 'the watchdog has survived');
does_not_grow($watchdog, $watchdog_before, 'the watchdog');

# ----------
# After all this
# ----------

unlike(
	$node->log_text,
	qr/terminated by signal|PANIC|TRAP|invalid memory|out of memory|server process .* was/i,
	'nothing in the server log speaks of a crash');
end_test($node, $redis, keys => qr/^redisson_lock_token:/);
