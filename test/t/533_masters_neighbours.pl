# Copyright (c) 2026, lockredis contributors

# Five independent masters that are shared with the real redsync, with a pool for each,
# and with the real RedissonRedLock, with a client for each: who has a lock on one side
# keeps the other side out, who waits gets what the other side gives back, counters that
# both sides write under the lock are exact, also while one or two of the masters stand
# still, others all the time; and with one master gone it is the same.

use strict;
use warnings FATAL => 'all';

use LockRedis::Masters;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;
use LockRedis::Wait qw(poll_until);
use POSIX ();

LockRedis::TokenClient->need;
LockRedis::Redisson->need;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '30s', 'lockredis.command_timeout' => '30s' });
my $java = LockRedis::Redisson->new;
my $redsync = LockRedis::TokenClient->new('redsync', @nodes);
my $one = $node->session;

my @uuids = $java->call('r', 'connect', $masters->url, 30_000)->or_die->words;
is(scalar @uuids, 5, 'Redisson: a client for each of them');
$node->wait_for_up;

# So many of those that run have the key.
sub have
{
	my ($key) = @_;

	return scalar grep { $_->pid && $_->cmd('EXISTS', $key) } @nodes;
}

# A session that is idle sends nothing: what goes to a node whose connection was being made
# for too long goes there with what it does next.
sub has_in_the_end
{
	my ($key, $n, $what) = @_;

	poll_until(
		"$what: $n nodes with $key",
		sub {
			$one->value("SELECT redis_is_locked('p')");
			return have($key) == $n;
		});
	pass($what);
	return;
}

# A majority has it, whoever else was asked.
sub majority_has
{
	my ($key, $what) = @_;

	cmp_ok(have($key), '>=', 3, $what);
	return;
}

sub with_redsync
{
	my ($which) = @_;

	# Theirs
	my $theirs = $redsync->take('t', 60_000);
	ok(defined $theirs, "redsync, $which: taken by the other side");
	majority_has('t', 'at a majority');
	$one->query_is("SELECT redis_try_token_lock('t', '0', '1min')", 'NULL', 'busy for us');
	$one->query_is("SELECT redis_try_lock('t')", 'f', 'also as a reentrant lock');
	$one->query_is("SELECT redis_token_is_held('t', '$theirs')", 't', 'we know its token');
	$one->query_is("SELECT redis_token_extend('t', '$theirs', '10min')", 't', 'may extend it');
	is($redsync->take('t', 60_000), undef, 'it is not free');
	$one->query_is("SELECT redis_token_unlock('t', 'other')", 'f', 'not with another token');
	$one->query_is("SELECT redis_token_unlock('t', '$theirs')", 't', 'and may give it back');
	has_in_the_end('t', 0, 'everywhere');
	is($redsync->release('t', $theirs), undef, 'which its holder finds out');

	# Ours
	my $ours = $one->value("SELECT redis_token_lock('t', '1min')");
	majority_has('t', "redsync, $which: taken by us");
	is($redsync->take('t', 60_000), undef, 'busy for the other side');
	is($redsync->release('t', 'other'), undef, 'which cannot release it without the token');
	majority_has('t', 'it is still there');
	ok($redsync->extend('t', $ours, 600_000), 'with it it can extend');
	cmp_ok(scalar(grep { $_->pid && $_->cmd('PTTL', 't') > 300_000 } @nodes),
		'>=', 3, 'for longer');
	$one->query_is("SELECT redis_token_is_held('t', '$ours')", 't', 'we still have it');
	ok($redsync->release('t', $ours), 'and release');
	$one->query_is("SELECT redis_token_unlock('t', '$ours')", 'f', 'which we find out');
	has_in_the_end('t', 0, 'nothing is left');

	# Who waits
	$one->query_is("SELECT redis_token_lock('t', '1h', 'ours')", 'ours', 'ours again');
	$redsync->start('take', 't', '-', 3_600_000, 50_000);
	$one->query_is("SELECT redis_token_unlock('t', 'ours')", 't');
	$theirs = $redsync->answer;
	ok(defined $theirs, 'who waits there gets it');
	$one->start("SELECT redis_token_lock('t', '1h', 'ours')");
	$node->wait_for_waiters('t', 1);
	ok($redsync->release('t', $theirs), 'the other side gives it back');
	is($one->wait(60)->value, 'ours', 'and we have it');
	$one->query_is("SELECT redis_token_unlock('t', 'ours')", 't', 'and give it back');
	has_in_the_end('t', 0, 'nothing is left');

	# A reentrant lock of ours
	$one->query_is("SELECT redis_try_lock('t')", 't', 'a reentrant lock');
	is($redsync->take('t', 60_000), undef, 'keeps it out as well');
	$one->query_is("SELECT redis_unlock('t')", 't', 'given back');
	has_in_the_end('t', 0, 'nothing is left');
	return;
}

sub with_redisson
{
	my ($which) = @_;

	# Theirs
	$java->call('r.1', 'red.lock', 'k', -1)->or_die;
	majority_has('k', "RedissonRedLock, $which: taken by the other side");
	my @have = grep { $_->pid && $_->cmd('EXISTS', 'k') } @nodes;
	my %owners = map { $_->owner_of('k') => 1 } @have;
	is(scalar keys %owners, scalar @have, 'with another owner at each');
	$one->query_is("SELECT redis_try_lock('k')", 'f', 'busy for us');
	$one->query_is("SELECT redis_is_locked('k'), redis_lock_owner('k') IS NULL",
		't|t', 'it is locked, and by nobody whom all know');
	$one->query_is("SELECT redis_try_token_lock('k', '0', '1min')", 'NULL',
		'busy as a token lock');
	$one->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	$java->call('r.1', 'red.unlock', 'k')->or_die;
	is($one->wait(60)->error, undef, 'we have it when it is given back');

	# Ours
	poll_until('nobody to wait',
		sub { !grep { $_->pid && $_->subscribers($_->channel('k')) } @nodes });
	is($java->value('r.1', 'red.tryLock', 'k', 0, -1), 'false', 'busy for the other side');
	$one->query_is("SELECT redis_is_held('k')", 't', 'ours stays');
	my $waits = $java->send('r.2', 'red.lock', 'k', -1);
	poll_until('Redisson to wait',
		sub { grep { $_->pid && $_->subscribers($_->channel('k')) } @nodes });
	$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
	ok(!$java->wait($waits, 60)->error, 'who waits there has it then');
	$one->query_is("SELECT redis_try_lock('k')", 'f', 'and keeps us out');
	$java->call('r.2', 'red.unlock', 'k')->or_die;
	has_in_the_end('k', 0, 'nothing is left');
	return;
}

# All of them know the scripts: where one has to be told twice, a session asks for no
# token lock for a while.
$one->query_is("SELECT redis_token_lock('first', '1min', 'first')", 'first', 'a token lock');
$one->query_is("SELECT redis_token_unlock('first', 'first')", 't', 'given back');
has_in_the_end('first', 0, 'everywhere');

with_redsync('five masters');
with_redisson('five masters');

# ---- at the same time

# Two of ours and two of the other side, so many grants each: GET, add one, SET.  No
# matter who is faster; what is seen is in the counter and in the history.
sub contend
{
	my ($key, $steps, $ours, $start_theirs, $end_theirs) = @_;
	my $file = "$PostgreSQL::Test::Utils::log_path/533.$key.history";

	unlink $file;
	my $history = LockRedis::History->new(file => $file);
	my %children;
	my $fork = sub {
		my ($name, $steps_of) = @_;
		my $pid = fork();

		die "could not fork: $!" unless defined $pid;
		if ($pid == 0)
		{
			# Only the parent talks to the harness.
			Test::More->builder->output('/dev/null');
			eval { $steps_of->($name, LockRedis::History->new(file => $file)); 1 }
			  or print STDERR "$name: $@";
			POSIX::_exit($@ ? 1 : 0);
		}
		$children{$pid} = $name;
	};

	$nodes[0]->cmd('SET', "$key counter", 0);
	$fork->("session $_", $ours) foreach 1 .. 2;
	my @theirs = $start_theirs->($fork, $file);
	$end_theirs->(@theirs);
	foreach my $pid (sort { $a <=> $b } keys %children)
	{
		poll_until("$children{$pid} to end",
			sub { waitpid($pid, POSIX::WNOHANG()) == $pid }, 300);
		is($?, 0, "$key: $children{$pid} did its steps");
	}
	is($nodes[0]->cmd('GET', "$key counter"), 4 * $steps, "$key: the counter is exact");
	is((grep { $_->{op} eq 'lock' } $history->entries), 4 * $steps, 'each step is recorded');
	is_deeply([ $history->overlaps ], [], 'never two holders');
	has_in_the_end($key, 0, 'nothing is left');
	$nodes[0]->cmd('DEL', "$key counter");
	return;
}

# What one of the processes does; what takes the lock gives what gives it back.
sub count_up
{
	my ($name, $history, $key, $steps, $take, $give_back) = @_;
	my $conn = $nodes[0]->connection;

	foreach (1 .. $steps)
	{
		my $token = $history->record($name, 'lock', $key, $take, sub { 'ok' });
		$conn->call('SET', "$key counter", $conn->call('GET', "$key counter") + 1);
		$history->record($name, 'unlock', $key, sub { $give_back->($token) },
			sub { $_[0] ? 'ok' : 'lost' });
	}
	$conn->disconnect;
	return;
}

sub tokens
{
	my ($key, $steps) = @_;
	my $ours = sub {
		my ($name, $history) = @_;
		my $session = $node->session;

		count_up($name, $history, $key, $steps,
			sub { $session->value("SELECT redis_token_lock('$key', '10min')") },
			sub { $session->value("SELECT redis_token_unlock('$key', '$_[0]')") eq 't' });
		$session->quit;
	};
	my $theirs = sub {
		my ($name, $history) = @_;
		my $other = LockRedis::TokenClient->new('redsync', @nodes);

		count_up($name, $history, $key, $steps,
			sub {
				# Its tries may all have been in vain.
				my $token;
				$token = $other->take($key, 600_000, wait => 1_000) until defined $token;
				return $token;
			},
			sub { $other->release($key, $_[0]) });
		$other->stop;
	};

	contend($key, $steps, $ours,
		sub { my ($fork) = @_; $fork->("redsync $_", $theirs) foreach 1 .. 2; return },
		sub { });
	return;
}

sub red
{
	my ($key, $steps) = @_;
	my $ours = sub {
		my ($name, $history) = @_;
		my $session = $node->session;

		count_up($name, $history, $key, $steps,
			sub { $session->value("SELECT redis_lock('$key')") },
			sub { $session->value("SELECT redis_unlock('$key')") eq 't' });
		$session->quit;
	};

	contend($key, $steps, $ours,
		sub {
			my ($fork, $file) = @_;

			return map { $java->send("r.$_", 'red.counter', $key, "$key counter", $steps, $file) }
			  1 .. 2;
		},
		sub {
			my (@numbers) = @_;

			is($java->wait($_, 300)->error, undef, "$key: a thread of Redisson did its steps")
			  foreach @numbers;
		});
	return;
}

tokens('tokens', 40);
red('red', 40);

# ---- while one or two of them stand still, others all the time

# Every set of one and of two, by turns, until it is ended; a moment each, which nobody
# takes for a failure.
sub change_masks
{
	my @pids = map { $_->pid } @nodes;
	my $parent = $$;
	my $pid = fork() // die "could not fork: $!";

	return $pid if $pid;
	my $ended = 0;
	local $SIG{TERM} = sub { $ended = 1 };
	for (my $mask = 1; !$ended && getppid() == $parent; $mask = $mask % 31 + 1)
	{
		my @still = grep { $mask & 1 << $_ } 0 .. 4;

		next if @still > 2;
		kill STOP => @pids[@still];
		select undef, undef, undef, 0.1;
		kill CONT => @pids[@still];
	}
	return POSIX::_exit(0);
}

{
	my $changer = change_masks();

	tokens('tokens-still', 10);
	red('red-still', 5);
	kill TERM => $changer;
	poll_until('all of them to go on', sub { waitpid($changer, POSIX::WNOHANG()) == $changer });
}

# ---- one of them is gone

$nodes[4]->kill9;
$one->quit;
$one = $node->session;
with_redsync('one is gone');
with_redisson('one is gone');

$java->shutdown('r');
$java->stop;
$redsync->stop;
$one->quit;
nothing_left($node, $masters, keys => qr/unlock_latch/, clients => qr/session/);
done_testing();
