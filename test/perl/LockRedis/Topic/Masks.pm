# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Masks - independent masters, any set of which something befalls

=head1 SYNOPSIS

  start_servers();                    # five masters, two servers; proxies => 1: for "slow"
  try_mask('empty', 0b00101);         # a test: in all phases, as the contract says
  try_masks('empty');                 # of a few sets, or of all if LOCKREDIS_MASKS=all
  end();

=head1 DESCRIPTION

What can befall a master:

  gone      killed; back with nothing: it has no vote, whatever it says of how long it has run
  frozen    it stands still, and goes on
  slow      what is sent to it arrives when others have answered
  empty     started again with nothing, a moment ago: it has no vote
  forward   its clock is set forward by 100 s, more than the lease: it has forgotten
  back      its clock is set back by 100 s

It does so while two locks are held.  Then a third one is to be had, another server tries,
one of the two is given back, and the other one renewed.  Where three of them stand still
or are slow a call is seen to wait, and goes on when they do.  Leases and time-outs are a
minute, so nothing ends by itself; but where a call fails at once they are short, as it is
looked after for so long.

=cut

package LockRedis::Topic::Masks;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::Masters;
use LockRedis::Test;

our @EXPORT = qw($masters $near $far $one $two start_servers try_mask try_masks all_are_up end);

our ($masters, $near, $far, $one, $two, $ticker);

# Of a call that waits for one that does not answer; nothing else takes that long.
my $waited = 30_000;

# The masters that something befell, their proxies' rules.
my (@struck, %rules);

my $jump = 100;
my $patience = '60s';

my %faults = (
	gone => {
		strike => sub { node($_)->kill9 foreach @_ },
		mend => sub { $masters->restart_old(@_) },
		away => 1,
		starts => 1
	},
	frozen => {
		strike => sub { node($_)->freeze foreach @_ },
		mend => sub { node($_)->thaw foreach @_ },
		waits => 1
	},
	slow => {
		strike => sub {
			$rules{$_} = proxy($_)->rule(match => 'mask', action => 'hold', times => 0) foreach @_;
		},
		mend => sub { proxy($_)->let_go foreach @_ },
		waits => 1
	},
	empty => {
		strike => sub { $masters->restart_empty(@_) },
		mend => sub { $masters->restart_old(@_) },
		no_vote => 1,
		forgets => 1,
		starts => 1
	},
	forward => {
		strike => sub { $masters->set_clock($_, $jump) foreach @_ },
		mend => sub { $masters->set_clock($_, 0) foreach @_ },
		forgets => 1
	},
	back => {
		strike => sub { $masters->set_clock($_, -$jump) foreach @_ },
		mend => sub { $masters->set_clock($_, 0) foreach @_ }
	});

sub node { my ($n) = @_; return ($masters->nodes)[$n]; }

sub proxy { my ($n) = @_; return ($masters->proxies)[$n]; }

sub timeouts
{
	my ($time) = @_;

	return map { $_ => $time } 'lockredis.connect_timeout', 'lockredis.command_timeout';
}

sub set_patience
{
	my ($time) = @_;

	$_->set(timeouts($time)) foreach $near, $far;
	return;
}

sub start_servers
{
	my (%opts) = @_;

	$masters = LockRedis::Masters->new(clocks => 1, %opts);
	($near, $far) = map {
		LockRedis::Node->create(
			$_,
			redis => $masters,
			settings => { 'lockredis.lease' => '60s', timeouts($patience) })
	} qw(near far);
	start_sessions();
	all_are_up();
	return;
}

# A server that has seen a master being another process gives it no vote for max_lease; one
# that sees it first, and is told that it has run for a day, does.
sub forget_processes
{
	$_->quit foreach $one, $two, $ticker;
	$_->restart foreach $near, $far;
	start_sessions();
	return;
}

sub start_sessions
{
	($one, $two) = map { $_->session } $near, $far;
	$ticker = $near->session(settings => { 'lockredis.lease' => '500ms' });
	return;
}

sub all_are_up
{
	foreach my $server ($near, $far)
	{
		poll_until('all masters to be up', sub { $server->value(q{
			SELECT count(*) = 5 FROM redis_lock_status WHERE state = 'up' AND in_use}) eq 't' });
	}
	return;
}

sub end
{
	$_->quit foreach $one, $two, $ticker;
	return nothing_left([ $near, $far ], $masters);
}

# ---- what befalls them

sub are_many { my ($mask) = @_; return (grep { $mask & 1 << $_ } 0 .. 4) > 2; }

sub strike
{
	my ($how, $mask) = @_;

	my @numbers = grep { $mask & 1 << $_ && !$struck[$_] } 0 .. 4;

	$faults{$how}{strike}->(@numbers) if @numbers;
	$struck[$_] = 1 foreach @numbers;
	return;
}

sub mend
{
	my ($how) = @_;
	my @numbers = grep { $struck[$_] } 0 .. 4;

	$faults{$how}{mend}->(@numbers) if @numbers;
	@struck = ();
	return;
}

# Those that nothing has befallen
sub well { return map { node($_) } grep { !$struck[$_] } 0 .. 4; }

# ---- what is done

# One statement and its result.  With "arrived" the call waits, first for those that
# nothing befell to have done it.
sub gives
{
	my ($how, $session, $sql, $expected, $arrived) = @_;

	if ($arrived)
	{
		my @slow = $how eq 'slow' ? grep { $struck[$_] } 0 .. 4 : ();
		my %acted = map { $_ => proxy($_)->acted($rules{$_}) } @slow;

		$session->start("SELECT $sql");
		poll_until("$sql to be asked for",
			sub { !grep { !$arrived->($_) } well() });
		poll_until("$sql to be on its way",
			sub { !grep { proxy($_)->acted($rules{$_}) <= $acted{$_} } @slow });
		return "$sql did not wait" unless $session->is_running;
		mend($how);
	}
	my $result = $arrived ? $session->wait : $session->query("SELECT $sql");

	return "$sql: " . $result->error . ' ' . ($result->detail // '') if $result->error;
	return "$sql: " . $result->out unless $result->out =~ /^(?:$expected)$/;
	return "$sql took " . $result->ms . ' ms' if !$arrived && $result->ms > $waited;
	return;
}

# An error with a reason for each of them
sub fails
{
	my ($session, $sql) = @_;
	my $result = $session->query("SELECT $sql");
	my @reasons = ($result->detail // '') =~ /^Master \d: \S/mg;

	return "$sql: " . ($result->error || $result->out)
	  unless ($result->sqlstate // '') =~ /^580(00|30)$/;
	return "$sql: " . ($result->detail // 'no detail') if @reasons != 5;
	return;
}

# A connection of the watchdog that is made anew has all locks renewed.  It sees that it has
# none when it asks for something, which it does for a lock of a short lease.
sub renew_all
{
	my ($any) = (well(), grep { $_->pid && !$_->{frozen} } $masters->nodes);

	poll_until('a connection of the watchdog', sub { $any->kill_clients('watchdog') }) if $any;
	return;
}

sub renewals
{
	my ($key) = @_;

	return $near->value("SELECT renewals FROM redis_locks WHERE key = '$key' AND granted");
}

# What one of them was asked for too late, by its clock, it gets when it is renewed.
sub everywhere
{
	my ($key) = @_;
	my $have = sub { !grep { !$_->cmd('EXISTS', $key) } $masters->nodes };

	renew_all() unless $have->();
	poll_until("all to have $key", $have);
	return;
}

sub acquire
{
	my ($how, $mask, $many) = @_;
	my $fault = $faults{$how};
	my $key = "$how $mask mask acquire";

	return (fails($one, "redis_try_lock('$key')"), fails($one, "redis_is_locked('$key')"))
	  if $many && $fault->{away};
	return fails($one, "redis_try_lock('$key')") if $many && $fault->{no_vote};
	my $wrong = gives($how, $one, "redis_try_lock('$key')", 't',
		$many && $fault->{waits} && sub { $_[0]->cmd('EXISTS', $key) });
	return $wrong if $wrong || $many;

	# All that can be asked for it, and nobody waits for the others.
	return (
		gives($how, $two, "redis_try_lock('$key')", 'f'),
		gives($how, $one, "redis_lock('$key')", ''),
		gives($how, $one, "redis_hold_count('$key')", '2'),
		gives($how, $one, "redis_extend('$key', '90s')", 't'),
		gives($how, $two, "redis_is_locked('$key')", 't'),
		gives($how, $one, "redis_unlock('$key')", 't'));
}

# Another server does not get what is held; but of three whose clocks have jumped, as
# nobody can know that.
sub compete
{
	my ($how, $mask, $many) = @_;
	my $fault = $faults{$how};
	my $key = "$how $mask mask renew";

	return fails($two, "redis_try_lock('$key')") if $many && ($fault->{away} || $fault->{no_vote});
	return if $many && $fault->{forgets};
	return gives($how, $two, "redis_try_lock('$key')", 'f', $many && $fault->{waits} && sub { 1 });
}

sub give_back
{
	my ($how, $mask, $many) = @_;
	my $fault = $faults{$how};
	my $key = "$how $mask mask release";

	return gives($how, $one, "redis_unlock('$key')",
		$many && $fault->{forgets} ? 'f' : 't',
		$many && $fault->{waits} && sub { !$_[0]->cmd('EXISTS', $key) });
}

sub renew
{
	my ($how, $mask, $many) = @_;
	my $fault = $faults{$how};
	my $key = "$how $mask mask renew";
	my $before = renewals($key) // 0;

	if (!$many || !($fault->{away} || $fault->{forgets}))
	{
		renew_all();
		if ($many && $fault->{waits})
		{
			mend($how);
			renew_all();
		}
		poll_until("$key to be renewed", sub { (renewals($key) // 0) > $before });
		everywhere($key) if $fault->{forgets};
		return gives($how, $one, "redis_is_held('$key')", 't');
	}

	# Nobody can know it yet, or everybody has forgotten it.
	if ($fault->{away})
	{
		my $wrong = gives($how, $one, "redis_is_held('$key')", 't');

		mend($how);
		return $wrong if $wrong;
	}
	else
	{
		renew_all();
	}
	$near->wait_for_loss($key);
	return (
		gives($how, $one, "redis_is_held('$key')", 'f'),
		gives($how, $two, "redis_try_lock('$key')", 't'),
		gives($how, $two, "redis_unlock('$key')", 't')) if !$fault->{starts};
	return gives($how, $one, "redis_is_held('$key')", 'f');
}

sub try_mask
{
	my ($how, $mask) = @_;
	my $many = are_many($mask);
	my @held = map { "$how $mask mask $_" } qw(release renew);
	my @wrong;

	$ticker->query("SELECT redis_lock('tick')");
	$one->query("SELECT redis_lock('$_')") foreach @held;
	everywhere($_) foreach @held;
	foreach my $phase (\&acquire, \&compete, \&give_back, \&renew)
	{
		strike($how, $mask);
		push @wrong, grep { defined } $phase->($how, $mask, $many);
	}

	# In this order: to a master that has just come back, and was given the locks again, a
	# session may have no connection.
	$_->query('SELECT redis_unlock_all()') foreach $one, $ticker;
	mend($how);

	# A session that is idle sends nothing: what goes to a node whose connection was being
	# made for too long goes there with what it does next.
	poll_until('nothing to be left',
		sub {
			$_->query("SELECT redis_is_locked('any')") foreach $one, $two;
			return !$masters->all_keys;
		});
	forget_processes() if $faults{$how}{starts};
	all_are_up();
	return ok(!@wrong, sprintf '%05b %s', $mask, $how) || diag join "\n", @wrong;
}

# Sets of one, two, three and all of them
my @few = (0b00001, 0b10010, 0b01100, 0b10101, 0b11111);

# What an error has left unsaid is looked after for as long as a call may take.
sub try_masks
{
	my ($how) = @_;
	my @masks = ($ENV{LOCKREDIS_MASKS} // '') eq 'all' ? (0 .. 31) : @few;
	my $errors = $faults{$how}{away} || $faults{$how}{no_vote};

	try_mask($how, $_) foreach grep { !are_many($_) } @masks;
	set_patience('3s') if $errors;
	try_mask($how, $_) foreach grep { are_many($_) } @masks;
	set_patience($patience) if $errors;
	return;
}

1;
