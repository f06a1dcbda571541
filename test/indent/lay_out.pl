# Copyright (c) 2026, lockredis contributors

# lay_out.pl [--check] FILE ...: see script/indent.
#
# pg_bsd_indent refills comments, and gets some code wrong, which pgindent mends behind it.
# So each comment is a short one while it works, and what it gets wrong is mended here, or
# kept from it: compound literals, and the type "text", which is a variable elsewhere.

use strict;
use warnings FATAL => 'all';

use File::Basename;
use IPC::Open3;

my $here = dirname(__FILE__);
my @command = ('pg_bsd_indent', split(' ', <<'OPTIONS'), "-U$here/typedefs");
	-bad -bap -bbb -bc -bl -cli1 -cp33 -cdb -nce -d0 -di12 -nfc1 -i4 -l200 -lp -lpl -nip -npro
	-sac -tpg -ts4
OPTIONS

sub slurp
{
	my ($path) = @_;

	open my $file, '<', $path or die "$path: $!\n";
	local $/;
	return scalar <$file>;
}

# Gives text with "/* @n@ */" for each comment, and the comments
sub bare_code
{
	my ($text) = @_;
	my @comments;

	$text =~ s{("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(/\*.*?\*/)}{
		defined $1 ? $1 : do { push @comments, $2; "/* \@$#comments\@ */" }
	}gse;
	$text =~ s/\btext(?= \*)/Text/g;
	return ($text, @comments);
}

sub indented
{
	my ($text) = @_;
	my ($pid, $out, @literals);

	$text =~ s/(\(\w+\) \{[^{}\n]*\})/push @literals, $1; "literal_$#literals"/ge;
	$pid = open3(my $in, my $all, undef, @command);
	# Small enough for no pipe to be full: written whole by a child.
	my $writer = fork // die "fork: $!\n";
	if ($writer == 0)
	{
		print $in $text;
		close $in;
		require POSIX;
		POSIX::_exit(0);
	}
	close $in;
	{
		local $/;
		$out = <$all>;
	}
	waitpid $writer, 0;
	waitpid $pid, 0;
	die "pg_bsd_indent: status $?\n" . join "\n", grep { /INDENT/ } split /\n/, $out if $?;
	return $out =~ s/\bliteral_(\d+)/$literals[$1]/gr;
}

# What pgindent mends, too; and what version 2.1.1 does to an initializer of several lines,
# which 2.1.2 does not: a line that goes on outside of parentheses has the column that it had.
sub mended
{
	my ($text, $before) = @_;
	my @before = split /\n/, $before, -1;
	my @lines;
	my $depth = 0;

	$text =~ s/^(\w[\w ]*\w)[ \t]+(\*+)$/$1 $2/gm;
	$text =~ s/(^\}\s+\w+\[\w*\] =\n)\n\{/$1\{/gm;
	@lines = split /\n/, $text, -1;
	return $text if @lines != @before;
	foreach my $i (0 .. $#lines)
	{
		my ($bare, $was) = map { s/^\s+//r } $lines[$i], $before[$i];
		my $code = $lines[$i] =~ s{"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|/\*.*?\*/}{}gr;

		$lines[$i] = $before[$i]
		  if $bare eq $was && $depth == 0 && $i > 0 && $lines[ $i - 1 ] =~ m{(?:[&|+?:=*/<>-]|\breturn)$};
		$depth += ($code =~ tr/(//) - ($code =~ tr/)//);
	}
	return join "\n", @lines;
}

my $check = @ARGV && $ARGV[0] eq '--check' && shift @ARGV;
my $found = 0;

foreach my $path (@ARGV)
{
	my $before = slurp($path);
	my ($bare, @comments) = bare_code($before);
	my $after = eval { mended(indented($bare), $bare) } // die "$path: $@";

	next if $after eq $bare;
	$found++;
	$after =~ s/\bText(?= \*)/text/g;
	$after =~ s{/\* \@(\d+)\@ \*/}{$comments[$1]}g;
	if ($check)
	{
		open my $diff, '|-', 'diff', '-u', '--label', $path, '--label', "$path, laid out", $path, '-'
		  or die "diff: $!\n";
		print $diff $after;
		close $diff;
		next;
	}
	open my $file, '>', $path or die "$path: $!\n";
	print $file $after;
	close $file or die "$path: $!\n";
}
print "indent: $found of ", scalar @ARGV, " files are laid out in another way\n" if $check;
exit($check && $found ? 1 : 0);
