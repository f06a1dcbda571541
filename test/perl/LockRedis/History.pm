# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::History - records who did what when, for checkers

=head1 SYNOPSIS

  my $history = LockRedis::History->new;      # a file among the test's logs
  my $r = $history->record('s1', 'lock', 'key', sub { $s->query(...) },
      sub { $_[0]->sqlstate || 'ok' });       # how the result is written down
  my $entry = $history->start('s2', 'lock', 'key');
  ...
  $history->end($entry, 'ok');
  my @entries = $history->entries;            # read back, by start
  my @pairs = $history->overlaps;             # exclusion that was violated

=head1 DESCRIPTION

The file format is described in test/fault/history.md; other programs write the
same lines.  An operation took effect somewhere between its start and its end,
so a holder is sure to hold from the end of its lock to the start of its unlock.

=cut

package LockRedis::History;

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use LockRedis::Wait qw(now_ns);
use PostgreSQL::Test::Utils;

my $json = JSON::PP->new->canonical->utf8;

sub new
{
	my ($class, %opts) = @_;
	my $test = $0;

	$test =~ s/.*\///;
	$test =~ s/\.[^.]+$//;
	my $file = $opts{file}
	  || "$PostgreSQL::Test::Utils::log_path/$test.history";
	open my $fh, '>>', $file or die "could not open $file: $!";
	$fh->autoflush(1);
	return bless { file => $file, fh => $fh }, $class;
}

sub file { my ($self) = @_; return $self->{file}; }

sub start
{
	my ($self, $client, $op, $key) = @_;

	return {
		client => $client,
		op => $op,
		key => $key,
		start_ns => now_ns()
	};
}

sub end
{
	my ($self, $entry, $result) = @_;

	print { $self->{fh} }
	  $json->encode({ %$entry, end_ns => now_ns(), result => "$result" }), "\n";
	return;
}

sub record
{
	my ($self, $client, $op, $key, $do, $say) = @_;
	my $entry = $self->start($client, $op, $key);
	my $result = $do->();

	$self->end($entry, $say ? $say->($result) : $result);
	return $result;
}

sub entries
{
	my ($self) = @_;

	open my $fh, '<', $self->{file} or die "could not open $self->{file}: $!";
	my @entries = map { $json->decode($_) } <$fh>;
	@entries = sort { $a->{start_ns} <=> $b->{start_ns} } @entries;
	return @entries;
}

# Pairs of spans in which two clients surely held the same key at once: each
# [client, from, to], made of "lock" and "unlock" entries that say "ok".
sub overlaps
{
	my ($self) = @_;
	my (%open, %spans, @pairs);

	foreach my $entry (grep { $_->{result} eq 'ok' } $self->entries)
	{
		my ($client, $key) = @$entry{qw(client key)};
		if ($entry->{op} eq 'lock')
		{
			push @{ $open{$key}{$client} }, $entry->{end_ns};
		}
		elsif ($entry->{op} eq 'unlock' && $open{$key}{$client})
		{
			my $from = pop @{ $open{$key}{$client} };
			push @{ $spans{$key} }, [ $client, $from, $entry->{start_ns} ]
			  unless @{ $open{$key}{$client} };
		}
	}
	foreach my $key (sort keys %spans)
	{
		my @sorted = sort { $a->[1] <=> $b->[1] } @{ $spans{$key} };
		my $last = shift @sorted;
		foreach my $span (@sorted)
		{
			push @pairs, [ $last, $span ]
			  if $span->[1] < $last->[2] && $span->[0] ne $last->[0];
			$last = $span if $span->[2] > $last->[2];
		}
	}
	return @pairs;
}

1;
