# Copyright (c) 2026, lockredis contributors

# A token is a credential: no view, table or message has it, also while it is waited
# for, given back for a call that was stopped, or refused; nor what is asked of Redis
# after the lock was taken.
# Proves G32.

use LockRedis::Search qw(found make_search);
use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();
make_search($node);
$node->set('lockredis.command_timeout' => limit(20) . 's');

my $one = $node->connected_session;
my $admin = $node->session;

# ----------
# One that is had, and another one that is given back
# ----------

# Both were made here, so that no statement has them.
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

# ----------
# Refused
# ----------

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
