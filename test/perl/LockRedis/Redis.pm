# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Redis - a throwaway Redis server of a test

=head1 SYNOPSIS

  my $redis = LockRedis::Redis->new;                  # started, empty
  my $redis = LockRedis::Redis->new(name => 'b', config => { maxmemory => '3mb' },
      password => 'secret', start => 0);

  $redis->url;            # redis://127.0.0.1:PORT      for lockredis.url
  $redis->unix_url;       # unix:///.../redis.sock
  my $safe = LockRedis::Redis->new(tls => $ca->certificate('safe'));   # a TLS port, too
  $safe->tls_url; $safe->tls_port;        # rediss://127.0.0.1:PORT
  $redis->port; $redis->socket_path; $redis->version;      # version: 7.000015

  $redis->cmd('HGETALL', $key);      # any bytes; dies on an error reply
  $redis->hash($key);                # { field => value }
  $redis->all_keys;                     # sorted names
  $redis->stop; $redis->start; $redis->restart(keep => 1);
  $redis->kill9; $redis->freeze; $redis->thaw;

  my $n = $redis->script_calls;      # eval + evalsha so far
  my $redis = LockRedis::Redis->new(place => $net->place);   # see LockRedis::Netns

  my $watch = $redis->monitor;       # MONITOR from here on
  my @lines = $watch->stop;          # commands of clients other than the test
  my @args = $watch->args($line);

=head1 DESCRIPTION

Listens on a unix socket and on a free loopback port, in a directory of its own
outside the source tree.  Keeps nothing on disk unless asked.  Ends with the
test.  The test's own commands go over TCP on connections named "test", or over
the unix socket where the server is in a network of its own.  What knows how
locks are kept is in LockRedis::RedisLocks, what starts and ends the server in
LockRedis::RedisProcess, and all methods of these can be called here.

LOCKREDIS_TEST_REDIS names another program than redis-server, in words: that of
another version, or Valkey's.

=cut

package LockRedis::Redis;

use LockRedis::Pragmas;

use parent qw(LockRedis::RedisLocks LockRedis::RedisProcess);

use Carp;
use LockRedis::Monitor;
use LockRedis::Program qw(log_file);
use LockRedis::Resp;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub new ($class, %opts)
{
	my $self = bless {
		name => $opts{name} || 'redis',
		config => { %{ $opts{config} || {} } },
		password => $opts{password},
		tls => $opts{tls},
		place => $opts{place},
		port => PostgreSQL::Test::Cluster::get_free_port(),
		dir => PostgreSQL::Test::Utils::tempdir_short()
	}, $class;

	$self->{tls_port} = PostgreSQL::Test::Cluster::get_free_port() if $opts{tls};

	$self->{log} = log_file($self->{name});
	$self->start unless defined $opts{start} && !$opts{start};
	return $self;
}

sub port ($self) { return $self->{port}; }

sub socket_path ($self) { return "$self->{dir}/redis.sock"; }

sub password ($self) { return $self->{password}; }

# Of the Sentinels that watch it: see LockRedis::Sentinels
sub sentinel_password { return; }

sub logfile ($self) { return $self->{log}; }

# Where others reach it
sub host ($self) { return $self->{place} ? $self->{place}->address : '127.0.0.1'; }

# The one that a Sentinel names: that of TLS where there is one
sub public_port ($self) { return $self->{tls_port} || $self->{port}; }

sub address ($self) { return $self->host . ':' . $self->public_port; }

sub url ($self) { return 'redis://' . $self->host . ":$self->{port}"; }

sub unix_url ($self) { return 'unix://' . $self->socket_path; }

sub tls_port ($self) { return $self->{tls_port}; }

sub tls_url ($self) { return 'rediss://' . $self->host . ":$self->{tls_port}"; }

# Between the sessions and this Redis
sub proxy ($self) { return LockRedis::Proxy->new($self); }

# Where the test comes in
sub _door ($self) { return $self->{place} ? $self->socket_path : $self->{port}; }

# A connection of the test's own; close it when done.
sub connection ($self)
{
	my $conn = LockRedis::Resp->connect(
		$self->_door,
		password => $self->{password},
		name => 'test');

	# All that come through the socket look the same, and all are the test's.
	$self->{own}{$_} = 1
	  foreach $self->{place}
	  ? ($self->socket_path . ':0', 'unix:' . $self->socket_path)
	  : $conn->address;
	return $conn;
}

sub _forget_connection ($self)
{
	my $conn = delete $self->{conn};
	$conn->disconnect if $conn;
	return;
}

# Run a command; an error reply comes as a reference to its text.
sub try_cmd ($self, @args)
{
	# CLIENT KILL and restarts may have ended a connection that was kept.
	while (1)
	{
		my $kept = $self->{conn};
		my $reply;

		$self->{conn} //= $self->connection;
		return $reply
		  if eval { $self->{conn}->send_command(@args); $reply = $self->{conn}->read_reply; 1 };
		my $error = $@;
		$self->_forget_connection;
		croak $error if !$kept || $error =~ /no reply/;
	}
}

sub cmd ($self, @args)
{
	my $reply = $self->try_cmd(@args);

	croak "$args[0]: $$reply" if ref $reply eq 'SCALAR';
	return $reply;
}

sub hash ($self, $key) { return { @{ $self->cmd('HGETALL', $key) } }; }

sub all_keys ($self)
{
	my @keys = sort @{ $self->cmd('KEYS', '*') };
	return @keys;
}

# One section of INFO as a hash.
sub info ($self, $section)
{
	my %info;

	foreach my $line (split /\r?\n/, $self->cmd('INFO', $section))
	{
		$info{$1} = $2 if $line =~ /^([^#:][^:]*):(.*)$/;
	}
	return \%info;
}

# As a number that compares: 7.0.15 is 7.000015.
sub version ($self)
{
	$self->{version} ||= do
	{
		my ($a, $b, $c) = split /\./, $self->info('server')->{redis_version};
		sprintf '%d.%03d%03d', $a, $b, $c;
	};
	return $self->{version};
}

# How often a command ran since the start of the server (or since
# CONFIG RESETSTAT).  What scripts call themselves is counted too.
sub calls ($self, @commands) { return $self->_sum_of_stats(qr/\bcalls=(\d+)/, @commands); }

# The same of those that were refused (by an ACL).
sub rejected_calls ($self, @commands)
{
	return $self->_sum_of_stats(qr/\brejected_calls=(\d+)/, @commands);
}

sub _sum_of_stats ($self, $pattern, @commands)
{
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
sub script_calls ($self) { return $self->calls('eval', 'evalsha'); }

# Channels that somebody is subscribed to, plain and sharded.
sub channels ($self)
{
	my @channels = @{ $self->cmd('PUBSUB', 'CHANNELS') };

	push @channels, @{ $self->cmd('PUBSUB', 'SHARDCHANNELS') }
	  if $self->version >= 7;
	@channels = sort @channels;
	return @channels;
}

sub subscribers ($self, $channel) { return $self->cmd('PUBSUB', 'NUMSUB', $channel)->[1]; }

# Connections other than the test's own, each a hash of CLIENT LIST's fields; of one of
# lockredis the name ends before its server, which is the field "server".
sub clients ($self)
{
	my @clients;

	foreach my $line (split /\n/, $self->cmd('CLIENT', 'LIST'))
	{
		my %client = $line =~ /(\S+?)=(\S*)/g;

		# Which session it is; then whose server it is.
		($client{name}, $client{server}) = split /:/, $client{name}, 2
		  if $client{name} =~ /^lockredis-/;
		# A port that one of the test's had may be somebody else's by now.
		push @clients, \%client
		  unless $self->{own}{ $client{addr} } && ($self->{place} || $client{name} eq 'test');
	}
	return @clients;
}

# Cuts off connections of ours by the beginning of their names ("session-42$",
# "watchdog"); returns how many.
sub kill_clients ($self, $name)
{
	my @found = grep { $_->{name} =~ /^lockredis-$name/ } $self->clients;

	# One may have ended by itself meanwhile.
	$self->try_cmd('CLIENT', 'KILL', 'ID', $_->{id}) foreach @found;
	return scalar @found;
}

# How to call redis-cli against this server, for output as users see it.
sub cli_command ($self)
{
	return (
		'redis-cli', '-s', $self->socket_path,
		defined $self->{password}
		? ('--no-auth-warning', '-a', $self->{password})
		: ());
}

sub monitor ($self) { return LockRedis::Monitor->new($self); }

# Client commands of sessions while the code ran, as MONITOR shows them.  What is
# not known to come from a watchdog counts as theirs.
sub session_commands ($self, $do)
{
	my $monitor = $self->monitor;
	my %watchdog;

	$do->();
	$watchdog{ $_->{addr} } = 1
	  foreach grep { $_->{name} !~ /session/ } $self->clients;
	return grep { !/^[\d.]+ \[\d+ (.+?)\]/ || !$watchdog{$1} } $monitor->stop;
}

1;
