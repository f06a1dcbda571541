# Copyright (c) 2026, lockredis contributors

# Locks in a Redis with TLS: what is agreed upon, by whom, and how often.
#
# - The certificate's name is asked for, and no address.
# - A connection that is made again resumes the session of the one before, as long
#   as that would be verified by the same settings and files.
# - Replies that are larger than a record, or come a byte at a time.

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

sub our_connections
{
	my ($who) = @_;

	return grep { $_->{name} =~ /^lockredis-$who/ } $redis->clients;
}

# Ends that of the session, and gives what it agreed upon with the next one.  A
# request that was under way at the end is unknown, and given back.
sub next_connection
{
	my ($relay) = @_;

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

end_test($node, $redis);
