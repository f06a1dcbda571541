# Copyright (c) 2026, lockredis contributors

# Sessions of one server that take and give back locks in DO loops, with the
# functions of test/bench/probe.c around them.

package Bench::Backends;

use strict;
use warnings FATAL => 'all';

my $loop = 'DO $$ BEGIN WHILE bench_next() LOOP %s END LOOP; END $$';
my $xact_loop =
  'DO $$ DECLARE nothing text; BEGIN WHILE bench_next() LOOP'
  . ' PERFORM %s, bench_locked(); nothing := bench_unlocking(); COMMIT;'
  . ' END LOOP; END $$';

my %statement = (
	session => sprintf($loop,
		'PERFORM redis_lock(bench_key()), bench_locked();'
		  . ' PERFORM bench_unlocking(), redis_unlock(bench_key());'),
	query => 'DO $$ BEGIN PERFORM count(redis_lock(bench_key())),'
	  . ' count(bench_locked()), count(bench_unlocking()),'
	  . ' count(redis_unlock(bench_key()))'
	  . ' FROM (SELECT bench_turns() OFFSET 0) AS turn; END $$',
	fenced => sprintf($loop,
		'PERFORM redis_fenced_lock(bench_key()), bench_locked();'
		  . ' PERFORM bench_unlocking(), redis_unlock(bench_key());'),
	advisory => sprintf($loop,
		'PERFORM pg_advisory_lock(bench_number()), bench_locked();'
		  . ' PERFORM bench_unlocking(), pg_advisory_unlock(bench_number());'),
	# No lock at all: for the test that the check finds what it should
	none => sprintf($loop,
		'PERFORM bench_locked(); PERFORM pg_sleep(0); PERFORM bench_unlocking();'),
	xact => sprintf($xact_loop, 'redis_xact_lock(bench_key())'),
	advisory_xact => sprintf($xact_loop, 'pg_advisory_xact_lock(bench_number())'));

# Sessions of each server, shared by all kinds of locks that do not ask for their own.
my %pool;

# Takes: kind, node, board; pool (a name: other sessions than all others have); of a kind that is not among these what each turn of a loop
# calls (loop: to take, to give back), or the whole statement.
sub new
{
	my ($class, %opts) = @_;

	$opts{statement} //= $opts{loop}
	  ? sprintf($loop, "PERFORM $opts{loop}[0], bench_locked();"
		  . " PERFORM bench_unlocking(), $opts{loop}[1];")
	  : $statement{ $opts{kind} } // die "no such kind: $opts{kind}";
	return bless {%opts}, $class;
}

sub create_functions
{
	my ($class, $node, $library) = @_;

	$node->safe_psql('postgres', <<END);
CREATE FUNCTION bench_begin(board text, prefix text, mode text, number int,
	start bigint, until bigint, hold bigint, pause bigint)
	RETURNS void LANGUAGE c STRICT AS '$library';
CREATE FUNCTION bench_attach(board text)
	RETURNS void LANGUAGE c STRICT AS '$library';
CREATE FUNCTION bench_next() RETURNS boolean LANGUAGE c AS '$library';
CREATE FUNCTION bench_turns() RETURNS SETOF boolean LANGUAGE c AS '$library';
CREATE FUNCTION bench_key() RETURNS text LANGUAGE c AS '$library';
CREATE FUNCTION bench_number() RETURNS bigint LANGUAGE c AS '$library';
CREATE FUNCTION bench_locked() RETURNS void LANGUAGE c AS '$library';
CREATE FUNCTION bench_unlocking() RETURNS void LANGUAGE c AS '$library';
CREATE FUNCTION bench_result() RETURNS text LANGUAGE c AS '$library';
END
	return;
}

sub name { my ($self) = @_; return $self->{kind}; }

sub at_distance { my ($self) = @_; return $self->{kind} !~ /advisory/; }

# The first sessions of a server.
sub sessions
{
	my ($class, $node, $count, $pool) = @_;
	my $sessions = $pool{ $pool // $node->name } ||= [];

	push @$sessions, $node->session while @$sessions < $count;
	return @$sessions[ 0 .. $count - 1 ];
}

sub pids
{
	my ($self) = @_;

	return map { $_->pid } @{ $self->{sessions} };
}

# Before start: which sessions will work.
sub choose
{
	my ($self, $clients) = @_;

	$self->{sessions} ||= [];
	@{ $self->{sessions} } =
	    $self->{session}
	  ? ($self->{session})
	  : Bench::Backends->sessions($self->{node}, $clients, $self->{pool});
	return;
}

# Where Redis is the server knows itself.
sub start
{
	my ($self, %work) = @_;
	my $number = $work{base};

	$self->choose($work{clients});
	foreach my $session (@{ $self->{sessions} })
	{
		$session->start(sprintf
			  q{SELECT bench_begin('%s', '%s', '%s', %d, %d, %d, %d, %d); %s; SELECT bench_result()},
			$self->{board}->path, @work{qw(prefix mode)}, $number++,
			@work{qw(start until hold pause)}, $self->{statement});
	}
	return;
}

sub finish
{
	my ($self) = @_;
	my @results;

	foreach my $session (@{ $self->{sessions} })
	{
		my $result = $session->wait(180);
		my $line = (split /\n/, $result->out)[-1];

		die "$self->{kind}: $result->{raw}\n"
		  if $result->{raw} ne '' || $result->{dead};
		push @results, [ split / /, $line ];
	}
	return \@results;
}

1;
