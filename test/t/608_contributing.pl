# Copyright (c) 2026, lockredis contributors

# What somebody needs who takes the tree up: CONTRIBUTING.md names what there is; make writes
# compile_commands.json, by which each file compiles; .editorconfig says of each language how
# it is written here; the container, the templates and the definition of continuous integration
# can be read, and call what there is.
# It is about the tree, so no guarantee speaks of it.

use LockRedis::Pragmas;

use CPAN::Meta::YAML;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Find ();
use JSON::PP;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');

chdir $top or die "chdir: $!";

# ----------
# CONTRIBUTING.md
# ----------

my $page = slurp_file('CONTRIBUTING.md');
my @blocks = $page =~ /^```sh\n(.*?)^```/msg;
my @commands = map { s/\s*#.*//r } grep { /\S/ } split /\n/, join '', @blocks;

cmp_ok(scalar @commands, '>=', 10, 'there are commands');
foreach my $command (@commands)
{
	my ($program, @words) = split ' ', $command;

	if ($program eq 'make')
	{
		is(system("make -n @words >/dev/null"), 0, $command);
		next;
	}
	ok(-x $program, "$command: there is $program");
	my $text = slurp_file($program eq '.ci/run' ? 'script/test' : $program);
	like($text, qr/\Q$_\E\b/, "$command: there is $_") foreach grep { /^--/ } @words;
	ok((-e "test/t/$_.pl" || -e "sql/$_.sql"), "$command: there is $_")
	  foreach grep { /^[a-z0-9]+(?:_\w+)?$/ && $program eq 'script/test' } @words;
}
my @paths = grep { m{/} && !/[ *<(]/ && !/^https?:/ } $page =~ /`([^`\n]+)`/g;
is(join(' ', grep { !-e } @paths), '', 'files that it names exist');
like(slurp_file('README.md'), qr/\(CONTRIBUTING\.md\)/, 'README leads there');

# ----------
# compile_commands.json
# ----------

is(system('make -s compile_commands.json >/dev/null'), 0, 'make compile_commands.json');
my $entries = decode_json(slurp_file('compile_commands.json'));
my %entry = map { $_->{file} => $_ } @$entries;
my @sources;
File::Find::find({ no_chdir => 1, wanted => sub { push @sources, $_ if /\.c$/ } }, 'src');
is_deeply([ sort keys %entry ], [ sort @sources ], 'each source file has an entry');

foreach my $file ('src/lockredis.c', 'src/store/redis/ops.c')
{
	my @arguments = $entry{$file}{arguments}->@*;

	is($entry{$file}{directory}, $top, "$file: in this directory");
	is(system(@arguments, '-fsyntax-only'), 0, "$file: its command compiles it");
}
unlink 'compile_commands.json';

# ----------
# .editorconfig
# ----------

# Which files a pattern in brackets is about
sub glob_to_regex ($glob)
{
	my $regex = $glob =~ s/\./\\./gr =~ s/\*/[^\/]*/gr =~ s/\{(.*?)\}/'(?:' . $1 =~ tr{,}{|}r . ')'/ger;

	return $glob =~ m{/} ? qr{^(?:$regex)$|(?:^|/)(?:$regex)$} : qr{(?:^|/)(?:$regex)$};
}

my @sections;
foreach my $line (split /\n/, slurp_file('.editorconfig'))
{
	push @sections, { glob => $1, regex => glob_to_regex($1) } if $line =~ /^\[(.*)\]$/;
	$sections[-1]{$1} = $2 if @sections && $line =~ /^(\w+) = (\S+)$/;
}

my (%wrong, %count);
File::Find::find(
	{
		no_chdir => 1,
		wanted => sub {
			$File::Find::prune = 1 if -d && m{/(?:\.git|target|build|tmp_check\w*|node_modules|results|private|corpus)$};
			return unless -f && !-l && m{\.(?:c|h|pl|pm|go|sh|py|java|js|sql|lua|yml|yaml|json|tla)$|^\./(?:script|\.ci)/[\w-]+$};
			return if m{/lua_(?:ids|texts)\.h$|package-lock\.json$|/docs/bench/};
			my $file = s{^\./}{}r;
			my ($style) = map { $_->{indent_style} }
			  grep { $_->{indent_style} && $file =~ $_->{regex} } reverse @sections;
			my ($kind) = $file =~ /(\.\w+)$/;
			my $text = slurp_file($file);

			$kind //= 'script';
			$count{$kind}++;
			push @{ $wrong{"$kind has no style"} }, $file unless $style;
			return unless $style;
			push @{ $wrong{"$kind: indented with spaces"} }, $file
			  if $style eq 'tab' && $text =~ /^    +[^\s*]/m && $text !~ /^\t/m;
			push @{ $wrong{"$kind: indented with tabs"} }, $file
			  if $style eq 'space' && $text =~ /^\t/m;
		}
	},
	'.');
cmp_ok(scalar keys %count, '>=', 12, 'so many languages: ' . join ' ', sort keys %count);
is(join("\n", map { "$_: @{$wrong{$_}}" } sort keys %wrong), '', 'each is written as .editorconfig says');

# ----------
# For hosting
# ----------

# It has only what the YAML of Perl itself reads.
my $workflow = CPAN::Meta::YAML->read('.github/workflows/test.yml')->[0];
my @runs = map { $_->{run} // () } map { $_->{steps}->@* } values $workflow->{jobs}->%*;
is(scalar(grep { $_ eq '.ci/run' } @runs), 1, 'hosting runs .ci/run');
is(scalar(grep { m{script/matrix --core \$\{\{ matrix\.cell \}\}} } @runs), 1, 'and the matrix');
my ($cells) = slurp_file('script/matrix') =~ /^all_cells=\((.*)\)$/m;
is(join(' ', $workflow->{jobs}{matrix}{strategy}{matrix}{cell}->@*), $cells, 'with all of its cells');
is($workflow->{jobs}{test}{container}{image}, 'debian:bookworm', 'in a release of Debian');

my $container = decode_json(slurp_file('.devcontainer/devcontainer.json'));
is($container->{image}, 'debian:bookworm', 'the container for editors has the same');
like($container->{onCreateCommand}, qr{script/bootstrap$}, 'and what script/bootstrap installs');
like($container->{postCreateCommand}, qr/make compile_commands\.json/, 'and compile_commands.json');

foreach my $file (grep { !/config\.yml$/ } glob '.github/ISSUE_TEMPLATE/*')
{
	my ($head) = slurp_file($file) =~ /\A---\n(.*?)^---\n/ms;

	like($head // '', qr/^name: \S.*^about: \S/ms, "$file has a name");
}
ok(-e '.github/PULL_REQUEST_TEMPLATE.md', 'a template for changes');

done_testing();
