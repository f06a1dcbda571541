# Copyright (c) 2026, lockredis contributors

# Interrupts at every point: design.md section 2, guarantee 5 (no orphans:
# cancel, statement_timeout, lock_timeout, pg_terminate_backend, a lost or late
# reply, at any point of an acquire, give back whatever was or will be taken,
# and nothing else), and section 6, "Unread replies" (a create that is delivered
# within its budget holds for about one repeat interval of the watchdog, one
# that comes later never holds, no later holder is disturbed).

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);
use Time::HiRes qw(usleep);

# The budget of a request decides how long an orphan is looked after.  No lease
# ends while a test waits: what goes away has been given back.
my $command_ms = limit(2) * 1000;
my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $node = LockRedis::Node->create(
	'main',
	url => $proxy->url,
	settings => {
		'lockredis.lease' => '1h',
		'lockredis.connect_timeout' => "${command_ms}ms",
		'lockredis.command_timeout' => "${command_ms}ms"
	});
my $two = $node->session;
my $three = $node->session;

$node->wait_for_up;

# A session with a connection to the store.
sub connected_session
{
	my $s = $node->session;

	$s->query_is("SELECT redis_is_locked('nothing')", 'f', 'connected');
	return $s;
}

sub rows
{
	my ($key) = @_;

	return $node->value("SELECT count(*) FROM redis_locks WHERE key = '$key'");
}

sub key_is_free
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	poll_until("$key to be free", sub { $redis->cmd('EXISTS', $key) == 0 });
	return pass($name);
}

# A lock of a client elsewhere, and how it gives it back.
sub foreign_lock
{
	my ($key) = @_;

	$redis->cmd('HSET', $key, 'elsewhere:1', 1);
	$redis->cmd('PEXPIRE', $key, 600_000);
	return;
}

sub foreign_release
{
	my ($key) = @_;

	$redis->cmd('DEL', $key);
	$redis->cmd('PUBLISH', "redisson_lock__channel:{$key}", 0);
	return;
}

sub is_awaited
{
	my ($key) = @_;

	return $redis->subscribers("redisson_lock__channel:{$key}") == 1;
}

# What nobody waits for any more has arrived at Redis.
sub deliver
{
	my $calls = $redis->script_calls;

	$proxy->release;
	poll_until('what was held to run',
		sub { $redis->script_calls > $calls });
	return;
}

# After a time-out the node is left to the watchdog until it has answered.
sub wait_until_reachable
{
	$proxy->clear;
	poll_until('the store to be asked again',
		sub { !$two->query("SELECT redis_is_locked('nothing')")->error });
	return;
}

# Every script is in Redis afterwards, so that a fault that is meant for a
# request does not hit the attempt that only finds out that one is missing.
$two->query_is(
	"SET lockredis.lease = '${command_ms}ms'; SELECT redis_lock('warm'), redis_lock('warm')",
	'|', 'warming up');
poll_until('a renewal',
	sub { $node->value('SELECT sum(renewals) > 0 FROM redis_locks') eq 't' });
$two->query_is('RESET lockredis.lease; SELECT redis_unlock_all()',
	1, 'warmed up');

# ----------
# Every way to be stopped at every point
# ----------

my $timeout_ms = limit(0.5) * 1000;
my @stops = (
	{
		name => 'cancel',
		do => sub { $_[0]->cancel },
		fails => [ '57014', qr/canceling statement due to user request/ ]
	},
	{
		name => 'statement_timeout',
		before => "SET statement_timeout = '${timeout_ms}ms'",
		fails => [ '57014', qr/canceling statement due to statement timeout/ ]
	},
	{
		name => 'terminate',
		do => sub { $_[0]->terminate },
		fails =>
		  [ '57P01', qr/terminating connection due to administrator command/ ]
	});

my $rule;

sub hold_next
{
	my ($key, %rule) = @_;

	$rule = $proxy->rule(match => $key, action => 'hold', %rule);
	return;
}

sub rule_acted { $proxy->wait_for_rule($rule); return; }

# A statement_timeout may strike before the test has seen the state it waits
# for; then the statement has gone through it.
sub reached
{
	my ($s, $what, $condition) = @_;

	poll_until($what, sub { $condition->() || !$s->is_running });
	return;
}

sub waits
{
	my ($s, $key) = @_;

	reached($s, 'the session to wait',
		sub {
			$node->value(
				"SELECT count(*) FROM redis_locks WHERE key = '$key' AND waiting_since IS NOT NULL AND pid = "
				  . $s->pid) == 1;
		});
	return;
}

sub waits_for_socket
{
	my ($s) = @_;

	reached($s, 'the session to wait for its socket',
		sub {
			$node->value(
				"SELECT wait_event_type FROM pg_stat_activity WHERE pid = "
				  . $s->pid) eq 'Extension';
		});
	return;
}

# The points.  In each, "before" makes the situation, "sql" is what is stopped,
# "reached" waits until the session is there, and "after" looks at what is left
# once it has been stopped ($alive: the session lives).  After that nothing may
# be left of the session; with "still_held" one hold of a session that lives.
my @points = (
	{
		name => 'while connect() is under way',
		new => 1,
		before => sub { $proxy->mode('hang') },
		reached => \&waits_for_socket,
		after => sub { $proxy->mode('pass') }
	},
	{
		name => 'while the handshake is under way',
		new => 1,
		before => sub { $proxy->mode('silent') },
		reached => \&waits_for_socket,
		after => sub { $proxy->mode('pass'); $proxy->release }
	},

	# The request is on its way.  Delivered in time it runs: nobody has the
	# key.  The watchdog, which has repeated its release all the time, takes
	# back what nobody knows of.
	{
		name => 'with a create on its way that is delivered in time',
		before => sub { hold_next($_[1]) },
		reached => \&rule_acted,
		after => sub {
			my ($s, $key) = @_;
			my $created = $redis->calls('hset');
			deliver();
			is($redis->calls('hset'), $created + 1, 'the create ran');
		}
	},

	# Delivered later it is refused: a release has run after its last moment,
	# and there will be no other one.
	{
		name => 'with a create on its way that is delivered too late',
		before => sub { hold_next($_[1]) },
		reached => \&rule_acted,
		after => sub {
			my ($s, $key) = @_;
			my $created = $redis->calls('hset');
			poll_until('the orphan to be given up', sub { rows($key) == 0 });
			deliver();
			is($redis->calls('hset'), $created, 'the create did nothing');
			is($redis->cmd('EXISTS', $key), 0, 'the key is free');
		}
	},
	{
		name => 'with the reply of a create on its way',
		before => sub { hold_next($_[1], on => 'reply') },
		reached => \&rule_acted,
		after => sub {
			my ($s, $key) = @_;
			key_is_free($key, 'given back before the reply arrives');
			$proxy->release;
		}
	},
	{
		name => 'as first waiter for a session of this server',
		before => sub { $two->query("SELECT redis_lock('$_[1]')") },
		reached => \&waits,
		after => sub {
			my ($s, $key) = @_;
			is(rows($key), 1, 'the wait is over');
			$two->query_is("SELECT redis_is_held('$key'), redis_unlock('$key')",
				't|t', 'the holder is not disturbed');
		}
	},
	{
		name => 'as second waiter for a session of this server',
		before => sub {
			my ($s, $key) = @_;
			$two->query("SELECT redis_lock('$key')");
			$three->start("SELECT redis_lock('$key')");
			$node->wait_for_waiters($key, 1);
		},
		reached => \&waits,
		after => sub {
			my ($s, $key) = @_;
			is(rows($key), 2, 'the wait is over');
			$two->query_is("SELECT redis_is_held('$key'), redis_unlock('$key')",
				't|t', 'the holder is not disturbed');
			is($three->wait->error, undef, 'nor the first waiter');
			$three->query_is("SELECT redis_unlock('$key')", 't', 'given back');
		}
	},

	# The next to wait is the one that is woken.
	{
		name => 'as waiter for somebody else',
		before => sub {
			my ($s, $key) = @_;
			foreign_lock($key);
		},
		reached => sub {
			my ($s, $key) = @_;
			waits($s, $key);
			reached($s, 'the subscription', sub { is_awaited($key) });
		},
		after => sub {
			my ($s, $key) = @_;
			$three->start("SELECT redis_lock('$key')");
			$node->wait_for_waiters($key, 1);
			poll_until('the subscription', sub { is_awaited($key) });
			foreign_release($key);
			is($three->wait->error, undef, 'the next waiter is woken');
			$three->query_is("SELECT redis_unlock('$key')", 't', 'given back');
		}
	},

	# The confirmation of the subscription is held.
	{
		name => 'while a subscription is not confirmed',
		before => sub {
			my ($s, $key) = @_;
			foreign_lock($key);
			hold_next("channel:{$key}", on => 'reply');
		},
		reached => sub { rule_acted(); waits(@_) },
		after => sub {
			my ($s, $key) = @_;
			is(rows($key), 0, 'the wait is over');
			$proxy->release;
			is_deeply($redis->hash($key), { 'elsewhere:1' => 1 },
				"somebody else's lock is not touched");
			$redis->cmd('DEL', $key);
		}
	},
	{
		name => 'while the lock is taken again',
		still_held => 1,
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key', '1 hour')");
			hold_next($key);
		},
		sql => "SELECT redis_lock('KEY', '2 hours')",
		reached => \&rule_acted,
		after => sub {
			my ($s, $key, $alive) = @_;
			if ($alive)
			{
				$s->query_is(
					"SELECT redis_is_held('$key'), redis_hold_count('$key')",
					't|1', 'the lock is held once, as before');
			}
			else
			{
				key_is_free($key, 'given back at the end of the session');
			}
			deliver();
			is($redis->cmd('EXISTS', $key),
				$alive ? 1 : 0, 'the late request creates nothing');
		}
	},
	{
		name => 'while the lease is extended',
		still_held => 1,
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key', '1 hour')");
			hold_next($key);
		},
		sql => "SELECT redis_extend('KEY', '2 hours')",
		reached => \&rule_acted,
		after => sub {
			my ($s, $key, $alive) = @_;
			if ($alive)
			{
				is( $node->value(
						"SELECT lease, expires_in <= '1 hour' FROM redis_locks WHERE key = '$key'"
					),
					'01:00:00|t',
					'the old lease stands');
			}
			else
			{
				key_is_free($key, 'given back at the end of the session');
			}
			deliver();
			is($redis->cmd('EXISTS', $key),
				$alive ? 1 : 0, 'the late request creates nothing');
		}
	},

	# The session is rid of the lock whatever becomes of the request, and the
	# watchdog gives it back.  When the late request arrives the key is
	# somebody else's.
	{
		name => 'with the final release on its way',
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key')");
			hold_next($key);
		},
		sql => "SELECT redis_unlock('KEY')",
		reached => \&rule_acted,
		after => sub {
			my ($s, $key, $alive) = @_;
			key_is_free($key, 'given back all the same');
			$two->query_is("SELECT redis_try_lock('$key')", 't',
				'and taken by another session');
			my $hash = $redis->hash($key);
			deliver();
			is_deeply($redis->hash($key), $hash,
				'whose lock the late release does not touch');
			$two->query_is("SELECT redis_unlock('$key')", 't', 'given back');
		}
	},
	{
		name => 'with the reply of the final release on its way',
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key')");
			hold_next($key, on => 'reply');
		},
		sql => "SELECT redis_unlock('KEY')",
		reached => \&rule_acted,
		after => sub { $proxy->release }
	},

	# Three commands: the first has run, the second is on its way, and the third
	# behind it.
	{
		name => 'in the middle of redis_unlock_all',
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key')");
			$s->query(
				"SELECT count(redis_lock('$key ' || i)) FROM generate_series(1, 249) i");
			hold_next('PUBLISH', skip => 1);
		},
		sql => 'SELECT redis_unlock_all()',
		reached => \&rule_acted,
		after => sub {
			my ($s, $key) = @_;
			poll_until('all to be given back', sub { $redis->all_keys == 0 });
			$proxy->release;
		}
	});

my $number = 0;
foreach my $point (@points)
{
	foreach my $stop (@stops)
	{
		my $key = sprintf 'key %03d', ++$number;

		subtest "$stop->{name} $point->{name}" => sub {
			my $s = $point->{new} ? $node->session : connected_session();
			my $sql = $point->{sql} || "SELECT redis_lock('KEY')";
			my $alive = $stop->{name} ne 'terminate';

			$sql =~ s/KEY/$key/;
			$point->{before}->($s, $key);
			$s->query($stop->{before}) if $stop->{before};
			$s->start($sql);
			$point->{reached}->($s, $key);
			$stop->{do}->($s) if $stop->{do};
			$s->wait(10)->fails(@{ $stop->{fails} }, 'stopped');
			if ($alive)
			{
				$s->query('RESET statement_timeout');
			}
			else
			{
				poll_until('the backend to end', sub { $s->is_gone });
			}
			$point->{after}->($s, $key, $alive);

			# Its connection can be used, the lock can be had again, by others
			# as well.
			if ($alive)
			{
				$s->query_is("SELECT redis_hold_count('$key')",
					$point->{still_held} ? 1 : 0, 'what it holds');
				$s->query_is("SELECT redis_unlock('$key')", 't', 'given back')
				  if $point->{still_held};
				key_is_free($key, 'the key is free');
				$s->query_is(
					"SELECT redis_try_lock('$key', '10 s'), redis_unlock('$key')",
					't|t', 'the session takes it again');
			}
			$two->query_is(
				"SELECT redis_try_lock('$key', '10 s'), redis_unlock('$key')",
				't|t', 'another session takes it');
			$s->quit;
		};
	}
	nothing_left($node, $redis, name => "nothing is left $point->{name}");
}

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
			my $one = connected_session();

			hold_next('contended');
			$one->start("SELECT redis_lock('contended')");
			rule_acted();
			if ($who eq 'a client elsewhere')
			{
				foreign_lock('contended');
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
				sub {
					$node->value(
						q{SELECT count(*) FROM redis_locks WHERE pid IS NULL})
					  == 0;
				}) if $when eq 'too late';
			deliver();
			nothing_left(
				$node, $redis,
				name => 'the request leaves nothing',
				keys => qr/^contended$/) if $who eq 'a client elsewhere';
			poll_until('the orphan to be given up',
				sub {
					$node->value(
						q{SELECT count(*) FROM redis_locks WHERE pid IS NULL})
					  == 0;
				});
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

# ----------
# A wake-up that reaches somebody who gives up
# ----------

# one waits, three behind it; one is stopped by SIGSTOP.  The lock is given back,
# which wakes one, but before it can act on that it is cancelled or terminated.
# So three must be woken, and not sleep until the lease would have ended.
foreach my $stop (grep { $_->{do} } @stops)
{
	my $one = connected_session();

	$two->query_is("SELECT redis_lock('handed on')", '', 'held');
	$one->start("SELECT redis_lock('handed on')");
	$node->wait_for_waiters('handed on', 1);
	$three->start("SELECT redis_lock('handed on')");
	$node->wait_for_waiters('handed on', 2);
	$one->freeze;
	$two->query_is("SELECT redis_unlock('handed on')", 't', 'given back');
	$stop->{do}->($one);
	$one->thaw;
	$one->wait(10)->fails(@{ $stop->{fails} },
		"$stop->{name} just after a wake-up");
	is($three->wait(10)->error, undef, 'the wake-up is handed on');
	$three->query_is("SELECT redis_unlock('handed on')", 't', 'given back');
	$one->quit;
}

# ----------
# Replies that are lost
# ----------

# The create may have run, and the session cannot know.
my @faults = (
	{ name => 'dropped', rule => { on => 'reply', action => 'drop' } },
	{
		name => 'cut short, then the end',
		rule => { on => 'reply', action => 'truncate', bytes => 2 }
	},
	{
		name => 'cut short, then a reset',
		rule => {
			on => 'reply',
			action => 'truncate',
			bytes => 2,
			then => 'reset'
		}
	},
	{ name => 'replaced by a reset', rule => { on => 'reply', action => 'reset' } },
	{ name => 'replaced by the end', rule => { on => 'reply', action => 'close' } },
	{ name => 'kept from us by a reset', rule => { action => 'cut' } },
	{ name => 'of a lost request', rule => { action => 'reset' } });
foreach my $fault (@faults)
{
	subtest "a reply $fault->{name}" => sub {
		my $s = connected_session();

		# A key for each step: the watchdog asks for that of an orphan, too.
		my ($create, $set, $release) =
		  map { "$_ $fault->{name}" } qw(create set release);

		# An acquire fails, and what it may have taken is given back.
		$proxy->rule(match => $create, %{ $fault->{rule} });
		$s->query("SELECT redis_lock('$create')")
		  ->fails('08006', qr/the lock store did not answer/,
			'an acquire fails');
		key_is_free($create, 'what it has taken is given back');
		wait_until_reachable();

		# Taking it again fails and changes nothing here.  Such a request is
		# sent once more over a new connection.
		$s->query_is("SELECT redis_lock('$set')", '', 'the next one does not');
		$proxy->rule(match => $set, times => 2, %{ $fault->{rule} });
		$s->query("SELECT redis_lock('$set')")
		  ->fails('08006', qr/the lock store did not answer/,
			'taking it again fails');
		wait_until_reachable();
		$s->query_is(
			"SELECT redis_hold_count('$set'), redis_unlock('$set'), redis_is_held('$set')",
			'1|t|f', 'and it is held as before');

		# The lock is gone whatever the store does.
		$s->query_is("SELECT redis_lock('$release')", '', 'held');
		$proxy->rule(match => $release, times => 2, %{ $fault->{rule} });
		$s->query_warns("SELECT redis_unlock('$release')",
			't', '08006', qr/the lock store did not answer/,
			'a release warns');
		$s->query_is("SELECT redis_is_held('$release')",
			'f', 'and has happened');
		wait_until_reachable();
		key_is_free($release, 'in Redis too');
		$s->quit;
	};
}
nothing_left($node, $redis, name => 'nothing is left of lost replies');

# A reply that stops in the middle, and a cancel.
{
	my $s = connected_session();

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
	my $s = connected_session();
	my $lease_ms = limit(1.5) * 1000;

	hold_next('renewed', skip => 1);
	$s->query_is(
		"SET lockredis.lease = '${lease_ms}ms'; SELECT redis_lock('renewed')",
		'', 'taken');
	$s->start('SELECT pg_sleep(60)');
	rule_acted();
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

# It limits the waiting for a holder, in all places of the queue.
{
	my $one = $node->session(settings => { lock_timeout => '300ms' });

	$two->query_is("SELECT redis_lock('timeout')", '', 'held');
	$one->query_fails("SELECT redis_lock('timeout')",
		'55P03', qr/canceling statement due to lock timeout/,
		'lock_timeout as first waiter');
	$three->start("SELECT redis_lock('timeout')");
	$node->wait_for_waiters('timeout', 1);
	$one->query_fails("SELECT redis_lock('timeout')",
		'55P03', qr/canceling statement due to lock timeout/,
		'lock_timeout as second waiter');
	$two->query_is("SELECT redis_unlock('timeout')", 't', 'given back');
	is($three->wait->error, undef, 'the other waiter is not disturbed');
	$three->query_is("SELECT redis_unlock('timeout')", 't', 'given back');

	foreign_lock('timeout');
	$one->query_fails("SELECT redis_lock('timeout')",
		'55P03', qr/canceling statement due to lock timeout/,
		'lock_timeout while somebody else has it');
	is_deeply($redis->hash('timeout'), { 'elsewhere:1' => 1 },
		'whose lock is not touched');
	$one->query_is("SELECT redis_try_lock('timeout', '50 ms')", 'f',
		'a shorter wait decides');
	$one->query_fails("SELECT redis_try_lock('timeout', '1 hour')",
		'55P03', qr/canceling statement due to lock timeout/,
		'and so does a shorter lock_timeout');
	$redis->cmd('DEL', 'timeout');

	# A request in flight is not cut by it.
	hold_next('timeout');
	$one->start("SELECT redis_lock('timeout')");
	rule_acted();
	pause(0.4);
	ok($one->is_running, 'lock_timeout does not cut a request');
	$proxy->release;
	my $result = $one->wait;
	ok(!$result->error || $result->sqlstate eq '08006',
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
	my $one = connected_session();

	foreign_lock('caught');
	$one->start(<<'SQL');
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
	$node->wait_for_waiters('caught', 1);
	hold_next('caught');
	$one->cancel;
	rule_acted();
	$one->cancel;
	$node->wait_for_waiters('caught', 1);
	poll_until('the subscription', sub { is_awaited('caught') });
	foreign_release('caught');
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

# ----------
# Storms
# ----------

# The lock protects a read-add-write step on a sequence: setval neither waits
# for anybody nor is undone by an abort.  Each session counts its steps in a
# sequence of its own, in the same expression, where no interrupt is looked for.
# Two sessions in the step at once lose one of two additions.
my $seed = $ENV{LOCKREDIS_TEST_SEED} || time;
my @workers = map { connected_session() } 1 .. 4;

# Sockets and the like: files of tables and sequences come and go.
sub sockets_of
{
	my ($s) = @_;
	my $pid = $s->pid;

	opendir my $dir, "/proc/$pid/fd" or die "could not look at $pid: $!";
	return scalar grep { (readlink("/proc/$pid/fd/$_") || '') =~ /^(?:socket|anon_inode):/ }
	  readdir $dir;
}
my @sockets = map { sockets_of($_) } @workers;

srand $seed;
note "seed $seed; LOCKREDIS_TEST_SEED sets it";
$node->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE counter MINVALUE 0;
CREATE SEQUENCE steps_1 MINVALUE 0;
CREATE SEQUENCE steps_2 MINVALUE 0;
CREATE SEQUENCE steps_3 MINVALUE 0;
CREATE SEQUENCE steps_4 MINVALUE 0;
CREATE SEQUENCE cancels;
CREATE SEQUENCE stop;

CREATE FUNCTION step(worker text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	seen bigint;
BEGIN
	PERFORM redis_lock('storm');
	SELECT last_value INTO seen FROM counter;
	PERFORM pg_sleep(0.001);
	PERFORM setval('counter', seen + 1), nextval(worker);
	PERFORM redis_unlock('storm');
END $$;

CREATE FUNCTION work(worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT (SELECT is_called FROM stop) LOOP
		BEGIN
			PERFORM step(worker);
		EXCEPTION WHEN query_canceled THEN
			PERFORM nextval('cancels');
		END;
		LOOP
			BEGIN
				PERFORM redis_unlock_all();
				EXIT;
			EXCEPTION WHEN query_canceled THEN
				PERFORM nextval('cancels');
			END;
		END LOOP;
	END LOOP;
END $$;
SQL

sub begin_storm
{
	$node->safe_psql('postgres',
		q{SELECT setval('counter', 0), setval('steps_' || i, 0) FROM generate_series(1, 4) i}
	);
	return;
}

sub end_storm
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($counter, $steps) = split /\|/, $node->value(
		q{SELECT c.last_value, a.last_value + b.last_value + d.last_value + e.last_value
		  FROM counter c, steps_1 a, steps_2 b, steps_3 d, steps_4 e});

	is($counter, $steps, "$name: no step was lost");
	cmp_ok($steps, '>', 0, "$name: $steps steps were made");
	$_->query("SELECT redis_is_locked('nothing')") foreach @workers;
	is_deeply([ map { sockets_of($_) } @workers ],
		\@sockets, "$name: no descriptor was lost");
	nothing_left($node, $redis, name => "$name: nothing is left");
	return;
}

# Cancels strike the four of them at random moments, wherever they are.  One
# that strikes between the blocks ends the loop, which is then started again.
begin_storm();
my %fatal;
my $start = sub {
	my ($i) = @_;
	$workers[$i]->start("SELECT work('steps_" . ($i + 1) . "')");
};
my $collect = sub {
	my ($i) = @_;
	my $result = $workers[$i]->wait;
	$fatal{ $result->{raw} } = 1
	  if $result->error && $result->sqlstate ne '57014';
};
$start->($_) foreach 0 .. 3;
foreach my $round (1 .. 200)
{
	my $i = int rand 4;

	usleep(int rand 20_000);
	$workers[$i]->cancel;
	foreach my $j (0 .. 3)
	{
		next if $workers[$j]->is_running;
		$collect->($j);
		$start->($j);
	}
}
$node->value(q{SELECT nextval('stop')});
$collect->($_) foreach 0 .. 3;
is_deeply([ keys %fatal ], [], 'cancelled at random: no other error');
$_->query('SELECT redis_unlock_all()') foreach @workers;
cmp_ok($node->value('SELECT last_value FROM cancels'),
	'>=', 20, 'cancelled at random: many cancels struck a lock function');
end_storm('cancelled at random');

# The same with time limits of 1 to 20 ms.
begin_storm();
%fatal = ();
my $struck = 0;
foreach my $round (1 .. 30)
{
	foreach my $i (0 .. 3)
	{
		my $ms = 1 + int rand 20;
		$workers[$i]->start(
			"SET statement_timeout = '${ms}ms'; SELECT step('steps_"
			  . ($i + 1)
			  . "') FROM generate_series(1, 5)");
	}
	foreach my $worker (@workers)
	{
		my $result = $worker->wait;
		$struck++ if defined $result->error && $result->sqlstate eq '57014';
		$fatal{ $result->{raw} } = 1
		  if defined $result->error && $result->sqlstate ne '57014';

		# With 1 ms even this may be too slow.
		poll_until('the time limit to be taken away',
			sub { !$worker->query('RESET statement_timeout')->error });
		$worker->query('SELECT redis_unlock_all()');
	}
}
is_deeply([ keys %fatal ], [], 'timed out at random: no other error');
cmp_ok($struck, '>=', 20, 'timed out at random: many time-outs');
end_storm('timed out at random');

$_->quit foreach @workers, $two, $three;
nothing_left($node, $redis, clients => 2,
	name => 'only the watchdog is connected');
done_testing();
