# Copyright (c) 2026, lockredis contributors

# Fallback mode at the moments where a lock passes from one store to the other: waiters stay in
# their queue over both switches and get the lock in turn; a Redis that comes and goes makes nobody
# go to and fro; a lock is given back wherever it may be, whatever stopped in the middle (the table
# worker, the watchdog, a row of somebody else in the way).  (A request without an answer is the
# simulator's: its mutants no_orphan, untraced_move, create_unrecorded.)
# Proves G21, G26.

use LockRedis::Test qw(:DEFAULT owner_in);

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '8s',
		'lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '2s' });

my $counters = qr/^redisson_lock_token:/;

sub wait_for_key
{
	my ($store, $key, $owner) = @_;

	return poll_until("$key to belong to $owner",
		sub { owner_in($store->hash($key)) eq $owner });
}

sub workers_signal
{
	my ($signal, $pid) = @_;

	kill $signal, $pid or die "could not signal $pid: $!";
	return;
}

#
# Waiters over both switches.  One has the lock, three wait in order.
#

my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;

$one->query_is("SELECT redis_lock('queue')", '', 'the first has it');
foreach my $i (1 .. 3)
{
	my $s = ($two, $three, $four)[ $i - 1 ];

	$s->start("SELECT redis_lock('queue')");
	$node->wait_for_waiters('queue', $i);
}
my $owner = owner_in($redis->hash('queue'));

$node->cut_off($proxy);
wait_for_key($table, 'queue', $owner);
$one->query_is("SELECT redis_unlock('queue')", 't', 'given back in the table');
is($two->wait(10)->error, undef, 'the second has it');
ok($three->is_running && $four->is_running, 'and nobody else');

$node->reconnect($proxy);
wait_for_key($redis, 'queue', $owner);
poll_until('the row to be gone', sub { !$table->all_keys });
$two->query_is("SELECT redis_is_held('queue')", 't', 'held over the way back');
$two->query_is("SELECT redis_unlock('queue')", 't', 'given back in Redis');
is($three->wait(10)->error, undef, 'the third has it');
ok($four->is_running, 'the fourth waits');

$three->query_is("SELECT redis_unlock('queue')", 't', 'given back');
is($four->wait(10)->error, undef, 'the fourth has it');
$four->query_is("SELECT redis_unlock('queue')", 't', 'given back');

# One that cannot be handed over to the next, who wants another lease.  A long one
# was seen on the key, so nobody would get it for a minute if it had been free.
$redis->foreign_lock('ours', ms => 60000);
$one->query_is("SELECT redis_try_lock('ours')", 'f', 'a long lease is seen');
$redis->cmd('DEL', 'ours');
$one->query_is("SELECT redis_lock('ours')", '', 'then the key is ours');
$node->cut_off($proxy);
poll_until('the lock to be in the table', sub { $table->cmd('EXISTS', 'ours') eq '1' });
$two->start("SELECT redis_lock('ours', '1 minute')");
$node->wait_for_waiters('ours', 1);
$one->query_is("SELECT redis_unlock('ours')", 't', 'given back');
is($two->wait(20)->error, undef,
	'a key that this server has had all the time is free at once');
$two->query_is("SELECT redis_unlock('ours')", 't', 'given back');
$node->reconnect($proxy);
nothing_left($node, $redis, name => 'nothing is left of the queue');
is($node->lock_stat('losses'), 0, 'nothing was lost');

#
# A Redis that comes and goes.
#

# It is there and away for far less than what is decided by, however late the machine is.
$node->set(
	'lockredis.fallback_after' => '10s',
	'lockredis.lease' => '20s',
	'lockredis.command_timeout' => '300ms');
my $switches = $node->lock_stat('switches');
for (1 .. 5)
{
	$redis->freeze;
	pause(0.5);
	$redis->thaw;
	pause(0.5);
}
is($node->lock_stat('switches'), $switches, 'not to the table');
$node->cut_off($proxy);
for (1 .. 4)
{
	$proxy->mode('pass');
	pause(0.5);
	$proxy->mode('refuse');
	$proxy->reset_all;
	pause(0.3);
}
is($node->lock_stat('switches'), $switches + 1, 'and not back');
$one->query_is("SELECT redis_try_lock('flapping')", 'f',
	'somebody may have got a key while Redis was there');
$node->set(
	'lockredis.fallback_after' => '1s',
	'lockredis.lease' => '8s',
	'lockredis.command_timeout' => '2s');
$node->reconnect($proxy);
$one->query_is("SELECT redis_try_lock('flapping')", 't', 'when it is steady');
$one->query_is("SELECT redis_unlock('flapping')", 't', 'given back');

#
# The table worker is stopped while locks are carried over.  One lock is given
# back meanwhile, one runs out; the rows that the worker writes when it goes on
# belong to nobody and have to go.
#

$one->query_is("SELECT redis_lock('given back')", '', 'one lock');
$two->query_is("SELECT redis_lock('runs out', '3 s')", '', 'another');
$three->query_is("SELECT redis_lock('stays', '1 minute')", '', 'a third');
$owner = owner_in($redis->hash('stays'));
my $worker = $node->table_worker_pid;

workers_signal('STOP', $worker);
$node->cut_off($proxy);
$one->query_warns("SELECT redis_unlock('given back')", 't', '58000', qr/lock store/,
	'given back without an answer');
poll_until('the other to run out',
	sub { $two->value("SELECT redis_is_held('runs out')") eq 'f' });
$two->query_warns("SELECT redis_unlock('runs out')", 'f', '01000', qr/lost/, 'told');
$three->query_is("SELECT redis_is_held('stays')", 't', 'a longer lease stands');
workers_signal('CONT', $worker);
wait_for_key($table, 'stays', $owner);
poll_until('the rows of the others to go',
	sub { join(' ', $table->all_keys) eq 'stays' });

# The worker is terminated: the next one goes on.
$node->value("SELECT pg_terminate_backend($worker)");
poll_until('another worker',
	sub { ($node->table_worker_pid || $worker) != $worker });
$four->query_is("SELECT redis_try_lock('stays')", 'f', 'the lock stands');
$three->query_is("SELECT redis_extend('stays', '2 minutes')", 't', 'and works');

# So is the watchdog: the next one knows what is going on.
my $watchdog = $node->watchdog_pid;
$node->value("SELECT pg_terminate_backend($watchdog)");
poll_until('another watchdog',
	sub { ($node->watchdog_pid || $watchdog) != $watchdog });
is($node->store_in_use, 'table', 'the table is in use');
$node->reconnect($proxy);
wait_for_key($redis, 'stays', $owner);
$three->query_is("SELECT redis_unlock('stays')", 't', 'given back');
nothing_left($node, $redis, name => 'nothing is left of stopped workers');

#
# A row that outlives its instance is in the way.  The lock is not carried over
# while that is so, and its session keeps it for as long as Redis had promised.
#

$one->query_is("SELECT redis_lock('row', '8 s')", '', 'a lock');
ok($table->take('row', 'a program', '1 minute'), 'such a row');
$node->cut_off($proxy);
$one->query_is("SELECT redis_is_held('row')", 't', 'held while the lease runs');
poll_until('the lease to end', sub { $one->value("SELECT redis_is_held('row')") eq 'f' });
$one->query_warns("SELECT redis_unlock('row')", 'f', '01000', qr/lease/, 'told');
is(owner_in($table->hash('row')), 'a program', 'the row stands');
pause(4);
$one->query_is("SELECT redis_try_lock('row')", 'f', 'and counts');
ok($table->give_back('row', 'a program'), 'it goes');
$one->query_is("SELECT redis_try_lock('row')", 't', 'free');
$one->query_is("SELECT redis_unlock('row')", 't', 'given back');
$node->reconnect($proxy);
nothing_left($node, $redis, name => 'nothing is left of the row');

#
# A move whose answer is late: meanwhile the table grants an hour.  Redis has
# granted a minute, and would not keep what the session counts on, so the lock
# stays in the table until Redis has granted the rest of the hour too.
#

$one->query_is("SELECT redis_lock('late', '1 minute')", '', 'a lock');
$owner = owner_in($redis->hash('late'));
$node->cut_off($proxy);
wait_for_key($table, 'late', $owner);
$redis->cmd('DEL', 'late');
$proxy->clear;
my $moves = $node->lock_stat('moves');
my $rule = $proxy->rule(match => 'late', on => 'reply', action => 'hold');
$proxy->mode('pass');
$proxy->wait_for_rule($rule);
wait_for_key($redis, 'late', $owner);
$one->query_is("SELECT redis_extend('late', '1 hour')", 't', 'an hour, in the table');
$proxy->let_go;
poll_until('the lock to be moved',
	sub { $node->lock_stat('moves') > $moves });
cmp_ok($redis->cmd('PTTL', 'late'), '>', 30 * 60 * 1000, 'Redis has granted it too');
$one->query_is("SELECT redis_unlock('late')", 't', 'given back');
$node->wait_for_store('master');
nothing_left($node, $redis, name => 'nothing is left of the late answer');

#
# hold_at_least, a job that begins with Redis and ends without.
#

$two->query('SELECT pg_advisory_lock(1)');
$one->start("CALL redis_with_lock('job', 'SELECT pg_advisory_xact_lock(1)', '0', NULL, '20 s')");
$node->wait_for_postgres_lock($one);
$node->cut_off($proxy);
$two->query('SELECT pg_advisory_unlock(1)');
is($one->wait(20)->error, undef, 'the job ends');
cmp_ok($table->cmd('PTTL', 'job'), '>', 5000, 'the key stays locked in the table');
$node->reconnect($proxy);
cmp_ok($redis->cmd('PTTL', 'job'), '>', 5000, 'and in Redis');
$two->query_is("CALL redis_with_lock('job', 'SELECT 1', '0', NULL, NULL)", 'f',
	'so it does not run again');
$redis->cmd('DEL', 'job');
$table->cmd('DEL', 'job');
nothing_left($node, $redis, name => 'nothing is left of the job');

#
# Redis is loading: it reports the time, and serves nobody.
#

$redis->stop_full;
$node->wait_for_store('table');
$redis->start_loading(60_000);
$one->start(q{SELECT redis_lock('new')});
is($one->wait(40)->error, undef, 'a new key is had in the table while Redis is loading');
like(${ $redis->try_cmd('PING') }, qr/^LOADING/, 'which it still is');
$redis->forget_loading;
$node->wait_for_store('master');
$one->query_is(q{SELECT redis_unlock('new')}, 't', 'and given back');

$_->quit foreach $one, $two, $three, $four;
done_testing();
