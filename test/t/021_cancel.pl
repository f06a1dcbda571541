# Copyright (c) 2026, lockredis contributors

# Interrupts, and what meets them: a cancel and pg_terminate_backend give back whatever was
# or will be taken, and nothing else; lock_timeout; a block that catches the cancel.
# A create that is delivered within its budget holds for about one repeat interval
# of the watchdog.  (One that comes later, a next holder before the request of the one who was
# stopped arrives, a waiter behind others or one that asks before its subscription stands, and a
# release without an answer are the simulator's: its mutants late_create, lua_create_late,
# no_orphan, lua_release_owner, front_stays, give_up_quietly and release_unknown.)
# Proves G5, G18.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# ----------
# Every way to be stopped at every point
# ----------

# statement_timeout is a cancel, with other words: 059_blocked_owner has it.
my %stops = (
	cancel => [ '57014', qr/canceling statement due to user request/ ],
	terminate => [ '57P01', qr/terminating connection due to administrator command/ ]);

sub waits ($s, $key)
{
	return poll_until('the session to wait',
		sub { $node->count_locks("key = '$key' AND waiting_since IS NOT NULL AND pid = " . $s->pid) == 1 });
}

# The points.  In each, "before" makes the situation; with "has" the session has the lock,
# with this lease, and with "hold" its next request, or the reply, is held.  "sql" is what is
# stopped, "reached" waits until the session is there (else until that is held), and "after"
# looks at what is left once it has been stopped ($alive: the session lives).  After that
# nothing may be left of the session; with "still_held" one hold of a session that lives.
my @points = (
	{
		name => 'while connect() is under way',
		new => 1,
		before => sub { $proxy->mode('hang') },
		reached => sub { $node->wait_for_event($_[0], 'Extension') },
		after => sub { $proxy->mode('pass') }
	},
	{
		name => 'while the handshake is under way',
		new => 1,
		before => sub { $proxy->mode('silent') },
		reached => sub { $node->wait_for_event($_[0], 'Extension') },
		after => sub { $proxy->mode('pass'); $proxy->release }
	},

	# The request is on its way.  Delivered in time it runs: nobody has the
	# key.  The watchdog, which has repeated its release all the time, takes
	# back what nobody knows of.
	{
		name => 'with a create on its way that is delivered in time',
		hold => [],
		after => sub {
			my ($s, $key) = @_;
			my $created = $redis->calls('hset');
			deliver();
			is($redis->calls('hset'), $created + 1, 'the create ran');
		}
	},
	{
		name => 'in the middle of the reply of a create',
		hold => [ on => 'reply', action => 'truncate', bytes => 2, then => 'hold' ],
		after => sub {
			my ($s, $key) = @_;
			key_is_free($key, 'given back before the rest of it arrives');
			$proxy->release;
		}
	},
	{
		name => 'as first waiter for a session of this server',
		before => sub { $two->query("SELECT redis_lock('$_[1]')") },
		reached => \&waits,
		after => sub {
			my ($s, $key) = @_;
			is($node->count_locks("key = '$key'"), 1, 'the wait is over');
			$two->query_is("SELECT redis_is_held('$key'), redis_unlock('$key')",
				't|t', 'the holder is not disturbed');
		}
	},

	# The next to wait is the one that is woken.
	{
		name => 'as waiter for somebody else',
		before => sub {
			my ($s, $key) = @_;
			$redis->foreign_lock($key);
		},
		reached => sub {
			my ($s, $key) = @_;
			waits($s, $key);
			poll_until('the subscription', sub { is_awaited($key) });
		},
		after => sub {
			my ($s, $key) = @_;
			$three->start("SELECT redis_lock('$key')");
			$node->wait_for_waiters($key, 1);
			poll_until('the subscription', sub { is_awaited($key) });
			$redis->foreign_unlock($key);
			is($three->wait->error, undef, 'the next waiter is woken');
			$three->query_is("SELECT redis_unlock('$key')", 't', 'given back');
		}
	},
	{
		name => 'while the lease is extended',
		still_held => 1,
		has => q{, '1 hour'},
		hold => [],
		sql => "SELECT redis_extend('KEY', '2 hours')",
		after => sub {
			my ($s, $key, $alive) = @_;
			$alive
			  ? is($node->value("SELECT lease, expires_in <= '1 hour' FROM redis_locks WHERE key = '$key'"),
				'01:00:00|t', 'the old lease stands')
			  : key_is_free($key, 'given back at the end of the session');
			deliver();
			is($redis->cmd('EXISTS', $key), $alive ? 1 : 0, 'the late request creates nothing');
		}
	},

	# The session is rid of the lock whatever becomes of the request, and the
	# watchdog gives it back.  When the late request arrives the key is
	# somebody else's.
	{
		name => 'with the final release on its way',
		has => '',
		hold => [],
		sql => "SELECT redis_unlock('KEY')",
		after => sub {
			my ($s, $key, $alive) = @_;
			key_is_free($key, 'given back all the same');
			$two->query_is("SELECT redis_try_lock('$key')", 't', 'and taken by another session');
			my $hash = $redis->hash($key);
			deliver();
			is_deeply($redis->hash($key), $hash, 'whose lock the late release does not touch');
			$two->query_is("SELECT redis_unlock('$key')", 't', 'given back');
		}
	},

	# Three commands: the first has run, the second is on its way, and the third
	# behind it.
	{
		name => 'in the middle of redis_unlock_all',
		before => sub {
			my ($s, $key) = @_;
			$s->query("SELECT redis_lock('$key')");
			$s->query("SELECT count(redis_lock('$key ' || i)) FROM generate_series(1, 249) i");
			poll_until('nothing else to be released', sub { $node->count_locks('pid IS NULL') == 0 });
			hold_next('redisson_lock__channel', skip => 1);
		},
		sql => 'SELECT redis_unlock_all()',
		after => sub {
			my ($s, $key) = @_;
			poll_until('all to be given back', sub { $redis->all_keys == 0 });
			$proxy->release;
		}
	});

# A session at the point, and its key
my $number = 0;

sub session_at ($point)
{
	my $key = sprintf 'key %03d', ++$number;
	my $s = $point->{new} ? $node->session : $node->connected_session;
	my $sql = $point->{sql} || "SELECT redis_lock('KEY')";

	$s->query("SELECT redis_lock('$key'$point->{has})") if defined $point->{has};
	$point->{before}->($s, $key) if $point->{before};
	hold_next($key, @{ $point->{hold} }) if $point->{hold};
	$s->start($sql =~ s/KEY/$key/r);
	$point->{reached} ? $point->{reached}->($s, $key) : rule_acted();
	return ($s, $key);
}

foreach my $point (@points)
{
	foreach my $stop (sort keys %stops)
	{
		subtest "$stop $point->{name}" => sub {
			my ($s, $key) = session_at($point);
			my $alive = $stop ne 'terminate';

			$s->$stop;
			$s->wait(10)->fails(@{ $stops{$stop} }, 'stopped');
			poll_until('the backend to end', sub { $s->is_gone }) if !$alive;
			$point->{after}->($s, $key, $alive);

			# Its connection can be used, the lock can be taken again, by others
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
}
nothing_left($node, $redis, name => 'nothing is left of all of them');

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
}

# ----------
# Time limits that are lowered while a create is on its way
# ----------

# The next watchdog, too, looks after it for as long as its session would have waited.
{
	my $one = $node->connected_session;

	hold_next('lowered');
	$one->start("SELECT redis_lock('lowered')");
	rule_acted();
	$one->cancel;
	$one->wait(10)->fails('57014', qr/user request/, 'cancelled');
	$node->set(map { ("lockredis.${_}_timeout" => '300ms') } 'connect', 'command');
	$node->replace_watchdog;
	pause(2);
	is($node->count_locks("key = 'lowered'"), 1, 'lowered time limits: it is not forgotten');
	deliver();
	$one->quit;
	nothing_left($node, $redis, name => 'lowered time limits: given back');
}

end_test($node, $redis, clients => 1, name => 'only the watchdog is connected');
