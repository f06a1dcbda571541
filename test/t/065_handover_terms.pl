# Copyright (c) 2026, lockredis contributors

# Where a lock does not pass from session to session inside shared memory, since
# Redis would have to know; and that whoever is handed a lock has it as if Redis
# had given it: what the views show, its own guard, renewal, loss.
# Proves G22.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Handover;

start_servers();

#
# Where Redis has to know: another lease, given leases, hold_at_least, a token lock's
# lease, and too little time left.
#
# By what: statements of the holder, its release, the waiter, where they are others.
#
my %not = (
	'a shorter lease' => { holder => q{SET lockredis.lease = '5min'; SELECT redis_lock('KEY')} },
	'a longer lease' => { holder => q{SET lockredis.lease = '15min'; SELECT redis_lock('KEY')} },
	'a given lease' => { holder => q{SELECT redis_lock('KEY', '10min')} },
	'a given lease of a transaction' => {
		holder => q{BEGIN; SELECT redis_xact_lock('KEY', '10min')},
		release => 'COMMIT'
	},
	'a waiter with a given lease' => { waiter => q{SELECT redis_lock('KEY', '10min')} },
	'two given leases' => {
		holder => q{SELECT redis_lock('KEY', '10min')},
		waiter => q{SELECT redis_lock('KEY', '10min')}
	},
	'an extended lease' =>
	  { holder => q{SELECT redis_lock('KEY'); SELECT redis_extend('KEY', '10min')} },
	'a longer lease since' => {
		holder =>
		  q{SELECT redis_lock('KEY'); SELECT redis_lock('KEY', '1h'); SELECT redis_unlock('KEY')}
	},
	'a waiter with hold_at_least' => {
		waiter => q{CALL redis_with_lock('KEY', 'SELECT 1', '1min', hold_at_least => '10ms')},
		ends => 'by itself'
	});
foreach my $what (sort keys %not)
{
	my %case = (
		holder => q{SELECT redis_lock('KEY')},
		release => q{SELECT redis_unlock('KEY')},
		waiter => q{SELECT redis_lock('KEY')},
		%{ $not{$what} });
	my $key = "not: $what";

	run($one, with_key($case{holder}, $key));
	my ($owner, $count) = ($redis->owner_of($key), $node->lock_stat('handoffs'));
	$node->queue_up($key, $two => with_key($case{waiter}, $key));
	my $calls = $redis->script_calls;
	run($one, with_key($case{release}, $key));
	is($two->wait(limit(10))->error, undef, "$key: got");
	cmp_ok($redis->script_calls - $calls,
		'>=', 2, "$key: released and taken in Redis");
	is($node->lock_stat('handoffs'), $count, "$key: not handed over");

	if (!$case{ends})
	{
		isnt($redis->owner_of($key), $owner, "$key: another owner");
		run($two, "SELECT redis_unlock('$key')");
	}
	run($one, 'RESET lockredis.lease');
	poll_until('the key to have gone', sub { !$redis->cmd('EXISTS', $key) });
	gone($key, $key);
}

# Without a watchdog nobody would renew it.  The postmaster is stopped, so it
# starts no other one; the waiter would wait for one for five seconds.
{
	my $key = 'not: no watchdog';
	my $count = $node->lock_stat('handoffs');
	my $watchdog = $node->watchdog_pid;
	my ($postmaster) = split /\n/,
	  PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid');

	$node->set('lockredis.command_timeout' => '2s');
	run($one, "SELECT redis_lock('$key')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	kill 'STOP', $postmaster;
	kill 'TERM', $watchdog;
	eval {
		poll_until(
			'the watchdog to be gone',
			sub {
				$one->value(
					"SELECT count(*) FROM pg_stat_activity WHERE pid = $watchdog")
				  == 0;
			});
		my $calls = $redis->script_calls;
		run($one, "SELECT redis_unlock('$key')");
		is($redis->script_calls - $calls, 1, "$key: released in Redis");
		is($one->value('SELECT handoffs FROM redis_lock_stats'),
			$count, "$key: not handed over");
	};
	my $error = $@;
	kill 'CONT', $postmaster;
	die $error if $error;
	is($two->wait(limit(20))->error,
		undef, "$key: got as soon as there is one again");
	run($two, "SELECT redis_unlock('$key')");
	$node->wait_for_up;
	$node->set('lockredis.command_timeout' => '3s');
	gone($key, $key);
}

#
# What is shown of it.
#
{
	my $key = 'shown';

	run($one, "SELECT redis_lock('$key')");
	my $acquired =
	  $node->value("SELECT acquired_at FROM redis_locks WHERE key = '$key'");
	my $owner = $node->value("SELECT owner FROM redis_locks WHERE key = '$key'");
	$node->queue_up(
		$key,
		$two => "SELECT redis_lock('$key')",
		$three => "SELECT redis_lock('$key')",
		$four => "BEGIN; SELECT redis_xact_lock('$key')");
	my $blockers = sub ($s) {
		return $node->value(
			"SELECT blocked_by FROM redis_locks WHERE key = '$key' AND pid = "
			  . $s->pid);
	};
	my @pids = map { $_->pid } $one, $two, $three;
	is($blockers->($two), "{$pids[0]}", 'shown: behind the holder');
	is( $blockers->($four),
		'{' . join(',', @pids) . '}',
		'shown: behind all before');

	run($one, "SELECT redis_unlock('$key')");
	$two->wait;
	is($blockers->($two), '', 'shown: the new holder waits for nobody');
	is($blockers->($three), "{$pids[1]}",
		'shown: the next one for the new holder');
	is($blockers->($four), "{$pids[1],$pids[2]}", 'shown: and so on');
	is( $node->value(
			"SELECT owner, lease, hold_count, scope, acquired_at > '$acquired',"
			  . " acquired_at <= now(), expires_in > '9min', expires_in <= '10min'"
			  . " FROM redis_locks WHERE granted AND key = '$key'"),
		"$owner|00:10:00|1|session|t|t|t|t",
		'shown: lease, owner and time of the new holder');
	$three->cancel;
	$three->wait;
	is($two->value("SELECT redis_lock_owner('$key')"),
		$owner, 'shown: redis_lock_owner');
	$two->query_is("SELECT redis_lock_ttl('$key') BETWEEN '9min' AND '10min'",
		't', 'shown: redis_lock_ttl');

	# Taken again and extended, as any other.
	$two->query_is("SELECT redis_lock('$key'), redis_hold_count('$key'), redis_unlock('$key')",
		'|2|t', 'again: counted');
	$two->query_is("SELECT redis_extend('$key', '20min'), redis_extend('$key', NULL)",
		't|t', 'again: extended');
	is_deeply($redis->hash($key), { $owner => 1 }, 'again: in Redis it is held once');
	ok($four->is_running, 'again: all the time the next one waits');
	run($two, "SELECT redis_unlock('$key')");
	is($four->wait->error, undef, 'again: then it gets it');
	run($four, 'COMMIT');
	gone($key, 'shown');
}
$_->quit foreach $one, $two, $three, $four;
nothing_left($node, $redis, keys => $counters);

#
# A lease that is renewed for one goes on being renewed for the next.
#
my $lease = limit(6);
{
	my $key = 'renewed';
	my @sessions =
	  map { $node->session(settings => { 'lockredis.lease' => "${lease}s" }) }
	  1 .. 3;
	my $renewals =
	  "SELECT renewals FROM redis_locks WHERE granted AND key = '$key'";

	run($sessions[0], "SELECT redis_lock('$key')");
	my $owner = $redis->owner_of($key);
	$node->queue_up($key, map { $_ => "SELECT redis_lock('$key')" } @sessions[ 1, 2 ]);
	foreach my $n (0 .. 2)
	{
		poll_until('some renewals', sub { $node->value($renewals) >= 3 });
		is( $node->value(
				"SELECT pid FROM redis_locks WHERE granted AND key = '$key'"),
			$sessions[$n]->pid,
			"renewed: holder $n");
		$sessions[$n]->query_is("SELECT redis_is_held('$key')",
			't', "renewed: still held by $n");
		last if $n == 2;
		run($sessions[$n], "SELECT redis_unlock('$key')");
		die 'not got' if defined $sessions[ $n + 1 ]->wait->error;
		cmp_ok($node->value($renewals), '<', 3, 'renewed: counted anew');
	}
	is($redis->owner_of($key), $owner, 'renewed: one owner all the time');

	# expires_in is that of the lease that it was handed with.
	is( $node->value(
			"SELECT expires_in > '0' AND expires_in <= '${lease}s' FROM redis_locks WHERE granted"
		),
		't',
		'renewed: expires_in');
	run($sessions[2], "SELECT redis_unlock('$key')");
	$_->quit foreach @sessions;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => 'renewed: nothing is left');
}

#
# A lock that is lost after the hand-over is the loss of its new holder, who
# is guarded by its own terms and not by those of the one before.
#
{
	my $key = 'lost';
	my $strict = $node->session(
		settings => {
			'lockredis.lease' => "${lease}s",
			'lockredis.commit_guard' => 'verify',
			'lockredis.on_lost' => 'terminate'
		});
	my $usual = $node->session(settings => { 'lockredis.lease' => "${lease}s" });
	my $lax = $node->session(
		settings => {
			'lockredis.lease' => "${lease}s",
			'lockredis.commit_guard' => 'off'
		});
	my $lose = sub {
		$redis->cmd('DEL', $key);
		return $node->wait_for_loss($key);
	};

	# From the strictest to the usual one.
	run($strict, "SELECT redis_lock('$key')");
	run($usual, 'BEGIN');
	$node->queue_up($key, $usual => "SELECT redis_xact_lock('$key')");
	run($strict, "SELECT redis_unlock('$key')");
	die 'not got' if defined $usual->wait->error;
	run($usual, 'INSERT INTO t VALUES (3)');
	$lose->();
	$usual->query_is("SELECT redis_is_held('$key')",
		'f', "$key: it knows, and goes on");
	$usual->query_fails('COMMIT', '40001', qr/\Q$key\E.*lost/s,
		"$key: but cannot commit");
	$strict->query_is(
		'BEGIN; INSERT INTO t VALUES (4); COMMIT; SELECT 1',
		'1',
		"$key: to the one before it is nothing");

	# From the strictest to the one who does not care.
	run($strict, "SELECT redis_lock('$key')");
	$node->queue_up($key, $lax => "SELECT redis_lock('$key')");
	run($strict, "SELECT redis_unlock('$key')");
	die 'not got' if defined $lax->wait->error;
	$lose->();
	$lax->query_is('BEGIN; INSERT INTO t VALUES (5); COMMIT; SELECT 1',
		'1', "$key: without a guard it commits");
	$lax->query_warns(
		"SELECT redis_unlock('$key')", 'f',
		'01000', qr/lost/,
		"$key: and is told");

	# And from there to the strictest: it is terminated.
	run($lax, "SELECT redis_lock('$key')");
	$node->queue_up($key, $strict => "SELECT redis_lock('$key')");
	run($lax, "SELECT redis_unlock('$key')");
	die 'not got' if defined $strict->wait->error;
	$redis->cmd('DEL', $key);
	poll_until('the strict one to be terminated', sub { $strict->is_gone });
	pass("$key: the strictest is terminated");
	$lax->query_is("SELECT redis_is_held('$key'), redis_try_lock('$key', '10s')",
		'f|t', "$key: the key can be taken again");
	run($lax, "SELECT redis_unlock('$key')");
	$_->quit foreach $strict, $usual, $lax;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => "$key: nothing is left");
}

# The guard that asks Redis does so for the owner that was handed over.
{
	my $key = 'verified';
	my ($plain, $verify) =
	  map { $node->session(settings => { 'lockredis.commit_guard' => $_ }) }
	  'off', 'verify';

	foreach my $case ('kept', 'gone')
	{
		run($plain, "SELECT redis_lock('$key')");
		$node->queue_up($key,
			$verify =>
			  "BEGIN; INSERT INTO t VALUES (6); SELECT redis_xact_lock('$key')");
		run($plain, "SELECT redis_unlock('$key')");
		die 'not got' if defined $verify->wait->error;
		$redis->cmd('DEL', $key) if $case eq 'gone';
		my $result = $verify->query('COMMIT');
		is( $result->sqlstate,
			$case eq 'gone' ? '40001' : undef,
			"$key: commit, $case");
	}
	$_->quit foreach $plain, $verify;
	nothing_left(
		$node, $redis,
		keys => $counters,
		name => "$key: nothing is left");
}

done_testing();
