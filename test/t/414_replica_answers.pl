# Copyright (c) 2026, lockredis contributors

# Answers that come when something else is wanted by then, and replicas that answer
# late or not at all.
#
# - A renewal that was asked with fewer replicas than the lock has come to want does
#   not count; nor is one asked without them while the lock is taken again with them.
# - A lock whose replicas are away costs no other one its lease.
# - A WAIT that is answered late says nothing about the node.  (The watchdog is stopped
#   meanwhile: it would find that out at once.)
# - A token for a lock that was handed over, and no replica has: all who wait behind
#   it and ask for as many fail with it.
#
# Proves G37.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

start_servers(
	'lockredis.lease' => '30s',
	'lockredis.replica_timeout' => '9s',
	'lockredis.command_timeout' => '20s');

my $one = $node->session;
my $none = $node->session;

$node->warm_up($_, '300ms') foreach $one, $none;

sub renewals
{
	my ($key) = @_;

	return $node->value("SELECT max(renewals) FROM redis_locks WHERE key = '$key'");
}

# ----------
# Asked with fewer
# ----------

# The watchdog's renewal, without replicas, is under way; the lock is taken again
# with one, and then no replica hears anything any more; the renewal arrives.
run($one, "SELECT redis_lock('late')");
{
	my $id = $proxy->rule(match => 'late', action => 'hold', times => 1);

	$proxy->wait_for_rule($id);
	run($one, "SET lockredis.min_replicas = 1; SELECT redis_lock('late', '1s')");
	replicas_away(2);
	my $before = $node->lock_stat('unreplicated');
	$proxy->let_go;
	poll_until('replicas to be asked', sub { $node->lock_stat('unreplicated') > $before });
	is(renewals('late'), 0, 'a renewal that no replica has does not count');
	replicas_back();
	poll_until('it to be renewed', sub { renewals('late') > 0 });
	$one->query_is("SELECT redis_unlock('late'), redis_unlock('late')", 't|t', 'with one it is');
	run($one, "RESET lockredis.min_replicas");
}

# Taken again with a replica, and the answer is not there yet: what is renewed
# meanwhile is to be confirmed as well.
run($one, "SELECT redis_lock('again')");
{
	my $id = $proxy->rule(on => 'reply', match => "WAIT\r\n", action => 'hold', times => 1);

	run($one, "SET lockredis.min_replicas = 1");
	$one->start("SELECT redis_lock('again')");
	$proxy->wait_for_rule($id);
	my ($waits, $renewals) = ($redis->calls('wait'), renewals('again'));
	poll_until('a renewal', sub { renewals('again') > $renewals });
	cmp_ok($redis->calls('wait'), '>', $waits, 'a renewal meanwhile asks the replica');
	$proxy->let_go;
	is($one->wait->error, undef, 'taken again');
	$one->query_is("SELECT redis_unlock('again'), redis_unlock('again')", 't|t', 'given back');
	run($one, "RESET lockredis.min_replicas");
}

# ----------
# One lock, and the others
# ----------

{
	my $two = $node->session(settings => { 'lockredis.min_replicas' => 2 });
	my $brief = $node->session(
		settings => { 'lockredis.min_replicas' => 1, 'lockredis.lease' => '8s' });

	run($two, "SELECT redis_lock('both')");
	run($brief, "SELECT redis_lock('brief')");
	replicas_away(1);
	$node->wait_for_loss('both');
	$brief->query_is("SELECT redis_is_held('brief')",
		't', 'what has its replica outlives what has not, with a lease shorter than a WAIT');
	cmp_ok(renewals('brief'), '>', 3, 'it was renewed all the time');
	$two->query_warns("SELECT redis_unlock('both')", 'f', '01000', qr/was lost/, 'the other is lost');
	$brief->query_is("SELECT redis_unlock('brief')", 't', 'given back');
	replicas_back();
	$_->quit foreach $two, $brief;
}

# ----------
# A late WAIT
# ----------

$node->set('lockredis.command_timeout' => '6s');
{
	my $id = $proxy->rule(on => 'reply', match => "WAIT\r\n", action => 'hold', times => 1);

	run($one, "SET lockredis.min_replicas = 1");
	kill 'STOP', my $watchdog = $node->watchdog_pid;
	$one->query_fails("SELECT redis_lock('slow')", '58030', qr/did not answer in time/);
	is($proxy->acted($id), 1, 'a WAIT that is not answered');
	$none->query_is("SELECT redis_lock('other'), redis_unlock('other')",
		'|t', 'all others ask the node as before');
	kill 'CONT', $watchdog;
	$proxy->let_go;
	run($one, "RESET lockredis.min_replicas");
	poll_until('that lock to be given back', sub { !$node->count_locks });
}
$node->set('lockredis.command_timeout' => '20s');

# ----------
# Handed over, and a token
# ----------

{
	my %asks = (settings => { 'lockredis.min_replicas' => 1 });
	my ($first, @waiters) = map { $node->session(%asks) } 1 .. 4;

	run($first, "SELECT redis_lock('handed')");
	$node->queue_up('handed', map { $_ => "SELECT redis_fenced_lock('handed')" } @waiters);
	replicas_away(2);
	run($first, "SELECT redis_unlock('handed')");
	(shift @waiters)->wait->fails('58030', qr/0 of 1 replicas confirmed it/, 'a token that no replica has');
	$_->wait->fails(
		'58030',
		qr/could not be replicated.*first in the queue/s,
		'who waits behind it fails with it')
	  foreach @waiters;
	replicas_back();
	$_->quit foreach $first, @waiters;
}

$_->quit foreach $one, $none;
$proxy->reset_all;
$node->wait_for_up;
end_test($node, $redis, keys => qr/^redisson_lock_token/, clients => 1 + @replicas);
