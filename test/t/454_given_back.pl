# Copyright (c) 2026, lockredis contributors

# What a former master does not have: a session is stopped between such an answer and what it does
# with it; meanwhile another node becomes the master, and has the lock.  It is free there soon, and
# not when a lease ends.  And what was promised of a given lease the new master's replicas have to
# confirm.
#
# Proves G5, G38.

use LockRedis::Debugger;
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my $ha = LockRedis::Sentinels->new(replicas => 1);
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '1h', 'lockredis.command_timeout' => '1min' });
my ($first, $next) = map { $node->session } 1 .. 2;
my $given = $node->session(
	settings => { 'lockredis.min_replicas' => 1, 'lockredis.replica_timeout' => '30s' });

$node->wait_for_up;
run($_, "SELECT redis_try_lock('warm'), redis_unlock('warm')") foreach $first, $next;
run($given, "SELECT redis_lock('given', '10 min')");
run($first, "SELECT redis_lock('handed')");
$node->queue_up('handed', $next => "SELECT redis_fenced_lock('handed')");

my $old = $ha->master;
my ($replica) = $ha->replicas;
my $stop = LockRedis::Debugger->new($next->pid);

# It is stopped before it asks for the token of what it was handed, and has its answer, which no
# replica hears of.
$stop->run_to('ask_run_held');
run($first, "SELECT redis_unlock('handed')");
$stop->wait_for_stop;
replicated($ha);
$old->outrun_replicas($replica);
$old->cmd('DEL', 'handed');
$stop->tell('finish');
my $new = replace_master($node, $ha, $replica);
ok($new->cmd('EXISTS', 'handed'), 'handed: the new master has it');
my $owner = $new->owner_of('handed');
$stop->let_go;
is($next->wait(30)->error, undef, 'handed: taken from the new master');
isnt($new->owner_of('handed'), $owner, 'handed: anew');
$next->query_is("SELECT redis_unlock('handed')", 't', 'handed: given back');

# The new master has no replica yet.
my $unreplicated = $node->lock_stat('unreplicated');
poll_until('it to be asked for replicas', sub { $node->lock_stat('unreplicated') > $unreplicated });
cmp_ok($new->calls('wait'), '>', 0, 'given: its replicas are asked');

bring_back($node, $ha, $old);
poll_until(
	'a replica to have confirmed it',
	sub {
		my $before = $node->lock_stat('unreplicated');
		pause(2);
		return $node->lock_stat('unreplicated') == $before;
	});
$given->query_is("SELECT redis_is_held('given'), redis_unlock('given')",
	't|t', 'given: held, and given back');
end_test($node, $ha, keys => qr/^redisson_lock_token/);
