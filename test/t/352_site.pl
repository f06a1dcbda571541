# Copyright (c) 2026, lockredis contributors

# The documentation as a site (script/docs): it can be built, each page of docs/ is in it and
# in its search, nothing of it is fetched from elsewhere, and a link to nothing, or a page that
# the menu has not, is an error.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Utils qw(append_to_file slurp_file);
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $directory = PostgreSQL::Test::Utils::tempdir();

# Its status, and what it says
sub docs
{
	my ($tree, @arguments) = @_;
	my @command = ("$tree/script/docs", @arguments);

	IPC::Run::run(\@command, '<', \undef, '>&', \my $output);
	return ($? >> 8, $output);
}

my ($status, $output) = docs($top, '--tools');
if ($status != 0 && !$ENV{CI})
{
	plan skip_all => "MkDocs cannot be installed: $output";
}
is($status, 0, 'MkDocs is there') or diag($output);

($status, $output) = docs($top, "$directory/site");
is($status, 0, 'the site can be built') or diag($output);

my @pages = map { s{^\Q$top/docs/\E}{}r } grep { !/README\.md$/ } glob "$top/docs/*.md";
cmp_ok(scalar @pages, '>', 30, 'there are pages');
is(join(' ', grep { !-s "$directory/site/docs/" . s/md$/html/r } @pages),
	'', 'each of them is a page of the site');
ok(-s "$directory/site/index.html", 'README is the first one');

my $index = decode_json(slurp_file("$directory/site/search/search_index.json"));
my %found = map { $_->{location} =~ s/#.*//r => 1 } @{ $index->{docs} };
is(join(' ', grep { !$found{ 'docs/' . s/md$/html/r } } @pages), '', 'the search knows each of them');
ok((grep { $_->{text} =~ /redis_multi_lock/ && $_->{location} =~ m{^docs/multi\.html} } @{ $index->{docs} }),
	'and where a function is described');

# What a browser fetches by itself
my @html = split /\n/, `find $directory/site -name '*.html'`;
my @elsewhere = map {
	slurp_file($_) =~ /<(?:script|img|link rel="(?:stylesheet|preconnect|icon)"|iframe)[^>]*\b(?:src|href)=["']?((?:https?:)?\/\/[^"'\s>]+)/g
} @html;
is(join(' ', @elsewhere), '', 'nothing comes from elsewhere');

# ----------
# What is wrong is found.
# ----------

my $tree = "$directory/tree";
mkdir $tree or die "mkdir: $!";
system("cd '$top' && find . -name '*.md' -o -path './docs/*' -type f -o -path './monitoring/*' -type f"
	  . " -o -path './examples/*' -type f -o -path './docker/*' -type f -o -name LICENSE"
	  . " -o -path './script/*' -type f | tar -T - -cf - | tar -C '$tree' -xf -") == 0
  or die 'cannot copy the tree';

append_to_file("$tree/docs/faq.md", <<'END');

[page](no_page.md) [heading](fencing.md#no-heading) ![picture](bench/no_picture.svg)
END
append_to_file("$tree/docs/unlisted.md", "# Unlisted\n");
($status, $output) = docs($tree, "$directory/other");
isnt($status, 0, 'with faults it cannot be built');
like($output, qr/faq\.md.*no_page\.md/, 'a page that is not there');
like($output, qr/faq\.md.*#no-heading/, 'a heading that is not there');
like($output, qr/faq\.md.*no_picture\.svg/, 'a picture that is not there');
like($output, qr/unlisted\.md/, 'a page that the menu has not');
ok(!-e "$directory/other", 'no half of a site is left');

done_testing();
