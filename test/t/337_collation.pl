# Copyright (c) 2026, lockredis contributors

# Keys of all tables are compared byte by byte: when the collation of the database changes,
# as with another libc or ICU, and nobody reindexes, no key is missed in an index, and no
# token that was refused passes.  The update from 1.0 brings order into a fence table that
# has got a second row for a key that way.  Proves G16, G34.

use LockRedis::Test;

my ($node, $redis) = LockRedis::Node->create_with_redis('main');


# ----------
# All of them
# ----------

is( $node->value(<<'SQL'), '', 'no key of an index has a collation that can change');
SELECT string_agg(i.indexrelid::regclass || ': ' || co.collname, ', ')
  FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'lockredis'
  JOIN pg_index i ON i.indrelid = d.objid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e',
  unnest(i.indcollation) c JOIN pg_collation co ON co.oid = c
 WHERE co.collname <> 'C'
SQL

# ----------
# A collation that changes
# ----------

# Mixed cases and numbers are where orders differ.
my $keys = q{SELECT n, (ARRAY['a', 'A', 'b', 'B', 'Ab', 'aB', 'job 2', 'job 10', 'Job 2', 'Job 10', 'z', 'Z'])[1 + n % 12] || ':' || n AS key FROM generate_series(1, 144) n};

$node->safe_psql('postgres', $_) foreach
  q{CREATE DATABASE moved TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'},
  q{CREATE DATABASE first TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'};
$node->safe_psql('moved', 'CREATE EXTENSION lockredis');
$node->safe_psql('first', q{CREATE EXTENSION lockredis VERSION '1.0'});

# Stands for another version of the library: strings sort otherwise from now on.
sub change_collation ($dbname)
{
	my $column = $node->value(
		q{SELECT attname FROM pg_attribute WHERE attrelid = 'pg_database'::regclass AND attname IN ('daticulocale', 'datlocale')}
	);

	$node->safe_psql('postgres',
		"UPDATE pg_database SET $column = 'en-US-u-kn-true-kf-upper-co-emoji' WHERE datname = '$dbname'");
	return;
}

# How many of the keys take a token that is lower than the one they have.
my $lower = <<"SQL";
CREATE FUNCTION pg_temp.passes(key text, token bigint) RETURNS boolean LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM redis_fence_check(key, token);
	RETURN true;
EXCEPTION WHEN SQLSTATE '23000' THEN
	RETURN false;
END \$\$;
SELECT count(*) FILTER (WHERE pg_temp.passes(key, 50)) FROM ($keys) k
SQL

foreach my $dbname ('moved', 'first')
{
	my $s = $node->session(dbname => $dbname);

	$s->query_is("SELECT count(redis_fence_check(key, 100)) FROM ($keys) k", 144, "$dbname: recorded");
	$s->quit;
	change_collation($dbname);
}

my $moved = $node->session(dbname => 'moved');
$moved->query_is($lower, "0", 'no lower token passes');
$moved->query_is('SELECT count(*), count(DISTINCT key), min(token) FROM redis_fences', '144|144|100',
	'each key has its row');
$moved->query_is("SELECT count(redis_fence_forget(key)) FROM ($keys) k", 144, 'each is found');
$moved->quit;

# With 1.0 it has happened; then the update.
my $first = $node->session(dbname => 'first');
cmp_ok($first->query($lower)->out =~ s/.*\n//sr, '>', 0, '1.0: lower tokens pass');
$first->query_is('SELECT count(*) > 144, count(DISTINCT key COLLATE "C") FROM redis_fences', 't|144',
	'1.0: keys have two rows');
is($first->query('ALTER EXTENSION lockredis UPDATE')->error, undef, 'updated');
$first->query_is('SELECT count(*), count(DISTINCT key), min(token) FROM redis_fences', '144|144|100',
	'updated: one row each, with the highest token');
$first->query_is("SELECT count(*) FILTER (WHERE pg_temp.passes(key, 99)) FROM ($keys) k", 0,
	'updated: no lower token passes');
end_test($node, $redis);
