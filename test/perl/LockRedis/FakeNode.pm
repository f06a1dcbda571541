# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::FakeNode - a server that accepts, and answers as it is told

=head1 SYNOPSIS

  my $fake = LockRedis::FakeNode->new(
      good => { script => sub { ... } });      # behaviours that need code
  $node->set('lockredis.url' => $fake->url);
  $fake->behave('good');
  $fake->behave('closes', then => 'close', raw => "*1\r\n");
  $fake->answered('PING');               # how many of these since then
  $fake->stop;

=head1 DESCRIPTION

It runs in a process of its own.  Whenever its behaviour changes, the connections
are closed.  What a behaviour is made of is said at C<behave>.

=cut

package LockRedis::FakeNode;

use LockRedis::Pragmas;

use parent 'LockRedis::Program';

use IO::Select;
use IO::Socket::IP;
use JSON::PP;
use LockRedis::Program qw(ends_with_test);
use POSIX ();
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER TCP_NODELAY);
use Time::HiRes ();

# Behaviours that need code, by name.
sub new ($class, %named)
{
	my $listener = IO::Socket::IP->new(
		LocalHost => '127.0.0.1',
		LocalPort => 0,
		Listen => 64,
		Blocking => 0) or die "could not listen: $!";

	pipe(my $orders, my $give_orders) && pipe(my $hear, my $say)
	  or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		close $_ foreach $give_orders, $hear;
		eval { _serve($listener, $orders, $say, \%named); };
		print STDERR $@ if $@;
		POSIX::_exit(1);
	}
	close $_ foreach $orders, $say;
	$give_orders->autoflush(1);
	my $self = bless {
		pid => ends_with_test($pid),
		orders => $give_orders,
		hear => $hear,
		port => $listener->sockport
	}, $class;
	close $listener;
	return $self;
}

sub address ($self) { return "127.0.0.1:$self->{port}"; }

sub url ($self) { return 'redis://' . $self->address; }

# accept: "close" or "reset" at once; greet: bytes sent at once; raw: bytes sent
# when something has come; reply: bytes for each command; answer: code that makes
# them of this behaviour and a command; script: for scripts only, the rest is
# answered as Redis does; afterwards: bytes sent a moment after that; then:
# "close", "reset" or "flood" (repeat it, or what is in flood, for ever) in the end.
sub behave ($self, $name, %behaviour)
{
	print { $self->{orders} }
	  encode_json({ name => $name, %behaviour }), "\n";
	readline($self->{hear}) or die 'the false node has ended';
	return;
}

# How many of these commands it has answered since its behaviour changed.
sub answered ($self, $command)
{
	print { $self->{orders} } encode_json({ count => $command }), "\n";
	my $count = readline($self->{hear}) // die 'the false node has ended';
	chomp $count;
	return $count;
}

# All that it sends by itself has been sent.
sub finish_sending ($self)
{
	print { $self->{orders} } "{}\n";
	readline($self->{hear}) or die 'the false node has ended';
	return;
}

sub _serve ($listener, $orders, $say, $named)
{
	my $now = {};
	my (%in, %flood, %rest);    # flood: so far of what is repeated
	my $readers = IO::Select->new($listener, $orders);
	my $writers = IO::Select->new;

	local $SIG{PIPE} = 'IGNORE';
	my $end = sub {
		my ($conn, $how) = @_;
		$conn->setsockopt(SOL_SOCKET, SO_LINGER, pack('ii', 1, 0))
		  if $how eq 'reset';
		$readers->remove($conn);
		$writers->remove($conn);
		delete @$_{$conn} foreach \%in, \%flood, \%rest;
		close $conn;
	};
	my $answer = sub {
		my $conn = shift;
		my $bytes = shift // '';
		my $then = $now->{then} || '';

		# What the kernel does not take at once follows, unless it is to end here.
		my $sent = length $bytes ? syswrite($conn, $bytes) // 0 : 0;
		if ($sent < length $bytes)
		{
			$rest{$conn} = substr $bytes, $sent;
			$writers->add($conn);
		}
		$end->($conn, $then) if $then eq 'close' || $then eq 'reset';
		if ($then eq 'flood')
		{
			$flood{$conn} = 0;
			$now->{flood} //= substr $bytes, -16384;
			$writers->add($conn);
		}
	};

	while (getppid() != 1)
	{
		my ($readable, $writable) =
		  IO::Select->select($readers, $writers, undef, 1);
		foreach my $conn (@{ $writable || [] })
		{
			if (defined $rest{$conn})
			{
				my $sent = syswrite $conn, $rest{$conn};
				substr $rest{$conn}, 0, $sent // 0, '';
				next if length $rest{$conn};
				delete $rest{$conn};
				$writers->remove($conn) unless exists $flood{$conn};
				next;
			}
			my $sent = syswrite $conn, $now->{flood}, 262144, $flood{$conn};
			$flood{$conn} = ($flood{$conn} + $sent) % length $now->{flood} if $sent;
			$end->($conn, 'close') unless defined $sent || $!{EAGAIN};
		}
		foreach my $conn (@{ $readable || [] })
		{
			if ($conn == $orders)
			{
				my $line = readline $orders;
				return unless defined $line;
				my $next = decode_json($line);
				if (defined $next->{name})
				{
					$now = { %$next, %{ $named->{ $next->{name} } || {} } };
					$end->($_, 'close')
					  foreach grep { $_ != $listener && $_ != $orders }
					  $readers->handles;
				}
				my $count = $next->{count};
				syswrite $say, (defined $count ? $now->{answered}{$count} || 0 : 'done') . "\n";
				last;
			}
			if ($conn == $listener)
			{
				my $new = $listener->accept or next;
				$new->blocking(0);
				$new->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
				$in{$new} = '';
				$readers->add($new);
				$end->($new, $now->{accept}) if $now->{accept};
				syswrite $new, $now->{greet} if defined $now->{greet};
				next;
			}
			next unless defined $in{$conn};    # ended just now
			my $got = sysread $conn, $in{$conn}, 65536, length $in{$conn};
			if (!$got)
			{
				$end->($conn, 'close') if defined $got || !$!{EAGAIN};
			}
			elsif (defined $now->{raw})
			{
				$answer->($conn, $now->{raw}) if !exists $flood{$conn};
			}
			else
			{
				_answer_commands($conn, \$in{$conn}, $now, $answer)
				  unless defined $now->{greet};
			}
		}
	}
	return;
}

sub _answer_commands ($conn, $in, $now, $answer)
{
	while (defined fileno $conn && defined(my $args = _command($in)))
	{
		my $command = uc $args->[0];

		$now->{answered}{$command}++;
		if ($now->{answer})
		{
			$answer->($conn, $now->{answer}->($now, @$args));
		}
		elsif (defined $now->{reply})
		{
			$answer->($conn, $now->{reply});
		}
		elsif ($command eq 'TIME')
		{
			my ($s, $us) = Time::HiRes::gettimeofday();
			syswrite $conn,
			  join "\r\n", '*2', map({ ('$' . length, $_) } $s, $us), '';
		}
		elsif ($command =~ /^EVAL/)
		{
			my $script = $now->{script};
			$answer->($conn, ref $script ? $script->(@$args) : $script);
			if (defined $now->{afterwards} && defined fileno $conn)
			{
				select undef, undef, undef, 0.03;
				syswrite $conn, $now->{afterwards};
			}
		}
		else
		{
			syswrite $conn, $command eq 'INFO' ? "\$0\r\n\r\n" : "+OK\r\n";
		}
	}
	return;
}

# The next complete command, taken off the input.
sub _command ($in)
{
	return unless $$in =~ /\A\*(\d+)\r\n/g;
	my ($left, @args) = ($1);
	while ($left-- > 0)
	{
		return unless $$in =~ /\G\$(\d+)\r\n/g;
		my ($length, $at) = ($1, pos $$in);
		return if length $$in < $at + $length + 2;
		push @args, substr $$in, $at, $length;
		pos($$in) = $at + $length + 2;
	}
	substr $$in, 0, pos $$in, '';
	return \@args;
}

1;
