# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::RedisLocks - locks in a Redis, as another client sees and writes them

=head1 SYNOPSIS

  $redis->owner_of('key');
  $redis->foreign_lock('key');                # somebody:1, for ten minutes
  $redis->foreign_lock('key', owner => 'elsewhere:1', ms => 500);
  $redis->foreign_unlock('key');              # how many were notified
  $redis->wait_for_subscribers('key', 1);
  $redis->after_second_look('key', sub { $s->start("SELECT redis_lock('key')") });
  $redis->wait_for_key('key', 0);             # until it is gone
  $redis->replace_owner('key', 'thief');
  $redis->token('key'); $redis->set_token('key', 7);

=head1 DESCRIPTION

Part of LockRedis::Redis: what knows how Redisson keeps a lock.

=cut

package LockRedis::RedisLocks;

use LockRedis::Pragmas;

use Carp;
use LockRedis::Wait qw(now poll_until);

# The fencing token handed out last; undef: none
sub token ($self, $key) { return $self->cmd('GET', _counter($key)); }

# undef: the counter is lost
sub set_token ($self, $key, $value)
{
	$self->cmd(defined $value ? ('SET', _counter($key), $value) : ('DEL', _counter($key)));
	return;
}

sub _counter ($key) { return 'redisson_lock_token:' . ($key =~ /\{.+\}/ ? $key : "{$key}"); }

# How an owner of that name is shown: see LockRedis::Table.
sub somebody ($self, $name) { return $name; }

# Somebody else has the lock now.
sub replace_owner ($self, $key, $owner)
{
	$self->cmd(
		'EVAL',
		q{redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 600000)},
		1, $key, $owner);
	return;
}

# The owner of a lock, which has to be the only field there.
sub owner_of ($self, $key)
{
	my @fields = keys %{ $self->hash($key) };

	return @fields == 1 ? $fields[0] : scalar(@fields) . ' owners';
}

# A lock of a client elsewhere, as Redisson would write it.  owner and ms are
# what they are for most tests.
sub foreign_lock ($self, $key, %opts)
{
	$self->cmd('HSET', $key, $opts{owner} // 'somebody:1', 1);
	$self->cmd('PEXPIRE', $key, $opts{ms} || 600_000);
	return;
}

# Whoever has it has it no longer, and those who wait are notified: how many.
sub foreign_unlock ($self, $key)
{
	$self->cmd('DEL', $key);
	return $self->tell_waiters($key);
}

sub tell_waiters ($self, $key) { return $self->cmd('PUBLISH', $self->channel($key), '0'); }

# Where the release of a lock is published
sub channel ($self, $key) { return 'redisson_lock__channel:' . ($key =~ /\{/ ? $key : "{$key}"); }

sub wait_for_subscribers ($self, $key, $count)
{
	return poll_until("$count subscribers of $key",
		sub { $self->subscribers($self->channel($key)) == $count });
}

# A session begins to wait for what somebody elsewhere has, as the first of its server,
# and nobody else calls scripts meanwhile.  It asks once more when the channel is
# subscribed to; a test that holds, counts or answers its next request has to wait for
# that.  Until the subscription is confirmed it also looks once a second, so if that took
# long, only the silence of more than a second tells that it sleeps.
sub after_second_look ($self, $key, $begin, %opts)
{
	my $channel = $opts{channel} // $self->channel($key);
	my ($began, $first) = (now(), $self->script_calls);
	my ($calls, $since) = ($first, $began);

	$begin->();
	return poll_until(
		"a second look at $key",
		sub {
			my $now = $self->script_calls;

			($calls, $since) = ($now, now()) if $now != $calls;
			return 0 if $calls < $first + 2 || !$self->subscribers($channel);
			return now() - $since > ($since - $began < 0.9 ? 0.2 : 1.5);
		});
}

# Until it is there, or is gone.
sub wait_for_key ($self, $key, $there)
{
	return poll_until("$key " . ($there ? 'to be there' : 'to be gone'),
		sub { $self->cmd('EXISTS', $key) == $there });
}

1;
