# Copyright (c) 2026, lockredis contributors

# Read-write locks of two servers: writers that wait are announced and readers that come
# later let them go first; what is left of waits that are given up, of sessions that
# stand still or crash, and of requests whose answer is lost or that come late; what a
# pair costs; modes without them.
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

sub writers
{
	my ($key) = @_;

	return $redis->cmd('ZCARD', "lockredis_writers:{$key}");
}

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
foreach my $how ('limit', 'lock_timeout', 'cancel', 'terminate')
{
	my $session = $far->session;

	$session->query("SET lock_timeout = '10s'") if $how eq 'lock_timeout';
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
$writer->query_fails("SET lockredis.wait_lease = '999ms'", '22023', qr/wait_lease/,
	'too short');

# An answer is lost: what was taken, or announced, is given back.
foreach my $kind ('read', 'write')
{
	my $id = $proxy->rule(on => 'request', match => "lost $kind", action => 'cut');

	$one->query_fails("SELECT redis_try_${kind}_lock('lost $kind')", '58030', qr/./,
		"$kind: no answer");
	poll_until("$kind: all is given back",
		sub { !grep { /lost $kind/ } $redis->all_keys });
	$proxy->clear;
	$one->query_is("SELECT redis_try_${kind}_lock('lost $kind')", 't', "$kind: free");
	$one->query_is("SELECT redis_${kind}_unlock('lost $kind')", 't');
}

# A request arrives when nobody waits for it any more.
foreach my $kind ('read', 'write')
{
	$near->wait_for_up;
	my $id = $proxy->rule(match => "late $kind", action => 'hold');

	$one->start("SELECT redis_${kind}_lock('late $kind')");
	$proxy->wait_for_rule($id);
	$one->cancel;
	$one->wait(10)->fails('57014', qr/cancel/, "$kind: cancelled");
	$proxy->let_go;
	poll_until("$kind: it is given back",
		sub { $near->count_locks("key = 'late $kind'") == 0 });
	is($redis->cmd('EXISTS', "late $kind"), 0, "$kind: nothing is there");
}

# A server that crashes: its readers are forgotten when their leases end.
$reader->query("SET lockredis.lease = '3s'; SELECT redis_read_lock('c')");
$two->query("SELECT redis_read_lock('c')");
$reader->kill9;
$two->query("SELECT redis_read_unlock('c')");
$writer->query_is("SELECT redis_try_write_lock('c', '20s')", 't', 'a dead reader');
$writer->query_is("SELECT redis_write_unlock('c')", 't');
poll_until('the crashed server', sub { eval { $near->value('SELECT 1') } }, 60);
$near->wait_for_up;

# What a pair costs.
foreach my $kind ('read', 'write')
{
	$two->query("SELECT redis_${kind}_lock('warm'), redis_${kind}_unlock('warm')");
	my @commands = $redis->session_commands(
		sub { $two->query("SELECT redis_${kind}_lock('d'), redis_${kind}_unlock('d')") });
	is(scalar @commands, 2, "$kind: two commands");
	@commands = $redis->session_commands(
		sub {
			$two->query("SELECT redis_${kind}_lock('d'), redis_${kind}_lock('d'), "
				. "redis_${kind}_unlock('d'), redis_${kind}_unlock('d')");
		});
	is(scalar @commands, 2, "$kind: none for what it has already");
}

end_test([ $near, $far ], $redis);
