# Copyright (c) 2026, lockredis contributors

# The functions as SQL has them, and what is said of them:
# - docs/reference.md lists each with its arguments, their types and defaults and what it
#   returns, as the catalog has them, and no other
# - its list of errors has each SQLSTATE that the sources raise, and no other
# - the comment of each, and of each table, view and column, has at most 300 characters
# - one scheme of names and arguments: redis_try_X has the arguments of redis_X and a "wait"
#   behind the key, or behind how many, which is 0 by default (313_arguments has NULL)
# For nothing that a guarantee speaks of.

use File::Basename qw(dirname);
use File::Spec;
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

use constant COMMENT_MAX => 300;

my $top = File::Spec->rel2abs(dirname($0)) . '/../..';
my ($node, $redis, $one) = servers(sessions => 1);

# ----------
# What there is
# ----------

my %there;    # "name(arguments) → type", as the reference has it
my %arguments;    # by name and all types, [name, type, default]

foreach my $row (@{ $one->query(q{
	SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prokind,
		obj_description(p.oid, 'pg_proc')
	  FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
	 ORDER BY 1, 2})->rows })
{
	my ($name, $arguments, $result, $kind, $comment) = @$row;

	ok($comment ne 'NULL' && length $comment <= COMMENT_MAX, "$name($arguments): has a comment, a short one");
	next unless $name =~ /^redis_/;
	$arguments =~ s/'00:00:00'::interval/'0'/g;
	$arguments =~ s/(DEFAULT (?:NULL|'\w*'))::\w+/$1/g;
	$arguments =~ s/\bIN //g;
	$there{"$name($arguments)" . ($kind eq 'p' ? '' : " → $result")} = 1;
	$arguments{$name} = [ map { /^(\w+) (\S+)(?: DEFAULT (.*))?/ ? [ $1, $2, $3 ] : die } split /, /,
		$arguments =~ s/INOUT //r ];
}

$one->query_is(q{
	SELECT count(*) > 100, count(*) FILTER (WHERE length(c.description) > } . COMMENT_MAX . q{)
	  FROM pg_description c JOIN pg_depend d ON d.classid = c.classoid AND d.objid = c.objoid AND d.deptype = 'e'
	  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'},
	't|0', 'and so is that of each table, view and column');

# ----------
# The reference
# ----------

my ($functions) = slurp_file("$top/docs/reference.md") =~ /^## Functions\n(.*?)^## /ms;
my %listed;

while ($functions =~ /^```(\w*)\n(.*?)^```$/msg)
{
	my ($language, $block) = ($1, $2);

	next if $language;
	$listed{$_}++ foreach split /\n/, $block =~ s/\n +/ /gr;
}
is(join("\n", grep { !$listed{$_} } sort keys %there), '', 'each function is in the reference');
is(join("\n", grep { !$there{$_} } sort keys %listed), '', 'and what is there is a function');
is(join(' ', grep { $listed{$_} > 1 } sort keys %listed), '', 'once');

# Each of them is explained, by its name.
my %explained = map { $_ => 1 } map { /\*\*`(\w+)`\*\*/g } $functions =~ /^- (.*?:)/msg;
is(join(' ', grep { !$explained{$_} } sort keys %arguments), '', 'each name is explained');

# ----------
# The errors
# ----------

# Not what ends well or is a warning, and what the sources only compare with or calculate
my %no_error = map { ("ERRCODE_$_" => 1) } qw(SUCCESSFUL_COMPLETION WARNING TO_CATEGORY);
my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my $headers = `$pg_config --includedir-server` =~ s/\n//r;
my %code = slurp_file("$headers/utils/errcodes.h") =~ /^#define (ERRCODE_\w+) MAKE_SQLSTATE\((.*)\)$/mg;
s/[',]//g foreach values %code;
my $sources = join '', map { slurp_file($_) } split /\n/, `find '$top/src' -name '*.[ch]'`;

$code{$1} = $code{$2} while $sources =~ /^#define (ERRCODE_\w+)\s+(ERRCODE_\w+)$/mg;

my %raised = map { ($code{$_} || "no code of $_" => 1) } grep { !$no_error{$_} } $sources =~ /\bERRCODE_\w+/g;
my ($errors) = slurp_file("$top/docs/reference.md") =~ /^## Errors\n(.*?)^## /ms;
my %in_list = map { $_ => 1 } map { split /, /, $_ } $errors =~ /^- \*\*([0-9A-Z, ]+)\*\*/mg;

my @in_table = map { split /, / } $errors =~ /^\| (\d[0-9A-Z, ]+|XX000) \|/mg;

is(join(' ', sort @in_table), join(' ', sort keys %in_list), 'each is in the table of what drivers do');

# PostgreSQL raises it, where lockredis asks it to end the session.
delete $in_list{'57P01'};
is_deeply([ sort keys %in_list ], [ sort keys %raised ], 'the SQLSTATE of each error');

# ----------
# Names and arguments
# ----------

my %value = (key => q{'k'}, permits => 1, count => 1, ttl => 'NULL');

is(join(' ', grep { /_try_/ && !/^redis_try_/ } keys %arguments), '', 'try stands behind redis_');
foreach my $try (sort grep { /^redis_try_/ } keys %arguments)
{
	my @own = @{ $arguments{$try} };
	my ($wait) = grep { $own[$_][0] eq 'wait' } 0 .. $#own;
	my $waits = $try =~ s/try_//r;
	my @other = map { [ @$_[ 0, 1 ] ] } @{ $arguments{$waits} || [] };

	is($wait, $own[1][0] eq 'permits' ? 2 : 1, "$try: where the wait stands");
	is($own[$wait][2], q{'0'}, "$try: it is 0 by default");
	is_deeply([ map { [ @$_[ 0, 1 ] ] } grep { $_->[0] ne 'wait' } @own ],
		\@other, "$try: otherwise the arguments of $waits");
}

# What creates, and what sets whatever there was
foreach my $init (sort grep { /_init$/ } keys %arguments)
{
	my $set = $init =~ s/init$/set/r;
	my $arguments = join ', ', map { $value{ $_->[0] } } @{ $arguments{$init} };

	is_deeply($arguments{$set}, $arguments{$init}, "$set: the arguments of $init");
	$one->query_is("SELECT $init($arguments), $init($arguments), $set($arguments)", 't|f|', $init);
	$redis->cmd('FLUSHALL');
}

end_test($node, $redis);
