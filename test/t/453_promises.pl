# Copyright (c) 2026, lockredis contributors

# What a former master has promised is asked of the new one by whoever asks it first.
# A lease was lengthened, and no replica knew of it when the master died.  The
# watchdog has 5,000 other locks to ask about before; the session is quicker, and asks
# for less: by taking the lock again, by redis_extend, by a COMMIT.  The new master
# has the lock for as long as the session believes all the same.
#
# Proves G1, G38.

use LockRedis::Debugger;
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my ($node, $one, $many) = LockRedis::Node->create(
	'main', sessions => 2, redis => $ha, settings => { 'lockredis.lease' => '5min' });
my @keys = ('taken again', 'extended', 'committed');

run($one, 'CREATE TABLE t (i int)');
run($one, "SELECT redis_lock('$_', '5 min')") foreach @keys;
run($many, "SELECT count(redis_lock('other ' || n)) FROM generate_series(1, 5001) n");
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
$many->query_is('SELECT redis_unlock_all()', '5001', 'given back');
bring_back($node, $ha, $old);
end_test($node, $ha);
