# Copyright (c) 2026, lockredis contributors

# Locks in a Redis with TLS: what is agreed upon, by whom, and how often.
#
# - The certificate's name is asked for, and no address.
# - A connection that is made again resumes the session of the one before, as long
#   as that would be verified by the same settings and files.
# - Replies that are larger than a record, or come a byte at a time.
# - PostgreSQL's own TLS beside it, in the same process.

use LockRedis::Test;
use LockRedis::Ca;
use LockRedis::TlsRelay;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $node = LockRedis::Node->create(
	'main',
	url => $redis->tls_url,
	settings => { 'lockredis.tls_ca_file' => $ca->file });
my ($one, $two) = map { $node->session } 1 .. 2;

# ----------
# The shortest way
# ----------

$node->wait_for_up;
$one->query_is("SELECT redis_try_lock('k')", 't', 'taken');
$two->query_is("SELECT redis_try_lock('k')", 'f', 'busy');
$node->queue_up('k', $two => "SELECT redis_lock('k')");
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
is($two->wait(10)->error, undef, 'handed over');
$redis->foreign_lock('heard', ms => 60_000);
$one->start("SELECT redis_lock('heard')");
$redis->wait_for_subscribers('heard', 1);
$redis->foreign_unlock('heard');
is($one->wait(10)->error, undef, 'woken by a message');
$two->query_is("SELECT redis_unlock('k')", 't');

# As Redis does it: the connection is ended, and the next one is as good.
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal');
$one->query_is("SELECT redis_unlock('heard')", 't', 'over a new connection');
$redis->restart;
$one->query_is("SELECT redis_try_lock('k')", 't', 'and after a restart of Redis');
$one->query_is("SELECT redis_unlock('k')", 't');

# ----------
# Replies of many records, and of many bytes
# ----------

# Names are long, so that what is renewed and given back at once
# takes many records, in both directions.
my $many = "SELECT count(*) FILTER (WHERE redis_try_lock(repeat('n', 240) || i)) FROM generate_series(1, 2000) i";
my $relay = LockRedis::TlsRelay->new($redis->tls_port);

$node->set('lockredis.url' => $relay->url);
$node->wait_for_up;
$one->query("SET lockredis.lease = '10s'");
$one->query_is($many, '2000', 'many locks');
my $renewals = $node->lock_stat('renewals');
poll_until('all to be renewed twice',
	sub { $node->lock_stat('renewals') >= $renewals + 4000 });
is($node->count_locks("lost_reason IS NOT NULL"), '0', 'all renewed, and kept');

$one->query_is('SELECT redis_unlock_all()', '2000', 'all given back');
is_deeply([ $redis->all_keys ], [], 'indeed');
$one->query('RESET lockredis.lease');

# Each message is a record, and one read of the socket gets them all, of which the
# watchdog takes a few at a time: it must not sleep on the rest.  (A session that is
# stopped does nothing that would wake it.)
$redis->foreign_lock($_, ms => 300_000) foreach 'heard', 'noise';
$one->start("SELECT redis_lock('heard')");
$two->start("SELECT redis_lock('noise')");
$redis->wait_for_subscribers($_, 1) foreach 'heard', 'noise';
$two->freeze;
$relay->hold;
$redis->cmd('PUBLISH', $redis->channel('noise'), 'x') foreach 1 .. 100;
$redis->foreign_unlock('heard');
$relay->release;
is($one->wait(5)->error, undef, 'the message behind a burst is heard');
$two->thaw;
$redis->foreign_unlock('noise');
is($two->wait(10)->error, undef, 'and the next one');
$_->query_is('SELECT redis_unlock_all()', '1') foreach $one, $two;

$relay->mode('trickle');
my $slow = $node->connected_session;
$slow->query_is("SELECT count(*) FILTER (WHERE redis_try_lock('n' || i)) FROM generate_series(1, 20) i",
	'20', 'a byte at a time: taken');
$slow->query_is('SELECT redis_unlock_all()', '20', 'a byte at a time: given back');
$slow->quit;
$node->set('lockredis.url' => $redis->tls_url);

# ----------
# What is agreed upon
# ----------

sub our_connections ($who) { return grep { $_->{name} =~ /^lockredis-$who/ } $redis->clients; }

# Ends that of the session, and gives what it agreed upon with the next one.  A
# request that was under way at the end is unknown, and given back.
sub next_connection ($relay)
{
	$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t');
	$relay->forget;
	my ($client) = our_connections('session-' . $one->pid);
	$redis->cmd('CLIENT', 'KILL', 'ID', $client->{id});
	poll_until('another connection',
		sub { $one->query("SELECT redis_try_lock('k'), redis_unlock('k')")->out eq 't|t' });
	my ($new) = $relay->connections;
	return $new;
}

foreach my $version ('1.2', '1.3')
{
	$relay = LockRedis::TlsRelay->new($redis->port,
		certificate => $ca->certificate('relay'), version => $version);

	$node->set('lockredis.url' => $relay->url);

	# The only one to connect from here on is the session.
	poll_until('the watchdog to be connected',
		sub { $node->lock_status("state || ' ' || address") eq 'up 127.0.0.1:' . $relay->port });
	my $new = next_connection($relay);
	is($new->{version}, "TLSv$version", "TLS $version");
	ok($new->{resumed}, "TLS $version: resumed");
	is($new->{name}, undef, "TLS $version: no address is asked for as a name");
	$new = next_connection($relay);
	ok($new->{resumed}, "TLS $version: resumed again");
	$relay->refuse_next;
	$new = next_connection($relay);
	ok(!$new->{resumed}, "TLS $version: not after a handshake that has failed");

	$relay->forget;
	$node->set('lockredis.tls_server_name' => 'localhost');
	$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t');
	my @named = $relay->connections;
	is_deeply([ map { $_->{name} } @named ], [ ('localhost') x @named ],
		"TLS $version: a name is");
	is_deeply([ grep { $_->{resumed} } @named ], [],
		"TLS $version: and is verified anew");
	$node->set('lockredis.tls_server_name' => '');
	$node->set('lockredis.url' => $redis->tls_url);
	$relay->stop;
}

# ----------
# PostgreSQL's own TLS in the same process
# ----------

# OpenSSL has one queue of errors for both.
my $own = $ca->certificate('postgres');
$node->append_conf('postgresql.conf', <<"CONF");
ssl = on
ssl_cert_file = '$own->{cert}'
ssl_key_file = '$own->{key}'
listen_addresses = '127.0.0.1'
CONF
$node->append_conf('pg_hba.conf', 'hostssl all all 127.0.0.1/32 trust');
$_->quit foreach $one, $two;
$node->restart;
$node->wait_for_up;
my $plain = "SELECT count(*) FILTER (WHERE redis_try_lock('own' || i) AND redis_unlock('own' || i)) FROM generate_series(1, 300) i";
my ($status, $out, $err) = (
	$node->psql(
		'postgres', "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid(); $plain; SELECT pg_sleep(0.1); $plain",
		connstr => $node->connstr('postgres') . ' host=127.0.0.1 sslmode=require',
		on_error_stop => 1))[ 0 .. 2 ];
is("$status $out", "0 t\n300\n\n300", 'both are encrypted, and work');

# What one leaves in the queue is not the other's.
my $wrong = LockRedis::Ca->new('wrong')->file;
$node->set('lockredis.tls_ca_file' => $wrong);
($status, $out, $err) = (
	$node->psql(
		'postgres',
		"SELECT redis_try_lock('own'); SELECT 1; SELECT redis_try_lock('own'); SELECT repeat('x', 100000) = '' AS differs",
		connstr => $node->connstr('postgres') . ' host=127.0.0.1 sslmode=require',
		on_error_stop => 0))[ 0 .. 2 ];
is("$status $out", "0 1\nf", 'an error of one is none of the other');
is(scalar(() = $err =~ /could not reach the lock store/g), 2, 'and is told');
$node->set('lockredis.tls_ca_file' => $ca->file);
$node->wait_for_up;
end_test($node, $redis);
