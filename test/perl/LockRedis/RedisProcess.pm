# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::RedisProcess - the server process of a LockRedis::Redis

=head1 SYNOPSIS

  $redis->start; $redis->stop(keep => 1); $redis->restart;
  $redis->configure(maxmemory => '3mb');        # the next start takes it
  $redis->kill9; $redis->freeze; $redis->thaw;
  $redis->stop_full; $redis->start_loading(10_000); $redis->forget_loading;

=head1 DESCRIPTION

Part of LockRedis::Redis: configuration, start, end, and a server that stands
still or still loads its data.

=cut

package LockRedis::RedisProcess;

use LockRedis::Pragmas;

use parent 'LockRedis::Program';

use Carp;
use LockRedis::Program qw(has_ended start_program);
use LockRedis::Resp;
use LockRedis::Wait qw(poll_until);
use PostgreSQL::Test::Utils qw(append_to_file);
use Test::More;

# Settings that the next start takes; a list reference for several words.
sub configure ($self, %settings)
{
	%{ $self->{config} } = (%{ $self->{config} }, %settings);
	return;
}

# The same, and of the server that runs and answers
sub config_set ($self, $name, $value)
{
	$self->configure($name => $value);
	$self->cmd('CONFIG', 'SET', $name, $value) if $self->{pid} && !$self->{frozen};
	return;
}

# Start the server and wait until it answers; loading => 1 only until it
# listens (it may still be loading its data then).
sub start ($self, %opts)
{
	croak "Redis \"$self->{name}\" runs already" if $self->{pid};
	$self->_write_config;

	my @command = ($self->_program, "$self->{dir}/redis.conf", $self->_arguments);
	@command = $self->{place}->inside(@command) if $self->{place};
	my $pid = start_program($self->{log}, @command);
	$self->{pid} = $pid;

	poll_until("Redis \"$self->{name}\" to start (see $self->{log})",
		sub {
			if (has_ended($pid))
			{
				delete $self->{pid};
				die "Redis \"$self->{name}\" ended at once, see $self->{log}\n";
			}
			my $conn = LockRedis::Resp->connect($self->_door, may_fail => 1)
			  or return 0;
			return 1 if $opts{loading};
			$conn->send_command('PING');
			my $reply = $conn->read_reply;
			return !ref $reply || $$reply =~ /^NOAUTH/;
		});
	note "Redis \"$self->{name}\" runs on port $self->{port}, pid $pid";
	return;
}

sub _program { return split ' ', $ENV{LOCKREDIS_TEST_REDIS} || 'redis-server'; }

# Behind the name of the file
sub _arguments { return (); }

sub _config ($self)
{
	return (
		port => $self->{port},
		bind => $self->host,
		unixsocket => $self->socket_path,
		unixsocketperm => '700',
		dir => $self->{dir},
		pidfile => "$self->{dir}/redis.pid",
		logfile => $self->{log},
		daemonize => 'no',
		save => '',
		appendonly => 'no',
		$self->_tls_config,
		$self->{place} ? ('protected-mode' => 'no') : (),
		defined $self->{password} ? (requirepass => $self->{password}) : (),
		%{ $self->{config} });
}

sub _write_config ($self)
{
	my %config = $self->_config;

	unlink "$self->{dir}/redis.conf";
	foreach my $name (sort keys %config)
	{
		my $value = $config{$name};
		append_to_file("$self->{dir}/redis.conf",
			join(' ', $name, map { _quote($_) } ref $value ? @$value : $value) . "\n");
	}
	return;
}

# Clients need no certificate unless the test says so.
sub _tls_config ($self)
{
	return () unless $self->{tls};
	return (
		'tls-port' => $self->{tls_port},
		'tls-cert-file' => $self->{tls}{cert},
		'tls-key-file' => $self->{tls}{key},
		'tls-ca-cert-file' => $self->{tls}{cert},
		'tls-auth-clients' => 'no');
}

sub _quote ($word)
{
	$word =~ s/(["\\])/\\$1/g;
	return "\"$word\"";
}

# Stop the server; keep => 1 saves the data for the next start.
sub stop ($self, %opts)
{
	return unless $self->{pid};
	$self->thaw;
	$self->cmd('SAVE') if $opts{keep};
	unlink "$self->{dir}/dump.rdb" unless $opts{keep};
	kill 'TERM', $self->{pid};
	$self->_reap;
	return;
}

sub restart ($self, %opts)
{
	$self->stop(%opts);
	$self->start;
	return;
}

# Stop with so many keys that loading them takes long.
sub stop_full ($self)
{
	$self->cmd('SET', "loading-$_", 'x') foreach 1 .. 1000;
	return $self->stop(keep => 1);
}

# Start, and load each key in so many microseconds.
sub start_loading ($self, $delay)
{
	$self->configure(
		'key-load-delay' => $delay,
		'loading-process-events-interval-bytes' => 1024);
	return $self->start(loading => 1);
}

# Load the rest at once, and delete the keys of stop_full.
sub forget_loading ($self)
{
	$self->config_set('key-load-delay' => 0);
	poll_until('Redis to have loaded its data',
		sub { !ref $self->try_cmd('PING') });
	$self->cmd('DEL', map { "loading-$_" } 1 .. 1000);
	return;
}

# The server keeps its sockets and does nothing.
sub freeze ($self)
{
	kill 'STOP', $self->{pid};
	$self->{frozen} = 1;
	return;
}

sub thaw ($self)
{
	kill 'CONT', $self->{pid} if $self->{pid} && delete $self->{frozen};
	return;
}

sub _reap ($self)
{
	$self->SUPER::_reap;
	delete $self->{frozen};
	$self->_forget_connection;
	return;
}

1;
