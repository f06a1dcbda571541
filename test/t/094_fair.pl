# Copyright (c) 2026, lockredis contributors

# Fair locks by sessions of two servers: who is next, and by what it is notified; what is in
# Redis meanwhile; that the lock is the one of redis_lock; both scopes; plain locks on
# the same key, which nothing is passed on between while somebody is in the queue.
# Proves G1, G5, G41.

use LockRedis::Test;
use LockRedis::Topic::Fair;

start_servers();
my @sessions = map { (patient_session($near), patient_session($far)) } 1 .. 4;
my ($one, $two, $three, $four) = @sessions;
my $soon = limit(60);

#
# One by one, in the order in which they came.
#
$one->query_is("SELECT redis_fair_lock('a')", '', 'free');
is($redis->hash('a')->{ $redis->owner_of('a') }, 1, 'as a reentrant lock');
is(join(' ', sort $redis->all_keys), 'a', 'and nothing else');
my $place = wait_fairly($two, 'a');
ok($redis->cmd('ZSCORE', $_, $place) > 0, "a place: $_")
  foreach 'redisson_lock_timeout:{a}', 'lockredis_places:{a}';
wait_fairly($_, 'a') foreach @sessions[ 2 .. 7 ];
is(scalar queue('a'), 7, 'all have a place');
is( $near->value(
		"SELECT count(*) FROM redis_locks WHERE key = 'a' AND kind = 'fair' AND NOT granted "
		  . 'AND blocked_by = ARRAY[' . $one->pid . ']'),
	3, 'the view: only the holder is in the way, as far as this server knows');
$one->query_is("SELECT redis_try_fair_lock('a')", 't', 'who has it takes it again');
$one->query_is("SELECT redis_unlock('a'), redis_unlock('a')", 't|t', 'and gives it back');
my %left = map { $_ => $_ } @sessions[ 1 .. 7 ];
while (%left)
{
	my $session = poll_until('another one', sub { (grep { !$_->is_running } values %left)[0] });

	is($session->wait($soon)->error, undef, 'without an error');
	$session->query_is("SELECT redis_is_held('a', 'fair'), redis_unlock('a')", 't|t', 'it has it');
	delete $left{$session};
}
poll_until('nothing to be left', sub { !$redis->all_keys });
order_kept('order', map { of_ours($_) } @sessions);
order_kept('another order', map { of_ours($_) } reverse @sessions);

# A try neither waits in the queue nor overtakes; one with a limit leaves its place.
$one->query("SELECT redis_fair_lock('b')");
wait_fairly($two, 'b');
$three->query_is("SELECT redis_try_fair_lock('b')", 'f', 'busy here');
$four->query_is("SELECT redis_try_fair_lock('b')", 'f', 'busy there');
is(scalar queue('b'), 1, 'no place for a try');
$four->query_is("SELECT redis_try_fair_lock('b', '100ms')", 'f', 'until its limit');
poll_until('no place after it', sub { queue('b') == 1 });
$redis->cmd('DEL', 'b');
$four->query_is("SELECT redis_try_lock('b')", 't', 'a plain lock passes');
$four->query_is("SELECT redis_unlock('b')", 't', 'and tells who is the next');
is($two->wait($soon)->error, undef, 'the next');
$two->query_is("SELECT redis_unlock('b')", 't');
$one->query_warns("SELECT redis_unlock('b')", 'f', '01000', qr/lost/, 'the one who had it');

#
# It is a reentrant lock.
#
$one->query_is("SELECT redis_fair_lock('c'), redis_lock('c'), redis_try_fair_lock('c')",
	'||t', 'taken again, either way');
$one->query_is("SELECT redis_hold_count('c'), redis_hold_count('c', 'fair'), "
	. "redis_hold_count('c', 'reentrant'), redis_hold_count('c', 'read')", '3|3|3|0', 'both kinds');
$one->query_is("SELECT redis_extend('c', '10min', 'fair'), redis_extend('c', '11min')", 't|t');
cmp_ok($redis->cmd('PTTL', 'c'), '>', 630_000, 'longer');
is($near->value("SELECT string_agg(kind || ' ' || hold_count, ',') FROM redis_locks WHERE key = 'c'"),
	'fair 3', 'the view');
is($near->value("SELECT redis_lock_owner('c')"), $redis->owner_of('c'), 'its owner');
$one->query_is("SELECT redis_fenced_lock('c') > 0, redis_fence('c', 'fair') > 0", 't|t', 'a token');
$one->query_fails("SELECT redis_read_lock('c')", '55000', qr/has the fair lock/, 'no other kind');
$three->query_fails("SELECT redis_read_lock('c')", '42809', qr/It holds a fair lock/,
	'for others neither');
$one->query_is("SELECT redis_unlock_all()", '1', 'all of it');
$one->query_is("SELECT redis_lock('c')", '', 'a plain one');
$one->query_is("SELECT redis_try_fair_lock('c'), redis_is_held('c', 'fair'), redis_hold_count('c')",
	't|f|2', 'stays one');
$one->query_fails("SELECT redis_extend('c', '1min', 'fair')", '55000', qr/own/, 'no fair one');
$one->query_is("SELECT redis_unlock_all()", '1');

# Of a transaction.
$one->query("BEGIN");
$one->query_is("SELECT redis_fair_xact_lock('d'), redis_try_fair_xact_lock('d', '1s')", '|t');
wait_fairly($two, 'd', "SELECT redis_try_fair_xact_lock('d', '1h')");
wait_fairly($three, 'd', "BEGIN; SELECT redis_fair_xact_lock('d')");
$one->query("COMMIT");
is($two->wait($soon)->value, 't', 'told by a COMMIT');
is($three->wait($soon)->error, undef, 'and by that of a single statement');
wait_fairly($four, 'd');
$three->query("ROLLBACK");
is($four->wait($soon)->error, undef, 'by a ROLLBACK');
$four->query("BEGIN; SAVEPOINT s");
$four->query_is("SELECT redis_try_fair_xact_lock('i')", 't', 'in a savepoint');
wait_fairly($one, 'i');
$four->query("ROLLBACK TO s");
is($one->wait($soon)->error, undef, 'and by one to a savepoint');
$four->query("COMMIT");
$one->query_is("SELECT redis_unlock('i')", 't');
$four->query_is("SELECT redis_unlock('d')", 't');

#
# Plain locks on the key.
#
$one->query("SELECT redis_lock('e')");
$three->start("SELECT redis_lock('e')");
$near->wait_for_waiters('e', 1);
wait_fairly($sessions[4], 'e');
$one->query_is("SELECT redis_unlock('e')", 't');
poll_until('one of them', sub { !$three->is_running || !$sessions[4]->is_running }, 30);
{
	my ($first, $second) = $three->is_running ? ($sessions[4], $three) : ($three, $sessions[4]);

	is($first->wait($soon)->error, undef, 'one');
	is($near->lock_stat('handoffs'), 0, 'it was not passed on');
	$first->query_is("SELECT redis_unlock('e')", 't');
	is($second->wait($soon)->error, undef, 'then the other one');
	$second->query_is("SELECT redis_unlock('e')", 't');
}

# A key with a brace has places of its own.
$one->query("SELECT redis_fair_lock('{h}')");
$two->start("SELECT redis_fair_lock('{h}')");
poll_until('a place', sub { $redis->cmd('ZCARD', 'lockredis_places::{h}') == 1 });
is($redis->cmd('LLEN', 'redisson_lock_queue:{h}'), 1, 'in the queue of Redisson');
$one->query_is("SELECT redis_unlock('{h}')", 't');
is($two->wait($soon)->error, undef, 'notified');
$two->query_is("SELECT redis_unlock('{h}')", 't');

end_test([ $near, $far ], $redis, keys => qr{^redisson_lock_token:});
