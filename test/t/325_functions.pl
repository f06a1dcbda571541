# Copyright (c) 2026, lockredis contributors

# Each function, table and view of the extension has been judged: the lists below say what
# PUBLIC may do with it, what it costs and where it may run, and how it is called.  One that
# is added and stands in no list fails here.  Then each function is called on values of
# Redis that belong to others:
# - none that an ordinary role may call changes or shows one of them
# - those that are granted change whole numbers and strings only where docs/security.md
#   says so
# Proves G32, G33.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

# Who may call it (all, granted, or trigger), what it costs (store: asks a store; or nothing
# of note), whether it writes a table (unsafe for parallel workers), and how it is called:
# %s is the key.  "takes" has permits: see below.
my $functions = <<'LIST';
redis_lock(text,interval) | all store | SELECT redis_lock(%s)
redis_try_lock(text,interval,interval) | all store | SELECT redis_try_lock(%s, '20ms', '20ms')
redis_xact_lock(text,interval) | all store | SELECT redis_xact_lock(%s)
redis_try_xact_lock(text,interval,interval) | all store | SELECT redis_try_xact_lock(%s)
redis_read_lock(text,interval) | all store | SELECT redis_read_lock(%s)
redis_try_read_lock(text,interval,interval) | all store | SELECT redis_try_read_lock(%s)
redis_read_xact_lock(text,interval) | all store | SELECT redis_read_xact_lock(%s)
redis_try_read_xact_lock(text,interval,interval) | all store | SELECT redis_try_read_xact_lock(%s)
redis_write_lock(text,interval) | all store | SELECT redis_write_lock(%s)
redis_try_write_lock(text,interval,interval) | all store | SELECT redis_try_write_lock(%s)
redis_write_xact_lock(text,interval) | all store | SELECT redis_write_xact_lock(%s)
redis_try_write_xact_lock(text,interval,interval) | all store | SELECT redis_try_write_xact_lock(%s)
redis_fair_lock(text,interval) | all store | SELECT redis_fair_lock(%s)
redis_try_fair_lock(text,interval,interval) | all store | SELECT redis_try_fair_lock(%s)
redis_fair_xact_lock(text,interval) | all store | SELECT redis_fair_xact_lock(%s)
redis_try_fair_xact_lock(text,interval,interval) | all store | SELECT redis_try_fair_xact_lock(%s)
redis_fenced_lock(text,interval) | all store | SELECT redis_fenced_lock(%s)
redis_try_fenced_lock(text,interval,interval) | all store | SELECT redis_try_fenced_lock(%s)
redis_fenced_xact_lock(text,interval) | all store unsafe | SELECT redis_fenced_xact_lock(%s)
redis_try_fenced_xact_lock(text,interval,interval) | all store unsafe | SELECT redis_try_fenced_xact_lock(%s)
redis_fenced_write_lock(text,interval) | all store | SELECT redis_fenced_write_lock(%s)
redis_try_fenced_write_lock(text,interval,interval) | all store | SELECT redis_try_fenced_write_lock(%s)
redis_fenced_write_xact_lock(text,interval) | all store unsafe | SELECT redis_fenced_write_xact_lock(%s)
redis_try_fenced_write_xact_lock(text,interval,interval) | all store unsafe | SELECT redis_try_fenced_write_xact_lock(%s)
redis_multi_lock(text[],interval) | all store | SELECT redis_multi_lock(ARRAY['free', %s])
redis_try_multi_lock(text[],interval,interval) | all store | SELECT redis_try_multi_lock(ARRAY[%s])
redis_multi_xact_lock(text[],interval) | all store | SELECT redis_multi_xact_lock(ARRAY[%s])
redis_try_multi_xact_lock(text[],interval,interval) | all store | SELECT redis_try_multi_xact_lock(ARRAY[%s])
redis_with_lock(text,text,interval,interval,interval,boolean) | all | CALL redis_with_lock(%s, 'SELECT 1', hold_at_least => '20ms')
redis_unlock(text) | all store | SELECT redis_unlock(%s)
redis_read_unlock(text) | all store | SELECT redis_read_unlock(%s)
redis_write_unlock(text) | all store | SELECT redis_write_unlock(%s)
redis_multi_unlock(text[]) | all store | SELECT redis_multi_unlock(ARRAY[%s])
redis_unlock_all() | all store | SELECT redis_unlock_all()
redis_extend(text,interval) | all store | SELECT redis_extend(%s, '1h')
redis_extend(text,interval,text) | all store | SELECT redis_extend(%s, '1h', 'write')
redis_force_unlock(text) | granted store | SELECT redis_force_unlock(%s)
redis_is_locked(text) | all store | SELECT redis_is_locked(%s)
redis_lock_ttl(text) | all store | SELECT redis_lock_ttl(%s)
redis_lock_owner(text) | all store | SELECT redis_lock_owner(%s)
redis_is_held(text) | all | SELECT redis_is_held(%s)
redis_is_held(text,text) | all | SELECT redis_is_held(%s, 'read')
redis_hold_count(text) | all | SELECT redis_hold_count(%s)
redis_hold_count(text,text) | all | SELECT redis_hold_count(%s, 'read')
redis_assert_held(text) | all | SELECT redis_assert_held(%s)
redis_assert_held(text,text) | all | SELECT redis_assert_held(%s, 'read')
redis_fence(text) | all | SELECT redis_fence(%s)
redis_fence(text,text) | all | SELECT redis_fence(%s, 'write')
redis_fence_check(text,bigint) | granted unsafe | SELECT redis_fence_check(%s, 7)
redis_fence_forget(text) | granted unsafe | SELECT redis_fence_forget(%s)
redis_condition_wait(text,interval,text) | all store | SELECT redis_condition_wait(%s, '20ms')
redis_condition_notify(text,text) | all store | SELECT redis_condition_notify(%s)
redis_condition_notify_all(text,text) | all store | SELECT redis_condition_notify_all(%s)
redis_semaphore_init(text,integer,interval) | granted store | SELECT redis_semaphore_init(%s, 2)
redis_semaphore_acquire(text,integer) | granted store | SELECT redis_semaphore_acquire(%s)
redis_try_semaphore_acquire(text,integer,interval) | granted store | SELECT redis_try_semaphore_acquire(%s)
redis_semaphore_release(text,integer) | granted store | SELECT redis_semaphore_release(%s)
redis_semaphore_xact_release(text,integer) | granted store | SELECT redis_semaphore_xact_release(%s)
redis_semaphore_add(text,integer) | granted store | SELECT redis_semaphore_add(%s, 1)
redis_semaphore_drain(text) | granted store | SELECT redis_semaphore_drain(%s)
redis_semaphore_available(text) | granted store | SELECT redis_semaphore_available(%s)
redis_latch_set(text,bigint) | granted store | SELECT redis_latch_set(%s, 2)
redis_latch_count_down(text) | granted store | SELECT redis_latch_count_down(%s)
redis_latch_xact_count_down(text) | granted store | SELECT redis_latch_xact_count_down(%s)
redis_latch_count(text) | granted store | SELECT redis_latch_count(%s)
redis_latch_wait(text,interval) | granted store | SELECT redis_latch_wait(%s, '20ms')
redis_latch_delete(text) | granted store | SELECT redis_latch_delete(%s)
redis_token_lock(text,interval,text) | granted store | SELECT redis_token_lock(%s, '1min', 'mine')
redis_try_token_lock(text,interval,interval,text) | granted store | SELECT redis_try_token_lock(%s, '0', '1min')
redis_token_unlock(text,text) | granted store | SELECT redis_token_unlock(%s, 'guess')
redis_token_extend(text,text,interval) | granted store | SELECT redis_token_extend(%s, 'guess', '1h')
redis_token_is_held(text,text) | granted store | SELECT redis_token_is_held(%s, 'guess')
redis_permit_set(text,integer) | granted store | SELECT redis_permit_set(%s, 3)
redis_permit_init(text,integer) | granted store | SELECT redis_permit_init(%s, 3)
redis_permit_total(text) | granted store | SELECT redis_permit_total(%s)
redis_permit_available(text) | granted store | SELECT redis_permit_available(%s)
redis_permit_lock(text,interval) | all store takes | SELECT redis_permit_lock(%s)
redis_try_permit_lock(text,interval,interval) | all store takes | SELECT redis_try_permit_lock(%s)
redis_permit_xact_lock(text,interval) | all store takes | SELECT redis_permit_xact_lock(%s)
redis_try_permit_xact_lock(text,interval,interval) | all store takes | SELECT redis_try_permit_xact_lock(%s)
redis_permit_unlock(text) | all store | SELECT redis_permit_unlock(%s)
redis_permit_acquire(text,interval,interval) | all store takes | SELECT redis_permit_acquire(%s, '1min')
redis_permit_release(text,text) | all store | SELECT redis_permit_release(%s, repeat('0', 32))
redis_permit_extend(text,text,interval) | all store | SELECT redis_permit_extend(%s, repeat('0', 32), '1min')
redis_with_permit(text,text,interval,interval,boolean) | all takes | CALL redis_with_permit(%s, 'SELECT 1')
redis_lock_stats_reset() | granted | SELECT redis_lock_stats_reset()
lockredis_locks() | all rows | SELECT count(*) FROM lockredis_locks()
lockredis_stats() | all | SELECT acquires IS NULL FROM lockredis_stats()
lockredis_waits() | all | SELECT held IS NULL FROM lockredis_waits()
lockredis_status() | all rows | SELECT address FROM lockredis_status()
lockredis_application_name(integer) | all stable strict | SELECT lockredis_application_name(0)
lockredis_replicated() | trigger unsafe |
LIST

# Tables and views, and what PUBLIC may do with them.
my %relations = (
	redis_fences => 'r SELECT',
	redis_lock_counters => 'r ',
	redis_lock_rows => 'r ',
	redis_lock_shares => 'r ',
	redis_lock_values => 'r ',
	redis_lock_stats => 'v SELECT',
	redis_lock_status => 'v SELECT',
	redis_locks => 'v SELECT');

my %judged;
foreach (split /\n/, $functions)
{
	my ($signature, $what, $call) = split /\s*\|\s*/;
	my %is = map { $_ => 1 } split ' ', $what;

	$judged{$signature} = { %is, call => $call };
}

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);

$node->wait_for_up;
$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN; CREATE ROLE alice LOGIN');

# ----------
# What there is, and what was judged
# ----------

# All that belongs to the extension, however it is added.
sub members
{
	my ($catalog, $what, $where) = @_;

	return map { [ split /\|/, $_, -1 ] } split /\n/, $node->value(<<"SQL");
SELECT string_agg($what, E'\\n' ORDER BY $what)
  FROM $catalog c JOIN pg_depend d ON d.objid = c.oid AND d.classid = '$catalog'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'lockredis'
SQL
}

is( $node->value(<<'SQL'), 'pg_class pg_proc', 'the extension has functions and relations only');
SELECT string_agg(DISTINCT classid::regclass::text, ' ' ORDER BY classid::regclass::text)
  FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
 WHERE e.extname = 'lockredis' AND d.deptype = 'e' AND classid NOT IN ('pg_type'::regclass, 'pg_rewrite'::regclass)
SQL

my %there = map { shift @$_ => $_ } members('pg_proc', <<'SQL');
concat_ws('|', c.oid::regprocedure, has_function_privilege('bob', c.oid, 'EXECUTE'), c.procost, c.provolatile, c.proisstrict, c.proparallel, c.prosecdef OR c.proleakproof OR c.proconfig IS NOT NULL OR c.proowner <> e.extowner)
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
			$j->{unsafe} || $signature =~ /^redis_with_/ ? 'u' : 'r',
			'f'
		],
		"$signature: PUBLIC, cost, volatility, strictness, parallel workers, and nothing else");
}

my %seen = map { $_->[0] => $_->[1] } members('pg_class', <<'SQL');
concat_ws('|', c.relname, c.relkind::text || ' ' || coalesce((SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM aclexplode(c.relacl) WHERE grantee <> c.relowner), ''))
SQL
is_deeply(\%seen, \%relations, 'each table and view was judged');

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

sub differing
{
	my ($before, $after) = @_;

	return join ', ', grep { $before->{$_} ne $after->{$_} } sort keys %$after;
}

sub call_of
{
	my ($signature, $key) = @_;

	return $judged{$signature}{call} =~ s/%s/'$key'/r;
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

	foreach my $key ($j->{call} =~ /%s/ ? @keys_here : @keys_here[ 0 .. 0 ])
	{
		$told .= $bob->query(call_of($signature, $key))->{raw} =~ s/\Q$key\E//gr;
	}
	$bob->query('SELECT redis_unlock_all()');
	is(differing($before, state_of(@keys_here)),
		'', "$signature: changes no value of others");
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

$_->quit foreach $alice, $bob;
$redis->cmd('FLUSHALL');
nothing_left($node, $redis);
done_testing();
