# Copyright (c) 2026, lockredis contributors

# Whatever belongs to the extension, as pg_depend has it, with all that hangs on it (types,
# indexes, rules, triggers, constraints, columns with privileges), stands in a list, and so does
# what a role can do with it:
# - one that has nothing but what PUBLIC has, and a member of pg_monitor
# - members of pg_read_all_data and pg_write_all_data
# - the owner of the schema, and that of the database
# - one that may create in a schema of everybody's search_path
# What nobody has judged fails here, as is shown with a planted function, view, table and others.
# What PUBLIC may do with each function is in 325_functions, what somebody can put in front of
# names that the extension uses in 321_search_path.
# Proves G33.

use LockRedis::Test;
use LockRedis::Topic::Rights;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, extension => 0);

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE bob LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_data;
CREATE ROLE writer LOGIN IN ROLE pg_write_all_data;
CREATE ROLE keeper LOGIN;
CREATE ROLE landlord LOGIN;
CREATE ROLE hostile LOGIN;
CREATE DATABASE app OWNER landlord;
SQL
$node->safe_psql('app', <<'SQL');
CREATE SCHEMA lockredis AUTHORIZATION keeper;
GRANT USAGE ON SCHEMA lockredis TO PUBLIC;
CREATE SCHEMA common;
GRANT USAGE ON SCHEMA common TO PUBLIC;
GRANT CREATE ON SCHEMA common TO hostile;
CREATE SCHEMA mine;
GRANT ALL ON SCHEMA mine TO PUBLIC;
ALTER DATABASE app SET search_path = lockredis, common;
CREATE EXTENSION lockredis SCHEMA lockredis;
SQL
my @roles = qw(bob monitor reader writer keeper landlord hostile);
my $admin = $node->session(dbname => 'app', quiet => 1);

# ----------
# What there is
# ----------

# Names without the schema; those of types that are made for a table, and of indexes for keys,
# follow from the table.
sub parts
{
	my $all = $admin->query(<<'SQL');
WITH RECURSIVE part AS (
	SELECT d.classid, d.objid FROM pg_depend d
	  JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
	 WHERE e.extname = 'lockredis' AND d.deptype = 'e'
	UNION
	SELECT d.classid, d.objid FROM pg_depend d
	  JOIN part p ON d.refclassid = p.classid AND d.refobjid = p.objid
	 WHERE d.deptype IN ('i', 'a'))
SELECT replace(type || ' ' || identity, 'lockredis.', '') FROM part, pg_identify_object(classid, objid, 0)
 -- Since PostgreSQL 18 NOT NULL is a constraint of its own.
 WHERE objid NOT IN (SELECT oid FROM pg_constraint WHERE contype = 'n')
UNION ALL
SELECT replace(a.attrelid::regclass || '.' || a.attname || ' ' || a.attacl::text, 'lockredis.', '') FROM pg_attribute a
  JOIN part p ON p.objid = a.attrelid AND p.classid = 'pg_class'::regclass
 WHERE a.attacl IS NOT NULL
SQL
	return map { s/pg_catalog\.//gr =~ s/pg_toast_\d+/pg_toast/gr } split /\n/, $all->out;
}

my %parts;
foreach my $signature (keys %judged)
{
	my $type = $signature =~ /^redis_(?:with|await)_/ ? 'procedure' : 'function';

	$parts{"$type $signature"} = 1;
}
foreach my $name (keys %relations)
{
	$parts{"type $name"} = $parts{"type $name\[]"} = 1;
	if ($relations{$name} =~ /^v/)
	{
		$parts{"view $name"} = $parts{qq(rule "_RETURN" on $name)} = 1;
		next;
	}
	$parts{$_} = 1
	  foreach "table $name", "table constraint ${name}_pkey on $name", "index ${name}_pkey",
	  "trigger lockredis_replicated on $name", "trigger lockredis_replicated_truncate on $name",
	  'toast table pg_toast.pg_toast', 'index pg_toast.pg_toast_index';
}
$parts{"default value for redis_lock_rows.$_"} = 1 foreach qw(acquired_at hold_count);
$parts{'table constraint redis_fences_token_check on redis_fences'} = 1;

# What is there and nobody has judged
sub unknown { return join ', ', grep { !$parts{$_} } sort(parts()); }

my %there = map { $_ => 1 } parts();
is(unknown(), '', 'all parts of the extension were judged');
is(join(', ', grep { !$there{$_} } sort keys %parts), '', 'and what was judged is there');

# Whatever is added, and however, is found.
foreach my $case (
	[ "FUNCTION planted() RETURNS int LANGUAGE sql AS 'SELECT 1'", 'function planted()' ],
	[ "PROCEDURE planted() LANGUAGE sql AS ''", 'procedure planted()' ],
	[ 'TABLE planted ()', 'table planted', 'type planted, type planted[]' ],
	[ 'VIEW planted AS SELECT 1', 'view planted' ],
	[ 'SEQUENCE planted', 'sequence planted' ],
	[ 'TYPE planted AS ENUM ()', 'type planted' ],
	[ 'DOMAIN planted AS int', 'type planted' ])
{
	my ($object, $found) = @$case;
	my ($kind) = $object =~ /^(\w+)/;

	$admin->query("BEGIN; CREATE $object; ALTER EXTENSION lockredis ADD $kind planted");
	like(unknown(), qr/(?:^|, )\Q$found\E(?:,|$)/, "CREATE $object: found");
	$admin->query('ROLLBACK');
}
foreach my $case (
	[ 'GRANT UPDATE (token) ON redis_fences TO bob', 'redis_fences.token {bob=w/postgres}' ],
	[ 'CREATE POLICY p ON redis_fences', 'policy p on redis_fences' ],
	[ 'ALTER TABLE redis_lock_rows ALTER lease SET DEFAULT $$1s$$', 'default value for redis_lock_rows.lease' ],
	[ 'CREATE TRIGGER t BEFORE INSERT ON redis_fences EXECUTE FUNCTION lockredis_replicated()', 'trigger t on redis_fences' ])
{
	my ($sql, $found) = @$case;

	$admin->query("BEGIN; $sql");
	is(unknown(), $found, "$sql: found");
	$admin->query('ROLLBACK');
}
is(unknown(), '', 'and nothing else');

# ----------
# Who may use it
# ----------

# What each role may call besides what all may, and do with tables, views and their columns
my %may = (
	reader => { map { $_ => 'SELECT' } keys %relations },
	writer => {
		map { $_ => join ' ', sort('DELETE', 'INSERT', 'UPDATE', $relations{$_} =~ /SELECT/ ? 'SELECT' : ()) }
		  keys %relations
	});
foreach my $role (@roles)
{
	my $calls = $admin->query(<<"SQL")->out;
SELECT p.oid::regprocedure FROM pg_proc p
 WHERE p.pronamespace = 'lockredis'::regnamespace AND has_function_privilege('$role', p.oid, 'EXECUTE')
SQL
	my %called = map { $_ => 1 } split /\n/, $calls;
	is_deeply(
		\%called,
		{ map { $_ => 1 } grep { $judged{$_}{all} } keys %judged },
		"$role: calls what all may call");

	my %rights = map { split /\|/, $_, 2 } split /\n/, $admin->query(<<"SQL")->out;
SELECT c.relname, (SELECT coalesce(string_agg(p, ' ' ORDER BY p), '')
	  FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS p
	 WHERE has_table_privilege('$role', c.oid, p) OR p <> ALL ('{DELETE,TRUNCATE,TRIGGER}') AND has_any_column_privilege('$role', c.oid, p))
  FROM pg_class c WHERE c.relnamespace = 'lockredis'::regnamespace AND c.relkind IN ('r', 'v')
SQL
	is_deeply(
		\%rights,
		$may{$role} // { map { $_ => $relations{$_} =~ s/^\w ?//r } keys %relations },
		"$role: tables and views");
}

# ----------
# What can be done to it
# ----------

# A statement that succeeds is undone.
$admin->query(<<'SQL');
CREATE FUNCTION common.attempt(sql text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	RAISE SQLSTATE 'ZZ000';
EXCEPTION
	WHEN SQLSTATE 'ZZ000' THEN RETURN true;
	WHEN OTHERS THEN RETURN false;
END $$;
SQL
my @to_table = (
	'ALTER TABLE %s ADD i int',
	'ALTER TABLE %s OWNER TO CURRENT_USER',
	'ALTER TABLE %s SET SCHEMA common',
	'ALTER TABLE %s RENAME TO renamed',
	'ALTER TABLE %s DISABLE TRIGGER ALL',
	'ALTER TABLE %s ENABLE ROW LEVEL SECURITY',
	'DROP TABLE %s',
	'DROP TABLE %s CASCADE',
	'TRUNCATE %s',
	'CREATE INDEX ON %s (key)',
	'CREATE TRIGGER t BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
	'CREATE RULE r AS ON UPDATE TO %s DO INSTEAD NOTHING',
	'CREATE POLICY p ON %s',
	'CREATE STATISTICS mine.s ON (lower(key)) FROM %s',
	'CREATE TABLE mine.t () INHERITS (%s)',
	'CREATE TABLE mine.t (key text REFERENCES %s)',
	'CREATE PUBLICATION p FOR TABLE %s',
	'COMMENT ON TABLE %s IS NULL',
	'REINDEX TABLE %s',
	'LOCK TABLE %s',
	'LOCK TABLE %s IN ROW SHARE MODE',
	'SELECT FROM %s FOR KEY SHARE',
	'DELETE FROM %s');
my @to_function = (
	'DROP FUNCTION %s',
	'DROP FUNCTION %s CASCADE',
	'ALTER FUNCTION %s SECURITY DEFINER',
	'ALTER FUNCTION %s SET search_path = common',
	'ALTER FUNCTION %s OWNER TO CURRENT_USER',
	'ALTER FUNCTION %s RENAME TO renamed',
	'ALTER FUNCTION %s SET SCHEMA common',
	'COMMENT ON FUNCTION %s IS NULL');
my @to_all = (
	'ALTER EXTENSION lockredis UPDATE',
	'ALTER EXTENSION lockredis ADD FUNCTION common.attempt(text)',
	'ALTER EXTENSION lockredis DROP TABLE redis_fences',
	'ALTER EXTENSION lockredis SET SCHEMA common',
	'DROP EXTENSION lockredis',
	'ALTER SCHEMA lockredis RENAME TO renamed',
	'DROP SCHEMA lockredis CASCADE',
	'CREATE FUNCTION lockredis.redis_lock(text) RETURNS void LANGUAGE sql AS $$SELECT$$',
	'CREATE OR REPLACE FUNCTION lockredis.redis_unlock_all() RETURNS bigint LANGUAGE sql AS $$SELECT 1$$',
	'CREATE OR REPLACE VIEW lockredis.redis_locks AS SELECT 1',
	'DROP VIEW lockredis.redis_locks',
	'ALTER VIEW lockredis.redis_locks OWNER TO CURRENT_USER');

# What succeeds.  Who writes all data can take any lock away: docs/security.md.
my @tables = map { "lockredis.$_" } grep { $relations{$_} =~ /^r/ } sort keys %relations;
my %can = (
	keeper => [
		'DROP SCHEMA lockredis CASCADE',
		'CREATE FUNCTION lockredis.redis_lock(text) RETURNS void LANGUAGE sql AS $$SELECT$$'
	],
	writer => [
		(map { ("LOCK TABLE $_", "LOCK TABLE $_ IN ROW SHARE MODE", "DELETE FROM $_") } @tables),
		'SELECT FROM lockredis.redis_fences FOR KEY SHARE'
	]);

sub filled ($templates, @names)
{
	return map { my $name = $_; map { sprintf $_, $name } @$templates } @names;
}

my @attempts = (
	@to_all,
	filled(\@to_table, @tables),
	filled(\@to_function, map { "lockredis.$_" } grep { !/^redis_(?:with|await)/ } sort keys %judged));

# Those that come to this; thousands, so in one statement
sub attempted ($session, $outcome)
{
	my $list = join ', ', map { "\$sql\$$_\$sql\$" } @attempts;

	return split /\n/, $session->query(
		"SELECT sql FROM unnest(ARRAY[$list]) AS sql WHERE common.attempt(sql) = $outcome")->out;
}

foreach my $role (@roles)
{
	my $session = $node->session(dbname => 'app', user => $role, quiet => 1);
	my @done = attempted($session, 'true');

	is_deeply([ sort @done ], [ sort @{ $can{$role} // [] } ], "$role: what can be done");
	$session->quit;
}

# What fails for a superuser too says nothing about others: a part of the extension is not to be
# dropped, or is not of that form.
is_deeply(
	[ sort grep { !/^DROP (?:FUNCTION|TABLE|VIEW)/ } attempted($admin, 'false') ],
	[
		'ALTER EXTENSION lockredis SET SCHEMA common',
		'CREATE OR REPLACE VIEW lockredis.redis_locks AS SELECT 1',
		map { "CREATE TABLE mine.t (key text REFERENCES lockredis.$_)" }
		  qw(redis_lock_shares redis_lock_values)
	],
	'a superuser can do nearly all of it');

# Maintenance is no transaction's: the owner of the schema, or of the database, can keep the
# tables of table mode locked by it.
foreach my $case (
	[ 'bob', 'REINDEX SCHEMA lockredis', qr/must be owner of schema/ ],
	[ 'keeper', 'REINDEX SCHEMA lockredis', qr/^$/ ],
	[ 'keeper', 'VACUUM FULL redis_lock_rows', qr/permission denied to vacuum|skipping/ ],
	[ 'landlord', 'VACUUM FULL redis_lock_rows', qr/^$/ ])
{
	my ($role, $sql, $expected) = @$case;
	my $session = $node->session(dbname => 'app', user => $role);

	like($session->query($sql)->{raw}, $expected, "$role: $sql");
	$session->quit;
}

# ----------
# One that may create in a schema of everybody's search_path
# ----------

$admin->query('CREATE TABLE common.witness (what text); GRANT ALL ON common.witness TO PUBLIC');
my $hostile = $node->session(dbname => 'app', user => 'hostile');
my $made = $hostile->query(<<'SQL');
SET search_path = common;
CREATE FUNCTION tell(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO common.witness VALUES (what);
	RETURN true;
END $$;
CREATE FUNCTION redis_lock(pg_catalog.text) RETURNS boolean LANGUAGE sql AS $$SELECT common.tell('redis_lock of one')$$;
CREATE FUNCTION redis_lock(pg_catalog.text, pg_catalog.text) RETURNS boolean LANGUAGE sql AS $$SELECT common.tell('redis_lock of two')$$;
SQL
is($made->error, undef, 'objects of a hostile role');

sub told
{
	return $admin->value(
		q{SELECT coalesce(string_agg(DISTINCT what, ', '), '') FROM common.witness});
}

# 321_search_path has what it can put in front of names that the extension uses.  A call without
# the schema is another matter: a function in another schema of the path that
# fits better gets it, also from behind (docs/security.md).
$admin->query('SET search_path = lockredis, common');
$admin->query("SELECT redis_lock('k'), redis_unlock('k')");
is(told(), '', 'one argument: the first schema of the path');
$admin->query("SELECT redis_lock('k', '5s')");
is(told(), 'redis_lock of two', 'two texts: what fits better, from behind');
$admin->query('TRUNCATE common.witness');
$admin->query_is("SELECT lockredis.redis_lock('k', '5s'), lockredis.redis_unlock('k')", '|t', 'with the schema');
$admin->query_is("SELECT redis_lock('k', lease => '5s'), redis_unlock('k')", '|t', 'by the name of the argument');
is(told(), '', 'ours');

$_->quit foreach $admin, $hostile;
$node->safe_psql('app', 'DROP EXTENSION lockredis');
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
end_test($node, $redis);
