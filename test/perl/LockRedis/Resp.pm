# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Resp - a small Redis client for tests: RESP2 on a socket

=head1 DESCRIPTION

redis-cli cannot send a NUL byte and costs a process a call; this can send any
bytes, keeps its connection, and knows its own address, so that the commands of
a test are told from those of the extension in MONITOR's output.

  my $conn = LockRedis::Resp->connect($socket_path_or_port, password => ...);
  my $reply = $conn->call('HGETALL', $key);	# dies with Redis' words on error
  my $line = $conn->read_reply($seconds);		# for MONITOR and SUBSCRIBE

A nil reply is undef, an array an array reference.  Every wait has a limit.

=cut

package LockRedis::Resp;

use LockRedis::Pragmas;

use Carp;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use LockRedis::Wait qw(limit now);
use Socket qw(SOCK_STREAM IPPROTO_TCP TCP_NODELAY);

sub connect ($class, $where, %opts)
{
	my $socket;

	if ($where =~ /^\d+$/)
	{
		$socket = IO::Socket::INET->new(
			PeerAddr => '127.0.0.1',
			PeerPort => $where);
		$socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1) if $socket;
	}
	else
	{
		$socket = IO::Socket::UNIX->new(Peer => $where, Type => SOCK_STREAM);
	}
	return if !$socket && $opts{may_fail};
	croak "could not connect to Redis at $where: $!" unless $socket;
	binmode $socket;

	my $self = bless {
		socket => $socket,
		buffer => '',
		timeout => $opts{timeout} || 30
	}, $class;

	$self->call('AUTH', $opts{password}) if defined $opts{password};
	$self->call('CLIENT', 'SETNAME', $opts{name}) if defined $opts{name};
	return $self;
}

# Our end as Redis shows it ("127.0.0.1:4711"), undef on a unix socket.
sub address ($self)
{
	return unless $self->{socket}->isa('IO::Socket::INET');
	return $self->{socket}->sockhost . ':' . $self->{socket}->sockport;
}

sub send_command ($self, @args)
{
	my $data = '*' . scalar(@args) . "\r\n";

	foreach my $arg (@args)
	{
		my $bytes = "$arg";
		utf8::encode($bytes) if utf8::is_utf8($bytes);
		$data .= '$' . length($bytes) . "\r\n$bytes\r\n";
	}
	while (length $data)
	{
		my $written = syswrite($self->{socket}, $data);
		croak "could not send to Redis: $!" unless defined $written;
		substr($data, 0, $written, '');
	}
	return;
}

sub call ($self, @args)
{
	$self->send_command(@args);
	my $reply = $self->read_reply;
	croak "$args[0]: $$reply" if ref $reply eq 'SCALAR';
	return $reply;
}

# Read one reply; an error reply comes as a reference to its text.
sub read_reply ($self, $seconds = undef)
{
	my $until = now() + limit(defined $seconds ? $seconds : $self->{timeout});

	return $self->_value($until);
}

sub disconnect ($self)
{
	$self->{socket}->close;
	return;
}

sub _fill ($self, $until)
{
	my $select = IO::Select->new($self->{socket});

	# A signal (a child that was stopped or continued) ends a wait early.
	while (1)
	{
		my $left = $until - now();
		croak 'no reply from Redis in time' if $left <= 0;
		last if $select->can_read($left);
	}
	my $count = sysread($self->{socket}, $self->{buffer}, 65536,
		length $self->{buffer});
	croak "Redis closed the connection" unless $count;
	return;
}

sub _line ($self, $until)
{
	while (index($self->{buffer}, "\r\n") < 0)
	{
		$self->_fill($until);
	}
	my $line =
	  substr($self->{buffer}, 0, index($self->{buffer}, "\r\n") + 2, '');
	return substr($line, 0, -2);
}

sub _value ($self, $until)
{
	my $line = $self->_line($until);
	my ($type, $rest) = (substr($line, 0, 1), substr($line, 1));

	return $rest if $type eq '+' || $type eq ':';
	return \$rest if $type eq '-';
	if ($type eq '$')
	{
		return undef if $rest < 0;
		$self->_fill($until) while length $self->{buffer} < $rest + 2;
		return substr(substr($self->{buffer}, 0, $rest + 2, ''), 0, $rest);
	}
	if ($type eq '*')
	{
		return undef if $rest < 0;
		return [ map { $self->_value($until) } 1 .. $rest ];
	}
	croak "Redis sent something unknown: $line";
}

1;
