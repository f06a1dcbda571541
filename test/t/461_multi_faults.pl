# Copyright (c) 2026, lockredis contributors

# Several keys at once, and what goes wrong in the middle: a request that is late, a
# reply that is lost, interrupts at each step, a script that is not loaded, a lock that
# was taken and deleted meanwhile, one that is lost while others are waited for, one that
# no replica confirms.  Nothing is kept, and nobody else is disturbed.
# Proves G1, G5, G12.

use LockRedis::Test;
use LockRedis::Topic::Cancels;

start_servers();

# What is held must be stopped before its time is over; the watchdog looks after it so
# long.
$node->set('lockredis.command_timeout' => limit(6) . 's');

my $lock = "SELECT redis_multi_lock(ARRAY['c', 'a', 'b'])";

# ----------
# The request for all, and its end
# ----------

stop_at_each_step(
	sub {
		my ($n) = @_;
		return ("\r\nb$n\r\n", "SELECT redis_multi_lock(ARRAY['c$n', 'a$n', 'b$n'])");
	},
	"$lock; SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", "\nt");

# From here on a reply that is held has to be waited for, however long all else takes.
$node->set('lockredis.command_timeout' => limit(20) . 's');

my $one = $node->connected_session;

# A script that Redis does not know is sent for all of them, once more.
$redis->cmd('SCRIPT', 'FLUSH');
$one->query_is($lock, '', 'after SCRIPT FLUSH');
is($redis->all_keys, 3, 'all are there');
$one->query_is("SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", 't');

# ----------
# All had in Redis, and one was deleted and taken before that is known
# ----------

foreach my $wait ('0', '1 h')
{
	hold_next("\r\nb\r\n", on => 'reply');
	$one->start("SELECT redis_try_multi_lock(ARRAY['a', 'b', 'c'], '$wait')");
	rule_acted();
	$redis->cmd('DEL', 'b');
	$two->query_is("SELECT redis_lock('b')", '', 'one was deleted, and is had by another session');
	my $owner = $redis->owner_of('b');
	$proxy->let_go;
	if ($wait eq '0')
	{
		is($one->wait->value, 'f', 'a try has none');
		poll_until('the others to be given back', sub { $redis->all_keys == 1 });
		is($redis->owner_of('b'), $owner, 'the other session is not disturbed');
		$two->query_is("SELECT redis_unlock('b')", 't', 'it still has it');
		next;
	}
	$node->wait_for_waiters('b', 1);
	is($redis->owner_of('b'), $owner, 'the other session is not disturbed');
	$two->query_is("SELECT redis_unlock('b')", 't', 'it still has it');
	is($one->wait->value, 't', 'who waits gets all at last');
	$one->query_is("SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", 't');
}
nobody_has_any('nothing is left');

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

# Nor does one that gets false: it may commit.  The session does not run until the loss
# is known, so its time is not over before that.
$quick->query('CREATE TABLE t (i int)');
$two->query_is("SELECT redis_lock('c')", '');
$quick->query('BEGIN; INSERT INTO t VALUES (1)');
$quick->start(sprintf q{SELECT redis_try_multi_lock(ARRAY['a', 'b', 'c'], '%d s')}, limit(6));
$node->wait_for_waiters('c', 1);
$quick->freeze;
$redis->cmd('DEL', 'a');
$node->wait_for_loss('a');
$quick->thaw;
is($quick->wait->value, 'f', 'false');
is($quick->query('COMMIT')->error, undef, 'nobody was told to have it: no loss');
$two->query_is("SELECT redis_unlock('c')", 't');

# What was had before is lost for its session as ever.
$two->query_is("SELECT redis_lock('c')", '');
$quick->query_is("SELECT redis_lock('a')", '');
$node->queue_up('c', $quick => $lock);
$redis->cmd('DEL', 'a');
$node->wait_for_loss('a');
$two->query_is("SELECT redis_unlock('c')", 't');
$quick->wait->fails('55000', qr/"a" was lost/, 'lost that was had before');
$quick->query_is("SELECT redis_hold_count('b'), redis_hold_count('c')", '0|0', 'none is kept');
$quick->query_warns("SELECT redis_unlock('a')", 'f', '01000', qr/"a" was lost/, 'told');
nobody_has_any('nothing is left');

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
