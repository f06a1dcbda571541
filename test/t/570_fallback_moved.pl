# Copyright (c) 2026, lockredis contributors

# An answer from Redis that a session reads when its lock has moved to the table: it says
# nothing about the lock any more.
#
#   session                              watchdog
#   asks Redis
#   the lock is where it was asked for
#                                        Redis is away: moves the lock to the table,
#                                        for the lease that it knows
#   a longer lease, or that it is lost
#
# Neither may be believed: the table has the lock, and for the shorter lease, until the
# session asks there.  The watchdog is stopped before the session goes on, so that it
# lengthens nothing by itself.
#
# Proves G26.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Debugger->need;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main',
	settings => { 'lockredis.lease' => '10min', 'lockredis.fallback_after' => '4s' });
my $watchdog = $node->watchdog_pid;
my $one = $node->session;

$one->query_is("SELECT redis_lock('warm'), redis_extend('warm', '20min'), redis_unlock('warm')",
	'|t|t', 'the scripts are loaded');

# Until when the server believes that the session has the key, in seconds: not before that if
# the clock is read after the view, and not after that if it is read before it.
sub ends_at ($key, $clock)
{
	return $node->value(
		"SELECT extract(epoch FROM $clock + expires_in) FROM redis_locks WHERE key = '$key'");
}

# The session asks Redis about the key, and has an answer that it goes on with when the
# table has the lock: what comes of the statement, and by how many seconds the lease has
# become longer by that, when the session comes to the other function.
sub overtaken ($key, $sql, $function, $next)
{
	my $stop = LockRedis::Debugger->new($one->pid);
	my $owner = owner_in($redis->hash($key));

	$redis->cmd('DEL', $key) if $function eq 'lt_lose';
	$stop->run_to($function);
	$one->start($sql);
	$stop->wait_for_stop;
	$node->cut_off($proxy);
	poll_until("$key to be in the table", sub { owner_in($table->hash($key)) eq $owner });
	kill 'STOP', $watchdog;
	my $before = ends_at($key, 'clock_timestamp()');
	$stop->run_to($next);
	$stop->wait_for_stop;
	my $longer = ends_at($key, 'statement_timestamp()') - $before;
	$stop->let_go;
	my $result = $one->wait;
	kill 'CONT', $watchdog;
	return ($result, $longer);
}

sub back_to_redis ($key)
{
	$one->query_is("SELECT redis_is_held('$key'), redis_unlock('$key')", 't|t', "$key: held, given back");
	$node->reconnect($proxy);
	return;
}

# A longer lease.
$one->query_is("SELECT redis_lock('longer')", '', 'longer: for ten minutes');
my ($result, $longer) = overtaken('longer', "SELECT redis_extend('longer', '1 hour')", 'lt_set_scope',
	'ask_lengthen');
is($result->error, undef, 'longer: no error');
cmp_ok($longer, '<', 60, 'longer: the table does not have it for an hour');
back_to_redis('longer');

# A commit asks for the whole of a lease of which a part is over.
$one->query_is("SET lockredis.commit_guard = 'verify'; SELECT redis_lock('again', '1 hour')", '', 'again: taken');
pause(3);
$one->query('BEGIN; SELECT txid_current()');
($result, $longer) = overtaken('again', 'COMMIT', 'lt_raise_deadline', 'lt_look');
is($result->error, undef, 'again: committed');
cmp_ok($longer, '<', 2, 'again: the table does not have it for an hour from then on');
back_to_redis('again');

# Redis has lost it.
$one->query_is("SELECT redis_lock('gone')", '', 'gone: taken');
($result) = overtaken('gone', "SELECT redis_extend('gone', '20 min')", 'lt_lose', 'lt_look');
is($result->error, undef, 'gone: no error');
is($result->value, 't', 'gone: the table has it');
back_to_redis('gone');

end_test($node, $redis);
