# Copyright (c) 2026, lockredis contributors

# lockredis.url points to something that is no Redis.
#
# Checked: a call ends within its budget, with an error of class 58 whose
# DETAIL says what was found; redis_lock_status says it too, and the server log
# where; with the right URL all works again, and nothing is left.  316_false_node plays others.
#
# Proves G18, G28.

use IO::Socket::INET;
use LockRedis::Program qw(start_program);
use LockRedis::Test;
use PostgreSQL::Test::Utils;

need_tool('openssl');

my @children;
my $dir = PostgreSQL::Test::Utils::tempdir();

# A program with a port of its own; returns its URL when somebody listens there.
sub program
{
	my ($name, @command) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();

	push @children, start_program("$dir/$name.log", map { s/PORT/$port/r } @command);
	poll_until("$name to listen",
		sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) });
	return "redis://127.0.0.1:$port";
}

system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes',
	'-keyout', "$dir/key.pem", '-out', "$dir/cert.pem", '-days', '2',
	'-subj', '/CN=localhost');
append_to_file("$dir/sentinel.conf", "bind 127.0.0.1\ndir $dir\n");

my ($node, $redis) = LockRedis::Node->create_with_redis('main',
	settings => {
		'lockredis.connect_timeout' => limit(10) . 's',
		'lockredis.command_timeout' => limit(10) . 's'
	});
my $session = $node->session(
	settings => { statement_timeout => limit(30_000) });

$session->query_is(q{SELECT redis_try_lock('k'), redis_unlock('k')},
	't|t', 'a Redis');
my $before = descriptors($session, $node);

# Each: its URL, and what is said of it.
my $no_answer = qr/The node closed the connection without an answer: it may expect TLS, or be no Redis server\./;
my %servers = (
	'an HTTP server of Python' => [
		program('http', 'python3', '-m', 'http.server', '--bind', '127.0.0.1',
			'--directory', $dir, 'PORT'),
		qr/The node's answer is not in Redis's protocol: it seems to be an HTTP server\./
	],
	# OpenSSL's own ends the connection, others send an alert before.
	'a TLS server' => [
		program('tls', 'openssl', 's_server', '-accept', '127.0.0.1:PORT',
			'-cert', "$dir/cert.pem", '-key', "$dir/key.pem", '-quiet'),
		$no_answer
	],
	'PostgreSQL itself' =>
	  [ 'unix://' . $node->host . '/.s.PGSQL.' . $node->port, $no_answer ],
	'a Redis Sentinel' => [
		program('sentinel', 'redis-server', "$dir/sentinel.conf", '--port', 'PORT', '--sentinel'),
		qr/The node answered: ERR unknown command/
	]);

foreach my $what (sort keys %servers)
{
	my ($url, $pattern) = @{ $servers{$what} };

	$node->log_since_here;
	$node->set('lockredis.url' => $url);
	# The first word may be the watchdog's, which then speaks for the session.
	$session->query_fails(q{SELECT redis_try_lock('k')}, '58030',
		qr/$pattern|did not answer lately/, $what);
	poll_until("redis_lock_status to tell of $what", sub {
		$node->value(q{SELECT state || ': ' || last_error FROM redis_lock_status}) =~
		  /^(?:down|connecting): .*$pattern/ });
	poll_until("the server log to tell of $what", sub {
		$node->logged(qr/LOG:  lockredis: the lock store is down.*DETAIL:  \S+: $pattern/s) });
}

$node->set('lockredis.url' => $redis->url);
$session->query_is(q{SELECT redis_try_lock('k'), redis_unlock('k')},
	't|t', 'a Redis again');
nothing_left($node, $redis, descriptors => $before);

END
{
	my $exit_code = $?;

	foreach my $pid (@children)
	{
		kill 'KILL', $pid;
		waitpid $pid, 0;
	}
	$? = $exit_code;
}
done_testing();
