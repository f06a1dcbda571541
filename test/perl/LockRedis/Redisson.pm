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

The program is built once by Maven, into test/interop/redisson/target, and again
when its sources have changed.  Where that directory cannot be written, or
belongs to somebody else, a directory of this user below the one for temporary
files is used.  To build before the tests:

  perl -I test/perl -MLockRedis::Redisson -e 'LockRedis::Redisson->build'

=cut

package LockRedis::Redisson;

use strict;
use warnings FATAL => 'all';

use parent 'LockRedis::Program';

use Carp;
use Cwd qw(abs_path);
use Digest::SHA;
use Fcntl qw(:flock);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Find;
use File::Path qw(make_path remove_tree);
use File::Spec;
use IO::Handle;
use IO::Select;
use LockRedis::Wait qw(limit now poll_until);
use POSIX ();
use Test::More;

my $source = abs_path(dirname(__FILE__) . '/../../interop/redisson');
my @processes;

# Skip the test file where Redisson cannot be had; under CI that is a failure.
# A program of ours that does not compile is a failure everywhere.
sub need
{
	my ($class) = @_;

	return if eval { $class->build; 1 };
	die $@ if $ENV{CI} || $@ !~ /^Redisson cannot be had: /;
	chomp(my $reason = $@);
	plan(skip_all => $reason);
	return;
}

# Build unless that was done; returns the class path.
sub build
{
	my ($class) = @_;
	my $digest = _digest();

	_missing('java') unless _in_path('java');
	my $dir = _usable("$source/target", $digest) ? $source : _build_dir();
	my $target = "$dir/target";

	if (!_usable($target, $digest))
	{
		_missing('mvn') unless _in_path('mvn');
		make_path($target);

		# Tests that run at the same time build once.
		open my $lock, '>', "$target/.lock"
		  or die "could not open $target/.lock: $!";
		flock $lock, LOCK_EX or die "could not lock $target/.lock: $!";
		if (!_usable($target, $digest))
		{
			_copy_sources($dir) if $dir ne $source;
			_run_maven($dir, $digest);
		}
	}
	return "$target/driver.jar:$target/lib/*";
}

sub _missing
{
	my ($program) = @_;

	die "Redisson cannot be had: $program is missing\n";
}

sub _in_path
{
	my ($program) = @_;

	return grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

sub _sources
{
	my @files = ('pom.xml');

	find(
		{
			no_chdir => 1,
			wanted => sub {
				push @files, File::Spec->abs2rel($_, $source) if /\.java$/;
			}
		},
		"$source/src");
	return sort @files;
}

sub _digest
{
	my $sha = Digest::SHA->new(256);

	foreach my $file (_sources())
	{
		$sha->add("$file\0");
		$sha->addfile("$source/$file");
	}
	return $sha->hexdigest;
}

# Whether what was built there comes from these sources.
sub _usable
{
	my ($target, $digest) = @_;

	open my $stamp, '<', "$target/.built" or return 0;
	my $built = readline $stamp;
	return defined $built && $built eq $digest;
}

# Where to build: beside the sources if they are ours, else beside a copy.
sub _build_dir
{
	return $source
	  if -o $source && -w $source && (!-e "$source/target" || -o _);

	my $dir = File::Spec->tmpdir . "/lockredis-redisson-$>";
	mkdir $dir, 0700 or $!{EEXIST} or die "could not make $dir: $!";
	my @stat = lstat $dir;
	die "$dir is not a directory that belongs to us alone\n"
	  unless @stat && -d _ && $stat[4] == $> && !($stat[2] & 022);

	return $dir;
}

sub _copy_sources
{
	my ($dir) = @_;

	remove_tree("$dir/src");
	foreach my $file (_sources())
	{
		make_path(dirname("$dir/$file"));
		copy("$source/$file", "$dir/$file")
		  or die "could not copy $source/$file: $!";
	}
	return;
}

sub _run_maven
{
	my ($dir, $digest) = @_;
	my @command = ('mvn', '-q', '-B', '-ntp', '-f', "$dir/pom.xml");
	my $home = (getpwuid $>)[7];

	# A user without a home keeps what is fetched beside the build.
	push @command, "-Dmaven.repo.local=$dir/target/repository"
	  unless defined $home && -w $home;

	note "building $dir";
	my $pid = open my $out, '-|';
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open STDERR, '>&', \*STDOUT;
		open STDIN, '<', '/dev/null';
		no warnings 'exec';
		exec @command, 'package';
		POSIX::_exit(127);
	}
	my $output = do { local $/; readline $out };
	if (!close $out)
	{
		$output = '' unless defined $output;

		# Which server it asked is nobody's business.
		$output =~ s{https?://\S+}{(URL)}g;
		note $output;
		die "Redisson cannot be had: Maven could not fetch it\n"
		  if $output =~
		  /Could not transfer|Could not resolve|could not be resolved|offline mode/;
		die "the build of $dir failed\n";
	}

	open my $stamp, '>', "$dir/target/.built"
	  or die "could not open $dir/target/.built: $!";
	print $stamp $digest;
	close $stamp or die "could not write $dir/target/.built: $!";
	return;
}

# Start a process; a test may have several.
sub new
{
	my ($class) = @_;
	my $class_path = $class->build;
	my $test = $0;

	$test =~ s/.*\///;
	$test =~ s/\.[^.]+$//;
	my $log =
	  "$PostgreSQL::Test::Utils::log_path/${test}_redisson_" . @processes . '.log';

	pipe(my $in_read, my $in) && pipe(my $out, my $out_write)
	  or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		POSIX::dup2(fileno $in_read, 0);
		POSIX::dup2(fileno $out_write, 1);
		open STDERR, '>>', $log;
		no warnings 'exec';
		exec 'java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xmx256m',
		  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
		  '-Dorg.slf4j.simpleLogger.showDateTime=true',
		  '-cp', $class_path, 'lockredis.interop.Driver';
		POSIX::_exit(127);
	}
	close $_ foreach $in_read, $out_write;
	binmode $_ foreach $in, $out;
	$in->autoflush(1);

	my $self = bless {
		pid => $pid,
		in => $in,
		out => $out,
		buffer => '',
		log => $log,
		serial => 0,
		results => {},
		owner => $$
	}, $class;
	push @processes, $self;
	return $self;
}

# A client of its own, with a uuid of its own, which is returned.
sub connect
{
	my ($self, $client, $redis, %opts) = @_;

	return $self->value(
		$client, 'connect', $redis->url, $opts{watchdog} // 30000,
		$redis->password // '', $redis->sentinel_password // '');
}

# Ends a client in good order: connections closed, locks left to expire.
sub shutdown
{
	my ($self, $client) = @_;

	$self->call($client, 'shutdown')->or_die;
	return;
}

# Send a command without waiting for its end; returns its number.
sub send
{
	my ($self, @words) = @_;
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

sub is_done
{
	my ($self, $number) = @_;

	croak "no such command: $number" unless exists $self->{results}{$number};
	$self->_read until defined $self->{results}{$number} || !$self->_ready(0);
	return defined $self->{results}{$number};
}

# The result of a command that was sent.
sub wait
{
	my ($self, $number, $seconds) = @_;
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

sub call
{
	my ($self, @words) = @_;

	return $self->wait($self->send(@words));
}

sub value
{
	my ($self, @words) = @_;

	return $self->call(@words)->or_die->value;
}

sub _ready
{
	my ($self, $seconds) = @_;

	return IO::Select->new($self->{out})->can_read($seconds);
}

# Read what is there, and keep the results that are complete.
sub _read
{
	my ($self) = @_;
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
sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	close $self->{in};
	$self->_reap;
	return;
}

sub _reap
{
	my ($self) = @_;
	my $pid = $self->{pid};

	poll_until("the Java process $pid to end",
		sub { waitpid($pid, POSIX::WNOHANG()) != 0 });
	delete $self->{pid};
	return;
}

END
{
	my $exit_code = $?;

	foreach my $self (grep { $_->{owner} == $$ && $_->{pid} } @processes)
	{
		kill 'KILL', $self->{pid};
		waitpid $self->{pid}, 0;
	}
	$? = $exit_code;
}

package LockRedis::Redisson::Result;

use strict;
use warnings FATAL => 'all';

use Carp;

sub new
{
	my ($class, $ok, $ns, @words) = @_;

	return bless { ok => $ok, ns => $ns, words => \@words }, $class;
}

sub ns { my ($self) = @_; return $self->{ns}; }

sub words { my ($self) = @_; return @{ $self->{words} }; }

sub value { my ($self) = @_; return $self->{words}[0]; }

# Class of the exception, undef when there was none.
sub error { my ($self) = @_; return $self->{ok} ? undef : $self->{words}[0]; }

sub message { my ($self) = @_; return $self->{ok} ? undef : $self->{words}[1]; }

sub or_die
{
	my ($self) = @_;

	croak join ': ', $self->words unless $self->{ok};
	return $self;
}

1;
