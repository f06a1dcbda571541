# Copyright (c) 2026, lockredis contributors

# What a master has said that is none any more.  A session is stopped, by a debugger,
# between an answer of the old master and what it does with it; meanwhile another node
# becomes the master and the watchdog finds that out.  454_given_back has what an old one
# has given back; other interleavings are the simulator's (its mutants master_moves,
# promise_forgotten_later).
#
# Proves G1, G7, G38.

use LockRedis::Debugger;
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my ($node, $one, $two) = LockRedis::Node->create(
	'main', sessions => 2, redis => $ha, settings => { 'lockredis.lease' => '5min' });

$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach $one, $two;

# A lock that the old master granted: the session has its answer, but the lock is
# not in the lock table yet.  It is taken from the new master.
{
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my $stop = LockRedis::Debugger->new($one->pid);

	$old->outrun_replicas(@replicas);
	$stop->run_to('lt_grant');
	$one->start("SELECT redis_try_lock('granted')");
	$stop->wait_for_stop;
	my $new = replace_master($node, $ha, @replicas);
	$stop->let_go;
	is($one->wait->error, undef, 'granted by the old master: no error');
	$one->query_is("SELECT redis_is_held('granted')", 't', 'granted by the old master: held');
	is($new->owner_of('granted'), $one->value("SELECT redis_lock_owner('granted')"),
		'granted by the old master: the new one has it');
	$two->query_is("SELECT redis_try_lock('granted')", 'f', 'granted by the old master: by one only');
	$one->query_is("SELECT redis_unlock('granted')", 't', 'granted by the old master: given back');
	ok(!$new->cmd('EXISTS', 'granted'), 'granted by the old master: nothing is left');
	bring_back($node, $ha, $old);
}

# COMMIT before the new master was asked: it asks.  The watchdog is stopped where it
# would begin.
{
	$one->query_is('BEGIN', '', 'a transaction');
	$one->query_is("SELECT redis_xact_lock('commit')", '', 'with a lock');
	$one->query_is('CREATE TABLE t (i int)', '', 'and work');
	my $old = $ha->master;
	my $stop = LockRedis::Debugger->new($node->watchdog_pid);

	$stop->run_to('failover_happened');
	$old->kill9;
	my $new = $ha->wait_for_master_but($old);
	$stop->wait_for_stop;
	$one->query_fails('COMMIT', '58000', qr/could not reach/,
		'COMMIT before the new master was asked: refused');
	$stop->let_go;
	wait_until_used($node, $new);
	bring_back($node, $ha, $old);
}

# What a former master has promised is asked of the new one by whoever asks it first.
# A lease was lengthened, and no replica knew of it when the master died.  The
# watchdog has 5,000 other locks to ask about before; the session is quicker, and asks
# for less: by taking the lock again, by redis_extend, by a COMMIT.  The new master
# has the lock for as long as the session believes all the same.
run($one, 'CREATE TABLE t (i int)');
my @keys = ('taken again', 'extended', 'committed');

run($one, "SELECT redis_lock('$_', '5 min')") foreach @keys;
run($two, "SELECT count(redis_lock('other ' || n)) FROM generate_series(1, 5001) n");
replicated($ha);

my $old = $ha->master;
my @replicas = $ha->replicas;

$old->outrun_replicas(@replicas);
$one->query_is("SELECT redis_extend('$_', '1 h')", 't', "$_: longer, and no replica knows")
  foreach @keys;
$one->query_is("SELECT redis_extend('committed', '2 s')",
	't', 'committed: the lease that its commit asks for');

# The watchdog is stopped when all may connect to the new master, and before it has
# asked there about more than its first 5,000 locks.
my $stop = LockRedis::Debugger->new($node->watchdog_pid);
$stop->run_to('topology_confirm');
$old->kill9;
$_->thaw foreach @replicas;
my $new = $ha->wait_for_master_but($old);
$stop->wait_for_stop;
$stop->tell('finish');
cmp_ok($new->cmd('PTTL', $_), '<', 300_000, "$_: the new master has it for less") foreach @keys;

$one->query_is("SELECT redis_lock('taken again', '1 s')", '', 'taken again');
$one->query_is("SELECT redis_extend('extended', '1 s')", 't', 'extended');
$one->query_is('INSERT INTO t VALUES (1)', '', 'committed');
foreach my $key (@keys)
{
	cmp_ok($new->cmd('PTTL', $key), '>', 3_000_000, "$key: as long at the new master");
	cmp_ok(
		$node->value("SELECT max(expires_in_seconds) FROM redis_locks WHERE key = '$key'"),
		'>', 3000, "$key: as it is believed to be");
	is( $one->value("SELECT lease FROM redis_locks WHERE key = '$key'"),
		$key eq 'committed' ? '00:00:02' : $key eq 'extended' ? '00:00:01' : '01:00:00',
		"$key: its lease is what was asked for");
}
$stop->let_go;
wait_until_used($node, $new);
$one->query_is('SELECT redis_unlock_all()', '3', 'given back');
$two->query_is('SELECT redis_unlock_all()', '5001', 'given back');
bring_back($node, $ha, $old);
end_test($node, $ha);
