# Copyright (c) 2026, lockredis contributors

# Fallback mode: leases of any length at the moment of the switch; a real Redisson
# that takes a key while a session here has it in the table (told to the session,
# and to nobody else); a watchdog that was stopped itself.
# Proves G26.

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Redisson->need;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '3s',
		'lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '2s' });

#
# Leases from 500 ms to 5 minutes, renewed and given.
#

my %renewed = map { $_ => $node->session(settings => { 'lockredis.lease' => $_ }) }
  qw(500ms 2s 9s 30s 5min);
my $given = $node->session;

# The one that is extended at once is the last.
foreach my $lease (qw(500ms 5min 30s 9s 2s))
{
	$renewed{$lease}->query("SELECT redis_lock('renewed $lease')");
	$given->query("SELECT redis_lock('given $lease', '$lease')");
}
$given->query("SELECT redis_extend('given 9s', '20 s'), redis_extend('given 2s', '12 s')");
$node->cut_off($proxy);
foreach my $lease (qw(9s 30s 5min))
{
	poll_until("$lease to be in the table",
		sub {
			$table->cmd('EXISTS', "renewed $lease") eq '1'
			  && $table->cmd('EXISTS', "given $lease") eq '1';
		});
}
$renewed{$_}->query_is("SELECT redis_is_held('renewed $_')", 't', "renewed, $_")
  foreach qw(9s 30s 5min);
$given->query_is("SELECT redis_is_held('given $_')", 't', "given, $_")
  foreach qw(2s 9s 30s 5min);
$renewed{'500ms'}->query_is("SELECT redis_is_held('renewed 500ms')",
	'f', 'one that ends before is lost');
$given->query_is("SELECT redis_is_held('given 500ms')", 'f', 'given or not');
is( $given->value(
		q{SELECT bool_and(clock_timestamp() + expires_in <= acquired_at + lease)
		  FROM redis_locks WHERE key IN ('given 30s', 'given 5min')}),
	't',
	'a given lease is carried and not lengthened');
poll_until('a given lease to end',
	sub { $given->value("SELECT redis_is_held('given 2s')") eq 'f' });
$renewed{'9s'}->query_is("SELECT redis_is_held('renewed 9s')",
	't', 'while others are renewed in the table');
$node->reconnect($proxy);
foreach my $lease (qw(9s 30s 5min))
{
	poll_until("$lease to be in Redis", sub { %{ $redis->hash("renewed $lease") } });
	$renewed{$lease}->query_is("SELECT redis_is_held('renewed $lease')",
		't', "back, $lease");
}
$_->query('SELECT redis_unlock_all()') foreach values %renewed, $given;
nothing_left($node, $redis, name => 'leases: nothing is left');

# What is left of a lease is asked for so that the answer is good enough the first time.
$given->query("SELECT redis_lock('once', '5min')");
$node->cut_off($proxy);
poll_until('the lock to be in the table', sub { $table->cmd('EXISTS', 'once') eq '1' });
my $calls = $redis->script_calls;
$node->reconnect($proxy);
poll_until('it to be in Redis alone',
	sub { $redis->cmd('EXISTS', 'once') && $table->cmd('EXISTS', 'once') eq '0' });
cmp_ok($redis->script_calls - $calls, '<=', 4, 'leases: one that is given is moved once');
$_->quit foreach values %renewed, $given;
nothing_left($node, $redis, name => 'leases: nothing is left of it');

#
# A request that nobody has given up yet when the table takes over: its command
# timeout is longer than fallback_after.  Answered in the end, it says that Redis
# is there, and not that it has been all the time.
#

my $counted = $node->lock_stat('switches');
$node->set('lockredis.command_timeout' => '20s');
$node->log_since_here;
$redis->freeze;
$node->wait_for_store('table');
pause(3);
is($node->lock_stat('switches'),
	$counted + 1, 'under way: to the table, and not to and fro');
ok(!$node->logged(qr/the lock store is down/), 'under way: all the time');
$redis->thaw;
pause(0.5);
is($node->store_in_use, 'table', 'under way: an answer is not yet steady');
$node->wait_for_store('master');
is($node->lock_stat('switches'),
	$counted + 2, 'under way: back when it is');
$node->set('lockredis.command_timeout' => '2s');

#
# Redisson, which Redis is not away for, takes the key when our lease there has
# run out.
#

my $java = LockRedis::Redisson->new;
$java->connect('a', $redis, watchdog => 3000);
my $one = $node->session;
$one->query_is("SELECT redis_lock('both')", '', 'conflict: a session has it');
$node->cut_off($proxy);
poll_until('the lock to be in the table', sub { $table->cmd('EXISTS', 'both') eq '1' });
is($java->value('a.1', 'tryLock', 'both', 10000, -1),
	'true', 'conflict: Redisson takes it when the lease in Redis has ended');
$one->query_is("SELECT redis_is_held('both')", 't', 'conflict: which we cannot know');
$node->reconnect($proxy);
poll_until('the conflict to be told',
	sub { $one->value("SELECT redis_is_held('both')") eq 'f' });
$one->query_fails("SELECT redis_assert_held('both')",
	'55000', qr/taken by \Q@{[ owner_in($redis->hash('both')) ]}\E/,
	'conflict: told to the session');
is($java->call('a.1', 'unlock', 'both')->error, undef, 'conflict: not to Redisson');
$one->query_warns("SELECT redis_unlock('both')", 'f', '01000', qr/taken by/,
	'conflict: and to the session again');
$one->query_is("SELECT redis_try_lock('both')", 't', 'conflict: free');
$one->query_is("SELECT redis_unlock('both')", 't', 'conflict: given back');
$java->shutdown('a');
$java->stop;
poll_until('the row to be gone', sub { !$table->all_keys });

#
# A watchdog that is stopped for longer than fallback_after knows nothing of Redis
# when it goes on.  Its request got no answer, as Redis was frozen for a moment,
# and the connection is gone: that is all that it finds.
#

my $switches = $node->lock_stat('switches');
my $watchdog = $node->watchdog_pid;
$redis->freeze;
pause(0.4);
kill 'STOP', $watchdog;
$proxy->reset_all;
$redis->thaw;
pause(2.5);
kill 'CONT', $watchdog;
pause(1);
is($node->lock_stat('switches'),
	$switches, 'stalled: no reason to leave Redis');

end_test($node, $redis);
