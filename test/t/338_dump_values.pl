# Copyright (c) 2026, lockredis contributors

# A dump of the database of table mode, restored at another server: latches, semaphores
# and the numbers of permits are there as they were, and fencing tokens go on; locks,
# permits that are held and semaphores whose time is over are not.  Proves G34.

use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('old', redis => $table);
my $one = $node->session;

$node->wait_for_up;
$one->query_is(q{SELECT redis_semaphore_init('s', 5), redis_semaphore_acquire('s', 2)}, 't|', 'a semaphore');
$one->query_is(q{SELECT redis_semaphore_init('short', 5, '1s'), redis_semaphore_init('long', 6, '20 days')},
	't|t', 'two that end');
$one->query_is(q{SELECT redis_latch_init('l', 3), redis_latch_count_down('l')}, 't|2', 'a latch');
$one->query_is(q{SELECT redis_permit_init('p', 4), redis_permit_lock('p')}, 't|', 'permits');
like($one->value(q{SELECT redis_permit_acquire('p', '20 days')}), qr/^[0-9a-f]{32}$/, 'one of nobody');
$one->query_is(q{SELECT redis_lock('k'), redis_read_lock('r')}, '|', 'locks');
my $token = $one->value(q{SELECT redis_fenced_lock('f')});
poll_until('the end of a semaphore',
	sub { $one->value(q{SELECT redis_semaphore_available('short')}) == 0 });

my $dump = "$PostgreSQL::Test::Utils::tmp_check/values";
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');

# The worker of the new server waits for the extension, and finds what comes with it.
my $restored = LockRedis::Node->create('new', mode => 'table', extension => 0);
command_ok([ 'pg_restore', '-e', '-d', $restored->connstr('postgres'), $dump ], 'restored');
$restored->wait_for_up;
my $new = $restored->session;
$new->query_is(
	q{SELECT redis_semaphore_available('s'), redis_semaphore_available('short'), redis_semaphore_available('long')},
	'3|0|6', 'semaphores');
$new->query_is(q{SELECT redis_latch_count('l'), redis_latch_wait('l', '0')}, '2|f', 'the latch is not open');
$new->query_is(q{SELECT redis_permit_total('p'), redis_permit_available('p')}, '4|4', 'permits: nobody has one');
$new->query_is(q{SELECT redis_is_locked('k'), redis_is_locked('r'), redis_is_locked('f')}, 'f|f|f', 'no lock');
$new->query_is(qq{SELECT redis_fenced_lock('f') > $token}, 't', 'tokens go on');
$new->query(q{SELECT redis_unlock_all()});
is($restored->value('SELECT count(*) FROM redis_lock_shares'), 0, 'no share');

# What is dumped is all of these tables.
is( $node->value(
		q{SELECT string_agg(t::regclass::text, ' ' ORDER BY t::regclass::text) FROM pg_extension, unnest(extconfig) t WHERE extname = 'lockredis'}
	),
	'redis_fences redis_lock_counters redis_lock_values',
	'tables in a dump');

$one->query('SELECT redis_unlock_all()');
end_test($node, $table, keys => qr{^p$});
