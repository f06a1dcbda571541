# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Twins - the same operations in Redis mode and in table mode

=head1 SYNOPSIS

  my $twins = LockRedis::Twins->new;       # foreign => 1: with Redisson
  $twins->finds_a_difference;              # TAP
  $twins->agree_on(1 .. 10);               # TAP: a test for each of these seeds

=head1 DESCRIPTION

Two servers, one with a Redis and one with a table, are told the same: random operations of
three sessions each, one after the other.  One that has to wait goes on waiting while the others
do what comes next.  After each operation both come to rest: whoever waits has somebody to wait
for.  Then all that was answered and all that can be seen must be the same: the outcome of each
call (value, SQLSTATE, words), rows of redis_locks, what sessions have, what the store says of
each key.  Times count in units of ten minutes, so that nothing of it depends on how long it took.

Where both differ a shorter sequence is looked for, and printed with its seed.

=cut

package LockRedis::Twins;

use strict;
use warnings FATAL => 'all';

use LockRedis::Node;
use LockRedis::Redis;
use LockRedis::Redisson;
use LockRedis::Table;
use LockRedis::Twins::Differences qw(is_avoided);
use LockRedis::Twins::Operations qw(draw is_waiting_form);
use LockRedis::Twins::Side;
use LockRedis::Wait qw(limit now pause);
use Test::More;

# A failure of either side is found after this: nothing takes so long.
my $patience = 20;

# Both may be the same a moment later, as one is slower.
my $soon = 10;

# So many operations of a seed
my $length = 40;

my $serial = 0;

sub new
{
	my ($class, %opts) = @_;
	my $redis = LockRedis::Redis->new;
	my $java = $opts{foreign} ? LockRedis::Redisson->new : undef;
	my %settings = (

		# Whoever waits in a circle is not looked for: who of them is the victim is decided by
		# moments.
		deadlock_timeout => '1h',
		'lockredis.lease' => '30min',
		'lockredis.command_timeout' => '20s');
	my %store = (redis => $redis, table => LockRedis::Table->new);

	# Its lease, too, is longer than any test.
	$java->connect('f', $redis, watchdog => 3_600_000) if $java;
	my %sides = map {
		my $node = LockRedis::Node->create($_, redis => $store{$_}, settings => {%settings});

		$_ => LockRedis::Twins::Side->new(
			name => $_,
			node => $node,
			foreign => $opts{foreign},
			java => $_ eq 'redis' ? $java : undef);
	} keys %store;
	return bless { %opts, sides => \%sides, redis => $redis }, $class;
}

sub sides
{
	my ($self) = @_;

	return map { $self->{sides}{$_} } qw(redis table);
}

# ----------
# One operation
# ----------

# Both sides are asked at the same time.
sub _look
{
	my ($self) = @_;

	$_->ask foreach $self->sides;
	$_->look foreach $self->sides;
	return;
}

# Until nothing more happens at either side, and both are the same.  Gives what was answered
# and what is seen, as text, of each.
sub _come_to_rest
{
	my ($self, @who) = @_;
	my $until = now() + limit($patience);
	my $equal_until = now() + limit($soon);
	my %answers = map { $_->{name} => {} } $self->sides;

	while (1)
	{
		my (%text, @unrest);

		foreach my $side ($self->sides)
		{
			my %new = $side->outcomes;

			$answers{ $side->{name} }{$_} = $new{$_} foreach keys %new;
		}
		$self->_look;
		foreach my $side ($self->sides)
		{
			my $unrest = $side->unrest;

			push @unrest, "$side->{name}: $unrest" if $unrest;
		}
		if (!@unrest)
		{
			foreach my $side ($self->sides)
			{
				$side->ask_session($_) foreach @who;
			}
			foreach my $side ($self->sides)
			{
				my $name = $side->{name};
				my $answers = $answers{$name};

				$text{$name} = join "\n",
				  (map { "$_: answered $answers->{$_}" } sort keys %$answers), $side->state;
			}
			return %text if $text{redis} eq $text{table} || now() > $equal_until;
		}
		elsif (now() > $until)
		{
			return (redis => '', table => "does not come to rest: @unrest");
		}
		pause(0.001);
	}
	return;
}

# What an operation cannot be begun with, on both sides alike
sub _cannot_begin
{
	my ($self, $op) = @_;
	my $side = $self->{sides}{redis};
	my $who = $op->{who};

	return !$side->is_running($who) if $op->{sql} eq 'cancel';
	return 1 if $side->is_running($who);
	return 1 if $op->{lapse} && $side->{seen}{state}{$who} ne 'idle';

	my ($key) = $op->{sql} =~ /\{(\w)\}/ or return 0;
	my @rows = grep { $_->{key} eq $key } @{ $side->{seen}{locks} };
	return 1 if is_avoided($op, $side->{seen}{keys}{$key} // {}, \@rows);

	# Who waits for what in which order
	my $class = is_waiting_form($op->{sql}) or return 0;
	$class = _queue_of($who, @rows) if $class eq 'condition';
	return grep { $_->{waits} && _queue_of($_->{who}, $_) ne $class } @rows;
}

# Fair locks are waited for in Redis, all else in the queue of the server.
sub _queue_of
{
	my ($who, @rows) = @_;

	return (grep { $_->{who} eq $who && $_->{kind} eq 'fair' } @rows) ? 'fair' : 'queue';
}

# A lease that is to end has ended, unless it was had for longer before.
sub _await_lapse
{
	my ($self, $op) = @_;
	my $until = now() + limit($patience);
	my ($key) = $op->{sql} =~ /\{(\w)\}/;

	foreach my $side ($self->sides)
	{
		while (now() < $until)
		{
			$side->ask;
			last unless grep { $_->{who} eq $op->{who} && $_->{key} eq $key && $_->{granted} && $_->{ends} < 10 }
			  @{ $side->look->{locks} };
			pause(0.01);
		}
	}
	return;
}

# Does it on both sides; undef, or how they differ.
sub _step
{
	my ($self, $op) = @_;
	my %done;

	foreach my $side ($self->sides)
	{
		$op->{sql} eq 'cancel' ? $side->cancel($op->{who}) : $side->start($op);
	}
	if ($op->{lapse})
	{
		foreach my $side ($self->sides)
		{
			pause(0.002) while $side->{running}{ $op->{who} }{session}->is_running;
		}
		$self->_await_lapse($op);
	}
	my %text = $self->_come_to_rest($op->{ask_all} ? qw(s0 s1 s2) : grep { /^s/ } $op->{who});
	return if $text{redis} eq $text{table};
	return _difference(%text);
}

sub _difference
{
	my (%text) = @_;
	my %in = map {
		my $side = $_;
		$side => { map { $_ => 1 } split /\n/, $text{$side} }
	} keys %text;
	my @lines;

	foreach my $case ([ 'redis', 'table' ], [ 'table', 'redis' ])
	{
		my ($one, $other) = @$case;

		push @lines, map { "  only $one: $_" } grep { !$in{$other}{$_} } sort keys %{ $in{$one} };
	}
	return join "\n", @lines;
}

# ----------
# A sequence
# ----------

# What ends a sequence: nobody waits, nobody has anything.
sub _ending
{
	my ($self) = @_;
	my @sessions = $self->{sides}{table}->names_of_sessions;

	return ((map { { who => $_, sql => 'cancel' } } qw(s0 s1 s2) x 2),
		(map { { who => $_, sql => 'ROLLBACK' } } qw(s0 s1 s2)),
		(map { { who => $_, sql => 'DISCARD ALL' } } qw(s0 s1 s2)),
		(map { { who => 'admin', sql => "SELECT redis_force_unlock({$_})" } } qw(a b p)));
}

# Runs it; undef, or where and how both differ.
sub run
{
	my ($self, @operations) = @_;
	my $prefix = sprintf 'q%d-', ++$serial;
	my $number = 0;
	my %used = map { $_ => 1 } map { $_->{sql} =~ /\{=?(\w)\}/g } @operations;

	$_->use_prefix($prefix, sort keys %used) foreach $self->sides;
	$self->_look;
	foreach my $op (@operations, $self->_ending)
	{
		$number++;

		# Now and then all are asked what they have, not only who has just done something.
		$op->{ask_all} = $number % 8 == 0 || $number > @operations;
		next if $self->_cannot_begin($op);
		my $difference = $self->_step($op) or next;

		my $out_of_turn = grep { $_->may_be_out_of_turn } $self->sides;
		$_->begin_anew foreach $self->sides;
		return { at => $number, difference => $difference, out_of_turn => $out_of_turn };
	}
	$self->{sides}{table}{session}{$_}->query('SELECT redis_unlock_all()')
	  foreach grep { /^f/ } $self->{sides}{table}->names_of_sessions;
	return;
}

# TAP: a number that is in Redis only is found.
sub finds_a_difference
{
	my ($self) = @_;

	$self->{redis}->cmd('SET', sprintf('q%d-s', $serial + 1), 5);
	my $failure = $self->run({ who => 's1', sql => 'SELECT redis_semaphore_release({s}, 1)' });
	is( $failure && $failure->{difference},
		"  only redis: s semaphore: 6\n  only table: s semaphore: 1",
		'a difference is found');
	return;
}

# A shorter sequence that fails, too: what can be left out is left out, large parts first.
sub _shortened
{
	my ($self, $failure, @operations) = @_;
	my $until = now() + limit(60);

	splice @operations, $failure->{at};
	for (my $size = int(@operations / 2); $size >= 1; $size = int($size / 2))
	{
		for (my $from = 0; $from < @operations && now() < $until;)
		{
			my @fewer = @operations;

			splice @fewer, $from, $size;
			my $again = $self->run(@fewer);
			if ($again)
			{
				splice @fewer, $again->{at};
				($failure, @operations) = ($again, @fewer);
			}
			else
			{
				$from += $size;
			}
		}
	}
	return ($failure, @operations);
}

sub _printed
{
	my ($op) = @_;

	return "  $op->{who}: " . ($op->{redisson} ? "$op->{redisson}, or $op->{sql}" : $op->{sql});
}

# TAP: both do the same with what this seed says.
sub _agree
{
	my ($self, $seed) = @_;
	my @operations = draw($seed, $length, foreign => $self->{foreign});
	my $failure = $self->run(@operations);

	# A lock for a short lease, of which a machine that has much to do heard too late, or a
	# session that did not run when it was its turn
	for (1 .. 5)
	{
		last unless $failure && ($failure->{out_of_turn} || $failure->{difference} =~ /the lease had ended/);
		note "seed $seed, once more: $failure->{difference}";
		$failure = $self->run(@operations);
	}
	if (!$failure)
	{
		pass("seed $seed");
		return;
	}
	($failure, @operations) = $self->_shortened($failure, @operations);
	fail("seed $seed");
	diag join "\n", "seed $seed, a shorter sequence:", (map { _printed($_) } @operations),
	  'after which they differ:', $failure->{difference};
	return;
}

# With these seeds, or with new ones for as long as the environment says.
sub agree_on
{
	my ($self, @seeds) = @_;
	my $minutes = $ENV{LOCKREDIS_TWINS_MINUTES};

	if (!$minutes)
	{
		$self->_agree($_) foreach @seeds;
		return;
	}
	my $seed = $ENV{LOCKREDIS_TWINS_SEED} // time;
	my $until = now() + 60 * $minutes;

	$self->_agree($seed++) while now() < $until;
	return;
}

1;
