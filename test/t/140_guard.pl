# Copyright (c) 2026, lockredis contributors

# The commit guard: a commit whose lock was lost before pre-commit fails, with
# 40001 or 55000, and says which lock, when and how.  Each way to lose one, of
# either scope, in savepoints, and what verify asks.
# Proves G6, G12, G13.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Guard;

start_servers();

# ----------
# Transaction-level: each way to be lost
# ----------

# [how it is lost, the words, session, lease]; the renewals of quick find out.
my @ways = (
	[ 'its lease ran out', sub { }, qr/Its lease expired, seen at/, $one, $short ],
	[
		'deleted',
		sub { $redis->cmd('DEL', 'k') },
		qr/Its key was deleted in the store, seen at/,
		$quick
	],
	[
		'Redis was flushed',
		sub { $redis->cmd('FLUSHALL') },
		qr/Its key was deleted in the store, seen at/,
		$quick
	],
	[
		'taken by somebody else',
		sub { $redis->replace_owner('k', 'other:7') },
		qr/It was taken by other:7, seen at/,
		$quick
	],
	[ 'released by force', sub { $two->take_away('k') }, $by_force, $one ],
	[
		'replaced by a string',
		sub { $redis->cmd('SET', 'k', 'secret', 'PX', 600_000) },
		qr/It was taken by \(string\), seen at/,
		$quick
	]);

foreach my $way (@ways)
{
	my ($name, $lose, $how, $s, $lease) = @$way;
	my $call = 'redis_xact_lock(\'k\'' . (defined $lease ? ", $lease)" : ')');

	foreach my $write ('', 'INSERT INTO t VALUES (1)')
	{
		subtest "$name, " . ($write ? 'writing' : 'read-only') => sub {
			$s->in_time("ROLLBACK; BEGIN; SELECT $call; $write");
			$lose->();
			$node->wait_for_loss('k');
			my $there = $redis->cmd('TYPE', 'k');
			commit_fails($s, 'k', $how, 'COMMIT');
			is($redis->cmd('TYPE', 'k'), $there, 'what is at the key stays');
			$redis->cmd('DEL', 'k');
			$s->query_is(
				"SELECT redis_is_held('k'); BEGIN;
				 SELECT redis_xact_lock('k'); INSERT INTO t VALUES (2)",
				"f\n", 'the loss is over');
			commit_works($s, 1, 'the next transaction commits');
		};
	}
}

subtest 'other ways to commit' => sub {
	run($one, "BEGIN; SELECT redis_xact_lock('k'); INSERT INTO t VALUES (1)");
	$two->take_away('k');
	$one->query_fails('COMMIT AND CHAIN', '40001',
		refusal('k', $by_force), 'COMMIT AND CHAIN');
	run($one, 'ROLLBACK');
	my $rows = $node->count_rows('t');
	$two->query_fails($_, '40001', refusal('k', $by_force), $_) foreach
	  q{DO $$ BEGIN INSERT INTO t VALUES (1); PERFORM redis_xact_lock('k');
		PERFORM redis_force_unlock('k'); COMMIT; INSERT INTO t VALUES (2); END $$},
	  q{INSERT INTO t VALUES (1) \; SELECT redis_xact_lock('k') \; SELECT redis_force_unlock('k')},
	  q{INSERT INTO t SELECT redis_hold_count('k') FROM (SELECT redis_xact_lock('k'), redis_force_unlock('k') OFFSET 0) x};
	is($node->count_rows('t') - $rows, 0, 'nothing was written');

	# PREPARE TRANSACTION cannot be undone by this session either.
	run($one, "SELECT redis_lock('k')");
	$two->take_away('k');
	$one->query_fails(
		"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'",
		'55000', qr/the lock "k" was lost/,
		'PREPARE TRANSACTION with a lost session-level lock');
	is($node->value('SELECT count(*) FROM pg_prepared_xacts'),
		0, 'nothing is prepared')
	  || $node->value("ROLLBACK PREPARED 'p'");
	$one->query("ROLLBACK; SELECT redis_unlock('k')");
};

# ----------
# verify
# ----------

# The key is deleted, and COMMIT comes before any renewal: lease, which looks at
# the clock only, misses that, and is documented to; verify does not.
subtest 'a fresh deletion' => sub {
	foreach my $write ('', 'INSERT INTO t VALUES (1)')
	{
		my $kind = $write ? 'writing' : 'read-only';
		run($one, "BEGIN; $write; SELECT redis_xact_lock('fresh')");
		$redis->cmd('DEL', 'fresh');
		commit_works($one, $write ? 1 : 0, "lease, $kind, misses it");

		run($one,
			"BEGIN; SET LOCAL lockredis.commit_guard = 'verify'; $write;
			 SELECT redis_xact_lock('fresh')"
		);
		$redis->cmd('DEL', 'fresh');
		commit_fails(
			$one, 'fresh',
			qr/Its key was deleted in the store, seen at/,
			"verify, $kind, finds it");
	}
	run($one,
		"SET lockredis.commit_guard = 'verify'; SELECT redis_lock('fresh')");
	$redis->cmd('DEL', 'fresh');
	run($one, 'BEGIN; SELECT 1; COMMIT');
	run($one, 'RESET lockredis.commit_guard; BEGIN; INSERT INTO t VALUES (1)');
	commit_fails(
		$one, 'fresh',
		qr/Its key was deleted in the store, seen at/,
		'verify of a session-level lock, which was taken on that term',
		'55000');
	$one->query_warns("SELECT redis_unlock('fresh')", 'f', '01000',
		qr/deleted/, 'unlocked');
};

subtest 'what verify costs' => sub {
	# Not what the watchdog sends: it has the releases that a COMMIT waits for no longer.
	my $asks = sub ($sql) {
		return scalar grep { /"EVALSHA"/i } $redis->session_commands(sub { run($one, $sql) });
	};
	my $all_free = sub {
		return poll_until('all to be given back',
			sub { !$redis->all_keys && $node->count_locks == 0 });
	};

	foreach my $guard (qw(lease verify off))
	{
		run($one, "SET lockredis.commit_guard = '$guard'");
		is( $asks->("BEGIN; SELECT redis_xact_lock('a'), redis_xact_lock('b');
			 INSERT INTO t VALUES (1)"),
			2,
			"$guard: two to take two locks");
		is($asks->('COMMIT'), $guard eq 'verify' ? 2 : 1,
			'one to release them, and with verify one to ask');
		$all_free->();
	}

	# Many are asked about in few commands: 200 of them share one.
	run($one, "SET lockredis.commit_guard = 'verify'");
	run($one,
		"BEGIN;
		 SELECT count(redis_xact_lock('many ' || i)) FROM generate_series(1, 250) i"
	);
	is($asks->('COMMIT'), 2 + 3, '250 locks: asked, then released');
	$all_free->();

	run($one, "SELECT redis_lock('a')");
	is($asks->('BEGIN; SELECT * FROM t; COMMIT'), 0, 'nobody is asked for a reader');
	is($asks->('INSERT INTO t VALUES (1)'), 1, 'but for a writer');
	is($asks->("SELECT redis_unlock('a'); INSERT INTO t VALUES (1)"),
		1, 'nothing to verify any more');
	run($one, 'RESET lockredis.commit_guard');
};

# ----------
# Session-level locks
# ----------

subtest 'a lost session-level lock' => sub {
	run($one, "SELECT redis_lock('s')");
	$two->take_away('s');
	run($one, 'BEGIN; SELECT count(*) FROM t');
	commit_works($one, 0, 'a read-only transaction commits');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	commit_fails($one, 's', $by_force, 'a writing one', '55000');
	my $rows = $node->count_rows('t');
	$one->query_fails('INSERT INTO t VALUES (1)',
		'55000', refusal('s', $by_force), 'a single statement');
	is($node->count_rows('t'), $rows, 'writes nothing');

	# Unlocking does not mend the transaction that it is done in.
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	$one->query("SELECT redis_unlock('s')");
	commit_fails($one, 's', $by_force, 'unlocked in the transaction', '55000');
	run($one, 'BEGIN; INSERT INTO t VALUES (1)');
	commit_works($one, 1, 'the next one');

	foreach my $unlock ('SELECT redis_unlock(\'s\')', 'SELECT redis_unlock_all()', 'DISCARD ALL')
	{
		run($one, "SELECT redis_lock('s')");
		$two->take_away('s');
		$one->query($unlock);
		run($one, 'BEGIN; INSERT INTO t VALUES (1)');
		commit_works($one, 1, "acknowledged by $unlock");
	}

	run($one, "SELECT redis_lock('s')");
	$two->take_away('s');
	$one->query("BEGIN; SELECT redis_unlock('s')");
	commit_works($one, 0, 'unlocked in a transaction that writes nothing');

	$one->in_time("SELECT redis_lock('s', $short)");
	$node->wait_for_loss('s');
	$one->query_fails('INSERT INTO t VALUES (1)',
		'55000', refusal('s', qr/Its lease expired, seen at/),
		'a given lease that ran out is a loss');
	$one->query("SELECT redis_unlock('s')");
};

# ----------
# Savepoints
# ----------

# ROLLBACK TO takes back what was done under locks that were taken inside, so it forgets their losses;
# not those of locks taken before.  (That a loss is noted before anything can be raised or cancelled,
# and more of savepoints, is the simulator's: its mutants unlocked_loss, unlock_not_noted,
# gone_not_noted, look_2_noted_late, look_3_first_loss, sub_abort_keeps and sub_commit_keeps.)
subtest 'savepoints' => sub {
	my $begin = 'BEGIN; INSERT INTO t VALUES (1)';
	my $released = "$begin; SAVEPOINT a; SAVEPOINT b; SELECT redis_lock('in'); RELEASE b";
	my $both = "$begin; SELECT redis_lock('out'); SAVEPOINT a; SELECT redis_lock('in')";
	my ($in, $out) = ("SELECT redis_unlock('in')", "SELECT redis_unlock('out')");
	my $all = 'SELECT redis_unlock_all()';
	my $stays = "SAVEPOINT a; SAVEPOINT b; SELECT redis_lock('in'); ROLLBACK TO b";

	# [ what, statements before the loss, what is lost, statements after it, for which key COMMIT
	# is refused, and with which code ]
	my @cases = (
		[
			'taken, lost and unlocked inside: forgotten',
			"$begin; SAVEPOINT a; SELECT redis_lock('in')",
			['in'], "$in; INSERT INTO t VALUES (2); ROLLBACK TO a"
		],
		[
			'taken before the savepoint', "$begin; SELECT redis_lock('out'); SAVEPOINT a",
			['out'], "$out; ROLLBACK TO a", 'out', '55000'
		],

		# Released savepoints belong to the one around them.
		[
			'taken in a released savepoint, ROLLBACK TO a',
			$released, ['in'], "SAVEPOINT c; $in; RELEASE c; ROLLBACK TO a"
		],
		[
			'taken in a released savepoint, RELEASE a',
			$released, ['in'], "SAVEPOINT c; $in; RELEASE c; RELEASE a", 'in', '55000'
		],

		# Not unlocked: a session-level loss stays, a transaction-level one goes.
		[
			'session-level, never unlocked', "$begin; SAVEPOINT a; SELECT redis_lock('in')",
			['in'], 'ROLLBACK TO a', 'in', '55000'
		],
		[
			'transaction-level, taken inside',
			"$begin; SAVEPOINT a; SELECT redis_xact_lock('in')",
			['in'], 'ROLLBACK TO a'
		],
		[ 'all, one of them inside', $both, [ 'in', 'out' ], "$all; ROLLBACK TO a", 'out', '55000' ],
		[
			'several holds, and one without a guard',
			"SELECT redis_lock('out'), redis_lock('out'); $begin; SET LOCAL lockredis.commit_guard = off; SELECT redis_xact_lock('out')",
			['out'], $all, 'out', '55000'
		],

		# A lock stays that was taken in a savepoint that was rolled back; from then on it was taken
		# in the one around that.
		[ 'stays, and then rolled back', "$begin; $stays", ['in'], "$in; ROLLBACK TO a" ],
		[ 'stays', "$begin; $stays", ['in'], $in, 'in', '55000' ]);

	# By force it is known before, a deletion is found by the release.
	foreach my $way ('by force', 'deleted')
	{
		foreach my $case (@cases)
		{
			my ($name, $before, $lost, $after, $refused, $sqlstate) = @$case;

			next if $way eq 'deleted' && $refused && $after !~ /unlock/;
			run($one, $before);
			if ($way eq 'by force') { $two->take_away(@$lost) }
			else { $redis->cmd('DEL', $_) foreach @$lost }
			$one->query($after);
			$refused
			  ? commit_fails($one, $refused,
				$way eq 'by force' ? $by_force : qr/Its key was deleted in the store, seen at/,
				"$name, $way", $sqlstate)
			  : commit_works($one, 1, "$name, $way");
			$one->query('SELECT redis_unlock_all()');
		}
	}

	run($one, q{BEGIN; INSERT INTO t VALUES (1);
		DO $$
		BEGIN
		    PERFORM redis_xact_lock('in'), redis_lock('in 2');
		    PERFORM redis_force_unlock('in'), redis_force_unlock('in 2');
		    PERFORM redis_unlock('in 2');
		    PERFORM redis_xact_lock('in');
		EXCEPTION WHEN serialization_failure THEN
		END $$});
	commit_works($one, 1, 'an exception block');
};

end_test($node, $redis);
