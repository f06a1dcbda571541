# Copyright (c) 2026, lockredis contributors

# Every function of the extension with the edges of what its arguments can be:
# each argument alone, then any with any, in databases of three encodings.
#
# Checked: an argument that the documentation excludes is refused with
# its SQLSTATE, whatever the others are, and nothing else is; no other SQLSTATE
# comes out than those listed; what is said can be read; nothing is left behind.
#
# The functions are taken from the catalog, so that new ones are called too.
# LOCKREDIS_FUZZ_SEED and LOCKREDIS_FUZZ_CASES choose other combinations.
#
# Proves G19.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use Batch qw(run_batch states is_text);
use LockRedis::Test;
use Math::BigInt;

my $seed = $ENV{LOCKREDIS_FUZZ_SEED} || 1;
my $cases = int(($ENV{LOCKREDIS_FUZZ_CASES} || 1500) / 10);
srand $seed;
note "seed $seed, $cases combinations of each function in UTF-8";

my ($node, $redis) = LockRedis::Node->create_with_redis('main');
$node->safe_psql('postgres', qq{
	CREATE DATABASE latin1 TEMPLATE template0 ENCODING LATIN1 LOCALE 'C';
	CREATE DATABASE ascii TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C';});
$node->safe_psql($_, 'CREATE EXTENSION lockredis') foreach 'latin1', 'ascii';

# ----------
# Values: SQL, and the SQLSTATE that says no to them
# ----------

my @keys = (
	[ 'NULL', '22004' ],
	[ q{''}, '22023' ],
	q{' '}, q{'k'}, q{'KEY'}, q{'0'}, q{'-1'}, q{'*'}, q{'a b'}, q['{'], q['}'],
	q['x}y'], q['{a}'], q{'%s%n%x%p'}, q{'''; --'}, q{'"'}, q{E'\\\\'}, q{'$1'},
	q{E'\r\n*1\r\n$8\r\nFLUSHALL\r\n'}, q{E'\x01\x1b[0m\x7f'}, q{'KEYS[1]'},
	q{repeat('x', 255)},
	[ q{repeat('x', 256)}, '22023' ],
	[ q{repeat('x', 1000000)}, '22023' ],
	q{repeat(U&'\00e9', 127)},
	[ q{repeat(U&'\00e9', 128)}, '22023' ],
	[ q{'redisson_lock_token:{k}'}, '42501' ],
	[ q{'lockredis_'}, '42501' ],
	[ q['{a}:timeout'], '42501' ],
	q{'lockredis'});

# In UTF-8: characters of three and four bytes, and one that is not normalized.
my %more_keys = (
	postgres => [
		q{repeat(U&'\20ac', 85)},
		[ q{repeat(U&'\20ac', 86)}, '22023' ],
		q{repeat(U&'\+01F512', 63)},
		[ q{repeat(U&'\+01F512', 64)}, '22023' ],
		q{U&'e\0301'}, q{U&'\FEFF'}, q{U&'\202E'}
	],
	latin1 => [q{E'\xff\xa0'}],
	# Bytes of any kind come in here; a key has to be UTF-8.
	ascii => [
		q{E'\xc3\xa9'}, map { [ $_, '22021' ] } q{E'\xff'}, q{E'\xc3'},
		q{E'\xc0\x80'}, q{E'\xed\xa0\x80'}, q{E'\xf4\x90\x80\x80'},
		q{E'x\xe2\x82'}
	]);
@keys = map { ref $_ ? $_ : [$_] } @keys;

my $day = Math::BigInt->new(86400) * 1_000_000;
my $max_lease = $day * 24;

# Months, days, microseconds.
my @times = (
	[ 0, 0, 0 ], [ 0, 0, -1 ], [ 0, 0, 1 ], [ 0, 0, 8_999 ], [ 0, 0, 9_000 ],
	[ 0, 0, 9_001 ], [ 0, 0, 9_999 ], [ 0, 0, 10_000 ], [ 0, 0, 60_000_000 ],
	[ 0, 24, 0 ], [ 0, 24, 1 ], [ 0, 23, "$day" ], [ 0, 25, '-' . $day ],
	[ 0, 24, -1 ], [ 1, 0, 0 ], [ 1, -29, 0 ], [ 1, -30, 0 ], [ 1, -30, -1 ],
	[ -1, 31, 0 ], [ -1, 30, 10_000 ], [ -1, 29, 0 ],
	[ 0, 2147483647, 0 ], [ 0, '-2147483648', 0 ],
	[ 2147483647, 0, 0 ], [ '-2147483648', 0, 0 ],
	[ 0, 0, '9223372036854775807' ], [ 0, 0, '-9223372036854775807' ],
	[ 2147483646, 2147483647, '9223372036854775807' ],
	[ '-2147483648', '-2147483648', '-9223372036854775807' ],
	[ 2147483647, '-2147483648', '-9223372036854775807' ],
	[ '-2147483648', 2147483647, '9223372036854775807' ]);

# A month has 30 days, a day 24 hours.
sub microseconds
{
	my ($months, $days, $us) = @{ $_[0] };

	return (Math::BigInt->new($months) * 30 + $days) * $day + $us;
}

sub interval
{
	my ($months, $days, $us) = @{ $_[0] };

	return "interval '$months months $days days $us microseconds'";
}

# Times, with NULL and, where the server has it, infinity.
sub intervals ($may_be, $infinite_may)
{
	my @values = (['NULL']);

	push @values, [ interval($_), $may_be->(microseconds($_)) ? () : '22023' ]
	  foreach @times;
	push @values,
	  [ q{'infinity'}, $infinite_may ? () : '22023' ],
	  [ q{'-infinity'}, '22023' ]
	  if $node->value('SHOW server_version_num') >= 170000;
	return \@values;
}

my @tokens = (
	[ 'NULL', '22004' ],
	(map { [ $_, '22003' ] } -1, 0, '9007199254740992', '9223372036854775807',
		q{'-9223372036854775808'}),
	(map { [$_] } 1, 2, '9007199254740991'));

# Commands of redis_with_lock.
my @commands = (
	[ 'NULL', '22004' ],
	[q{'SELECT 1'}],
	[q{''}],
	[q{'SELECT 1; SELECT 2'}],
	[q{'-- nothing'}],
	[ q{'SELECT 1/0'}, '22012' ],
	[ q{'x'}, '42601' ],
	[ q{'SELECT $1'}, '42P02' ],
	[ q{'BEGIN'}, '2D000' ],
	[ q{'COMMIT'}, '2D000' ],
	[ q{'SAVEPOINT s'}, '2D000' ],
	[ q{'PREPARE TRANSACTION ''x'''}, '2D000' ],
	[ q{'COPY (SELECT 1) TO STDOUT'}, '0A000' ],
	[ q{'VACUUM'}, '25001' ],
	[q{'SELECT redis_unlock_all()'}],
	[q{'DO $$BEGIN COMMIT; END$$'}],
	[q{repeat('SELECT 1;', 1000)}],
	[ q{'DISCARD ALL'}, '25001' ]);

my %values = (
	lease => intervals(
		sub { $_[0] > 9_000 && $_[0] <= $max_lease }, 0),
	wait => intervals(sub { $_[0] >= 0 }, 1),
	hold_at_least => intervals(
		sub { $_[0] >= 0 && $_[0] <= $max_lease }, 0),
	token => \@tokens,
	kind => [
		(map { [qq{'$_'}] } qw(reentrant read write)),
		[ 'NULL', '22004' ],
		map { [ $_, '22023' ] } q{''}, q{'READ'}, q{'read '}, q{repeat('x', 1000000)}
	],
	command => \@commands);

# A wait that is NULL is refused by functions that try, but for those of 1.0.
my %null_waits = map { ("redis_try_${_}lock" => 1) } '', 'xact_', 'fenced_', 'fenced_xact_';

# For arguments that this test does not know: anything may be refused.
my %of_type = (
	integer => [ map { [$_] } 'NULL', 0, 1, -1, 2147483647, q{'-2147483648'} ],
	bigint =>
	  [ map { [$_] } 'NULL', 0, 1, -1, '9223372036854775807', q{'-9223372036854775808'} ],
	boolean => [ map { [$_] } 'NULL', 'true', 'false' ],
	text => [ map { [$_] } 'NULL', q{''}, q{'k'}, q{repeat('x', 1000000)} ],
	interval => [ ['NULL'], map { [ interval($_) ] } @times ],
	'text[]' => [ map { [$_] } 'NULL', q{'{}'}, q{'{NULL}'}, q{'{k,k}'}, q{'{{k}}'} ],
	double => [ map { [$_] } 'NULL', 0, q{'NaN'}, q{'infinity'}, q{'-infinity'}, -1 ]);

# What else may come out: not held; a token below one that was recorded.
my @not_held = ('ERROR 55000');
my %may = (
	redis_extend => \@not_held,
	redis_assert_held => \@not_held,
	redis_unlock => ['WARNING 01000'],
	redis_read_unlock => ['WARNING 01000'],
	redis_multi_unlock => ['WARNING 01000'],
	redis_write_unlock => ['WARNING 01000'],
	redis_fence_check => ['ERROR 23000'],
	redis_with_lock => ['WARNING 01000'],
	redis_permit_unlock => ['WARNING 01000'],
	redis_with_permit => ['WARNING 01000']);

# ----------
# Calls
# ----------

# [name, is a procedure, [argument name, type], ...]
sub functions ($session)
{
	my @functions;

	foreach my $row (@{ $session->query(q{
			SELECT proname, prokind, array_to_string(ARRAY(
				SELECT proargnames[i] || ' ' || format_type(proargtypes[i - 1], NULL)
				FROM generate_series(1, pronargs) i), ',')
			FROM pg_proc JOIN pg_depend ON classid = 'pg_proc'::regclass
				AND objid = pg_proc.oid AND deptype = 'e'
			JOIN pg_extension e ON refobjid = e.oid AND extname = 'lockredis'
			WHERE prorettype <> 'trigger'::regtype
			ORDER BY 1, 3})->rows })
	{
		my ($name, $kind, $args) = @$row;
		push @functions,
		  [ $name, $kind, map { [ split / /, $_, 2 ] } split /,/, $args ];
	}
	return @functions;
}

sub call ($function, @values)
{
	my ($name, $kind, @args) = @$function;
	my $call = "$name("
	  . join(', ', map { "$args[$_][0] => $values[$_][0]" } 0 .. $#args) . ')';

	# Of what there is a number there is enough for each.
	my ($key) = map { $values[$_][0] } grep { $args[$_][0] eq 'key' } 0 .. $#args;
	my $enough = $name =~ /permit_(?:xact_)?lock|with_permit|permit_acquire/
	  ? "SELECT redis_permit_init($key, 1000000); "
	  : $name =~ /semaphore_acquire/ ? "SELECT redis_semaphore_init($key, 2147483647); " : '';

	return "${enough}CALL $call" if $kind eq 'p';

	# What is recorded must not refuse the tokens of the next call.
	return "BEGIN; SELECT $call; ROLLBACK" if $name =~ /fence/;
	return "${enough}SELECT $call";
}

# What keeps its key locked, or takes what nobody gives back, gets another one each time.
my $takes = qr/token_lock|permit_acquire|semaphore_acquire/;
my $own = 0;

sub own_key ($function, @values)
{
	my ($name, $kind, @args) = @$function;

	if ($name =~ $takes || grep { $_->[0] eq 'hold_at_least' } @args)
	{
		foreach my $i (grep { $args[$_][0] eq 'key' } 0 .. $#args)
		{
			$values[$i] = [ "'own" . ++$own . q{'} ] unless defined $values[$i][1];
		}
	}
	return \@values;
}

foreach my $dbname ('postgres', 'latin1', 'ascii')
{
	my $session = $node->session(
		dbname => $dbname,
		settings => { statement_timeout => limit(5000) });
	my @all_keys = (@keys, map { ref $_ ? $_ : [$_] } @{ $more_keys{$dbname} });
	my $good_key = [q{'k'}];
	my @functions = functions($session);
	my (@wrong, @kept);
	my (%seen, $calls);

	# U& needs an encoding to convert from UTF-8 to.
	@all_keys = grep { $_->[0] !~ /U&/ } @all_keys if $dbname eq 'ascii';

	foreach my $function (@functions)
	{
		my ($name, $kind, @args) = @$function;
		# The token of a token lock is a text; what belongs to no session has to have a lease.
		my $needs_lease = $name =~ /token_|permit_acquire|permit_extend/;
		my %known = map { $_->[0] => $values{ $_->[0] } }
		  grep { $_->[0] ne 'token' || $_->[1] ne 'text' } @args;
		$known{lease} = [ [ 'NULL', '22004' ], grep { $_->[0] ne 'NULL' } @{ $known{lease} } ]
		  if $needs_lease && $known{lease};
		$known{wait} = [ [ 'NULL', '22004' ], grep { $_->[0] ne 'NULL' } @{ $known{wait} } ]
		  if $name =~ /^redis_try_/ && !$null_waits{$name};
		my @calls;
		my @lists = map {
			my ($arg, $type) = @$_;
			$arg eq 'key' ? \@all_keys
			  : $known{$arg}
			  || $of_type{ $type =~ s/ precision//r }
			  || [ ['NULL'], ['DEFAULT'] ]
		} @args;
		my %unknown = map { $_->[0] => 1 }
		  grep { $_->[0] ne 'key' && !$known{ $_->[0] } && $_->[0] ne 'ran' }
		  @args;
		my @good = map {
			my ($list) = @$_;
			(grep { !defined $_->[1] && $_->[0] ne 'NULL' } @$list)[0]
		} map { [$_] } @lists;

		# A lease that ends before the round trip does, is lost.
		foreach my $i (0 .. $#args)
		{
			$good[$i] = ['NULL'] if $args[$i][0] =~ /^(?:lease|hold_at_least|ran)$/;
			$good[$i] = [q{'10s'}] if $args[$i][0] eq 'lease' && $needs_lease;
			$good[$i] = $good_key if $args[$i][0] eq 'key';
		}

		push @calls, [ $function, [], %unknown ] unless @args;
		foreach my $i (0 .. $#args)
		{
			foreach my $value (@{ $lists[$i] })
			{
				my @these = @good;
				$these[$i] = $value;
				push @calls, [ $function, own_key($function, @these), %unknown ];
			}
		}
		# What fits together has nothing to do with the encoding: a tenth in the other two.
		foreach (1 .. (@args > 1 ? $cases / ($dbname eq 'postgres' ? 1 : 10) : 0))
		{
			my @these = map { $_->[ rand @$_ ] } @lists;
			push @calls, [ $function, own_key($function, @these), %unknown ];
		}

		$calls += @calls;
		while (my @some = splice @calls, 0, 500)
		{
			my @results = run_batch($session,
				map { call($_->[0], @{ $_->[1] }) . '; SELECT redis_unlock_all()' }
				  @some);

			foreach my $call (@some)
			{
				my ($function, $args, %unknown) = @$call;
				my $result = shift @results;
				my @states = states($result);
				my @no = grep { defined } map { $_->[1] } @$args;
				my %allowed = map { $_ => 1 } @{ $may{ $function->[0] } || [] };

				$seen{$_}++ foreach @states;
				if (%unknown)
				{
					$allowed{"ERROR $_"} = 1
					  foreach @no,
					  qw(22003 22004 22023 2202E 55000 42704 42809 22021 0A000);
				}
				elsif (@no)
				{
					# Which of several is complained of is left open.
					%allowed = map { ("ERROR $_" => 1) } @no;
				}

				# Leases of milliseconds may end before anything else does, so that is complained of,
				# too, instead of what is wrong with another argument.
				if (grep { $_->[0] =~ /(?:\b0 months 0|-1 months 30) days (?:9001|9999|10000) / } @$args)
				{
					$allowed{$_} = 1
					  foreach 'ERROR 40001', 'ERROR 55000', 'ERROR 58030', 'WARNING 01000';
				}

				my @bad = grep { !$allowed{$_} } @states;
				push @bad, 'was not refused'
				  if @no && !%unknown && !grep { /^ERROR/ } @states;
				push @bad, 'cannot be read' unless is_text($result);
				push @wrong,
				  call($function, @$args) . ": @bad\n" . $result->{raw}
				  if @bad;
			}
		}

		# Counts, and tokens, are nobody's.
		push @kept, grep { $name !~ /token_|permit|semaphore|latch/ && !/^redisson_lock_token:/
			  && (join ' ', keys %{ $redis->hash($_) }) !~ m{^(?:[-0-9a-f]{36}:\d+/kept)?$} }
		  $redis->all_keys;
		$redis->cmd('FLUSHALL');
	}
	note "$calls calls in $dbname";
	is(scalar @wrong, 0, "all calls in $dbname end as they should")
	  || diag substr join("\n", @wrong), 0, 8000;
	note join ', ', map { "$_: $seen{$_}" } sort keys %seen;
	$session->quit;

	# hold_at_least keeps keys locked on purpose; no command was smuggled in.  Some
	# leases end while this looks.
	is("@kept", '', "only what is kept on purpose is left of $dbname");
}

end_test($node, $redis);
