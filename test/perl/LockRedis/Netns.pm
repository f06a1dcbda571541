# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Netns - servers of a test in networks of their own, with cables to cut

=head1 SYNOPSIS

  use LockRedis::Netns 'enter';               # before all other modules
  use LockRedis::Test;

  my $net = LockRedis::Netns->new;
  my $a = $net->place('a');
  my $b = $net->place('b');
  my $redis = LockRedis::Redis->new(place => $a);

  $net->cut($a, $b);         # what a sends to b is lost, and what b sends to a
  $net->cut_one_way($a, $b); # only the former
  $net->cut_off($a);         # from all others, and from here
  $net->heal;                # all of it

  $a->address; $net->here->address;           # 10.177.0.2, 10.177.0.1
  $a->inside('redis-cli', ...);               # words that run a program there

=head1 DESCRIPTION

"enter" puts the test, with all that it starts, into a user namespace and a
network namespace of its own, which any user may make on most systems: the test
file is run again there.  Where the kernel forbids it the test is skipped, which
under CI is a failure.

Each place is a further network namespace, joined to the others and to that of
the test by a bridge.  What is sent over a cut cable goes to a hardware address
that nobody has: lost without an error or a reset, as on a broken cable.  Unix
sockets do not end at a namespace, so the test reaches its servers all the time.

=cut

package LockRedis::Netns;

use LockRedis::Pragmas;

use LockRedis::Program qw(start_program);
use LockRedis::Wait qw(poll_until);

my @space = qw(unshare --user --map-current-user --keep-caps --net);
my $nobody = '02:00:00:00:ff:ff';

# In the namespace already: exec keeps the process id.
sub import
{
	my ($class, $what) = @_;

	return unless defined $what && $what eq 'enter';
	$ENV{PATH} .= ':/usr/sbin:/sbin';
	if (($ENV{LOCKREDIS_OWN_NETWORK} || 0) == $$)
	{
		_run(qw(ip link set lo up));
		return;
	}

	my $problem = `@space ip link set lo up 2>&1`;
	if ($? != 0)
	{
		die "no network namespaces here: $problem" if $ENV{CI};
		chomp $problem;
		print "1..0 # SKIP no network namespaces here: $problem\n";
		exit 0;
	}
	$ENV{LOCKREDIS_OWN_NETWORK} = $$;
	exec @space, $^X, (map { "-I$_" } grep { !ref } @INC), $0, @ARGV
	  or die "could not run unshare: $!";
}

sub new ($class)
{
	my $self = bless { places => [] }, $class;

	die "LockRedis::Netns needs: use LockRedis::Netns 'enter'\n"
	  unless ($ENV{LOCKREDIS_OWN_NETWORK} || 0) == $$;
	my $here = LockRedis::Netns::Place->new('here', 1);
	_run(qw(ip link add lrbridge type bridge));
	_run(qw(ip link set lrbridge address), $here->{mac});
	_run(qw(ip addr add), $here->address . '/24', qw(dev lrbridge));
	_run(qw(ip link set lrbridge up));
	$here->{device} = 'lrbridge';
	push @{ $self->{places} }, $here;
	return $self;
}

sub here ($self) { return $self->{places}[0]; }

# A new one.
sub place ($self, $name)
{
	my $number = @{ $self->{places} } + 1;
	my $place = LockRedis::Netns::Place->new($name, $number);
	my $ours = readlink '/proc/self/ns/net';

	my $holder = start_program('/dev/null', qw(unshare --net sleep 1000000));
	$place->{holder} = $holder;

	# The namespace is there when that of the holder is another.
	poll_until("the network of $name",
		sub { (readlink "/proc/$holder/ns/net" || $ours) ne $ours });
	_run(qw(ip link add), "lr$number", qw(type veth peer name), $place->{device},
		'netns', $holder);
	_run(qw(ip link set), "lr$number", qw(master lrbridge up));
	foreach my $command (
		[qw(ip link set lo up)],
		[ qw(ip link set), $place->{device}, 'address', $place->{mac} ],
		[ qw(ip addr add), $place->address . '/24', 'dev', $place->{device} ],
		[ qw(ip link set), $place->{device}, 'up' ])
	{
		_run($place->inside(@$command));
	}
	push @{ $self->{places} }, $place;
	foreach my $other ($self->_others($place))
	{
		$place->_send_to($other, $other->{mac});
		$other->_send_to($place, $place->{mac});
	}
	return $place;
}

sub _others ($self, $place) { return grep { $_ != $place } @{ $self->{places} }; }

sub cut_one_way ($self, $from, $to)
{
	$from->_send_to($to, $nobody);
	return;
}

sub cut ($self, $one, $other)
{
	$self->cut_one_way($one, $other);
	$self->cut_one_way($other, $one);
	return;
}

sub cut_off ($self, $place)
{
	$self->cut($place, $_) foreach $self->_others($place);
	return;
}

sub heal ($self)
{
	foreach my $from (@{ $self->{places} })
	{
		$from->_send_to($_, $_->{mac}) foreach $self->_others($from);
	}
	return;
}

sub _run (@command)
{
	system(@command) == 0 or die "failed: @command\n";
	return;
}

package LockRedis::Netns::Place;

sub new ($class, $name, $number)
{
	return bless {
		name => $name,
		address => "10.177.0.$number",
		mac => sprintf('02:00:00:00:00:%02x', $number),
		device => 'lrcable',
		sends_to => {}
	}, $class;
}

sub name ($self) { return $self->{name}; }

sub address ($self) { return $self->{address}; }

sub inside ($self, @command)
{
	return @command unless $self->{holder};
	return (qw(nsenter --net --target), $self->{holder}, '--', @command);
}

# Where on the cable the other one is said to be.
sub _send_to ($self, $other, $mac)
{
	return if ($self->{sends_to}{ $other->{address} } || '') eq $mac;
	LockRedis::Netns::_run($self->inside(
		qw(ip neigh replace), $other->{address}, 'lladdr', $mac,
		'dev', $self->{device}, qw(nud permanent)));
	$self->{sends_to}{ $other->{address} } = $mac;
	return;
}

1;
