# Copyright (c) 2026, lockredis contributors

# Several keys at once by one server: what is in Redis and what it costs, all or none
# when one is busy here or elsewhere, keys that the session has already, arguments, both
# scopes, rows, waiting in order, limits, deadlocks.
# Proves G1.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three) = servers(
	sessions => 3, settings => { 'lockredis.max_locks' => 100 });

sub list { return 'ARRAY[' . join(',', map { "'$_'" } @_) . ']'; }

# Who has the key, by the view.
sub has ($session)
{
	return $node->value("SELECT coalesce(string_agg(key || CASE WHEN hold_count > 1 "
		. "THEN hold_count::text ELSE '' END, ' ' ORDER BY key COLLATE \"C\", scope), '') "
		. 'FROM redis_locks WHERE granted AND pid = ' . $session->pid);
}

# All free: one command each way.
$_->query_is("SELECT redis_multi_lock(ARRAY['warm', 'up'])", '', 'a first time')
  && $_->query_is("SELECT redis_multi_unlock(ARRAY['warm', 'up'])", 't')
  foreach $one, $two;
my @keys = map { "k$_" } 0 .. 9;
my @commands = $redis->session_commands(sub {
	$one->query_is("SELECT redis_multi_lock(" . list(@keys) . ")", '', 'ten keys');
	is(has($one), "@keys", 'all are held');
	is($redis->cmd('HVALS', 'k3')->[0], 1, 'as Redisson has it');
	ok($redis->cmd('PTTL', 'k3') > 20_000, 'leased');
	my %owners = map { $redis->owner_of($_) => 1 } @keys;
	is(keys %owners, 10, 'each has an owner of its own');
	$one->query_is("SELECT redis_multi_unlock(" . list(@keys) . ")", 't', 'given back');
});
is(@commands, 2, 'two commands') or diag(explain(\@commands));
is_deeply([ $redis->all_keys ], [], 'nothing is left');

# None if one is not free: elsewhere, and here without a word to Redis.
$redis->foreign_lock('k7', owner => 'somebody:1', ms => 60_000);
$one->query_is("SELECT redis_try_multi_lock(" . list(@keys) . ")", 'f', 'busy elsewhere');
is_deeply([ $redis->all_keys ], ['k7'], 'none was taken');
is(has($one), '', 'here neither');
$redis->foreign_unlock('k7');
$two->query_is("SELECT redis_lock('k7')", '', 'here');
is($redis->session_commands(sub {
	$one->query_is("SELECT redis_try_multi_lock(" . list(@keys) . ")", 'f', 'busy here');
}), 0, 'Redis is not asked');
is(has($one), '', 'none was taken');
$redis->cmd('SET', 'k8', 'x');
$two->query_is("SELECT redis_unlock('k7')", 't');
$one->query_fails("SELECT redis_multi_lock(" . list(@keys) . ")", '42809',
	qr/key "k8" does not hold a reentrant lock/, 'no lock at one of the keys');

# A call that fails does not keep its memory.
$one->query_fails("SELECT redis_multi_lock(" . list('k8', map { "many$_" } 1 .. 80) . ")",
	'42809', qr/key "k8" does not hold a reentrant lock/, 'many keys');
my $kept = $one->value("SELECT total_bytes FROM pg_backend_memory_contexts "
	. "WHERE name = 'lockredis several locks'");
cmp_ok($kept, '<=', 8192, 'their names and requests are forgotten');
$redis->cmd('DEL', 'k8');
$two->query_is("SELECT redis_read_lock('k2')", '', 'another kind');
$one->query_fails("SELECT redis_try_multi_lock(" . list(@keys) . ")", '42809',
	qr/key "k2".*read lock/s, 'of another session');
$two->query_fails("SELECT redis_try_multi_lock(" . list(@keys) . ")", '55000',
	qr/"k2".*wait for itself/s, 'of this one');
$two->query_is("SELECT redis_read_unlock('k2')", 't');
is_deeply([ $redis->all_keys ], [], 'nothing is left');

# Keys that the session has are taken again, or are as they were.
$one->query_is("SELECT redis_lock('b'), redis_lock('b')", '|', 'had twice');
$one->query_is("SELECT redis_multi_lock(ARRAY['c', 'b', 'a', 'b'])", '', 'and with others');
is(has($one), 'a b3 c', 'once more');
$two->query_is("SELECT redis_lock('d')", '');
$one->query_is("SELECT redis_try_multi_lock(ARRAY['a', 'b', 'd', 'e']), redis_try_multi_lock(ARRAY['a', 'b', 'd', 'e'], '100ms')",
	'f|f', 'one is busy, also for a while');
is(has($one), 'a b3 c', 'as it was');
$one->query_is("SELECT redis_multi_unlock(ARRAY['a', 'b', 'c'])", 't', 'once');
is(has($one), 'b2', 'each lost one hold');
$one->query_warns("SELECT redis_multi_unlock(ARRAY['a', 'b'])", 'f', '01000',
	qr/you don't own the Redis lock "a"/, 'one is not held');
is(has($one), 'b', 'the other one was given back');
$one->query_is("SELECT redis_unlock('b')", 't', 'each by itself, too');
is_deeply([ $redis->all_keys ], ['d'], 'nothing is left');
$two->query_is("SELECT redis_unlock('d')", 't');

# One that is lost refuses the call before anything is asked for.
$one->query_is("SELECT redis_lock('b')", '');
$one->take_away('b');
$one->query_fails("SELECT redis_multi_lock(ARRAY['a', 'b'])", '55000', qr/"b" was lost/,
	'a lost one');
is_deeply([ $redis->all_keys ], [], 'none was taken');
my $told = $one->query("SELECT redis_multi_unlock(ARRAY['a', 'b'])");
is($told->value, 'f', 'neither was held');
is(scalar(my @warnings = $told->warnings), 2, 'and both are told');

# Arguments.
$one->query_fails("SELECT $_->[0]", $_->[1], $_->[2], $_->[0])
  foreach (
	[ 'redis_multi_lock(NULL)', '22004', qr/must not be null/ ],
	[ "redis_multi_lock(ARRAY['a', NULL])", '22004', qr/must not be null/ ],
	[ "redis_multi_lock('{}')", '22023', qr/at least one/ ],
	[ "redis_multi_lock(ARRAY['a', ''])", '22023', qr/key/ ],
	[ "redis_try_multi_lock(ARRAY['a', 'b'], '-1s')", '22023', qr/wait/ ],
	[ "redis_multi_lock(array_agg('k' || i)) FROM generate_series(1, 1001) i", '22023', qr/more than 1000/ ]);
$one->query_is("SELECT redis_try_multi_lock(array_agg('k' || i % 50)) "
	. 'FROM generate_series(1, 5000) i', 't', 'each key counts once');
is($node->count_locks('granted'), 50, 'so often');
$one->query_is("SELECT redis_multi_lock(ARRAY[['k1', 'm'], ['k2', 'n']])", '',
	'an array of arrays');
is($one->value("SELECT redis_unlock_all()"), 52, 'all are ordinary locks');
is_deeply([ $redis->all_keys ], [], 'nothing is left');

# Rows for all, before anything is sent.
$two->query_is("SELECT redis_multi_lock(array_agg('t' || i)) FROM generate_series(1, 60) i", '');
is($redis->session_commands(sub {
	$one->query_fails("SELECT redis_multi_lock(array_agg('u' || i)) FROM generate_series(1, 41) i",
		'53400', qr/out of slots/, 'too many');
}), 0, 'Redis is not asked');
$one->query_is("SELECT redis_multi_lock(array_agg('u' || i)) FROM generate_series(1, 40) i", '',
	'as many as there are');
$three->query_fails("SELECT redis_try_lock('x')", '53400', qr/out of slots/, 'none is left');
is($one->value("SELECT redis_unlock_all()") + $two->value("SELECT redis_unlock_all()"), 100);
$three->query_is("SELECT redis_try_lock('x'), redis_unlock('x')", 't|t', 'all rows are back');

# Transactions, and savepoints.
$one->query_is("BEGIN; SELECT redis_multi_xact_lock(ARRAY['a', 'b'])", '', 'in a transaction');
$one->query_is("SAVEPOINT s; SELECT redis_multi_xact_lock(ARRAY['b', 'c', 'd'])", '',
	'more in a savepoint');
is(has($one), 'a b c d', 'all are held');
$one->query('ROLLBACK TO s');
is(has($one), 'a b', 'those of the savepoint are given back');
poll_until('in Redis, too', sub { !$redis->cmd('EXISTS', 'c', 'd') });
$two->query_is("SELECT redis_lock('e')", '');
$one->query_is("SELECT redis_try_multi_xact_lock(ARRAY['b', 'e', 'd']), redis_try_multi_xact_lock(ARRAY['b', 'e', 'd'], '50ms')",
	'f|f', 'one is busy, also for long');
is(has($one), 'a b', 'as it was');
$one->query('COMMIT');
is(has($one), '', 'none is held after the commit');
$two->query_is("SELECT redis_unlock('e')", 't');
$one->query_is("SELECT redis_lock('a')", '');
$one->query_is("BEGIN; SELECT redis_multi_xact_lock(ARRAY['a', 'b'])", '', 'of both scopes');
is(has($one), 'a a b', 'two rows');
$one->query_is("SELECT redis_multi_unlock(ARRAY['a'])", 't', 'the session-level one');
is(has($one), 'a b', 'those of the transaction stay');
$one->query('ROLLBACK');
poll_until('nothing to be left', sub { !$redis->all_keys });

# Waiting: for one at a time, in the order of the names, with what was acquired kept.
$two->query_is("SELECT redis_lock('c')", '');
$node->queue_up('c', $one => "SELECT redis_multi_lock(ARRAY['d', 'c', 'b', 'a'], '6s')");
is(has($one), 'a b', 'the first ones are held meanwhile');
my $owner = $redis->owner_of('a');
pause(7);
is($redis->owner_of('a'), $owner, 'and kept, although their lease was given');
$two->query_is("SELECT redis_unlock('c')", 't');
is($one->wait(20)->error, undef, 'woken');
poll_until('the given leases to end', sub { has($one) eq '' });
$one->query("SELECT redis_multi_unlock(ARRAY['a', 'b', 'c', 'd'])");
poll_until('Redis', sub { !$redis->all_keys });

# One limit for the whole call, false or an error.  461_multi_faults has cancel and terminate.
$two->query_is("SELECT redis_multi_lock(ARRAY['c', 'f'])", '');
$one->query_is("SELECT redis_try_multi_lock(ARRAY['a', 'c', 'f'], '100ms')", 'f', 'time is over');
$one->query_fails("SET lock_timeout = '100ms'; SELECT redis_multi_lock(ARRAY['a', 'c', 'f'])",
	'55P03', qr/lock timeout/, 'as an error');
$one->query('RESET lock_timeout');
is(has($one), '', 'nothing is kept');
$one->query_is("DO \$\$BEGIN PERFORM redis_try_multi_lock(ARRAY['a', 'c', 'f'], '50ms'); "
	. "PERFORM redis_multi_lock(ARRAY['a', 'b']); END\$\$", '', 'within one statement');
is(has($one), 'a b', 'what was held at last');
$one->query_is("SELECT redis_multi_unlock(ARRAY['a', 'b'])", 't');
$two->query_is("SELECT redis_multi_unlock(ARRAY['c', 'f'])", 't');

# Overlapping sets do not deadlock; single locks in another order do, and that is found.
$one->query_is("SELECT redis_lock('x')", '');
$node->queue_up('x', $two => "SELECT redis_multi_lock(ARRAY['z', 'x', 'y'])");
$three->start("SELECT redis_multi_lock(ARRAY['y', 'z', 'x'])");
$node->wait_for_waiters('x', 2);
$one->query_is("SELECT redis_unlock('x')", 't');
is($two->wait(20)->error, undef, 'one after the other');
$two->query_is("SELECT redis_multi_unlock(ARRAY['x', 'y', 'z'])", 't');
is($three->wait(20)->error, undef, 'the other one');
$three->query_is("SELECT redis_multi_unlock(ARRAY['x', 'y', 'z'])", 't');

$two->query("BEGIN; SELECT redis_xact_lock('z')");
$node->queue_up('z', $one => "SELECT redis_multi_lock(ARRAY['x', 'z'])");
$two->start("SELECT redis_xact_lock('x'); ROLLBACK");
my ($of_one, $of_two) = map { $_->wait(60) } $one, $two;
(defined $of_one->error ? $of_one : $of_two)->fails('40P01', qr/deadlock/, 'the victim');
is(has($one), defined $of_one->error ? '' : 'x z', 'which has nothing, and the other one goes on');
$_->query('SELECT redis_unlock_all()') foreach $one, $two;

end_test($node, $redis);
