# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Exporter - monitoring/ as it is installed, for one server: Debian's
prometheus-postgres-exporter with queries.yaml, and the role that the README makes for it

=head1 SYNOPSIS

  my $exporter = LockRedis::Exporter->new($node);    # makes the extension, in the schema lockredis
  $exporter->port;
  $exporter->text;        # of /metrics; undef: it does not answer
  $exporter->metrics;     # { 'lockredis_node_up{node="1",role="master"}' => 1, ... }
  $exporter->start;       # after a stop
  $exporter->stop;
  LockRedis::Exporter::start_web($name, $port, @command);    # a program that has /metrics

=cut

package LockRedis::Exporter;

use LockRedis::Pragmas;

use File::Basename qw(dirname);
use File::Spec;
use HTTP::Tiny;
use LockRedis::Program qw(await_end has_ended log_file start_program);
use LockRedis::Wait qw(poll_until);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our $directory = File::Spec->rel2abs(dirname(__FILE__) . '/../../../monitoring');

# Whatever proxy the environment names
our $http = HTTP::Tiny->new(timeout => 30, proxy => undef, http_proxy => undef);

sub new ($class, $node)
{
	my $self = bless { node => $node, port => PostgreSQL::Test::Cluster::get_free_port() }, $class;

	$node->value($_)
	  foreach 'CREATE SCHEMA lockredis', 'CREATE EXTENSION lockredis SCHEMA lockredis',
	  'ALTER DATABASE postgres SET search_path = public, lockredis',
	  slurp_file("$directory/README.md") =~ /^```sql\n(CREATE ROLE .*?)^```/ms;
	$self->start;
	return $self;
}

sub port ($self) { return $self->{port}; }

sub start ($self)
{
	my $node = $self->{node};

	local $ENV{DATA_SOURCE_NAME} = 'user=exporter host=' . $node->host . ' port=' . $node->port
	  . ' dbname=postgres sslmode=disable';
	$self->{pid} = start_web('exporter_' . $node->name, $self->{port}, 'prometheus-postgres-exporter',
		"--web.listen-address=127.0.0.1:$self->{port}",
		"--extend.query-path=$directory/queries.yaml");
	return;
}

sub stop ($self)
{
	stop_web($self->{pid});
	return;
}

sub text ($self)
{
	my $reply = $http->get("http://127.0.0.1:$self->{port}/metrics");

	return $reply->{success} ? $reply->{content} : undef;
}

sub metrics ($self)
{
	my $text = $self->text;

	return defined $text ? { $text =~ /^(lockredis_\w+\{.*\}) (\S+)$/mg } : undef;
}

# It listens where it is told to, or has ended.
sub start_web ($name, $port, @command)
{
	my $log = log_file($name);
	my $pid = start_program($log, @command);

	poll_until(
		"$name to answer (see $log)",
		sub {
			die "$name has ended, see $log\n" if has_ended($pid);
			$http->get("http://127.0.0.1:$port/metrics")->{success};
		});
	return $pid;
}

sub stop_web ($pid)
{
	kill 'TERM', $pid;
	await_end($pid);
	return;
}

1;
