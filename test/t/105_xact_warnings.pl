# Copyright (c) 2026, lockredis contributors

# lockredis.session_locks, and the warnings: of snapshots that a lock does not
# protect, and of locks given back before others see the changes.
# Proves G9, G10.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Transactions;

start_servers();

# ----------
# lockredis.session_locks
# ----------

{
	my $pooled = $node->session(settings => { 'lockredis.session_locks' => 'off' });
	$one->query_is("SELECT redis_lock('old')", '', 'somebody');
	foreach my $call (
		"redis_lock('s')", "redis_try_lock('s')",
		"redis_fenced_lock('s')", "redis_try_fenced_lock('s')")
	{
		$pooled->query_fails("SELECT $call",
			'55000', qr/session_locks.*HINT:  Use a transaction-level lock/s,
			"session_locks = off: $call");
	}
	is($redis->cmd('EXISTS', 's'), 0, 'nothing was taken');
	$pooled->query_is(
		"BEGIN; SELECT redis_xact_lock('s'); SELECT redis_is_held('s'); COMMIT",
		"\nt", 'transaction-level locks are allowed');
	$pooled->query_is("SELECT redis_is_locked('old'), redis_unlock_all()",
		't|0', 'and so is everything else');
	$pooled->quit;
	$one->query_is("SELECT redis_unlock('old')", 't', 'unlocked');

	# One that was taken before: unlock and extend still work.
	run($one, "SELECT redis_lock('before'); SET lockredis.session_locks = off");
	$one->query_is(
		"SELECT redis_extend('before', '1 h'), redis_hold_count('before'), redis_unlock('before')",
		't|1|t',
		'unlock, extend and inspection work');
	run($one, 'RESET lockredis.session_locks');

	run($one, 'CREATE ROLE bob LOGIN');
	my $bob = $node->session(user => 'bob');
	$bob->query_fails('SET lockredis.session_locks = off',
		'42501', qr/permission denied/, 'for superusers');
	$bob->quit;
	run($one, 'DROP ROLE bob');
}

# ----------
# Warnings
# ----------

my $snapshot = qr/does not protect what the transaction reads/;
my $early = qr/released before the changes of the transaction are visible/;

sub warns ($s, $sql, $expected, $name)
{
	my $result = $s->query($sql);
	my @got = map {
		    $_->message =~ $snapshot ? 'snapshot'
		  : $_->message =~ $early ? 'early'
		  : $_->message
	} $result->warnings;

	return is_deeply([ $result->error, @got ], [ undef, @$expected ], $name)
	  || diag $result->{raw};
}

foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	subtest $level => sub {
		$one->query_warns("BEGIN ISOLATION LEVEL $level; SELECT redis_xact_lock('w')",
			'', '01000', qr/$snapshot.*DETAIL.*HINT:.*before BEGIN/s,
			'a transaction-level lock is warned of');
		warns($one, "SELECT redis_xact_lock('w2'); SELECT redis_try_lock('w3')",
			[], 'once');
		warns($one, 'COMMIT; SELECT redis_unlock_all()', [], 'end');
		warns($one,
			"BEGIN ISOLATION LEVEL $level; SELECT redis_lock('w');
			 SELECT redis_lock('w')",
			['snapshot'], 'a session-level one, too');
		warns($one, "ROLLBACK AND CHAIN; SELECT redis_xact_lock('w')",
			['snapshot'], 'again in the next transaction');
		warns($one, 'COMMIT; SELECT redis_unlock_all()', [], 'end');

		run($one, "SET default_transaction_isolation = '$level'");
		warns($one,
			"SELECT redis_lock('w'); BEGIN; SELECT 1; COMMIT;
			 SELECT redis_unlock('w')",
			[], 'a session-level lock before BEGIN is right');
		warns($one, "SELECT redis_xact_lock('w')",
			['snapshot'], 'a transaction-level one as a statement');
		warns($one, q{SELECT redis_lock('w') \; SELECT redis_unlock('w')},
			['snapshot'], 'an implicit block');
		warns($one,
			q{DO $$ BEGIN PERFORM redis_lock('w'), redis_lock('w');
			  PERFORM redis_unlock_all(); END $$},
			['snapshot'], 'a DO block');
		run($one,
	q{CREATE OR REPLACE PROCEDURE warned() LANGUAGE plpgsql AS $$
			  BEGIN
			      PERFORM redis_lock('w');
			      PERFORM redis_unlock('w');
			      COMMIT;
			      PERFORM redis_lock('w');
			      PERFORM redis_unlock('w');
			  END $$});
		warns($one, 'CALL warned()', [ 'snapshot', 'snapshot' ],
			'a procedure, in each of its transactions');
		warns($one, "SELECT redis_lock('w'); SELECT redis_unlock('w')",
			[], 'no DO or CALL any more');
		$one->query(q{DO $$ BEGIN RAISE 'failed'; END $$});
		warns($one, "SELECT redis_lock('w'); SELECT redis_unlock('w')",
			[], 'not after one that failed either');
		run($one, 'RESET default_transaction_isolation');
	};
}
warns(
	$one,
	q{BEGIN; SELECT redis_xact_lock('w'); SELECT redis_lock('w2');
	  SELECT redis_unlock('w2'); COMMIT;
	  DO $$ BEGIN PERFORM redis_lock('w2'); PERFORM redis_unlock('w2'); END $$},
	[],
	'READ COMMITTED is fine');

run($one, "SELECT redis_lock('early'), redis_lock('early 2'), redis_lock('early 3')");
warns($one, "BEGIN; SELECT redis_unlock('early 3')", [],
	'unlocking before anything was written');
run($one, 'INSERT INTO t VALUES (6)');
$one->query_warns("SELECT redis_unlock('early')",
	't', '01000', qr/$early.*HINT:.*redis_xact_lock/s,
	'unlocking after writing');
warns($one, "SELECT redis_unlock('early 2')", [], 'is warned of once');
warns($one, 'COMMIT', [], 'a transaction');
run($one, "SELECT redis_lock('early'), redis_lock('early 2')");
warns($one, 'BEGIN; INSERT INTO t VALUES (6); SELECT redis_unlock_all(); COMMIT',
	['early'], 'redis_unlock_all as well');
run($one, "SELECT redis_lock('early')");
warns($one, "INSERT INTO t VALUES (7); SELECT redis_unlock('early')",
	[], 'unlocking after the commit is right');

# Nobody sees a lock free that is still held, and the warning is kept for the
# unlock that matters.
run($one, "SELECT redis_lock('early'), redis_lock('early')");
warns($one, "BEGIN; INSERT INTO t VALUES (8); SELECT redis_unlock('early')",
	[], 'giving back one of two holds is no reason to warn');
warns($one, "SELECT redis_unlock('early'); COMMIT", ['early'],
	'giving back the last one is');
warns($one,
	"BEGIN; INSERT INTO t VALUES (9); SELECT redis_xact_lock('early');
	 SELECT redis_lock('early'); SELECT redis_unlock('early'); COMMIT",
	[], 'the transaction holds it to its end: no warning');

end_test($node, $redis);
