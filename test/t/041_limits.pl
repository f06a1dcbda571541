# Copyright (c) 2026, lockredis contributors

# Limits and figures: a full lock table refuses before anything is sent, and every
# row of redis_locks counts; 200 sessions get their turn; 1,000 locks and more
# in one session; the counters are right; memory a slot.
# (That what nobody answered for has one slot is the simulator's: its mutant orphan_rows.)
# Proves G30, G36.

use LockRedis::Test qw(:DEFAULT counting_script);

# Seconds for 40,000 locks: 100 and more than 300 where 35 processes wanted two processors
use constant PATIENT => 1_800;

my $max_locks = 12;
my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $small = LockRedis::Node->create('small', url => $proxy->url,
	settings => { 'lockredis.max_locks' => $max_locks, max_connections => 230 });
my $large = LockRedis::Node->create('large', redis => $redis, settings => { max_connections => 230 });

$small->wait_for_up;
$large->wait_for_up;

# Leases that nobody renews, so that only what a test does is sent.
sub take ($session, $from, $to)
{
	return $session->query_is(
		"SELECT count(redis_lock('k' || i, '1h')) FROM generate_series($from, $to) i",
		$to - $from + 1, "taken: k$from to k$to");
}

sub is_full ($session, $name, $sql = undef)
{
	my $result;

	# The watchdog may still give back what has ended.
	my @sent = $redis->session_commands(
		sub { $result = $session->query($sql || "SELECT redis_lock('one more', '1h')") });
	$result->fails(
		'53400',
		qr/out of slots.*HINT:.*lockredis\.max_locks.*$max_locks/s, $name);
	return is("@sent", '', "$name: nothing was sent");
}

#
# Holds.
#
my ($one, $two) = ($small->session, $small->session);

take($one, 1, $max_locks);
is_full($one, 'full of holds');
is_full($two, 'full for other sessions',
	"SELECT redis_try_lock('one more', '1s', '1h')");
$one->query_is("SELECT redis_try_lock('k1', '0', '1h'), redis_hold_count('k1')",
	't|2', 'taking again needs no slot');
is_full($one, 'a second scope needs one', "SELECT redis_xact_lock('k1', '1h')");
$one->query_is("SELECT redis_is_held('k1'), redis_hold_count('k1')",
	't|2', 'what was held stays held');
$one->query_is("SELECT redis_unlock('k1'), redis_unlock('k1')",
	't|t', 'one given back');
$two->query_is("SELECT redis_try_lock('one more', '0', '1h')",
	't', 'its slot is free again');
is($small->count_locks, $max_locks, 'a row for each slot');
$two->query_is("SELECT redis_unlock('one more')", 't', 'given back');

# Two scopes of one key are two rows, in the view and in the count.
$one->query_is(
	"BEGIN; SELECT redis_xact_lock('k2', '1h') IS NOT NULL", 't',
	'a second scope');
is($small->count_locks(q{key = 'k2'}), 2, 'is a second row');
is_full($two, 'and takes a slot');
$one->query('COMMIT');
$two->query_is("SELECT redis_try_lock('one more', '0', '1h'), redis_unlock('one more')",
	't|t', 'which is free again after the transaction');

#
# Waits, whose ends give the slot back: a time limit, a cancel.
#
$two->start("SELECT redis_lock('k2', '1h')");
$small->wait_for_waiters('k2', 1);
is_full($one, 'full by a wait');
$two->cancel;
$two->wait->fails('57014', qr/cancel/, 'the wait is cancelled');
take($one, 1, 1);
is_full($two, 'full again');
$one->query_is("SELECT redis_unlock('k1')", 't', 'given back');
$two->query_is("SELECT redis_try_lock('k2', '100ms', '1h')", 'f', 'a wait that ends by its time limit');
take($one, 1, 1);
$one->query_is('SELECT redis_unlock_all()', $max_locks, 'all given back');

#
# Lost ones, until their session has seen it.
#
$one->query("SELECT count(redis_lock('k' || i, '3s')) FROM generate_series(1, $max_locks) i");
poll_until('all leases to end', sub { $small->count_locks('lost_at IS NOT NULL') == $max_locks });
is_full($two, 'full of lost ones');
$one->query("SELECT redis_unlock('k1')");
poll_until('the slot of the lost one', sub { $small->count_locks == $max_locks - 1 });
$two->query_is("SELECT redis_try_lock('one more', '0', '1h'), redis_unlock('one more')",
	't|t', 'one is seen to be lost, its slot is free');
$one->query('SELECT redis_unlock_all()');
poll_until('the slots of all lost ones', sub { $small->count_locks == 0 });

# Lost all at once, and taken again before the watchdog has released what may be left of them.
my $watchdog = $small->watchdog_pid;
$small->set('lockredis.command_timeout' => '60s');
$one->query("SELECT count(redis_lock('k' || i, '1s')) FROM generate_series(1, $max_locks) i");
kill 'STOP', $watchdog;
poll_until('the last to end', sub { $one->value("SELECT redis_is_held('k$max_locks')") eq 'f' });
$one->start('SELECT redis_unlock_all(); SELECT '
	  . join ', ', map { "redis_try_lock('k$_', '0', '1h')" } 1 .. $max_locks);
$small->wait_for_event($one, 'Extension');
kill 'CONT', $watchdog;
is($one->wait->error, undef, 'what is left of lost ones is waited for');
$one->query_is('SELECT redis_unlock_all()', $max_locks, 'and all are taken again');
$small->set('lockredis.command_timeout' => '3s');

$_->quit foreach $one, $two;
nothing_left($small, $redis, name => 'nothing is left of full tables');

#
# The counters, after a known sequence.
#
my @columns = qw(acquires reentries handoffs busy waits timeouts cancels
  deadlocks releases losses commits_refused orphans connects errors);
my $stats = sub {
	my %stats;

	@stats{@columns} = split /\|/, $small->value(
		'SELECT ' . join(', ', @columns) . ' FROM redis_lock_stats');
	return \%stats;
};
($one, $two) = ($small->session, $small->session);
$_->query("SELECT redis_is_locked('connect')") foreach $one, $two;
my $reset_at = $small->lock_stat('reset_at');
$small->value('SELECT redis_lock_stats_reset()');
my %expected = map { $_ => 0 } @columns;
is_deeply($stats->(), \%expected, 'counters: reset');
cmp_ok($small->lock_stat('reset_at'),
	'gt', $reset_at, 'counters: time of the reset');

sub count_is ($name, %more)
{
	$expected{$_} += $more{$_} foreach keys %more;
	return is_deeply($stats->(), \%expected, "counters: $name");
}

foreach my $step (
	[ $one, q{redis_lock('c', '1h') FROM generate_series(1, 3)}, acquires => 1, reentries => 2 ],
	[ $two, q{redis_try_lock('c') FROM generate_series(1, 2)}, busy => 2 ],
	[ $two, q{redis_try_lock('c', '1s')}, waits => 1, timeouts => 1 ])
{
	my ($session, $call, %more) = @$step;

	$session->query("SELECT $call");
	count_is($call, %more);
}
$two->start("SELECT redis_lock('c', '1h')");
$small->wait_for_waiters('c', 1);
poll_until('the wait', sub { $stats->()->{waits} > $expected{waits} });
$two->cancel;
$two->wait;
count_is('cancelled', waits => 1, cancels => 1);
$one->query("SELECT redis_unlock('c')") foreach 1 .. 3;
count_is('given back three times', releases => 1);
$one->query("SELECT redis_unlock('c')");
count_is('not held');
$one->query("BEGIN; SELECT redis_xact_lock('c', '1h'); COMMIT");

# A release that is not answered within 100 ms is the watchdog's.  Its session connects anew,
# and so does one that was cancelled while it asked.
poll_until('no row', sub { $small->count_locks == 0 });
$_->query("SELECT redis_is_locked('connect')") foreach $one, $two;
my $seen = $stats->();
$expected{$_} = $seen->{$_} foreach qw(orphans connects);
count_is('in a transaction', acquires => 1, releases => 1);

$one->query("SELECT redis_lock('c', '1h')");
$redis->cmd('DEL', 'c');
$one->query("SELECT redis_unlock('c')");
count_is('found lost by the release', acquires => 1, losses => 1);
$one->query("BEGIN; SELECT redis_xact_lock('c', '1h')");
$two->take_away('c');
$one->query('COMMIT')->fails('40001', qr/lost/, 'a commit is refused');
count_is('a commit is refused', acquires => 1, losses => 1, commits_refused => 1);

my $rule = $proxy->rule(match => 'orphan', action => 'hold');
$one->start("SELECT redis_lock('orphan', '1h')");
$proxy->wait_for_rule($rule);
$one->cancel;
$one->wait;
$proxy->release;
count_is('an orphan', cancels => 1, orphans => 1);
poll_until('the orphan to be given back', sub { $small->count_locks == 0 });
$redis->cmd('SET', 'd', 'no lock');
$one->query("SELECT redis_lock('d', '1h')")->fails('42809', qr/lock/, 'no lock');
count_is('one new connection', connects => 1);
$redis->cmd('DEL', 'd');

$rule = $proxy->rule(match => 'failed', action => 'reset', times => 0);
$one->query("SELECT redis_lock('failed', '1h')")
  ->fails('58030', qr/store/, 'the store fails');
$proxy->clear;
poll_until('the orphan to be given back', sub { $small->count_locks == 0 });
$seen = $stats->();
$expected{$_} = $seen->{$_} foreach qw(orphans connects);
count_is('the store fails', errors => 1);

my $renewing = $small->session(settings => { 'lockredis.lease' => '3s' });
my $renewals = $small->lock_stat('renewals');
$renewing->query("SELECT redis_lock('r')");
poll_until('renewals',
	sub { $small->lock_stat('renewals') >= $renewals + 3 });
cmp_ok($small->value('SELECT renewals FROM redis_locks'),
	'>=', 3, 'counters: renewals, of the lock and of all');
$_->quit foreach $one, $two, $renewing;
nothing_left($small, $redis, name => 'nothing is left of the counted');

#
# Memory: what 10,000 slots take more than 12.
#
my $memory = sub {
	return $_[0]->value(
		q{SELECT sum(allocated_size) FROM pg_shmem_allocations
		   WHERE name LIKE 'lockredis%'});
};
my $bytes =
  ($memory->($large) - $memory->($small)) / (10_000 - $max_locks);
note sprintf 'memory: %.1f bytes a slot', $bytes;
cmp_ok($bytes, '<=', 800, 'memory of a slot');
cmp_ok($bytes, '>', 300, 'which is measured right');
$small->stop;

#
# 200 sessions, on one key, on a few and on many: unprotected read, add, write.
#
$large->value('CREATE TABLE counter (k int PRIMARY KEY, v int NOT NULL)');
$large->value('INSERT INTO counter SELECT i, 0 FROM generate_series(1, 500) i');

foreach my $case ([ 1, 5 ], [ 500, 10 ])
{
	my ($keys, $transactions) = @$case;
	my $name = "200 sessions, $keys keys";

	$large->value('UPDATE counter SET v = 0');
	my $since = now();
	$large->pgbench(
		"-n -c 200 -j 2 -t $transactions", 0, [qr{processed: }], [qr{^$}],
		"$name: nobody failed", { "count $keys" => counting_script($keys) });
	note sprintf '%s: %.1f s', $name, now() - $since;
	is($large->value('SELECT sum(v) FROM counter'),
		200 * $transactions, "$name: the count is exact");
	nothing_left($large, $redis, name => "$name: nothing is left");
}

$large->stop;

#
# A large table.  The effort for giving back what a session holds grows with the
# number of its locks, not with its square, so it takes less than taking them does: DISCARD ALL and
# the end of a session do the same as redis_unlock_all, and nobody can interrupt them.
#
$large->append_conf('postgresql.conf', 'lockredis.max_locks = 300000');
$large->start;
$one = $large->session;
$one->query_is("SELECT redis_try_lock('large'), redis_unlock('large')",
	't|t', 'a table of 300,000 slots');
my $lock_all =
  q{SELECT count(redis_lock('all ' || i, '1h')) FROM generate_series(1, 40000) i};
my $taken = $one->query($lock_all, PATIENT);
is($taken->value, 40_000, '40,000 locks');
my $result = $one->query('DISCARD ALL', PATIENT);
note sprintf '40,000 locks: DISCARD ALL took %d ms of %d', $result->ms, $taken->ms;
cmp_ok($result->ms, '<', $taken->ms, '40,000 locks: DISCARD ALL takes less');
end_test($large, $redis, name => 'nothing is left of it');
