# Copyright (c) 2026, lockredis contributors

# TLS to a node that reads slowly, through a socket with little room: a record that
# the kernel does not take whole is sent on later, when there is more behind it and
# the buffer may lie elsewhere.
#
# Proves G40.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Ca;
use LockRedis::Debugger;
use LockRedis::TlsRelay;

LockRedis::Debugger->need;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $relay = LockRedis::TlsRelay->new($redis->tls_port);
my $node = LockRedis::Node->create(
	'main',
	url => $relay->url,
	settings => { 'lockredis.tls_ca_file' => $ca->file, 'lockredis.command_timeout' => '1min' });
my $one = $node->session;

# The descriptor of its connection to the relay
sub descriptor
{
	my ($pid) = @_;
	my $port = sprintf ':%04X', $relay->port;

	foreach my $line (split /\n/, PostgreSQL::Test::Utils::slurp_file("/proc/$pid/net/tcp"))
	{
		my @column = split ' ', $line;
		next unless $column[2] =~ /$port$/;
		foreach my $fd (glob "/proc/$pid/fd/*")
		{
			return $1 if (readlink($fd) || '') eq "socket:[$column[9]]" && $fd =~ /(\d+)$/;
		}
	}
	die 'no connection to the relay';
}

# The kernel keeps 4 kB of what is sent there.
sub narrow
{
	my ($session) = @_;
	my $fd = descriptor($session->pid);
	my $gdb = LockRedis::Debugger->new($session->pid);

	$gdb->tell('set $size = (int *) ((void *(*)(long)) malloc)(4)');
	$gdb->tell('set *$size = 2048');
	my $answer = $gdb->tell("print ((int (*)(int, int, int, void *, int)) setsockopt)($fd, 1, 7, \$size, 4)");
	$gdb->let_go;
	like($answer, qr/= 0$/m, 'little room');
	return;
}

$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t');
narrow($one);
$one->query_is(
	"SELECT count(*) FILTER (WHERE redis_try_lock(repeat('n', 240) || i)) FROM generate_series(1, 1000) i",
	'1000', 'many locks');

my ($connects, $errors) = map { $node->lock_stat($_) } 'connects', 'errors';
$relay->hold_requests;
$one->start('SELECT redis_unlock_all()');
poll_until('the session to be stuck',
	sub {
		$node->value(
			"SELECT state = 'active' AND wait_event IS NOT NULL FROM pg_stat_activity WHERE pid = "
			  . $one->pid) eq 't';
	});
$relay->release_requests;
is($one->wait(60)->out, '1000', 'all given back');
poll_until('all to be gone from Redis', sub { !$redis->all_keys });
is($node->lock_stat('connects'), $connects, 'over the same connections');
is($node->lock_stat('errors'), $errors, 'without an error');

$one->quit;
nothing_left($node, $redis);
done_testing();
