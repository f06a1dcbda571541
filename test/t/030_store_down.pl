# Copyright (c) 2026, lockredis contributors

# Redis is away: never there, stopped, restarted with and without its data,
# frozen.
#
# Checked:
# - unreachable is an error of class 58 at once, for redis_try_lock too, and
#   never "false"; what is given back meanwhile is gone for the session, and the
#   watchdog finishes;
# - a call lasts at most one budget (connect_timeout + command_timeout), however
#   many wait for the same key; a node that timed out is left to the watchdog
#   until it answers;
# - locks whose leases outlive the outage are kept, the others are lost, with
#   the reason;
# - the server log says once that the store went away and once that it is back;
#   redis_lock_status knows it meanwhile.
#
# Proves G18, G19.

use LockRedis::Test;

my %timeouts = (
	'lockredis.connect_timeout' => '2s',
	'lockredis.command_timeout' => '2s');

# A call in progress when the store went away, and one that is told at once.
# The budget is 4 s; the rest is for a busy machine.
my $budget_ms = 1000 * limit(20);
my $at_once_ms = 1000 * limit(5);

my $went_away = qr/LOG:  lockredis: the lock store is down/;
my $came_back = qr/LOG:  lockredis: the lock store at \S+ is up/;
my $unheard = qr/LOG:  lockredis: no release messages/;

# An error of class 58 within so many milliseconds.
sub is_down ($result, $pattern, $ms, $name)
{
	$result->fails($result->sqlstate || '', $pattern, $name)
	  && like($result->sqlstate, qr/^580(?:00|30)$/, "$name: class 58")
	  && cmp_ok($result->ms, '<', $ms, "$name: in time");
	return;
}

sub lost_reason ($node, $key)
{
	return $node->value(
		"SELECT lost_reason FROM redis_locks WHERE key = '$key' AND lost_at IS NOT NULL"
	);
}

# Somebody else's lock for that many milliseconds, and whoever waits for it
# knows that it ends then.
sub held_by_another ($redis, $key, $ms)
{
	$redis->foreign_lock($key, ms => $ms);
	$redis->tell_waiters($key);
	return;
}

# ----------
# Not there when the server starts
# ----------

my $late_redis = LockRedis::Redis->new(name => 'late', start => 0);
my $late = LockRedis::Node->create(
	'late',
	redis => $late_redis,
	settings => \%timeouts);
my $one = $late->session;

is_down($one->query("SELECT redis_lock('k')"),
	qr/could not reach the lock store.*Connection refused/s,
	$at_once_ms, 'lock, store never there');
is_down($one->query("SELECT redis_try_lock('k', '10s')"),
	qr/Connection refused/, $at_once_ms, 'try, store never there');
$late->wait_for_state('down');
is( $late->lock_status(
		'node, role, round_trip, version, maxmemory_policy, last_error_at <= now()'
	),
	'1|master||||t',
	'status of a store that was never there');
like($late->lock_status('last_error'), qr/Connection refused/, 'the last error');

$late_redis->start;
$late->wait_for_up;
$one->query_is("SELECT redis_try_lock('k')", 't', 'works when it comes');
is($late->times_logged($went_away), 1, 'logged once that it was not there');
is($late->times_logged($came_back), 1, 'logged once that it came');
like(
	$late->log_text,
	qr/lock store is down\n.*DETAIL:  127\.0\.0\.1:\d+: .*Connection refused/,
	'with address and cause');
like(
	$late->log_text,
	qr/ERROR:  could not reach the lock store\n.*DETAIL:  127\.0\.0\.1:\d+: Could not connect/,
	'the log has the address of a call that failed');
$one->quit;
nothing_left($late, $late_redis, name => 'nothing is left of the late store');
$late->stop;
$late_redis->stop;

# ----------
# There
# ----------

my ($node, $redis) = servers(settings => \%timeouts);

my $about = $redis->info('server');
my $version =
  $about->{valkey_version} ? "Valkey $about->{valkey_version}" : $about->{redis_version};
is( $node->lock_status(
		q{role, address, state, version, maxmemory_policy, last_error, round_trip > '0' AND round_trip < '1min'}
	),
	'master|127.0.0.1:' . $redis->port . "|up|$version|noeviction||t",
	'status of a store that is up');

# ----------
# Stopped
#
# The locks are taken, then Redis saves its data and ends.  Nobody but the
# watchdog notices by itself.
# ----------

my $holder = $node->session(settings => { 'lockredis.lease' => '60s' });
my $many = $node->session(settings => { 'lockredis.lease' => '60s' });
my $leaver = $node->session(settings => { 'lockredis.lease' => '60s' });
my $other = $node->session;
my @waiters = map { $node->session } 1 .. 4;

$holder->value("SELECT redis_lock('$_')") foreach qw(kept twice twice given);
$many->value("SELECT redis_lock('many$_')") foreach 1 .. 3;
$leaver->value("SELECT redis_lock('leaver')");
$other->value("SELECT redis_is_locked('k')");

# One waits for somebody else, and one behind a local holder.
held_by_another($redis, 'foreign', 60_000);
$waiters[0]->start("SELECT redis_lock('foreign')");
$waiters[3]->start("SELECT redis_lock('kept')");
$node->wait_for_waiters('foreign', 1);
$node->wait_for_waiters('kept', 1);
$redis->wait_for_subscribers('foreign', 1);

# It is told, and asks; a request that Redis did not answer any more would leave something to the
# watchdog.
$node->log_since_here;
my $asked = $redis->script_calls;
held_by_another($redis, 'foreign', 6000);
poll_until('it to ask', sub { $redis->script_calls > $asked });
$redis->stop(keep => 1);

foreach my $call (
	q{redis_lock('k')}, q{redis_try_lock('k')},
	q{redis_try_lock('k', '10s', '1min')}, q{redis_is_locked('k')},
	q{redis_lock_ttl('k')}, q{redis_lock_owner('k')},
	q{redis_force_unlock('k')})
{
	is_down($other->query("SELECT $call"),
		qr/Connection refused/, $at_once_ms, "$call, store stopped");
}

like($waiters[0]->wait(20)->sqlstate // '', qr/^580[03]0$/, 'who waits for a foreign holder fails');

# The holder.
$holder->query_is("SELECT redis_is_held('kept'), redis_hold_count('kept')",
	't|1', 'the holder holds');
$holder->query_is("SELECT redis_lock('kept'), redis_unlock('kept')",
	'|t', 'a re-entry needs no store');
is_down($holder->query("SELECT redis_lock('kept', '2min')"),
	qr/Connection refused/, $at_once_ms, 'unless it is for longer');
$other->query_is("SELECT redis_try_lock('kept')",
	'f', 'a local holder is known without the store');
ok($waiters[3]->is_running, 'who waits behind a local holder goes on waiting');

# Giving back.
$holder->query_is("SELECT redis_unlock('twice')",
	't', 'one of two holds given back, store stopped');
$holder->query_is("SELECT redis_hold_count('twice')", '1', 'one is left');
$holder->query_warns("SELECT redis_unlock('given')", 't', '58000',
	qr/Connection refused/, 'the last hold given back, store stopped');
$holder->query_is("SELECT redis_is_held('given'), redis_hold_count('given')",
	'f|0', 'and is gone');
$holder->query_warns("SELECT redis_unlock('given')", 'f', '01000', qr/you don't own/, 'once');
$many->query('BEGIN');
$many->query(
	'SELECT redis_xact_lock(key) FROM redis_locks WHERE pid = pg_backend_pid() AND granted');
$many->query_warns("SELECT redis_unlock_all()", '3', '58000',
	qr/Connection refused/, 'beside those of a transaction: one warning');
$many->query('SELECT redis_lock(key) FROM redis_locks WHERE pid = pg_backend_pid() AND granted');
$many->query('ROLLBACK');
$many->query_warns("SELECT redis_unlock_all()", '3', '58000',
	qr/Connection refused/, 'all given back, store stopped: one warning');
$many->query_is("SELECT redis_unlock_all()", '0', 'once');
$leaver->quit;

# What is left belongs to the watchdog.
is( $node->value(
		q{SELECT string_agg(key, ' ' ORDER BY key), bool_and(pid IS NULL AND NOT granted)
		  FROM redis_locks WHERE scope IS NULL}),
	'given leaver many1 many2 many3|t',
	'what was given back waits for the watchdog');

# Several tries of the watchdog, and many failing calls.
$node->wait_for_state('down');
my $tried_at = $node->lock_status('last_error_at');
foreach my $round (1 .. 3)
{
	$other->query("SELECT redis_try_lock('k')") foreach 1 .. 10;
	poll_until(
		'another try of the watchdog',
		sub { $node->lock_status('last_error_at') ne $tried_at });
	$tried_at = $node->lock_status('last_error_at');
}
like($node->lock_status('last_error'), qr/Connection refused/, 'the last error');
is($node->times_logged($went_away), 1, 'logged once that the store is away');
is($node->times_logged($came_back), 0, 'not yet that it is back');
is($node->times_logged($unheard), 1, 'logged once that nothing is heard');

# Back with its data.
$redis->start;
$node->wait_for_up;
poll_until('what was given back to be gone, as the watchdog knows',
	sub { join(' ', $redis->all_keys) eq 'kept twice' && $node->count_locks('pid IS NULL') == 0 });
$holder->query_is("SELECT redis_is_held('kept'), redis_is_held('twice')",
	't|t', 'the locks of the holder outlived it');
poll_until('a renewal', sub { $redis->cmd('PTTL', 'kept') > 50_000 });

$holder->query_is("SELECT redis_unlock_all()", '2', 'given back');
is($waiters[3]->wait->error, undef, 'who waited behind the holder has it');
$waiters[3]->query_is("SELECT redis_unlock('kept')", 't', 'and back');
is($node->times_logged($went_away), 1, 'still logged once that it was away');
is($node->times_logged($came_back), 1, 'logged once that it is back');

# ----------
# Restarted
# ----------

my $short = $node->session(settings => { 'lockredis.lease' => '9s' });
$short->value("SELECT redis_lock('gone')");
$short->value("SELECT redis_try_lock('given', lease => '1min')");
held_by_another($redis, 'foreign', 300_000);
$asked = $redis->script_calls;
$waiters[0]->start("SELECT redis_lock('foreign')");
$redis->wait_for_subscribers('foreign', 1);
poll_until('it to ask once more', sub { $redis->script_calls >= $asked + 2 });
$node->log_since_here;
$redis->restart;

is($waiters[0]->wait(20)->error,
	undef, 'who waits looks again, though the lease was a long one');
$waiters[0]->query_is("SELECT redis_unlock('foreign')", 't', 'and gives back');
poll_until('the loss to be seen', sub { lost_reason($node, 'gone') ne '' });
is(lost_reason($node, 'gone'), 'deleted', 'lost with the data');
$short->query_warns("SELECT redis_unlock('gone')",
	'f', '01000', qr/was lost/, 'the holder is told');
$short->query_warns("SELECT redis_unlock('given')",
	'f', '01000', qr/was lost.*deleted/s, 'a given lease is found lost then');
$other->query_is("SELECT redis_try_lock('gone')", 't', 'free for others');
$other->query_is("SELECT redis_unlock('gone')", 't', 'and back');

# ----------
# Frozen
#
# Redis accepts connections and requests, and does not answer.
# ----------

# One that has no connection yet.  Its request for one is the first thing that
# gets no answer.
$node->wait_for_state('up');
my $fresh = $node->session;
$redis->freeze;
is_down(
	$fresh->query("SELECT redis_lock('frozen')"),
	qr/accepted the connection but did not answer in time/,
	$budget_ms, 'a new connection to a frozen node');
$redis->thaw;
$node->wait_for_state('up');

poll_until('the store to be back',
	sub { $other->query("SELECT redis_try_lock('frozen')")->out eq 't' });
$other->query_is("SELECT redis_unlock('frozen')", 't', 'thawed');

# Kept connections.  A lease that ends in the freeze, one that does not, and a
# release that is not answered.
$node->wait_for_state('up');
my $brief = $node->session(settings => { 'lockredis.lease' => '4s' });
$holder->value("SELECT redis_lock('$_')") foreach qw(long released local);
$waiters[3]->start("SELECT redis_lock('local')");
$node->wait_for_waiters('local', 1);
$node->log_since_here;
$brief->value("SELECT redis_lock('brief')");
$redis->freeze;

my $timed_out = $other->query("SELECT redis_try_lock('frozen')");
is_down($timed_out, qr/did not answer/, $budget_ms, 'a frozen node');
cmp_ok($timed_out->ms, '>', 1900, 'which had its time to answer');

# From here on all are told at once: twenty calls would last 40 s else.
my $start = now();
my @told = map { $_->query("SELECT redis_try_lock('frozen')") }
  map { $other, $waiters[$_], $fresh, $holder } 0 .. 2;
push @told, map { $other->query("SELECT $_") } q{redis_lock('frozen')},
  q{redis_lock('frozen')}, q{redis_try_lock('frozen', '10s')},
  q{redis_is_locked('frozen')}, q{redis_lock_owner('frozen')},
  q{redis_lock_ttl('frozen')}, q{redis_force_unlock('frozen')},
  q{redis_is_locked('frozen')};
cmp_ok(now() - $start, '<', 13, 'nobody else waits for a node that timed out');
is( scalar(
		grep {
			$_->sqlstate eq '58030' && $_->detail =~ /did not answer lately/
		} @told),
	20,
	'they are told so');
$holder->query_warns("SELECT redis_unlock('released')", 't', '58030',
	qr/did not answer/, 'a release is left to the watchdog');
is($node->times_logged(qr/ERROR:  /), 21, 'every failed call is in the log');

$node->wait_for_state('down');
poll_until('the end of the lease', sub { lost_reason($node, 'brief') ne '' });
is(lost_reason($node, 'brief'), 'expired', 'a lease that ended is lost');
$brief->query_is("SELECT redis_is_held('brief')", 'f', 'the holder sees it');
$holder->query_is("SELECT redis_is_held('long'), redis_is_held('local')",
	't|t', 'longer ones are held');
ok($waiters[3]->is_running, 'who waits behind a local holder goes on waiting');

$redis->thaw;
$node->wait_for_up;
$other->query_is("SELECT redis_try_lock('frozen')", 't', 'thawed: works again');
$other->query_is("SELECT redis_unlock('frozen')", 't', 'in full');
poll_until(
	'what was left to the watchdog to be gone',
	sub { join(' ', $redis->all_keys) eq 'local long' });
$holder->query_is("SELECT redis_unlock('local')", 't', 'given back');
is($waiters[3]->wait->error, undef, 'who waited behind the holder has it');
$waiters[3]->query_is("SELECT redis_unlock('local')", 't', 'and back');
$brief->query_warns("SELECT redis_unlock('brief')",
	'f', '01000', qr/was lost.*expired/s, 'the loss is acknowledged');
$holder->query_is("SELECT redis_unlock('long')", 't', 'kept and given back');
is($node->times_logged($went_away), 1, 'logged once that it went away');
is($node->times_logged($came_back), 1, 'logged once that it is back');

# Sixteen wait for somebody else's lease, which ends in the freeze.  One asks,
# and all fail with it: one after the other it would last 32 s.
my @sixteen = (@waiters, map { $node->session } 1 .. 12);
held_by_another($redis, 'hot', 60_000);
$_->start("SELECT redis_lock('hot')") foreach @sixteen;
$node->wait_for_waiters('hot', 16);
$redis->wait_for_subscribers('hot', 1);
$asked = $redis->script_calls;
held_by_another($redis, 'hot', 5000);
poll_until('the first to ask', sub { $redis->script_calls > $asked });
$redis->freeze;
$start = now();
my @ends = map { $_->wait } @sixteen;
cmp_ok(now() - $start, '<', 25, 'sixteen waiters fail together');
is(scalar(grep { $_->sqlstate eq '58030' } @ends), 16, 'with class 58');
is(scalar(grep { $_->detail =~ /first in the queue/ } @ends),
	15, 'fifteen of them because the first did');

$redis->thaw;
$node->wait_for_up;
poll_until('the foreign lease to be over', sub { !$redis->all_keys });
$waiters[0]->query_is("SELECT redis_try_lock('hot')", 't', 'thawed: works');
$waiters[0]->query_is("SELECT redis_unlock('hot')", 't', 'again');

# ----------
# Not where lockredis.url says
# ----------

$holder->value("SELECT redis_lock('elsewhere')");

# Somebody who answers late: neither up nor down.
my $proxy = LockRedis::Proxy->new($redis);
$proxy->mode('silent');
$node->set(
	'lockredis.connect_timeout' => '60s',
	'lockredis.url' => $proxy->url);
poll_until('the watchdog to connect', sub { $proxy->stats->{connections} > 0 });
is($node->lock_status('state, round_trip, version, maxmemory_policy'),
	'connecting|||', 'connecting, and nothing is known of the node that was there before');
$proxy->mode('pass');
$proxy->release;
$node->wait_for_up;
$holder->query_is("SELECT redis_unlock('elsewhere')",
	't', 'the lock was kept over all of this');
$node->set(%timeouts, 'lockredis.url' => $redis->url);
$node->wait_for_up;
$proxy->stop;

end_test($node, $redis);
