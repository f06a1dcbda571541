# Copyright (c) 2026, lockredis contributors

# Why the store is down: what happened, not what might be wrong with the settings of a node
# that has answered before.  Each further reason of an outage is logged, once however often
# it comes back; the next outage begins anew.  An error during an outage does not recommend
# another mode.

use IO::Socket::INET;
use LockRedis::Ca;
use LockRedis::Test;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('node'));
my $node = LockRedis::Node->create('main', redis => $redis);
my $session = $node->session;

# Accepts connections at the port, and ends each without a word; until it is killed.
sub closes_at_once
{
	my ($port) = @_;
	my $socket = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => $port,
		ReuseAddr => 1,
		Listen => 16) or die "listen: $!";
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		while (1) { my $client = $socket->accept; }
	}
	close $socket;
	return $pid;
}

sub end_process
{
	my ($pid) = @_;

	kill 'KILL', $pid;
	waitpid $pid, 0;
	return;
}

sub wait_for_reason
{
	my ($reason) = @_;

	return poll_until("$reason to be the last error",
		sub { $node->lock_status('state') eq 'down' && $node->lock_status('last_error') =~ $reason });
}

# What was logged, in its order: is it down or still down, and why
sub logged
{
	return $node->log_text =~ /LOG:  lockredis: the lock store is ((?:still )?down\n.*DETAIL:  .*)\n/g;
}

my $refused = 'Could not connect to the node: Connection refused.';
my $closed = 'The node closed the connection before it answered.';

$node->wait_for_up;
$session->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'a Redis');

# ----------
# It goes, and something else is there meanwhile
# ----------

$node->log_since_here;
$redis->stop(keep => 1);
wait_for_reason(qr/refused/);
foreach (1 .. 3)
{
	my $closer = closes_at_once($redis->port);

	wait_for_reason(qr/before it answered/);
	end_process($closer);
	wait_for_reason(qr/refused/);
}
my ($first, @others) = logged();
like($first, qr/^down/, 'it is down');
is(scalar(grep { !/^still down/ } @others), 0, 'and then still down');
is(scalar(grep { /\Q$closed\E/ } $first, @others), 1, 'a reason that came three times is logged once');
is(scalar(grep { /\Q$refused\E/ } $first, @others), 1, 'so is the other one, that came four times');
is(scalar(grep { !/refused|closed the connection|connection to the node was lost/ } $first, @others),
	0, 'and there is no other one');
unlike($node->log_text, qr/TLS|no Redis server/, 'nothing is said of the settings');

my $result = $session->query("SELECT redis_try_lock('k')");
$result->fails('58000', qr/could not reach the lock store.*refused.*\nHINT:  See the view redis_lock_status and the server log\.\n/s,
	'a call during the outage');
unlike($result->{raw}, qr/table/, 'which does not recommend table mode');

# ----------
# The next outage
# ----------

$redis->start;
$node->wait_for_up;
$session->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'it is back');
$node->log_since_here;
$redis->stop(keep => 1);
wait_for_reason(qr/refused/);
($first, @others) = logged();
like($first, qr/^down/, 'the next outage is logged from the beginning');
is(scalar(grep { /\Q$refused\E/ } $first, @others), 1, 'with a reason of the one before');
$redis->start;
$node->wait_for_up;

# ----------
# TLS
# ----------

$node->set(
	'lockredis.url' => $redis->tls_url,
	'lockredis.tls_ca_file' => $ca->file);
$node->wait_for_up($redis);
$session->quit;
$session = $node->session;
$session->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'over TLS');
$node->log_since_here;
$redis->stop(keep => 1);
my $closer = closes_at_once($redis->tls_port);
wait_for_reason(qr/during the TLS handshake/);
$result = $session->query("SELECT redis_try_lock('k')");
like($result->{raw}, qr/HINT:  See the view redis_lock_status and the server log\.\n/,
	'a node that has answered over TLS does so at this port');
unlike($result->{raw}, qr/may be one without TLS/, 'of which there is no doubt');
end_process($closer);
$redis->start;
$node->wait_for_up;

end_test($node, $redis);
