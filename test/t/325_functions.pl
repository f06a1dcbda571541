# Copyright (c) 2026, lockredis contributors

# Each function of the extension has been judged: the list of LockRedis::Topic::Rights says
# whether PUBLIC may call it, what it costs and where it may run, and how it is called.  One that
# is added and does not stand there fails here.  365_rights looks at tables, views and other roles.
# Then each function is called on values of Redis that belong to others:
# - none that an ordinary role may call changes or shows one of them
# - those that are granted change whole numbers and strings only where docs/security.md
#   says so
# And each is called on a reserved key.
# Proves G32, G33.

use LockRedis::Test;
use LockRedis::Topic::Rights;

my ($node, $redis) = LockRedis::Node->create_with_redis('main');

$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN; CREATE ROLE alice LOGIN');

# ----------
# What there is, and what was judged
# ----------

my %there = map { my ($signature, @is) = split /\|/, $_, -1; $signature => \@is } split /\n/, $node->value(<<'SQL');
SELECT concat_ws('|', p.oid::regprocedure, has_function_privilege('bob', p.oid, 'EXECUTE'), p.procost, p.provolatile, p.proisstrict, p.proparallel,
	p.prosecdef OR p.proleakproof OR p.proconfig IS NOT NULL OR p.proowner <> e.extowner OR l.lanname <> 'c')
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
  JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
SQL
is_deeply([ sort keys %there ], [ sort keys %judged ], 'each function was judged');
foreach my $signature (sort keys %there)
{
	my $j = $judged{$signature};

	is_deeply(
		$there{$signature},
		[
			$j->{all} ? 't' : 'f',
			$j->{store} ? 10000 : 1,
			$j->{stable} ? 's' : 'v',
			$j->{strict} ? 't' : 'f',
			$j->{unsafe} || $signature =~ /^redis_(?:with|await)_/ ? 'u' : 'r',
			'f'
		],
		"$signature: PUBLIC, cost, volatility, strictness, parallel workers, and nothing else");
}

# ----------
# Values of others
# ----------

my %values = (
	string => [ 'SET', 'string', 'guess' ],
	number => [ 'SET', 'number', 471_199 ],
	'number that ends' => [ 'SET', 'number that ends', 471_199, 'PX', 600_000 ],
	token => [ 'SET', 'token', 'credential', 'PX', 600_000 ],
	'token of digits' => [ 'SET', 'token of digits', '471199', 'PX', 600_000 ],
	list => [ 'RPUSH', 'list', 1, 2 ],
	set => [ 'SADD', 'set', 1 ],
	zset => [ 'ZADD', 'zset', 1, 'a' ],
	stream => [ 'XADD', 'stream', '1-1', 'f', 1 ],
	'two fields' => [ 'HSET', 'two fields', 'a', 1, 'b', 1 ],
	'no number' => [ 'HSET', 'no number', 'a', 'x' ],
	'foreign lock' => [ 'HSET', 'foreign lock', 'a:1', 1 ]);
my @numbers = ('number', 'number that ends', 'token of digits');

sub make_values
{
	$redis->cmd('FLUSHALL');
	$redis->cmd(@$_) foreach values %values;
	$redis->cmd('PEXPIRE', $_, 600_000) foreach 'foreign lock', 'two fields';
	return;
}

sub state_of
{
	return {
		map {
			my $ttl = $redis->cmd('PTTL', $_);
			my $dump = $redis->cmd('DUMP', $_);
			$_ => (defined $dump ? unpack('H*', $dump) : 'gone')
			  . ($ttl < 0 ? '' : $ttl > 500_000)
		} @_
	};
}

sub differing ($before, $after)
{
	return join ', ', grep { $before->{$_} ne $after->{$_} } sort keys %$after;
}

my $bob = $node->session(user => 'bob', settings => { lock_timeout => '50ms' });

make_values();
my @keys = sort keys %values;
my $before = state_of(@keys);
foreach my $signature (sort grep { $judged{$_}{all} } keys %judged)
{
	my $j = $judged{$signature};
	my @keys_here = grep { !$j->{takes} || !/number|digits/ } @keys;
	my $told = '';

	$told .= $bob->query(call_of($signature, $_))->{raw} =~ s/\Q$_\E//gr
	  foreach $j->{call} =~ /%s/ ? @keys_here : @keys_here[ 0 .. 0 ];
	$bob->query('SELECT redis_unlock_all()');
	is(differing($before, state_of(@keys_here)), '', "$signature: changes no value of others");
	unlike($told, qr/guess|47119|credential/, "$signature: shows none");
	make_values() if $j->{takes};
}

# A permit is a permit of a number, whoever has made it, and does not show the number
# (docs/security.md).
foreach my $key (@numbers)
{
	make_values();
	$bob->query_is("SELECT redis_try_permit_lock('$key')", 't', "a permit of $key");
	is($redis->cmd('GET', $key), 471_198, 'is one less of them');
	$bob->query_is("SELECT redis_lock_owner('$key')", '1 permit', 'which does not show how many');
	$bob->query_is("SELECT redis_permit_unlock('$key')", 't', 'and given back');
	is($redis->cmd('GET', $key), 471_199, 'one more');
}

# ----------
# What is granted
# ----------

make_values();
foreach my $signature (sort grep { !$judged{$_}{all} } keys %judged)
{
	my $j = $judged{$signature};

	next if $j->{trigger};
	$bob->query_fails(call_of($signature, 'number'),
		'42501', qr/permission denied for function/, "$signature: not by PUBLIC");
	$node->safe_psql('postgres', "GRANT EXECUTE ON FUNCTION $signature TO alice");
}
is(differing($before, state_of(@keys)), '', 'nothing has come of it');

# Each of them, on each value: what it may change is a whole number, or the string that is
# known, or (by force) a lock.
my $alice = $node->session(user => 'alice', settings => { lock_timeout => '50ms' });
my %may_change = (
	redis_force_unlock => 'foreign lock, token, token of digits, number that ends',
	redis_token_unlock => 'string',
	redis_token_extend => '',
	redis_token_lock => '',
	redis_try_token_lock => '',
	redis_fence_check => '',
	redis_fence_forget => '',
	redis_lock_stats_reset => '');
foreach my $signature (sort grep { !$judged{$_}{all} && !$judged{$_}{trigger} } keys %judged)
{
	my $name = $signature =~ s/\(.*//r;
	my $may = exists $may_change{$name} ? $may_change{$name} : join ', ', @numbers;
	my %may = map { $_ => 1 } split /, /, $may;

	make_values();
	$alice->query(call_of($signature, $_)) foreach @keys;
	$alice->query('SELECT redis_unlock_all()');
	is( join(', ', grep { !$may{$_} } split /, /, differing($before, state_of(@keys))),
		'',
		"$signature: changes nothing but ($may)");
}

# Force is for locks of any kind, and says so.
make_values();
$alice->query_fails("SELECT redis_force_unlock('$_')", '42809', qr/does not hold a reentrant lock/, "no force for $_")
  foreach qw(string list set zset stream), 'two fields', 'no number';
$alice->query_is("SELECT redis_force_unlock('number')", 'f', 'of a number nobody holds a permit');
$alice->query_is("SELECT redis_force_unlock('foreign lock')", 't', 'a lock is taken away');

$_->quit foreach $alice, $bob;
$redis->cmd('FLUSHALL');

# ----------
# Keys under which lockredis or Redisson keep what belongs to another one
# ----------

# No function takes them, with and without a prefix, and nothing is done there.
my $admin = $node->session;
my $prefixed = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });
my $tagged = $node->session(settings => { 'lockredis.key_prefix' => '{app}:' });
my $ours = $node->session(settings => { 'lockredis.key_prefix' => 'lockredis_' });
my $half = $node->session(settings => { 'lockredis.key_prefix' => 'redisson' });

my @functions = sort grep { $judged{$_}{call} =~ /%s/ } keys %judged;
cmp_ok(scalar @functions, '>=', 80, 'functions with a key');
foreach my $call (map { call_of($_, 'lockredis_tickets:{other}') } @functions)
{
	$admin->query_fails($call, '42501', qr/lock key "lockredis_tickets:\{other\}" is reserved/, $call);
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
	$admin->query_fails("SELECT redis_try_lock('$name')", '42501', qr/is reserved/, $name);
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
	$admin->query_is("SELECT redis_try_lock('$name'), redis_unlock('$name')",
		't|t', "$name is a key");
}
$half->query_is("SELECT redis_try_lock(':k'), redis_unlock(':k')", 't|t', 'so is one behind a prefix');

end_test($node, $redis);
