# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Redis - a throwaway Redis server of a test

=head1 SYNOPSIS

  my $redis = LockRedis::Redis->new;                  # started, empty
  my $redis = LockRedis::Redis->new(name => 'b', config => { maxmemory => '3mb' },
      password => 'secret', start => 0);
  my $safe = LockRedis::Redis->new(tls => $ca->certificate('safe'));   # a TLS port too

  $redis->url;            # redis://127.0.0.1:PORT      for lockredis.url
  $redis->unix_url;       # unix:///.../redis.sock
  $safe->tls_url; $safe->tls_port;        # rediss://127.0.0.1:PORT
  $redis->port; $redis->socket_path; $redis->version;      # version: 7.000015

  $redis->cmd('HGETALL', $key);      # any bytes; dies on an error reply
  $redis->hash($key);                # { field => value }
  $redis->all_keys;                     # sorted names
  $redis->stop; $redis->start; $redis->restart(keep => 1);
  $redis->kill9; $redis->freeze; $redis->thaw;

  my $n = $redis->script_calls;      # eval + evalsha so far
  my $watch = $redis->monitor;       # MONITOR from here on
  my @lines = $watch->stop;          # commands of clients other than the test
  my @args = $watch->args($line);

=head1 DESCRIPTION

Listens on a unix socket and on a free loopback port, in a directory of its own
outside the source tree.  Keeps nothing on disk unless asked.  Ends with the
test.  The test's own commands go over TCP on connections named "test".  What
knows how locks are kept is in LockRedis::RedisLocks, and all methods of that can
be called here.

=cut

package LockRedis::Redis;

use strict;
use warnings FATAL => 'all';

use parent 'LockRedis::RedisLocks';

use Carp;
use LockRedis::Monitor;
use LockRedis::Program qw(start_program);
use LockRedis::Resp;
use LockRedis::Wait qw(limit now poll_until);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @servers;

sub new
{
	my ($class, %opts) = @_;
	my $self = bless {
		name => $opts{name} || 'redis',
		config => { %{ $opts{config} || {} } },
		password => $opts{password},
		tls => $opts{tls},
		port => PostgreSQL::Test::Cluster::get_free_port(),
		dir => PostgreSQL::Test::Utils::tempdir_short(),
		owner => $$
	}, $class;

	$self->{tls_port} = PostgreSQL::Test::Cluster::get_free_port() if $opts{tls};

	my $test = $0;
	$test =~ s/.*\///;
	$test =~ s/\.[^.]+$//;
	$self->{log} =
	  "$PostgreSQL::Test::Utils::log_path/${test}_$self->{name}.log";
	push @servers, $self;
	$self->start unless defined $opts{start} && !$opts{start};
	return $self;
}

sub port { my ($self) = @_; return $self->{port}; }

sub socket_path { my ($self) = @_; return "$self->{dir}/redis.sock"; }

sub pid { my ($self) = @_; return $self->{pid}; }

sub logfile { my ($self) = @_; return $self->{log}; }

sub url { my ($self) = @_; return "redis://127.0.0.1:$self->{port}"; }

sub unix_url { my ($self) = @_; return 'unix://' . $self->socket_path; }

sub tls_port { my ($self) = @_; return $self->{tls_port}; }

sub tls_url { my ($self) = @_; return "rediss://127.0.0.1:$self->{tls_port}"; }

# Between the sessions and this Redis
sub proxy
{
	my ($self) = @_;

	return LockRedis::Proxy->new($self);
}

# Settings that the next start takes; a list reference for several words.
sub configure
{
	my ($self, %settings) = @_;

	%{ $self->{config} } = (%{ $self->{config} }, %settings);
	return;
}

# Start the server and wait until it answers; loading => 1 only until it
# listens (it may still be loading its data then).
sub start
{
	my ($self, %opts) = @_;
	my %config = (
		port => $self->{port},
		bind => '127.0.0.1',
		unixsocket => $self->socket_path,
		unixsocketperm => '700',
		dir => $self->{dir},
		pidfile => "$self->{dir}/redis.pid",
		logfile => $self->{log},
		daemonize => 'no',
		save => '',
		appendonly => 'no',
		$self->_tls_config,
		%{ $self->{config} });

	croak "Redis \"$self->{name}\" runs already" if $self->{pid};
	$config{requirepass} = $self->{password} if defined $self->{password};

	open my $conf, '>', "$self->{dir}/redis.conf" or die $!;
	foreach my $name (sort keys %config)
	{
		my $value = $config{$name};
		print $conf join(' ',
			$name, map { _quote($_) } ref $value ? @$value : $value), "\n";
	}
	close $conf or die $!;

	my $pid = start_program($self->{log}, 'redis-server', "$self->{dir}/redis.conf");
	$self->{pid} = $pid;

	poll_until("Redis \"$self->{name}\" to start (see $self->{log})",
		sub {
			if (waitpid($pid, POSIX::WNOHANG()) == $pid)
			{
				delete $self->{pid};
				die "Redis \"$self->{name}\" ended at once, see $self->{log}\n";
			}
			my $conn = LockRedis::Resp->connect($self->{port}, may_fail => 1)
			  or return 0;
			return 1 if $opts{loading};
			$conn->send_command('PING');
			my $reply = $conn->read_reply;
			return !ref $reply || $$reply =~ /^NOAUTH/;
		});
	note "Redis \"$self->{name}\" runs on port $self->{port}, pid $pid";
	return;
}

# Clients need no certificate unless the test says so.
sub _tls_config
{
	my ($self) = @_;

	return () unless $self->{tls};
	return (
		'tls-port' => $self->{tls_port},
		'tls-cert-file' => $self->{tls}{cert},
		'tls-key-file' => $self->{tls}{key},
		'tls-ca-cert-file' => $self->{tls}{cert},
		'tls-auth-clients' => 'no');
}

sub _quote
{
	my ($word) = @_;

	$word =~ s/(["\\])/\\$1/g;
	return "\"$word\"";
}

# Stop the server; keep => 1 saves the data for the next start.
sub stop
{
	my ($self, %opts) = @_;

	return unless $self->{pid};
	$self->thaw;
	$self->cmd('SAVE') if $opts{keep};
	unlink "$self->{dir}/dump.rdb" unless $opts{keep};
	kill 'TERM', $self->{pid};
	$self->_reap;
	return;
}

sub restart
{
	my ($self, %opts) = @_;

	$self->stop(%opts);
	$self->start;
	return;
}

# Restart with data so that every command is answered with LOADING for about
# the given number of seconds.
sub restart_loading
{
	my ($self, $seconds) = @_;
	my $count = 1000;

	$self->cmd('SET', "loading-$_", 'x') foreach 1 .. $count;
	$self->stop(keep => 1);
	{
		local $self->{config} = {
			%{ $self->{config} },
			'key-load-delay' => int($seconds * 1e6 / $count),
			'loading-process-events-interval-bytes' => 1024
		};
		$self->start(loading => 1);
	}
	return;
}

# The data that restart_loading added.
sub forget_loading
{
	my ($self) = @_;

	poll_until('Redis to have loaded its data',
		sub { !ref $self->try_cmd('PING') });
	$self->cmd('CONFIG', 'SET', 'key-load-delay', 0);
	$self->cmd('DEL', map { "loading-$_" } 1 .. 1000);
	return;
}

sub kill9
{
	my ($self) = @_;

	kill 'KILL', $self->{pid};
	$self->_reap;
	return;
}

# The server keeps its sockets and does nothing.
sub freeze
{
	my ($self) = @_;

	kill 'STOP', $self->{pid};
	$self->{frozen} = 1;
	return;
}

sub thaw
{
	my ($self) = @_;

	kill 'CONT', $self->{pid} if $self->{pid} && delete $self->{frozen};
	return;
}

sub _reap
{
	my ($self) = @_;
	my $pid = $self->{pid};

	poll_until("Redis $pid to end",
		sub { waitpid($pid, POSIX::WNOHANG()) != 0 });
	delete $self->{pid};
	delete $self->{frozen};
	$self->_forget_connection;
	return;
}

# A connection of the test's own; close it when done.
sub connection
{
	my ($self) = @_;

	my $conn = LockRedis::Resp->connect(
		$self->{port},
		password => $self->{password},
		name => 'test');
	$self->{own}{ $conn->address } = 1;
	return $conn;
}

sub _forget_connection
{
	my ($self) = @_;

	my $conn = delete $self->{conn};
	$conn->disconnect if $conn;
	return;
}

# Run a command; an error reply comes as a reference to its text.
sub try_cmd
{
	my ($self, @args) = @_;
	my $reply;

	# CLIENT KILL and restarts may have ended the kept connection.
	if ($self->{conn})
	{
		my $ok = eval {
			$self->{conn}->send_command(@args);
			$reply = $self->{conn}->read_reply;
			1;
		};
		return $reply if $ok;
		$self->_forget_connection;
		croak $@ if $@ =~ /no reply/;
	}
	$self->{conn} = $self->connection;
	$self->{conn}->send_command(@args);
	$reply = eval { $self->{conn}->read_reply };
	if ($@)
	{
		$self->_forget_connection;
		croak $@;
	}
	return $reply;
}

sub cmd
{
	my ($self, @args) = @_;
	my $reply = $self->try_cmd(@args);

	croak "$args[0]: $$reply" if ref $reply eq 'SCALAR';
	return $reply;
}

sub hash
{
	my ($self, $key) = @_;

	return { @{ $self->cmd('HGETALL', $key) } };
}

sub all_keys
{
	my ($self) = @_;

	my @keys = sort @{ $self->cmd('KEYS', '*') };
	return @keys;
}

# One section of INFO as a hash.
sub info
{
	my ($self, $section) = @_;
	my %info;

	foreach my $line (split /\r?\n/, $self->cmd('INFO', $section))
	{
		$info{$1} = $2 if $line =~ /^([^#:][^:]*):(.*)$/;
	}
	return \%info;
}

# As a number that compares: 7.0.15 is 7.000015.
sub version
{
	my ($self) = @_;

	$self->{version} ||= do
	{
		my ($a, $b, $c) = split /\./, $self->info('server')->{redis_version};
		sprintf '%d.%03d%03d', $a, $b, $c;
	};
	return $self->{version};
}

# How often a command ran since the start of the server (or since
# CONFIG RESETSTAT).  What scripts call themselves is counted too.
sub calls
{
	my ($self, @commands) = @_;

	return $self->_sum_of_stats(qr/\bcalls=(\d+)/, @commands);
}

# The same of those that were refused (by an ACL).
sub rejected_calls
{
	my ($self, @commands) = @_;

	return $self->_sum_of_stats(qr/\brejected_calls=(\d+)/, @commands);
}

sub _sum_of_stats
{
	my ($self, $pattern, @commands) = @_;
	my $stats = $self->info('commandstats');
	my $sum = 0;

	foreach my $command (@commands)
	{
		my $line = $stats->{"cmdstat_$command"};
		$sum += $1 if defined $line && $line =~ $pattern;
	}
	return $sum;
}

# Script calls: with SCRIPT LOAD never counted, this is the number of lock
# operations' client commands.
sub script_calls
{
	my ($self) = @_;

	return $self->calls('eval', 'evalsha');
}

# Channels that somebody is subscribed to, plain and sharded.
sub channels
{
	my ($self) = @_;
	my @channels = @{ $self->cmd('PUBSUB', 'CHANNELS') };

	push @channels, @{ $self->cmd('PUBSUB', 'SHARDCHANNELS') }
	  if $self->version >= 7;
	@channels = sort @channels;
	return @channels;
}

sub subscribers
{
	my ($self, $channel) = @_;

	return $self->cmd('PUBSUB', 'NUMSUB', $channel)->[1];
}

# Connections other than the test's own, each a hash of CLIENT LIST's fields.
sub clients
{
	my ($self) = @_;
	my @clients;

	foreach my $line (split /\n/, $self->cmd('CLIENT', 'LIST'))
	{
		my %client = $line =~ /(\S+?)=(\S*)/g;
		push @clients, \%client unless $self->{own}{ $client{addr} };
	}
	return @clients;
}

# Cuts off connections of ours by the beginning of their names ("session-42$",
# "watchdog"); returns how many.
sub kill_clients
{
	my ($self, $name) = @_;
	my @found = grep { $_->{name} =~ /^lockredis-$name/ } $self->clients;

	$self->cmd('CLIENT', 'KILL', 'ID', $_->{id}) foreach @found;
	return scalar @found;
}

# How to call redis-cli against this server, for output as users see it.
sub cli_command
{
	my ($self) = @_;

	return (
		'redis-cli', '-s', $self->socket_path,
		defined $self->{password}
		? ('--no-auth-warning', '-a', $self->{password})
		: ());
}

sub monitor
{
	my ($self) = @_;

	return LockRedis::Monitor->new($self);
}

# Client commands of sessions while the code ran, as MONITOR shows them.  What is
# not known to come from a watchdog counts as theirs.
sub session_commands
{
	my ($self, $do) = @_;
	my $monitor = $self->monitor;
	my %watchdog;

	$do->();
	$watchdog{ $_->{addr} } = 1
	  foreach grep { $_->{name} !~ /session/ } $self->clients;
	return grep { !/^[\d.]+ \[\d+ (.+?)\]/ || !$watchdog{$1} } $monitor->stop;
}

END
{
	my $exit_code = $?;

	foreach my $server (grep { $_->{owner} == $$ && $_->{pid} } @servers)
	{
		kill 'KILL', $server->{pid};
		waitpid $server->{pid}, 0;
	}
	$? = $exit_code;
}

1;
