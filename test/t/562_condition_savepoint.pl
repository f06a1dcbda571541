# Copyright (c) 2026, lockredis contributors

# Waits for conditions in subtransactions: the lock is had again as what it was before, taken
# where it was; a wait that has failed leaves it lost, whatever is rolled back; what a rolled back
# subtransaction took and lost does not concern the commit, and what was taken before it does.
# A condition is no lock, so no guarantee speaks of it.

use LockRedis::Test;
use LockRedis::Topic::Condition;

$redis = LockRedis::Redis->new;
$near = LockRedis::Node->create('near', redis => $redis, patient => 1);
$near->wait_for_up;

my ($one, $two) = map { patient($near) } 1 .. 2;

$one->query('CREATE TABLE t (a int)');
$one->query("SET client_min_messages = error");

# It waits in its subtransaction, and is told.
sub wait_and_be_told
{
	my ($key) = @_;

	await($one, $key);
	$two->query_is("SELECT redis_lock('$key'), redis_condition_notify('$key'), redis_unlock('$key')",
		'|1|t');
	return is(told($one), 't', 'told');
}

# A rollback to a savepoint takes no session-level lock away.
$one->query("BEGIN; SELECT redis_lock('a'), redis_lock('a'); SAVEPOINT s");
wait_and_be_told('a');
$one->query("ROLLBACK TO s");
$one->query_is("SELECT redis_is_held('a'), redis_hold_count('a')", 't|2', 'had again, and stays');
$one->query_is("RELEASE s; COMMIT; SELECT redis_unlock('a'), redis_unlock('a')", 't|t', 'after the commit');

# In a subtransaction that fails while it waits: the lock is lost, and stays so.
$one->query("BEGIN; SELECT redis_lock('b'); INSERT INTO t VALUES (0); SAVEPOINT s");
await($one, 'b');
$one->cancel;
$one->wait(limit(60))->fails('57014', qr/./, 'cancelled');
$one->query("ROLLBACK TO s");
$one->query_is("SELECT redis_is_held('b')", 'f', 'it does not have the lock');
$one->query_fails('COMMIT', '55000', qr/has not been taken again/, 'which the commit refuses');
$one->query_is("SELECT redis_unlock('b')", 'f', 'until it is unlocked');
poll_until('nothing of it', sub { !$redis->all_keys });

# In an exception block, of a function.
$one->query("CREATE FUNCTION tries() RETURNS text LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_condition_wait('c');
		RETURN 'told';
	EXCEPTION WHEN lock_not_available THEN
		RETURN redis_is_held('c')::text;
	END \$\$");
$one->query("SELECT redis_lock('c'); SET lock_timeout = '500ms'");
$one->start('SELECT tries()');
poll_until('its wait', sub { waiting('c') });
$two->query_is("SELECT redis_lock('c'), redis_condition_notify('c')", '|1', 'told, and not let in');
is($one->wait(limit(60))->value, 'false', 'who catches the error does not have the lock');
$one->query_is("RESET lock_timeout; SELECT redis_unlock('c')", 'f', 'lost');
$two->query_is("SELECT redis_unlock('c')", 't');

# Lost after it was had again: taken before the savepoint it concerns the commit, ...
$one->query("SET lockredis.commit_guard = 'lease'; BEGIN; SELECT redis_lock('d'); INSERT INTO t VALUES (1); SAVEPOINT s");
wait_and_be_told('d');
$two->take_away('d');
$one->query_is("SELECT redis_unlock('d')", 'f', 'lost, and unlocked in the subtransaction');
$one->query_fails('ROLLBACK TO s; COMMIT', '55000', qr/was lost/, 'what was written under it is not committed');

# ... and taken in it, it does not.
$one->query("BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; SELECT redis_lock('e')");
wait_and_be_told('e');
$two->take_away('e');
$one->query_is("SELECT redis_unlock('e')", 'f', 'lost, and unlocked in the subtransaction');
$one->query_is('ROLLBACK TO s; COMMIT; SELECT array_agg(a) FROM t', '{2}', 'nothing is left of what was written under it');

end_test($near, $redis);
