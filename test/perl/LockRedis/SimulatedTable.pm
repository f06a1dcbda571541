# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::SimulatedTable - a simulated server in table mode beside a real one

=head1 SYNOPSIS

  my $pair = LockRedis::SimulatedTable->new;
  $pair->begin_anew(10);                  # no rows; owners 10 to 19 have names
  my %said = $pair->ask('create reentrant k owner=10 lease=3; inspect reentrant k');
  my %said = $pair->ask($operations, fails => [2, 1], blocked => 1);
  my %said = $pair->ask($operation, between => [0, $row]);
  $pair->later(2);                        # minutes; both have swept after that
  $pair->stranger(0, 'lock', 'redis_lock_rows', 'k');
  $pair->stranger(0, 'commit');
  my %rows = $pair->rows;                 # real => text, simulated => text

=head1 DESCRIPTION

The real server has lockredis, linked with test/simulation/table, whose real.c says what it can
be told; the simulated one has the same operations (simulated.c), written in the same way
(ask.c).  Each operation is a request to the table worker.

What both say is made comparable: instances and digests of ids get names, times count in whole
minutes since begin_anew(), of which each but the first is put forward by later(), so that they
do not depend on how long anything takes.

A row that a stranger inserts is its table and values with "|" between them, "-" for null, "US"
for the instance and @N for that minute.

=cut

package LockRedis::SimulatedTable;

use LockRedis::Pragmas;

use FindBin;
use IPC::Open2;
use LockRedis::Node;
use LockRedis::Wait qw(poll_until);
use POSIX ();
use PostgreSQL::Test::Utils qw(run_command system_or_bail);

my $minute = 60_000_000;
my $top = "$FindBin::RealBin/../..";

my %columns = (
	redis_lock_rows => [qw(key owner hold_count fence lease acquired_at expires_at instance comment)],
	redis_lock_counters => [qw(key token)],
	redis_lock_shares => [qw(key kind owner lease acquired_at expires_at instance)],
	redis_lock_values => [qw(key kind value expires_at)]);

# One column of each, which a stranger sets to what it is
my %touched = (
	redis_lock_rows => 'comment',
	redis_lock_counters => 'token',
	redis_lock_shares => 'lease',
	redis_lock_values => 'value');

my %mode = (share => 'SHARE', exclusive => 'ACCESS EXCLUSIVE');
my $epoch = "'2000-01-01 00:00:00+00'::timestamptz";

sub tables { return sort keys %columns; }

# ----------
# Both servers
# ----------

# lockredis once more, with what can be told.  It needs what the library needs that is tested.
sub _link_real ($dir)
{
	my @wrapped = qw(clock_gettime GetCurrentTimestamp entries_sweep keyed_find keyed_next_of_group
	  keyed_insert keyed_update keyed_delete);
	my ($headers) = run_command([ $ENV{PG_CONFIG} || 'pg_config', '--includedir-server' ]);
	my ($needed) = run_command([ 'objdump', '-p', "$top/lockredis.so" ]);

	system_or_bail('cc', '-shared', '-fPIC', '-O1', '-g', '-std=gnu11', '-fno-strict-aliasing', '-fwrapv',
		"-I$top/src", "-I$headers", '-o', "$dir/lockredis.so",
		(map { "$top/test/simulation/table/$_.c" } qw(ask real)),
		glob("$top/src/*.o $top/src/*/*.o $top/src/*/*/*.o"),
		($ENV{LOCKREDIS_COVERAGE} ? '--coverage' : ()),
		(map { "-Wl,--wrap=$_" } @wrapped),
		(map { "-l:$_" } $needed =~ /NEEDED\s+(\S+)/g));
	return;
}

sub _start_real ($self, $dir)
{
	my $node = LockRedis::Node->create(
		'main',
		mode => 'table',
		# Whoever cleans up may lock a table.
		settings => { dynamic_library_path => "$dir:\$libdir", autovacuum => 'off' });
	my %functions = (
		table_ask => '(text, int, int, bool, bool) RETURNS text',
		table_who => '(bigint) RETURNS text',
		table_later => '(bigint) RETURNS void',
		table_stopped => '() RETURNS bool',
		table_go_on => '() RETURNS void');

	$self->{node} = $node;
	$self->{asker} = $node->session;
	$self->{looker} = $node->session;
	$self->{strangers} = [ map { $node->session } 0 .. 1 ];
	$self->{asker}->value("CREATE FUNCTION $_$functions{$_} LANGUAGE C AS 'lockredis'") foreach sort keys %functions;
	return;
}

# script/test has a simulator for all that need one.
sub _start_simulated ($self, $dir)
{
	my $built = $ENV{LOCKREDIS_SIMULATOR} || "$dir/simulator";

	mkdir $built;
	system_or_bail('flock', "$built/lock", 'env', '-u', 'MAKEFLAGS', '-u', 'MAKELEVEL',
		'make', '-s', '-j2', '-C', "$top/test/simulation", "BUILD=$built", "SRC=$top/src");
	$self->{pid} = open2($self->{from}, $self->{to}, "$built/check-table", "$built/product.so");
	return;
}

sub new ($class)
{
	my $self = bless {}, $class;
	my $dir = PostgreSQL::Test::Utils::tempdir();

	_link_real($dir);
	$self->_start_simulated($dir);
	$self->_start_real($dir);
	return $self;
}

# The status of the simulated one
sub end ($self)
{
	close $self->{to};
	waitpid $self->{pid}, 0;
	return $?;
}

sub _tell ($self, $command)
{
	print { $self->{to} } "$command\n";
	$self->{to}->flush;
	return;
}

sub _simulated ($self, $command)
{
	my @lines;

	$self->_tell($command);
	while (defined(my $line = readline $self->{from}))
	{
		chomp $line;
		return @lines if $line eq '.';
		push @lines, $line;
	}
	die "the simulated server has ended: @lines\n";
}

# ----------
# What is the same
# ----------

# Time, instance, digests; see ask_who().
sub _meet ($self, $side, $who)
{
	my ($now, $instance, @digests) = split / /, $who;
	my %names = ($instance => 'us');

	@names{@digests} = ((map { "secret$_" } 0 .. 9), (map { "id$_" } 0 .. 9));
	$self->{$side} = { began => $now, us => $instance, names => \%names };
	return;
}

sub begin_anew ($self, $first_owner)
{
	foreach my $i (0 .. 1)
	{
		$self->{strangers}[$i]->value('ROLLBACK') if $self->{open}[$i];
		$self->{open}[$i] = 0;
	}
	# With pages that are empty a row that changes stays on its page, and its older version is
	# found first, as in the simulator.
	$self->{looker}->value('TRUNCATE ' . join ', ', tables());
	$self->_tell('anew') if $self->{simulated};
	$self->_meet('real', $self->{asker}->value("SELECT table_who($first_owner)"));
	$self->_meet('simulated', $self->_simulated("who $first_owner"));
	return;
}

sub _named ($self, $side, $text)
{
	$text =~ s/([0-9a-f-]{36,64})/$self->{$side}{names}{$1} || $1/ge;
	return $text;
}

# What is left is in milliseconds.
sub _answer ($self, $side, $text)
{
	$text =~ s{\b(ttl|watch)=(\d+)}{"$1=" . POSIX::ceil($2 * 1000 / $minute)}ge;
	return $self->_named($side, $text);
}

sub _row ($self, $side, $line)
{
	my ($table, @values) = split /\|/, $line, -1;

	foreach my $i (grep { $values[$_] ne '-' } 0 .. $#values)
	{
		my $column = $columns{$table}[$i];

		$values[$i] = POSIX::floor(($values[$i] - $self->{$side}{began}) / $minute) if $column =~ /_at$/;
		$values[$i] /= $minute if $column eq 'lease';
	}
	return $self->_named($side, join '|', $table, @values);
}

# Times as the simulated one tells them: microseconds
sub _as_number ($column)
{
	return "(extract(epoch FROM $column) * 1000000)::bigint" if $column eq 'lease';
	return "(extract(epoch FROM $column - $epoch) * 1000000)::bigint" if $column =~ /_at$/;
	return $column;
}

my $listing = join ' UNION ALL ', map {
	my $table = $_;
	my $values = join ', ', map { 'coalesce((' . _as_number($_) . ")::text, '-')" } @{ $columns{$table} };

	"SELECT concat_ws('|', '$table', $values) FROM $table"
} tables();

sub rows ($self)
{
	my %lines = (
		real => [ map { join '|', @$_ } @{ $self->{looker}->query($listing)->rows } ],
		simulated => [ $self->_simulated('rows') ]);

	return map {
		my $side = $_;

		$side => join "\n", sort map { $self->_row($side, $_) } @{ $lines{$side} }
	} keys %lines;
}

# Has the key a row that all can see?
sub has_row ($self, $key)
{
	return $self->{looker}->value("SELECT EXISTS (SELECT FROM redis_lock_rows WHERE key = '$key')") eq 't';
}

# ----------
# Strangers
# ----------

# A row with the times and the instance of that side
sub _row_for ($self, $side, $row)
{
	$row =~ s/US/$self->{$side}{us}/g;
	$row =~ s/\@(-?\d+)/$self->{$side}{began} + $1 * $minute/ge;
	return $row;
}

sub _insert ($self, $row)
{
	my ($table, @values) = split /\|/, $self->_row_for('real', $row);

	foreach my $i (0 .. $#values)
	{
		my $column = $columns{$table}[$i];

		$values[$i] =
		    $values[$i] eq '-' ? 'NULL'
		  : $column =~ /_at$/ ? "$epoch + $values[$i] * interval '1 us'"
		  : $column eq 'lease' ? "$values[$i] * interval '1 us'"
		  : "'$values[$i]'";
	}
	return "INSERT INTO $table VALUES (" . join(', ', @values) . ') ON CONFLICT DO NOTHING';
}

# Each of the two does one thing: ($i, 'insert', $row), ($i, 'lock' or 'touch' or 'delete', $table,
# $key), ($i, 'share' or 'exclusive', $table); then ($i, 'commit' or 'rollback').
sub stranger ($self, $i, $what, @of)
{
	my ($table, $key) = @of;
	my $session = $self->{strangers}[$i];

	$self->{open}[$i] = $what !~ /^(commit|rollback)$/;
	if (!$self->{open}[$i])
	{
		$session->value(uc $what);
		$self->_simulated("stranger $i $what");
		return;
	}
	$session->value('BEGIN');
	$session->value(
		  $what eq 'insert' ? $self->_insert($table)
		: $what eq 'lock' ? "SELECT FROM $table WHERE key = '$key' FOR UPDATE"
		: $what eq 'touch' ? "UPDATE $table SET $touched{$table} = $touched{$table} WHERE key = '$key'"
		: $what eq 'delete' ? "DELETE FROM $table WHERE key = '$key'"
		: "LOCK TABLE $table IN $mode{$what} MODE");
	@of = split /\|/, $self->_row_for('simulated', $table), 2 if $what eq 'insert';
	$self->_simulated("stranger $i $what @of");
	return;
}

# ----------
# Requests
# ----------

# The worker stops before it inserts a row, if it does: that stranger inserts his.
sub _ask_real_between ($self, $operation, $i, $row)
{
	my $asker = $self->{asker};
	my $stopped = 0;

	$asker->start("SELECT table_ask('$operation', 0, 0, false, true)");
	poll_until(
		'the worker',
		sub {
			$stopped = $self->{looker}->value('SELECT table_stopped()') eq 't';
			return $stopped || !$asker->is_running;
		});
	$self->{strangers}[$i]->value('BEGIN');
	if ($stopped)
	{
		$self->{strangers}[$i]->value($self->_insert($row));
		$self->{looker}->value('SELECT table_go_on()');
	}
	return $asker->wait->value . ($stopped ? ' between' : ' not between');
}

# Operations with ";" between them, of one request.  fails: after so many accesses to rows one
# fails, and after so many more another one; blocked: they say that somebody is in the way.
# between: a stranger who inserts a row before the worker inserts one.
sub ask ($self, $operations, %opts)
{
	my ($one, $other) = @{ $opts{fails} || [ 0, 0 ] };
	my $blocked = $opts{blocked} ? 1 : 0;
	my $real;

	if ($opts{between})
	{
		my ($i, $row) = @{ $opts{between} };
		my (undef, $values) = split /\|/, $self->_row_for('simulated', $row), 2;

		$self->{open}[$i] = 1;
		$real = $self->_ask_real_between($operations, $i, $row);
		$self->_simulated("between $i $values");
	}
	else
	{
		$real = $self->{asker}->value("SELECT table_ask('$operations', $one, $other, ${blocked}::bool, false)");
	}
	my ($simulated) = $self->_simulated("ask $one $other $blocked $operations");

	return (real => $self->_answer('real', $real), simulated => $self->_answer('simulated', $simulated));
}

# The clocks of both are put forward.
sub later ($self, $minutes)
{
	$self->{asker}->value("SELECT table_later($minutes)");
	$self->_simulated("later $minutes");
	return;
}

1;
