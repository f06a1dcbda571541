# Copyright (c) 2026, lockredis contributors

# Token locks when something goes wrong in the middle: interrupts at each step, requests
# that are late, replies that are lost, by whom the same token is asked for meanwhile,
# unlock and extend without an answer.  Nothing is kept of a call that has failed, and
# what was had since is not taken away with it.
# Proves G5, G12, G45.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# What is held must be stopped before its time is over; the watchdog looks after it so
# long.
$node->set('lockredis.command_timeout' => limit(6) . 's');

# ----------
# A call that is stopped at each step
# ----------

stop_at_each_step(
	sub { my ($n) = @_; return ("\r\nk$n\r\n", "SELECT redis_token_lock('k$n', '1h', 'secret')") },
	"SELECT redis_token_unlock('warm', redis_token_lock('warm', '1min'))", 't');

# ----------
# The same token again, while the watchdog has still to give back what is left
# ----------

# From here on a reply that is held has to be waited for, however long all else takes.
$node->set('lockredis.command_timeout' => limit(10) . 's');

subtest 'the same token again' => sub {
	my $one = $node->connected_session;

	hold_next("\r\nsame\r\n", on => 'reply');
	$one->start("SELECT redis_token_lock('same', '1h', 'secret')");
	rule_acted();
	kill 'STOP', $node->watchdog_pid;
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, 'cancelled');
	is($node->count_locks, 1, 'an orphan');
	is($redis->cmd('GET', 'same'), 'secret', 'it was had');
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
# A key that another session believes to have
# ----------

# Its renewal finds out; the newcomer gives way until then.
{
	my $one = $node->connected_session;

	$one->query_is("SELECT redis_lock('lost', '1h')", '');
	$redis->cmd('DEL', 'lost');
	$two->query_is("SELECT redis_try_token_lock('lost', '0', '1h')", 'NULL',
		'not beside a session of this server that has the key');
	is($redis->cmd('EXISTS', 'lost'), 0, 'nothing is left of the try');
	$one->query('SELECT redis_unlock_all()');
	$one->quit;
}

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
foreach my $verb (
	[ 'unlock', "SELECT redis_token_unlock('u', 'secret')" ],
	[ 'extend', "SELECT redis_token_extend('u', 'secret', '2h')" ])
{
	my ($what, $sql) = @$verb;

	foreach my $fault ([ 'the request is lost', {} ],
		[ 'the connection is cut', { action => 'cut' } ],
		[ 'the reply is lost', { on => 'reply' } ])
	{
		my ($name, $how) = @$fault;

		subtest "$what: $name" => sub {
			my $one = $node->connected_session;

			$one->query_is("SELECT redis_token_unlock('w', redis_token_lock('w', '1min', 'x')), "
				. "redis_token_is_held('w', 'x')", 't|f', 'the scripts are loaded');
			$one->query_is("SELECT redis_token_lock('u', '1h', 'secret')", 'secret');
			hold_next("\r\nu\r\n", action => 'drop', %$how);
			$one->start($sql);
			rule_acted();
			my $done = $one->wait(120);
			$proxy->let_go;
			if ($what eq 'unlock' && $name ne 'the request is lost')
			{
				$done->fails('58030', qr/did not answer/, 'nobody knows who it was');
				is($redis->cmd('EXISTS', 'u'), 0, 'but it is done');
			}
			else
			{
				is($done->error, undef, 'no error');
				is($done->value, 't', 'done all the same');
				is($redis->cmd('EXISTS', 'u'), $what eq 'unlock' ? 0 : 1, 'in Redis');
			}
			ok($redis->cmd('PTTL', 'u') > 3_600_000, 'longer') if $what eq 'extend';
			$redis->cmd('DEL', 'u');
			$one->quit;
		};
	}
}

end_test($node, $redis);
