# Copyright (c) 2026, lockredis contributors

# A lock that is to go back to Redis, and to its replicas, is put off while the
# connection for that waits for those of another lock.  Nothing of it has been sent: so
# when it is given back meanwhile, no late create is waited for.
#
#   main batch   Redis refuses to take over "xx", and replicas do not confirm "y"
#   y            is tried again: its WAIT takes for ever
#   xx           is due again: the connection is busy, it is put off
#   session      unlocks xx: the watchdog gives back what may be in Redis
#
# No guarantee speaks of it: the row would stay for connect_timeout and more.

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
		'lockredis.lease' => '1min',
		'lockredis.command_timeout' => '3s',
		'lockredis.replica_timeout' => '1s'
	});
my $s = $node->session(settings => { 'lockredis.min_replicas' => 1 });

wait_for_replicas($redis, 1);
run($s, "SELECT redis_lock('xx'), redis_lock('y')");
$node->cut_off($proxy);
poll_until("$_ to be in the table", sub { $table->cmd('EXISTS', $_) eq '1' }) foreach 'xx', 'y';
$replica->freeze;
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
wait_for_replicas($redis, 0);
$redis->cmd('ACL', 'SETUSER', 'default', 'resetkeys', '~y*');
$node->log_since_here;
$node->reconnect($proxy);
poll_until('xx to be refused', sub { $node->logged(qr/refuses to take over the lock "xx"/) });

my $stop = LockRedis::Debugger->new($node->watchdog_pid);
$stop->run_to('due_batch_fill',
	'b->nitems == 1 && b->items[0].name_len == 1 && b->items[0].min_replicas == 1');
$stop->wait_for_stop;
$stop->tell('set var lr_replica_timeout = 600000');
$stop->run_to('put_off', 'item->name_len == 2 && item->min_replicas == 1');
$stop->wait_for_stop;
$redis->cmd('ACL', 'SETUSER', 'default', 'allkeys');
$stop->let_go;

$node->set('lockredis.connect_timeout' => '10min');
$s->query_is("SELECT redis_unlock('xx')", 't', 'put off, and unlocked');
poll_until('nothing to be left of it', sub { $node->count_locks("key = 'xx'") == 0 });
ok(!$redis->cmd('EXISTS', 'xx'), 'nothing of it is in Redis');

$replica->thaw;
poll_until('y to be in Redis alone',
	sub { $redis->cmd('EXISTS', 'y') eq '1' && $table->cmd('EXISTS', 'y') eq '0' });
$s->query_is("SELECT redis_unlock('y')", 't', 'the other one is confirmed, and unlocked');
$s->quit;
end_test($node, $redis, clients => 3);
