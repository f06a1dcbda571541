# Copyright (c) 2026, lockredis contributors

# Token and read-write locks, permits, semaphores, latches, conditions and several keys at once at
# a failover to a replica that has all of it: who has one keeps it, who waits waits on and gets
# what is given back at the new master, who waits for a condition is notified there; what was to be
# counted counts once.  Read and write locks that it has not are lost, and told.  And a token lock
# that too few replicas have confirmed is not had.
# (Another master between two grants of one answer is the simulator's: its mutant master_grant.)
# Proves G37, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;
use LockRedis::Topic::Kinds;

my $ha = LockRedis::Sentinels->new;
# Who waits does so for as long as a failover may take.
my $node = LockRedis::Node->create('main', redis => $ha,
	settings => { 'lockredis.lease' => '1h', 'lockredis.wait_lease' => '1min',
		'lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s' });
my ($one, $two, $for_semaphore, $for_latch, $for_all) = map { $node->session } 1 .. 5;
my $token = $node->session(
	settings => { 'lockredis.min_replicas' => 2, 'lockredis.replica_timeout' => limit(15) . 's' });
my ($reader, $writer) = map { $node->session } 1 .. 2;
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

my %key = map { $_ => "kept $_" } @kinds;

begin_waits($ha, $one, $node, %key);
$one->query("SELECT redis_semaphore_init('s', 0), redis_latch_init('l', 2)");
$node->queue_up('s', $for_semaphore => "SELECT redis_semaphore_acquire('s', 2)");
$node->queue_up('l', $for_latch => "SELECT redis_latch_wait('l')");
$one->query("SELECT redis_lock('m3')");
$node->queue_up('m3', $for_all => "SELECT redis_multi_lock('{m1,m2,m3}')");
$two->query_is("SELECT redis_latch_count_down('l')", '1', 'one of two');
$two->query("BEGIN; SELECT redis_semaphore_xact_release('s', 2)");

$writer->query("SELECT redis_write_lock('written'), redis_read_lock('written')");

replicated($ha);
my @replicas = $ha->replicas;
$ha->master->outrun_replicas(@replicas);
$reader->query("SELECT redis_read_lock('gone')");
$writer->query("SELECT redis_write_lock('gone too')");
my $master = replace_master($node, $ha, @replicas);
$node->wait_until_asked($_) foreach $one, $token;

is($master->cmd('ZCARD', "{$key{permit}}:timeout"), 1, 'the new master knows the permit');
$two->query('COMMIT');
is($for_semaphore->wait($soon)->error, undef, 'the commit counts at the new master, and who waited has it');
is($master->cmd('GET', 's'), 0, 'once');
$two->query_is("SELECT redis_latch_count_down('l')", '0', 'the other of two');
is($for_latch->wait($soon)->value, 't', 'who waited goes on');
$one->query_is("SELECT redis_unlock('m3')", 't', 'the last of several keys');
is($for_all->wait($soon)->error, undef, 'who waited for it has all of them');
$for_all->query_is("SELECT redis_multi_unlock('{m1,m2,m3}')", 't', 'which were kept');

$token->query('SET lockredis.min_replicas = 0');
$token->query_is("SELECT redis_token_is_held('k', 'secret')", 't', 'the new master has the token lock');
$token->query_is("SELECT redis_token_extend('k', 'secret', '4h')", 't', 'and extends it');
ok($master->cmd('PTTL', 'k') > 3 * 3_600_000, 'there');
$token->query_is("SELECT redis_token_unlock('k', 'secret')", 't', 'given back');

end_waits('at the next master', %key);

# ---- read-write locks

$node->wait_for_loss($_) foreach 'gone', 'gone too';
$reader->query_warns("SELECT redis_read_unlock('gone')", 'f', '01000', qr/lost/,
	'a reader is notified');
$writer->query_warns("SELECT redis_write_unlock('gone too')", 'f', '01000', qr/lost/,
	'a writer is notified');
$writer->query_is("SELECT redis_is_held('written', 'write'), redis_write_unlock('written'), "
	. "redis_is_held('written', 'read'), redis_read_unlock('written')", 't|t|t|t',
	'a writer that reads');

$ha->cmd('DEL', 's');
end_test($node, $ha, keys => qr/^(?:redisson_lock_token:|lockredis_tickets:|.*kept (?:permit|semaphore|latch))/);
