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

use LockRedis::Pragmas;

use Test::More;

sub new ($class, %fields)
{
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

sub out ($self) { return $self->{out}; }

sub ms ($self) { return $self->{ms}; }

# The connection was lost meanwhile.
sub dead ($self) { return $self->{dead}; }

sub rows ($self) { return [ map { [ split /\|/, $_, -1 ] } split /\n/, $self->{out}, -1 ]; }

# First column of the first row.
sub value ($self) { return $self->{out} =~ /\A([^|\n]*)/ ? $1 : undef; }

sub _of ($self, $pattern) { return grep { $_->{severity} =~ $pattern } @{ $self->{messages} }; }

sub warnings ($self) { return $self->_of(qr/^WARNING$/); }

sub notices ($self) { return $self->_of(qr/^(?:NOTICE|INFO|LOG)$/); }

sub _first_error ($self)
{
	my ($error) = $self->_of(qr/^(?:ERROR|FATAL|PANIC)$/);

	return $error;
}

sub _error_field ($self, $field)
{
	my $error = $self->_first_error;

	return $error ? $error->{$field} : undef;
}

sub error ($self) { return $self->_error_field('message'); }

sub sqlstate ($self) { return $self->_error_field('sqlstate'); }

sub detail ($self) { return $self->_error_field('detail'); }

sub hint ($self) { return $self->_error_field('hint'); }

# TAP: this is that error.
sub fails ($self, $sqlstate, $pattern, $name)
{
	my $error = $self->_first_error;

	return ok( $error
		  && $error->{sqlstate} eq $sqlstate
		  && $error->{raw} =~ $pattern,
		$name)
	  || diag "wanted $sqlstate $pattern, got: $self->{out}\n$self->{raw}";
}

package LockRedis::Message;

sub severity ($self) { return $self->{severity}; }

sub sqlstate ($self) { return $self->{sqlstate}; }

sub message ($self) { return $self->{message}; }

sub detail ($self) { return $self->{detail}; }

sub hint ($self) { return $self->{hint}; }

1;
