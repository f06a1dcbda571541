# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Kinds - each kind of lock, and what is counted, as others wait for it

=head1 SYNOPSIS

  step('fair', 'take', 'k');         # the SQL of a step: take, wait, free, end
  my %key = map { $_ => "a-$_" } @kinds;
  begin_waits($store, $holder, $server, %key);    # has each, and another session of the server waits
  ...
  end_waits('meanwhile', %key);      # they wait still; each is given back, had, and given back

=cut

package LockRedis::Topic::Kinds;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw(@kinds step does begin_waits end_waits);

# What one has or does first, what the other one waits for, what ends that, and what gives back in
# the end; %s is the key.
my $steps = <<'LIST';
reentrant | redis_lock(%s) | redis_lock(%s) | redis_unlock(%s) | redis_unlock(%s)
fenced | redis_fenced_lock(%s) | redis_fenced_lock(%s) | redis_unlock(%s) | redis_unlock(%s)
fair | redis_fair_lock(%s) | redis_fair_lock(%s) | redis_unlock(%s) | redis_unlock(%s)
read | redis_read_lock(%s) | redis_write_lock(%s) | redis_read_unlock(%s) | redis_write_unlock(%s)
write | redis_write_lock(%s) | redis_read_lock(%s) | redis_write_unlock(%s) | redis_read_unlock(%s)
permit | redis_permit_init(%s, 1), redis_permit_lock(%s) | redis_permit_lock(%s) | redis_permit_unlock(%s) | redis_permit_unlock(%s)
token | redis_token_lock(%s, '10min', 'mine') | redis_token_lock(%s, '10min', 'yours') | redis_token_unlock(%s, 'mine') | redis_token_unlock(%s, 'yours')
semaphore | redis_semaphore_init(%s, 1), redis_semaphore_acquire(%s) | redis_semaphore_acquire(%s) | redis_semaphore_release(%s) | redis_semaphore_release(%s)
latch | redis_latch_init(%s, 1) | redis_latch_wait(%s) | redis_latch_count_down(%s) | 1
condition | 1 | redis_lock(%s), redis_condition_wait(%s) | redis_lock(%s), redis_condition_notify(%s), redis_unlock(%s) | redis_unlock(%s)
LIST

my %calls;

foreach (split /\n/, $steps)
{
	my ($kind, @calls) = split / \| /;

	@{ $calls{$kind} }{qw(take wait free end)} = @calls;
}
our @kinds = sort keys %calls;

my ($holder, %waiter);

sub step ($kind, $step, $key) { return 'SELECT ' . $calls{$kind}{$step} =~ s/%s/'$key'/gr; }

sub does ($session, $kind, $step, $key, $name)
{
	return is($session->query(step($kind, $step, $key))->error, undef, "$kind: $name");
}

sub begin_waits ($store, $has, $server, %key)
{
	$holder = $has;
	foreach my $kind (sort keys %key)
	{
		does($holder, $kind, 'take', $key{$kind}, 'taken');
		$waiter{$kind} //= $server->session;
		$server->queue_up($key{$kind}, $waiter{$kind} => step($kind, 'wait', $key{$kind}));
	}
	poll_until('the one who waits for a condition to have said so',
		sub { grep { /condition_alive:.*\Q$key{condition}\E/ } $store->all_keys })
	  if $key{condition};
	return;
}

sub end_waits ($when, %key)
{
	foreach my $kind (sort keys %key)
	{
		ok($waiter{$kind}->is_running, "$kind: is waited for $when");
		does($holder, $kind, 'free', $key{$kind}, "given back $when");
		is($waiter{$kind}->wait(limit(60))->error, undef, "$kind: taken by the one that has waited $when");
		does($waiter{$kind}, $kind, 'end', $key{$kind}, 'given back by him');
	}
	return;
}

1;
