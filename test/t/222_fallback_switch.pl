# Copyright (c) 2026, lockredis contributors

# Fallback mode at the moments where a lock passes from one store to the other: waiters stay in
# their queue over both switches and get the lock in turn; a lock is there whoever ended in the
# middle (the table worker, the watchdog) and whatever is in the way (a row of somebody else).  (A
# request without an answer, a stopped worker and a Redis that comes and goes are the simulator's:
# its mutants no_orphan, untraced_move, create_unrecorded, answered_meanwhile.)
# Proves G21, G26.

use LockRedis::Test qw(:DEFAULT owner_in);

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '8s',
		'lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '2s' });

sub wait_for_key ($store, $key, $owner)
{
	return poll_until("$key to belong to $owner", sub { owner_in($store->hash($key)) eq $owner });
}

#
# Waiters over both switches.  One has the lock, three wait in order.
#

my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;

$one->query_is("SELECT redis_lock('queue')", '', 'the first has it');
$node->queue_up('queue', map { $_ => "SELECT redis_lock('queue')" } $two, $three, $four);
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
is($two->wait(20)->error, undef, 'a key that this server has had all the time is free at once');
$two->query_is("SELECT redis_unlock('ours')", 't', 'given back');
$node->reconnect($proxy);
nothing_left($node, $redis, name => 'nothing is left of the queue');
is($node->lock_stat('losses'), 0, 'nothing was lost');

#
# The table worker is terminated, and the watchdog, while the table is in use: the next ones know
# what is going on.
#

$three->query_is("SELECT redis_lock('stays', '1 minute')", '', 'a lock');
$owner = owner_in($redis->hash('stays'));
$node->cut_off($proxy);
wait_for_key($table, 'stays', $owner);
my $worker = $node->table_worker_pid;
$node->value("SELECT pg_terminate_backend($worker)");
poll_until('another worker', sub { ($node->table_worker_pid || $worker) != $worker });
$four->query_is("SELECT redis_try_lock('stays')", 'f', 'the lock stands');
$three->query_is("SELECT redis_extend('stays', '2 minutes')", 't', 'and works');
$node->replace_watchdog;
is($node->store_in_use, 'table', 'the table is in use');
$node->reconnect($proxy);
wait_for_key($redis, 'stays', $owner);
$three->query_is("SELECT redis_unlock('stays')", 't', 'given back');
nothing_left($node, $redis, name => 'nothing is left of workers that ended');

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
poll_until('the lock to be moved', sub { $node->lock_stat('moves') > $moves });
cmp_ok($redis->cmd('PTTL', 'late'), '>', 30 * 60 * 1000, 'Redis has granted it too');
$one->query_is("SELECT redis_unlock('late')", 't', 'given back');
$node->wait_for_store('master');
nothing_left($node, $redis, name => 'nothing is left of the late answer');

#
# Redis is loading: it reports the time, and serves nobody.
#

$redis->stop_full;
$node->wait_for_store('table');
$redis->start_loading(60_000);
$one->start(q{SELECT redis_lock('new')});
is($one->wait(40)->error, undef, 'a new key is locked in the table while Redis is loading');
like(${ $redis->try_cmd('PING') }, qr/^LOADING/, 'which it still is');
$redis->forget_loading;
$node->wait_for_store('master');
$one->query_is(q{SELECT redis_unlock('new')}, 't', 'and given back');

end_test($node, $redis);
