# Copyright (c) 2026, lockredis contributors

# Five independent masters, all sets of them that can be away, gone or frozen: with three
# left everything works, and nobody waits for the others; with fewer nothing does, and the
# error has a reason for each.
# Proves G47.

use strict;
use warnings FATAL => 'all';

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create(
	'main',
	redis => $masters,
	settings => {
		'lockredis.lease' => '60s',
		'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => '60s'
	});
my $one = $node->session;
my $two = $node->session;

# Of a call that waits for one that does not answer; nothing else takes that long.
my $waited = 30_000;

my %away = (
	gone => {
		leave => sub { $nodes[ $_[0] ]->kill9 },
		return => sub { $masters->restart_old($_[0]) }
	},
	frozen => {
		leave => sub { $nodes[ $_[0] ]->freeze },
		return => sub { $nodes[ $_[0] ]->thaw }
	});
my @is_away;

# Exactly these, of five, are away
sub set_mask
{
	my ($how, $mask) = @_;

	foreach my $n (0 .. 4)
	{
		my $to_leave = $mask & 1 << $n;
		next if !!$to_leave == !!$is_away[$n];
		$away{$how}{ $to_leave ? 'leave' : 'return' }->($n);
		$is_away[$n] = $to_leave;
	}
	return;
}

sub away_in
{
	my ($mask) = @_;

	return scalar grep { $mask & 1 << $_ } 0 .. 4;
}

sub all_are_up
{
	poll_until('all masters to be up', sub { $node->value(q{
		SELECT count(*) = 5 FROM redis_lock_status WHERE state = 'up' AND in_use}) eq 't' });
	return;
}

# One statement, its result, and that it was not a matter of waiting
sub gives
{
	my ($session, $sql, $expected) = @_;
	my $result = $session->query("SELECT $sql");

	return "$sql: " . $result->error . ' ' . $result->detail if $result->error;
	return "$sql: " . $result->out if $result->out ne $expected;
	return "$sql took " . $result->ms . ' ms' if $result->ms > $waited;
	return;
}

sub works
{
	my ($how, $mask) = @_;
	my $key = "$how $mask";
	my @wrong = grep { defined } (
		gives($one, "redis_try_lock('$key')", 't'),
		gives($two, "redis_try_lock('$key')", 'f'),
		gives($one, "redis_lock('$key')", ''),
		gives($one, "redis_hold_count('$key')", '2'),
		gives($one, "redis_extend('$key', '90s')", 't'),
		gives($two, "redis_is_locked('$key')", 't'),
		gives($one, "redis_unlock('$key')", 't'),
		gives($one, "redis_unlock('$key')", 't'),
		gives($two, "redis_is_locked('$key')", 'f'),
		gives($two, "redis_fenced_lock('$key') > 0", 't'),
		gives($two, "redis_unlock('$key')", 't'));

	return ok(!@wrong, sprintf '%05b %s: all is well', $mask, $how) || diag join "\n", @wrong;
}

sub fails
{
	my ($how, $mask) = @_;
	my @wrong;

	foreach my $call ('redis_try_lock', 'redis_is_locked')
	{
		my $result = $one->query("SELECT $call('$how $mask')");
		my @reasons = ($result->detail // '') =~ /^Master \d: \S/mg;

		push @wrong, "$call: " . ($result->error || $result->out)
		  unless ($result->sqlstate // '') =~ /^580(00|30)$/;
		push @wrong, "$call: " . ($result->detail // 'no detail') if @reasons != 5;
	}
	return ok(!@wrong, sprintf '%05b %s: an error with five reasons', $mask, $how)
	  || diag join "\n", @wrong;
}

all_are_up();

# Each joins as many as possible, so that few have to come back.
my @masks = map { $_ ^ ($_ >> 1) } 0 .. 31;

foreach my $how ('frozen', 'gone')
{
	foreach my $mask (grep { away_in($_) <= 2 } @masks)
	{
		set_mask($how, $mask);
		works($how, $mask);
	}
	set_mask($how, 0);
}

# Nobody waits for long for those who do not answer any more.
$node->set('lockredis.connect_timeout' => '100ms', 'lockredis.command_timeout' => '100ms');
foreach my $how ('frozen', 'gone')
{
	foreach my $mask (grep { away_in($_) > 2 } @masks)
	{
		set_mask($how, $mask);
		fails($how, $mask);
	}
	set_mask($how, 0);
}

$node->set('lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s');
all_are_up();
works('after', 0);

$_->quit foreach $one, $two;
nothing_left($node, $masters, keys => qr{^redisson_lock_token:});
done_testing();
