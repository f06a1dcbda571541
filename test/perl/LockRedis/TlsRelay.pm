# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::TlsRelay - drives test/fault/tls_relay

=head1 SYNOPSIS

  my $relay = LockRedis::TlsRelay->new($redis->tls_port);    # bytes as they are
  my $ends = LockRedis::TlsRelay->new($redis->port,
      certificate => $ca->certificate('relay'), version => '1.2');
  $relay->url;                                  # rediss://127.0.0.1:PORT
  $relay->mode('stop', 1000);                   # pass, trickle, stop, flip, close, reset
  $relay->hold; $relay->release;    # on all that there are
  $relay->hold_requests; $relay->release_requests;
  $relay->flip_next; $relay->end_behind_next;   # on the newest
  my @new = $ends->connections; $ends->forget;  # since then: hashes
  $ends->refuse_next;                           # one handshake

The second kind is the TLS server itself, and sees what was agreed upon.

=cut

package LockRedis::TlsRelay;

use LockRedis::Pragmas;

use parent 'LockRedis::Proxy';

use File::Basename qw(dirname);

my $program = dirname(__FILE__) . '/../../fault/tls_relay';

sub new ($class, $port, %opts)
{
	my $certificate = $opts{certificate};

	return $class->_launch(
		$program, "127.0.0.1:$port",
		$certificate ? ('--cert', $certificate->{cert}, '--key', $certificate->{key}) : (),
		$opts{version} ? ('--max-version', $opts{version}) : ());
}

sub url ($self) { return 'rediss://127.0.0.1:' . $self->port; }

sub mode ($self, $mode, $at = undef) { return $self->_do('mode', to => $mode, at => $at // 0); }

sub hold_requests ($self) { return $self->_do('hold_requests'); }

sub release_requests ($self) { return $self->_do('release_requests'); }

sub refuse_next ($self) { return $self->_do('refuse_next'); }

sub hold ($self) { return $self->_do('hold'); }

sub end_behind_next ($self) { return $self->_do('end_behind_next'); }

sub flip_next ($self) { return $self->_do('flip_next'); }

sub forget ($self) { return $self->_do('forget'); }

sub connections ($self) { return @{ $self->_do('connections')->{connections} }; }

1;
