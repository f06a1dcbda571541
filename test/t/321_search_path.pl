# Copyright (c) 2026, lockredis contributors

# Names that somebody puts in front of PostgreSQL's or of ours:
# - in the schema that the extension is created in: the script uses none of
#   them, adopts none of them, and fails cleanly where a name is taken
# - in the search_path of a superuser that uses the extension: no function and
#   no view of ours calls them
# - in a schema of its own nobody can put a name beside ours
# - row level security on the fence table neither hides rows from the functions
#   nor runs its expressions in them
# Proves G33.

use LockRedis::Test;
use LockRedis::Topic::Rights;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, extension => 0);

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE SCHEMA bob AUTHORIZATION bob;
	CREATE TABLE witness (who text, what text);
	GRANT ALL ON witness TO PUBLIC;});

# Whatever of bob's is called writes down as whom.
my $bob = $node->session(user => 'bob');
my $told = $bob->query(<<'SQL');
CREATE FUNCTION bob.tell(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.witness VALUES (current_user, what);
	RETURN true;
END $$;
SQL
die $told->{raw} if $told->error;

sub told
{
	return $node->value(
		q{SELECT coalesce(string_agg(DISTINCT who || ' ' || what, ', '), '') FROM public.witness});
}

# Operators, functions, domains and a table with names that PostgreSQL and the
# extension have, in a schema of bob's.
sub shadow ($schema)
{
	my $sql = '';

	foreach my $type (qw(text int4 int8 interval timestamptz bool oid name float8 numeric))
	{
		$sql .= <<"SQL";
CREATE FUNCTION $schema.compare(pg_catalog.$type, pg_catalog.$type) RETURNS boolean LANGUAGE sql
	AS 'SELECT bob.tell(''operator on $type'')';
SQL
		$sql .=
		  "CREATE OPERATOR $schema.$_ (LEFTARG = pg_catalog.$type, RIGHTARG = pg_catalog.$type, FUNCTION = $schema.compare);\n"
		  foreach '=', '<>', '<', '>', '<=', '>=';
		$sql .= "CREATE DOMAIN $schema.$type AS pg_catalog.$type CHECK (bob.tell('domain $type'));\n";
	}
	$sql .= <<"SQL";
CREATE FUNCTION $schema.compare(bigint, integer) RETURNS boolean LANGUAGE sql
	AS 'SELECT bob.tell(''operator on int8 and int4'')';
CREATE OPERATOR $schema.> (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = $schema.compare);
CREATE FUNCTION $schema.clock_timestamp() RETURNS pg_catalog.timestamptz LANGUAGE sql
	AS 'SELECT pg_catalog.now() WHERE bob.tell(''clock_timestamp'')';
CREATE FUNCTION $schema.pg_extension_config_dump(regclass, pg_catalog.text) RETURNS void LANGUAGE sql
	AS 'SELECT bob.tell(''pg_extension_config_dump'')';
CREATE FUNCTION $schema.lockredis_stats(VARIADIC i integer[]) RETURNS boolean LANGUAGE sql
	AS 'SELECT bob.tell(''lockredis_stats, variadic'')';
CREATE FUNCTION $schema.redis_lock(pg_catalog.text) RETURNS boolean LANGUAGE sql
	AS 'SELECT bob.tell(''redis_lock of one argument'')';
SQL
	return $sql;
}

# What the members of the extension use that is in no schema of PostgreSQL and
# no member itself: columns, constraints, defaults, views, functions.
my $strangers = <<'SQL';
WITH member AS (
	SELECT d.classid, d.objid FROM pg_depend d
	  JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
	 WHERE e.extname = 'lockredis' AND d.deptype = 'e'),
part AS (
	SELECT * FROM member
	UNION SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN member m ON m.objid = r.ev_class AND m.classid = 'pg_class'::regclass
	UNION SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c JOIN member m ON m.objid = c.conrelid AND m.classid = 'pg_class'::regclass
	UNION SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a JOIN member m ON m.objid = a.adrelid AND m.classid = 'pg_class'::regclass
	UNION SELECT 'pg_type'::regclass, t.oid FROM pg_type t JOIN member m ON m.objid = t.typrelid AND m.classid = 'pg_class'::regclass),
used AS (
	SELECT d.refclassid AS classid, d.refobjid AS objid FROM pg_depend d JOIN part USING (classid, objid)
	 WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass, 'pg_class'::regclass))
SELECT pg_describe_object(classid, objid, 0) FROM used
EXCEPT
SELECT pg_describe_object(classid, objid, 0) FROM part
ORDER BY 1
SQL

# A superuser that has bob's schema in its path, and temporary objects of the
# same names.
my $admin = $node->session;
my $temporary = $admin->query(<<'SQL');
CREATE TEMP TABLE redis_fences (key text PRIMARY KEY, token bigint, recorded_at timestamptz);
CREATE TEMP VIEW redis_locks AS SELECT bob.tell('temporary view');
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (bob.tell('temporary domain'));
CREATE DOMAIN pg_temp.interval AS pg_catalog.interval CHECK (bob.tell('temporary domain'));
SQL
is($temporary->error, undef, 'temporary objects');

# ----------
# The script
# ----------

$node->safe_psql('postgres', 'CREATE SCHEMA s AUTHORIZATION bob');
is($bob->query(shadow('s'))->error, undef, 'bob fills the schema');
foreach my $path ('s', 's, pg_temp, pg_catalog')
{
	$node->safe_psql('postgres', 'TRUNCATE public.witness');
	is($admin->query("SET search_path = $path; CREATE EXTENSION lockredis SCHEMA s")
		->error, undef, "path $path: created");
	is(told(), '', "path $path: the script has called nothing of bob's");
	is($node->value($strangers), '', "path $path: and uses nothing of it");
	is( $node->value(
			q{SELECT extconfig = ARRAY['s.redis_fences'::regclass::oid, 's.redis_lock_counters'::regclass::oid, 's.redis_lock_values'::regclass::oid] FROM pg_extension WHERE extname = 'lockredis'}
		),
		't',
		"path $path: the tables in the schema are those to be dumped");
	is( $node->value(
			q{SELECT count(*) FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
			   JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
			  WHERE d.deptype = 'e' AND p.proowner = 'bob'::regrole}),
		0,
		"path $path: no function of bob's was adopted");

	# The search for strangers can find one.
	$node->safe_psql('postgres',
		'ALTER TABLE s.redis_fences ADD CONSTRAINT c CHECK (bob.tell(key)) NOT VALID');
	is($node->value($strangers), 'function bob.tell(text)',
		"path $path: a stranger would be found");
	$admin->query_is('RESET search_path; DROP EXTENSION lockredis', '',
		"path $path: dropped");
}

# A name of ours that is taken, or a call of ours that could mean another
# function: an error, and nothing is made or adopted.
foreach my $case (
	[ 'TABLE taken.redis_fences (key text)', '42P07' ],
	[ 'VIEW taken.redis_locks AS SELECT 1', '42P07' ],
	[ 'SEQUENCE taken.redis_lock_stats', '42P07' ],
	[ 'TYPE taken.redis_lock_status AS ENUM ()', '42710' ],
	[ 'DOMAIN taken.redis_fences AS text', '42710' ],
	[ q{FUNCTION taken.redis_lock(text, interval) RETURNS void LANGUAGE sql AS 'SELECT 1'}, '42723' ],
	[ q{FUNCTION taken.redis_unlock_all() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'}, '42723' ],
	[ q{FUNCTION taken.lockredis_locks() RETURNS int LANGUAGE sql AS 'SELECT 1'}, '42723' ],
	[ q{FUNCTION taken.lockredis_locks(i integer DEFAULT 1) RETURNS boolean LANGUAGE sql AS 'SELECT bob.tell(''default'')'}, '42725' ],
	[ q{PROCEDURE taken.redis_with_lock(text, text, interval, interval, interval, boolean) LANGUAGE sql AS 'SELECT 1'}, '42723' ])
{
	my ($object, $sqlstate) = @$case;

	$node->safe_psql('postgres', 'CREATE SCHEMA taken AUTHORIZATION bob');
	$bob->query_is("CREATE $object", '', "bob: CREATE $object");
	$admin->query_fails('CREATE EXTENSION lockredis SCHEMA taken',
		$sqlstate, qr/already exists|is not unique/, 'is not replaced');
	is( $node->value(
			q{SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = 'taken'::regnamespace AND proowner <> 'bob'::regrole)
				   + (SELECT count(*) FROM pg_class WHERE relnamespace = 'taken'::regnamespace AND relowner <> 'bob'::regrole)
				   + (SELECT count(*) FROM pg_extension WHERE extname = 'lockredis')}
		),
		0,
		'and nothing is left of the attempt');
	$node->safe_psql('postgres', 'DROP SCHEMA taken CASCADE');
}

# ----------
# Functions and views
# ----------

$node->safe_psql('postgres',
	'CREATE SCHEMA locks; GRANT USAGE ON SCHEMA locks TO PUBLIC; CREATE EXTENSION lockredis SCHEMA locks');

# On keys that suit them; locks are taken before they are given back.
my @calls;
foreach my $signature (
	sort { ($a =~ /unlock|await/) <=> ($b =~ /unlock|await/) || $a cmp $b }
	grep { !$judged{$_}{trigger} } keys %judged)
{
	my ($name) = $signature =~ /^(\w+)/;
	my $key = $name =~ /read|write/ ? 'rw'
	  : $name =~ /token|latch/ ? $name
	  : $name =~ /(permit|semaphore|condition)/ ? $1 : 'k';

	push @calls, call_of($signature, $key) =~ s/\b(?=(?:lock)?redis_\w+\()/locks./gr;
}
push @calls, map { "SELECT * FROM locks.$_" }
  qw(redis_locks redis_lock_stats redis_lock_status redis_fences);

foreach my $path ('s, pg_catalog', 'pg_temp, s, pg_catalog')
{
	$admin->query("SET search_path = $path");
	$node->safe_psql('postgres', 'TRUNCATE public.witness');
	$admin->query('SELECT 1::int8 < 2::int8');
	like(told(), qr/operator on int8/, "path $path: bob's operators are in front");
	$node->safe_psql('postgres', 'TRUNCATE public.witness');

	# Each twice, so that a lock is taken, held and given back again.  Of what there is
	# a number there is enough for all.
	$admin->query("SELECT locks.redis_${_}_init('$_', 1000)") foreach qw(permit semaphore);
	my @failed;
	foreach my $call (@calls, reverse @calls)
	{
		my $result = $admin->query($call);
		push @failed, "$call: " . $result->error
		  if $result->error && $result->sqlstate !~ /^(?:55000|23000|40001)$/;
	}
	is("@failed", '', "path $path: every function and view works");
	is(told(), '', "path $path: and calls nothing of bob's");
	$admin->query('SELECT locks.redis_unlock_all()');
	is( $node->value(q{SELECT token > 0 FROM locks.redis_fences WHERE key = 'k'}),
		't', "path $path: the token is in the right table");
	$admin->query_is('SELECT count(*) FROM pg_temp.redis_fences', '0',
		"path $path: not in the temporary one");
	$node->safe_psql('postgres', 'DELETE FROM locks.redis_fences');
	$redis->cmd('FLUSHALL');
}
$admin->query('RESET search_path');

# Beside ours nobody can put a function that fits a call better.  365_rights has what comes of one
# where others may create.
$bob->query_fails(
	q{CREATE FUNCTION locks.redis_lock(text) RETURNS void LANGUAGE sql AS 'SELECT'},
	'42501', qr/permission denied for schema locks/, 'not in a schema of its own');
# ----------
# Row level security
# ----------

# Also with a table that belongs to an ordinary role, for whom FORCE counts.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE keeper;
GRANT USAGE ON SCHEMA locks TO keeper;
ALTER TABLE locks.redis_fences OWNER TO keeper;
ALTER TABLE locks.redis_fences ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON locks.redis_fences USING (bob.tell('policy') AND false);
TRUNCATE public.witness;
SQL
my $alice = $node->session(user => 'alice');
my $first = $alice->value("SELECT locks.redis_fenced_xact_lock('k')");
$redis->cmd('DEL', 'redisson_lock_token:{k}');
$alice->query_is("SELECT locks.redis_fenced_xact_lock('k')", $first + 1,
	'the functions see all rows');
$admin->query_is("SELECT locks.redis_fence_forget('k')", 't', 'and delete them');
is(told(), '', 'without asking the policy');
$alice->query_is('SELECT count(*) FROM locks.redis_fences', '0',
	'which counts for those who look');

$_->quit foreach $admin, $alice, $bob;
$node->safe_psql('postgres',
	'DROP EXTENSION lockredis; CREATE EXTENSION lockredis');
end_test($node, $redis, keys => qr/^redisson_lock_token:/);
