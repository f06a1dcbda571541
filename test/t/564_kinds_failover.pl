# Copyright (c) 2026, lockredis contributors

# Token and read-write locks, permits, semaphores, latches, conditions and several keys at once at
# a failover to a replica that has all of it: who has one keeps it, who waits waits on and gets
# what is given back at the new master, who waits for a condition is told there; what was to be
# counted counts once.  Read and write locks that it has not are lost, and told.  And a token lock
# that too few replicas have confirmed is not had.
# (Another master between two grants of one answer is the simulator's: its mutant master_grant.)
# Proves G37, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# Who waits does so for as long as a failover may take.
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '1h', 'lockredis.wait_lease' => '3s',
		'lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s' });
my ($one, $two, $for_permit, $for_semaphore, $for_latch, $for_condition, $for_token, $for_all) =
  map { $node->session } 1 .. 8;
my $token = $node->session(
	settings => { 'lockredis.min_replicas' => 2, 'lockredis.replica_timeout' => limit(15) . 's' });
my ($reader, $other, $writer, $for_write) = map { $node->session } 1 .. 4;
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
$one->query("SELECT redis_lock('m3')");
$node->queue_up('m3', $for_all => "SELECT redis_multi_lock('{m1,m2,m3}')");
$for_condition->query("SELECT redis_lock('c')");
$for_condition->start("SELECT redis_condition_wait('c')");
poll_until('who waits for the condition', sub { $ha->cmd('EXISTS', $key) });
$two->query_is("SELECT redis_latch_count_down('l')", '1', 'one of two');
$two->query("BEGIN; SELECT redis_semaphore_xact_release('s', 2)");

$_->query("SELECT redis_read_lock('kept')") foreach $reader, $other;
$writer->query("SELECT redis_write_lock('written'), redis_read_lock('written')");
$node->queue_up('kept', $for_write => "SELECT redis_write_lock('kept')");

replicated($ha);
my @replicas = $ha->replicas;
$ha->master->outrun_replicas(@replicas);
$reader->query("SELECT redis_read_lock('gone')");
$writer->query("SELECT redis_write_lock('gone too')");
my $master = replace_master($node, $ha, @replicas);
$node->wait_until_asked($_) foreach $one, $token;

$one->query_is("SELECT redis_is_held('p', 'permit')", 't', 'the permit is had');
ok($_->is_running, 'who waits waits on') foreach $for_permit, $for_semaphore, $for_latch, $for_token, $for_all;
is($master->cmd('ZCARD', '{p}:timeout'), 1, 'the new master knows it');
$two->query('COMMIT');
is($for_semaphore->wait($soon)->error, undef, 'the commit counts at the new master, and who waited has it');
is($master->cmd('GET', 's'), 0, 'once');
$two->query_is("SELECT redis_latch_count_down('l')", '0', 'the other of two');
is($for_latch->wait($soon)->value, 't', 'who waited goes on');
$one->query_is("SELECT redis_permit_unlock('p')", 't', 'given back');
is($for_permit->wait($soon)->error, undef, 'who waited has it');
$for_permit->query_is("SELECT redis_permit_unlock('p')", 't');
$one->query_is("SELECT redis_unlock('m3')", 't', 'the last of several keys');
is($for_all->wait($soon)->error, undef, 'who waited for it has all of them');
$for_all->query_is("SELECT redis_multi_unlock('{m1,m2,m3}')", 't', 'which were kept');

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

# ---- read-write locks

$node->wait_for_loss($_) foreach 'gone', 'gone too';
$reader->query_warns("SELECT redis_read_unlock('gone')", 'f', '01000', qr/lost/,
	'a reader is told');
$writer->query_warns("SELECT redis_write_unlock('gone too')", 'f', '01000', qr/lost/,
	'a writer is told');
$reader->query_is("SELECT redis_is_held('kept'), redis_read_unlock('kept')", 't|t',
	'a reader that the new master has');
ok($for_write->is_running, 'who waits to write does so');
$other->query_is("SELECT redis_read_unlock('kept')", 't', 'another one');
is($for_write->wait->error, undef, 'until nobody reads');
$for_write->query_is("SELECT redis_write_unlock('kept')", 't');
$writer->query_is("SELECT redis_is_held('written', 'write'), redis_write_unlock('written'), "
	. "redis_is_held('written', 'read'), redis_read_unlock('written')", 't|t|t|t',
	'a writer that reads');

$ha->cmd('DEL', 'p', 's');
end_test($node, $ha, keys => qr/^lockredis_tickets:/);
