# Copyright (c) 2026, lockredis contributors

# Redis refuses what is asked for one key: others that
# share a request with it are served all the same, in each place where requests
# are shared; what is refused is tried again in growing intervals, told once, and
# given up when it has run out by itself; and only a Redis that refuses everybody
# is down.
#
# Redis looks at the rights to all keys of a script before it runs it.
#
# Proves G20.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');

my $node = LockRedis::Node->create(
	'main',
	url => 'redis://bob@127.0.0.1:' . $proxy->port,
	settings => {
		'lockredis.connect_timeout' => '1s',
		'lockredis.command_timeout' => '20s'
	});
$node->wait_for_up;

# Keys that begin with "app:" are allowed, and no others.
sub forbid
{
	return $redis->cmd('ACL', 'SETUSER', 'bob', 'resetkeys', '~app:*',
		'~redisson_lock__channel:*');
}

sub allow { return $redis->cmd('ACL', 'SETUSER', 'bob', '~*', '+eval', '+evalsha'); }

sub state { return $node->lock_status('state'); }

sub signal_watchdog ($signal)
{
	kill $signal, $node->watchdog_pid or die "no watchdog: $!";
	return;
}

# Over a new connection all is tried at once.
sub clean_up ($name)
{
	allow();
	$redis->kill_clients('watchdog');
	return poll_until(
		"$name: the watchdog to be done",
		sub { $node->count_locks == 0 });
}

my $denied = qr/denied access.*(?:NOPERM|ACL failure)/s;
my $hint = qr/HINT:.*ACL LOG.*docs\/acl\.md/s;

# ----------
# Renewals: 50 that are allowed and one that is not, due at the same time
# ----------

my $holder = $node->session(settings => { 'lockredis.lease' => '9s' });
$holder->value(
	q{SELECT count(redis_lock(CASE i WHEN 26 THEN 'other' ELSE 'app:' || i END)) FROM generate_series(1, 51) i}
);
forbid();
$redis->cmd('CONFIG', 'RESETSTAT');
$node->log_since_here;
poll_until('the end of the lease that may not be renewed',
	sub { $node->count_locks(q{lost_reason = 'expired'}) > 0 });
is($node->value(q{SELECT string_agg(key, ' ') FROM redis_locks WHERE lost_at IS NOT NULL}),
	'other', 'only the lock that is denied was lost');
is( $node->count_locks(
		q{key LIKE 'app:%' AND granted AND renewals > 0 AND expires_in > '0'}),
	50,
	'the others were renewed');
cmp_ok($redis->rejected_calls('eval', 'evalsha'), '<', 25, 'it was not asked for all the time');
is(state(), 'up', 'the store is up');
my $refuses = qr/LOG:  lockredis: the lock store refuses to (?:renew|release)/;
like(
	$node->log_text,
	qr/refuses to renew the lock "other"\n.*DETAIL:  The node answered: .*NOPERM.*\n.*HINT:.*ACL LOG/,
	'the log says what was refused and what to do');
like(
	$node->lock_status('last_error'),
	qr/^The node answered: .*NOPERM/,
	'so does the view');

# What an expiry leaves is given back, which is refused too, and ends.
poll_until(
	'the watchdog to have given up what the loss left',
	sub { $redis->cmd('EXISTS', 'other') == 0 });
is($node->times_logged($refuses), 1, 'said once');
is($node->count_locks(q{key LIKE 'app:%' AND granted AND expires_in > '0'}),
	50, 'the others live on');
$holder->query_warns("SELECT redis_unlock('other')",
	'f', '01000', qr/was lost.*expired/s, 'the holder is told of the loss');
$holder->query_is('SELECT redis_unlock_all()', '50', 'the others are given back');
clean_up('renewals');

# ----------
# Releases, by the session itself: the watchdog is stopped
# ----------

my $keys = q{(SELECT CASE i WHEN 11 THEN 'other' ELSE 'app:' || i END AS k FROM generate_series(1, 21) i)};

sub is_done_by_session ($name)
{
	is_deeply([ $redis->all_keys ], ['other'], "$name: the 20 others are released");
	is($node->count_locks('pid IS NULL'), 1, "$name: one is left to the watchdog");
	$node->log_since_here;
	signal_watchdog('CONT');
	poll_until(
		'the refusal in the log',
		sub {
			$node->logged(
				qr/refuses to release the lock "other"\n.*DETAIL:  .*NOPERM.*\n.*HINT:.*ACL LOG/);
		});
	return clean_up($name);
}

my $one = $node->session;
$one->value("SELECT count(redis_lock(k, '1h')) FROM $keys k");
forbid();
signal_watchdog('STOP');
$one->query_warns('SELECT redis_unlock_all()', '21', '58000', $denied,
	'redis_unlock_all: one warning');
is_done_by_session('redis_unlock_all');

# The end of a transaction waits for a tenth of a second, in which it is to go through
# several requests.
foreach my $try (1 .. 10)
{
	$one->value('BEGIN');
	$one->value("SELECT count(redis_xact_lock(k, '1h')) FROM $keys k");
	forbid();
	signal_watchdog('STOP');
	$one->query_is('COMMIT', '', 'COMMIT');
	last if $node->count_locks('pid IS NULL') == 1;
	signal_watchdog('CONT');
	clean_up("COMMIT, $try");
}
is_done_by_session('COMMIT');

my $leaver = $node->session;
$leaver->value("SELECT count(redis_lock(k, '1h')) FROM $keys k");
forbid();
$redis->cmd('SCRIPT', 'FLUSH');
signal_watchdog('STOP');
$leaver->quit;
is_done_by_session('session exit');

# The guard asks for all locks of a transaction in one request.
$one->value("SET lockredis.commit_guard = 'verify'");
$one->value('BEGIN');
$one->value("SELECT count(redis_xact_lock(k, '1h')) FROM $keys k");
$one->query_is('COMMIT', '', 'verified');
$one->value('BEGIN');
$one->value("SELECT count(redis_xact_lock(k, '1h')) FROM $keys k");
forbid();
$one->query_fails('COMMIT', '58000', $denied, 'a commit that cannot be verified');
$one->value('RESET lockredis.commit_guard');
clean_up('verify');

# (That it is tried again at growing intervals, as an orphan as well, one that is never allowed ends
# with its lease, or with what was asked for and not answered, a write lock with that of a read lock
# that was beside it, and a connection that is lost when a group goes again one by one are the
# simulator's: its mutants look_9_together, early_retry, look_9_for_ever, asked_lease, refused_beside
# and refused_beside_gone.)

# ----------
# A right that only the head of a queue lacks: a fencing token is a key too
# ----------

my ($head, $next) = map { $node->session } 1 .. 2;
$_->value("SELECT redis_is_locked('app:warm')") foreach $head, $next;
forbid();
my $rule = $proxy->rule(on => 'request', match => 'app:queue', action => 'hold');
$head->start("SELECT redis_fenced_lock('app:queue')");
$proxy->wait_for_rule($rule);
$next->start("SELECT redis_lock('app:queue')");
$node->wait_for_waiters('app:queue', 2);
$proxy->release;
$head->wait->fails('58000', qr/$denied.*$hint/s, 'no right to the token');
is($next->wait->error, undef, 'those behind it are not failed with it');
unlike($head->query("SELECT redis_fenced_lock('app:other')")->detail,
	qr/Node/, 'the only node has no number');
$next->query_is("SELECT redis_unlock('app:queue')", 't', 'and given back');
$_->quit foreach $head, $next;

# ----------
# Everything is refused: that is a store that is down, and no thousand commands
# ----------

allow();
$holder->value(q{SET lockredis.lease = '20s'});
$holder->value(q{SELECT count(redis_lock('app:' || i)) FROM generate_series(1, 500) i});
$node->log_since_here;
$redis->cmd('ACL', 'SETUSER', 'bob', '-eval', '-evalsha');
$redis->cmd('CONFIG', 'RESETSTAT');
poll_until('the store to be down', sub { state() eq 'down' });
cmp_ok($redis->rejected_calls('eval', 'evalsha'), '<', 100, 'locks are not asked for one by one');
allow();
$node->wait_for_up;
poll_until('all to be renewed', sub { $node->count_locks(q{granted AND renewals > 0}) == 500 });
is($node->times_logged($refuses), 0, 'no lock was refused by itself');
signal_watchdog('STOP');
$redis->cmd('ACL', 'SETUSER', 'bob', '-eval', '-evalsha');
$redis->cmd('CONFIG', 'RESETSTAT');
$holder->query_warns('SELECT redis_unlock_all()', '500', '58000', $denied, 'all are kept');
cmp_ok($redis->rejected_calls('eval', 'evalsha'), '<', 250, 'nor released one by one');
signal_watchdog('CONT');
clean_up('all refused');

# All of the first command are, and one of the next.
allow();
$holder->query(q{SELECT redis_lock('other' || i) FROM generate_series(1, 2) i});
$holder->query(q{SELECT redis_read_lock(CASE i WHEN 9 THEN 'other' ELSE 'app:' END || i) FROM generate_series(1, 9) i});
signal_watchdog('STOP');
forbid();
$redis->cmd('ACL', 'SETUSER', 'bob', '~*app:*');
$holder->query_warns('SELECT redis_unlock_all()', '11', '58000', $denied, 'some cannot be released');
is(scalar(grep { /app:/ } $redis->all_keys), 0, 'but those that may be are');
signal_watchdog('CONT');
clean_up('some refused');

end_test($node, $redis);
