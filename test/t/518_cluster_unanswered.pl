# Copyright (c) 2026, lockredis contributors

# A Redis Cluster of which nobody has answered yet: calls fail at once, and say why; the
# first call of a server waits for the first answer, and for no longer than that.  And who
# has written redis://, where a Sentinel or a node of a cluster answers, or the other way
# round, is told what to write.

use LockRedis::RedisCluster;
use LockRedis::Sentinel;
use LockRedis::Test;
use PostgreSQL::Test::Cluster;

my $cluster = LockRedis::RedisCluster->new(masters => 2, replicas => 0);
my $single = LockRedis::Redis->new(name => 'single');
my $sentinel = LockRedis::Sentinel->new(name => 'sentinel', service => 'svc',
	lines => [ 'monitor svc 127.0.0.1 ' . $single->port . ' 1' ]);
my @nobody = map { '127.0.0.1:' . PostgreSQL::Test::Cluster::get_free_port() } 1 .. 3;
my $node = LockRedis::Node->create('main',
	url => 'redis-cluster://' . join(',', @nobody),
	settings => { 'lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s' });
my $one = $node->session;

# ---- nobody answers

# Far less than connect_timeout + command_timeout
sub fails_at_once ($call, $name)
{
	my $result = $one->query("SELECT $call", 30);

	like($result->sqlstate // 'none', qr/^58/, "$name: $call fails");
	like($result->{raw}, qr/Could not connect to the node: Connection refused/, 'and says why');
	return;
}

fails_at_once($_, 'nobody has answered yet')
  foreach q{redis_try_lock('a')}, q{redis_is_locked('b')}, q{redis_try_lock('c')};

# ---- the first call of a server

foreach my $round (1 .. 3)
{
	$node->append_conf('postgresql.conf', "lockredis.url = '" . $cluster->url . "'");
	$node->restart;
	my $session = $node->session;
	$session->query_is("SELECT redis_try_lock('first $round')", 't', 'the first call is served');
	$session->query_is("SELECT redis_unlock('first $round')", 't', 'and the next');
	$session->quit;
}
$one = $node->session;

# ---- a slot that nobody has

{
	my ($first) = $cluster->masters;
	my $key = $cluster->key_on($first, 'open');
	my $slot = $cluster->slot($key);

	$_->cmd('CONFIG', 'SET', 'cluster-require-full-coverage', 'no') foreach $cluster->nodes;
	$_->cmd('CLUSTER', 'DELSLOTS', $slot) foreach $cluster->nodes;
	$node->restart;
	$one = $node->session;
	my $result = $one->query("SELECT redis_try_lock('$key')", 30);
	like($result->{raw}, qr/which node of the cluster has the slot of the key is not known/i,
		'a slot that nobody has: at once');
	$first->cmd('CLUSTER', 'ADDSLOTS', $slot);
	poll_until('it to be served',
		sub { ($one->query("SELECT redis_try_lock('$key')")->value // '') eq 't' });
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}

# ---- something else than was written

sub is_told ($url, $call, $pattern, $name)
{
	my $result;

	$node->set('lockredis.url' => $url);
	poll_until($name, sub {
		$result = $one->query("SELECT $call");
		return $result->{raw} =~ /(?:DETAIL|HINT): .*$pattern/;
	});
	return like($result->sqlstate // 'none', qr/^58/, $name);
}

my ($some) = $cluster->masters;
my $here = $cluster->key_on($some, 'x');
my $also_here = $cluster->key_on($some, 'y');

$node->set('lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '3s');
is_told('redis://' . $sentinel->address, q{redis_try_lock('k')}, qr{redis-sentinel://},
	'redis:// at a Sentinel');
is_told('redis://' . $sentinel->address . '/1', q{redis_try_lock('k')}, qr{redis-sentinel://},
	'redis:// with a database at a Sentinel');
is_told('redis-cluster://' . $sentinel->address, q{redis_try_lock('k')}, qr{redis-sentinel://},
	'redis-cluster:// at a Sentinel');
is_told('redis://' . $some->address . '/1', q{redis_try_lock('k')}, qr{redis-cluster://},
	'redis:// with a database at a node of a cluster');
is_told('redis://' . $some->address, "redis_multi_lock(ARRAY['$here', '$also_here'])",
	qr{redis-cluster://}, 'redis:// at a node of a cluster, for two of its keys');
is_told('redis-cluster://' . $single->address, q{redis_try_lock('k')}, qr{single Redis \(redis://\)},
	'redis-cluster:// at a single Redis');
$node->log_since_here;
$node->set('lockredis.url' => 'redis-sentinel://' . $single->address . '/svc');
poll_until('it to be told', sub { $node->value(q{
	SELECT count(*) FROM redis_lock_status
	 WHERE role = 'sentinel' AND last_error LIKE '%no Sentinel: it is a single Redis%'}) });
$node->set('lockredis.url' => 'redis-sentinel://' . $some->address . '/svc');
poll_until('it to be told', sub { $node->value(q{
	SELECT count(*) FROM redis_lock_status
	 WHERE role = 'sentinel' AND last_error LIKE '%no Sentinel: it is a node of a Redis Cluster%'}) });

$one->quit;
done_testing();
