# Copyright (c) 2026, lockredis contributors

# In a WHERE clause a lock is tried for the rows that all other conditions leave, as
# functions that ask a store cost more than any other; and what docs/reference.md says of
# LIMIT with ORDER BY: there more may be tried than are returned, but not with a subquery.
# For nothing that a guarantee speaks of.

use LockRedis::Test;

my ($node, $redis, $s) = servers(sessions => 1);

$node->safe_psql(
	'postgres', q{
	CREATE TABLE job (id int, kind text);
	INSERT INTO job SELECT i, CASE WHEN i < 50 THEN 'other' ELSE 'mine' END FROM generate_series(1, 60) i;
	CREATE FUNCTION is_mine(kind text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN kind = 'mine'; END $$;
	CREATE FUNCTION is_dear(kind text) RETURNS boolean LANGUAGE plpgsql COST 9000 AS $$ BEGIN RETURN kind = 'mine'; END $$;});

# How many keys are locked by it; all are given back.
sub locked_by ($sql)
{
	$s->value($sql);
	my $n = scalar $redis->all_keys;
	$s->query('SELECT redis_unlock_all()');
	return $n;
}

my $try = "redis_try_lock('job ' || id)";
foreach my $filter ("$try AND is_mine(kind)", "is_mine(kind) AND $try", "$try AND is_dear(kind)")
{
	is(locked_by("SELECT id FROM job WHERE $filter LIMIT 1"), 1, "$filter: one row, one lock");
	like($s->query("EXPLAIN (COSTS OFF) SELECT id FROM job WHERE $filter")->out,
		qr/Filter: \(is_\w+\(kind\) AND redis_try_lock\(/, 'the lock comes last');
}

# Locks are tried before rows are sorted and counted.
is(locked_by("SELECT id FROM job WHERE is_mine(kind) AND $try ORDER BY id LIMIT 1"),
	11, 'ORDER BY with LIMIT tries all');
is( locked_by(
		"SELECT id FROM (SELECT id FROM job WHERE is_mine(kind) ORDER BY id OFFSET 0) AS j WHERE $try LIMIT 1"
	),
	1,
	'a subquery that sorts, and is not pulled up, tries one');
is(locked_by("SELECT $try FROM job WHERE is_mine(kind) $_ LIMIT 3"), 3, "a lock that is selected: $_ LIMIT")
  foreach '', 'ORDER BY id';
is( locked_by(
		"SELECT redis_try_lock('job ' || id) FROM (SELECT id FROM job WHERE is_mine(kind) ORDER BY id LIMIT 3) AS j"
	),
	3,
	'a subquery with LIMIT tries those');

end_test($node, $redis);
