# Copyright (c) 2026, lockredis contributors

# No function takes a key under which lockredis or Redisson keep what belongs to another
# one, with and without a prefix, and nothing is done there.  Proves G33.

use LockRedis::Test;

my ($node, $redis, $s) = servers(sessions => 1, redis => lock_store);
my $prefixed = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });
my $tagged = $node->session(settings => { 'lockredis.key_prefix' => '{app}:' });
my $ours = $node->session(settings => { 'lockredis.key_prefix' => 'lockredis_' });
my $half = $node->session(settings => { 'lockredis.key_prefix' => 'redisson' });

# All functions with a key, from the catalog: one that is added is called, too.  Other
# arguments: those that it has a default for are left out.
my @functions = map { [ split /\|/ ] } split /\n/, $node->value(<<'SQL');
SELECT string_agg(concat_ws('|', CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, p.proname, p.proargtypes[0] = 'text[]'::regtype, rest), E'\n')
  FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis',
  LATERAL (SELECT coalesce(string_agg(CASE WHEN p.proargnames[a.n] = 'kind' THEN $$'read'$$ WHEN p.proargnames[a.n] = 'id' THEN quote_literal(repeat('0', 32)) WHEN a.type = 'interval'::regtype THEN $$'1s'$$ WHEN a.type = 'text'::regtype THEN $$'SELECT 1'$$ ELSE '1' END, ', ' ORDER BY a.n), '') AS rest
    FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, n)
   WHERE a.n > 1 AND a.n <= p.pronargs - p.pronargdefaults) x
 WHERE p.proargnames[1] IN ('key', 'keys') AND p.proargtypes[0] IN ('text'::regtype, 'text[]'::regtype)
SQL
cmp_ok(scalar @functions, '>=', 80, 'functions with a key');

sub call_of
{
	my ($function, $key) = @_;
	my ($how, $name, $is_array, $rest) = @$function;
	my $first = $is_array eq 't' ? "ARRAY['free', '$key']" : "'$key'";

	return "$how $name(" . join(', ', $first, $rest ? $rest : ()) . ')';
}

foreach my $function (@functions)
{
	$s->query_fails(call_of($function, 'lockredis_tickets:{other}'),
		'42501', qr/lock key "lockredis_tickets:\{other\}" is reserved/, call_of($function, 'ours'));
}

# Every name that is derived from a key: of Redisson, of ours, of a name with braces.
my @derived = (
	'redisson_lock_token:{k}', 'redisson_lock_queue:{k}', 'redisson_lock_timeout:{k}',
	'redisson_unlock_latch:{k}:1', 'redisson_',
	'redisson_lock_token:k{tag}', 'redisson__timeout__set:{k}',
	'lockredis_writers:{k}', 'lockredis_places::k{tag}', 'lockredis_tickets:{k}',
	'lockredis_condition_waiting:{k}:0', 'lockredis_',
	'{k}:timeout', 'k{tag}:timeout', '{k}:a-b:1:rwlock_timeout:1',
	'k{tag}:a-b:1:rwlock_timeout:23');
foreach my $name (@derived)
{
	$s->query_fails("SELECT redis_try_lock('$name')", '42501', qr/is reserved/, $name);
	$prefixed->query_fails("SELECT redis_try_lock('$name')",
		'42501', qr/"app:\Q$name\E" is reserved/, "$name behind a prefix");
}
$tagged->query_fails("SELECT redis_try_lock('$_')", '42501', qr/is reserved/, "$_ behind a tag")
  foreach 'k:timeout', 'redisson_lock_token:{k}', 'k:a-b:1:rwlock_timeout:1';
$ours->query_fails("SELECT redis_try_lock('tickets:{k}')",
	'42501', qr/is reserved/, 'a prefix that makes it one');
$half->query_fails("SELECT redis_try_lock('_lock_token:{k}')",
	'42501', qr/is reserved/, 'half of it is in the prefix');
is(scalar $redis->all_keys, 0, 'there is nothing anywhere');

# And what is not.
foreach my $name (
	'k:timeout', 'redisson', 'lockredis', 'my redisson_lock', 'Redisson_lock', '{k}', 'k{tag}',
	'{k}:timeouts', '{k}:timeout:1', '{k}:rwlock_timeout:', '{k}:rwlock_timeout:1x',
	'k:rwlock_timeout:1', ':timeout', '17')
{
	$s->query_is("SELECT redis_try_lock('$name'), redis_unlock('$name')",
		't|t', "$name is a key");
}
$half->query_is("SELECT redis_try_lock(':k'), redis_unlock(':k')", 't|t', 'so is one behind a prefix');

end_test($node, $redis);
