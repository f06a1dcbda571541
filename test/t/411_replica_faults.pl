# Copyright (c) 2026, lockredis contributors

# What happens between a lock and the confirmation of its replicas: each place
# where it can stop, as an interleaving that is forced.
#
# - The connection is cut between the two replies: nobody knows whether the create
#   was replicated, so it is given back.  All else is asked again over the new
#   connection, as a whole: a WAIT alone would be told there how many replicas there
#   are, not what they have.
# - A cancel in the WAIT: given back.
# - A WAIT that is not answered in time says nothing about the node.
# - The master is demoted in the WAIT: nobody has the lock.
# - A token for a lock that was handed over, and no replica has: all who wait behind
#   it and ask for as many fail with it.
#
# Proves G37.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

# What is stopped in a WAIT is stopped before that ends by itself.  What a call has left is
# looked after for as long as it might have taken.
start_servers('lockredis.lease' => '10min', 'lockredis.replica_timeout' => '9s',
	'lockredis.command_timeout' => '10s');

my $none = $node->session;
my $one = $node->session(settings => { 'lockredis.min_replicas' => 2 });

sub given_back ($name, $key)
{
	return poll_until("$name: $key to be given back",
		sub { !$redis->cmd('EXISTS', $key) && !$node->count_locks });
}

# The words that sessions sent
sub words { return join ' ', map { /\] "(\w+)"/ ? uc $1 : () } @_; }

$node->warm_up($none, '300ms');
run($one, "SELECT redis_try_lock('warm'), redis_extend('warm', '11min'), redis_unlock('warm')");

# ----------
# Cut between the two replies
# ----------

foreach my $action ('reset', 'close')
{
	my $id = $proxy->rule(on => 'reply', match => "WAIT\r\n", action => $action);

	$one->query_fails("SELECT redis_lock('k $action')", '58030',
		qr/did not answer/);
	is($proxy->acted($id), 1, "$action: in front of the second reply");
	given_back("$action in front of the reply to WAIT", "k $action");
}

run($one, "SELECT redis_lock('k', '1 min')");
{
	my $id = $proxy->rule(on => 'reply', match => "WAIT\r\n", action => 'reset');
	my @sent = $redis->session_commands(
		sub { $one->query_is("SELECT redis_extend('k', '2 min')", 't', 'extended') });

	is($proxy->acted($id), 1, 'the connection was lost in front of the reply');
	like(words(@sent), qr/^EVALSHA WAIT (?!WAIT).*EVALSHA WAIT$/,
		'an extension goes out again as a whole, never a WAIT alone');
}
run($one, "SELECT redis_unlock('k')");

# ----------
# Left in the WAIT
# ----------

replicas_away(1);

# The key may be there before the node has got the WAIT behind it.
sub start_lock ($session, $key)
{
	$session->start("SELECT redis_lock('$key')");
	return poll_until("$key to wait for replicas",
		sub { grep { $_->{flags} =~ /b/ && $_->{name} =~ /session/ } $redis->clients });
}

start_lock($one, 'cancel');
$one->cancel;
$one->wait->fails('57014', qr/user request/, 'canceled in the WAIT');
given_back('cancel', 'cancel');

# ----------
# The node falls silent in the WAIT
# ----------

{
	my $id = $proxy->rule(on => 'reply', match => "WAIT\r\n", action => 'hold');

	$node->set('lockredis.command_timeout' => '3s');
	run($one, "SET lockredis.replica_timeout = '100ms'");

	# The watchdog, which goes on asking, would find that out at once.
	kill 'STOP', my $watchdog = $node->watchdog_pid;
	$one->query_fails("SELECT redis_lock('silent')", '58030',
		qr/did not answer in time/);
	is($proxy->acted($id), 1, 'a WAIT that is not answered');
	$none->query_is("SELECT redis_lock('other'), redis_unlock('other')",
		'|t', 'all others ask the node as before');
	kill 'CONT', $watchdog;
	$proxy->let_go;
	$node->wait_for_up;
	given_back('silent', 'silent');
	$node->set('lockredis.command_timeout' => '10s');
}

# ----------
# Demoted in the WAIT
# ----------

run($one, 'RESET lockredis.replica_timeout');
start_lock($one, 'demoted');
$redis->cmd('REPLICAOF', '127.0.0.1', 1);
$one->wait->fails('58030', qr/could not be replicated.*DETAIL:  The node answered: UNBLOCKED/s,
	'demoted in the WAIT');
$one->query_fails("SELECT redis_lock('demoted 2')", '58030', qr/READONLY/);
$redis->cmd('REPLICAOF', 'NO', 'ONE');
given_back('demoted', 'demoted');

# One that was a replica before it was asked says so in the answer to the lock;
# what it says to the WAIT behind it is swallowed.
$one->query_is("SELECT redis_is_locked('demoted 2')", 'f', 'and the connection serves');

# ----------
# Waiters of this server
# ----------

{
	my $two = $node->session(settings => { 'lockredis.min_replicas' => 2 });
	my $three = $node->session(settings => { 'lockredis.min_replicas' => 1 });
	my $four = $node->session;

	# What is owed for a busy answer holds up the next question.
	run($_, "SET lockredis.replica_timeout = '2s'") foreach $one, $two;
	$redis->foreign_lock('queue', owner => 'elsewhere:1', ms => 600_000);
	$node->queue_up('queue',
		map { $_ => "SELECT redis_lock('queue')" } $one, $two, $three, $four);
	$redis->foreign_unlock('queue');
	$one->wait->fails('58030', unreplicated(1, 2, '2 s'), 'the head');
	my $second = $two->wait;
	is($three->wait->error, undef, 'who asks for fewer has the lock');
	run($three, "SELECT redis_unlock('queue')");
	is($four->wait->error, undef, 'and then who asks for none');

	# On a slow machine it may be asking for itself just then, and reports its own failure.
	foreach (1 .. 3)
	{
		last if $second->error && $second->detail =~ /first in the queue/;
		run($four, "SELECT redis_unlock('queue')");
		$redis->foreign_lock('queue', owner => 'elsewhere:2', ms => 600_000);
		$node->queue_up('queue', map { $_ => "SELECT redis_lock('queue')" } $one, $two, $four);
		$redis->foreign_unlock('queue');
		$_->wait foreach $one, $four;
		$second = $two->wait;
	}
	$second->fails('58030', qr/could not be replicated.*first in the queue/s,
		'who asks for as many fails with it');

	# From one that asks for none to one that asks for one, and back: from the store.  At last
	# both ask for one.
	foreach ([ $four, $three, 0 ], [ $three, $four, 0 ], [ $four, $three, 0 ], [ $three, $four, 1 ])
	{
		my ($from, $to, $handed) = @$_;
		my $before = $node->lock_stat('handoffs');

		run($four, "SET lockredis.min_replicas = 1") if $handed;
		$node->queue_up('queue', $to => "SELECT redis_lock('queue')");
		run($from, "SELECT redis_unlock('queue')");
		is($to->wait->error, undef, 'the next one gets it');
		is($node->lock_stat('handoffs') - $before, $handed, $handed ? 'handed over' : 'taken from the store');
	}
	run($four, "SELECT redis_unlock('queue')");
	$_->quit foreach $two, $three, $four;
}
replicas_back();

# ----------
# Handed over, and a token
# ----------

{
	my ($first, @waiters) = map {
		$node->session(
			settings => { 'lockredis.min_replicas' => 1, 'lockredis.replica_timeout' => '2s' })
	} 1 .. 4;

	run($first, "SELECT redis_lock('handed')");
	$node->queue_up('handed', map { $_ => "SELECT redis_fenced_lock('handed')" } @waiters);
	replicas_away(2);
	run($first, "SELECT redis_unlock('handed')");
	(shift @waiters)->wait->fails('58030', unreplicated(0, 1, '2 s'), 'a token that no replica has');
	$_->wait->fails('58030', qr/could not be replicated.*first in the queue/s,
		'who waits behind it fails with it')
	  foreach @waiters;
	replicas_back();
	$_->quit foreach $first, @waiters;
}

end_test($node, $redis, keys => qr/^redisson_lock_token/, clients => 2 + @replicas);
