# Copyright (c) 2026, lockredis contributors

# The watchdog as a process: it is seen, stands in nobody's way, may be terminated, killed or
# missing, takes up changed settings, and does next to nothing when nothing is to be done.
# (011_lease stops it.  What nobody answered for it gives back until it can no longer run, and then
# no more: that is the simulator's, its mutants late_create, sent_not_repeated and look_9_for_ever.)
# Proves G3, G29.

use LockRedis::Test;

my ($node, $redis) = servers(settings => { 'lockredis.command_timeout' => '2s' });

# A server with a Redis of its own, so that its commands can be counted.
my $redis2 = LockRedis::Redis->new(name => 'redis2');
my $alone = LockRedis::Node->create(
	'alone',
	redis => $redis2,
	settings => { max_worker_processes => 0 });

# How often a process went to sleep so far: once for each wake-up.
sub wakeups ($pid)
{
	open my $fh, '<', "/proc/$pid/status" or die "cannot look at $pid: $!";
	my ($count) = map { /^voluntary_ctxt_switches:\s+(\d+)/ } <$fh>;
	return $count;
}

sub wait_for_new_watchdog ($old)
{
	# The server may be restarting.
	poll_until('another watchdog', sub { (eval { $node->watchdog_pid } // $old) != $old });
	return $node->watchdog_pid;
}

$node->wait_for_up;

#
# It is seen, and it is connected to no database.
#
is( $node->value(
		q{SELECT count(*), count(datname), min(backend_type)
		    FROM pg_stat_activity WHERE backend_type LIKE '%lockredis%'}),
	'1|0|lockredis watchdog',
	'one watchdog in pg_stat_activity, without a database');

#
# DROP DATABASE and CREATE DATABASE wait until every process has taken notice
# (a barrier), and refuse a database in use: so does the watchdog take notice,
# also in the middle of a request that Redis does not answer.
#
sub databases ($name)
{
	my $session = $node->session(settings => { statement_timeout => '60s' });
	my @failed = grep { defined }
	  map { $session->query("$_ DATABASE scratch")->error } qw(CREATE DROP);

	$session->quit;
	return is("@failed", '', $name);
}

my ($one, $two) = map { $node->session } 1 .. 2;

databases('CREATE and DROP DATABASE');
$one->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'a lock');
$redis->freeze;
$one->query_fails("SELECT redis_try_lock('frozen')", '58030', qr/store/,
	'a request to a frozen Redis: from now on the watchdog asks');
databases('CREATE and DROP DATABASE while Redis is frozen');
$redis->thaw;
$node->wait_for_up;
poll_until('the end of the frozen request', sub { $node->count_locks == 0 });

#
# No worker slot.  What is to be renewed is refused after some 5 seconds.
# Meanwhile the idle watchdog of the other server wakes up for its probe of
# Redis every 5 seconds only.
#
my $watchdog = $node->watchdog_pid;
my ($lonely, $waiter) = ($alone->session, $alone->session);

is($alone->watchdog_pid, undef, 'no slot: no watchdog');
my $before = wakeups($watchdog);
my $since = now();
my $refused = $lonely->query("SELECT redis_lock('refused')");
$refused->fails(
	'55000',
	qr/watchdog is not running.*HINT:.*max_worker_processes/s,
	'no slot: what is to be renewed is refused');
cmp_ok($refused->ms, '>=', 4_000, 'no slot: after some patience');
cmp_ok($refused->ms, '<', 20_000, 'no slot: not much of it');
is(scalar $redis2->all_keys, 0, 'no slot: nothing was taken');

my $count = wakeups($watchdog) - $before;
note sprintf 'idle: %d wake-ups in %.1f s', $count, now() - $since;
cmp_ok($count, '<=', 5 + now() - $since, 'idle: next to no wake-ups');

# A lock that is taken and given back does not wake it, nor does a try that finds the lock with a
# foreign holder: nobody waits.
$redis->foreign_lock('busy');
my $subscribes = $redis->calls('subscribe');
foreach my $call ("redis_lock('pair'); PERFORM redis_unlock('pair')", "redis_try_lock('busy')")
{
	$before = wakeups($watchdog);
	$one->query("DO \$\$ BEGIN FOR i IN 1..2000 LOOP PERFORM $call; END LOOP; END \$\$");
	$count = wakeups($watchdog) - $before;
	note "2,000 times $call: $count wake-ups";
	cmp_ok($count, '<=', 40, "$call does not wake it");
}
is($redis->calls('subscribe'), $subscribes, 'nor makes it listen');
$redis->cmd('DEL', 'busy');

# Two sessions that wait for each other do not either, each time.  The one that has the lock sleeps,
# so that the other one runs and has to wait, whatever else the machine does.
my $waits = $node->lock_stat('waits');
$before = wakeups($watchdog);
$since = now();
$node->pgbench(
	'-n -c 2 -j 2 -t 500', 0, [qr{processed: 1000/1000}], [qr{^$}],
	'two sessions want the same lock',
	{ hot => "SELECT redis_lock('hot'), pg_sleep(0.001);\nSELECT redis_unlock('hot');\n" });
$count = wakeups($watchdog) - $before;
$waits = $node->lock_stat('waits') - $waits;
note "$waits waits: $count wake-ups";
cmp_ok($waits, '>=', 200, 'they wait for each other');
cmp_ok($count, '<=', 40 + 3 * (now() - $since), 'waiting does not wake it each time');

# 100 locks that were taken one after another are renewed together.  They are
# renewed every 10 seconds; what lies between is used for other tests.
# What is taken slowly is renewed slowly, so that time counts, too.
$before = wakeups($watchdog);
my $held_since = now();
$one->query(
	q{DO $$ BEGIN FOR i IN 1..100 LOOP
		PERFORM redis_lock('held ' || i), pg_sleep(0.01);
	END LOOP; END $$});

#
# No worker slot: nothing else is refused, and waiters look once a second.
#
$lonely->query_is("SELECT redis_try_lock('given', '0', '60s')", 't', 'no slot: a given lease');
$lonely->query_is(
	"SELECT redis_try_lock('given', '0', '60s'), redis_hold_count('given')",
	't|2', 'no slot: taken again');
$waiter->start("SELECT redis_lock('given', '60s')");
$alone->wait_for_waiters('given', 1);
$lonely->query_is("SELECT redis_unlock('given'), redis_unlock('given')",
	't|t', 'no slot: given back');
is($waiter->wait(20)->error, undef, 'no slot: a local waiter has it');
$waiter->query_is("SELECT redis_unlock('given')", 't', 'no slot: given back again');

$redis2->foreign_lock('polled');
my $calls = $redis2->script_calls;
my $polling = now();
$waiter->start("SELECT redis_lock('polled', '60s')");
poll_until('three polls', sub { $redis2->script_calls >= $calls + 4 });
cmp_ok(now() - $polling, '>', 2, 'no slot: polling once a second');
$redis2->cmd('DEL', 'polled');
is($waiter->wait(20)->error, undef, 'no slot: a waiter polls');
$_->quit foreach $lonely, $waiter;

nothing_left($alone, $redis2, name => 'nothing is left there');
$alone->stop;
$redis2->stop;

# Back to the 100 locks.
poll_until('renewals', sub { $node->count_locks('granted AND renewals > 0') == 100 });
$count = wakeups($watchdog) - $before;
note sprintf '100 locks: %d wake-ups in %.1f s', $count, now() - $held_since;
cmp_ok($count, '<=', 20 + now() - $held_since, '100 held locks: few wake-ups');
is($one->value('SELECT redis_unlock_all()'), 100, '100 held locks: given back');

#
# Terminated while it has work: it serves for a command_timeout more, is back
# after a second, and what the new one has never seen taken is renewed.
#
my $holder = $node->session(settings => { 'lockredis.lease' => '9s' });
$holder->query("SELECT redis_lock('kept'), redis_lock('wanted')");
$redis->foreign_lock('foreign');
$one->start("SELECT redis_lock('wanted')");
$two->start("SELECT redis_lock('foreign')");
$redis->wait_for_subscribers('foreign', 1);

my $owner = $redis->owner_of('kept');
$node->value("SELECT pg_terminate_backend($watchdog)");
$watchdog = wait_for_new_watchdog($watchdog);
$holder->query_is("SELECT redis_is_held('kept')", 't', 'terminated: held');
is_deeply($redis->hash('kept'), { $owner => 1 },
	'terminated: the lock has survived in Redis');

# The new watchdog listens again: the message wakes the waiter, whose holder
# had ten minutes left.
$redis->wait_for_subscribers('foreign', 1);
$redis->foreign_unlock('foreign');
is($two->wait(20)->error, undef, 'terminated: woken by a message');
poll_until('renewals by the new watchdog',
	sub { $node->value(q{SELECT renewals FROM redis_locks WHERE key = 'kept'}) >= 3 });
$holder->query_is("SELECT redis_is_held('kept')", 't',
	'terminated: still held after more than a lease');
$holder->query_is("SELECT redis_unlock('wanted')", 't', 'terminated: released');
is($one->wait(20)->error, undef, 'terminated: a local waiter goes on');
$_->quit foreach $holder, $one, $two;

# With nothing to serve it does not stay for command_timeout.
$node->set('lockredis.command_timeout' => '120s');
kill 'TERM', $watchdog;
$watchdog = wait_for_new_watchdog($watchdog);
$node->wait_for_up;

#
# Reload.  A new command_timeout counts for it: with the old one of 120 s the
# store would not be found down.
#
$one = $node->session;
$one->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')",
	't|t', 'reload: a lock before');
$redis->freeze;
$node->set(
	'lockredis.command_timeout' => '500ms',
	'lockredis.connect_timeout' => '500ms');
my $failed = $one->query("SELECT redis_try_lock('frozen')");
$failed->fails('58030', qr/store/, 'reload: a session fails');
cmp_ok($failed->ms, '<', 20_000, 'reload: by the new timeouts');
poll_until('the watchdog to see Redis frozen', sub { $node->lock_status('state') eq 'down' });
is($node->watchdog_pid, $watchdog, 'reload: timeouts, by the same process');
$redis->thaw;
$node->wait_for_up;
$one->quit;
$node->set('lockredis.command_timeout' => '2s');

#
# Gone for longer than a second while a session waits for a foreign holder: the
# postmaster is stopped, so that it cannot start another.  The waiter polls;
# nobody tells it anything, and the holder had ten minutes left.  What it has
# already would be renewed, but its lease was given, so it needs no watchdog.
#
$one = $node->session;
$redis->foreign_lock('untold');
$one->start("SELECT redis_multi_lock(ARRAY['told', 'untold'], '60s')");
$redis->wait_for_subscribers('untold', 1);
my $postmaster = $node->value(
	q{SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)});
kill 'STOP', $postmaster;
kill 'TERM', $watchdog;
$redis->wait_for_subscribers('untold', 0);
$redis->cmd('DEL', 'untold');
my $polled = eval { $one->wait(15)->error };
my $gave_up = $@;
kill 'CONT', $postmaster;
is($gave_up . (defined $polled ? $polled : ''), '', 'gone: a waiter polls');
$one->wait(30) if $gave_up;
$watchdog = wait_for_new_watchdog($watchdog);
$one->quit;

#
# Killed: a crash-restart of the server.  Sessions are gone and what they held
# is nobody's until its lease ends; the new instance is another owner.
#
$one = $node->session;
$one->query("SELECT redis_lock('crash', '3s')");
$owner = $redis->owner_of('crash');
kill 'KILL', $watchdog;
poll_until('the end of the session', sub { $one->is_gone });
$watchdog = wait_for_new_watchdog($watchdog);
$node->wait_for_up;
is($node->count_locks, 0, 'killed: the lock table is empty');
is($node->lock_stat('acquires, releases'), '0|0', 'killed: so are the counters');
$two = $node->session;
$two->query_is("SELECT redis_try_lock('other'), redis_unlock('other')",
	't|t', 'killed: locks work');
$two->query_is("SELECT redis_try_lock('crash', '60s')",
	't', 'killed: the old lock is free when its lease has ended');
isnt(substr($redis->owner_of('crash'), 0, 36),
	substr($owner, 0, 36), 'killed: another instance');
$redis->foreign_lock('foreign');
$two->start("SELECT redis_lock('foreign')");
$redis->wait_for_subscribers('foreign', 1);
$redis->foreign_unlock('foreign');
is($two->wait(20)->error, undef, 'killed: messages wake again');
$_->quit foreach $one, $two;
nothing_left($node, $redis, name => 'nothing is left after the crash');

#
# Redis does not answer, and the watchdog is woken again and again: the end of a
# lease is seen all the same.
#
my $busy = LockRedis::Node->create(
	'busy',
	redis => $redis,
	settings => {
		'lockredis.lease' => '4s',
		'lockredis.command_timeout' => '30s'
	});
$busy->wait_for_up;
$watchdog = $busy->watchdog_pid;
$one = $busy->session;
$one->query("SET lockredis.on_lost = 'cancel'");
$one->query("SELECT redis_lock('ends')");
$one->start('SELECT pg_sleep(60)');
$since = now();
$redis->freeze;
while ($one->is_running && now() - $since < 15)
{
	kill 'HUP', $watchdog;
	select undef, undef, undef, 0.002;
}
cmp_ok(now() - $since, '<', 14, 'woken often: the holder of a lost lock is told');
$redis->thaw;
$one->wait(60)->fails('57014', qr/cancel/, 'woken often: by a cancel');
$one->query_warns("SELECT redis_unlock('ends')", 'f', '01000', qr/lost/,
	'woken often: it was lost');
$one->quit;

done_testing();
