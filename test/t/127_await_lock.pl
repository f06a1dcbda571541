# Copyright (c) 2026, lockredis contributors

# Who waits for a lock in a procedure waits without a snapshot.
# - CALL redis_await_lock and CALL redis_with_lock: pg_stat_activity shows neither backend_xmin
#   nor backend_xid while they wait, at the top and in a procedure that has written before, at
#   each isolation level; VACUUM removes what was deleted since.  SELECT redis_lock keeps it.
# - redis_await_lock takes the same lock as redis_lock: a session-level one, reentrant, with or
#   without a lease, or one of another kind; and refuses the same.
# - Where the transaction cannot be ended it is refused (2D000), and nothing is taken.
# - A wait that ends by lock_timeout, cancel or the end of the session leaves nothing.
# Proves G24.

use LockRedis::Test;
use LockRedis::Topic::Jobs;

start_servers();

# No other VACUUM or ANALYZE keeps rows that are looked for here.
$node->set(autovacuum => 'off');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE churn (a int) WITH (autovacuum_enabled = off);
CREATE PROCEDURE writes_and_waits(key text) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO done VALUES ('before');
	CALL redis_await_lock(key);
	INSERT INTO done VALUES ('after');
END $$;
CREATE PROCEDURE writes_and_runs(key text) LANGUAGE plpgsql AS $$
DECLARE
	ran boolean;
BEGIN
	INSERT INTO done VALUES ('before');
	CALL redis_with_lock(key, 'INSERT INTO done VALUES (''ran'')', wait => NULL, ran => ran);
END $$;
SQL

# What a session keeps from vacuum: "none", or what it has
sub keeps ($s)
{
	return $node->value('SELECT coalesce(nullif(concat_ws(\' \', '
		  . "'xmin ' || backend_xmin, 'xid ' || backend_xid), ''), 'none') "
		  . 'FROM pg_stat_activity WHERE pid = '
		  . $s->pid);
}

# What remains of a table whose rows are all deleted, after VACUUM: bytes
sub left_by_vacuum
{
	$node->safe_psql('postgres', 'INSERT INTO churn SELECT generate_series(1, 1000)');
	$node->safe_psql('postgres', 'DELETE FROM churn');
	$node->safe_psql('postgres', 'VACUUM churn');
	return $node->value(q{SELECT pg_relation_size('churn')});
}

# ----------
# Vacuum
# ----------

$one->query_is("SELECT redis_lock('k')", '', 'somebody has the lock');

# That it is seen at all
$two->start("SELECT redis_lock('k')");
$node->wait_for_waiters('k', 1);
like(keeps($two), qr/^xmin \d+$/, 'SELECT redis_lock waits with a snapshot');
cmp_ok(left_by_vacuum(), '>', 0, 'and keeps deleted rows from vacuum');
$two->cancel;
$two->wait->fails('57014', qr/user request/, 'it is cancelled');
is(left_by_vacuum(), 0, 'which then removes them');

foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	foreach my $wait (
		[ q{CALL redis_await_lock('k')}, '' ],
		[ q{CALL writes_and_waits('k')}, 'before after' ],
		[ q{DO 'BEGIN CALL redis_await_lock(''k''); END'}, '' ],
		[ q{CALL redis_with_lock('k', 'INSERT INTO done VALUES (''ran'')', wait => NULL)}, 'ran' ],
		[ q{CALL redis_with_lock('k', 'INSERT INTO done VALUES (''ran'')', '1 hour')}, 'ran' ],
		[ q{CALL writes_and_runs('k')}, 'before ran' ])
	{
		my ($call, $done) = @$wait;

		$two->query("SET default_transaction_isolation = '$level'");
		$two->start($call);
		$node->wait_for_waiters('k', 1);
		is(keeps($two), 'none', "$call keeps nothing from vacuum ($level)");
		is(left_by_vacuum(), 0, 'which removes what was deleted');
		$one->query_is("SELECT redis_unlock('k')", 't', 'the lock is given back');
		my $result = $two->wait;
		is($result->{raw} =~ s/^t\s*//r, '', 'and had, without a warning');
		is(done(), $done, 'what was to be done is done') if $done;
		$two->query_is("SELECT redis_unlock('k')", 't', 'it is held') if $call !~ /with|runs/;
		$one->query("SELECT redis_lock('k')");
	}
}
$two->query('RESET default_transaction_isolation');
$one->query_is("SELECT redis_unlock('k')", 't', 'the lock is given back');
nothing_left($node, $redis);

# ----------
# The lock
# ----------

subtest 'as redis_lock' => sub {
	$one->query_is("CALL redis_await_lock('k')", '', 'taken at once');
	$one->query_is("SELECT redis_is_held('k'), redis_hold_count('k')", 't|1', 'it is held');
	is($node->value(q{SELECT scope || ' ' || renewed FROM redis_locks}),
		'session true', 'by the session, and renewed');
	$one->query_is("CALL redis_await_lock('k', '10 min')", '', 'once more');
	$one->query_is("SELECT redis_hold_count('k')", 2, 'it is reentrant');
	$one->query_is("BEGIN; ROLLBACK; SELECT redis_hold_count('k')", 2, 'and of no transaction');
	$two->query_is("SELECT redis_try_lock('k')", 'f', 'nobody else has it');
	$one->query_is("SELECT redis_unlock('k'), redis_unlock('k')", 't|t', 'given back as often');
	$one->query_is("CALL redis_await_lock('k', '10 min')", '', 'with a lease');
	is($node->value('SELECT renewed FROM redis_locks'), 'f', 'which is not renewed');
	$one->query_is('DISCARD ALL; SELECT redis_is_held(\'k\')', 'f', 'given back by DISCARD ALL');

	$one->query_is("CALL redis_await_lock('f')", '', 'without a token');
	$one->query_is("SELECT redis_fenced_lock('f') > 0, redis_hold_count('f')", 't|2', 'and with one');
	$one->query_is("SELECT redis_unlock('f'), redis_unlock('f')", 't|t', 'given back twice');
	$redis->cmd('DEL', 'redisson_lock_token:{f}');
	foreach my $kind (qw(fair read write permit))
	{
		$one->query_is("SELECT redis_permit_init('p', 1)", 't', 'a permit') if $kind eq 'permit';
		my $key = $kind eq 'permit' ? 'p' : 'k';
		$one->query_is("CALL redis_await_lock('$key', kind => '$kind')", '', "a $kind lock");
		$one->query_is("SELECT redis_is_held('$key', '$kind')", 't', 'it is held');
		$two->start("CALL redis_await_lock('$key', NULL, '" . ($kind eq 'read' ? 'write' : $kind) . "')");
		$node->wait_for_waiters($key, 1);
		is(keeps($two), 'none', 'who waits for it keeps nothing from vacuum');
		$one->query_is('SELECT redis_unlock_all()', 1, 'given back');
		is($two->wait->error, undef, 'and had by the next one');
		$two->query_is('SELECT redis_unlock_all()', 1, 'given back');
	}

	$one->query_fails("CALL redis_await_lock('k', kind => 'x')",
		'22023', qr/kind of lock must be/, 'no kind');
	$one->query_fails("CALL redis_await_lock('k', kind => NULL)",
		'22004', qr/kind of lock must not be null/, 'no kind');
	$one->query_fails('CALL redis_await_lock(NULL)', '22004', qr/key must not be null/, 'no key');
	$one->query_fails("CALL redis_await_lock('k', '9 ms')", '22023', qr/lease must be/, 'a lease');
	my $off = $node->session(settings => { 'lockredis.session_locks' => 'off' });
	$off->query_fails("CALL redis_await_lock('k')",
		'55000', qr/session-level Redis locks are not allowed/, 'lockredis.session_locks = off');
	$off->quit;
	nothing_left($node, $redis, keys => qr/\{p\}|^p$/);
};

# ----------
# Where it cannot be called
# ----------

subtest 'refused' => sub {
	foreach my $sql (
		"BEGIN; CALL redis_await_lock('k')",
		"SELECT 1\\; CALL redis_await_lock('k')",
		"BEGIN; DO 'BEGIN CALL redis_await_lock(''k''); END'")
	{
		my $result = $one->query($sql);

		$result->fails('2D000', qr/redis_await_lock cannot run inside a transaction block/, $sql);
		is($result->detail, 'It commits before it waits.', 'and why');
		$one->query('ROLLBACK');
	}
	nothing_left($node, $redis, keys => qr/\{p\}|^p$/);
};

# ----------
# Waits that end
# ----------

subtest 'limits' => sub {
	$one->query("SELECT redis_lock('k')");
	$two->query_fails("SET lock_timeout = '50 ms'; CALL redis_await_lock('k')",
		'55P03', qr/lock timeout/, 'lock_timeout');
	$two->query_fails("RESET lock_timeout; SET statement_timeout = '50 ms'; CALL redis_await_lock('k')",
		'57014', qr/statement timeout/, 'statement_timeout');
	poll_until('no limit', sub { !$two->query('RESET statement_timeout')->error });
	$two->start("CALL writes_and_waits('k')");
	$node->wait_for_waiters('k', 1);
	$two->cancel;
	$two->wait->fails('57014', qr/user request/, 'cancelled');
	is(done(), 'before', 'what was done before the wait is committed');
	$two->query_is("SELECT redis_is_held('k')", 'f', 'it has nothing');
	$two->start("CALL redis_await_lock('k')");
	$node->wait_for_waiters('k', 1);
	$two->terminate;
	$two->wait;
	$node->wait_for_waiters('k', 0);
	$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
	nothing_left($node, $redis, keys => qr/\{p\}|^p$/);
};

$one->quit;
done_testing();
