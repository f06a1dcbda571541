# Copyright (c) 2026, lockredis contributors

# Fallback mode with lockredis.min_replicas: in the table it does nothing; on the way
# back replicas have to confirm each lock, and one that they do not stays in the table,
# held, and is tried again.  What asks for none goes back at once.
#
# One that is to go back is put off while the connection for that waits for the replicas of another
# lock.  Nothing of it has been sent: so when it is given back meanwhile, no late create is waited
# for, for which the row would stay for connect_timeout and more.
#
#   main batch   Redis refuses to take over "xx", and replicas do not confirm "y"
#   y            is tried again: its WAIT takes for ever
#   xx           is due again: the connection is busy, it is put off
#   session      unlocks xx: the watchdog gives back what may be in Redis
#
# Proves G26, G37.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new(config => { 'repl-diskless-sync-delay' => 0 });
my $replica = new_replica_of($redis, 'replica');
my ($node, undef, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	redis => $redis,
	settings => {
		'lockredis.lease' => '15s',
		'lockredis.command_timeout' => '3s',
		'lockredis.replica_timeout' => '1s'
	});
my $none = $node->session;
my $one = $node->session(settings => { 'lockredis.min_replicas' => 1 });

sub is_in ($store, $key) { return $store->cmd('EXISTS', $key) eq '1'; }

wait_for_replicas($redis, 1);
run($one, "SELECT redis_lock('before')");
$node->cut_off($proxy);
poll_until('a lock to be in the table', sub { is_in($table, 'before') });

# No replica can be asked, nor has it to be.
run($one, "SELECT redis_lock('meanwhile'), redis_lock('given', '5 min')");
run($none, "SELECT redis_lock('without')");

# Back, without its replica
sub lose_replica
{
	$replica->freeze;
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
	wait_for_replicas($redis, 0);
	return;
}

lose_replica();
my $unreplicated = $node->lock_stat('unreplicated');
$node->reconnect($proxy);
poll_until('what asks for none to be in Redis',
	sub { is_in($redis, 'without') && !is_in($table, 'without') });
poll_until('the others to be tried again',
	sub { $node->lock_stat('unreplicated') >= $unreplicated + 6 });
foreach my $key ('before', 'meanwhile', 'given')
{
	ok(is_in($table, $key), "$key: stays in the table");
	$one->query_is("SELECT redis_is_held('$key')", 't', "$key: and is held");
}
is($node->lock_stat('losses'), 0, 'nothing is lost');

# And with it
$replica->thaw;
foreach my $key ('before', 'meanwhile', 'given')
{
	poll_until("$key to be in Redis alone",
		sub { is_in($redis, $key) && !is_in($table, $key) });
	$one->query_is("SELECT redis_is_held('$key')", 't', "$key: held there");
	is($replica->cmd('EXISTS', $key), 1, "$key: and the replica has it");
}
is($node->lock_stat('losses'), 0, 'nothing was lost');
$one->query_is('SELECT redis_unlock_all()', '3', 'given back');
$none->query_is('SELECT redis_unlock_all()', '1', 'given back');

# Put off
wait_for_replicas($redis, 1);
run($one, $_) foreach "SET lockredis.lease = '1min'", "SELECT redis_lock('xx'), redis_lock('y')";
$node->cut_off($proxy);
poll_until("$_ to be in the table", sub { is_in($table, $_) }) foreach 'xx', 'y';
lose_replica();
$redis->cmd('ACL', 'SETUSER', 'default', 'resetkeys', '~y*');
$node->log_since_here;
$node->reconnect($proxy);
poll_until('xx to be refused', sub { $node->logged(qr/refuses to take over the lock "xx"/) });

my $stop = LockRedis::Debugger->new($node->watchdog_pid);
$stop->run_to('due_batch_fill',
	'b->nitems == 1 && b->items[0].name_len == 1 && b->items[0].min_replicas == 1');
$stop->wait_for_stop;
$stop->tell('set var lr_replica_timeout = 600000');
$stop->run_to('due_put_off', 'item->name_len == 2 && item->min_replicas == 1');
$stop->wait_for_stop;
$redis->cmd('ACL', 'SETUSER', 'default', 'allkeys');
$stop->let_go;

$node->set('lockredis.connect_timeout' => '10min');
$one->query_is("SELECT redis_unlock('xx')", 't', 'put off, and unlocked');
poll_until('nothing to be left of it', sub { $node->count_locks("key = 'xx'") == 0 });
ok(!is_in($redis, 'xx'), 'nothing of it is in Redis');

$replica->thaw;
poll_until('y to be in Redis alone',
	sub { is_in($redis, 'y') && !is_in($table, 'y') });
$one->query_is("SELECT redis_unlock('y')", 't', 'the other one is confirmed, and unlocked');
end_test($node, $redis, clients => 3);
