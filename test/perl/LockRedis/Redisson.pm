# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Redisson - a Java process with the real Redisson in it

=head1 SYNOPSIS

  LockRedis::Redisson->need;                 # skips the test file where it has to
  my $java = LockRedis::Redisson->new;

  my $id = $java->connect('a', $redis);      # a client; its uuid
  $java->connect('b', $redis, watchdog => 2000);    # lockWatchdogTimeout, ms
  $java->connect('c', $ha);                  # in sentinel mode: LockRedis::Sentinels
  $java->connect('d', $masters);             # a client each: LockRedis::Masters

  my $r = $java->call('a.1', 'lock', $key, -1);     # in thread 1 of client a
  $r->value; $r->words;                      # first word, all words
  $r->error; $r->message;                    # class and text of an exception
  $r->ns;                                    # CLOCK_MONOTONIC when it ended

  my $n = $java->send('a.2', 'lock', $key, -1);     # does not wait
  $java->is_done($n);
  my $r = $java->wait($n, 10);               # dies when too late

  my $value = $java->value('a.1', 'isLocked', $key);  # dies on an exception
  $java->shutdown('a');                      # the client, in good order
  $java->stop; $java->kill9;                 # the process

=head1 DESCRIPTION

Speaks the line protocol of test/interop/redisson: the commands are described in
LockCommands.java, the protocol in Driver.java.  Texts are bytes in UTF-8.

F<test/interop/redisson/build> makes the program; where that cannot write it has to be
there.

=cut

package LockRedis::Redisson;

use LockRedis::Pragmas;

use parent 'LockRedis::Program';

use Carp;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IO::Select;
use LockRedis::Program qw(log_file need_built start_talking);
use LockRedis::Wait qw(limit now);
use Test::More;

my $place = abs_path(dirname(__FILE__) . '/../../interop/redisson');
my $count = 0;

# Skip the test file where Redisson cannot be had.
sub need { return need_built("$place/build", 'Redisson'); }

# The class path of what the script has made
sub build
{
	system("$place/build") == 0 or die "Redisson cannot be had\n";
	return "$place/target/driver.jar:$place/target/lib/*";
}

# Start a process; a test may have several.
sub new ($class)
{
	my $class_path = $class->build;
	my $log = log_file('redisson_' . $count++);
	my $self = bless { buffer => '', log => $log, serial => 0, results => {} }, $class;

	@$self{qw(pid in out)} = start_talking($log, 'java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1',
		'-Xmx256m', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
		'-Dorg.slf4j.simpleLogger.showDateTime=true', '-cp', $class_path, 'lockredis.interop.Driver');
	return $self;
}

# A client of its own, with a uuid of its own, which is returned.
sub connect ($self, $client, $redis, %opts)
{
	return $self->value(
		$client, 'connect', $redis->url, $opts{watchdog} // 30000,
		$redis->password // '', $redis->sentinel_password // '');
}

# Ends a client in good order: connections closed, locks left to expire.
sub shutdown ($self, $client)
{
	$self->call($client, 'shutdown')->or_die;
	return;
}

# Send a command without waiting for its end; returns its number.
sub send ($self, @words)
{
	my $number = ++$self->{serial};

	note join ' ', 'redisson:', @words;
	foreach my $word (@words)
	{
		utf8::encode($word) if utf8::is_utf8($word);
		$word =~ s/([^A-Za-z0-9._*-])/sprintf '%%%02X', ord $1/ge;
	}
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } join(' ', $number, @words) . "\n"
	  or croak "could not write to the Java process, see $self->{log}";
	$self->{results}{$number} = undef;
	return $number;
}

sub is_done ($self, $number)
{
	croak "no such command: $number" unless exists $self->{results}{$number};
	$self->_read until defined $self->{results}{$number} || !$self->_ready(0);
	return defined $self->{results}{$number};
}

# The result of a command that was sent.
sub wait ($self, $number, $seconds = undef)
{
	my $until = now() + limit(defined $seconds ? $seconds : 60);

	croak "no such command: $number" unless exists $self->{results}{$number};
	until (defined $self->{results}{$number})
	{
		my $left = $until - now();
		croak "Redisson did not end command $number, see $self->{log}"
		  if $left <= 0;
		$self->_read if $self->_ready($left);
	}
	return delete $self->{results}{$number};
}

sub call ($self, @words) { return $self->wait($self->send(@words)); }

sub value ($self, @words) { return $self->call(@words)->or_die->value; }

sub _ready ($self, $seconds) { return IO::Select->new($self->{out})->can_read($seconds); }

# Read what is there, and keep the results that are complete.
sub _read ($self)
{
	my $got = sysread $self->{out}, $self->{buffer}, 65536,
	  length $self->{buffer};

	croak "the Java process has ended, see $self->{log}" unless $got;
	while ($self->{buffer} =~ s/\A(.*)\n//)
	{
		my ($number, $status, $ns, @words) = split / /, $1, -1;
		foreach my $word (@words)
		{
			$word =~ tr/+/ /;
			$word =~ s/%([0-9A-F]{2})/chr hex $1/ge;
		}
		$self->{results}{$number} = LockRedis::Redisson::Result->new(
			$status eq 'ok', $ns, @words);
		note join ' ', "redisson: $number", $status, @words;
	}
	return;
}

# End the process as a service that forgot to unlock; it halts at the end of its
# input.
sub stop ($self)
{
	return unless $self->{pid};
	close $self->{in};
	$self->_reap;
	return;
}

package LockRedis::Redisson::Result;

use Carp;

sub new ($class, $ok, $ns, @words)
{
	return bless { ok => $ok, ns => $ns, words => \@words }, $class;
}

sub ns ($self) { return $self->{ns}; }

sub words ($self) { return @{ $self->{words} }; }

sub value ($self) { return $self->{words}[0]; }

# Class of the exception, undef when there was none.
sub error ($self) { return $self->{ok} ? undef : $self->{words}[0]; }

sub message ($self) { return $self->{ok} ? undef : $self->{words}[1]; }

sub or_die ($self)
{
	croak join ': ', $self->words unless $self->{ok};
	return $self;
}

1;
