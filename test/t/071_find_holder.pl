# Copyright (c) 2026, lockredis contributors

# From an owner to a process in two steps, as docs/find-the-holder.md says it: of a session of another
# server by the names of connections in Redis, which have its instance and cluster_name; of
# the real Redisson by the address from which it renews, and the id of a thread.
# A step by which an operator finds a process, so no guarantee speaks of it.

use File::Basename qw(dirname);
use LockRedis::Redisson;
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file system_or_bail);

LockRedis::Redisson->need;

my $redis = LockRedis::Redis->new;
my $here = LockRedis::Node->create('here', redis => $redis);
my $there = LockRedis::Node->create('there', redis => $redis);

# The harness names each server as itself.
system_or_bail('pg_ctl', '-D', $there->data_dir, '-l', $there->logfile, '-o',
	q{--cluster-name='shop db/2.a: "x"'}, '-w', '-m', 'fast', 'restart');
$there->_update_pid(1);

my $java = LockRedis::Redisson->new;
my $waiter = $here->session;
my $holder = $there->session;
my $viewer = $here->session;

$_->wait_for_up foreach $here, $there;

# What the shell prints
sub shell ($command) { return scalar qx{$command}; }

sub cli ($arguments) { return join ' ', $redis->cli_command, $arguments; }

# The owner that the waiter is blocked by
sub blocker ($key)
{
	my $owner;

	$waiter->start("SELECT redis_lock('$key')");
	$here->wait_for_waiters($key, 1);
	poll_until(
		"the owner of $key",
		sub {
			$owner = $viewer->value('SELECT blocked_by_owner FROM redis_locks WHERE pid = ' . $waiter->pid);
			return $owner ne 'NULL';
		});
	return $owner;
}

sub end_wait
{
	$waiter->cancel;
	$waiter->wait(20)->fails('57014', qr/user request/, 'the waiter is done');
	return;
}

# ----------
# The instance
# ----------

my %instance = map { $_->name => $_->value('SELECT DISTINCT instance FROM redis_lock_status') } $here, $there;
like($_, qr/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, 'an instance')
  foreach values %instance;
isnt($instance{here}, $instance{there}, 'each server has its own');

# ----------
# A session of another server
# ----------

$holder->query_is("SELECT redis_lock('k')", '');
my $owner = blocker('k');
my ($uuid) = $owner =~ /^(.*):\d+$/;
is($owner, $viewer->value("SELECT redis_lock_owner('k')"), 'as redis_lock_owner says');
is($uuid, $instance{there}, 'it is of the other server');

# First step: which server
my @lines = split /\n/, shell(cli("CLIENT LIST | grep $uuid"));
cmp_ok(scalar @lines, '>=', 2, 'connections of that server');
is( scalar(grep { !/ name=lockredis-[a-z]+-\d+:\Q$uuid\E:shop_db\/2\.a___x_ / } @lines),
	0, 'which all end with its cluster_name, in characters that Redis takes')
  || diag "@lines";
is(scalar(grep { / name=lockredis-session-@{[ $holder->pid ]}:/ } @lines), 1, 'one is of the holder');
my @ours = split /\n/, shell(cli("CLIENT LIST | grep $instance{here}"));
is(scalar(grep { !/ name=lockredis-[a-z]+-\d+:$instance{here}:here / } @ours),
	0, 'and likewise those of this server');

# Second step: which process
my $page = slurp_file(dirname(__FILE__) . '/../../docs/find-the-holder.md');
my ($sql) = $page =~ /^```sql\n(SELECT l\.pid[^;]*l\.owner = .*?)^```/ms;
$sql =~ s/'[0-9a-f-]{36}:\d+'/'$owner'/;
like($there->session->query($sql)->out, qr/^@{[ $holder->pid ]}\|postgres\|.*redis_lock\('k'\)/,
	'the statement of the page names the session');
end_wait();
$holder->query_is("SELECT redis_unlock('k')", 't');

# ----------
# The real Redisson
# ----------

$uuid = $java->connect('a', $redis, watchdog => 9000);
$java->call('a.1', 'lock', 'j', -1)->or_die;
$owner = blocker('j');
my ($client, $thread) = split /:/, $owner;
is($client, $uuid, 'the id of the Redisson client');

my $seen = '';
poll_until(
	'the renewal to be seen',
	sub { $seen = shell('timeout 4 ' . cli("MONITOR | grep $client || true")); return $seen ne ''; });
my ($port) = $seen =~ /\[0 [\d.]+:(\d+)\]/;
ok($port, 'an address renews it') || diag $seen;
my ($pid) = shell("ss -tnp 'sport = :$port'") =~ /pid=(\d+)/;
is($pid, $java->{pid}, 'which is one of the Java process');
like(shell("jstack $pid | grep '#$thread '"), qr/^".*" #$thread /m, 'that has such a thread');
$java->call('a.1', 'unlock', 'j')->or_die;
$waiter->wait(20);
$waiter->query_is("SELECT redis_unlock('j')", 't');

# ----------
# A token
# ----------

$redis->cmd('SET', 't', 'secret', 'PX', 600_000);
is(blocker('t'), 'token', 'nothing is known of who has a token');
end_wait();
$redis->cmd('DEL', 't');

$java->stop;
end_test([ $here, $there ], $redis);
