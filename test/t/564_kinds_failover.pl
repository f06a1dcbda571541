# Copyright (c) 2026, lockredis contributors

# Permits, semaphores, latches and conditions at a failover to a replica that has all of it: who
# has a permit keeps it, who waits waits on and gets what is given back at the new master, who
# waits for a condition is told there; what was to be counted counts once.
# Proves G37.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# Who waits does so for as long as a failover may take.
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '1h', 'lockredis.wait_lease' => '3s',
		'lockredis.connect_timeout' => '60s' });
my ($one, $two, $for_permit, $for_semaphore, $for_latch, $for_condition) = map { $node->session } 1 .. 6;
my $soon = limit(60);

$one->query("SELECT redis_permit_init('p', 1), redis_semaphore_init('s', 0), redis_latch_init('l', 2)");
$one->query("SELECT redis_permit_lock('p')");
my $key = 'lockredis_condition_waiting:{c}:da39a3ee5e6b4b0d3255bfef95601890afd80709';

$node->queue_up('p', $for_permit => "SELECT redis_permit_lock('p')");
$node->queue_up('s', $for_semaphore => "SELECT redis_semaphore_acquire('s', 2)");
$node->queue_up('l', $for_latch => "SELECT redis_latch_wait('l')");
$for_condition->query("SELECT redis_lock('c')");
$for_condition->start("SELECT redis_condition_wait('c')");
poll_until('who waits for the condition', sub { $ha->cmd('EXISTS', $key) });
$two->query_is("SELECT redis_latch_count_down('l')", '1', 'one of two');
$two->query("BEGIN; SELECT redis_semaphore_xact_release('s', 2)");

replicated($ha);
my $master = replace_master($node, $ha);
$node->wait_until_asked($one);

$one->query_is("SELECT redis_is_held('p', 'permit')", 't', 'the permit is had');
ok($_->is_running, 'who waits waits on') foreach $for_permit, $for_semaphore, $for_latch;
is($master->cmd('ZCARD', '{p}:timeout'), 1, 'the new master knows it');
$two->query('COMMIT');
is($for_semaphore->wait($soon)->error, undef, 'the commit counts at the new master, and who waited has it');
is($master->cmd('GET', 's'), 0, 'once');
$two->query_is("SELECT redis_latch_count_down('l')", '0', 'the other of two');
is($for_latch->wait($soon)->value, 't', 'who waited goes on');
$one->query_is("SELECT redis_permit_unlock('p')", 't', 'given back');
is($for_permit->wait($soon)->error, undef, 'who waited has it');
$for_permit->query_is("SELECT redis_permit_unlock('p')", 't');

# A failover that takes longer than wait_lease tells who waits by itself: then he has the lock
# already, and the other one gets it behind him.
$two->start("SELECT redis_lock('c'), redis_condition_notify('c'), redis_unlock('c')");
is($for_condition->wait($soon)->value, 't', 'who waited for the condition goes on');
$for_condition->query_is("SELECT redis_is_held('c'), redis_unlock('c')", 't|t', 'with the lock');
is($two->wait($soon)->error, undef, 'and so does who has told him');

$_->quit foreach $one, $two, $for_permit, $for_semaphore, $for_latch, $for_condition;
poll_until('no row', sub { $node->count_locks == 0 });
done_testing();
