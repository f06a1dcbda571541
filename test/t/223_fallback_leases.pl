# Copyright (c) 2026, lockredis contributors

# Fallback mode: a lease that is given is moved back once; a real Redisson
# that takes a key while a session here has it in the table (told to the session,
# and to nobody else); a watchdog that was stopped itself.
# Proves G26.

use LockRedis::Redisson;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Redisson->need;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '3s',
		'lockredis.connect_timeout' => '2s', 'lockredis.command_timeout' => '2s' });

# What is left of a lease is asked for so that the answer is good enough the first time.
my $one = $node->session;
$one->query("SELECT redis_lock('once', '5min')");
$node->cut_off($proxy);
poll_until('the lock to be in the table', sub { $table->cmd('EXISTS', 'once') eq '1' });
my $calls = $redis->script_calls;
$node->reconnect($proxy);
poll_until('it to be in Redis alone',
	sub { $redis->cmd('EXISTS', 'once') && $table->cmd('EXISTS', 'once') eq '0' });
cmp_ok($redis->script_calls - $calls, '<=', 4, 'leases: one that is given is moved once');
$one->query_is("SELECT redis_unlock('once')", 't', 'leases: and given back');
nothing_left($node, $redis, name => 'leases: nothing is left of it');

#
# Redisson, which Redis is not away for, takes the key when our lease there has
# run out.
#

my $java = LockRedis::Redisson->new;
$java->connect('a', $redis, watchdog => 3000);
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
