# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Monitor - the commands that a Redis gets, from its MONITOR

=head1 DESCRIPTION

Made by C<monitor> of LockRedis::Redis, which see.

=cut

package LockRedis::Monitor;

use LockRedis::Pragmas;

sub new ($class, $redis)
{
	my $conn = $redis->connection;

	$conn->call('MONITOR');
	return bless { redis => $redis, conn => $conn }, $class;
}

# Ends the capture and returns its lines, without those of scripts and of the
# test itself.  A marker command says when everything before it has come; a server
# that has ended the capture (a master that is made a replica ends all connections
# of clients) has shown what it did until then.
sub stop ($self)
{
	my $marker = "monitor-$$-" . LockRedis::Wait::now();
	my @lines;

	$self->{redis}->cmd('ECHO', $marker);
	while (1)
	{
		my $line = eval { $self->{conn}->read_reply };
		die $@ if !defined $line && $@ !~ /closed the connection/;
		last if !defined $line || index($line, $marker) >= 0;
		next unless $line =~ /^[\d.]+ \[\d+ (.+?)\] "/;
		next if $1 eq 'lua' || $self->{redis}{own}{$1};
		push @lines, $line;
	}
	$self->{conn}->disconnect;
	return @lines;
}

# The command of a line and its arguments, as bytes.
sub args ($self, $line)
{
	my %plain = (n => "\n", r => "\r", t => "\t", a => "\a", b => "\b");
	my @args;

	$line =~ s/^[\d.]+ \[.+?\] (?=")//;
	while ($line =~ /"((?:[^"\\]|\\.)*)"/gs)
	{
		my $arg = $1;
		$arg =~ s/\\(x([0-9a-fA-F]{2})|(.))/
		  defined $2 ? chr(hex $2) : exists $plain{$3} ? $plain{$3} : $3/gse;
		push @args, $arg;
	}
	return @args;
}

1;
