# Copyright (c) 2026, lockredis contributors

# The table of the simulator (models/keyed_table.c over backend/versions.c) does what the real
# one does.  A simulated server and a real one are asked the same by random: all operations of
# all kinds that table mode has, in requests of one to four.  Between them two strangers lock,
# change, delete and insert rows, and lock tables; time passes; accesses to rows fail in the
# middle of a batch, and a row is inserted between the worker's look and its own insert.  Each
# answer, and the rows that there are then, must be the same.  LockRedis::SimulatedTable says
# how.
#
# Leases and jumps of the clocks are whole minutes, and times are compared in whole minutes: a
# sequence takes seconds.  LOCKREDIS_TEST_SEED=N tries one seed, N-M those.

use LockRedis::Test;

use LockRedis::SimulatedTable;
use LockRedis::Wait qw(now);

use constant SEQUENCES => 16;
use constant STEPS => 60;
use constant KEYS => 3;
use constant OWNERS => 2;

# So many minutes pass in a sequence at most: the simulator ends after an hour.
use constant LATEST => 50;

my ($first, $last) = split /-/, $ENV{LOCKREDIS_TEST_SEED} || '353-' . (352 + SEQUENCES);
my @seeds = ($first .. $last // $first);

need_tool('cc');
my $pair = LockRedis::SimulatedTable->new;

# ---- what is asked ----

sub any { return $_[ rand @_ ]; }

sub chance { return rand() < $_[0]; }

# Keys and owners are new ones in each sequence; owners are those of a key.
my $serial = 0;

sub key_of { return "q$serial-$_[0]"; }

sub owner_of { return 10 * $serial + OWNERS * $_[0] + ($_[1] // int rand OWNERS); }

# The words of each operation; "?": or not.  argument() says what they are.
my %operations = (
	(map { (
			"create $_" => 'owner lease fenced? keep?',
			"renew $_" => 'owner lease keep?',
			"set $_" => 'owner lease0',
			"release $_" => 'owner keep?',
			"mint $_" => 'owner floor? amount?') } qw(reentrant write fair)),
	'create read' => 'owner lease beside?', 'renew read' => 'owner lease', 'set read' => 'owner lease0',
	'release read' => 'owner',
	'inspect reentrant' => '', 'inspect permit' => '', 'inspect read' => '',
	'force reentrant' => 'whoever', 'force permit' => 'whoever', 'force read' => 'whoever?',
	'create token' => 'id lease', 'set token' => 'id lease0', 'release token' => 'id',
	'create permit' => 'holder lease keep?', 'renew permit' => 'holder lease', 'set permit' => 'holder lease0',
	'release permit' => 'holder', 'define permit' => 'change amount lease?', 'value permit' => '',
	'create semaphore' => 'owner amount', 'release semaphore' => 'owner amount',
	'tally semaphore' => 'owner amount', 'define semaphore' => 'change amount lease?', 'value semaphore' => '',
	'create latch' => 'owner', 'tally latch' => 'owner amount', 'define latch' => 'change amount lease?',
	'value latch' => '',
	'create condition' => 'owner id lease wait? gives?', 'renew condition' => 'owner id lease',
	'release condition' => 'owner id acted?', 'notify condition' => 'owner id amount');

my %of_kind;
push @{ $of_kind{ (split / /)[1] } }, $_ foreach sort keys %operations;
my @kinds = sort keys %of_kind;

sub argument ($what, $k)
{
	return "$what=" . owner_of($k) if $what =~ /^(owner|beside|gives)$/;
	return any('owner=' . owner_of($k), 'id=' . int rand 2) if $what eq 'holder';
	return 'id=' . int rand 2 if $what eq 'id';
	return 'lease=' . any(1, 2, 3, 5) if $what eq 'lease';
	return 'lease=' . any(0, 1, 3, 6) if $what eq 'lease0';
	return "$what=" . any(1, 2, 4) if $what =~ /^(keep|wait)$/;
	return 'change=' . any(qw(set set init add drain delete)) if $what eq 'change';
	return "$what=" . any(1, 1, 2, 3) if $what eq 'amount';
	return 'floor=' . any(5, 1000, 9007199254740990) if $what eq 'floor';
	return $what;
}

sub draw_operation ($k, $which)
{
	my @words = map { /^(\w+)\?$/ ? (chance(0.3) ? $1 : ()) : $_ } split ' ', $operations{$which};

	return join ' ', $which, key_of($k), map { argument($_, $k) } @words;
}

# What works in this order only.  K: a key; A, B: its owners
my @phrases = (
	'define permit K change=set amount=2; create permit K owner=A lease=3; renew permit K owner=A lease=5;'
	  . ' set permit K owner=A lease=0; inspect permit K; force permit K whoever; release permit K owner=A',
	'define permit K change=set amount=2; create permit K id=1 lease=2 keep=2; set permit K id=1 lease=6;'
	  . ' create permit K owner=A lease=3 keep=1; create permit K owner=B lease=1; release permit K owner=A;'
	  . ' release permit K id=1',
	'create fair K owner=A lease=2; renew fair K owner=A lease=3; mint fair K owner=A; release fair K owner=A',
	'create write K owner=A lease=2; create read K owner=B lease=1 beside=A; renew read K owner=B lease=3;'
	  . ' set read K owner=B lease=6; release write K owner=A; release read K owner=B',
	'create reentrant K owner=A lease=5; create condition K owner=B id=0 lease=5 gives=A;'
	  . ' create reentrant K owner=A lease=5; notify condition K owner=A id=0 amount=2;'
	  . ' renew condition K owner=B id=0 lease=3; release condition K owner=B id=0');
my @rest_of_phrase;

sub begin_phrase
{
	my $k = int rand KEYS;
	my $swap = chance(0.5) ? 1 : 0;
	my %meant = (K => key_of($k), A => owner_of($k, $swap), B => owner_of($k, 1 - $swap));

	@rest_of_phrase = split /; /, any(@phrases) =~ s/\b([KAB])\b/$meant{$1}/gr;
	return;
}

# Two kinds are more common than others in a sequence, and so are two keys.
my @common;

# The key at which a stranger has been last
my $visited = 0;

sub draw_operations
{
	my $k = chance(0.4) ? $visited : int rand 2;

	return splice @rest_of_phrase, 0, any(1, 1, 2, 4) if @rest_of_phrase && chance(0.7);
	begin_phrase() if chance(0.2);
	return map {
		my $kind = any(chance(0.8) ? @common : @kinds);

		draw_operation(chance(0.9) ? $k : int rand KEYS, any(@{ $of_kind{$kind} }))
	} 1 .. any(1, 1, 2, 3, 4);
}

# ---- strangers ----

# What each of the two has: nothing, something of a row, or a table
my @has = (undef, undef);
my $shares_are_taken = 0;

# The one whose key it is: neither waits for the other.
sub stranger_of { return $_[0] == 1 ? 1 : 0; }

my $elsewhere = '6e3f0000-0000-4000-8000-000000000001';

# A row as somebody else may write it
sub draw_row ($table, $k)
{
	my $key = key_of($k);
	my $owner = 'US:' . owner_of($k);
	my $end = '@' . any(-1, 2, 9, 30);
	my $lease = any(120_000_000, 300_000_000);

	return join '|', $table, $key, any(-5, 3, 77) if $table eq 'redis_lock_counters';
	return join '|', $table, $key, any(qw(permit semaphore latch odd)), any(-1, 0, 2), any('-', $end)
	  if $table eq 'redis_lock_values';
	if ($table eq 'redis_lock_shares')
	{
		my $whose = any(
			'permit|permit:' . 'a' x 64 . '|-', "read|$owner|US", "permit|$owner|US",
			"read|$elsewhere:5|$elsewhere", 'permit|me|-', "odd|$owner|US");
		my ($kind, $who, $instance) = split /\|/, $whose;

		return join '|', $table, $key, $kind, $who, $lease, '@0', $end, $instance;
	}
	my $whose = any('token:' . 'b' x 64 . '|-', "$elsewhere:5/kept|-", 'me|-', "$elsewhere:5|$elsewhere",
		"$owner|US", "$owner|-", 'readers|US');
	my ($who, $instance) = split /\|/, $whose;

	return join '|', $table, $key, $who, any(1, 1, 1, 0), any('-', 3), any($lease, $lease, '-'), '@0', $end, $instance, '-';
}

# ---- a step: what was done, and how both differ if they do ----

my (%tried, %worked);

sub ask ($asked, %opts)
{
	my %said = $pair->ask(join(';', @$asked), %opts);
	my @outcomes = split /;/, $said{real};

	foreach my $i (0 .. $#$asked)
	{
		my ($which) = $asked->[$i] =~ /^(\w+ \w+)/;

		$tried{$which}++;
		$worked{$which}++ if $outcomes[$i] =~ /^ok/;
	}
	return ("ask: @{[join '; ', @$asked]}\n  $said{real}",
		$said{real} eq $said{simulated} ? undef : "real: $said{real}\nsimulated: $said{simulated}");
}

# Who has a key is asked before it is taken from him by force.  Shares are read in the order of
# their owners, which differ: one that is blocked may come before others or after them, so no
# access is to fail by its number then.
sub ask_step
{
	my @asked = draw_operations();
	my ($of) = map { /^force (\w+ \S+) whoever/ ? $1 : () } @asked;
	my @fails = chance(0.25) && !$shares_are_taken ? (1 + int rand 8, chance(0.3) ? 1 + int rand 4 : 0) : (0, 0);

	if (defined $of)
	{
		my (undef, $difference) = ask(["inspect $of"]);

		return ("ask: inspect $of", $difference) if defined $difference;
	}
	return ask(\@asked, fails => \@fails, blocked => chance(0.5));
}

sub between_step
{
	my $k = int rand KEYS;
	my $row = draw_row('redis_lock_rows', $k);

	# He would wait for what is there, and the worker for him.
	return if (grep { defined } @has) || $pair->has_row(key_of($k));
	$has[ stranger_of($k) ] = 'row';
	my ($done, $difference) = ask(
		[ draw_operation($k, 'create ' . any(qw(reentrant read token write))) ],
		between => [ stranger_of($k), $row ]);
	return ("between $row, $done", $difference);
}

# Mostly where there is a row
sub draw_place
{
	my %rows = (grep { defined && $_ eq 'table' } @has) ? (real => '') : $pair->rows;
	my %places = map { /^(\w+)\|q$serial-(\d)\|/ ? ("$1 $2" => 1) : () } split /\n/, $rows{real};

	return split / /, any(sort keys %places) if %places && chance(0.8);
	return (any($pair->tables), int rand KEYS);
}

sub stranger_step
{
	my ($table, $k) = draw_place();
	my $i = stranger_of($k);
	my $what = any(qw(lock touch touch delete insert insert share exclusive));
	my $has = $what =~ /^(share|exclusive)$/ ? 'table' : 'row';
	my $other = $has[ 1 - $i ];
	my @of = $what eq 'insert' ? draw_row($table, $k) : ($table, $has eq 'row' ? key_of($k) : ());

	if ($has[$i])
	{
		($what, $has, @of) = (any(qw(commit rollback)), undef);
	}
	elsif (defined $other && ($has eq 'table' || $other eq 'table'))
	{
		return;
	}
	$has[$i] = $has;
	$visited = $k;
	$shares_are_taken = 1 if $table eq 'redis_lock_shares';
	$shares_are_taken = 0 unless grep { defined } @has;
	$pair->stranger($i, $what, @of);
	return "stranger $i: $what @of";
}

my $latest;

sub later_step
{
	my $minutes = any(1, 1, 2, 4);

	return if $latest + $minutes > LATEST;
	$latest += $minutes;
	$pair->later($minutes);
	return "later: $minutes";
}

sub step
{
	my $which = rand;

	return ask_step() if $which < 0.68;
	return stranger_step() if $which < 0.84;
	return later_step() if $which < 0.92;
	return between_step();
}

# Nobody can look at a table that is locked.
sub rows_differ
{
	return if grep { defined && $_ eq 'table' } @has;
	my %rows = $pair->rows;

	return $rows{real} eq $rows{simulated} ? undef : "real:\n$rows{real}\nsimulated:\n$rows{simulated}";
}

# ---- a sequence ----

sub begin_anew
{
	$serial++;
	@has = (undef, undef);
	$shares_are_taken = 0;
	@rest_of_phrase = ();
	$latest = 0;
	$pair->begin_anew(10 * $serial);
	return;
}

# undef, or what was done and how they differ
sub run_sequence ($seed)
{
	my @done;

	srand $seed;
	begin_anew();
	@common = @kinds[ $seed % @kinds, ($seed * 7 + 3) % @kinds ];
	foreach my $n (1 .. STEPS)
	{
		my ($done, $difference) = step();

		push @done, $done if defined $done;
		$difference //= rows_differ() if $n % 3 == 0 || $n == STEPS;
		return "seed $seed:\n" . join("\n", @done) . "\n$difference" if defined $difference;
	}
	return;
}

# ---- a control: what one of them has done, and the other one has not, is found ----

begin_anew();
is(rows_differ(), undef, 'at first both have nothing');
$pair->{node}->value("INSERT INTO redis_lock_rows VALUES ('k', '$elsewhere:1/kept', 1, NULL, '1min', now(), now() + '1min')");
like(
	rows_differ(),
	qr{^real:\nredis_lock_rows\|k\|$elsewhere:1/kept\|1\|-\|1\|0\|1\|-\|-\nsimulated:\n$},
	'a row that one of them has is found');
my (undef, $difference) = ask(['create reentrant k owner=1 lease=1']);
is($difference, "real: busy ttl=1 what=1 holder=$elsewhere:1/kept;\nsimulated: ok;", 'so is another answer');

# ---- the run ----

my $failure;
foreach my $seed (@seeds)
{
	# On a machine that stood still: the minutes of the real one are over before they should.
	for (1 .. 5)
	{
		my $began = now();

		$failure = run_sequence($seed);
		last if !defined $failure || now() - $began < 50;
	}
	last if defined $failure;
}
is($failure, undef, 'both answer alike and have the same rows');
is(join(', ', grep { !$worked{$_} } sort keys %operations), '', 'each operation was tried and has worked')
  if @seeds >= SEQUENCES;
note map { "$_: $tried{$_}, @{[ $worked{$_} || 0 ]} worked\n" } sort keys %tried;
is($pair->end, 0, 'the simulated server has ended well');

done_testing();
