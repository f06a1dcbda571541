# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Node - a PostgreSQL server with lockredis loaded

=head1 SYNOPSIS

  my $node = LockRedis::Node->create('main', redis => $redis);
  my $node = LockRedis::Node->create('main', url => $proxy->url,
      settings => { 'lockredis.lease' => '2s', max_connections => 300 },
      initdb => ['--encoding=LATIN1', '--locale=C'], extension => 0);

  my $node = LockRedis::Node->create('main', mode => 'table');
  my $node = LockRedis::Node->create('main', redis => lock_store);
  my $other = $node->another('other', redis => $redis);

  # Where no part of a test is about time-outs: the store may stand still for some seconds
  LockRedis::Node->create('main', redis => $redis, patient => 1);

  # Of another installation of PostgreSQL, with another build of lockredis
  LockRedis::Node->create('old', redis => $redis, install_path => $dir);

  # Which has reached the store, and sessions
  my ($node, $one, $two) = LockRedis::Node->create('main', redis => $redis, sessions => 2);

  # A server through a proxy if there is one (not in front of a table)
  LockRedis::Node->create('main', redis => $redis, proxy => $redis->proxy);

  $node->session(...)                    # see LockRedis::Session
  $node->connected_session               # has a connection to the store
  $node->value($sql)                     # one value over a connection of its own
  $node->set('lockredis.lease' => '1s'); # postgresql.conf, reload, in effect
  $node->watchdog_pid;
  $node->wait_for_waiters($key, $n);     # n sessions wait for the key
  $node->wait_for_up;                    # redis_lock_status says up
  $node->wait_for_up($redis);            # ... at this one, after another lockredis.url
  $node->lock_stat('losses');            # of redis_lock_stats
  $node->lock_status('state');           # of redis_lock_status
  $node->count_locks("key = 'k'");       # rows of redis_locks
  $node->log_since_here; ... $node->logged(qr/.../);

=head1 DESCRIPTION

A PostgreSQL::Test::Cluster: everything of that class works too.  Restarts
after a crash, as a server in production does.  The server's settings for a
test are given by name; see test/regress.conf for pg_regress.

=cut

package LockRedis::Node;

use LockRedis::Pragmas;

use parent -norequire, 'PostgreSQL::Test::Cluster';

use Carp;
use LockRedis::Query;
use LockRedis::Session;
use LockRedis::Wait qw(poll_until);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();

sub create ($class, $name, %opts)
{
	my $node = $class->new($name,
		$opts{install_path} ? (install_path => $opts{install_path}) : ());
	my %settings = (
		shared_preload_libraries => 'lockredis',
		restart_after_crash => 'on',
		_store_settings(%opts),
		$opts{patient}
		? ('lockredis.connect_timeout' => '10s', 'lockredis.command_timeout' => '10s')
		: (),
		%{ $opts{settings} || {} });

	$opts{redis}->use_node($node) if ref $opts{redis} eq 'LockRedis::Table';
	$node->init(extra => $opts{initdb} || [ '--encoding=UTF8', '--locale=C' ]);
	$node->append_conf('postgresql.conf',
		join "\n",
		map { "$_ = " . _quote($settings{$_}) } sort keys %settings);
	return $node if defined $opts{start} && !$opts{start};

	$node->start;
	$node->value('CREATE EXTENSION lockredis')
	  unless defined $opts{extension} && !$opts{extension};
	return $node unless $opts{sessions};

	$node->wait_for_up;
	return ($node, map { $node->session } 1 .. $opts{sessions});
}

# A server and its Redis, which it has seen, and sessions.
sub create_with_redis ($class, $name, %opts)
{
	my $redis = $opts{redis} || LockRedis::Redis->new;
	my ($node, @sessions) = $class->create($name, %opts, redis => $redis);

	$node->wait_for_up;
	return ($node, $redis, @sessions);
}

# The same behind a proxy, which comes before the sessions.
sub create_behind_proxy ($class, $name, %opts)
{
	my $redis = LockRedis::Redis->new;
	my $proxy = LockRedis::Proxy->new($redis);
	my ($node, @sessions) = $class->create($name, %opts, url => $proxy->url);

	$node->wait_for_up;
	return ($node, $redis, $proxy, @sessions);
}

# A server in fallback mode behind a proxy: the server, its Redis, the proxy, its table, and
# sessions.
sub create_fallback ($class, $name, %opts)
{
	my $redis = $opts{redis} || LockRedis::Redis->new;
	my $proxy = LockRedis::Proxy->new($redis);
	my $table = LockRedis::Table->new;
	my ($node, @sessions) = $class->create(
		$name, %opts,
		url => $opts{user} ? "redis://$opts{user}\@127.0.0.1:" . $proxy->port : $proxy->url,
		settings => {
			'lockredis.mode' => 'fallback',
			'lockredis.fallback_after' => '1s',
			%{ $opts{settings} || {} }
		});

	$table->use_node($node);
	$node->wait_for_up;
	return ($node, $redis, $proxy, $table, @sessions);
}

# Another server of the same locks.  A table has none: it is the same one then,
# with other sessions.
sub another ($self, $name, %opts)
{
	return $self if ref $opts{redis} eq 'LockRedis::Table';
	return LockRedis::Node->create($name, %opts);
}

# Where the locks are kept.
sub _store_settings (%opts)
{
	return ('lockredis.mode' => 'table')
	  if ($opts{mode} || '') eq 'table' || ref $opts{redis} eq 'LockRedis::Table';
	my $where = $opts{proxy} || $opts{redis};
	return ('lockredis.url' => $opts{url}
		  || ($where ? $where->url : croak 'no url and no redis'),
		ref $opts{redis} eq 'LockRedis::Masters' ? ('lockredis.max_lease' => '1h') : ());
}

sub _quote ($value)
{
	$value =~ s/(['\\])/\\$1/g;
	return "'$value'";
}

sub session ($self, %opts) { return LockRedis::Session->new($self, %opts); }

# One that has a connection to the store already
sub connected_session ($self, %opts)
{
	my $s = $self->session(%opts);

	$s->value("SELECT redis_is_locked('nothing')");
	return $s;
}

# Redis has every script afterwards, so that a fault meant for one request does
# not hit the attempt that only finds out that the script is missing.
sub warm_up ($self, $session, $lease)
{
	$session->value(
		"SET lockredis.lease = '$lease'; SELECT redis_lock('warm'), redis_lock('warm')");
	poll_until('a renewal',
		sub { $self->count_locks('renewals > 0') > 0 });
	$session->value(
		"RESET lockredis.lease; SELECT redis_unlock('warm'), redis_unlock('warm')");
	return;
}

sub value ($self, $sql, %opts)
{
	my $dbname = $opts{dbname} || 'postgres';
	my $output;

	# Several statements are one transaction unless psql sends them.
	$output = LockRedis::Query::output_of($self, $dbname, $sql)
	  unless $sql =~ /;\s*\S/;
	return $output // $self->safe_psql($dbname, $sql);
}

# Change settings in postgresql.conf and reload; returns when a new connection
# sees them.
sub set ($self, %settings)
{
	foreach my $name (sort keys %settings)
	{
		$self->append_conf('postgresql.conf',
			"$name = " . _quote($settings{$name}));
	}
	my $before = $self->value('SELECT pg_conf_load_time()');
	kill 'HUP', $self->{_pid};
	poll_until('the new settings',
		sub { $self->value('SELECT pg_conf_load_time()') ne $before });

	# Whether commits wait for a standby all others are told by the checkpointer, which reads
	# the settings before a checkpoint that is asked for later.
	$self->value('CHECKPOINT') if exists $settings{synchronous_standby_names};
	return;
}

# One figure of redis_lock_stats, and of the first row of redis_lock_status
sub lock_stat ($self, $column) { return $self->value("SELECT $column FROM redis_lock_stats"); }

sub lock_status ($self, $column)
{
	return $self->value("SELECT $column FROM redis_lock_status WHERE node = 1");
}

sub wait_for_state ($self, $state)
{
	return poll_until("state $state",
		sub { $self->lock_status('state') eq $state });
}

# So many are up and in use, and there are no others: of a cluster, or independent ones
sub wait_for_masters ($self, $n)
{
	return poll_until("$n masters to be up",
		sub {
			$self->value(q{
				SELECT count(*) FILTER (WHERE state = 'up' AND in_use) || ' of ' || count(*)
				  FROM redis_lock_status WHERE role = 'master'}) eq "$n of $n";
		});
}

# Rows of redis_locks
sub count_locks ($self, $where = undef)
{
	return $self->value('SELECT count(*) FROM redis_locks'
		  . (defined $where ? " WHERE $where" : ''));
}

sub count_rows ($self, $table) { return $self->value("SELECT count(*) FROM $table"); }

# After a time-out, or an outage, the store is left to the watchdog until it has
# answered, and it pauses between its attempts.
sub wait_until_asked ($self, $session)
{
	$self->wait_for_up;
	poll_until('the store to be asked again',
		sub { !$session->query("SELECT redis_is_locked('reachable')")->error });
	return;
}

# The lock was lost, and this server knows.
sub wait_for_loss ($self, $key)
{
	return poll_until("$key to be lost",
		sub { $self->count_locks("key = '$key' AND lost_at IS NOT NULL") > 0 });
}

# Nobody has the lock in that store, nor does this server know of one.
sub wait_for_free ($self, $store, $key)
{
	return poll_until("$key to be free",
		sub { !$store->cmd('EXISTS', $key) && $self->count_locks("key = '$key'") == 0 });
}

# The session, or a parallel worker of it, waits for a lock of PostgreSQL's own.
sub wait_for_postgres_lock ($self, $session)
{
	my $pid = $session->pid;

	return poll_until(
		"$pid to wait for a lock of PostgreSQL",
		sub {
			$self->value(
				"SELECT count(*) FROM pg_stat_activity
				 WHERE wait_event_type = 'Lock'
				   AND (pid = $pid OR leader_pid = $pid)") > 0;
		});
}

# The session, or the process with that id, waits for that (pg_stat_activity.wait_event), or for
# something of that type.
sub wait_for_event ($self, $who, $event)
{
	my $pid = ref $who ? $who->pid : $who;

	return poll_until(
		"process $pid to wait: $event",
		sub {
			$self->value(
				"SELECT '$event' IN (wait_event, wait_event_type) FROM pg_stat_activity WHERE pid = $pid"
			) eq 't';
		});
}

# Whether commits of the table worker, and of sessions, wait for a standby that there is not
sub let_commits_wait ($self, $wait)
{
	return $self->set(
		synchronous_standby_names => $wait ? 'nobody' : '',
		'lockredis.table_synchronous_commit' => $wait ? 'on' : 'off');
}

# In fallback mode: which store new locks go to, and wait until it is that one.
sub store_in_use ($self) { return $self->value('SELECT role FROM redis_lock_status WHERE in_use'); }

sub wait_for_store ($self, $role)
{
	return poll_until("locks to go to the $role",
		sub { $self->store_in_use eq $role });
}

# Redis runs on and nobody here reaches it, as with a broken network.
sub cut_off ($self, $proxy)
{
	$proxy->mode('refuse');
	$proxy->reset_all;
	return $self->wait_for_store('table');
}

sub reconnect ($self, $proxy)
{
	$proxy->mode('pass');
	return $self->wait_for_store('master');
}

# Process ids, undef when there is none.
sub watchdog_pid ($self) { return $self->_pid_of('lockredis watchdog'); }

sub table_worker_pid ($self) { return $self->_pid_of('lockredis table worker'); }

sub _pid_of ($self, $type)
{
	return $self->value("SELECT pid FROM pg_stat_activity WHERE backend_type = '$type'") || undef;
}

# Another watchdog is there then.
sub replace_watchdog ($self)
{
	my $before = $self->watchdog_pid;

	kill TERM => $before;
	poll_until('another watchdog', sub { (eval { $self->watchdog_pid } // $before) != $before });
	return;
}

sub wait_for_waiters ($self, $key, $count)
{
	$key =~ s/'/''/g;
	return poll_until(
		"$count sessions to wait for $key",
		sub {
			$self->value(
				"SELECT count(*) FROM redis_locks WHERE key = '$key' AND waiting_since IS NOT NULL"
			) == $count;
		});
}

# Stops a session that waits while it sleeps.  In the middle of a request it would fail for want
# of an answer when it goes on, and with a light-weight lock it would hold up others.
sub freeze_asleep ($self, $session)
{
	return poll_until(
		"session $session->{number} to be stopped asleep",
		sub {
			$session->freeze;
			return 1
			  if $self->value(
				"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = "
				  . $session->pid) eq 't';
			$session->thaw;
			return 0;
		});
}

# Sessions, each with its statement, wait for the key in this order.
sub queue_up ($self, $key, @waiters)
{
	my $n = 0;

	while (my ($s, $sql) = splice @waiters, 0, 2)
	{
		$s->start($sql);
		$self->wait_for_waiters($key, ++$n);
	}
	return;
}

# With a Redis or a proxy: after lockredis.url was changed the store of before is shown until the
# watchdog has read that.
sub wait_for_up ($self, $where = undef)
{
	my $there = $where ? " AND address = '" . $where->address . "'" : '';

	return poll_until(
		'the watchdog to reach the store',
		sub {
			$self->value(
				q{SELECT count(*) FROM redis_lock_status
				WHERE state = 'up' AND (in_use OR role NOT IN ('sentinel', 'replica'))}
				  . $there) > 0;
		});
}

# Where the server log ends now; logged() looks from here on.
sub log_since_here ($self)
{
	$self->{log_mark} = -s $self->logfile || 0;
	return;
}

sub logged ($self, $pattern) { return $self->log_text =~ $pattern; }

sub wait_until_logged ($self, $pattern)
{
	return poll_until("the log to say $pattern", sub { $self->logged($pattern) }, 120);
}

# How often it was logged.
sub times_logged ($self, $pattern) { return scalar(() = $self->log_text =~ /$pattern/g); }

sub log_text ($self)
{
	return PostgreSQL::Test::Utils::slurp_file($self->logfile,
		$self->{log_mark} || 0);
}

# A server that is stopped at once leaves no counts of what ran; see
# script/coverage.
sub teardown_node ($self, @rest)
{
	if ($ENV{LOCKREDIS_COVERAGE} && defined $self->{_pid})
	{
		local $ENV{PGCTLTIMEOUT} = 15;
		return if $self->stop('fast', fail_ok => 1);
	}
	return $self->SUPER::teardown_node(@rest);
}

1;
