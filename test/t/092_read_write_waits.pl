# Copyright (c) 2026, lockredis contributors

# Read-write locks of two servers: writers that wait are announced and readers that come
# later let them go first; what is left of waits that are given up, of sessions that
# stand still or crash, and of requests whose answer is lost; a client that shortens the given
# leases of all readers, as Redisson before 4.4.0 does; a downgrade while Redis is out of memory.
# (More of who does not run when he is woken, and of requests that come late, is the simulator's:
# its mutants announced_*, disowned_* and late_create.)
# Proves G1, G5, G18.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $near = LockRedis::Node->create('near', url => $proxy->url, redis => $redis);
my $far = LockRedis::Node->create('far', redis => $redis);
my ($reader, $one) = map { $near->session } 1 .. 2;
my ($writer, $two) = map { $far->session } 1 .. 2;
my $soon = limit(20);

$_->wait_for_up foreach $near, $far;

sub writers ($key) { return $redis->cmd('ZCARD', "lockredis_writers:{$key}"); }

# A writer is not starved by readers of another server.
$reader->query_is("SELECT redis_read_lock('a')", '', 'a reader');
$writer->start("SELECT redis_write_lock('a')");
poll_until('the writer to be announced', sub { writers('a') == 1 });
$one->query_is("SELECT redis_try_read_lock('a')", 'f', 'a reader that comes later');
$reader->query_is("SELECT redis_read_lock('a')", '', 'one that is there may go on');
$one->start("SELECT redis_read_lock('a')");
$near->wait_for_waiters('a', 1);
$reader->query_is("SELECT redis_read_unlock('a'), redis_read_unlock('a')", 't|t');
is($writer->wait($soon)->error, undef, 'the writer is next');
is(writers('a'), 0, 'and waits no more');
ok($one->is_running, 'the reader waits');
$writer->query_is("SELECT redis_write_unlock('a')", 't');
is($one->wait($soon)->error, undef, 'and is next then');
$one->query_is("SELECT redis_read_unlock('a')", 't');

# Who gives up takes that back: at a limit, by a cancel, at the end of the session.
$reader->query("SELECT redis_read_lock('b')");
foreach my $how ('limit', 'cancel', 'terminate')
{
	my $session = $far->session;

	$session->start(
		$how eq 'limit' ? "SELECT redis_try_write_lock('b', '10s')" :
		  "SELECT redis_write_lock('b')");
	poll_until("announced: $how", sub { writers('b') == 1 });

	# It does not give up before somebody is kept away by it.
	$session->freeze;
	$one->start("SELECT redis_read_lock('b')");
	$near->wait_for_waiters('b', 1);
	$session->thaw;
	$session->cancel if $how eq 'cancel';
	$session->terminate if $how eq 'terminate';
	is($one->wait($soon)->error, undef, "$how: others may read again");
	$one->query_is("SELECT redis_read_unlock('b')", 't');
	is(writers('b'), 0, "$how: it is taken back");
	my $result = $session->wait($soon);
	is($result->value, 'f', 'false') if $how eq 'limit';
	$session->quit unless $how eq 'terminate';
}

# Who stands still is believed for wait_lease.
$writer->query("SET lockredis.wait_lease = '9s'");
$writer->start("SELECT redis_write_lock('b')");
poll_until('announced', sub { writers('b') == 1 });
my $until = $redis->cmd('ZRANGE', 'lockredis_writers:{b}', 0, 0, 'WITHSCORES')->[1];
poll_until('renewed',
	sub { $redis->cmd('ZRANGE', 'lockredis_writers:{b}', 0, 0, 'WITHSCORES')->[1] > $until });
$far->freeze_asleep($writer);
$one->query_is("SELECT redis_try_read_lock('b', '40s')", 't', 'it is over');
$writer->thaw;
$reader->query_is("SELECT redis_read_unlock('b')", 't');
$one->query_is("SELECT redis_read_unlock('b')", 't');
is($writer->wait($soon)->error, undef, 'and waits on');
$writer->query_is("SELECT redis_write_unlock('b')", 't');
$writer->query_fails("SET lockredis.wait_lease = '999ms'", '22023', qr/wait_lease/, 'too short');

# An answer is lost: what was taken, or announced, is given back.
foreach my $kind ('read', 'write')
{
	my $id = $proxy->rule(on => 'request', match => "lost $kind", action => 'cut');

	$one->query_fails("SELECT redis_try_${kind}_lock('lost $kind')", '58030', qr/./,
		"$kind: no answer");
	poll_until("$kind: all is given back", sub { !grep { /lost $kind/ } $redis->all_keys });
	$proxy->clear;
	$one->query_is("SELECT redis_try_${kind}_lock('lost $kind')", 't', "$kind: free");
	$one->query_is("SELECT redis_${kind}_unlock('lost $kind')", 't');
}

# One that does not run when it is woken, while the key is free, loses the announcement.
{
	my ($stopped, $next) =
	  map { $far->session(settings => { 'lockredis.wait_lease' => '1h' }) } 1 .. 2;

	$redis->cmd('HSET', 'woken', 'mode', 'write', 'elsewhere:1:write', 1);
	$redis->after_second_look('woken',
		sub { $stopped->start("SELECT redis_write_lock('woken')") },
		channel => 'redisson_rwlock:{woken}');
	poll_until('announced', sub { writers('woken') == 1 });
	$next->start("SELECT redis_write_lock('woken')");
	$far->wait_for_waiters('woken', 2);
	$stopped->freeze;
	$redis->cmd('DEL', 'woken');
	$redis->cmd('PUBLISH', 'redisson_rwlock:{woken}', '1');
	is($next->wait($soon)->error, undef, 'the next one of its server has the lock');
	is(writers('woken'), 0, 'nobody is announced');
	$next->query_is("SELECT redis_write_unlock('woken')", 't');
	ok($stopped->is_running, 'the one that was stopped waits on');
	$stopped->thaw;
	is($stopped->wait($soon)->error, undef, 'and has the lock when it runs again');
	$_->quit foreach $stopped, $next;
}

sub reader_of ($key)
{
	return $near->value("SELECT owner FROM redis_locks WHERE key = '$key' AND kind = 'read'");
}

# Shortened to what is far longer than the time to the next look.
$one->query("SELECT redis_read_lock('shortened', '1 h')");
my @keys = ('shortened', '{shortened}:' . reader_of('shortened') . ':rwlock_timeout:1');
$redis->cmd('PEXPIRE', $_, 300_000) foreach @keys;
foreach my $key (@keys)
{
	poll_until("$key has what is left of the lease again",
		sub { $redis->cmd('PTTL', $key) > 1_800_000 }, 60);
	cmp_ok($redis->cmd('PTTL', $key), '<=', 3_600_000, 'and no more');
}
# Somebody reads for longer than a number can say.  The second look is after the first answer.
$near->log_since_here;
foreach my $look (1, 2)
{
	$redis->cmd('PEXPIRE', $keys[0], 9_223_372_036_854_775);
	$redis->cmd('PEXPIRE', $keys[1], 300_000);
	poll_until("look $look", sub { $redis->cmd('PTTL', $keys[1]) > 1_800_000 }, 60);
}
ok(!$near->logged(qr/makes no sense/), 'a time to live that is too long is an answer');
$one->query_is("SELECT redis_is_held('shortened'), redis_read_unlock('shortened')", 't|t', 'it is held');

# What gives back needs no memory.
$one->query("SELECT redis_write_lock('memory'), redis_read_lock('memory')");
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_is("SELECT redis_write_unlock('memory')", 't', 'a downgrade without memory');
is_deeply($redis->hash('memory'), { mode => 'read', reader_of('memory') => 1 }, 'it reads');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$two->query_is("SELECT redis_try_read_lock('memory')", 't', 'others may, too');
$_->query("SELECT redis_read_unlock('memory')") foreach $one, $two;

# A server that crashes: its readers are forgotten when their leases end.
$reader->query("SET lockredis.lease = '3s'; SELECT redis_read_lock('c')");
$two->query("SELECT redis_read_lock('c')");
$reader->kill9;
$two->query("SELECT redis_read_unlock('c')");
$writer->query_is("SELECT redis_try_write_lock('c', '20s')", 't', 'a dead reader');
$writer->query_is("SELECT redis_write_unlock('c')", 't');
poll_until('the crashed server', sub { eval { $near->value('SELECT 1') } }, 60);
$near->wait_for_up;

# A request takes long, and meanwhile the one that asks is woken once more: it is passed over.  The
# others need not wait for what it has announced, though it runs.
{
	my ($first, $second) = map { $near->session(settings => { 'lockredis.wait_lease' => '1h' }) } 1 .. 2;

	$near->set('lockredis.command_timeout' => '5min');
	$redis->cmd('HSET', 'slow', 'mode', 'write', 'elsewhere:1:write', 1);
	$redis->after_second_look('slow', sub { $first->start("SELECT redis_write_lock('slow')") },
		channel => 'redisson_rwlock:{slow}');
	poll_until('announced', sub { writers('slow') == 1 });
	$second->start("SELECT redis_write_lock('slow')");
	$near->wait_for_waiters('slow', 2);
	my $id = $proxy->rule(match => 'slow', action => 'hold', times => 1);
	$redis->cmd('PUBLISH', 'redisson_rwlock:{slow}', '1');
	$proxy->wait_for_rule($id);
	$redis->cmd('PUBLISH', 'redisson_rwlock:{slow}', '1');
	poll_until('the second asks instead', sub { writers('slow') == 2 });
	$proxy->let_go;
	poll_until('the first gives up what it has announced', sub { writers('slow') == 1 });
	$redis->cmd('DEL', 'slow');
	$redis->cmd('PUBLISH', 'redisson_rwlock:{slow}', '1');
	foreach my $session ($second, $first)
	{
		is($session->wait($soon)->error, undef, 'the second has the lock, and then the first');
		$session->query_is("SELECT redis_write_unlock('slow')", 't');
		$session->quit;
	}
}

end_test([ $near, $far ], $redis);
