
# Copyright (c) 2026, lockredis contributors

# PostgreSQL's just-in-time compiler may take the bitcode of our functions into a
# query of its own.  What they call is hidden from everybody but the library: the
# compiled query must find it all the same, or leave the call alone.

use LockRedis::Test;

my ($node, $redis) = servers(
	settings => {
		'jit' => 'on',
		'jit_above_cost' => 0,
		'jit_inline_above_cost' => 0,
		'jit_optimize_above_cost' => 0,
		'jit_dump_bitcode' => 'on'
	});

plan skip_all => 'PostgreSQL cannot compile here'
  if $node->value('SELECT pg_jit_available()') ne 't';

my $session = $node->session;
my $keys = q{FROM generate_series(1, 3) AS i};

like(
	$session->query("EXPLAIN ANALYZE SELECT redis_is_locked('no' || i) $keys")
	  ->out,
	qr/Inlining true/,
	'queries are compiled, with what they call');

# Each function in a query of its own, so that each is compiled.
my @calls = (
	[ 'redis_lock(key)', '' ],
	[ 'redis_try_lock(key)', 't' ],
	[ 'redis_hold_count(key)', '2' ],
	[ 'redis_is_held(key)', 't' ],
	[ 'redis_is_locked(key)', 't' ],
	[ 'redis_assert_held(key)', '' ],
	[ q{redis_extend(key, '1 min')}, 't' ],
	[ 'redis_lock_ttl(key) IS NOT NULL', 't' ],
	[ 'redis_lock_owner(key) IS NOT NULL', 't' ],
	[ 'redis_unlock(key)', 't' ]);

for my $call (@calls)
{
	my ($sql, $expected) = @$call;
	my $result = $session->query(
		"SELECT $sql FROM (SELECT 'key' || i AS key $keys) AS keys");

	is($result->error, undef, "$sql: no error");
	is($result->out, join("\n", ($expected) x 3), "$sql: right");
}

# Not by luck: whether the body of a function ends up in the query is the
# compiler's own decision, with each of its versions, but its code is not there.
my $queries = join '', map { PostgreSQL::Test::Utils::slurp_file($_) }
  glob $node->data_dir . '/*.bc';
like($queries, qr/lockredis_unlock/, 'the calls are in the compiled queries');
ok($queries !~ /session_unlock/, 'what they call in turn is not');

$session->query_is("SELECT count(*) FROM redis_locks WHERE key ~ '^key'",
	'3', 'the views too');
$session->query_is("SELECT redis_unlock_all()", '3', 'all is given back');

done_testing();
