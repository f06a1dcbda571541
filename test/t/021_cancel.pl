# Copyright (c) 2026, lockredis contributors

# Interrupts at every point of an acquire: a cancel and pg_terminate_backend give back whatever was
# or will be taken, and nothing else.
# A create that is delivered within its budget holds for about one repeat interval
# of the watchdog, one that comes later never holds.
# Proves G5.

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

sub waits
{
	my ($s, $key) = @_;

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

	# Delivered later it is refused: a release has run after its last moment,
	# and there will be no other one.
	{
		name => 'with a create on its way that is delivered too late',
		hold => [],
		after => sub {
			my ($s, $key) = @_;
			my $created = $redis->calls('hset');
			poll_until('the orphan to be given up', sub { $node->count_locks("key = '$key'") == 0 });
			deliver();
			is($redis->calls('hset'), $created, 'the create did nothing');
			is($redis->cmd('EXISTS', $key), 0, 'the key is free');
		}
	},
	{
		name => 'with the reply of a create on its way',
		hold => [ on => 'reply' ],
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
			is($node->count_locks("key = '$key'"), 1, 'the wait is over');
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
			is($node->count_locks("key = '$key'"), 2, 'the wait is over');
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

	# The confirmation of the subscription is held.  Until it comes the session looks once
	# a second, and may be stopped while it does, which leaves an orphan.
	{
		name => 'while a subscription is not confirmed',
		before => sub {
			my ($s, $key) = @_;
			$redis->foreign_lock($key);
			hold_next("channel:{$key}", on => 'reply');
		},
		reached => sub { rule_acted(); waits(@_) },
		after => sub {
			my ($s, $key) = @_;
			is($node->count_locks("key = '$key' AND pid IS NOT NULL"), 0, 'the wait is over');
			$proxy->release;
			is_deeply($redis->hash($key), { 'somebody:1' => 1 },
				"somebody else's lock is not touched");
			$redis->cmd('DEL', $key);
		}
	},
	{
		name => 'while the lock is taken again',
		still_held => 1,
		has => q{, '1 hour'},
		hold => [],
		sql => "SELECT redis_lock('KEY', '2 hours')",
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
		has => q{, '1 hour'},
		hold => [],
		sql => "SELECT redis_extend('KEY', '2 hours')",
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
		has => '',
		hold => [],
		sql => "SELECT redis_unlock('KEY')",
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
		has => '',
		hold => [ on => 'reply' ],
		sql => "SELECT redis_unlock('KEY')",
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

sub session_at
{
	my ($point) = @_;
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

end_test($node, $redis, clients => 2, name => 'only the watchdog is connected');
