# Copyright (c) 2026, lockredis contributors

# Token locks, permits, semaphores, latches and conditions at a failover to a replica that has
# all of it: who has one keeps it, who waits waits on and gets what is given back at the new
# master, who waits for a condition is told there; what was to be counted counts once.  And a
# token lock that too few replicas have confirmed is not had.
# Proves G37, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# Who waits does so for as long as a failover may take.
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '1h', 'lockredis.wait_lease' => '3s',
		'lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s' });
my ($one, $two, $for_permit, $for_semaphore, $for_latch, $for_condition, $for_token) =
  map { $node->session } 1 .. 7;
my $token = $node->session(
	settings => { 'lockredis.min_replicas' => 2, 'lockredis.replica_timeout' => limit(15) . 's' });
my $soon = limit(60);

# ---- replicas have to confirm a token lock

$token->query_is("SELECT redis_token_lock('k', '1h', 'secret')", 'secret', 'two have it');
$token->query_is("SELECT redis_token_extend('k', 'secret', '2h')", 't', 'also for longer');
$token->query_is("SELECT redis_token_extend('k', 'secret', '1h')", 't', 'and what it was before');
$token->query("SET lockredis.min_replicas = 3; SET lockredis.replica_timeout = '500ms'");
$token->query_fails("SELECT redis_token_lock('more', '1h', 'secret')", '58030',
	qr/could not be replicated/, 'three there are not');
$token->query_fails("SELECT redis_token_extend('k', 'secret', '3h')", '58030',
	qr/could not be replicated/, 'nor for longer');
poll_until('it to be given back', sub { !$ha->cmd('EXISTS', 'more') });
$token->query('RESET lockredis.min_replicas; RESET lockredis.replica_timeout');

# ---- a failover

$one->query("SELECT redis_permit_init('p', 1), redis_semaphore_init('s', 0), redis_latch_init('l', 2)");
$one->query("SELECT redis_permit_lock('p')");
my $key = 'lockredis_condition_waiting:{c}:da39a3ee5e6b4b0d3255bfef95601890afd80709';

$node->queue_up('p', $for_permit => "SELECT redis_permit_lock('p')");
$node->queue_up('s', $for_semaphore => "SELECT redis_semaphore_acquire('s', 2)");
$node->queue_up('l', $for_latch => "SELECT redis_latch_wait('l')");
$node->queue_up('k', $for_token => "SELECT redis_token_lock('k', '1h', 'next')");
$for_condition->query("SELECT redis_lock('c')");
$for_condition->start("SELECT redis_condition_wait('c')");
poll_until('who waits for the condition', sub { $ha->cmd('EXISTS', $key) });
$two->query_is("SELECT redis_latch_count_down('l')", '1', 'one of two');
$two->query("BEGIN; SELECT redis_semaphore_xact_release('s', 2)");

replicated($ha);
my $master = replace_master($node, $ha);
$node->wait_until_asked($_) foreach $one, $token;

$one->query_is("SELECT redis_is_held('p', 'permit')", 't', 'the permit is had');
ok($_->is_running, 'who waits waits on') foreach $for_permit, $for_semaphore, $for_latch, $for_token;
is($master->cmd('ZCARD', '{p}:timeout'), 1, 'the new master knows it');
$two->query('COMMIT');
is($for_semaphore->wait($soon)->error, undef, 'the commit counts at the new master, and who waited has it');
is($master->cmd('GET', 's'), 0, 'once');
$two->query_is("SELECT redis_latch_count_down('l')", '0', 'the other of two');
is($for_latch->wait($soon)->value, 't', 'who waited goes on');
$one->query_is("SELECT redis_permit_unlock('p')", 't', 'given back');
is($for_permit->wait($soon)->error, undef, 'who waited has it');
$for_permit->query_is("SELECT redis_permit_unlock('p')", 't');

$token->query('SET lockredis.min_replicas = 0');
$token->query_is("SELECT redis_token_is_held('k', 'secret')", 't', 'the new master has the token lock');
$token->query_is("SELECT redis_token_extend('k', 'secret', '4h')", 't', 'and extends it');
ok($master->cmd('PTTL', 'k') > 3 * 3_600_000, 'there');
$token->query_is("SELECT redis_token_unlock('k', 'secret')", 't', 'given back');
is($for_token->wait->value, 'next', 'who waited has it');
$for_token->query_is("SELECT redis_token_unlock('k', 'next')", 't');

# A failover that takes longer than wait_lease tells who waits by itself: then he has the lock
# already, and the other one gets it behind him.
$two->start("SELECT redis_lock('c'), redis_condition_notify('c'), redis_unlock('c')");
is($for_condition->wait($soon)->value, 't', 'who waited for the condition goes on');
$for_condition->query_is("SELECT redis_is_held('c'), redis_unlock('c')", 't|t', 'with the lock');
is($two->wait($soon)->error, undef, 'and so does who has told him');

$ha->cmd('DEL', 'p', 's');
end_test($node, $ha, keys => qr/^lockredis_tickets:/);
