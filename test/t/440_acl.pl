# Copyright (c) 2026, lockredis contributors

# Least rights in one Redis with replicas: all functions with just the rights that
# docs/acl.md lists, and then without each of them once.  What needs it says so (58000, in Redis's words), or
# does without as the page says; nobody hangs, and when the right is back nothing
# is left.
#
# Proves G19, G20.

use File::Basename qw(dirname);
use List::Util qw(uniq);
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;
use PostgreSQL::Test::Utils;

my $text = slurp_file(dirname($0) . '/../../docs/acl.md');
my @rules = grep { $_->[2] eq 'lockredis' } map { [split] } $text =~ /^(ACL SETUSER .*)$/mg;

# ----------
# One Redis, with replicas
# ----------

my @rights = uniq sort grep { /^[+~&]/ && $_ ne '+select' }
  map { @$_[ 3 .. $#$_ ] } grep { "@$_" !~ /~\* / } @rules;
my ($password) = map { /^>(.*)/ } @{ $rules[0] };

start_servers('lockredis.lease' => '10min', 'lockredis.replica_timeout' => '9s',
	'lockredis.command_timeout' => '10s');
sub grant (@has)
{
	$redis->cmd(qw(ACL SETUSER lockredis on resetkeys resetchannels -@all), ">$password", @has);
	return;
}

grant(@rights);
$node->set(
	'lockredis.password_file' => secret_file('password', $password),
	'lockredis.connect_timeout' => '5s',
	'lockredis.url' => 'redis://lockredis@127.0.0.1:' . $redis->port);
$node->wait_for_up;

# What is done, in one session: each with what it returns.
my @calls = (
	[ "SELECT redis_lock('jobs:s'), redis_try_lock('jobs:s', '1 s')", '|t' ],
	[ "SELECT redis_is_held('jobs:s'), redis_hold_count('jobs:s'), redis_assert_held('jobs:s'), redis_fence('jobs:s')",
		't|2||NULL' ],
	[ "SELECT redis_is_locked('jobs:s'), redis_lock_ttl('jobs:s') > '1 s', redis_lock_owner('jobs:s') <> ''",
		't|t|t' ],
	[ "SELECT redis_extend('jobs:s', '20 min')", 't' ],
	[ "SELECT redis_unlock('jobs:s'), redis_unlock_all()", 't|1' ],
	[ "BEGIN; SELECT redis_xact_lock('jobs:x'), redis_try_xact_lock('jobs:x', '1 s'); COMMIT", '|t' ],
	[ "SELECT redis_fenced_lock('jobs:f') > 0, redis_try_fenced_lock('jobs:f', '1 s') > 0, redis_fence('jobs:f') > 0",
		't|t|t' ],
	[ "SELECT redis_unlock_all() > 0", 't' ],
	[ "SELECT redis_fence_check('jobs:g', 1000000)", '' ],
	[ "BEGIN; SELECT redis_fenced_xact_lock('jobs:g') > 1000000, redis_try_fenced_xact_lock('jobs:g', '1 s') > 0; COMMIT",
		't|t' ],
	[ "SELECT redis_fence_forget('jobs:g')", 't' ],
	[ "SELECT redis_multi_lock('{jobs:m,jobs:n}'), redis_try_multi_lock('{jobs:o,jobs:m}'), redis_multi_unlock('{jobs:m,jobs:n,jobs:o}')",
		'|t|t' ],
	[ "BEGIN; SELECT redis_multi_xact_lock('{jobs:m,jobs:n}'), redis_try_multi_xact_lock('{jobs:o,jobs:m}')",
		'|t' ],
	[ 'COMMIT; SELECT redis_unlock_all()', '1' ],
	[ "SELECT redis_write_lock('jobs:d'), redis_read_lock('jobs:d'), redis_try_write_lock('jobs:d'), redis_try_read_lock('jobs:d')",
		'||t|t' ],
	[ "SELECT redis_extend('jobs:d', '20 min', 'read'), redis_write_unlock('jobs:d'), redis_write_unlock('jobs:d')",
		't|t|t' ],
	[ "SELECT redis_read_unlock('jobs:d'), redis_read_unlock('jobs:d')", 't|t' ],
	[ "BEGIN; SELECT redis_write_xact_lock('jobs:d'), redis_read_xact_lock('jobs:d'), redis_try_write_xact_lock('jobs:d'), redis_try_read_xact_lock('jobs:d'); COMMIT",
		'||t|t' ],
	[ "SELECT redis_fenced_write_lock('jobs:d') > 0, redis_try_fenced_write_lock('jobs:d') > 0, redis_unlock_all()",
		't|t|1' ],
	[ "BEGIN; SELECT redis_fenced_write_xact_lock('jobs:d') > 0, redis_try_fenced_write_xact_lock('jobs:d') > 0; COMMIT",
		't|t' ],
	[ "SELECT redis_try_write_lock('jobs:h', '50 ms')", 'f' ],
	[ "SELECT redis_fair_lock('jobs:q'), redis_try_fair_lock('jobs:q', '1 s'), redis_extend('jobs:q', '20 min', 'fair')",
		'|t|t' ],
	[ "SELECT redis_unlock('jobs:q'), redis_unlock('jobs:q')", 't|t' ],
	[ "BEGIN; SELECT redis_fair_xact_lock('jobs:q'), redis_try_fair_xact_lock('jobs:q'); COMMIT", '|t' ],
	[ "SELECT redis_try_fair_lock('jobs:w', '50 ms')", 'f' ],
	[ "SELECT redis_token_lock('jobs:t', '10 min', 'x'), redis_try_token_lock('jobs:t', '0', '10 min')",
		'x|NULL' ],
	[ "SELECT redis_token_extend('jobs:t', 'x', '20 min'), redis_token_is_held('jobs:t', 'x'), redis_token_unlock('jobs:t', 'x')",
		't|t|t' ],
	[ "SELECT redis_permit_init('jobs:p', 2), redis_permit_set('jobs:p', 3), redis_permit_total('jobs:p'), redis_permit_available('jobs:p')",
		't||3|3' ],
	[ "SELECT redis_permit_lock('jobs:p'), redis_try_permit_lock('jobs:p', '1 s'), redis_extend('jobs:p', '20 min', 'permit')",
		'|t|t' ],
	[ "SELECT redis_lock_owner('jobs:p'), redis_permit_unlock('jobs:p'), redis_permit_unlock('jobs:p')",
		'2 permits|t|t' ],
	[ "BEGIN; SELECT redis_permit_xact_lock('jobs:p'), redis_try_permit_xact_lock('jobs:p'); COMMIT", '|t' ],
	[ "WITH taken AS MATERIALIZED (SELECT redis_permit_acquire('jobs:p', '1 min') AS id) SELECT redis_permit_extend('jobs:p', id, '2 min'), redis_permit_release('jobs:p', id) FROM taken",
		't|t' ],
	[ "WITH taken AS MATERIALIZED (SELECT redis_try_permit_acquire('jobs:p', '0', '1 min') AS id) SELECT redis_permit_release('jobs:p', id) FROM taken",
		't' ],
	[ "CALL redis_with_permit('jobs:p', 'SELECT 1')", 't' ],
	[ "CALL redis_await_lock('jobs:k', '1 min', 'write')", '' ],
	[ "SELECT redis_write_unlock('jobs:k')", 't' ],
	[ "SELECT redis_try_permit_lock('jobs:y', '50 ms')", 'f' ],
	[ "SELECT redis_lock('jobs:k'), redis_condition_wait('jobs:k', '50 ms'), redis_condition_notify('jobs:k'), redis_condition_notify_all('jobs:k')",
		'|f|0|0' ],
	[ "SELECT redis_unlock('jobs:k')", 't' ],
	[ "SELECT redis_semaphore_init('jobs:u', 3), redis_semaphore_acquire('jobs:u'), redis_try_semaphore_acquire('jobs:u'), redis_semaphore_available('jobs:u')",
		't||t|1' ],
	[ "SELECT redis_semaphore_release('jobs:u'), redis_semaphore_add('jobs:u', 1), redis_semaphore_drain('jobs:u')",
		'||3' ],
	[ "SELECT redis_semaphore_set('jobs:u', 2), redis_semaphore_drain('jobs:u')", '|2' ],
	[ "SELECT redis_latch_init('jobs:v', 2), redis_latch_count_down('jobs:v'), redis_latch_count('jobs:v'), redis_latch_wait('jobs:v', '0')",
		't|1|1|f' ],
	[ "SELECT redis_latch_set('jobs:v', 1)", '' ],
	[ "BEGIN; SELECT redis_latch_xact_count_down('jobs:v'), redis_semaphore_xact_release('jobs:u'); COMMIT", '|' ],
	[ "SELECT redis_latch_delete('jobs:v')", 'f' ],
	[ "CALL redis_with_lock('jobs:j', 'SELECT 1', hold_at_least => '50 ms')", 't' ],
	[ "SELECT redis_force_unlock('jobs:e')", 't' ],
	[ "SELECT redis_try_lock('jobs:w', '50 ms')", 'f' ],
	[ "SELECT redis_lock('jobs:r', '30 s'), redis_lock_stats_reset()", '|' ],
	[ 'DISCARD ALL', '' ]);

{
	my $functions = $node->value(
		q{SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE proname LIKE 'redis\_%'});
	my $done = join ' ', map { $_->[0] } @calls;

	is(join(' ', grep { $done !~ /\b$_\(/ } split / /, $functions),
		'', 'all functions are called');
}

# Its error, and its warnings
sub complaints ($result)
{
	return map { "$_->{sqlstate}: $_->{message} " . ($_->{detail} // '') }
	  defined $result->error
	  ? { sqlstate => $result->sqlstate, message => $result->error, detail => $result->detail }
	  : (), $result->warnings;
}

# All of it; the errors, and what was not as it should be.  What could not be given back
# for want of a right is waited for in vain.
sub do_all ($in_vain = undef)
{
	my $session = $node->session(settings => { 'lockredis.commit_guard' => 'verify' });
	my $most = $in_vain ? '500ms' : '15s';
	my @said;

	$session->query("SET lockredis.min_replicas = 2; SET lock_timeout = '$most'");
	$redis->cmd('SCRIPT', 'FLUSH');
	$redis->cmd('DEL', 'redisson_lock_token:{jobs:g}', 'jobs:u', 'jobs:v');
	$redis->foreign_lock('jobs:e', ms => 600_000);
	$redis->foreign_lock('jobs:w', ms => 600_000);
	$redis->cmd('HSET', 'jobs:h', 'mode', 'read', 'elsewhere:1', 1);
	$redis->cmd('PEXPIRE', 'jobs:h', 600_000);
	$redis->cmd('DEL', 'jobs:p', '{jobs:p}:timeout');
	$redis->cmd('SET', 'jobs:y', 0);
	$redis->cmd('ZADD', '{jobs:y}:timeout', '922337203685477', 'elsewhere');
	foreach my $call (@calls)
	{
		my $result = $session->query($call->[0]);

		push @said, complaints($result);
		push @said, "$call->[0]: " . $result->out
		  if !defined $result->error && $result->out ne $call->[1];
		$session->query('ROLLBACK') if defined $result->error;
	}

	# A message from elsewhere wakes; without one it looks by itself.
	$session->start("SELECT redis_try_lock('jobs:w', '8 s')");
	eval {
		poll_until('its subscription',
			sub { !$session->is_running || $redis->subscribers($redis->channel('jobs:w')) },
			1);
	};
	$redis->cmd('DEL', 'jobs:w');
	$redis->tell_waiters('jobs:w');
	push @said, complaints($session->wait(60));
	$session->quit;
	return @said;
}

sub nothing_remains ($name)
{
	$redis->cmd('DEL', (map { "jobs:$_" } qw(e w h t v p y)), '{jobs:p}:timeout', '{jobs:y}:timeout');
	$redis->kill_clients('watchdog');
	ok( eval {
			poll_until(
				"$name: nothing to be left",
				sub {
					# Permits may be given at last; who waited for a condition stays in the
					# list for a minute where nobody may take him out.
					$redis->cmd('DEL', 'jobs:u', grep { /^lockredis_condition_waiting:/ } $redis->all_keys);
					!(grep { !/^(?:redisson_lock_token|lockredis_tickets)/ } $redis->all_keys)
					  && $node->count_locks == 0;
				});
		},
		"$name: nothing is left")
	  || diag join "\n", 'keys: ' . join(' ', sort $redis->all_keys),
		'locks: ' . $node->value(q{SELECT coalesce(string_agg(l::text, chr(10)), '') FROM redis_locks l});
	return;
}

is_deeply([do_all()], [], 'with these rights all goes well');
nothing_remains('all rights');

# What is not an error; see the page.
my %without = (
	'+publish' => qr/NOPERM|can't run|publish/i,
	'+subscribe' => undef,
	'+unsubscribe' => undef,
	'+ping' => undef,
	'+info' => undef,
	'+client|setname' => undef,
	'&redisson_lock__channel:*' => qr/channel|NOPERM/i,
	'&redisson_rwlock:*' => undef,
	'&redisson_sc:*' => undef,
	'&lockredis_condition__channel:*' => undef,
	# Permits that have expired, or of a semaphore that was deleted
	'+zcount' => undef,
	'&redisson_countdownlatch__channel__{*' => undef,
	# Announcements of others, and those that the watchdog takes back
	'+zrem' => undef,
	'+zscore' => undef,
	'+zremrangebyscore' => undef,
	# Places in the queue that do not count any more, or are given up
	'+lpop' => undef,
	'+lrem' => undef,
	# How many of Redisson's clients stand before a session: there are none here
	'+lrange' => undef,
	# A string, or who is in the way: not looked at here
	'+type' => undef,
	'+hkeys' => undef);

foreach my $name (@rights)
{
	grant(grep { $_ ne $name } @rights);
	my @said = do_all('in vain');
	if (!exists $without{$name})
	{
		ok((grep { /^580(?:00|30): .*(?:NOPERM|can't run|permission)/si } @said),
			"without $name: an error that says so")
		  || diag join "\n", @said;
	}
	elsif (defined $without{$name})
	{
		ok((grep { $_ =~ $without{$name} } @said), "without $name: it is said")
		  || diag join "\n", @said;
	}
	is_deeply([ grep { /^(?:XX|P0)|internal|did not answer in time/ } @said ],
		[], "without $name: nothing worse");
	grant(@rights);
	nothing_remains("without $name");
}

# ----------
# A release that is refused halfway
# ----------

# With hold_at_least; it is repeated when that time is over.
{
	my $session = $node->session;

	grant(grep { $_ ne '+hdel' } @rights);
	my @warnings =
	  $session->query("CALL redis_with_lock('jobs:j', 'SELECT 1', hold_at_least => '1 s')")->warnings;
	is(scalar @warnings, 1, 'hold_at_least: the release is refused');
	ok(eval { poll_until('the key to end', sub { !$redis->cmd('EXISTS', 'jobs:j') }); },
		'hold_at_least: the key ends at its time, not with the lease');
	grant(@rights);
	$session->quit;
	nothing_remains('hold_at_least');
}

# ----------
# A right that comes back while it is missed
# ----------

# Who waits looks once a second, and is told of releases as soon as he may be.
{
	my $channel = $redis->channel('jobs:w');
	my $session = $node->session;
	my $before = $redis->rejected_calls('subscribe');

	grant(grep { $_ ne '&redisson_lock__channel:*' } @rights);
	$redis->kill_clients('listener');
	$redis->foreign_lock('jobs:w', ms => 600_000);
	$session->start("SELECT redis_lock('jobs:w')");
	poll_until('several refusals', sub { $redis->rejected_calls('subscribe') >= $before + 2 });
	is($redis->subscribers($channel), 0, 'without the right: not subscribed');
	grant(@rights);
	ok(eval { poll_until('the subscription', sub { $redis->subscribers($channel) }) },
		'it is back: subscribed while he waits');
	$redis->foreign_unlock('jobs:w');
	is($session->wait(10)->error, undef, 'woken');
	$session->quit;
	nothing_remains('a right that came back');
}

is_deeply([do_all()], [], 'and all goes well again');
nothing_remains('at the end');
done_testing();
