# Copyright (c) 2026, lockredis contributors

# Token locks when something goes wrong in the middle: a call that is cancelled when Redis has
# granted it, the same token asked for meanwhile, an answer that is late, unlock and extend
# without an answer.  Nothing is kept of a call that has failed, and what was acquired since is not
# taken away with it.  (Calls that are stopped at other steps are the simulator's: its mutants
# token_id, no_orphan, no_conflict.)
# And nobody is told a token, also while it is waited for, given back or refused.
# Proves G5, G12, G32, G45.

use LockRedis::Search qw(found make_search);
use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# ----------
# The same token again, while the watchdog has still to give back what is left
# ----------

# A reply that is held has to be waited for, however long all else takes.
$node->set('lockredis.command_timeout' => limit(10) . 's');

# The scripts are there, so that what is held is no question for one.
$two->query_is("SELECT redis_token_unlock('warm', redis_token_lock('warm', '1min'))", 't');

subtest 'the same token again' => sub {
	my $one = $node->connected_session;

	hold_next("\r\nsame\r\n", on => 'reply');
	$one->start("SELECT redis_token_lock('same', '1h', 'secret')");
	rule_acted();
	kill 'STOP', $node->watchdog_pid;
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, 'cancelled');
	is($node->count_locks, 1, 'an orphan');
	is($redis->cmd('GET', 'same'), 'secret', 'it was acquired');
	$redis->cmd('DEL', 'same');
	$two->query_is("SELECT redis_try_token_lock('same', '0', '1h', 'secret')", 'NULL',
		'the key is free, but the same token would be taken away');
	$two->query_is("SELECT redis_try_token_lock('same', '0', '1h', 'other')", 'other',
		'another one not');
	$two->query_is("SELECT redis_token_unlock('same', 'other')", 't');
	$node->queue_up('same', $two => "SELECT redis_token_lock('same', '1h', 'secret')");
	kill 'CONT', $node->watchdog_pid;
	is($two->wait->value, 'secret', 'when that is over');
	$proxy->let_go;
	poll_until('no orphan', sub { $node->count_locks == 0 });
	is($redis->cmd('GET', 'same'), 'secret', 'it stays');
	$two->query_is("SELECT redis_token_unlock('same', 'secret')", 't');
	$one->quit;
};

# ----------
# An answer that comes when the lease has ended
# ----------

{
	my $one = $node->connected_session;

	hold_next("\r\nlate\r\n", on => 'reply');
	$one->start("SELECT redis_token_lock('late', '50ms', 'secret')");
	rule_acted();
	key_is_free('late', 'the lease has ended');
	$proxy->let_go;
	$one->wait->fails('58030', qr/answered after the lease had ended/, 'not had');
	nobody_has_any('nothing is left of a late answer');
	$one->quit;
}

# ----------
# Unlock and extend without an answer
# ----------

# What is lost is waited for in vain for so long; all else has to be answered in that time.
$node->set('lockredis.command_timeout' => limit(5) . 's', 'lockredis.connect_timeout' => '60s');
foreach (
	[ 'unlock', 'the request is lost', {}, 0 ],
	[ 'unlock', 'the reply is lost', { on => 'reply' }, 0 ],
	[ 'extend', 'the connection is cut', { action => 'cut' }, 1 ])
{
	my ($what, $name, $how, $there) = @$_;
	my $sql = "SELECT redis_token_$what('u', 'secret'" . ($there ? ", '2h')" : ')');
	my $one = $node->connected_session;

	$one->query_is("SELECT redis_token_unlock('w', redis_token_lock('w', '1min', 'x')), "
		. "redis_token_is_held('w', 'x')", 't|f', 'the scripts are loaded');
	$one->query_is("SELECT redis_token_lock('u', '1h', 'secret')", 'secret');
	hold_next("\r\nu\r\n", action => 'drop', %$how);
	$one->start($sql);
	rule_acted();
	my $done = $one->wait(120);
	$proxy->let_go;
	if ($name eq 'the reply is lost')
	{
		$done->fails('58030', qr/did not answer/, "$what, $name: nobody knows who it was");
	}
	else
	{
		is($done->error // $done->value, 't', "$what, $name: done all the same");
	}
	is($redis->cmd('EXISTS', 'u'), $there, "$what, $name: in Redis");
	ok($redis->cmd('PTTL', 'u') > 3_600_000, 'longer') if $there;
	$redis->cmd('DEL', 'u');
	$one->quit;
}

# ----------
# A token is a credential: no view, table or message has it
# ----------

make_search($node);
$node->set('lockredis.command_timeout' => limit(20) . 's');
my ($one, $admin) = ($node->connected_session, $node->session);

# One that is held, and another one that is released.  Both were made here, so that no statement has them.
my $token = $two->value("SELECT redis_token_lock('k', '1h')");
is($redis->cmd('GET', 'k'), $token, 'Redis has it');
$node->queue_up('k', $three => "SELECT redis_token_lock('k', '1h')");
hold_next("\r\nlost\r\n", on => 'reply');
$one->start("SELECT redis_token_lock('lost', '1h')");
rule_acted();
my $lost = $redis->cmd('GET', 'lost');
like($lost, qr/^[0-9a-f]{32}\z/, 'one that nobody was told');
kill 'STOP', $node->watchdog_pid;
$one->cancel;
my $result = $one->wait;
$result->fails('57014', qr/cancel/, 'cancelled');
is($node->count_rows("redis_locks WHERE key = 'lost' AND kind = 'token'"), 1, 'its orphan');
foreach ([ 'had', $token ], [ 'given back', $lost ])
{
	my ($name, $secret) = @$_;

	is(found($admin, $secret), '', "what is $name is in no table and view");
}
unlike($result->out . $result->error . ($result->detail // ''), qr/$lost/, 'in no message');

# What Redis is told of it from now on
my $monitor = $redis->monitor;
kill 'CONT', $node->watchdog_pid;
$proxy->let_go;
poll_until('the orphan to be given back', sub { !$redis->cmd('EXISTS', 'lost') });
$three->cancel;
$three->wait->fails('57014', qr/cancel/, 'who waits');
$admin->query("CREATE TABLE secret AS SELECT '$token' AS token");
$admin->query_is("SELECT redis_token_extend('k', token, '2h'), redis_token_is_held('k', token), "
	. "redis_token_unlock('k', token) FROM secret", 't|t|t', 'asked for by the token');
my @lines = $monitor->stop;
ok((grep { /EVALSHA|evalsha/ } @lines), 'Redis was asked');
is_deeply([ grep { /$token|$lost/ } @lines ], [], 'not with the token');
$admin->query('DROP TABLE secret');

# One that is refused
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$result = $one->query("SELECT redis_token_lock('k', '1h', 'a-' || 'secret-' || 'word')");
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$result->fails('58030', qr/OOM/, 'refused');
unlike($result->out . $result->error . $result->detail, qr/a-secret-word/, 'not in that message');

# PostgreSQL itself logs statements.
is_deeply(
	[ grep { /$token|$lost|a-secret-word/ && !/(?:LOG:  statement|STATEMENT): / }
	  split /^/, $node->log_text ],
	[], 'nor in the server log');

end_test($node, $redis);
