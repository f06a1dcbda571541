# Copyright (c) 2026, lockredis contributors

# A Redis Cluster with TLS, passwords and a user of few rights, as docs/acl.md has them; an
# lockredis.url that leads from one Redis to the cluster and back while locks are held;
# a watchdog that is started again; one Redis where a cluster was meant, and the other
# way round.

use LockRedis::Ca;
use LockRedis::RedisCluster;
use LockRedis::Test;

my $ca = LockRedis::Ca->new('main');
my $cluster = LockRedis::RedisCluster->new(replicas => 0, tls => $ca, password => 'secret');
my $single = LockRedis::Redis->new(name => 'single');
my $node = LockRedis::Node->create('main', redis => $single, patient => 1,
	settings => { 'lockredis.tls_ca_file' => $ca->file });
my $password = secret_file('password', 'few');

# The rights that one Redis needs, and those of a cluster
my $text = PostgreSQL::Test::Utils::slurp_file('docs/acl.md');
my (undef, $rule) =    # the first one is for all kinds of locks
  $text =~ /^ACL SETUSER lockredis on >secret (resetkeys .* ~\* .*)$/mg or die;
my ($more) = $text =~ /besides,\s`([^`]+)`/ or die;
$rule =~ s/ \+client\|setname//;
$_->cmd('ACL', 'SETUSER', 'lockredis', 'on', '>few', split / /, "$rule $more")
  foreach $cluster->nodes;

my ($one, $two) = map { $node->session } 1 .. 2;

# From one Redis to the cluster
$one->query_is("SELECT redis_try_lock('m')", 't', 'held at one Redis');
$node->set('lockredis.password_file' => $password,
	'lockredis.url' => $cluster->url(user => 'lockredis'));
$cluster->wait_until_used($node);
$node->wait_for_loss('m');
is($node->value("SELECT lost_reason FROM redis_locks WHERE key = 'm'"), 'moved', 'it is lost');
$one->query('SELECT redis_unlock_all()');

# With the rights that are told of
like($cluster->url, qr/^rediss-cluster:/, 'encrypted');
my @keys = map { $cluster->key_on($_, 'k') } $cluster->masters;
foreach my $key (@keys)
{
	$one->query_is("SELECT redis_try_lock('$key')", 't', "taken: $key");
	ok(!(grep { $_->{laddr} !~ /:@{[ $cluster->node_of($key)->tls_port ]}$/ } $cluster->node_of($key)->clients),
		'nobody came to the plain port');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
	$cluster->foreign_lock($key);
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	$cluster->wait_for_subscribers($key, 1);
	$cluster->foreign_unlock($key);
	is($two->wait(60)->error, undef, 'who waited has it');
	$two->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}
{
	my $slot = $cluster->slot($keys[0]);
	my ($from, $to) = $cluster->masters;

	$cluster->begin_move($slot, $to);
	$one->query_is("SELECT redis_try_lock('$keys[0]')", 't', 'taken where the slot is to be');
	$cluster->move_keys($slot);
	$cluster->end_move($slot);
	$one->query_is("SELECT redis_unlock('$keys[0]')", 't', 'and given back there');
	is(scalar(grep { $_ =~ /^k/ } $cluster->all_keys), 0, 'nothing is left');
}
unlike($node->log_text, qr/NOPERM/, 'no right is missing');

# The watchdog is started again: what is held is held on, what is awaited is told
$one->query("SELECT redis_lock('$_')") foreach @keys;
$node->queue_up($keys[1], $two => "SELECT redis_lock('$keys[1]')");
$node->replace_watchdog;
$cluster->wait_until_used($node);
$one->query_is("SELECT redis_is_held('$_')", 't', 'held with another watchdog') foreach @keys;
$one->query_is("SELECT redis_unlock('$keys[1]')", 't', 'given back');
is($two->wait(60)->error, undef, 'who waited has it');
$two->query('SELECT redis_unlock_all()');
$one->query('SELECT redis_unlock_all()');
poll_until('nothing to be left', sub { !$cluster->all_keys });

# A cluster where one Redis was meant, and the other way round
my ($some) = $cluster->masters;
$node->set('lockredis.url' => 'rediss://lockredis@' . $some->address);
$node->wait_for_up;
my ($elsewhere) = grep { $cluster->node_of($_) != $some } @keys;
$one->query_fails("SELECT redis_try_lock('$elsewhere')",
	'58030', qr/MOVED .*HINT: .*rediss?-cluster:/s, 'a node of a cluster');
$node->set('lockredis.url' => 'redis-cluster://' . $single->address,
	'lockredis.password_file' => '');
poll_until('it to be told', sub { $node->value(q{
	SELECT count(*) FROM redis_lock_status WHERE last_error LIKE '%no node of a Redis Cluster%'}) });

# And back
$node->set('lockredis.url' => $single->url);
$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('back')", 't', 'one Redis again');
$one->query_is("SELECT redis_unlock('back')", 't', 'given back');

end_test($node, $single);
