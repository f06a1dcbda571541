# Copyright (c) 2026, lockredis contributors

# Semaphores and latches: each function and its results, arguments and errors; waits in
# their order, those that are woken by another session or server, limits and cancels; what
# is counted when a transaction has committed, and what is not; the rows of redis_locks.

use LockRedis::Test;

my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis);
my $other = $node->another('other', redis => $redis);
my ($one, $two, $three) = map { $node->session } 1 .. 3;
my $far = $other->session;
my $soon = limit(60);

$_->wait_for_up foreach $node, $other;

sub available ($key) { return $node->value("SELECT redis_semaphore_available('$key')"); }

sub left ($key) { return $node->value("SELECT redis_latch_count('$key')"); }

sub has_end ($key)
{
	return $node->value("SELECT expires_at IS NOT NULL FROM redis_lock_values WHERE key = '$key'") eq 't'
	  if $node->value('SHOW lockredis.mode') eq 'table';
	return $redis->cmd('PTTL', $key) > 0;
}

sub rows { return $node->value(q{SELECT count(*) FROM redis_locks}); }

# A commit waits a moment for its answers, and leaves to the watchdog what it has not got by
# then: the row stays until that is counted.
sub all_counted { return poll_until('all to be counted', sub { rows() == 0 }); }

# What a loop takes and its function returns leaves no record for each round.
my $memory = q{(SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext')};
$one->query_is(qq{DO \$\$ DECLARE ok bool; before bigint; BEGIN
	PERFORM redis_semaphore_init('loop', 1);
	FOR i IN 1 .. 300 LOOP
		FOR ok IN SELECT redis_try_semaphore_acquire('loop') LOOP END LOOP;
		PERFORM redis_semaphore_release('loop');
		before := COALESCE(before, $memory);
	END LOOP;
	ASSERT $memory < before + 16384; END \$\$}, '', 'a loop over what is taken');

#
# A semaphore
#
$one->query_is("SELECT redis_semaphore_available('s'), redis_semaphore_drain('s'), "
	. "redis_try_semaphore_acquire('s')", '0|0|f', 'there is none');
$one->query_is("SELECT redis_semaphore_init('s', 3), redis_semaphore_init('s', 5)", 't|f', 'made once');
$one->query_is("SELECT redis_semaphore_acquire('s', 2), redis_semaphore_available('s')", '|1', 'two taken');
$far->query_is("SELECT redis_try_semaphore_acquire('s', 2), redis_try_semaphore_acquire('s')",
	'f|t', 'all or none');
$far->query_is("SELECT redis_semaphore_release('s', 3), redis_semaphore_available('s')", '|3',
	'given back by another session');
$one->query_is("SELECT redis_semaphore_add('s', -5), redis_semaphore_available('s')", '|-2', 'smaller');
$one->query_is("SELECT redis_semaphore_drain('s'), redis_semaphore_available('s')", '-2|0', 'to zero');
$one->query_is("SELECT redis_semaphore_add('s', 4), redis_semaphore_drain('s'), redis_semaphore_drain('s')",
	'|4|0', 'drained');
$one->query_is("SELECT redis_semaphore_release('made'), redis_semaphore_available('made')", '|1',
	'a release makes it');
$one->query_is("SELECT redis_semaphore_init('zero', 0), redis_semaphore_available('zero')", 't|0', 'none free');
$one->query_is("SELECT redis_semaphore_init('short', 1, '10ms')", 't', 'for a time');
poll_until('its end', sub { $one->value("SELECT redis_semaphore_init('short', 1)") eq 't' });
$one->query_is("SELECT redis_semaphore_add('new', 2), redis_semaphore_available('new')", '|2', 'add makes it');

# Set, whatever it was; its end, too.
$one->query_is("SELECT redis_semaphore_set('set', 2), redis_semaphore_acquire('set'), redis_semaphore_available('set')",
	'||1', 'set makes it');
$one->query_is("SELECT redis_semaphore_set('set', 7), redis_semaphore_available('set')", '|7', 'larger');
$one->query_is("SELECT redis_semaphore_set('set', 0), redis_semaphore_available('set')", '|0', 'none free');
$one->query_is("SELECT redis_semaphore_set('set', 3, '1h')", '', 'for a time');
ok(has_end('set'), 'it has an end');
$one->query_is("SELECT redis_semaphore_set('set', 3)", '', 'for good');
ok(!has_end('set'), 'it has none any more');
$one->query_is("SELECT redis_semaphore_set('set', 3, '10ms')", '', 'for a moment');
poll_until('its end', sub { $one->value("SELECT redis_semaphore_init('set', 1)") eq 't' });

# What a session has taken stays taken, whatever becomes of it.
$three->query("BEGIN; SELECT redis_semaphore_acquire('new'); ROLLBACK");
is(available('new'), 1, 'a rollback gives nothing back');
$three->query("SELECT redis_semaphore_acquire('new')");
$three->quit;
is(available('new'), 0, 'nor does the end of the session');
$three = $node->session;

#
# Arguments
#
$one->query_fails("SELECT $_", '22023', qr/number of permits must be at least/, $_)
  foreach "redis_semaphore_init('x', -1)", "redis_semaphore_acquire('x', 0)",
  "redis_try_semaphore_acquire('x', -1)", "redis_semaphore_release('x', 0)",
  "redis_semaphore_xact_release('x', 0)", "redis_semaphore_set('x', -1)";
$one->query_fails("SELECT $_('x', 0)", '22023', qr/count must be between/) foreach 'redis_latch_init', 'redis_latch_set';
$one->query_fails("SELECT $_", '22004', qr/must not be null/, $_)
  foreach "redis_semaphore_init('x', NULL)", "redis_semaphore_acquire(NULL)",
  "redis_latch_init('x', NULL)", "redis_latch_wait(NULL)", "redis_semaphore_add('x', NULL)",
  "redis_semaphore_set('x', NULL)", "redis_latch_set('x', NULL)",
  "redis_try_semaphore_acquire('x', 1, NULL)";
$one->query_fails("SELECT redis_latch_wait('x', '-1s')", '22023', qr/wait must not be negative/);

of_redis('a table knows no other values', sub {
	$redis->cmd('SET', 'text', 'no number');
	$redis->cmd('HSET', 'hash', 'f', 1);
	$one->query_fails("SELECT $_", '42809', qr/does not hold a (semaphore|latch)/, $_)
	  foreach map {
		my $key = $_;

		map { "$_->[0]('$key'$_->[1])" } (
			[ 'redis_semaphore_init', ', 1' ], [ 'redis_semaphore_acquire', '' ],
			[ 'redis_semaphore_set', ', 1' ], [ 'redis_latch_set', ', 1' ],
			[ 'redis_semaphore_release', '' ], [ 'redis_semaphore_add', ', 1' ],
			[ 'redis_semaphore_drain', '' ], [ 'redis_semaphore_available', '' ],
			[ 'redis_latch_init', ', 1' ], [ 'redis_latch_count_down', '' ],
			[ 'redis_latch_count', '' ], [ 'redis_latch_wait', '' ],
			[ 'redis_latch_delete', '' ]);
	  } 'text', 'hash';
	is($redis->cmd('GET', 'text'), 'no number', 'untouched');

	# What the number cannot be: nothing is counted, and the ticket is taken back.
	$redis->cmd('SET', 'large', '9223372036854775807');
	$one->query_fails("SELECT redis_semaphore_release('large')", '58030', qr/overflow/, 'overflow');
	is($redis->cmd('ZCARD', 'lockredis_tickets:{large}') // 0, 0, 'no ticket');
	$one->query_fails("SELECT redis_semaphore_available('large')", '22003', qr/out of range/, 'too many');
	$redis->cmd('DEL', 'large', 'text', 'hash');

	# One ticket a session at most is left, and for an hour.
	$one->query("SELECT redis_semaphore_release('s'), redis_semaphore_acquire('s') FROM generate_series(1, 10)");
	cmp_ok($redis->cmd('ZCARD', 'lockredis_tickets:{s}'), '<=', 3, 'tickets that were answered are removed');
	cmp_ok($redis->cmd('PTTL', 'lockredis_tickets:{s}'), '>', 3_000_000, 'they last');
	cmp_ok($redis->cmd('PTTL', 'lockredis_tickets:{s}'), '<=', 3_600_000, 'an hour');
});

#
# Waiting for permits: in the order of this server, each who got them lets the next look
#
$one->query("SELECT redis_semaphore_init('w', 0)");
$node->queue_up('w', $one => "SELECT redis_semaphore_acquire('w', 2)",
	$two => "SELECT redis_semaphore_acquire('w')", $three => "SELECT redis_semaphore_acquire('w')");
is($node->value(q{SELECT string_agg(DISTINCT kind || ' ' || scope || ' ' || granted, ',')
	FROM redis_locks WHERE key = 'w'}), 'semaphore session false', 'the view');
$far->query("SELECT redis_semaphore_release('w')");
is(rows(), 3, 'not enough for the first, who lets nobody pass');
$far->query("SELECT redis_semaphore_release('w', 3)");
is($_->wait($soon)->error, undef, 'woken') foreach $one, $two, $three;
is(available('w'), 0, 'all taken');
is(rows(), 0, 'no rows');
$one->query_is("SELECT redis_try_semaphore_acquire('w', 1, '50ms')", 'f', 'a limit');
$one->query_fails("SET lock_timeout = '50ms'; SELECT redis_semaphore_acquire('w')", '55P03',
	qr/lock timeout/, 'lock_timeout');
$one->query('SET lock_timeout = 0');
$node->queue_up('w', $one => "SELECT redis_semaphore_acquire('w')",
	$two => "SELECT redis_semaphore_acquire('w')");
$one->cancel;
$one->wait($soon)->fails('57014', qr/user request/, 'cancelled');
$far->query("SELECT redis_semaphore_release('w')");
is($two->wait($soon)->error, undef, 'the next');

# A semaphore that is made while it is awaited
$node->queue_up('later', $one => "SELECT redis_semaphore_acquire('later')");
$far->query_is("SELECT redis_semaphore_init('later', 2)", 't');
is($one->wait($soon)->error, undef, 'made');
$node->queue_up('later', $one => "SELECT redis_semaphore_acquire('later', 3)");
$far->query("SELECT redis_semaphore_add('later', 2)");
is($one->wait($soon)->error, undef, 'made larger');
$node->queue_up('later', $one => "SELECT redis_semaphore_acquire('later', 3)");
$far->query("SELECT redis_semaphore_set('later', 3)");
is($one->wait($soon)->error, undef, 'set');

#
# A latch
#
$one->query_is("SELECT redis_latch_count('l'), redis_latch_wait('l'), redis_latch_delete('l'), "
	. "redis_latch_count_down('l')", '0|t|f|0', 'there is none');
$one->query_is("SELECT redis_latch_init('l', 3), redis_latch_init('l', 9), redis_latch_count('l')", 't|f|3');
$one->query_is("SELECT redis_latch_wait('l', '0'), redis_latch_wait('l', '10ms')", 'f|f', 'not yet');
$node->queue_up('l', $one => "SELECT redis_latch_wait('l')", $two => "SELECT redis_latch_wait('l')",
	$three => "SELECT redis_latch_wait('l', '1h')");
is($node->value(q{SELECT string_agg(DISTINCT kind || ' ' || granted, ',')
	FROM redis_locks WHERE key = 'l' AND waiting_since IS NOT NULL}), 'latch false', 'the view');
$far->query_is("SELECT redis_latch_count_down('l'), redis_latch_count_down('l')", '2|1', 'counted down');
poll_until('only them to wait', sub { rows() == 3 });
$far->query_is("SELECT redis_latch_count_down('l')", '0', 'open');
is($_->wait($soon)->out, 't', 'notified') foreach $one, $two, $three;
is(left('l'), 0, 'and gone');
$one->query_is("SELECT redis_latch_set('l', 1), redis_latch_count('l')", '|1', 'set makes it');
$node->queue_up('l', $one => "SELECT redis_latch_wait('l')");
$far->query_is("SELECT redis_latch_set('l', 2), redis_latch_count_down('l')", '|1', 'set, whatever was left');
poll_until('one to go on waiting', sub { rows() == 1 });
$far->query_is("SELECT redis_latch_count_down('l')", '0', 'open');
is($one->wait($soon)->out, 't', 'notified');
$one->query("SELECT redis_latch_init('l', 3)");
$node->queue_up('l', $one => "SELECT redis_latch_wait('l')", $two => "SELECT redis_latch_wait('l')");
$far->query_is("SELECT redis_latch_delete('l')", 't', 'taken away');
is($_->wait($soon)->out, 't', 'notified') foreach $one, $two;

#
# When the transaction has committed
#
$one->query("SELECT redis_latch_init('x', 10), redis_semaphore_init('x2', 0)");
$one->query("BEGIN; SELECT redis_latch_xact_count_down('x'), redis_latch_xact_count_down('x'), "
	. "redis_semaphore_xact_release('x2', 5)");
is(left('x') . available('x2'), '100', 'not before');
is($node->value(q{SELECT string_agg(kind || ' ' || scope || ' ' || granted || ' ' || hold_count, ','
	ORDER BY key) FROM redis_locks}), 'latch transaction false 2,semaphore transaction false 5', 'a row each');
$one->query('COMMIT');
all_counted();
is(left('x') . ' ' . available('x2'), '8 5', 'counted by the commit');
is(rows(), 0, 'no row');
$one->query("BEGIN; SELECT redis_latch_xact_count_down('x'); ROLLBACK");
is(left('x'), 8, 'a rollback counts nothing');
$one->query("BEGIN; SELECT redis_latch_xact_count_down('x'); SAVEPOINT a; SELECT redis_latch_xact_count_down('x'); "
	. "SAVEPOINT b; SELECT redis_latch_xact_count_down('x'), redis_semaphore_xact_release('x2'); "
	. 'ROLLBACK TO b; RELEASE a; SAVEPOINT c');
is($node->value('SELECT sum(hold_count) FROM redis_locks'), 2, 'what the savepoint has taken back');
$one->query("SELECT redis_semaphore_xact_release('x2'); ROLLBACK TO c; COMMIT");
all_counted();
is(left('x') . ' ' . available('x2'), '6 5', 'but for what was rolled back');
$one->query(q{DO $$ BEGIN PERFORM redis_latch_xact_count_down('x'); RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END $$});
is(left('x'), 6, 'a block that has failed');
$one->query(q{DO $$ BEGIN PERFORM redis_latch_xact_count_down('x'); COMMIT; PERFORM redis_latch_xact_count_down('x'); END $$});
all_counted();
is(left('x'), 4, 'commits of a procedure');
$one->query_fails("BEGIN; SELECT redis_latch_xact_count_down('x'); SELECT 1/0", '22012', qr/division/);
$one->query('ROLLBACK');
is(left('x'), 4, 'an error');
$one->query("SELECT count(redis_latch_xact_count_down('many' || i % 300)) FROM generate_series(1, 900) i, "
	. "(SELECT count(redis_latch_init('many' || j, 5)) FROM generate_series(0, 299) j) made");
all_counted();
is($node->value("SELECT sum(redis_latch_count('many' || j)) FROM generate_series(0, 299) j"), 600, 'many');
is(rows(), 0, 'no row');
$one->query_fails("BEGIN; SELECT redis_latch_xact_count_down('x'); PREPARE TRANSACTION 'p'", '0A000',
	qr/cannot PREPARE a transaction that changes counts in Redis/, 'not prepared');
is(left('x'), 4, 'and nothing is counted');
is(rows(), 0, 'no row');
$three->start("BEGIN; SELECT redis_latch_xact_count_down('x')");
$three->wait($soon);
$three->terminate;
poll_until('no row', sub { rows() == 0 });
is(left('x'), 4, 'a session that ends');

# Visible before it is counted
$one->query('CREATE TABLE t (a int)');
$one->query("SELECT redis_latch_init('v', 1)");
$node->queue_up('v', $two => "SELECT redis_latch_wait('v')");
$one->query("BEGIN; SELECT redis_latch_xact_count_down('v'); INSERT INTO t VALUES (1); COMMIT");
is($two->wait($soon)->out, 't', 'notified');
$two->query_is('SELECT count(*) FROM t', 1, 'what was committed is there');

of_redis('in a table the numbers are rows', sub {
	nothing_left([ $node, $other ], $redis, keys => qr/./);
});
done_testing();
