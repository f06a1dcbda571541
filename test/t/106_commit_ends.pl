# Copyright (c) 2026, lockredis contributors

# The end of a transaction while Redis fails, where it may still fail: the guard
# without an answer, a cancel, sessions that end, a crash.  All that may fail is
# before the commit.
# Proves G12, G15.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::CommitFaults;

start_servers();

# ----------
# Before the commit: there it may fail, cleanly
# ----------

subtest 'the guard gets no answer' => sub {
	my %no_answer = (
		'Redis frozen' => [ sub { $redis->freeze }, sub { $redis->thaw } ],
		'reply dropped' => [
			sub { $proxy->rule(on => 'reply', match => 'verified', action => 'drop') },
			sub { $proxy->clear }
		],
		'Redis stopped' =>
		  [ sub { $redis->stop(keep => 1) }, sub { $redis->start } ]);

	foreach my $name (sort keys %no_answer)
	{
		my $before = $node->count_rows('t');

		run($one,
			"BEGIN; SET LOCAL lockredis.commit_guard = 'verify';
			 SELECT redis_xact_lock('verified'); INSERT INTO t VALUES (1)");
		$no_answer{$name}[0]->();
		my $result = $one->query('COMMIT');
		like($result->sqlstate, qr/^58/, "$name: the commit fails")
		  || diag $result->{raw};

		# Asking, then giving back; by then the node is known not to answer.
		cmp_ok($result->ms, '<', 2 * $budget + $slack, 'in time');
		is($node->count_rows('t'), $before, 'nothing is committed');
		$one->query_is('SELECT 1', 1, 'the next statement works');
		$no_answer{$name}[1]->();
		recovered($one, $name);
	}
};

subtest 'a deferred trigger cannot get its lock' => sub {
	my $before = $node->count_rows('t');

	run($one,
		q{CREATE FUNCTION take_deferred() RETURNS trigger LANGUAGE plpgsql AS $$
		  BEGIN
		      PERFORM redis_xact_lock('deferred');
		      RETURN NULL;
		  END $$;
		  CREATE CONSTRAINT TRIGGER later AFTER INSERT ON t
		  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION take_deferred();
		  BEGIN; SELECT redis_xact_lock('a'); INSERT INTO t VALUES (1)});
	$redis->freeze;
	my $result = $one->query('COMMIT');
	$result->fails('58030', qr/the lock store did not answer/,
		'the commit fails');
	cmp_ok($result->ms, '<', 2 * $budget + $slack, 'in time');
	$redis->thaw;
	is($node->count_rows('t'), $before, 'nothing is committed');
	run($one, 'DROP TRIGGER later ON t');
	recovered($one, 'a deferred trigger');
};

# A cancel while the guard waits: the transaction fails, and releases.
subtest 'cancelled while the guard asks' => sub {
	my $before = $node->count_rows('t');
	my $id;

	run($one,
		"BEGIN; SET LOCAL lockredis.commit_guard = 'verify';
		 SELECT redis_xact_lock('verified'); INSERT INTO t VALUES (1)");
	$id = $proxy->rule(match => 'verified', action => 'hold');
	$one->start('COMMIT');
	$proxy->wait_for_rule($id);
	$one->cancel;
	$one->wait->fails('57014', qr/cancel/, 'the commit fails');
	$proxy->let_go;
	is($node->count_rows('t'), $before, 'nothing is committed');
	recovered($one, 'cancelled');
};

# ----------
# Sessions that end
# ----------

# The release is under way and is not answered; it cannot be interrupted, as the
# transaction is committed, but it ends.
foreach my $how ([ terminate => qr/57P01/ ], [ cancel => undef ])
{
	my ($signal, $state) = @$how;

	subtest "$signal while the release is not answered" => sub {
		my $s = $node->session;
		my $before = $node->count_rows('t');

		run($s,
			"SELECT redis_lock('session'); BEGIN; INSERT INTO t VALUES (1);
			 SELECT redis_xact_lock('a')");
		my $id = $proxy->rule(match => 'redisson_lock__channel', action => 'hold');
		$s->start('COMMIT');
		$proxy->wait_for_rule($id);
		is($node->count_rows('t') - $before, 1, 'it is committed');
		my $begin = now();
		$s->signal($signal eq 'cancel' ? 'INT' : 'TERM');
		if ($signal eq 'cancel')
		{
			is($s->wait->{raw}, '', 'a cancel comes too late');
			$s->query_is('SELECT 1', 1, 'and is forgotten');
		}
		else
		{
			poll_until('the backend to end', sub { $s->is_gone });
			cmp_ok((now() - $begin) * 1000,
				'<', 2 * $budget + $slack, 'it ends in time');
			$s->wait;
		}
		$proxy->let_go;
		$s->quit;
		recovered($one, $signal);
	};
}

subtest 'terminated in a transaction, Redis frozen' => sub {
	my $s = $node->session;
	my $before = $node->count_rows('t');

	run($s,
		"SELECT redis_lock('session'); BEGIN; INSERT INTO t VALUES (1);
		 SELECT redis_xact_lock('a')");
	$redis->freeze;
	my $begin = now();
	$s->terminate;
	poll_until('the backend to end', sub { $s->is_gone });
	cmp_ok((now() - $begin) * 1000, '<', 2 * $budget + $slack, 'it ends in time');
	$redis->thaw;
	is($node->count_rows('t'), $before, 'nothing is committed');
	$s->quit;
	recovered($one, 'terminated');
};

# ----------
# A crash in the middle of a commit
# ----------

# The backend is killed while its release is on the way: the server restarts,
# the row is committed, the lock runs out, and nobody else is harmed.
subtest 'crash' => sub {
	my ($victim, $before);

	# Nobody renews it once the watchdog has been killed, too.
	my $lease = limit(4) . 's';

	# A COMMIT waits for its release for a tenth of a second only, so it may be over when
	# the session is stopped.
	foreach my $try (1 .. 20)
	{
		$victim = $node->session;
		$before = $node->count_rows('t');
		$victim->in_time(
			"ROLLBACK; BEGIN; INSERT INTO t VALUES (1);
			 SELECT redis_xact_lock('crash', '$lease')");
		my $id = $proxy->rule(match => 'redisson_lock__channel', action => 'hold');
		$victim->start('COMMIT');
		$proxy->wait_for_rule($id);
		$victim->freeze;
		pause(0.2);
		last if $victim->is_running;
		$victim->thaw;
		$proxy->let_go;
		$victim->quit;
		$redis->wait_for_key('crash', 0);
	}
	$victim->kill9;
	ok($victim->wait->dead, 'the connection is lost');
	poll_until(
		'the server to be back',
		sub { eval { $node->value('SELECT 1') } });
	is($node->count_rows('t') - $before, 1, 'the row is committed');
	is($node->count_locks, 0, 'the new instance knows of no lock');
	$proxy->let_go;
	poll_until('the lease to end', sub { !$redis->cmd('EXISTS', 'crash') });
	$one->quit;
	$one = $node->session;
	$victim->quit;
	recovered($one, 'crash');
};

nothing_worse(1);

end_test($node, $redis);
