# Copyright (c) 2026, lockredis contributors

# Table mode with a database that nobody can connect to: one whose DROP was interrupted,
# one that accepts no connections, and one that is damaged.  The worker waits instead of
# starting and dying all the time, requests and redis_lock_status say why, and it goes on
# by itself when the database is in order again.  Proves G19, G25.

use LockRedis::Test;

my $table = LockRedis::Table->new(dbname => 'locks');
my $node = LockRedis::Node->create(
	'main',
	redis => $table,
	start => 0,
	settings => {
		'lockredis.database' => 'locks',
		'lockredis.command_timeout' => limit(5) . 's'
	});
my $one;

sub make_database
{
	$node->safe_psql('postgres', 'CREATE DATABASE locks');
	$node->safe_psql('locks', 'CREATE EXTENSION lockredis');
	return;
}

sub is_up
{
	my ($name) = @_;

	poll_until("$name: to be up", sub { !$one->query("SELECT redis_is_locked('up')")->error });
	$node->wait_for_up;
	$one->query_is("SELECT redis_try_lock('up'), redis_unlock('up')", 't|t', "$name: works");
	return;
}

# TAP: requests and the status say that, and no worker dies meanwhile but the first one,
# which may find out by connecting, and one more.
sub is_down_calmly
{
	my ($says, $name) = @_;
	my $error;

	$node->log_since_here;
	# Until it has ended it grants what is asked for.
	my $worker = $node->table_worker_pid;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
	poll_until("$name: the worker to end", sub { ($node->table_worker_pid // 0) != $worker });
	poll_until(
		"$name: an error like $says",
		sub {
			$error = $one->query("SELECT redis_try_lock('down')");
			return ($error->sqlstate || '') eq '55000' && $error->{raw} =~ $says;
		});
	poll_until("$name: the status to say so",
		sub { $one->value('SELECT last_error FROM redis_lock_status') =~ $says });
	is($one->value('SELECT state FROM redis_lock_status'), 'down', "$name: it is down");

	# Nothing can be waited for here: that something does not happen.
	pause(7);
	cmp_ok($node->times_logged(qr/FATAL: /), '<=', 2, "$name: the worker does not die again and again");
	$one->query_fails("SELECT redis_try_lock('down')", '55000', $says, "$name: says it still");
	return;
}

$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
make_database();
$one = $node->session;
is_up('in order');

my $admin = $node->session;

$admin->query(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'locks'});
is_down_calmly(qr/Database "locks" is invalid, as DROP DATABASE was interrupted/, 'invalid');
is($admin->query('DROP DATABASE locks')->error, undef, 'it can be dropped');
make_database();
is_up('made anew');

$admin->query('ALTER DATABASE locks ALLOW_CONNECTIONS false');
is_down_calmly(qr/Database "locks" accepts no connections/, 'closed');
$admin->query('ALTER DATABASE locks ALLOW_CONNECTIONS true');
is_up('opened');

my $version = $node->data_dir . '/base/'
  . $admin->value(q{SELECT oid FROM pg_database WHERE datname = 'locks'}) . '/PG_VERSION';
rename $version, "$version.away" or die "could not rename $version: $!";
is_down_calmly(qr/Database "locks" could not be connected to; the server log says why/, 'damaged');
ok($node->logged(qr/PG_VERSION/), 'damaged: it says why');
rename "$version.away", $version or die "could not rename $version.away: $!";
is_up('mended');

end_test($node, $table);
