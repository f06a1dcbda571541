# The simulator's mutants are words of src/: one whose place is gone is named, and so is
# a rule of a README that no mutant breaks: test/simulation/README.md.

use File::Basename qw(dirname);
use File::Path qw(make_path);
use LockRedis::Test;

my $top = dirname(dirname(dirname(__FILE__)));
my $copy = "$PostgreSQL::Test::Utils::tmp_check/mutants";

# A tree of its own, with one source, one README and what is said of them.
sub put ($path, $text)
{
	make_path(dirname("$copy/$path"));
	open my $out, '>', "$copy/$path" or die "$path: $!";
	print $out $text;
	close $out;
	return;
}

sub said
{
	my $said = `$copy/test/simulation/mutate @_ 2>&1`;
	return ($? >> 8) . ": $said";
}

my $source = <<'END';
int
half(int n)
{
	/* n / 2 is not most of them */
	if (n < 2 && alone())
		return 1;
	note(n);
	return n / 2 +
		1;
}

int
other(int n)
{
	return n / 2 + 1;
}
END
my $mutant = <<'END';
mutant  tie
rule    half is not most
mode    masters
check   two holders
in      a.c half
END

sub with_mutant { return put('test/simulation/mutants/some', $mutant . $_[0]) }

sub becomes ($what, $change, $text)
{
	with_mutant($change);
	put('other/a.c', $source);
	like(said('apply', 'tie', "$copy/other"), qr/\A0: \z/, "$what: applied");
	my $is = PostgreSQL::Test::Utils::slurp_file("$copy/other/a.c");
	s/\s+/ /g foreach $is, $text;
	ok(index($is, $text) >= 0, $what) or diag($is);
	return;
}

put("test/simulation/$_", PostgreSQL::Test::Utils::slurp_file("$top/test/simulation/$_"))
	foreach qw(mutate mutant_edit.py);
chmod 0755, "$copy/test/simulation/mutate";
put('src/a.c', $source);
put('test/simulation/workload/meetings.c', qq({"half", NULL, "other", NULL, MEET_ANY},\n));
put('src/README.md', "Rules\n\n* **Half** is not\n  most.\n");
put('test/simulation/mutants/rules', "README.md\n\tHalf is not most => tie\n");

becomes('words are replaced, wherever lines end', "replace n / 2 + 1\nby      n / 2\n",
	'note(n); return n / 2; } int other(int n) { return n / 2 + 1;');
becomes('words are cut', "cut     && alone()\n", 'if (n < 2 ) return 1; note(n);');
becomes('a statement goes with all that it governs', "drop    alone\n", '*/ note(n);');
becomes('a statement comes before another', "before  note\nadd     a();\n\tb();\n",
	'return 1; a(); b(); note(n);');
becomes('a statement comes after another', "after   alone\nadd     a();\n", 'return 1; a(); note(n);');
is(said('check'), "0: 1 mutants have their places\n", 'all is well');
is(said('list', "'t*'"), "0: tie\tmasters\ttwo holders\thalf is not most\n", 'list');

with_mutant("meeting half - other\ndrop    alone\n");
is(said('check'), "0: 1 mutants have their places\n", 'a meeting');

with_mutant("drop    alone\nunseen  there is one server\n");
is(said('list', "'t*'"), '0: ', 'what is not seen is in no list');
is(said('list', 'tie'), "0: tie\tmasters\ttwo holders\thalf is not most\n", 'but by its name');
is(said('unseen'), "0: tie: there is one server\n", 'why it is not seen');

# What has no place is named.
for (
	[ 'is gone', "drop    none()\n", qr/^1: tie: a\.c half: is there 0 times: none \( \)$/m ],
	[ 'is there twice', "drop    2\n", qr/^1: tie: a\.c half: is there 2 times: 2$/m ],
	[ 'is all of a branch', "before  return 1\nadd     a();\n", qr/^1: tie: .* nothing can stand before it$/m ],
	[ 'has no meeting', "meeting half - -\ndrop    alone\n", qr/^1: tie: there is no meeting half - -$/m ],
	[ 'is unknown', "swap    alone\n", qr/^1: mutate: mutant  tie.*"swap" means nothing here$/ms ])
{
	my ($what, $change, $expected) = @$_;
	with_mutant($change);
	like(said('check'), $expected, "a place that $what");
}

# So is a rule that nothing breaks, and a mutant of none.
with_mutant("drop    alone\n");
put('src/README.md', "Rules\n\n* **Half** is not\n  most.\n* Another.\n");
like(said('check'), qr/^1: rules: README\.md: no mutant, and no reason: Another\.$/m, 'a new rule');
put('src/README.md', "Rules\n\n* Another.\n");
like(said('check'), qr/^rules: README\.md has no such rule: Half is not most$/m, 'a rule that is gone');
put('src/README.md', "Rules\n\n* Half is not most.\n");
put('test/simulation/mutants/rules', "README.md\n\tHalf is not most => gone\n");
like(said('check'), qr/^1: rules: README\.md: Half is not most: no such mutants: gone$/m, 'no such mutant');
put('test/simulation/mutants/rules', "README.md\n\tHalf => none: as half\n");
is(said('check'), "0: 1 mutants have their places\n", 'a reason is enough');

# Those of this tree.
like(`$top/test/simulation/mutate check 2>&1`, qr/\A\d+ mutants have their places\Z/,
	'each mutant of the tree has its place, each rule a mutant or a reason');

done_testing();
