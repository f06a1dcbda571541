# Copyright (c) 2026, lockredis contributors

# lockredis.release_wait = sent: somebody elsewhere who waits is not always overtaken, and a
# session gets at once what it gave back, though the release was lost or refused.
# Proves G4.

use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

my $long = limit(60);
my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => {
		'lockredis.connect_timeout' => "${long}s",
		'lockredis.command_timeout' => "${long}s",
		'lockredis.lease' => '10min',
		'lockredis.release_wait' => 'sent'
	});
my $one = $node->session;
my $watchdog = $node->watchdog_pid;

$node->wait_for_up;

sub all_is_free
{
	return poll_until('all to be released',
		sub { $node->count_locks == 0 && !$redis->all_keys });
}

sub warm_up
{
	my $orphans;
	do
	{
		$orphans = $node->lock_stat('orphans');
		run($one, q{BEGIN; SELECT redis_xact_lock('warm'); COMMIT});
		all_is_free();
	} while ($node->lock_stat('orphans') > $orphans);
	return;
}

warm_up();

# Somebody elsewhere waits for it: has subscribed.
my $ear = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $redis->port) or die;
$ear->autoflush(1);
print $ear 'AUTH ' . $redis->password . "\r\n" if $redis->password;
print $ear 'SUBSCRIBE ' . $redis->channel('k') . "\r\n";
$redis->wait_for_subscribers('k', 1);

foreach my $take ("redis_xact_lock('k')", "redis_multi_xact_lock(ARRAY['k', 'l'])")
{
	kill 'STOP', $watchdog;
	my @sent;
	for (1 .. 6)
	{
		run($one, "BEGIN; SELECT $take; COMMIT");
		push @sent, $node->count_locks("key = 'k'");
	}
	kill 'CONT', $watchdog;
	all_is_free();
	note "$take: " . join ' ', @sent;
	ok((grep { $_ == 0 } @sent) >= 2, "$take: some releases wait for the answer");
}
close $ear;

# The connection is lost along with the release; the session tries at once.
foreach my $how ([ 'reset', 'request' ], [ 'flush' ])
{
	warm_up();
	my $f = $how->[0] eq 'flush';
	my $id;
	if ($f)
	{
		run($one, "BEGIN; SELECT redis_xact_lock('lost')");
		$redis->cmd('SCRIPT', 'FLUSH');
		run($one, 'COMMIT');
	}
	else
	{
		my $open = $proxy->stats->{open};

		$id = $proxy->rule(on => 'request', match => 'lost', skip => 1, action => 'reset');
		run($one, "BEGIN; SELECT redis_xact_lock('lost'); COMMIT");
		$proxy->wait_for_rule($id);
		# The rule has acted a moment before the connection is reset.
		poll_until('the connection to be reset', sub { $proxy->stats->{open} < $open });
	}
	$one->query_is("SELECT redis_try_lock('lost')", 't', "$how->[0]: the session takes what it gave back");
	$proxy->clear;
	run($one, 'SELECT redis_unlock_all()');
	all_is_free();
}

# The answer to the release of two makes no sense: it is that to the next request, since the
# release was swallowed.  More rounds are for a watchdog that does not run for a second.
my ($round, $said) = (0, '');
while ($said ne 't' && $round++ < 3)
{
	warm_up();
	my $swallowed = $proxy->rule(match => 'lost', skip => 2, action => 'drop');
	run($one, "BEGIN; SELECT redis_xact_lock('lost'), redis_xact_lock('lost too'); COMMIT");
	$proxy->wait_for_rule($swallowed);
	$one->query_fails("SELECT redis_try_lock('other')", '58030', qr/makes no sense/,
		'an answer that makes no sense');
	$said = $one->value("SELECT redis_try_lock('lost too')");
	$proxy->clear;
	run($one, 'SELECT redis_unlock_all()');
	all_is_free();
}
is($said, 't', 'the session takes what it gave back');

$one->quit;
done_testing();
