# Copyright (c) 2026, lockredis contributors

# Several keys at once, and what goes wrong in the middle: a script that is not loaded,
# interrupts while one is waited for, one that is lost meanwhile, one that no replica confirms.
# Nothing is kept, and nobody else is disturbed.  (What comes while the request for all is under
# way, and what was held before, is the simulator's: its mutants several_*.)
# Proves G1, G5, G12.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

my $lock = "SELECT redis_multi_lock(ARRAY['c', 'a', 'b'])";
my $one = $node->connected_session;

# A script that Redis does not know is sent for all of them, once more.
$redis->cmd('SCRIPT', 'FLUSH');
$one->query_is($lock, '', 'after SCRIPT FLUSH');
is($redis->all_keys, 3, 'all are there');
$one->query_is("SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", 't');

# ----------
# Interrupts while one is waited for, and no answer to what is given back then
# ----------

$node->set('lockredis.command_timeout' => limit(5) . 's');
foreach my $stop ('cancel', 'terminate')
{
	my $s = $node->connected_session;

	$two->query_is("SELECT redis_lock('c')", '');
	$node->queue_up('c', $s => $lock);
	hold_next("\r\nb\r\n");
	$s->$stop;
	$s->wait->fails($stop eq 'cancel' ? '57014' : '57P01', qr/./, "$stop while it waits");
	rule_acted();
	poll_until('what it had to be given back', sub { $redis->all_keys == 1 });
	$proxy->let_go;
	$two->query_is("SELECT redis_unlock('c')", 't', 'the other one is not disturbed');
	nobody_has_any('nothing is left');
	$s->quit;
}
$proxy->clear;

# ----------
# One is lost while another one is waited for
# ----------

# A statement that fails leaves nothing lost behind.
my $quick = $node->session(settings => { 'lockredis.lease' => '6s' });
$two->query_is("SELECT redis_lock('c')", '');
$node->queue_up('c', $quick => $lock);
$redis->cmd('DEL', 'a');
$node->wait_for_loss('a');
$two->query_is("SELECT redis_unlock('c')", 't');
$quick->wait->fails('40001', qr/"a" was lost before all of the locks were taken.*deleted/s,
	'lost meanwhile');
$quick->query_is("SELECT redis_hold_count('a'), redis_hold_count('b'), redis_hold_count('c')",
	'0|0|0', 'nothing is kept');
$quick->query_is("$lock; SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", "\nt", 'again');

$quick->query('CREATE TABLE t (i int)');
# The guard knows each of them.
$quick->query("BEGIN; INSERT INTO t VALUES (2); SELECT redis_multi_xact_lock(ARRAY['a', 'b', 'c'])");
$redis->cmd('DEL', 'b');
$node->wait_for_loss('b');
$quick->query('COMMIT')->fails('40001', qr/"b" was lost/, 'a member that is lost refuses the commit');
nobody_has_any('nothing is left');

# ----------
# No replica confirms them
# ----------

$one->query("SET lockredis.min_replicas = 1; SET lockredis.replica_timeout = '50ms'");
$one->query_fails($lock, '58030', qr/could not be replicated/, 'too few replicas');
$one->query('RESET lockredis.min_replicas');
nobody_has_any('nothing is left');

end_test($node, $redis);
