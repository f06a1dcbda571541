# Copyright (c) 2026, lockredis contributors

# lockredis.min_replicas: a lock is acquired, and its lease is longer, when so many
# replicas have confirmed it.  Without them it is given back and an error says so;
# nothing is tried again by itself; who has it already keeps it.  0 asks nobody.
#
# Proves G37.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

start_servers('lockredis.lease' => '10min', 'lockredis.replica_timeout' => '2s',
	'lockredis.command_timeout' => '10s');

my $one = $node->session(settings => { 'lockredis.min_replicas' => 1 });
my $two = $node->session(settings => { 'lockredis.min_replicas' => 2 });
my $none = $node->session;

sub commands ($do)
{
	return map { /\] "(\w+)"(?: "(\d+)" "\d+")?/ ? uc($1) . (defined $2 ? " $2" : '') : $_ }
	  $redis->session_commands($do);
}

# How long replicas are waited for
sub waits ($do)
{
	return join ' ', map { /\] "wait" "2" "(\d+)"/i ? $1 : () } $redis->session_commands($do);
}

# Connections, scripts.
$node->warm_up($none, '300ms');
run($_, "SELECT redis_is_locked('nothing')") foreach $one, $two;

# ----------
# What is sent
# ----------

foreach (
	[ $none, "SELECT redis_lock('k'), redis_lock('k'), redis_extend('k', '20min')", 'EVALSHA EVALSHA', '0: nobody is asked' ],
	[ $none, "SELECT redis_unlock_all()", 'EVALSHA', '0: given back' ],
	[ $two, "SELECT redis_lock('k')", 'EVALSHA WAIT 2', 'a lock: two commands' ],
	[ $two, "SELECT redis_lock('k')", '', 'taken again' ],
	[ $two, "SELECT redis_extend('k', '20min')", 'EVALSHA WAIT 2', 'extended' ],
	[ $two, "SELECT redis_unlock('k')", '', 'one of two given back' ],
	[ $two, "SELECT redis_unlock('k')", 'EVALSHA', 'given back' ],
	[ $two, "SET lockredis.commit_guard = verify; BEGIN; SELECT redis_xact_lock('a'), redis_xact_lock('b'); COMMIT; RESET lockredis.commit_guard",
		'EVALSHA WAIT 2 EVALSHA WAIT 2 EVALSHA WAIT 2 EVALSHA', 'a commit that asks: one question for both locks' ],
	[ $two, "SELECT redis_fenced_lock('f'), redis_unlock('f')", 'EVALSHA WAIT 2 EVALSHA', 'with a token' ])
{
	my ($session, $sql, $sent, $name) = @$_;

	is(join(' ', commands(sub { run($session, $sql) })), $sent, $name);
}

# What nobody waits for (the ticket of a semaphore goes) comes before a WAIT, and is none: it
# takes nothing from the time that there is for the next one.
$two->query("SET lockredis.replica_timeout = '1min'");
run($none, "SELECT redis_semaphore_init('number', 5)");
is(waits(sub { run($two, "SELECT redis_lock('k'), redis_semaphore_acquire('number'), redis_lock('l')") }),
	'9750 9750', 'behind a semaphore: as long as the one before');
run($two, "SELECT redis_unlock_all()");
$redis->cmd('DEL', 'number');
$two->query("RESET lockredis.replica_timeout");

# ----------
# Too few
# ----------

replicas_away(1);
$one->query_is("SELECT redis_try_lock('k')", 't', 'one of one');
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
is(join(' ', commands(sub { $two->query_fails("SELECT redis_lock('k')", '58030', unreplicated(1, 2, '2 s')) })),
	'EVALSHA WAIT 2', 'one attempt; the watchdog gives it back');
poll_until('the key to be free', sub { !$redis->cmd('EXISTS', 'k') });
is($node->lock_stat('unreplicated'), 1, 'it is counted');
$none->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'who asks nobody gets it');
$two->query_fails("SET lockredis.replica_timeout = '1500ms'; SELECT redis_try_xact_lock('k', '5 s')",
	'58030', unreplicated(1, 2, '1500 ms'));
poll_until('the key to be free', sub { !$redis->cmd('EXISTS', 'k') });
is($node->lock_stat('unreplicated'), 2, 'no attempt is repeated');
$two->query("RESET lockredis.replica_timeout");

# More than command_timeout allows: a quarter of a second less than that.  The answer to
# the WAIT may come later than that on a machine that is busy.
$node->set('lockredis.command_timeout' => '3s');
is( waits(
		sub {
			$two->query_fails("SET lockredis.replica_timeout = '1min'; SELECT redis_lock('k')",
				'58030', qr/${\unreplicated(1, 2, '2750 ms')}|did not answer in time/);
		}),
	'2750', 'no more than command_timeout allows');
$node->set('lockredis.command_timeout' => '10s');
$two->query("RESET lockredis.replica_timeout");
$node->wait_until_asked($two);
poll_until('the key to be free', sub { !$redis->cmd('EXISTS', 'k') });

# ----------
# Somebody else has it
# ----------

replicas_away(2);
{
	my $connects = $node->lock_stat('connects');

	run($none, "SELECT redis_lock('busy')");
	$redis->foreign_lock('foreign', owner => 'elsewhere:1', ms => 600_000);
	$node->set('lockredis.command_timeout' => '20s');
	$one->query("SET lockredis.replica_timeout = '6s'");
	my $result = $one->query("SELECT redis_try_lock('busy'), redis_try_lock('foreign')");
	is($result->out, 'f|f', 'busy, here and there');
	cmp_ok($result->ms, '<', 6000, 'that is told before replicas have confirmed anything');
	$one->query_is("SELECT redis_is_locked('foreign')",
		't', 'what was still owed is swallowed');
	$one->query_is("SELECT redis_try_lock('foreign')", 'f', 'again');
	$one->query_fails("SELECT redis_try_lock('free')",
		'58030', unreplicated(0, 1, '6 s'));
	is($node->lock_stat('connects'), $connects, 'all over one connection');
	run($none, "SELECT redis_unlock('busy')");
	$redis->cmd('DEL', 'foreign');
	$node->set('lockredis.command_timeout' => '10s');
	$one->query("RESET lockredis.replica_timeout");
}

# ----------
# What is held stays held
# ----------

run($none, "SELECT redis_lock('mine')");
$none->query("SET lockredis.min_replicas = 1");
$none->query_fails("SELECT redis_lock('mine')", '58030', unreplicated(0, 1, '2 s'));
$none->query_is("SELECT redis_is_held('mine'), redis_hold_count('mine')",
	't|1', 'taken again with replicas for the first time: as before');
$none->query_fails("SELECT redis_xact_lock('mine')", '58030', unreplicated(0, 1, '2 s'));
replicas_back();
$none->query_is("SELECT redis_lock('mine')", '', 'they are back');
replicas_away(2);
$none->query_fails("SELECT redis_extend('mine', '2 days')", '58030', unreplicated(0, 1, '2 s'));
cmp_ok($none->value("SELECT expires_in_seconds FROM redis_locks WHERE key = 'mine'"),
	'<', 601, 'an extension counts only when it is confirmed');
$none->query_is("SELECT redis_hold_count('mine')", '2', 'held as before');
$none->query_is("SELECT redis_unlock('mine'), redis_unlock('mine')",
	't|t', 'to give back takes no replica');
$none->query("RESET lockredis.min_replicas");

# ----------
# The commit guard
# ----------

replicas_back();
run($one, "CREATE TABLE t (i int); SET lockredis.commit_guard = verify; BEGIN; SELECT redis_xact_lock('x'); INSERT INTO t VALUES (1)");
replicas_away(2);
$one->query_fails("COMMIT", '58030', unreplicated(0, 1, '2 s'));
replicas_back();
run($one, "SET lockredis.commit_guard = lease; BEGIN; SELECT redis_xact_lock('x', '5 s'); INSERT INTO t VALUES (1)");
replicas_away(2);
poll_until(
	'the lease to be nearly over',
	sub {
		# Or over: then there is none.
		$node->value("SELECT coalesce(min(expires_in_seconds), 0) FROM redis_locks WHERE key = 'x'") < 0.5;
	});
$one->query_fails("COMMIT", '40001', qr/is about to end|was lost/);
is($one->value("SELECT count(*) FROM t"), 0, 'nothing was committed');
replicas_back();

# ----------
# Who may choose
# ----------

$node->value("CREATE ROLE alice LOGIN");
my $alice = $node->session(user => 'alice');

$alice->query_fails("SET lockredis.$_", '42501', qr/permission denied/)
  foreach 'min_replicas = 1', "replica_timeout = '10ms'";
$one->query_fails("SET lockredis.$_", '22023', qr/outside the valid range/)
  foreach 'min_replicas = -1', 'min_replicas = 17', "replica_timeout = '0'", "replica_timeout = '61s'";

end_test(
	$node, $redis,
	keys => qr/^redisson_lock_token/,
	clients => 1 + @replicas);
