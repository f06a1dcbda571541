# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Result - what a statement of a LockRedis::Session gave

=head1 DESCRIPTION

Rows, messages (LockRedis::Message: severity, sqlstate, message, detail, hint),
the time it took, and whether the connection was lost.  Made by
LockRedis::Session, which see.

=cut

package LockRedis::Result;

use strict;
use warnings FATAL => 'all';

use Test::More;

sub new
{
	my ($class, %fields) = @_;
	my @messages;

	# SQLSTATE and text follow the severity, by VERBOSITY=verbose.
	foreach my $line (split /\n/, $fields{raw})
	{
		if ($line =~ /^([A-Z]+\d?):  ([0-9A-Z]{5}): (.*)/)
		{
			push @messages,
			  bless {
				severity => $1,
				sqlstate => $2,
				message => $3,
				part => 'message',
				raw => "$line\n"
			  },
			  'LockRedis::Message';
		}
		elsif (@messages)
		{
			my $last = $messages[-1];
			$last->{raw} .= "$line\n";
			if ($line =~
				/^(DETAIL|HINT|CONTEXT|LOCATION|QUERY|STATEMENT|LINE \d+): +(.*)/)
			{
				$last->{part} = lc $1;
				$last->{ lc $1 } = $2;
			}
			elsif ($last->{part} !~ /^line/)
			{
				$last->{ $last->{part} } .= "\n$line";
			}
		}
	}
	return bless { %fields, messages => \@messages }, $class;
}

sub out { my ($self) = @_; return $self->{out}; }

sub ms { my ($self) = @_; return $self->{ms}; }

# The connection was lost meanwhile.
sub dead { my ($self) = @_; return $self->{dead}; }

sub rows
{
	my ($self) = @_;

	return [ map { [ split /\|/, $_, -1 ] } split /\n/, $self->{out}, -1 ];
}

# First column of the first row.
sub value
{
	my ($self) = @_;

	return $self->{out} =~ /\A([^|\n]*)/ ? $1 : undef;
}

sub _of
{
	my ($self, $pattern) = @_;

	return grep { $_->{severity} =~ $pattern } @{ $self->{messages} };
}

sub warnings { my ($self) = @_; return $self->_of(qr/^WARNING$/); }

sub notices { my ($self) = @_; return $self->_of(qr/^(?:NOTICE|INFO|LOG)$/); }

sub _first_error
{
	my ($self) = @_;
	my ($error) = $self->_of(qr/^(?:ERROR|FATAL|PANIC)$/);

	return $error;
}

sub _error_field
{
	my ($self, $field) = @_;
	my $error = $self->_first_error;

	return $error ? $error->{$field} : undef;
}

sub error { my ($self) = @_; return $self->_error_field('message'); }

sub sqlstate { my ($self) = @_; return $self->_error_field('sqlstate'); }

sub detail { my ($self) = @_; return $self->_error_field('detail'); }

sub hint { my ($self) = @_; return $self->_error_field('hint'); }

# TAP: this is that error.
sub fails
{
	my ($self, $sqlstate, $pattern, $name) = @_;
	my $error = $self->_first_error;

	return ok( $error
		  && $error->{sqlstate} eq $sqlstate
		  && $error->{raw} =~ $pattern,
		$name)
	  || diag "wanted $sqlstate $pattern, got: $self->{out}\n$self->{raw}";
}

package LockRedis::Message;

use strict;
use warnings FATAL => 'all';

sub severity { my ($self) = @_; return $self->{severity}; }

sub sqlstate { my ($self) = @_; return $self->{sqlstate}; }

sub message { my ($self) = @_; return $self->{message}; }

sub detail { my ($self) = @_; return $self->{detail}; }

sub hint { my ($self) = @_; return $self->{hint}; }

1;
