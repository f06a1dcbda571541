# The layers of src/ (src/layers): no file uses what is above it, no files use each
# other in a circle.  And what nobody sees who reads a line of it: a clock that a
# macro reads twice, a number that two tests have.

use File::Basename qw(dirname);
use LockRedis::Test;

my $top = dirname(dirname(dirname(__FILE__)));

my $said = `$top/script/structure --check $top 2>&1`;
is($?, 0, 'no arrow upwards, no circle, each file in a layer') or diag($said);

# It can say no: the same, with the layers upside down.
my $layers = "$PostgreSQL::Test::Utils::tmp_check/layers";
open my $out, '>', $layers or die $!;
print $out "stats\nsettings store/* store/*/* kinds/* names report locktable/*\n",
	"session/* watchdog/* sql/* lockredis\n";
close $out;
$said = `$top/script/structure --check --layers $layers $top 2>&1`;
isnt($?, 0, 'upside down: fails');
like($said, qr/^upwards: session\/\S+ -> stats: /m, 'and says which');


# Min() and Max() evaluate twice what they return.  A job's lock was asked for with a
# lease of less than nothing, because time went by in between.
my $reads = qr/\b(?:lr_now|lt_deadline|lt_lease_end|lt_next_due|read_time|silence_last_answer|silence_last_service)\(/;
sub reads_twice { return grep { /\b(?:Min|Max)\([^;]*$reads/ } split /;/, $_[0]; }
for my $file (sort glob("$top/src/*.[ch] $top/src/*/*.[ch] $top/src/*/*/*.[ch]"))
{
	my @twice = reads_twice(PostgreSQL::Test::Utils::slurp_file($file));
	is("@twice", '', "no clock in a macro: $file") if @twice;
}
is(scalar(reads_twice("x = Max(a,\n\tlr_ms_up(b - lr_now()));")), 1,
	'a clock in a macro would be seen');

# A function of more than 12 lines, and each that a header offers, has a comment, where
# it is defined or where it is declared.
sub functions_without_comment
{
	my (%said, %bare, @bare);

	foreach my $text (@_)
	{
		my $commented = 0;

		foreach my $line (split /\n/, $text)
		{
			$commented = 1 if $line =~ m{\*/};
			$commented = 0 if $line eq '';
			my ($name) = $line =~ /^extern [^=;]*?\b(\w+)\(/ or next;
			$said{$name} ||= $commented;
			$bare{$name} = 1;
		}
		while ($text =~ m{(\*/)?\n[^\n]+\n([a-z]\w+)\([^;{}]*\)\n\{\n(.*?)^\}}msg)
		{
			$said{$2} = 1 if defined $1;
			$bare{$2} = 1 if ($3 =~ tr/\n//) > 12;
		}
	}
	@bare = sort grep { !$said{$_} } keys %bare;
	return @bare;
}
my @sources = grep { !/lua_\w+\.h$/ } map { glob "$top/src/$_" } qw(*.[ch] */*.[ch] */*/*.[ch]);
is(join(' ', functions_without_comment(map { PostgreSQL::Test::Utils::slurp_file($_) } @sources)),
	'', 'each function that needs a comment has one');
is( join(' ', functions_without_comment("\nextern int bare(void);\n\n/* Said. */\nextern int said(void);\n",
			"\n\nstatic int\nlong_one(int a)\n{\n" . "\ta++;\n" x 13 . "}\n")),
	'bare long_one',
	'one without would be seen');

# A structure in shared memory has at most so many fields, so that each of them, and what
# belongs together, can be seen at a glance.
use constant FIELDS_MAX => 20;

# Structure => the number of its fields, of those that ShmemInitStruct() or lt_carve() gives
# in these sources, and what is in these.
sub fields_in_shared_memory
{
	my (%fields, @shared, %there);

	foreach my $text (@_)
	{
		my ($bare, %type) = $text =~ s{/\*.*?\*/}{}sgr;

		while ($bare =~ /^typedef struct \w+\n\{\n(.*?)^\} (\w+);/msg)
		{
			my ($body, $name) = ($1, $2);

			$fields{$name} =
				[ map { /^\s*(\w+)([^;]*)/ ? ($1) x (1 + ($2 =~ tr/,//)) : () } split /;/, $body ];
		}
		$type{$2} = $1 while $bare =~ /^(?:static )?(\w+)\s+\*(\w+) = NULL;/mg;
		push @shared, map { $type{$_} // () } $bare =~ /(\w+) = ShmemInitStruct\(/g;
		push @shared, $bare =~ /= \((\w+) \*\) (?:lt_carve)?\(/g;
	}
	while (my $name = shift @shared)
	{
		next if $there{$name} || !$fields{$name};
		$there{$name} = @{ $fields{$name} };
		push @shared, @{ $fields{$name} };
	}
	return \%there;
}
my $fields = fields_in_shared_memory(map { PostgreSQL::Test::Utils::slurp_file($_) } @sources);
is(join(' ', sort grep { $fields->{$_} > FIELDS_MAX } keys %$fields),
	'', 'structures in shared memory have at most ' . FIELDS_MAX . ' fields');
is(join(' ', map { $fields->{$_} ? () : $_ } qw(LrHold LrKey LrWait NodeEntry HostEntry StoreOp)),
	'', 'those of locks, nodes and requests are among them');

# A number is that of one test.
my %named;
push @{ $named{ (/(\d{3})_[^\/]*\z/)[0] } }, $_ foreach glob "$top/test/t/*.pl";
is_deeply([ map { @$_ } grep { @$_ > 1 } values %named ], [], 'no number twice');

done_testing();
