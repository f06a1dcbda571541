# Copyright (c) 2026, lockredis contributors

# What a former master has given back, or does not have: two sessions are stopped between such an
# answer and what they do with it; meanwhile another node becomes the master, and has the lock.  It
# is free there soon, and not when a lease ends.  And what was promised of a given lease the new
# master's replicas have to confirm.
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
my ($safe, $first, $next) = map { $node->session } 1 .. 3;
my $given = $node->session(
	settings => { 'lockredis.min_replicas' => 1, 'lockredis.replica_timeout' => '30s' });

$node->wait_for_up;
run($_, "SELECT redis_try_lock('warm'), redis_unlock('warm')") foreach $safe, $first, $next;
run($safe, "SET lockredis.min_replicas = 2; SET lockredis.replica_timeout = '100ms'");
run($given, "SELECT redis_lock('given', '10 min')");
run($first, "SELECT redis_lock('handed')");
$node->queue_up('handed', $next => "SELECT redis_fenced_lock('handed')");

my $old = $ha->master;
my ($replica) = $ha->replicas;
my ($stop, $stop_next) = map { LockRedis::Debugger->new($_->pid) } $safe, $next;

# One is stopped before it gives back what it was granted, one before it asks for the token of what
# it was handed.  Each has its answer, which no replica hears of.
$stop->run_to('ask_run');
$safe->start("SELECT redis_lock('unsafe')");
$stop->wait_for_stop;
$stop_next->run_to('ask_run_held');
run($first, "SELECT redis_unlock('handed')");
$stop_next->wait_for_stop;
replicated($ha);
$old->outrun_replicas($replica);
$old->cmd('DEL', 'handed');
$_->tell('finish') foreach $stop, $stop_next;
ok(!$old->cmd('EXISTS', 'unsafe'), 'given back at the former master');
my $new = replace_master($node, $ha, $replica);
ok($new->cmd('EXISTS', $_), "$_: the new master has it") foreach 'unsafe', 'handed';
my $owner = $new->owner_of('handed');
$_->let_go foreach $stop, $stop_next;
$safe->wait->fails('58030', qr/could not be replicated/, 'unsafe: told as ever');
poll_until('it to be given back there', sub { !$new->cmd('EXISTS', 'unsafe') });
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
