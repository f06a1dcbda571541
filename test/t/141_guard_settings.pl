# Copyright (c) 2026, lockredis contributors

# The settings of the commit guard, which are copied when the lock is taken:
# commit_guard = off, the strictest of a key, on_lost; the margin before the end
# of a lease; given leases are renewed from pre-commit to the release.
# Proves G12, G14.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Guard;

start_servers();

# Let the session run a long statement; a signal to an idle one does nothing.
sub sleeps
{
	my ($s, $seconds) = @_;

	$s->start('SELECT pg_sleep(' . ($seconds ? limit($seconds) : 600) . ')');
	return $node->wait_for_event($s, 'PgSleep');
}

# ----------
# commit_guard = off, and the strictest one
# ----------

subtest 'off' => sub {
	run($one,
		"BEGIN; SET LOCAL lockredis.commit_guard = 'off';
		 SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_works($one, 1, 'a transaction-level lock');

	run($one,
		"SET lockredis.commit_guard = 'off'; SELECT redis_lock('k');
		 SET lockredis.commit_guard = 'lease'; BEGIN;
		 INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_works($one, 1, 'a session-level one, whatever is set by now');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	$one->query("SELECT redis_unlock('k')");
	commit_works($one, 1, 'and unlocking it');

	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'off'; INSERT INTO t VALUES (1)");
	$two->take_away('k');
	commit_fails($one, 'k', $by_force, 'switched off too late');
};

subtest 'the strictest one of a key counts' => sub {
	foreach my $order ([qw(off lease)], [qw(lease off)])
	{
		my ($first, $second) = @$order;
		run($one, "BEGIN; INSERT INTO t VALUES (1);
			SET LOCAL lockredis.commit_guard = '$first'; SELECT redis_xact_lock('k');
			SET LOCAL lockredis.commit_guard = '$second'; SELECT redis_xact_lock('k')");
		$two->take_away('k');
		commit_fails($one, 'k', $by_force, "@$order");
	}
	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'verify';
		 SELECT redis_xact_lock('k')");
	$redis->cmd('DEL', 'k');
	commit_fails($one, 'k', qr/Its key was deleted in the store, seen at/,
		'lease verify');

	# Of different keys each has its own.
	run($one,
		"BEGIN; SELECT redis_xact_lock('k');
		 SET LOCAL lockredis.commit_guard = 'off';
		 SELECT redis_xact_lock('k2')");
	$two->take_away('k2');
	commit_works($one, 0, 'another key');

	# A hold that has been given back does not count.
	run($one, "SET lockredis.commit_guard = 'off'; SELECT redis_lock('k');
		RESET lockredis.commit_guard; BEGIN; SELECT redis_xact_lock('k'); COMMIT");
	$two->take_away('k');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	commit_works($one, 1, 'only the hold with off is left');
	$one->query("SELECT redis_unlock('k')");
};

# ----------
# on_lost
# ----------

subtest 'on_lost' => sub {
	run($one,
		"SET lockredis.on_lost = 'cancel'; BEGIN;
		 SELECT redis_xact_lock('k')");
	sleeps($one);
	$two->take_away('k');
	$one->wait->fails('57014', qr/cancel/, 'cancel ends the statement');

	# Which is all that the signal was for: the next transaction has nothing to
	# do with it.
	run($one,
		"ROLLBACK; BEGIN; SELECT redis_xact_lock('k');
		 INSERT INTO t VALUES (1)");
	commit_works($one, 1, 'the next transaction');

	run($one, "BEGIN; SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	$two->take_away('k');
	$one->query_is('SELECT 1', 1, 'an idle session is left alone');
	commit_fails($one, 'k', $by_force, 'its commit fails');

	run($one, "SELECT redis_lock('k')");
	$two->take_away('k');
	$one->query("SELECT redis_unlock('k')");
	run($one, "BEGIN; SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	commit_works($one, 1, 'a signal to an idle session is over, too');

	# By expiry, told by the watchdog; a session-level lock.
	my $result;
	poll_until(
		'an answer before the lease has ended',
		sub {
			$result = $one->query("SELECT redis_lock('k', $short), pg_sleep(600)");
			return $result->{raw} !~ /after the lease had ended/;
		});
	$result->fails('57014', qr/cancel/, 'a lease that ran out cancels');
	$one->query("SELECT redis_unlock('k')");
	run($one, 'RESET lockredis.on_lost');

	run($one, "BEGIN; SELECT redis_xact_lock('k')");
	sleeps($one, 4);
	$two->take_away('k');
	is($one->wait->error, undef, 'mark does not');
	commit_fails($one, 'k', $by_force, 'COMMIT');

	foreach my $order ([qw(mark terminate)], [qw(terminate mark)], [qw(cancel terminate)])
	{
		my $s = $node->session;
		foreach my $on_lost (@$order)
		{
			run($s, "SET lockredis.on_lost = '$on_lost'; SELECT redis_lock('k')");
		}
		sleeps($s);
		$two->take_away('k');
		$s->wait->fails('57P01', qr/terminating/, "terminate ends the session: @$order");
		$s->quit;
	}

	# As with commit_guard, a hold that has been given back does not count.
	run($one,
		"SELECT redis_lock('k'); SET lockredis.on_lost = 'cancel';
		 BEGIN; SELECT redis_xact_lock('k'); COMMIT; RESET lockredis.on_lost");
	sleeps($one, 4);
	$two->take_away('k');
	is($one->wait->error, undef, 'only the hold with mark is left');
	$one->query("SELECT redis_unlock('k')");

	my $idle = $node->session(settings => { 'lockredis.on_lost' => 'terminate' });
	run($idle, "BEGIN; SELECT redis_xact_lock('k'), redis_xact_lock('k2')");
	$two->take_away('k');
	poll_until('the idle session to end', sub { $idle->is_gone });
	$idle->quit;
	poll_until('its other locks to be given back', sub { !$redis->cmd('EXISTS', 'k2') });
};

# ----------
# After pre-commit
# ----------

# A standby that does not exist is waited for, for as long as the test likes.
# The first session has the lock for NOTIFY meanwhile, and the second one waits
# for that lock: both past pre-commit, with given leases that are long over.
subtest 'given leases are renewed past pre-commit' => sub {
	my $lease = limit(6) . 's';

	$node->set(synchronous_standby_names => 'nobody');
	foreach my $s ([ $one, 'k' ], [ $two, 'k2' ])
	{
		my ($session, $key) = @$s;

		run($session,
			"BEGIN; SELECT redis_xact_lock('$key', '$lease');
			 INSERT INTO t VALUES (1); NOTIFY n");
		$session->start('COMMIT');
		$node->wait_for_event($session, $key eq 'k' ? 'SyncRep' : 'object');
	}
	poll_until('a lease and more to have passed',
		sub { $node->count_locks("renewals >= 4 AND NOT renewed AND granted") == 2 });
	ok($redis->cmd('EXISTS', $_), "$_ is still held") foreach qw(k k2);
	ok($_->is_running, 'the commit waits') foreach $one, $two;

	# And what is lost now cannot stop the commit any more.
	$redis->cmd('DEL', 'k');
	$node->wait_for_loss('k');
	my $refused = $node->lock_stat('commits_refused');
	$node->set(synchronous_standby_names => '');
	foreach my $s ($one, $two)
	{
		my $result = $s->wait;
		is($result->{raw}, '', 'committed');
	}
	is($node->lock_stat('commits_refused'), $refused, 'neither was refused');
	poll_until('both to be released', sub { !$redis->all_keys });
};

# ----------
# The margin
# ----------

# Four given leases of the same length, committed when so much of them is left;
# all are taken at once, because it takes as long as the lease.  (Beyond 10 s the
# margin is no longer a tenth.)
#
# plenty    more than a tenth: no round trip
# little    less than a tenth: renewed on the spot, one round trip
# session   the same for a session-level lock of a writer
# alone     less than a tenth, and the store cannot be reached: refused
# Who wakes up so late that less is left than was meant proves nothing: then all once more.
subtest 'margin' => sub {
	my $lease = 10;
	my $plenty = $lease * 0.3;
	my $little = $lease * 0.08;
	my (%result, %sent, $renewed, $refused);

	my $in_time = sub {
		my %s = (
			map({ ($_ => $node->session) } qw(plenty little session)),
			alone => $far->session);
		my $watch = $redis->monitor;
		my $before = $far->lock_stat('commits_refused');
		my $late = 0;

		foreach my $name (sort keys %s)
		{
			my $lock = $name eq 'session' ? 'redis_lock' : 'redis_xact_lock';
			my $left = $name eq 'plenty' ? $plenty : $little;

			run($s{$name},
				"BEGIN; SELECT $lock('$name', '$lease s'); INSERT INTO t VALUES (1)");
			$s{$name}->start(
				qq{SELECT clock_timestamp() + expires_in AS ends FROM redis_locks WHERE key = '$name' \\gset
				   SELECT pg_sleep(extract(epoch FROM :'ends'::timestamptz - clock_timestamp()) - $left);
				   COMMIT;
				   SELECT extract(epoch FROM :'ends'::timestamptz - clock_timestamp())});
		}
		$proxy->mode('refuse');
		$proxy->reset_all;

		my %address = map { $_->{name} => $_->{addr} } $redis->clients;
		foreach my $name (sort keys %s)
		{
			$result{$name} = $s{$name}->wait;
			my ($left) = $result{$name}->out =~ /(-?[\d.]+)\z/;
			$late = 1 if !defined $left || $left < ($name eq 'plenty' ? 1.2 : 0.05);
		}
		$renewed = $redis->cmd('PTTL', 'session');
		$refused = $far->lock_stat('commits_refused') - $before;
		my @lines = $watch->stop;
		foreach my $name (qw(plenty little session))
		{
			my $address = $address{ 'lockredis-session-' . $s{$name}->pid };
			$sent{$name} = grep { /\[\d+ \Q$address\E\] "EVAL/ && /"$name"/ } @lines;
		}
		$s{session}->query('SELECT redis_unlock_all()');
		$s{alone}->query_is('SELECT 1', 1, 'the session goes on');
		$_->quit foreach values %s;
		$proxy->mode('pass');
		$far->wait_for_up;
		return !$late;
	};
	poll_until('all to commit in time', $in_time, 300);
	is($result{$_}->error, undef, "$_: committed") foreach qw(plenty little session);
	cmp_ok($renewed, '>', $little * 1000, 'the session-level lease was renewed');
	$result{alone}->fails(
		'40001',
		qr/could not commit because the lease of the lock "alone" is about to end\n.*HINT:  Start the transaction again/s,
		'without the store it is refused');
	is($far->value('SELECT count(*) FROM t'), 0, 'and nothing is committed');
	is($refused, 1, 'which is counted');
	is_deeply(
		\%sent,
		{ plenty => 2, little => 3, session => 2 },
		'take and release, and one to renew where little was left');
};

end_test([ $node, $far ], $redis);
