# Copyright (c) 2026, lockredis contributors

# Read-write locks by one server: who has the key together, what is in Redis, counts,
# both scopes, downgrade, what is refused, what others see of it, fencing tokens, and
# the ends of sessions and transactions.
# Proves G1.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three) = servers(sessions => 3, redis => lock_store);

sub owner ($key, $kind, $pid)
{
	return $node->value("SELECT owner FROM redis_locks WHERE key = '$key' "
		. "AND kind = '$kind' AND granted AND pid = " . $pid);
}

# Readers together, a writer alone.
$one->query_is("SELECT redis_read_lock('a')", '', 'a reader');
$two->query_is("SELECT redis_try_read_lock('a')", 't', 'another one');
$three->query_is("SELECT redis_try_write_lock('a')", 'f', 'and no writer');
my %readers = map { $_ => owner('a', 'read', $_->pid) } $one, $two;
of_redis 'what there is' => sub {
	is_deeply($redis->hash('a'),
		{ mode => 'read', map { $_ => 1 } values %readers }, 'as Redisson has it');
	foreach my $owner (values %readers)
	{
		my $ttl = $redis->cmd('PTTL', "{a}:$owner:rwlock_timeout:1");
		ok($ttl > 0 && $ttl <= 30_000, 'a time-out of each reader');
	}
};
of_table 'what there is' => sub {
	is_deeply($redis->hash('a'), { readers => 2 }, 'they share a row');
	is_deeply([ $redis->shares('a') ], [ sort values %readers ], 'and have one of their own');
};
is($node->value("SELECT redis_lock_owner('a')"), '2 readers', 'who has it');
is($node->value("SELECT redis_is_locked('a')"), 't', 'it is locked');
is($node->value("SELECT string_agg(kind, ' ') FROM redis_locks WHERE key = 'a'"),
	'read read', 'the view');

# Counted here.
$one->query_is("SELECT redis_try_read_lock('a')", 't', 'again');
$one->query_is("SELECT redis_hold_count('a'), redis_hold_count('a', 'read'), "
	. "redis_hold_count('a', 'write'), redis_is_held('a')", '2|2|0|t', 'counted');
of_redis 'what there is' => sub { is($redis->hash('a')->{ $readers{$one} }, 1, 'not in Redis') };
of_table 'what there is' =>
  sub { is_deeply($redis->hash('a'), { readers => 2 }, 'not in the table') };
$one->query_is("SELECT redis_read_unlock('a')", 't', 'once');
$one->query_is("SELECT redis_is_held('a')", 't', 'still had');
$one->query_is("SELECT redis_read_unlock('a')", 't', 'twice');
of_redis 'what there is' => sub {
	is(join(' ', sort keys %{ $redis->hash('a') }),
		join(' ', sort 'mode', $readers{$two}),
		'the other one stays');
};
of_table 'what there is' => sub {
	is_deeply($redis->hash('a'), { readers => 1 }, 'one stays');
	is_deeply([ $redis->shares('a') ], [ $readers{$two} ], 'the other one');
};
is($node->value("SELECT redis_lock_owner('a')"), 'read', 'one reader');
$one->query_warns("SELECT redis_read_unlock('a')", 'f', '01000', qr/you don't own/,
	'not three times');

# No upgrade; other kinds.
$two->query_fails("SELECT redis_write_lock('a')", '55000', qr/wait for itself/, 'no upgrade');
$two->query_fails("SELECT redis_try_write_lock('a')", '55000',
	qr/Take the write lock first, or release the read lock/, 'by a try neither');
$two->query_fails("SELECT redis_lock('a')", '55000', qr/wait for itself/, 'nor as another kind');
$one->query_fails("SELECT redis_try_lock('a')", '42809', qr/It holds a read lock/,
	'another session gets no other kind');
$two->query_warns("SELECT redis_unlock('a')", 'f', '01000', qr/You have its read lock/,
	'each kind has its own unlock');
$two->query_fails("SELECT redis_is_held('a', 'x')", '22023', qr/must be one of reentrant, read, write, fair, permit/,
	'a kind that there is not');
$two->query_fails("SELECT redis_is_held('a', NULL)", '22004', qr/null/, 'none');
$two->query_is("SELECT redis_read_unlock('a')", 't', 'the last reader');
is($redis->cmd('EXISTS', 'a'), 0, 'nothing is left');

$one->query_is("SELECT redis_lock('b')", '', 'a lock');
$two->query_fails("SELECT redis_read_lock('b')", '42809', qr/It holds a reentrant lock/,
	'another kind in this server');
$one->query_is("SELECT redis_unlock('b')", 't');
of_redis 'one kind is told from another' => sub {
	$redis->foreign_lock('b', owner => 'somebody:1', ms => 20_000);
	$two->query_fails("SELECT redis_read_lock('b')", '42809', qr/value of type hash/,
		'a reader at the lock of somebody else');
	$two->query_fails("SELECT redis_write_lock('b')", '42809',
		qr/value of type hash/, 'a writer, too');
	$redis->cmd('DEL', 'b');
};
of_table 'a row that outlives its instance has no kind' => sub {
	$redis->take('b', 'somebody:1', '20s');
	$two->query_is("SELECT redis_try_read_lock('b'), redis_try_write_lock('b')", 'f|f',
		'a key that stays locked');
	$redis->give_back('b', 'somebody:1');
};

# A writer who reads too, and downgrades.
$one->query_is("SELECT redis_write_lock('c')", '', 'a writer');
my $writer = owner('c', 'write', $one->pid);
of_redis 'what there is' => sub {
	is_deeply($redis->hash('c'), { mode => 'write', "$writer:write" => 1 }, 'as Redisson has it');
};
of_table 'what there is' => sub { is_deeply($redis->hash('c'), { $writer => 1 }, 'as any lock') };
is($node->value("SELECT redis_lock_owner('c')"), $writer, 'who writes');
$two->query_is("SELECT redis_try_read_lock('c')", 'f', 'nobody reads');
$two->start("SELECT redis_read_lock('c')");
$node->wait_for_waiters('c', 1);
$three->start("SELECT redis_write_lock('c')");
$node->wait_for_waiters('c', 2);
$one->query_is("SELECT redis_read_lock('c')", '', 'but the writer, although others wait');
$one->query_is("SELECT redis_hold_count('c', 'read'), redis_hold_count('c', 'write')",
	'1|1', 'both');
ok($two->is_running, 'the other reader still waits');
$one->query_is("SELECT redis_write_unlock('c')", 't', 'downgrade');
is($two->wait(10)->error, undef, 'the other reader is woken at once');
ok($three->is_running, 'the writer waits for both');
$one->query_is("SELECT redis_is_held('c'), redis_is_held('c', 'write')", 't|f', 'what is left');
$one->query_is("SELECT redis_read_unlock('c')", 't');
ok($three->is_running, 'the writer still waits');
$two->query_is("SELECT redis_read_unlock('c')", 't');
is($three->wait(10)->error, undef, 'until the last one has gone');
$three->query_is("SELECT redis_write_unlock('c')", 't');

# The read lock under the write lock can go first.
$one->query_is("SELECT redis_write_lock('d'), redis_read_lock('d'), redis_write_lock('d')",
	'||', 'both');
$one->query_is("SELECT redis_read_unlock('d'), redis_write_unlock('d')", 't|t');
$two->query_is("SELECT redis_try_read_lock('d')", 'f', 'the writer still has it');
$one->query_is("SELECT redis_write_unlock('d')", 't');
is($redis->cmd('EXISTS', 'd'), 0, 'all is given back');

# Transactions.
$one->query("BEGIN");
$one->query_is("SELECT redis_read_xact_lock('e')", '', 'until the end');
$one->query_is("SELECT redis_try_read_xact_lock('e')", 't', 'again');
$two->query_is("SELECT redis_try_write_xact_lock('e')", 'f', 'no writer');
$one->query("COMMIT");
poll_until('it to be given back', sub { !$redis->cmd('EXISTS', 'e') });
$one->query("BEGIN");
$one->query_is("SELECT redis_write_xact_lock('e')", '', 'until the end');
$one->query("SAVEPOINT s");
$one->query_is("SELECT redis_read_xact_lock('e')", '', 'in a savepoint');
$one->query("ROLLBACK TO s");
$one->query_is("SELECT redis_is_held('e', 'read'), redis_is_held('e', 'write')", 'f|t',
	'which is rolled back');
$one->query("ROLLBACK");
poll_until('it to be given back', sub { !$redis->cmd('EXISTS', 'e') });

# Tokens, of the same counter as those of other locks.
my $token = $one->value("SELECT redis_fenced_lock('f')");
$one->query_is("SELECT redis_unlock('f')", 't');
$one->query_is("SELECT redis_fenced_write_lock('f')", $token + 1, 'a token');
$one->query_is("SELECT redis_fence('f')", $token + 1, 'which it has');
$one->query_is("SELECT redis_write_unlock('f')", 't');
$one->query("BEGIN");
$one->query_is("SELECT redis_try_fenced_write_xact_lock('f')", $token + 2, 'and records');
$one->query("COMMIT");
is($node->value("SELECT token FROM redis_fences WHERE key = 'f'"), $token + 2, 'in the table');
$redis->set_token('f', 1);
$one->query("BEGIN");
$one->query_is("SELECT redis_fenced_write_xact_lock('f')", $token + 3, 'a lost counter is raised');
$one->query("COMMIT");
$one->query("SELECT redis_write_lock('f')");
$one->query_is("SELECT redis_fenced_write_lock('f')", $token + 4, 'a token afterwards');
$one->query_is("SELECT redis_unlock_all()", 1, 'all');

# No deadlock by a writer who stands before a reader that reads already.  256_deadlock_kinds has some.
$_->query("SET deadlock_timeout = '100ms'") foreach $one, $two, $three;
$one->query("SELECT redis_read_lock('g')");
$two->query("SELECT redis_read_lock('g'), redis_write_lock('h')");
$three->start("SELECT redis_write_lock('g')");
$node->wait_for_waiters('g', 1);
$one->start("SELECT redis_write_lock('h')");
$node->wait_for_waiters('h', 1);
$two->query("SET lock_timeout = '20s'");
my $failed = $two->query("SELECT redis_read_lock('g')");
is($failed->error, undef, 'to read again is not to wait');
$three->cancel;
$three->wait(10)->fails('57014', qr/cancel/, 'the writer gives up');
$two->query("SELECT redis_unlock_all()");
is($one->wait(10)->error, undef, 'no deadlock');
$one->query("SELECT redis_unlock_all()");

# Taken by force from one who writes and reads.  068_forced has the others.
$one->query("SELECT redis_write_lock('j'), redis_read_lock('j')");
$three->query_is("SELECT redis_force_unlock('j')", 't', 'from a writer who reads');
$one->query_is("SELECT redis_is_held('j', 'write')", 'f', 'lost at once');
poll_until('the loss of the other',
	sub { $one->value("SELECT redis_is_held('j', 'read')") eq 'f' });
$one->query_fails("SELECT redis_write_lock('j')", '55000', qr/lost.*Call redis_write_unlock/s, 'has to be seen');
$one->query_warns("SELECT redis_write_unlock('j')", 'f', '01000', qr/released by force/, 'first');
$one->query_fails("SELECT redis_write_lock('j')", '55000', qr/lost/, 'both');
$one->query_warns("SELECT redis_read_unlock('j')", 'f', '01000', qr/lost/, 'second');

# Ends of sessions.
$one->query("SELECT redis_read_lock('m'), redis_write_lock('n'), redis_read_lock('n')");
$one->quit;
is($redis->cmd('EXISTS', 'm', 'n'), 0, 'the end of a session');
$two->query("SELECT redis_write_lock('n'), redis_read_lock('n'); DISCARD ALL");
is($redis->cmd('EXISTS', 'n'), 0, 'DISCARD ALL');

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
