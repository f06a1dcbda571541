# Copyright (c) 2026, lockredis contributors

# Fallback mode, and Redis refuses one key: that is no outage.  A
# lock that may not be renewed in Redis is lost at its end, one that may not be
# carried back stays in the table; the others stay in, or go to, Redis.
#
# Nor is it one if Redis refuses the watchdog alone, which has to connect again:
#
#   watchdog                        session                     client elsewhere
#   asks, in vain, from now on
#                                   asks Redis, is answered     takes a key there
#                                   has nothing more to ask
#   Redis has not answered for fallback_after: to the table
#                                   wants that key
#
# What the session was answered is as good: locks stay in Redis until nobody is served, and
# the table gives no key away before a lease is over since then.
#
# But if Redis refuses all writes, and answers probes and who only looks, that keeps no lock
# there, though the server log is slow: no probe is sent without what was refused.
# Proves G20, G26.

use LockRedis::Test qw(:DEFAULT fault_library owner_in);

my $redis = LockRedis::Redis->new;

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');

my ($node, undef, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	redis => $redis,
	user => 'bob',
	settings => { 'lockredis.lease' => '6s' });

sub forbid
{
	return $redis->cmd('ACL', 'SETUSER', 'bob', 'resetkeys', '~app:*',
		'~redisson_lock__channel:*');
}

my $one = $node->session;
my $away = qr/locks are kept in the table from now on/;

# A renewal.
$one->value(q{SELECT redis_lock('app:1'), redis_lock('other:1')});
$node->log_since_here;
forbid();
poll_until('the lock to be lost', sub { $one->value(q{SELECT redis_is_held('other:1')}) eq 'f' });
is($node->times_logged($away), 0, 'one key that is denied is no outage');
$one->query_is(q{SELECT redis_is_held('app:1')}, 't', 'the other lock is held');
$one->query_warns(q{SELECT redis_unlock('other:1')},
	'f', '01000', qr/was lost.*expired/s, 'and the loss is told');

poll_until('what it left to have ended', sub { $node->count_locks(q{key = 'other:1'}) == 0 });

# On the way back from the table.
$redis->cmd('ACL', 'SETUSER', 'bob', '~*');
$one->value(q{SET lockredis.lease = '60s'});
$one->value(q{SELECT redis_unlock('app:1')});
$one->value(q{SELECT redis_lock('app:2'), redis_lock('other:2')});
$node->cut_off($proxy);
foreach my $key (qw(app:2 other:2))
{
	poll_until("$key to be carried over", sub { owner_in($table->hash($key)) ne '' });
}
forbid();
$redis->cmd('CONFIG', 'RESETSTAT');
my $began = now();
$node->reconnect($proxy);
poll_until('the lock to be carried back', sub { owner_in($table->hash('app:2')) eq '' });
like($node->log_text, qr/refuses to take over the lock "other:2"\n.*DETAIL:  .*NOPERM/,
	'the log says which one is not');

# Redis has to answer for 2 s before anything is carried back.  That is tried
# again after 1 s and 2 s more, and is two commands.
poll_until('the third try', sub { $redis->rejected_calls('evalsha') >= 6 });
cmp_ok(now() - $began, '>', 4.9, 'it is asked for at growing intervals');
is($node->store_in_use, 'master', 'locks are kept in Redis');
$one->query_is(q{SELECT redis_is_held('other:2'), redis_is_held('app:2')},
	't|t', 'both are held');
$one->query_is(q{SELECT redis_unlock('other:2'), redis_unlock('app:2')},
	't|t', 'and given back');
$redis->cmd('ACL', 'SETUSER', 'bob', '~*');

# On the way back, Redis is full: only the create is refused, and what should set
# the lease finds nothing.
sub times_full
{
	my $line = $redis->info('commandstats')->{cmdstat_hset} // '';

	return $line =~ /rejected_calls=(\d+)/ ? $1 : 0;
}

$one->value(q{SELECT redis_lock('full:1')});
$node->cut_off($proxy);
poll_until('full:1 to be carried over', sub { owner_in($table->hash('full:1')) ne '' });
$redis->cmd('DEL', 'full:1');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$redis->cmd('CONFIG', 'RESETSTAT');
$node->log_since_here;
$began = now();
$node->reconnect($proxy);
poll_until('the third try', sub { times_full() >= 3 });
cmp_ok(now() - $began, '>', 4.9, 'it is asked for at growing intervals');
like($node->log_text,
	qr/refuses to take over the lock "full:1"\n.*DETAIL:  .*OOM/,
	'the log says that Redis is full');
$one->query_is(q{SELECT redis_is_held('full:1')}, 't', 'it is held in the table');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
poll_until('it to be carried back', sub { owner_in($table->hash('full:1')) eq '' });
$one->query_is(q{SELECT redis_unlock('full:1')}, 't', 'and given back');

# The watchdog alone is refused; the session keeps its connection.
my $switches = $node->lock_stat('switches');
my $taken = 0;
$redis->cmd(qw(ACL SETUSER bob off));
$redis->kill_clients('watchdog');
for (1 .. 15)
{
	$taken += $one->value(q{SELECT redis_try_lock('ours') AND redis_unlock('ours')}) eq 't';
	pause(0.2);
}
is($node->lock_stat('switches'), $switches, 'locks stay in Redis');
is($taken, 15, 'and the session gets them');
$redis->foreign_lock('theirs', owner => 'elsewhere:1', ms => 6000);
$one->query_is(q{SELECT redis_try_lock('ours'), redis_unlock('ours')}, 't|t',
	'an answer after somebody elsewhere took a key');
$node->wait_for_store('table');
$one->query_is(q{SELECT redis_try_lock('theirs')}, 'f', 'which is not had here');
$one->start(q{SELECT redis_lock('theirs')});
is($one->wait(30)->error, undef, 'in the table, when nobody is answered');
is($redis->cmd('EXISTS', 'theirs'), '0', 'after the other one');
$one->query_is(q{SELECT redis_unlock('theirs')}, 't', 'given back');
$redis->cmd(qw(ACL SETUSER bob on));
$node->wait_for_store('master');

# Everybody's writes are refused.
$one->quit;
$node->stop;
{
	local $ENV{LD_PRELOAD} = fault_library('slow_log.c');

	$node->start;
}
$node->wait_for_up;
$one = $node->session;
$one->value(q{SET lockredis.lease = '15s'});
$one->value(q{SELECT redis_lock('kept')});
$redis->cmd(qw(CONFIG SET min-replicas-to-write 1));
poll_until('the table to take over',
	sub { $one->value(q{SELECT redis_is_locked('seen')}); $node->store_in_use eq 'table' });
poll_until('what is held to be carried over', sub { owner_in($table->hash('kept')) ne '' });
poll_until('its lease in Redis to end', sub { $redis->cmd('EXISTS', 'kept') eq '0' });
$one->query_is(q{SELECT redis_is_held('kept')}, 't', 'a lock outlives its lease in Redis');

# Scripts are refused, perhaps to this server alone: others may have what nobody here has.
$redis->cmd(qw(ACL SETUSER bob -eval -evalsha));
$redis->cmd(qw(CONFIG SET min-replicas-to-write 0));
$node->wait_for_store('table');
pause(8);    # more than a lease
$one->query_is(q{SELECT redis_try_lock('new'), redis_is_held('kept')}, 'f|t', 'no new key');
$redis->cmd(qw(ACL SETUSER bob +eval +evalsha));
poll_until('it to be carried back', sub { owner_in($table->hash('kept')) eq '' });
$one->query_is(q{SELECT redis_unlock('kept')}, 't', 'and given back');
end_test($node, $redis);
