# Copyright (c) 2026, lockredis contributors

# What this server knows of its Redis, as redis_lock_status shows it: facts
# that change while it is connected are seen and warned of, once each; the last
# error is one of this Redis, and those are shown too that only sessions are told.
# Proves G36.

use LockRedis::Test;

my ($node, $redis, $one) = servers(sessions => 1);

sub set_policy
{
	my ($policy) = @_;

	$redis->cmd('CONFIG', 'SET', 'maxmemory-policy', $policy);
	return poll_until("the view to show $policy",
		sub { $node->lock_status('maxmemory_policy') eq $policy });
}

sub watchdog_socket
{
	my ($client) = grep { $_->{name} eq 'lockredis-watchdog-' . $node->watchdog_pid }
	  $redis->clients;

	return $client && $client->{id};
}

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

# The connection is lost, and is there again before anybody could call it down.  Then the same Redis
# has another address.
$node->log_since_here;
$redis->cmd('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
poll_until('the warning', sub { $node->logged($evicts) });
poll_until('another connection',
	sub { (watchdog_socket() // $connection) != $connection });
is($node->times_logged(qr/is down/), 0, 'which was not down');
$node->set('lockredis.url' => $redis->unix_url);
poll_until('the socket',
	sub { $node->lock_status('address') ne '127.0.0.1:' . $redis->port });
$node->wait_for_up;
$node->set('lockredis.url' => $redis->url);
poll_until('the other address',
	sub { $node->lock_status('address') eq '127.0.0.1:' . $redis->port });
$node->wait_for_up;
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

$node->set('lockredis.url' => $redis->url);
$node->wait_for_up;
end_test($node, $redis);
