# Copyright (c) 2026, lockredis contributors

# The benchmark works: its driver runs a few short slices, its report is
# written, and what both say is right where noise cannot move it.
#
# - an uncontended pair is two client commands, a transaction with one lock too;
#   taking again, looking, trying what a local session has, handing over: none
# - of several masters, over a connection to each, at least those that count are asked
# - the counters that the locks protect miss no pair, and would miss some if
#   nothing excluded
# - results.json, results.svg and summary.svg can be parsed
# - the pages that tell of the results say what docs/bench/results.json says
# - each kind of lock is measured against its bars
#
# Proves G31.

use File::Copy qw(copy);
use JSON::PP;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

need_tool('make');
need_tool('python3');

my $out = PostgreSQL::Test::Utils::tempdir();

command_ok([ 'make', '-s', 'bench' ], 'programs of the benchmark');
command_ok(
	[
		$^X, (map { "-I$_" } @INC), 'test/bench/measure',
		'--output', $out, '--quick', '--rounds', 1,
		'--contenders', 'bare,session,xact,none,masters',
		qw(counts uncontended hot topologies)
	],
	'a few slices');

my $raw = decode_json(slurp_file("$out/raw.json"));
is_deeply(
	$raw->{counts},
	{
		pair => 2, fenced => 2, commit => 2,
		again => 0, is_held => 0, try_local => 0, hand_over => 0
	},
	'client commands of single operations');

my %cell = map { ("$_->{part} $_->{clients} $_->{contender}" => $_) }
  grep { $_->{link} eq 'direct' } @{ $raw->{cells} };
foreach my $name (qw(bare session xact))
{
	my $cell = $cell{"uncontended 1 $name"};

	is($cell->{script_calls}, 2, "$name: two script calls a pair");
	is_deeply($cell->{commands}, { EVALSHA => 2 }, "$name: and nothing else");
	foreach my $work ('uncontended 1', 'uncontended 16', 'hot 16')
	{
		$cell = $cell{"$work $name"};
		cmp_ok($cell->{steps}, '>', 0, "$name, $work: has worked");
		is($cell->{lost_updates}, 0, "$name, $work: lost no update");
	}
}
cmp_ok($cell{'hot 16 none'}{lost_updates},
	'>', 0, 'without a lock updates are lost');

# Three of five masters have to answer; one that is far behind the others is not asked.
foreach my $case ([ one => 1, 2 ], [ masters => 5, 6 ])
{
	my ($name, $nodes, $least) = @$case;
	my $cell = $cell{"topologies 1 $name"};

	cmp_ok($cell->{steps}, '>', 0, "$name: has worked");
	is($cell->{lost_updates}, 0, "$name: lost no update");
	is(scalar @{ $cell->{calls_of_nodes} }, $nodes, "$name: of each node");
	cmp_ok($cell->{script_calls}, '>=', $least, "$name: of those that count");
	is($cell->{connections}, $nodes, "$name: a connection to each");
}

# The report
command_ok([ 'python3', 'test/bench/report', $out ], 'report');
my $results = decode_json(slurp_file("$out/results.json"));
my ($pair) = grep { $_->{must} eq '2 client commands' } @{ $results->{bars} };
ok($pair && $pair->{reached}, 'the report says so too');
like(
	slurp_file("$out/results.md"),
	qr/^\| redis_lock \|.*^\| redis_xact_lock \|/ms,
	'a table');
foreach my $picture ('results', 'summary')
{
	command_like(
		[
			'python3', '-c',
			'import sys, xml.etree.ElementTree as E;'
			  . 'print(sum(e.tag.endswith("rect") for e in E.parse(sys.argv[1]).iter()))',
			"$out/$picture.svg"
		],
		qr/^[1-9]\d*$/,
		"$picture: a picture with bars");
}

# What the documentation says of the results is what they are.
{
	my $tree = PostgreSQL::Test::Utils::tempdir();
	my @pages = qw(docs/bench/README.md docs/topologies.md);

	mkdir "$tree/$_" or die "could not make $tree/$_: $!" foreach 'docs', 'docs/bench';
	copy($_, "$tree/$_") or die "could not copy $_: $!" foreach @pages;
	command_ok(
		[ 'python3', 'test/bench/report', '--tell', 'docs/bench', $tree ],
		'the pages are written again');
	is(slurp_file("$tree/$_"), slurp_file($_), "$_: says what results.json says")
	  foreach @pages;

	command_ok([ 'python3', 'test/bench/report', '--tell', $out, $tree ],
		'and from these results');
	like(slurp_file("$tree/docs/bench/README.md"), qr/^Of \d+ bars, with 1 round on/m, 'the first page has them');
	like(slurp_file("$tree/docs/topologies.md"), qr/^\| five masters \|/m, 'and so has the other one');
}

# The bars of all kinds: what is counted; how fast it is says nothing here.
my ($bars, $complaint) = run_command(
	[
		$^X, (map { "-I$_" } @INC), 'test/bench/family',
		qw(--quick --rounds 1 --no-redisson pairs multi places)
	]);
foreach my $kind (qw(reentrant fair read write))
{
	like($bars, qr/^met +a pair, $kind: 2\.00 commands/m, "two commands a pair: $kind")
	  or diag $complaint;
}
like($bars, qr/^met +ten keys at once: 2 commands/m, 'and for several keys at once');
is(scalar(() = $bars =~ /^(?:met|missed) .*\(must [\d.]+\)|^(?:met|missed) .* 1,000 places/mg),
	scalar(() = $bars =~ /^(?:met|missed) /mg), 'all bars have figures');

done_testing();
