# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Pooler - a PgBouncer in front of a server

=head1 SYNOPSIS

  LockRedis::Pooler->need;
  my $pooler = LockRedis::Pooler->new($node, 'name', default_pool_size => 1);
  my $s = $pooler->session('tx');       # transaction mode; 'sess': session mode
  $pooler->waiting_clients;              # for a connection to the server
  $pooler->stop;

=head1 DESCRIPTION

It offers the databases "tx" and "sess" in the two modes, with two connections to the server
each.  Ends with the test.  A session is a psql: the backend that it sees may serve others
afterwards, so the end of the client is not that of the backend.

=cut

package LockRedis::Pooler;

use LockRedis::Pragmas;

use LockRedis::Program qw(await_end has_ended log_file start_program);
use LockRedis::Session;
use LockRedis::Test qw(need_tool);
use LockRedis::Wait qw(poll_until);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

sub need
{
	# Where Debian has it.
	$ENV{PATH} .= ':/usr/sbin';
	need_tool('pgbouncer');
	return;
}

sub new ($class, $node, $name, %settings)
{
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless {
		dir => $dir,
		port => PostgreSQL::Test::Cluster::get_free_port(),
		log => log_file($name)
	}, $class;
	my $user = getpwuid $>;
	my $server = 'host=' . $node->host . ' port=' . $node->port . " dbname=postgres user=$user";
	my %all = (
		listen_port => $self->{port},
		unix_socket_dir => $dir,
		auth_type => 'any',
		default_pool_size => 2,
		logfile => $self->{log},
		%settings);

	append_to_file("$dir/pgbouncer.ini", join '',
		"[databases]\n",
		"tx = $server pool_mode=transaction\n",
		"sess = $server pool_mode=session\n",
		"[pgbouncer]\n",
		map { "$_ = $all{$_}\n" } sort keys %all);

	my $pid = start_program($self->{log}, 'pgbouncer', "$dir/pgbouncer.ini");
	$self->{pid} = $pid;
	poll_until(
		"PgBouncer to listen (see $self->{log})",
		sub {
			die "PgBouncer ended at once, see $self->{log}\n" if has_ended($pid);
			-S "$dir/.s.PGSQL.$self->{port}";
		});
	return $self;
}

# For LockRedis::Session.
sub connstr ($self, $dbname) { return "host=$self->{dir} port=$self->{port} dbname=$dbname"; }

sub session ($self, $dbname) { return LockRedis::PooledSession->new($self, dbname => $dbname); }

# How many clients wait for a connection to the server
sub waiting_clients ($self)
{
	my ($out, $err);

	PostgreSQL::Test::Utils::run_log(
		[ 'psql', '-XAt', '-d', $self->connstr('pgbouncer') . ' user=pgbouncer', '-c', 'SHOW CLIENTS' ],
		'>', \$out, '2>', \$err) or die "SHOW CLIENTS: $err";
	return scalar grep { /\|waiting\|/ } split /\n/, $out;
}

# Its connections to the server end with it.
sub stop ($self)
{
	my $pid = delete $self->{pid};

	kill 'INT', $pid;
	await_end($pid);
	return;
}

package LockRedis::PooledSession;

use parent -norequire, 'LockRedis::Session';

sub quit ($self)
{
	return unless $self->{psql};
	close $self->{in};
	$self->_end(no_backend => 1);
	return;
}

1;
