# Copyright (c) 2026, lockredis contributors

# Certificates that are renewed while locks are held, on both sides.
#
# - What is in the files counts for each new connection, without a reload.
# - A setting counts from the reload on, and connections are made anew; unless what
#   it names cannot be used, which is told and ends nothing.
# - Connections that are there, and the locks, stay.
# - Nothing is resumed that would not be verified by what the files have now.
# - Without a CA file what the system trusts is.
#
# Proves G40.

use LockRedis::Test;
use LockRedis::Ca;
use LockRedis::TlsRelay;

my $ca = LockRedis::Ca->new('main');
my $next_ca = LockRedis::Ca->new('next');
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my ($ca_file, $cert_file, $key_file) = map { "$dir/$_" } qw(ca cert key);
my $redis = LockRedis::Redis->new(
	tls => $ca->certificate('first'),
	config => { 'tls-auth-clients' => 'yes', 'tls-ca-cert-file' => $ca->file });

sub trust (@authorities)
{
	open my $fh, '>', "$ca_file.new" or die $!;
	print $fh PostgreSQL::Test::Utils::slurp_file($_->file) foreach @authorities;
	close $fh or die $!;
	rename "$ca_file.new", $ca_file or die $!;
	return;
}

sub show ($certificate)
{
	LockRedis::Ca->put($certificate, $cert_file, $key_file);
	return;
}

trust($ca);
show($ca->certificate('client'));
my $node = LockRedis::Node->create(
	'main',
	url => $redis->tls_url,
	settings => {
		'lockredis.tls_ca_file' => $ca_file,
		'lockredis.tls_cert_file' => $cert_file,
		'lockredis.tls_key_file' => $key_file
	});
my $one = $node->session(settings => { 'lockredis.lease' => '9s' });
my $two = $node->session;

sub lockredis_clients
{
	return map { $_->{id} } sort { $a->{id} <=> $b->{id} } grep { $_->{name} =~ /^lockredis/ } $redis->clients;
}

sub renewed_since ($renewals)
{
	poll_until('the lock to be renewed', sub { $node->lock_stat('renewals') > $renewals });
	return;
}

my $taken = "SELECT redis_try_lock('k'), redis_unlock('k')";

# Both end all connections, and have others made.
sub connect_anew
{
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal');
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'pubsub');
	return;
}

$node->wait_for_up;
$one->query_is("SELECT redis_lock('held')", '');
$two->query_is($taken, 't|t');

# ----------
# Ours
# ----------

my @before = lockredis_clients();
show($ca->certificate('client'));
renewed_since($node->lock_stat('renewals'));
$two->query_is($taken, 't|t', 'our certificate was renewed');
is_deeply([ lockredis_clients() ], \@before, 'nobody connects anew for that');
connect_anew();
$two->query_is($taken, 't|t', 'the new one serves for new connections');
renewed_since($node->lock_stat('renewals'));
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

# The end that the view shows is that of the first: ours, then the node's.
sub expires_in_days ($days)
{
	connect_anew();
	poll_until(
		"an end in $days days",
		sub {
			$node->lock_status(q{round(extract(epoch FROM certificate_expires - now()) / 86400)}) eq $days;
		});
	return;
}

expires_in_days(3000);
show($ca->certificate('client', to => 40));
expires_in_days(40);
show($ca->certificate('client'));
expires_in_days(3000);

# Halfway: the key is that of the certificate before.
my $half = $ca->certificate('client');
LockRedis::Ca->put({ cert => $half->{cert}, key => $key_file }, $cert_file, "$dir/unused");
connect_anew();
$two->query_fails($taken, '58000', qr/key of another certificate/, 'halfway through');
show($half);
$two->query_is($taken, 't|t', 'and through');
renewed_since($node->lock_stat('renewals'));

# ----------
# Redis's, and its authority
# ----------

trust($ca, $next_ca);
my $next = $next_ca->certificate('next');
$redis->cmd('CONFIG', 'SET', 'tls-cert-file', $next->{cert}, 'tls-key-file', $next->{key});
renewed_since($node->lock_stat('renewals'));
connect_anew();
$two->query_is($taken, 't|t', "Redis's certificate was renewed, by another authority");
renewed_since($node->lock_stat('renewals'));

# A session is not resumed with an authority that is trusted no more.
trust($ca);
connect_anew();
$two->query_fails($taken, '58000', qr/unable to get local issuer/,
	'trusted no more: nothing is resumed');
trust($next_ca);
$two->query_is($taken, 't|t', 'trusted again');
renewed_since($node->lock_stat('renewals'));
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

# Nor one of a node whose certificate has expired since.
my $seconds = 5;
my $short = $next_ca->certificate('short', to => $seconds / 86400);
my $until = time() + $seconds;
$redis->cmd('CONFIG', 'SET', 'tls-cert-file', $short->{cert}, 'tls-key-file', $short->{key});
connect_anew();
my $in_time = !$two->query($taken)->error;
poll_until('the certificate to expire', sub { time() > $until });
connect_anew();
$two->query_fails($taken, '58000', qr/certificate has expired/,
	'expired since: nothing is resumed' . ($in_time ? '' : ' (it was too late for that)'));
$redis->cmd('CONFIG', 'SET', 'tls-cert-file', $next->{cert}, 'tls-key-file', $next->{key});
$two->query_is($taken, 't|t', 'renewed');
renewed_since($node->lock_stat('renewals'));

# ----------
# Reload
# ----------

my @ids = lockredis_clients();
$node->set('lockredis.tls_ca_file' => $next_ca->file);
$two->query_is($taken, 't|t', 'another file with the same');
renewed_since($node->lock_stat('renewals'));
poll_until('all connections to be new ones', sub {
		my %old = map { $_ => 1 } @ids;
		$one->query("SELECT redis_is_locked('held')");
		return !grep { $old{$_} } lockredis_clients();
	});
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

# What cannot be used ends nothing.
$two->query_is($taken, 't|t');
my %good = ('lockredis.tls_ca_file' => $next_ca->file, 'lockredis.tls_key_file' => $key_file);
foreach my $bad (
	[ 'lockredis.tls_ca_file', "$dir/missing", 'Could not open the CA file' ],
	[ 'lockredis.tls_key_file', $half->{cert}, 'The key file has' ])
{
	my ($setting, $file, $why) = @$bad;

	$node->log_since_here;
	@ids = lockredis_clients();
	$node->set($setting => $file);
	poll_until('the warning', sub {
			$node->logged(qr/WARNING:  lockredis: the files of the TLS settings cannot be used\n[^\n]*DETAIL:  $why.*Existing connections are kept/);
		});
	poll_until('the view to say so', sub { $node->lock_status('last_error') =~ /$why/ });
	renewed_since($node->lock_stat('renewals'));
	$two->query_is($taken, 't|t', "$setting of no use: the session's connection serves");
	is_deeply([ lockredis_clients() ], \@ids, "$setting of no use: nobody connects anew");
	my $new = $node->session;
	$new->query_fails($taken, '58000', qr/$why/, "$setting of no use: nor can anybody");
	$new->quit;
	$node->set($setting => $good{$setting});
	$two->query_is($taken, 't|t', "$setting as before");
	renewed_since($node->lock_stat('renewals'));
}
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');
$one->query_is("SELECT redis_unlock('held')", 't', 'and given back');

# Of several masters any may need them.
$node->set('lockredis.url' => 'redis://127.0.0.1:1 rediss://127.0.0.1:2 rediss://127.0.0.1:3');
poll_until('three masters', sub { $node->value('SELECT count(*) FROM redis_lock_status') == 3 });
$node->log_since_here;
$node->set('lockredis.tls_ca_file' => "$dir/missing");
ok(poll_until('the warning', sub { $node->logged(qr/Existing connections are kept/) }), 'masters');

# ----------
# What the system trusts
# ----------

$node->set('lockredis.url' => $redis->tls_url, 'lockredis.tls_ca_file' => '');
$two->query_fails($taken, '58000', qr/unable to get local issuer/, 'not what a test has made');
$one->quit;
trust($next_ca);
my ($empty, $hashed, $others) = (PostgreSQL::Test::Utils::tempdir_short(), $next_ca->hashed_directory, $ca->hashed_directory);
foreach (
	[ 'a directory with hashes', $hashed ],
	[ 'several directories, one with hashes', "$dir/missing:$dir:$hashed" ],
	[ 'a file that is asked for, beside a directory with hashes', $others, $ca_file ],
	[ 'one file, and a directory without hashes', $empty, $ca_file ])
{
	my ($name, $directory, $file) = @$_;

	$two->quit;
	local %ENV = (%ENV, SSL_CERT_DIR => $directory, defined $file ? (SSL_CERT_FILE => $file) : ());
	$node->restart;
	$two = $node->session;
	$two->query_is($taken, 't|t', $name);
}
trust($ca);
connect_anew();
$two->query_fails($taken, '58000', qr/unable to get local issuer/, 'the file is another one');
trust($next_ca);
$two->query_is($taken, 't|t', 'and the first one again');
end_test($node, $redis);
