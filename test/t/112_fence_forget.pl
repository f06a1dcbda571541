# Copyright (c) 2026, lockredis contributors

# A transaction that has recorded a token, and then undoes or outdoes that
# itself: with redis_fence_forget, redis_fence_check of a higher token, statements
# of the table's owner, or a new table.  When it takes the lock again, its token
# has to be in the table at COMMIT, and above all others:
#
#	 BEGIN
#	 redis_fenced_xact_lock	  the row has the token
#	 redis_fence_forget		  the row is gone
#	 redis_fenced_xact_lock	  what was remembered of the first call is not true
#	 COMMIT					  without a row a late holder would get in
#
# Also with the undoing rolled back, and at each isolation level.  Other sessions
# cannot do it meanwhile, since the row is locked.
#
# Proves G17.  Shows what is not guaranteed: N15.

use LockRedis::Test;

my ($node, $redis, $one, $two) = servers(sessions => 2);

my $key = 0;

# As committed.
sub row
{
	my ($key) = @_;

	return $node->value("SELECT token FROM redis_fences WHERE key = '$key'");
}

my $lock = "redis_fenced_xact_lock('k')";

# A transaction of the statements; KEY in them is a new key, 'k' the same.
sub transaction
{
	my ($statements, $output, $row, $name) = @_;

	$key++;
	$statements =~ s/'k'/'k$key'/g;
	my $result = $one->query($statements);
	is($result->error ? $result->error->message : $result->out, $output, $name);
	$one->query('ROLLBACK') if $result->error;
	is(row("k$key"), $row, "$name: recorded");
	return;
}

foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	# The WARNING that the snapshot is older than the lock is not the subject.
	$one->query('SET client_min_messages = error');
	my $begin = "BEGIN ISOLATION LEVEL $level";

	transaction("$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT redis_try_fenced_xact_lock('k'); COMMIT",
		"1\nt\n1", 1, "$level, forgotten, and try");
	transaction("$begin; SELECT $lock; SELECT redis_fence_check('k', 10); SELECT $lock; COMMIT",
		"1\n\n11", 11, "$level, a higher token");
	transaction("$begin; SELECT $lock; SELECT redis_fence_check('k', 1); SELECT $lock; COMMIT",
		"1\n\n1", 1, "$level, the same token");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT redis_fence_check('k', 10); SELECT $lock; COMMIT",
		"1\nt\n\n11", 11, "$level, forgotten, and a higher token");
	transaction("$begin; SELECT $lock; DELETE FROM redis_fences; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, deleted by the owner");
	transaction("$begin; SELECT $lock; UPDATE redis_fences SET token = 10 WHERE key = 'k'; SELECT $lock; COMMIT",
		"1\n11", 11, "$level, changed by the owner");
	transaction("$begin; SELECT $lock; TRUNCATE redis_fences; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, truncated");
	transaction(
		"$begin; SELECT $lock; DROP EXTENSION lockredis; CREATE EXTENSION lockredis; SELECT $lock; COMMIT",
		"1\n1", 1, "$level, a new table");

	# Rolled back: the row is as before, and the hold has what it has.
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1\n1", 1, "$level, forgotten, recorded and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_check('k', 10); SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\n\n11\n11", 11, "$level, a higher token and rolled back");
	transaction(
		"$begin; SELECT $lock; SAVEPOINT s; SELECT redis_fence_forget('k'); RELEASE s; SELECT $lock; COMMIT",
		"1\nt\n1", 1, "$level, forgotten in a subtransaction that commits");
	transaction(
		"$begin; SELECT $lock; SELECT redis_fence_forget('k'); SAVEPOINT s; SELECT $lock; ROLLBACK TO s; SELECT $lock; COMMIT",
		"1\nt\n1\n1", 1, "$level, recorded again in what is rolled back");
	transaction("$begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; ROLLBACK",
		"1\nt\n1", '', "$level, all rolled back");

	# The same with a hold over several transactions, which knows its record.
	transaction(
		"SELECT redis_fenced_lock('k'); SELECT $lock; $begin; SELECT $lock; SELECT redis_fence_forget('k'); SELECT $lock; COMMIT; SELECT redis_unlock('k')",
		"1\n1\n1\nt\n1\nt", 1, "$level, a session-level lock");
	$one->query('RESET client_min_messages');
}

# Another session cannot come between.
$one->query_is("SELECT redis_fenced_xact_lock('between')", '1', 'a row');
$one->query_is("BEGIN; SELECT redis_fenced_xact_lock('between')", '2', 'recorded');
foreach my $what (
	"SELECT redis_fence_forget('between')",
	"SELECT redis_fence_check('between', 10)",
	'DELETE FROM redis_fences',
	'TRUNCATE redis_fences',
	'DROP EXTENSION lockredis')
{
	$two->query_fails("BEGIN; SET LOCAL lock_timeout = '100ms'; $what",
		'55P03', qr/lock timeout/, "$what waits");
	$two->query('ROLLBACK');
}
$two->start("SELECT redis_fence_forget('between')");
poll_until('the other session to wait',
	sub { $node->value('SELECT cardinality(pg_blocking_pids(' . $two->pid . '))') > 0 });
$one->query_is("SELECT redis_fenced_xact_lock('between'); COMMIT", '2', 'still recorded');
is($two->wait->out, 't', 'then it is forgotten');
is(row('between'), '', 'indeed');
$one->query_is("SELECT redis_fenced_xact_lock('between')", '3', 'the next transaction');
is(row('between'), 3, 'records it');

# Taking it again and again asks Redis nothing.
$one->query("BEGIN; SELECT redis_fenced_xact_lock('again')");
# Not what the watchdog sends: it has the releases that a COMMIT waits for no longer.
my @requests = $redis->session_commands(
	sub {
		$one->query_is("SELECT count(redis_fenced_xact_lock('again')) FROM generate_series(1, 100)",
			100, 'a hundred times');
	});
is(scalar @requests, 0, 'without a request');
$one->query('COMMIT');

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
