# Copyright (c) 2026, lockredis contributors

# TLS to a node that reads slowly, through a socket with little room: a record that
# the kernel does not take whole is sent on later, when there is more behind it and
# the buffer may lie elsewhere.
#
# Proves G40.

use LockRedis::Test qw(:DEFAULT fault_library);
use LockRedis::Ca;
use LockRedis::TlsRelay;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $relay = LockRedis::TlsRelay->new($redis->tls_port);
my $node = LockRedis::Node->create(
	'main',
	url => $relay->url,
	start => 0,
	settings => { 'lockredis.tls_ca_file' => $ca->file, 'lockredis.command_timeout' => '1min' });
{
	local $ENV{LD_PRELOAD} = fault_library('narrow.c');
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
my $one = $node->session;

$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t');
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

end_test($node, $redis);
