# Copyright (c) 2026, lockredis contributors

# Permits by one server: how many there are, who has one, what is in the store, several of
# one session, both scopes and savepoints, waiters and who wakes them, hand-over, what is
# refused, losses, what others see, force, and the ends of sessions and transactions.
# Proves G1, G42.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three) = servers(sessions => 3, redis => lock_store);

sub available { return $node->value("SELECT redis_permit_available('$_[0]')"); }

sub numbers
{
	return $node->value("SELECT concat(redis_permit_available('$_[0]'), ' of ', redis_permit_total('$_[0]'))");
}

# How many there are.
is(numbers('a'), ' of ', 'none is known, nor how many there are');
$one->query_fails("SELECT redis_permit_lock('a')", '42704', qr/number of permits of "a" is not defined.*HINT:  Call redis_permit_init to define it/s,
	'nothing to wait for');
$one->query_fails("SELECT redis_try_permit_lock('a')", '42704', qr/number of permits of/, 'by a try neither');
is($node->count_locks, 0, 'nothing is left of that');
$one->query_is("SELECT redis_permit_init('a', 2)", 't', 'now there are');
$one->query_is("SELECT redis_permit_init('a', 9)", 'f', 'not twice');
$one->query_is("SELECT redis_permit_total('a'), redis_permit_available('a')", '2|2', 'two');
$one->query_is("SELECT redis_is_locked('a'), redis_lock_owner('a') IS NULL, redis_lock_ttl('a') IS NULL", 'f|t|t', 'nobody has one');
of_redis 'no lock' =>
  sub { $one->query_is("SELECT redis_force_unlock('a')", 'f', 'nothing to take away') };
$one->query_fails("SELECT redis_permit_set('a', $_->[0])", $_->[1], qr/number of permits must/, "$_->[0]")
  foreach [ -1, '22023' ], [ 'NULL', '22004' ];

# Each takes one more.
$one->query_is("SELECT redis_permit_lock('a')", '', 'one');
$two->query_is("SELECT redis_try_permit_lock('a')", 't', 'another');
is(numbers('a'), '0 of 2', 'that was all');
$three->query_is("SELECT redis_try_permit_lock('a')", 'f', 'no third');
of_redis 'what there is' => sub {
	is($redis->cmd('GET', 'a'), 0, 'the number of free ones');
	is($redis->cmd('ZCARD', '{a}:timeout'), 2, 'two ids');
	is(scalar(grep { length == 16 } @{ $redis->cmd('ZRANGE', '{a}:timeout', 0, -1) }),
		2, 'of 16 bytes');
};
is($node->value(q{SELECT string_agg(kind || ' ' || scope || ' ' || hold_count, ', ') FROM redis_locks}),
	'permit session 1, permit session 1', 'the view');
$three->query_is("SELECT redis_is_locked('a'), redis_lock_owner('a'), redis_lock_ttl('a') BETWEEN '1s' AND '30s'",
	't|2 permits|t', 'none is free, who has it, until when');
$one->query_is("SELECT redis_permit_unlock('a')", 't', 'given back');
$three->query_is("SELECT redis_permit_available('a'), redis_is_locked('a'), redis_lock_owner('a')",
	'1|f|1 permit', 'one is free, so it is not locked');
$two->query_is("SELECT redis_try_permit_lock('a')", 't', 'one more of the same session');
$two->query_is("SELECT redis_hold_count('a'), redis_hold_count('a', 'permit'), redis_hold_count('a', 'read'), "
	. "redis_is_held('a'), redis_is_held('a', 'permit')", '2|2|0|t|t', 'counted');
is($node->count_locks(q{key = 'a'}), 2, 'a row each');
$two->query_is("SELECT redis_extend('a', '40s', 'permit')", 't', 'both are kept');
is($node->count_locks(q{key = 'a' AND expires_in > '31s'}), 2, 'for longer');
$two->query_is("SELECT redis_permit_unlock('a')", 't', 'one of them');
$two->query_is("SELECT redis_hold_count('a')", '1', 'one is left');
$two->query_is("SELECT redis_try_permit_lock('a')", 't', 'one more');
$two->query_is('SELECT redis_unlock_all()', '1', 'both: one key');
is(available('a'), 2, 'all are free');
$one->query_warns("SELECT redis_permit_unlock('a')", 'f', '01000', qr/you don't own/, 'not had');

# The number can be changed.
$one->query_is("SELECT redis_permit_lock('a')", '');
foreach (
	[ "redis_permit_set('a', 1)", '', '0 of 1', 'one, and that is held' ],
	[ "redis_permit_set('a', 0)", '', '-1 of 0', 'one too many is held' ],
	[ "redis_permit_unlock('a')", 't', '0 of 0', 'until it is given back' ],
	[ "redis_permit_set('a', 2)", '', '2 of 2', 'both are free' ])
{
	my ($call, $answer, $numbers, $name) = @$_;

	$one->query_is("SELECT $call", $answer, $call);
	is(numbers('a'), $numbers, $name);
}

# Other kinds.
$one->query_is("SELECT redis_permit_lock('a')", '');
$one->query_fails("SELECT redis_lock('a')", '55000', qr/wait for itself/, 'the same session, another kind');
$two->query_fails("SELECT redis_lock('a')", '42809', qr/permit/, 'another session');
$one->query_warns("SELECT redis_unlock('a')", 'f', '01000', qr/You have its permit/, 'each kind has its own unlock');
$one->query_is("SELECT redis_permit_unlock('a')", 't');
$one->query_is("SELECT redis_lock('b')", '');
$two->query_fails("SELECT redis_permit_lock('b')", '42809', qr/It holds a reentrant lock/, 'of a lock there are none');
$one->query_is("SELECT redis_unlock('b')", 't');
of_redis 'other values' => sub {
	$redis->foreign_lock('b', owner => 'somebody:1', ms => 20_000);
	$two->query_fails("SELECT redis_permit_lock('b')", '42809', qr/value of type hash/, 'a lock of somebody else');
	$two->query_fails("SELECT $_", '42809', qr/value of type hash/, $_)
	  foreach q{redis_permit_set('b', 1)}, q{redis_permit_init('b', 1)}, q{redis_permit_total('b')};
	$redis->cmd('DEL', 'b');
	$redis->cmd('SET', 'b', 'words');
	$two->query_fails("SELECT redis_try_permit_lock('b')", '42809', qr/string/, 'a text');
	$redis->cmd('DEL', 'b');
};

# Waiters: each that comes back wakes the first, who lets the next one look.
$one->query_is("SELECT redis_permit_lock('a'), redis_permit_lock('a')", '|', 'all of them');
my @waiters = map { $node->session } 1 .. 4;
$node->queue_up('a', map { $_ => "SELECT redis_permit_lock('a')" } @waiters);
$three->query_is("SELECT redis_try_permit_lock('a')", 'f', 'nobody passes them');
is($node->count_locks(q{kind = 'permit' AND NOT granted}), 4, 'four wait');
$one->query_is("SELECT redis_permit_unlock('a')", 't');
is($waiters[0]->wait(60)->error, undef, 'the first gets it');
ok($waiters[1]->is_running, 'the second waits');
$waiters[1]->cancel;
like($waiters[1]->wait(60)->error, qr/user request/, 'the second gives up');
$one->query_is("SELECT redis_permit_set('a', 4)", '', 'two more');
is($waiters[2]->wait(60)->error, undef, 'the third gets one');
is($waiters[3]->wait(60)->error, undef, 'and the fourth, by one message');
is(available('a'), 0, 'all are held');
$_->query_is("SELECT redis_permit_unlock('a')", 't') foreach $one, @waiters[ 0, 2, 3 ];
is(available('a'), 4, 'all are back');
$one->query_is("SELECT redis_permit_set('a', 2)", '');

# From session to session of this server.
my $handed = $node->lock_stat('handoffs');
$_->query_is("SELECT redis_permit_lock('a')", '') foreach $one, $two;
$node->queue_up('a', $three => "SELECT redis_permit_lock('a')");
$one->query_is("SELECT redis_permit_unlock('a')", 't');
is($three->wait(60)->error, undef, 'it is passed on');
is($node->lock_stat('handoffs'), $handed + 1, 'without the store, beside another one');
$_->query_is("SELECT redis_permit_unlock('a')", 't') foreach $two, $three;
is(available('a'), 2, 'both are back');

# Transactions and savepoints.
$one->query_is("BEGIN; SELECT redis_permit_xact_lock('a'), redis_try_permit_xact_lock('a'), redis_try_permit_xact_lock('a')",
	'|t|f', 'two of a transaction');
$one->query_is("SELECT redis_hold_count('a')", '2');
$one->query_warns("SELECT redis_permit_unlock('a')", 'f', '01000', qr/you don't own/, 'not to be given back so');
$one->query('COMMIT');
# What is not answered soon is given back by the watchdog.
poll_until('both to come back', sub { available('a') eq '2' });
$one->query("BEGIN; SELECT redis_permit_xact_lock('a'); SAVEPOINT s; SELECT redis_permit_xact_lock('a')");
is(available('a'), 0);
$one->query('ROLLBACK TO s');
poll_until('one to come back', sub { available('a') eq '1' });
$one->query_is("SELECT redis_hold_count('a')", '1', 'one is left');
$one->query_is("SELECT redis_try_permit_lock('a')", 't', 'a session-level one beside it');
$one->query('ROLLBACK');
$one->query_is("SELECT redis_hold_count('a')", '1', 'stays');
$one->query_is("SELECT redis_permit_unlock('a')", 't');

# The ends of sessions.
foreach my $end ('DISCARD ALL', 'quit')
{
	$three->query_is("SELECT redis_permit_lock('a'), redis_permit_lock('a')", '|');
	$end eq 'quit' ? $three->quit : $three->query($end);
	poll_until("$end: both to come back", sub { available('a') eq '2' });
}
$three = $node->session;

# The permits of a session of which one is lost.
of_redis 'losses' => sub {
	$one->query_is("SELECT redis_permit_lock('a'), redis_permit_lock('a')", '|');
	my $first = $redis->cmd('ZRANGE', '{a}:timeout', 0, 0)->[0];
	$redis->cmd('ZREM', '{a}:timeout', $first);
	$redis->cmd('INCR', 'a');
	$one->query_is("SELECT redis_extend('a', '30s')", 'f', 'one is lost');
	$one->query_is("SELECT redis_hold_count('a'), redis_is_held('a')", '1|t', 'one is held');
	$one->query_fails("SELECT redis_permit_lock('a')", '55000', qr/lost/, 'no other one before that is seen');
	$one->query_warns("SELECT redis_permit_unlock('a')", 'f', '01000', qr/lost/, 'it is seen first');
	$one->query_is("SELECT redis_permit_unlock('a')", 't', 'then the other');
	is(available('a'), 2, 'both are free');

	# Taken away by force; a release that finds nothing.
	$_->query_is("SELECT redis_permit_lock('a')", '') foreach $one, $two;
	is($node->value("SELECT redis_force_unlock('a')"), 't', 'by force');
	is(numbers('a'), '2 of 2', 'all are free');
	$_->query_warns("SELECT redis_permit_unlock('a')", 'f', '01000', qr/lost/, 'lost') foreach $one, $two;
	is(numbers('a'), '2 of 2', 'that changes nothing');
	$one->query_is("SELECT redis_force_unlock('a')", 'f', 'nobody has one');

	# The semaphore is deleted, and another one made.
	$one->query_is("SELECT redis_permit_lock('a')", '');
	$redis->cmd('DEL', 'a');
	$two->query_fails("SELECT redis_permit_lock('a')", '42704', qr/number of permits of/, 'there is none');
	$two->query_is("SELECT redis_permit_init('a', 2)", 't', 'another one');
	$one->query_warns("SELECT redis_permit_unlock('a')", 'f', '01000', qr/lost/, 'its permits are its own');
	is(numbers('a'), '2 of 2', 'no more than that');
};

# By an id.
# The waiter that was cancelled may have been asking: what it asked for is released once it can no
# longer be granted, and is shown until then.
poll_until('the row of the cancelled request to go', sub { $node->count_locks == 0 });
my $id = $one->value("SELECT redis_permit_acquire('a', '60s')");
like($id, qr/^[0-9a-f]{32}$/, 'an id');
is($node->count_locks, 0, 'in no view');
$one->query_is("SELECT redis_is_held('a')", 'f', 'of no session');
is(available('a'), 1, 'one is taken');
of_redis 'what there is' =>
  sub { is(unpack('H*', $redis->cmd('ZRANGE', '{a}:timeout', 0, 0)->[0]), $id, 'its bytes') };
my $other = $two->value("SELECT redis_permit_acquire('a', '60s')");
isnt($other, $id, 'another one');
$two->query_is("SELECT redis_try_permit_acquire('a', lease => '60s') IS NULL", 't', 'no third');
$two->query_is("SELECT redis_permit_extend('a', '$id', '90s')", 't', 'kept, by whoever knows it');
of_redis 'how long' => sub {
	my ($seconds) = @{ $redis->cmd('TIME') };
	my $until = $redis->cmd('ZSCORE', '{a}:timeout', pack('H*', $id));
	ok($until / 1000 - $seconds > 61, 'for longer');
	$two->query_is("SELECT redis_permit_extend('a', '$id', '10ms')", 't', 'not for shorter');
	is($redis->cmd('ZSCORE', '{a}:timeout', pack('H*', $id)), $until, 'than before');
};
$three->query_is("SELECT redis_permit_release('a', upper('$id'))", 't', 'given back by another session');
$three->query_is("SELECT redis_permit_release('a', '$id'), redis_permit_extend('a', '$id', '60s')", 'f|f', 'not twice');
$three->start("SELECT concat_ws(' ', redis_permit_acquire('a', '60s'), redis_try_permit_acquire('a', '1h', '60s'))");
$node->wait_for_waiters('a', 1);
$one->query_is("SELECT redis_permit_release('a', '$other')", 't');
my @ids = split / /, $three->wait(60)->value;
is(scalar(@ids), 2, 'a wait');
$one->query_is("SELECT redis_permit_release('a', '$_')", 't', 'given back') foreach @ids;
$one->query_fails("SELECT redis_permit_release('a', $_->[0])", $_->[1], qr/id of a permit/, 'no id')
  foreach [ q{'x'}, '22023' ], [ 'NULL', '22004' ], [ q{repeat('g', 32)}, '22023' ];
$one->query_fails("SELECT redis_permit_acquire('a', NULL)", '22004', qr/lease/, 'nobody renews it');
$one->query_fails("SELECT redis_permit_acquire('none', '60s')", '42704', qr/number of permits of/, 'of none');
$one->query("BEGIN; CREATE TEMP TABLE kept AS SELECT redis_permit_acquire('a', '60s') AS id");
$one->query('ROLLBACK');
is(available('a'), 1, 'it outlives the transaction');
of_redis 'clean up' => sub { $redis->cmd('DEL', '{a}:timeout'); $redis->cmd('SET', 'a', 2); };

# A job.
$one->query("CREATE TABLE ran (n int)");
$one->query_is("SELECT redis_permit_init('j', 1)", 't');
$one->query_is("CALL redis_with_permit('j', 'INSERT INTO ran SELECT redis_permit_available(''j'')')", 't', 'a job');
is($node->value('SELECT string_agg(n::text, $$,$$) FROM ran'), '0', 'under its permit');
is(available('j'), 1, 'which it has given back');
$two->query_is("SELECT redis_permit_lock('j')", '');
$one->query_is("CALL redis_with_permit('j', 'INSERT INTO ran VALUES (2)')", 'f', 'none is free');
$two->query_is("SELECT redis_permit_unlock('j')", 't');
$one->query_fails("CALL redis_with_permit('j', 'SELECT 1/0')", '22012', qr/division/, 'a job that fails');
poll_until('it to come back', sub { available('j') eq '1' });
$one->query_fails("BEGIN; CALL redis_with_permit('j', 'SELECT 1')", '2D000', qr/redis_with_permit cannot run/, 'not in a transaction');
$one->query('ROLLBACK');

poll_until('no row', sub { $node->count_locks == 0 });
done_testing();
