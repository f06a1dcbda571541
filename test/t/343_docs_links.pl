# Copyright (c) 2026, lockredis contributors

# Each page of the documentation can be read:
# - each relative link leads to a file of the tree, and to a heading that is there
# - README fits on a few screens, and prose is not wider than a terminal
# - README's badges say what is so

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Find ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

use constant { WIDTH => 100, README_LINES => 300 };

my $top = abs_path(dirname(abs_path(__FILE__)) . '/../..');

# Pages of the tree, without those of what was built or downloaded into it, or measured
# (docs/bench/last)
sub pages
{
	my @found;
	my $wanted = sub {
		$File::Find::prune = 1 if -d && /^(?:\.git|target|node_modules|tmp_check.*|results|last)$/;
		push @found, $File::Find::name if /\.md$/;
	};

	File::Find::find({ wanted => $wanted }, $top);
	return sort @found;
}

# The text of a page without blocks of code
sub prose
{
	my ($page) = @_;
	my $text = slurp_file($page);

	utf8::decode($text);
	$text =~ s/^\s*```.*?^\s*```[^\n]*$//msg;
	return $text;
}

# What links to a heading call it: as Markdown is rendered where most read it
sub anchors
{
	my ($page) = @_;
	my %seen;
	my %anchors;

	foreach my $heading (prose($page) =~ /^#{1,6} +(.*?) *$/mg)
	{
		$heading =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
		my $name = lc $heading;

		$name =~ s/[^\w\- ]//g;
		$name =~ tr/ /-/;
		$anchors{ $seen{$name}++ ? "$name-" . ($seen{$name} - 1) : $name } = 1;
	}
	return \%anchors;
}

# What is wrong with a link that stands in a page; undef: nothing
sub fault_of_link
{
	my ($page, $link) = @_;
	my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
	my $file = $path eq '' ? $page : dirname($page) . "/$path";

	return "no such file: $link" unless -e $file;
	return if !defined $anchor || $file !~ /\.md$/;
	return anchors($file)->{$anchor} ? undef : "no such heading: $link";
}

sub links
{
	my ($page) = @_;
	my $text = prose($page);

	$text =~ s/`[^`]*`//g;
	return grep { !/^[a-z]+:/ } $text =~ /\]\(\s*([^)\s]+)\s*\)/g;
}

my @pages = pages();
my $total = 0;

foreach my $page (@pages)
{
	my $name = $page =~ s{^\Q$top\E/}{}r;
	my @links = links($page);
	my @faults = grep { defined } map { fault_of_link($page, $_) } @links;

	$total += @links;
	is(join("\n", @faults), '', "$name: links");
}
cmp_ok($total, '>', 50, 'there are links');

# The checks find what is wrong
is(fault_of_link("$top/README.md", 'docs/none.md'),
	'no such file: docs/none.md', 'a file that is not there is found');
is(fault_of_link("$top/README.md", 'docs/fencing.md#none'),
	'no such heading: docs/fencing.md#none', 'and a heading');

# Files that are named and not linked to
foreach my $page ("$top/README.md", grep { m{^\Q$top\E/docs/} } @pages)
{
	my $name = $page =~ s{^\Q$top\E/}{}r;
	my @named = prose($page) =~ m{`((?:src|test|script|docs)/[\w./-]+)`}g;

	is(join(' ', grep { !-e "$top/$_" && $_ ne 'docs/bench/last' } @named),
		'', "$name: files that it names");
}

# Pages that nobody is led to
my %linked = map { $_ => 1 } map {
	my $page = $_;

	map { abs_path(dirname($page) . '/' . s/#.*//r) } grep { !/^#/ } links($page);
} @pages;
is( join(' ', grep { m{^\Q$top\E/docs/} && !$linked{$_} } @pages),
	'', 'each page of docs is linked from somewhere');

# ----------
# Size
# ----------

foreach my $page (grep { m{^\Q$top\E/(?:(?:docs|src|test)/|[^/]+$)} } @pages)
{
	my $name = $page =~ s{^\Q$top\E/}{}r;
	my @wide = grep { length > WIDTH && !/^\s*[|>]/ } split /\n/, prose($page);

	is(join("\n", @wide), '', "$name: prose within " . WIDTH . ' columns');
}
cmp_ok(scalar(split /\n/, slurp_file("$top/README.md")),
	'<=', README_LINES, 'README: at most ' . README_LINES . ' lines');

# ----------
# Badges
# ----------

is(scalar `$top/script/badges --check 2>&1`, '', 'the badges are true');

done_testing();
