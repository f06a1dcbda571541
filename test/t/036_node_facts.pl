# Copyright (c) 2026, lockredis contributors

# What this server knows of its Redis, as redis_lock_status shows it: facts
# that change while it is connected are seen and warned of, once each; the last
# error is one of this Redis, and those are shown too that only sessions are told.
#
# Why it is down: what happened, not what might be wrong with the settings of a node that has
# answered before.  Each further reason of an outage is logged, once however often it comes back; the
# next outage begins anew.  An error during an outage does not recommend another mode.
# Proves G36.

use IO::Socket::INET;
use LockRedis::Ca;
use LockRedis::Test;

my $ca = LockRedis::Ca->new('main');
my ($node, $redis, $one) =
  servers(sessions => 1, redis => LockRedis::Redis->new(tls => $ca->certificate('node')));

sub set_policy ($policy)
{
	$redis->cmd('CONFIG', 'SET', 'maxmemory-policy', $policy);
	return poll_until("the view to show $policy",
		sub { $node->lock_status('maxmemory_policy') eq $policy });
}

# From another address to the first one
sub go_back
{
	$node->set('lockredis.url' => $redis->url);
	poll_until('the first address',
		sub { $node->lock_status('address') eq '127.0.0.1:' . $redis->port });
	return $node->wait_for_up;
}

sub watchdog_socket
{
	my ($client) = grep { $_->{name} eq 'lockredis-watchdog-' . $node->watchdog_pid }
	  $redis->clients;

	return $client && $client->{id};
}

# Accepts connections at the port, and ends each without a word; until it is killed.
sub closes_at_once ($port)
{
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

sub end_process ($pid)
{
	kill 'KILL', $pid;
	waitpid $pid, 0;
	return;
}

sub wait_for_reason ($reason)
{
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

# ----------
# A policy that evicts, set while nobody connects
# ----------

my $evicts = qr/WARNING:  the lock store at \S+ can evict locks/;
my $connection = watchdog_socket();
$node->log_since_here;
set_policy('volatile-lru');
poll_until('the warning', sub { $node->logged($evicts) });
like(
	$node->log_text,
	qr/DETAIL:  Its maxmemory-policy is "volatile-lru"\.\n.*HINT:  .*noeviction/,
	'keys with a time to live are what it evicts');
is(watchdog_socket(), $connection, 'over the same connection');
set_policy('noeviction');
is($node->times_logged($evicts), 1, 'warned once');

# The connection is lost, and is there again before anybody could call it down, sooner than the next
# question to an idle Redis, which was asked just now.  Then the same Redis has another address.
$node->log_since_here;
$redis->cmd('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
my $lost = now();
poll_until('another connection', sub { (watchdog_socket() // $connection) != $connection });
cmp_ok(now() - $lost, '<', 4, 'which is noticed');
poll_until('the warning', sub { $node->logged($evicts) });
is($node->times_logged(qr/is down/), 0, 'which was not down');
$node->set('lockredis.url' => $redis->unix_url);
poll_until('the socket', sub { $node->lock_status('address') ne '127.0.0.1:' . $redis->port });
$node->wait_for_up;
go_back();
is($node->times_logged($evicts), 1, 'a policy that evicts is warned of, once a Redis');
like(
	$node->log_text,
	qr/DETAIL:  Its maxmemory-policy is "allkeys-lru"\.\n.*HINT:  .*noeviction/,
	'with what to do');
set_policy('noeviction');

# ----------
# A master that becomes a replica: nobody asks it for anything
# ----------

$redis->cmd('REPLICAOF', '127.0.0.1', 1);
poll_until('the role', sub { $node->lock_status('role') eq 'replica' });
poll_until('the warning of a replica',
	sub { $node->logged(qr/WARNING:  the lock store at \S+ is a replica/) });
is($node->lock_status('state'), 'up', 'it answers');
is($node->lock_status('last_error IS NULL'), 't', 'and has refused nothing');

# Only a session is told, and the view knows it.
$one->query_fails("SELECT redis_try_lock('k')", '58030', qr/READONLY/,
	'no locks on a replica');
like($node->lock_status('last_error'), qr/^The node answered: READONLY/,
	'an error that only a session was told');
is($node->lock_status("last_error_at > now() - interval '1 hour'"), 't', 'and when');
$redis->cmd('REPLICAOF', 'NO', 'ONE');
poll_until('the role', sub { $node->lock_status('role') eq 'master' });
is($node->times_logged(qr/is a replica/), 1, 'warned once');

# ----------
# Another URL: what was said of the Redis before is forgotten
# ----------

my $second = LockRedis::Redis->new(name => 'second');
$node->set('lockredis.url' => $second->url);
$node->wait_for_up($second);
is($node->lock_status('last_error IS NULL AND last_error_at IS NULL'),
	't', 'no error of another URL');

# No right to a key: the state is up, the error has what to look at.
$second->cmd('ACL', 'SETUSER', 'eve', 'on', 'nopass', '~mine:*',
	'~redisson_lock__channel:*', '&*', '+@all', '-info');
$node->set('lockredis.url' => 'redis://eve@127.0.0.1:' . $second->port);

# It forgets what was told of the URL before when it reads the new one.
poll_until('the watchdog to be another user',
	sub { grep { $_->{user} eq 'eve' && $_->{name} =~ /watchdog/ } $second->clients });
$node->wait_for_up;
$one->query_fails("SELECT redis_lock('theirs')",
	'58000', qr/denied access.*NOPERM.*HINT:.*ACL LOG.*docs\/acl\.md/s,
	'the hint speaks of the right that is missing');
like($node->lock_status('last_error'), qr/^The node answered: .*NOPERM/, 'and the view');
is($node->lock_status('state'), 'up', 'of a store that is up');
is($node->lock_status('version IS NULL AND maxmemory_policy IS NULL'),
	't', 'that does not say what it is');

# Who may not ask is told so when connecting, and once more.
my $denied = sub { $second->rejected_calls('info') };
my $told;
poll_until('the facts to be asked for', sub { ($told = $denied->()) >= 4 });
my $asked = sub { $second->calls('time') };
my $before = $asked->();
poll_until('another probe', sub { $asked->() > $before });
is($denied->(), $told, 'not asked for again');

# A right that connecting needs.
$second->cmd('ACL', 'SETUSER', 'eve', '-time');
$second->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
$one->query_fails("SELECT redis_lock('mine:k')",
	'58000', qr/denied access.*NOPERM.*HINT:.*ACL LOG/s,
	'the same hint when connecting');

go_back();

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

my $result = $one->query("SELECT redis_try_lock('k')");
$result->fails('58000', qr/could not reach the lock store.*refused.*\nHINT:  See the view redis_lock_status and the server log\.\n/s,
	'a call during the outage');
unlike($result->{raw}, qr/table/, 'which does not recommend table mode');

# ----------
# The next outage
# ----------

$redis->start;
$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'it is back');
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
$one->quit;
$one = $node->session;
$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'over TLS');
$node->log_since_here;
$redis->stop(keep => 1);
my $closer = closes_at_once($redis->tls_port);
wait_for_reason(qr/during the TLS handshake/);
$result = $one->query("SELECT redis_try_lock('k')");
like($result->{raw}, qr/HINT:  See the view redis_lock_status and the server log\.\n/,
	'a node that has answered over TLS does so at this port');
unlike($result->{raw}, qr/may be one without TLS/, 'of which there is no doubt');
end_process($closer);
$redis->start;
$node->wait_for_up;

end_test($node, $redis);
