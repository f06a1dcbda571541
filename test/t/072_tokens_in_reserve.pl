# Copyright (c) 2026, lockredis contributors

# A session that asks for a fenced lock while others wait behind it, or that is handed one, takes
# tokens for those to which it can be handed next, so these ask nobody.  The tokens rise, each is
# given once, and all are below what anybody gets who takes the lock from Redis afterwards.  If the
# fence table has a higher token, or Redis is emptied, the reserve has ended.
# (What becomes of it if somebody takes the lock away, stops, or holds it without a token in between
# is the simulator's: its mutants reserve_twice, reserve_kept, reserve_moved, reserve_of_grant,
# lua_reserve_untaken.)
#
# one has the lock, the others come behind it; "somebody" is another client.
#
# Proves G17, G22.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::HandoverRaces;

# As in settings.c
use constant MAX_HANDOFFS => 32;
use constant MOST => 9007199254740991;

start_servers();

my $counters = qr/^redisson_lock_token:/;
my $fenced = sub { return "SELECT redis_fenced_lock('$_[0]')"; };
my $recording = sub { return "BEGIN; SELECT redis_fenced_xact_lock('$_[0]')"; };

# They queue for it in this order while the first has it; returns the first one's token.
sub queue ($key, $sql, $first, @rest)
{
	my $token = run($first, $fenced->($key))->value;

	$node->queue_up($key, map { $_ => $sql->($key) } @rest);
	return $token;
}

# What the next one gets when the holder gives it back, and how many scripts that took
sub hand ($key, $holder, $next, $how = "SELECT redis_unlock('$key')")
{
	my $calls = $redis->script_calls;

	run($holder, $how);
	my $result = $next->wait(limit(15));
	die "$key: $result->{raw}" if $result->dead || $result->error;
	return ($result->value, $redis->script_calls - $calls);
}

# What somebody gets who takes the lock in Redis, as Redisson does
sub take_elsewhere ($key)
{
	$redis->cmd('DEL', $key);
	$redis->foreign_lock($key);
	return $redis->cmd('INCR', "redisson_lock_token:{$key}");
}

#
# What it costs.  A lock that nobody waits for takes one token.
#
{
	my $key = 'cost';
	my @s = sessions(4);

	$s[0]->query_is("SELECT redis_fenced_lock('$key'), redis_unlock('$key')",
		"$_|t", "$key: without a waiter token $_ is the next one") foreach 1 .. 3;
	is(queue($key, $fenced, @s), 4, "$key: the first of several");
	is_deeply([ hand($key, @s[ 0, 1 ]) ], [ 5, 1 ], "$key: the second asks");
	is($redis->token($key), 4 + MAX_HANDOFFS, "$key: for those who come after it too");
	is_deeply([ hand($key, @s[ 1, 2 ]) ], [ 6, 0 ], "$key: the third asks nobody");
	is_deeply([ hand($key, @s[ 2, 3 ]) ], [ 7, 0 ], "$key: nor does the fourth");
	$s[3]->query_is("SELECT redis_fence('$key'), redis_fenced_lock('$key'), redis_unlock('$key')",
		'7|7|t', "$key: which keeps its token");
	is($node->value("SELECT fence FROM redis_locks WHERE key = '$key'"), 7, "$key: in the view");
	run($s[3], "SELECT redis_unlock('$key')");
	is(run($s[0], $fenced->($key))->value, 5 + MAX_HANDOFFS, "$key: the rest is a gap");
	end_of($key, @s);
}

# As often as it may be handed over, and once more from Redis; for one hand-over there is
# no reserve.
foreach my $max (3, 1)
{
	my $key = "in a row, $max";
	my @s = sessions(2);
	my (@tokens, @calls);

	$node->set('lockredis.max_handoffs' => $max);
	$_->value('SHOW lockredis.max_handoffs') == $max || die 'not reloaded' foreach @s;
	push @tokens, run($s[0], $fenced->($key))->value;
	foreach (1 .. 2 * $max + 2)
	{
		$node->queue_up($key, $s[1] => $fenced->($key));
		my ($token, $calls) = hand($key, @s);

		push @tokens, $token;
		push @calls, $calls;
		@s = reverse @s;
	}
	is_deeply(\@tokens, [ 1 .. 2 * $max + 3 ], "$key: no token is left out");

	# The last one's release tells of it and the next one asks, more than once at times.
	is_deeply([ map { $calls[$_] > 2 ? 2 : $calls[$_] } 0 .. $#calls ],
		[ (1, (0) x ($max - 1), 2) x 2 ], "$key: one request for all in a row");
	end_of($key, @s);
}
$node->set('lockredis.max_handoffs' => MAX_HANDOFFS);

#
# The fence table has a token at or above the next one in reserve.
#
# one ─► two: 2, in reserve 3 .. ─► a token is recorded ─► three: 3 is refused, and the mint
# that raises it ends the reserve ─► four: asks
#
foreach my $recorded (3, 1000)
{
	my $key = "recorded $recorded";
	my ($one, $two, $three, $four) = sessions(4);
	my $raised = $recorded == 3 ? 2 + MAX_HANDOFFS : 1001;

	run($one, $fenced->($key));
	$node->queue_up($key, $two => $fenced->($key),
		map { $_ => $recording->($key) } $three, $four);
	is_deeply([ hand($key, $one, $two) ], [ 2, 1 ], "$key: two");
	run($one, "SELECT redis_fence_check('$key', $recorded)");
	is_deeply([ hand($key, $two, $three) ], [ $raised, 1 ], "$key: three has a higher one");
	is_deeply([ hand($key, $three, $four, 'COMMIT') ], [ $raised + 1, 1 ], "$key: and so has four");
	run($four, 'COMMIT');
	is($node->value("SELECT token FROM redis_fences WHERE key = '$key'"),
		$raised + 1, "$key: which is recorded");
	end_of($key, $one, $two, $three, $four);
}

#
# Redis is emptied.
#
# one ─► two: 2, in reserve 3 .. ─► FLUSHALL ─► three: 3, recorded
#     ─► somebody: 1, is refused ─► two takes it anew, above 3
#
{
	my $key = 'flushed';
	my ($one, $two, $three) = sessions(3);

	run($one, $fenced->($key));
	$node->queue_up($key, $two => $fenced->($key), $three => $recording->($key));
	hand($key, $one, $two);
	$redis->cmd('FLUSHALL');
	is_deeply([ hand($key, $two, $three) ], [ 3, 0 ], "$key: three has the next one");
	$three->query_is('COMMIT', '', "$key: and commits");
	is(take_elsewhere($key), 1, "$key: Redis begins anew");
	$one->query_fails("SELECT redis_fence_check('$key', 1)", '23000', qr/Token 3 was recorded/,
		"$key: the first is refused");
	$redis->cmd('DEL', $key);
	is(run($two, $recording->($key))->value, 4, "$key: two has one above");
	run($two, 'COMMIT');
	end_of($key, $one, $two, $three);
}

#
# Where the range ends the reserve is left out, so no token is.
#
{
	my $key = 'range';
	my ($one, $two, $three, $four) = sessions(4);

	$redis->set_token($key, MOST - 3);
	$redis->foreign_lock($key);
	$node->queue_up($key, map { $_ => $fenced->($key) } $one, $two, $three, $four);
	$redis->foreign_unlock($key);
	is($one->wait(limit(15))->value, MOST - 2, "$key: one");
	is($redis->token($key), MOST - 2, "$key: and nobody else");
	is_deeply([ hand($key, $one, $two) ], [ MOST - 1, 1 ], "$key: two");
	is($redis->token($key), MOST - 1, "$key: and nobody else");
	is_deeply([ hand($key, $two, $three) ], [ MOST, 1 ], "$key: three has the last one");
	run($three, "SELECT redis_unlock('$key')");
	$four->wait(limit(15))->fails('22003', qr/used up/, "$key: there are no more");
	end_of($key, $one, $two, $three, $four);
}

#
# Write locks, whose mint is another script.
#
{
	my $key = 'write';
	my @s = sessions(3);
	my $write = "SELECT redis_fenced_write_lock('$key')";
	my $unlock = "SELECT redis_write_unlock('$key')";

	# Redis knows the script.
	run($s[0], "SELECT redis_write_lock('$key'), redis_fenced_write_lock('$key')");
	run($s[0], $unlock) foreach 1, 2;
	$redis->set_token($key, undef);
	is(run($s[0], $write)->value, 1, "$key: one");
	$node->queue_up($key, map { $_ => $write } @s[ 1, 2 ]);
	is_deeply([ hand($key, @s[ 0, 1 ], $unlock) ], [ 2, 1 ], "$key: two asks");
	is_deeply([ hand($key, @s[ 1, 2 ], $unlock) ], [ 3, 0 ], "$key: three asks nobody");
	run($s[2], $unlock);
	is(run($s[0], $write)->value, 2 + MAX_HANDOFFS, "$key: the rest is a gap");
	run($s[0], $unlock);
	end_of($key, @s);
}

#
# Those who wait behind the one that asks for the lock have theirs with its request.
#
# one ─► two: asks for a token ─► three, and the lock is given back ─► four takes it: 4, in reserve
# 5, 6 ─► five, six: ask nobody
#
$node->set('lockredis.max_handoffs' => 2);
foreach my $kind ('', 'write_')
{
	my $key = "behind, ${kind}lock";
	my @s = sessions(6);
	my ($take, $unlock) = ("SELECT redis_fenced_${kind}lock('$key')", "SELECT redis_${kind}unlock('$key')");
	my (@tokens, @calls);

	$_->value('SHOW lockredis.max_handoffs') == 2 || die 'not reloaded' foreach @s;
	push @tokens, run($s[0], $take)->value;
	$node->queue_up($key, map { $_ => $take } @s[ 1 .. 5 ]);
	foreach (1 .. 5)
	{
		my ($token, $calls) = hand($key, @s[ $_ - 1, $_ ], $unlock);

		push @tokens, $token;
		push @calls, $calls > 2 ? 2 : $calls;
		is($redis->token($key), 6, "$key: in reserve for all behind it") if $_ == 3;
	}
	is_deeply(\@tokens, [ 1 .. 6 ], "$key: no token is left out");
	is_deeply(\@calls, [ 1, 0, 2, 0, 0 ], "$key: and no request for one but the first");
	run($s[5], $unlock);
	end_of($key, @s);
}

done_testing();
