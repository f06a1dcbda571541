# Copyright (c) 2026, lockredis contributors

# What the watchdog makes due in any case stays due, whatever a session sets at
# the same moment.
#
#   session, granting                    watchdog
#   takes the partition lock
#   which store is in use?  Redis
#                                        the table, from now on
#                                        makes every hold due there
#                                        waits for the partition lock
#   nothing is due in the table
#
# The hold has to be carried over all the same, else it is lost with its lease.
#
#   session, changing a scope            watchdog
#   takes the partition lock
#   due at a third of the lease
#                                        a new connection: the store may be
#                                        another one.  Makes every hold due
#                                        waits for the partition lock
#   writes that
#
# Whether the lock is still there has to be asked at once, not minutes later.
#
# Proves G26.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Debugger->need;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => {
	'lockredis.lease' => '15s', 'lockredis.command_timeout' => '10s' });
my $watchdog = $node->watchdog_pid;

# It has found the hold due, and its session in the way.
sub wait_for_watchdog
{
	return poll_until(
		'the watchdog to wait for the partition',
		sub {
			$node->value("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $watchdog") eq
			  'LWLock';
		});
}

#
# The store changes while a lock is granted.
#

my $one = $node->session;
$one->query_is("SELECT redis_is_held('granted')", 'f', 'grant: before');
my $stop = LockRedis::Debugger->new($one->pid);
$node->log_since_here;
$stop->run_to('lt_set_due_of_held');
$one->start("SELECT redis_lock('granted')");
$stop->wait_for_stop;
$stop->out_of('current_store');
my $owner = owner_in($redis->hash('granted'));
$proxy->mode('refuse');
$proxy->reset_all;
poll_until('the table to be in use', sub { $node->logged(qr/kept in the table from now on/) });
wait_for_watchdog();
$stop->let_go;
is($one->wait(20)->error, undef, 'grant: done');
poll_until('the lock to be carried over, or lost',
	sub {
		owner_in($table->hash('granted')) ne ''
		  || $one->value("SELECT redis_is_held('granted')") eq 'f';
	});
is(owner_in($table->hash('granted')), $owner, 'grant: carried over');
$one->query_is("SELECT redis_is_held('granted')", 't', 'grant: held');
$one->query_is("SELECT redis_unlock('granted')", 't', 'grant: given back');
$node->reconnect($proxy);

#
# A new connection while the scope of a hold changes.  The lease is so long that
# nobody would look for minutes.
#

$one->query("SET lockredis.lease = '1h'");
$one->query_is("SELECT redis_lock('asked')", '', 'asked: held');
$one->query('BEGIN');
$stop = LockRedis::Debugger->new($one->pid);
$stop->run_to('lt_set_due');
$one->start("SELECT redis_xact_lock('asked')");
$stop->wait_for_stop;
$redis->cmd('DEL', 'asked');
$redis->kill_clients('watchdog');
wait_for_watchdog();
$stop->let_go;
is($one->wait(20)->error, undef, 'asked: done');
poll_until('the loss to be found',
	sub { $one->value("SELECT redis_is_held('asked')") eq 'f' }, 20);
is($node->value("SELECT DISTINCT lost_reason FROM redis_locks WHERE key = 'asked'"),
	'deleted', 'asked: at once');
$one->query('ROLLBACK');
$one->query_warns("SELECT redis_unlock('asked')", 'f', '01000', qr/deleted/, 'asked: told');
end_test($node, $redis);
