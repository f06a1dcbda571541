# Copyright (c) 2026, lockredis contributors

# lockredis.url points to something that is no Redis.
#
# Checked: a call ends within its budget, with an error of class 58 whose
# DETAIL says what was found; redis_lock_status says it too, and the server log
# where; with the right URL all works again, and nothing is left.
#
# Proves G18, G28.

use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use LockRedis::Test;
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;
use POSIX ();

need_tool('openssl');

my @children;
my $dir = PostgreSQL::Test::Utils::tempdir();

sub child
{
	my ($code) = @_;
	my $pid = fork();

	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		# Only the sockets of its own, and no END block.
		eval { $code->(); 1 } or print STDERR $@;
		POSIX::_exit(1);
	}
	push @children, $pid;
	return;
}

# A server that does the same to every connection; returns its port.
sub server
{
	my ($serve) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => 0,
		Listen => 20) || die "could not listen: $!";

	child(
		sub {
			my @open;
			while (my $client = $listener->accept)
			{
				$client->autoflush(1);
				push @open, $client if $serve->($client);
			}
		});
	return $listener->sockport;
}

# One that says something at once and then listens.
sub banner
{
	my ($text) = @_;

	return server(sub { print { $_[0] } $text; return 1; });
}

# One that answers the first packet with this.
sub answer
{
	my ($text) = @_;

	return server(
		sub {
			my ($client) = @_;

			$client->sysread(my $request, 65536);
			print $client $text;
			return 0;
		});
}

# A program with a port of its own; returns when somebody listens there.
sub program
{
	my ($name, @command) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();

	child(
		sub {
			open STDIN, '<', '/dev/null';
			open STDOUT, '>', "$dir/$name.log";
			open STDERR, '>&', \*STDOUT;
			exec map { s/PORT/$port/r } @command;
		});
	poll_until("$name to listen",
		sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) });
	return $port;
}

system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes',
	'-keyout', "$dir/key.pem", '-out', "$dir/cert.pem", '-days', '2',
	'-subj', '/CN=localhost');
open my $conf, '>', "$dir/sentinel.conf" or die $!;
print $conf "bind 127.0.0.1\ndir $dir\n";
close $conf;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main',
	redis => $redis,
	settings => {
		'lockredis.connect_timeout' => limit(1000) . 'ms',
		'lockredis.command_timeout' => limit(1000) . 'ms'
	});
my $session = $node->session(
	settings => { statement_timeout => limit(10_000) });

$session->query_is(q{SELECT redis_try_lock('k'), redis_unlock('k')},
	't|t', 'a Redis');
my $before = descriptors($session, $node);

# Each: its URL, SQLSTATE, and what is said of it.
my $no_protocol = qr/The node's answer is not in Redis's protocol/;
my $no_answer = qr/The node closed the connection without an answer: it may expect TLS, or be no Redis server\./;
my %servers = (
	'an HTTP server' => [
		'redis://127.0.0.1:'
		  . answer("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\n\r\n<html></html>"),
		'58030',
		qr/$no_protocol: it seems to be an HTTP server\./
	],
	'an HTTP server of Python' => [
		'redis://127.0.0.1:'
		  . program('http', 'python3', '-m', 'http.server', '--bind', '127.0.0.1',
			'--directory', $dir, 'PORT'),
		'58030',
		qr/$no_protocol: it seems to be an HTTP server\./
	],
	# OpenSSL's own ends the connection, others send an alert before.
	'a TLS server' => [
		'redis://127.0.0.1:'
		  . program('tls', 'openssl', 's_server', '-accept', '127.0.0.1:PORT',
			'-cert', "$dir/cert.pem", '-key', "$dir/key.pem", '-quiet'),
		'58030',
		$no_answer
	],
	'a TLS server that sends an alert' => [
		'redis://127.0.0.1:' . answer("\x15\x03\x01\x00\x02\x02\x46"),
		'58030',
		qr/$no_protocol: it seems to expect TLS\./
	],
	'a mail server' =>
	  [ 'redis://127.0.0.1:' . banner("220 mail.example.com ESMTP\r\n"),
		'58030', $no_protocol ],
	'an SSH server' =>
	  [ 'redis://127.0.0.1:' . banner("SSH-2.0-OpenSSH_9.2p1\r\n"),
		'58030', $no_protocol ],
	'a MySQL server' => [
		'redis://127.0.0.1:'
		  . banner("\x4a\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00" . 'x' x 60),
		'58030', $no_protocol
	],
	'a memcached' =>
	  [ 'redis://127.0.0.1:' . answer("ERROR\r\nERROR\r\n"), '58030', $no_protocol ],
	'a server that is silent' => [
		'redis://127.0.0.1:' . server(sub { 1 }),
		'58000',
		qr/The node accepted the connection but did not answer in time\./
	],
	'a server that closes at once' => [
		'redis://127.0.0.1:' . server(sub { 0 }),
		'58030',
		$no_answer
	],
	'PostgreSQL itself' => [
		'unix://' . $node->host . '/.s.PGSQL.' . $node->port,
		'58030',
		$no_answer
	],
	'a Redis Sentinel' => [
		'redis://127.0.0.1:'
		  . program('sentinel', 'redis-server', "$dir/sentinel.conf", '--port',
			'PORT', '--sentinel'),
		'58030',
		qr/The node answered: ERR unknown command/
	]);

foreach my $what (sort keys %servers)
{
	my ($url, $sqlstate, $pattern) = @{ $servers{$what} };

	$node->log_since_here;
	$node->set('lockredis.url' => $url);
	# The first word may be the watchdog's, which then speaks for the session.
	my $lately = qr/did not answer lately/;
	foreach my $call (q{redis_lock('k')}, q{redis_try_lock('k')})
	{
		my $result = $session->query("SELECT $call");
		ok( ($result->sqlstate || '') =~ /^(?:$sqlstate|58030)$/
			  && $result->detail =~ /$pattern|$lately/,
			"$call: $what")
		  || diag $result->{raw};
	}
	ok( poll_until(
			"redis_lock_status to tell of $what",
			sub {
				$node->value(
					q{SELECT state || ': ' || last_error FROM redis_lock_status}
				) =~ /^(?:down|connecting): .*$pattern/;
			}),
		"redis_lock_status: $what");
	ok( poll_until(
			"the server log to tell of $what",
			sub {
				$node->logged(
					qr/LOG:  lockredis: the lock store is down.*DETAIL:  \S+: $pattern/s
				);
			}),
		"the server log: $what");
}

$node->set('lockredis.url' => $redis->url);
$node->wait_for_up;
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
