# Copyright (c) 2026, lockredis contributors

# TLS beside Redisson with TLS on the same keys, beside PostgreSQL's own, and in
# fallback mode.
#
# Proves G1, G21, G26.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Ca;
use LockRedis::Redisson;

LockRedis::Redisson->need;
need_tool('keytool');

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create(
	'main',
	url => $redis->tls_url,
	settings => {
		'lockredis.tls_ca_file' => $ca->file,
		'lockredis.mode' => 'fallback',
		'lockredis.fallback_after' => '19s'
	});
$table->use_node($node);
my ($one, $two) = map { $node->session } 1 .. 2;

$node->wait_for_up;

# ----------
# Redisson
# ----------

my $trusted = PostgreSQL::Test::Utils::tempdir_short() . '/trusted.p12';
system('keytool', '-importcert', '-noprompt', '-alias', 'ca', '-file', $ca->file,
	'-keystore', $trusted, '-storetype', 'PKCS12', '-storepass', 'changeit') == 0
  or die 'keytool failed';
my $java = do {
	local $ENV{JAVA_TOOL_OPTIONS} =
	  "-Djavax.net.ssl.trustStore=$trusted -Djavax.net.ssl.trustStorePassword=changeit";
	LockRedis::Redisson->new;
};
$java->value('a', 'connect', $redis->tls_url, 30000);
$redis->cmd('SET', 'counter', 0);

# One counter that both write under the lock, and who wakes whom
$java->call('a.1', 'lock', 'counter lock', -1)->or_die;
$one->start("SELECT redis_lock('counter lock')");
$redis->wait_for_subscribers('counter lock', 1);
$java->call('a.1', 'unlock', 'counter lock')->or_die;
is($one->wait(10)->error, undef, 'Redisson wakes a session');
my $number = $java->send('a.1', 'lock', 'counter lock', -1);
$redis->wait_for_subscribers('counter lock', 1);
$one->query_is("SELECT redis_unlock('counter lock')", 't');
ok(!$java->wait($number, 10)->error, 'and a session Redisson');
$java->call('a.1', 'unlock', 'counter lock')->or_die;

my $file = "$PostgreSQL::Test::Utils::log_path/434_tls_neighbours.counter.history";
my $steps = 100;
my $connection = $redis->connection;
$number = $java->send('a.1', 'counter', 'counter lock', 'counter', $steps, $file);
foreach my $i (1 .. $steps)
{
	run($one, "SELECT redis_lock('counter lock')");
	my $value = $connection->call('GET', 'counter');
	$connection->call('SET', 'counter', $value + 1);
	run($one, "SELECT redis_unlock('counter lock')");
}
ok(!$java->wait($number, 60)->error, 'Redisson has done its steps');
is($connection->call('GET', 'counter'), 2 * $steps, 'none was lost');
$connection->disconnect;
$redis->cmd('DEL', 'counter');
$java->shutdown('a');

# ----------
# PostgreSQL's own TLS in the same process
# ----------

# OpenSSL has one queue of errors for both.
my $own = $ca->certificate('postgres');
$node->append_conf('postgresql.conf', <<"CONF");
ssl = on
ssl_cert_file = '$own->{cert}'
ssl_key_file = '$own->{key}'
listen_addresses = '127.0.0.1'
CONF
$node->append_conf('pg_hba.conf', 'hostssl all all 127.0.0.1/32 trust');
$_->quit foreach $one, $two;
$node->restart;
$node->wait_for_up;
my $tls_port = $redis->tls_port;
my $plain = "SELECT count(*) FILTER (WHERE redis_try_lock('own' || i) AND redis_unlock('own' || i)) FROM generate_series(1, 300) i";
my ($status, $out, $err) = (
	$node->psql(
		'postgres', "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid(); $plain; SELECT pg_sleep(0.1); $plain",
		connstr => $node->connstr('postgres') . ' host=127.0.0.1 sslmode=require',
		on_error_stop => 1))[ 0 .. 2 ];
is("$status $out", "0 t\n300\n\n300", 'both are encrypted, and work');

# What one leaves in the queue is not the other's.
my $wrong = LockRedis::Ca->new('wrong')->file;
$node->set('lockredis.tls_ca_file' => $wrong);
($status, $out, $err) = (
	$node->psql(
		'postgres',
		"SELECT redis_try_lock('own'); SELECT 1; SELECT redis_try_lock('own'); SELECT repeat('x', 100000) = '' AS differs",
		connstr => $node->connstr('postgres') . ' host=127.0.0.1 sslmode=require',
		on_error_stop => 0))[ 0 .. 2 ];
is("$status $out", "0 1\nf", 'an error of one is none of the other');
is(scalar(() = $err =~ /could not reach the lock store/g), 2, 'and is told');
$node->set('lockredis.tls_ca_file' => $ca->file);
$node->wait_for_up;
($one, $two) = ($node->session, $node->session);

# ----------
# Fallback
# ----------

# From here on a Redis that is slow is one that is away.
$node->set(
	'lockredis.fallback_after' => '1s',
	'lockredis.lease' => '20s',
	'lockredis.command_timeout' => '2s');
$one->query_is("SELECT redis_lock('held')", '', 'taken in Redis');
$redis->freeze;
$node->wait_for_store('table');
$one->query_is("SELECT redis_is_held('held')", 't', 'held in the table');
poll_until('another one to be had there',
	sub { $two->query("SELECT redis_try_lock('other')")->out eq 't' });
$redis->thaw;
$node->wait_for_store('master');
poll_until('both to be in Redis',
	sub { 2 == grep { /^(?:held|other)$/ } $redis->all_keys });
$one->query_is("SELECT redis_is_held('held')", 't', 'held in Redis again');
$one->query_is("SELECT redis_unlock('held')", 't', 'and given back there');
$two->query_is("SELECT redis_unlock('other')", 't');

$_->quit foreach $one, $two;
$java->stop;
end_test($node, $redis);
