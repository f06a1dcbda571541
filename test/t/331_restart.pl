# Copyright (c) 2026, lockredis contributors

# Restarts and reloads while locks are held and awaited (391_primary_failover has a crash):
# - a restart with other settings leaves the locks of the old place alone
# - the extension without the library: readable, dumpable, said so by all calls,
#   and settings without a definition are everybody's to read
# - a reload: another lease is for new locks; a password is changed under way
# Proves G34.

use IPC::Run;
use LockRedis::Test;

my $redis = LockRedis::Redis->new(name => 'first');
my $other = LockRedis::Redis->new(name => 'second');
my $node = LockRedis::Node->create('main', redis => $redis);
$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN');

# ----------
# Restarts with other settings
# ----------

# An orderly restart gives everything back before.
my ($one, $two) = map { $node->session } 1 .. 2;
$one->query("SELECT redis_lock('session')");
$two->query("BEGIN; SELECT redis_xact_lock('transaction')");
$node->append_conf('postgresql.conf',
	"lockredis.url = '" . $other->url . "'\nlockredis.key_prefix = 'app:'\nlockredis.max_locks = 50");
$node->restart;
$_->quit foreach $one, $two;
is_deeply([ grep { !/^redisson_lock_token:/ } $redis->all_keys ],
	[], 'a restart: all was given back to the old place');
is($node->value('SHOW lockredis.max_locks'), 50, 'with another size');
$redis->cmd('HSET', 'app:k', 'somebody:1', 1);
$one = $node->session;
$one->query_is("SELECT redis_try_lock('k')", 't', 'with another place');
is_deeply([ $other->all_keys ], ['app:k'], 'and another prefix');
is(scalar $redis->clients, 0, 'nobody is at the old one');
$one->quit;
$redis->cmd('FLUSHALL');

# The library is no longer loaded.  Its settings have no definition then, so
# PostgreSQL shows them to everybody: no password belongs into the URL.
$node->safe_psql('postgres', "SELECT redis_fenced_xact_lock('kept')");
my $preload = $node->value('SHOW shared_preload_libraries');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
my $bob = $node->session(user => 'bob');
$bob->query_fails("SELECT redis_lock('k')", '55000',
	qr/must be loaded via.*HINT.*shared_preload_libraries/s, 'without the library');
$bob->query_fails('SELECT * FROM redis_locks', '55000', qr/must be loaded/, 'nor are there views');
$bob->query_is(q{SELECT key, token FROM redis_fences WHERE key = 'app:kept'}, 'app:kept|1',
	'the fence table can be read');
my $fresh = $node->session(user => 'bob');
$fresh->query_is('SHOW lockredis.url', $other->url,
	'and everybody sees what postgresql.conf says');
$fresh->quit;
my $dump;
IPC::Run::run([ 'pg_dump', '-d', $node->connstr('postgres') ], '>', \$dump);
like($dump, qr/^app:kept\t1\t/m, 'it can be dumped');
$bob->quit;
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = '$preload'\nlockredis.key_prefix = ''\nlockredis.url = '"
	  . $redis->url . q{'});
$node->restart;
$node->wait_for_up;
$bob = $node->session(user => 'bob');
$bob->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'with it again');
$bob->query_fails('SHOW lockredis.url', '42501', qr/permission denied|must be superuser/,
	'and nobody sees it');
$bob->quit;
$_->cmd('FLUSHALL') foreach $redis, $other;

# ----------
# Reload: lease
# ----------

$node->set('lockredis.lease' => '6s');
($one, $two) = map { $node->session } 1 .. 2;
$one->query("SELECT redis_lock('before')");
$node->set('lockredis.lease' => '10min');
poll_until('the setting', sub { $one->value('SHOW lockredis.lease') eq '10min' });
my $renewals = q{SELECT renewals FROM redis_locks WHERE key = 'before'};
my $so_far = $node->value($renewals);
$one->query("SELECT redis_lock('after')");
is( $node->value('SELECT key, lease FROM redis_locks ORDER BY key'),
	"after|00:10:00\nbefore|00:00:06",
	'a new lease is for new locks');
poll_until('renewals as before', sub { $node->value($renewals) >= $so_far + 2 });
cmp_ok($redis->cmd('PTTL', 'before'), '<=', 6000, 'by its own lease');
$one->query_is("SELECT redis_lock('before'), redis_hold_count('before'); SELECT redis_unlock_all()",
	"|2\n2", 'taken again, and given back');

# ----------
# Reload: password.  335_moved has another place.
# ----------

$node->set('lockredis.url' => $other->url);
$node->wait_for_up;

# The password is changed in Redis and in its file, all connections are cut,
# nobody is reloaded: who holds and who waits go on with the new one.
$other->cmd('CONFIG', 'SET', 'requirepass', 'secret-1');
$other->{password} = 'secret-1';
$node->set('lockredis.password_file' => secret_file('secret', 'secret-1'));
$node->wait_for_up;
$one->query("SELECT redis_lock('held')");
$other->foreign_lock('foreign');
$node->queue_up('foreign', $two => "SELECT redis_lock('foreign')");
my $channel = 'redisson_lock__channel:{foreign}';
poll_until('the subscription', sub { $other->subscribers($channel) == 1 });
$other->cmd('CONFIG', 'SET', 'requirepass', 'secret-2');
$other->{password} = 'secret-2';
secret_file('secret', 'secret-2');
$other->cmd('CLIENT', 'KILL', 'ID', $_->{id}) foreach $other->clients;
poll_until('the subscription', sub { $other->subscribers($channel) == 1 });
$one->query_is("SELECT redis_lock('held'), redis_unlock('held'), redis_unlock('held')",
	'|t|t', 'a new password: who holds goes on');
$other->cmd('DEL', 'foreign');
$other->cmd('PUBLISH', $channel, 0);
is($two->wait(10)->error, undef, 'a new password: who waits is woken');
$two->query('SELECT redis_unlock_all()');

end_test($node, $other);
