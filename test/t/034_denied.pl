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
	url => 'redis://bob@127.0.0.1:' . $redis->port,
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

sub allow
{
	return $redis->cmd('ACL', 'SETUSER', 'bob', '~*');
}

sub state
{
	return $node->lock_status('state');
}

sub signal_watchdog
{
	my ($signal) = @_;

	kill $signal, $node->watchdog_pid or die "no watchdog: $!";
	return;
}

# Over a new connection all is tried at once.
sub clean_up
{
	my ($name) = @_;

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
is( $node->value(
		q{SELECT string_agg(key, ' ') FROM redis_locks WHERE lost_at IS NOT NULL}
	),
	'other',
	'only the lock that is denied was lost');
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
is( $node->count_locks(
		q{key LIKE 'app:%' AND granted AND expires_in > '0'}),
	50,
	'the others live on');
$holder->query_warns("SELECT redis_unlock('other')",
	'f', '01000', qr/was lost.*expired/s, 'the holder is told of the loss');
$holder->query_is('SELECT redis_unlock_all()', '50', 'the others are given back');
clean_up('renewals');

# Denied for a while only: the lock survives, and shares requests again.
$holder->value(q{SET lockredis.lease = '15s'});
$holder->value(q{SELECT redis_lock('other')});
forbid();
$redis->cmd('CONFIG', 'RESETSTAT');
poll_until('a refused renewal', sub { $redis->rejected_calls('eval', 'evalsha') > 0 });
my $renewals = $node->value('SELECT renewals FROM redis_locks');
allow();
poll_until('a renewal', sub { $node->count_locks("renewals > $renewals") });
$holder->query_is("SELECT redis_unlock('other')", 't', 'a lock that was denied for a while');
clean_up('a while');

# ----------
# Releases, by the session itself: the watchdog is stopped
# ----------

my $keys = q{(SELECT CASE i WHEN 11 THEN 'other' ELSE 'app:' || i END AS k FROM generate_series(1, 21) i)};

sub is_done_by_session
{
	my ($name) = @_;

	is_deeply([ $redis->all_keys ], ['other'], "$name: the 20 others are released");
	is($node->count_locks('pid IS NULL'), 1, "$name: one is left to the watchdog");
	signal_watchdog('CONT');
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
$one->query_fails('COMMIT', '58000', $denied,
	'a commit that cannot be verified');
$one->value('RESET lockredis.commit_guard');
clean_up('verify');

# ----------
# Orphans: three acquires of an ordinary role are cancelled when Redis has given
# them the lock already, one of a key that is not allowed any more.  They get
# into one batch, since the watchdog is stopped meanwhile.
# ----------

$node->value('CREATE ROLE somebody LOGIN');
# An orphan is looked after for that long.
$node->set('lockredis.url' => 'redis://bob@127.0.0.1:' . $proxy->port, 'lockredis.command_timeout' => '10s');
$node->wait_for_up;
my %taker = map {
	$_ => $node->session(user => 'somebody')
} qw(app:cut1 other:cut2 app:cut3);
$_->value("SELECT redis_is_locked('app:warm')") foreach values %taker;
my $rule = $proxy->rule(on => 'reply', match => 'cut', times => 3, action => 'hold');
foreach my $key (sort keys %taker)
{
	$taker{$key}->start("SELECT redis_lock('$key', '1h')");
	poll_until("$key to be locked", sub { $redis->cmd('EXISTS', $key) });
}
signal_watchdog('STOP');
$_->cancel foreach values %taker;
$_->wait->fails('57014', qr/cancel/, 'cancelled') foreach values %taker;
forbid();
$proxy->release;
$redis->cmd('CONFIG', 'RESETSTAT');
$node->log_since_here;
my $began = now();
signal_watchdog('CONT');
poll_until('the two that are allowed to be given back',
	sub { join(' ', $redis->all_keys) eq 'other:cut2' });
poll_until('their rows to be gone', sub { $node->count_locks == 1 });
is($node->count_locks(q{key = 'other:cut2' AND pid IS NULL}), 1, 'the third is an orphan');

# Twice at first (together, and alone), then after 1 s and 2 s more.
poll_until('the fourth refusal', sub { $redis->rejected_calls('eval', 'evalsha') >= 4 });
cmp_ok(now() - $began, '>', 2.9, 'it is asked for at growing intervals');
is(state(), 'up', 'the store is up');
like(
	$node->log_text,
	qr/refuses to release the lock "other:cut2"\n.*DETAIL:  .*NOPERM.*\n.*HINT:.*ACL LOG/,
	'the log says so');
is($node->times_logged($refuses), 1, 'once');
$_->quit foreach values %taker;
clean_up('orphans');

# (One that is never allowed ends with its lease, or with what was asked for and not answered, and a
# write lock with that of a read lock that was beside it: the simulator's mutants look_9_for_ever,
# asked_lease, refused_beside and refused_beside_gone.)

$node->set('lockredis.command_timeout' => '20s');
$node->wait_for_up;

# ----------
# A right that only the head of a queue lacks: a fencing token is a key too
# ----------

my ($head, $next) = map { $node->session } 1 .. 2;
$_->value("SELECT redis_is_locked('app:warm')") foreach $head, $next;
forbid();
$rule = $proxy->rule(on => 'request', match => 'app:queue', action => 'hold');
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
$redis->cmd('ACL', 'SETUSER', 'bob', '+eval', '+evalsha');
$node->wait_for_up;
poll_until('all to be renewed',
	sub { $node->count_locks(q{granted AND renewals > 0}) == 500 });
is($node->times_logged($refuses), 0, 'no lock was refused by itself');
$holder->query_is('SELECT redis_unlock_all()', '500', 'all are kept');

# Rights that scripts need are missing: each is refused by itself, together.
$holder->value(q{SET lockredis.lease = '4s'});
$holder->value(q{SELECT count(redis_lock('app:' || i)) FROM generate_series(1, 500) i});
my $calls = $redis->script_calls;
$redis->cmd('ACL', 'SETUSER', 'bob', '-pexpire');
poll_until('all to be lost', sub { $node->count_locks(q{lost_reason = 'expired'}) == 500 });

# Each was asked for about ten times, and what is left is given back as it ends.
cmp_ok($redis->script_calls - $calls, '<', 1500, 'not one by one');
is(state(), 'up', 'the store is up');
$redis->cmd('ACL', 'SETUSER', 'bob', '+pexpire');
is($node->times_logged($refuses) > 0, 1, 'it is logged');
is($holder->value('SELECT redis_unlock_all()'), 0, 'all were lost');

end_test($node, $redis);
