# Copyright (c) 2026, lockredis contributors

# Conditions of locks, by sessions of two servers: the lock is given back, a notification
# awaited, the lock taken again as it was; who is notified, and how many; what is in Redis
# meanwhile; what a lock must be for that; fair locks; arguments.  In subtransactions: the lock is
# had again as what it was before, taken where it was; a wait that has failed leaves it lost,
# whatever is rolled back; what a rolled back subtransaction took and lost does not concern the
# commit, and what was taken before it does.
# A condition is no lock, so no guarantee speaks of it.

use LockRedis::Test;
use LockRedis::Topic::Condition;

start_servers();
my ($one, $two, $three, $four) = map { (patient($near), patient($far)) } 1 .. 2;

#
# One waits, another one notifies.
#
$one->query("SELECT redis_lock('a'), redis_lock('a')");
my $owner = $redis->owner_of('a');
my $waiter = await($one, 'a');
ok(!$redis->cmd('EXISTS', 'a'), 'the lock was given back, whole');
is(join(' ', sort map { s/:[0-9a-f]{40}$//r } $redis->all_keys),
	'lockredis_condition_alive:{a} lockredis_condition_waiting:{a}',
	'what is there of one who waits');
cmp_ok($redis->cmd('PTTL', $_), '>', 0, "it ends: $_") foreach $redis->all_keys;
is($near->value("SELECT string_agg(kind || ' ' || granted || ' ' || cardinality(blocked_by), ',') "
		. "FROM redis_locks WHERE key = 'a' AND lost_reason IS NULL"),
	'condition false 0', 'the view: who waits');
is($near->value("SELECT string_agg(kind || ' ' || lost_reason, ',') "
		. "FROM redis_locks WHERE key = 'a' AND lost_reason IS NOT NULL"),
	'reentrant waiting', 'and his lock, which he does not have meanwhile');
$two->query_is("SELECT redis_lock('a'), redis_condition_notify('a')", '|1', 'notified');
ok($one->is_running, 'but he does not have the lock');
$two->query_is("SELECT redis_condition_notify('a'), redis_condition_notify_all('a')", '0|0',
	'nobody else waits');
$two->query_is("SELECT redis_unlock('a')", 't');
is(told($one), 't', 'now he has');
$one->query_is("SELECT redis_is_held('a'), redis_hold_count('a')", 't|2', 'as often as before');
isnt($redis->owner_of('a'), $owner, 'it is another one in Redis');
is(join(' ', $redis->all_keys), 'a', 'nothing is left of the wait');
$one->query_is("SELECT redis_unlock('a'), redis_is_held('a'), redis_unlock('a')", 't|t|t');

# In the order of arrival; and all.
my @sessions = ($one, $two, $three, $four, map { (patient($near), patient($far)) } 1 .. 2);
my $last = pop @sessions;
foreach (@sessions)
{
	$_->query("SELECT redis_lock('b')");
	await($_, 'b');
}
foreach my $session (@sessions[ 0 .. 2 ])
{
	$last->query_is("SELECT redis_lock('b'), redis_condition_notify('b'), redis_unlock('b')",
		'|1|t', 'one by one');
	is(told($session), 't', 'the one who waits longest');
	$session->query_is("SELECT redis_unlock('b')", 't');
}
$last->query_is("SELECT redis_lock('b'), redis_condition_notify_all('b'), redis_unlock('b')",
	'|4|t', 'all');
foreach my $session (@sessions[ 3 .. 6 ])
{
	poll_until('one', sub { !$session->is_running || $redis->cmd('EXISTS', 'b') });
}
my %left = map { $_ => $_ } @sessions[ 3 .. 6 ];
while (%left)
{
	my $session = poll_until('another one', sub { (grep { !$_->is_running } values %left)[0] });

	is(told($session), 't', 'one after the other');
	$session->query_is("SELECT redis_unlock('b')", 't');
	delete $left{$session};
}
is(scalar $redis->all_keys, 0, 'nothing is left');

#
# Several conditions of a lock do not know each other.
#
$one->query("SELECT redis_lock('c')");
await($one, 'c', 'full');
$two->query("SELECT redis_lock('c')");
await($two, 'c', 'empty');
$three->query_is("SELECT redis_lock('c'), redis_condition_notify('c'), "
	. "redis_condition_notify_all('c', 'else'), redis_condition_notify('c', 'empty'), "
	. "redis_unlock('c')", '|0|0|1|t', 'one of them');
is(told($two), 't', 'whose it is');
$two->query_is("SELECT redis_condition_notify('c', 'full'), redis_unlock('c')", '1|t');
is(told($one), 't', 'and the other');
$one->query_is("SELECT redis_unlock('c')", 't');

#
# A limit of the wait, and of the lock.
#
$one->query_is("SELECT redis_lock('d'), redis_condition_wait('d', '100ms'), redis_is_held('d'), "
	. "redis_unlock('d')", '|f|t|t', 'nobody notified in time');
$one->query_is("SELECT redis_lock('d'), redis_condition_wait('d', '0'), redis_unlock('d')",
	'|f|t', 'no time at all');
is(scalar $redis->all_keys, 0, 'nothing is left');
$one->query("SELECT redis_lock('d'); SET lock_timeout = '500ms'");
await($one, 'd');
$two->query_is("SELECT redis_lock('d'), redis_condition_notify('d')", '|1');
$one->wait(limit(60))->fails('55P03', qr/lock timeout/, 'lock_timeout: the lock was not free');
$one->query_fails("RESET lock_timeout; SELECT redis_lock('d')", '55000',
	qr/has not been taken again/, 'it is lost');
$one->query_is("SELECT redis_is_held('d'), redis_hold_count('d')", 'f|0');
is($near->value("SELECT lost_reason FROM redis_locks WHERE key = 'd' AND lost_at IS NOT NULL"),
	'waiting', 'and says why');
$one->query_warns("SELECT redis_unlock('d')", 'f', '01000', qr/lost/, 'seen');
$two->query_is("SELECT redis_unlock('d'), redis_try_lock('d'), redis_unlock('d')", 't|t|t');

#
# A fair lock comes back as one, in its order.
#
$one->query("SELECT redis_fair_lock('e')");
await($one, 'e');
$two->query_is("SELECT redis_fair_lock('e'), redis_condition_notify('e')", '|1');
poll_until('its place', sub { $redis->cmd('LLEN', 'redisson_lock_queue:{e}') == 1 });
$two->query_is("SELECT redis_unlock('e')", 't');
is(told($one), 't', 'fair');
$one->query_is("SELECT redis_is_held('e', 'fair')", 't', 'still');
$two->start("SELECT redis_fair_lock('e')");
poll_until('its place', sub { $redis->cmd('LLEN', 'redisson_lock_queue:{e}') == 1 });
$one->start("SELECT redis_condition_wait('e')");
is($two->wait(limit(60))->error, undef, 'who waits for the fair lock is notified');
$two->query_is("SELECT redis_condition_notify('e'), redis_unlock('e')", '1|t');
is(told($one), 't');
$one->query_is("SELECT redis_unlock('e')", 't');

#
# What the lock has to be.
#
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/don't own/, 'not held');
$one->query_fails("SELECT $_('f')", '55000', qr/don't own/, "not held: $_")
  foreach 'redis_condition_notify', 'redis_condition_notify_all';
$one->query("SELECT redis_write_lock('f')");
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/don't own.*write lock/s,
	'another kind');
$one->query("SELECT redis_write_unlock('f'); BEGIN; SELECT redis_xact_lock('f')");
$one->query_is("SELECT redis_condition_notify('f')", '0', 'at transaction level: to notify');
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/transaction-level lock/,
	'not to wait');
$one->query("ROLLBACK; BEGIN");
$one->query("SELECT redis_lock('f'), redis_xact_lock('f')");
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/transaction-level lock/,
	'nor if it is that too');
$one->query("ROLLBACK");
$one->query_is("SELECT redis_is_held('f'), redis_unlock('f')", 't|t', 'it has not gone');
$one->query("SELECT redis_lock('f')");
$one->take_away('f');
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/was lost/, 'lost: wait');
$one->query_fails("SELECT redis_condition_notify('f')", '55000', qr/was lost/, 'lost: notify');
$one->query("SELECT redis_unlock('f')");

# What Redis knows is looked at, too.
$one->query("SELECT redis_lock('f')");
$redis->cmd('DEL', 'f');
$one->query_fails("SELECT redis_condition_notify('f')", '55000', qr/was lost/, 'found by notify');
$one->query("SELECT redis_unlock('f'); SELECT redis_lock('f')");
$redis->cmd('DEL', 'f');
$redis->foreign_lock('f', owner => 'somebody:1', ms => 600_000);
$one->query_fails("SELECT redis_condition_wait('f')", '55000', qr/taken by somebody:1/,
	'found by wait');
$redis->foreign_unlock('f');
$one->query("SELECT redis_unlock('f')");

# Fencing tokens.
$one->query("SELECT redis_fenced_lock('g')");
my $token = $one->value("SELECT redis_fence('g')");
await($one, 'g');
my $other = $two->value("SELECT redis_fenced_lock('g')");
$two->query_is("SELECT redis_condition_notify('g'), redis_unlock('g')", '1|t');
is(told($one), 't');
cmp_ok($token, '<', $other, 'a token in between');
cmp_ok($one->value("SELECT redis_fence('g')"), '>', $other, 'and a later one');
$one->query_is("SELECT redis_unlock('g')", 't');
$redis->cmd('DEL', 'redisson_lock_token:{g}');

# Arguments.
$one->query("SELECT redis_lock('h')");
foreach my $call ("redis_condition_wait('h', NULL, NULL)", "redis_condition_notify('h', NULL)",
	"redis_condition_notify_all('h', NULL)", "redis_condition_wait(NULL)")
{
	$one->query_fails("SELECT $call", '22004', qr/must not be null/, $call);
}
$one->query_fails("SELECT redis_condition_wait('h', '-1s')", '22023', qr/negative/, 'limit');
$one->query_fails("SELECT redis_condition_notify('h', repeat('x', 256))", '22023', qr/too long/,
	'name');
$one->query_is("SELECT redis_condition_notify('h', repeat('x', 255)), redis_unlock('h')", '0|t');

# A transaction that has written is told that others see nothing of that yet.
$one->query("CREATE TABLE written (x int)");
$one->query("SELECT redis_lock('h'); BEGIN; INSERT INTO written VALUES (1)");
$one->query_warns("SELECT redis_condition_wait('h', '1ms')", 'f', '01000', qr/commit/i, 'written');
$one->query("COMMIT");
$one->query_is("SELECT redis_unlock('h')", 't');

#
# In subtransactions.
#
$one->query('CREATE TABLE t (a int)');
$one->query("SET client_min_messages = error");

# It waits in its subtransaction, and is notified.
sub wait_and_be_told ($key)
{
	await($one, $key);
	$three->query_is("SELECT redis_lock('$key'), redis_condition_notify('$key'), redis_unlock('$key')",
		'|1|t');
	return is(told($one), 't', 'notified');
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
$three->query_is("SELECT redis_lock('c'), redis_condition_notify('c')", '|1', 'told, and not let in');
is($one->wait(limit(60))->value, 'false', 'who catches the error does not have the lock');
$one->query_is("RESET lock_timeout; SELECT redis_unlock('c')", 'f', 'lost');
$three->query_is("SELECT redis_unlock('c')", 't');

# Lost after it was taken again: taken before the savepoint it concerns the commit, ...
$one->query("SET lockredis.commit_guard = 'lease'; BEGIN; SELECT redis_lock('d'); INSERT INTO t VALUES (1); SAVEPOINT s");
wait_and_be_told('d');
$three->take_away('d');
$one->query_is("SELECT redis_unlock('d')", 'f', 'lost, and unlocked in the subtransaction');
$one->query_fails('ROLLBACK TO s; COMMIT', '55000', qr/was lost/, 'what was written under it is not committed');

# ... and taken in it, it does not.
$one->query("BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; SELECT redis_lock('e')");
wait_and_be_told('e');
$three->take_away('e');
$one->query_is("SELECT redis_unlock('e')", 'f', 'lost, and unlocked in the subtransaction');
$one->query_is('ROLLBACK TO s; COMMIT; SELECT array_agg(a) FROM t', '{2}', 'nothing is left of what was written under it');

end_test([ $near, $far ], $redis);
