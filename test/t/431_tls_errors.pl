# Copyright (c) 2026, lockredis contributors

# TLS that cannot be: each reason is an error with its own words and a hint that
# says what to set, and nothing secret in it.
#
# Proves G32, G40.

use LockRedis::Test;
use LockRedis::Ca;
use LockRedis::FakeNode;
use LockRedis::TlsRelay;
use LockRedis::Told qw(nothing_leaked);

my $ca = LockRedis::Ca->new('main');
my $other_ca = LockRedis::Ca->new('other');
my $good = $ca->certificate('good');
my $secret = 'hemlig-password';
my $redis = LockRedis::Redis->new(tls => $good, password => $secret);
my $dir = PostgreSQL::Test::Utils::tempdir_short();

sub write_file ($file, $text, $mode)
{
	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, $text);
	chmod $mode, $file or die $!;
	return $file;
}

my $node = LockRedis::Node->create(
	'main',
	url => $redis->tls_url,
	settings => {
		'lockredis.tls_ca_file' => $ca->file,
		'lockredis.password_file' => secret_file('password', $secret)
	});
my $one = $node->session;

# What a session is told that connects anew, with these settings of ours, and of
# Redis's.  Files that cannot be used end no connection.
sub told ($name, $detail, $hint, %opts)
{
	apply(%opts);
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal');
	$one->query_fails("SELECT redis_try_lock('k')",
		'58000',
		qr/could not reach the lock store.*DETAIL:  $detail\nHINT:  [^\n]*$hint/s, $name);
	return;
}

sub apply (%opts)
{
	$redis->configure(%{ $opts{redis} }), $redis->restart if $opts{redis};
	$node->set(%{ $opts{ours} }) if $opts{ours};
	return;
}

# And that all is well without them.
sub works ($name, %opts)
{
	apply(%opts);
	$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', $name);
	return;
}

sub shown_by_redis ($certificate)
{
	return (redis => { 'tls-cert-file' => $certificate->{cert}, 'tls-key-file' => $certificate->{key} });
}

sub of_name ($name) { return { 'lockredis.tls_server_name' => $name }; }

works('a good certificate');

# ----------
# The node's certificate
# ----------

my $not_accepted = 'The certificate of the node was not accepted:';

my $authority = qr/Set lockredis\.tls_ca_file/;
my $has_to_name = qr/has to name the host in lockredis\.url or, if set, lockredis\.tls_server_name/;

told('of another authority', qr/$not_accepted unable to get local issuer certificate\./, $authority,
	shown_by_redis($other_ca->certificate('stranger')));
works('which is ours', ours => { 'lockredis.tls_ca_file' => $other_ca->file });
$node->set('lockredis.tls_ca_file' => $ca->file);
works('a good one', shown_by_redis($good));
$node->wait_for_up;
$node->log_since_here;
told('has expired', qr/$not_accepted certificate has expired\./, qr/The node needs a new certificate/,
	shown_by_redis($ca->certificate('old', from => -30, to => -1)));
$node->wait_for_state('down');
poll_until('the status to say so',
	sub { $node->lock_status('last_error') =~ /$not_accepted certificate has expired\./ });
is($node->times_logged(qr/LOG:  lockredis: the lock store is down/), 1, 'logged once');
# OpenSSL 3.6 goes on: "or the system clock is incorrect".
told('not yet valid', qr/$not_accepted certificate is not yet valid[^.]*\./,
	qr/The clock of this server may be wrong/, shown_by_redis($ca->certificate('early', from => 1)));
told('for another address', qr/$not_accepted IP address mismatch\./, $has_to_name,
	shown_by_redis($ca->certificate('away', names => [ 'DNS:elsewhere.test', 'IP:127.0.0.2' ])));
works('which is meant', ours => of_name('elsewhere.test'));
told('for another name', qr/$not_accepted hostname mismatch\./, $has_to_name,
	ours => of_name('elsewhere.test.example'));
works('the address is meant', ours => of_name('127.0.0.2'));
told('a name is no address', qr/$not_accepted IP address mismatch\./, $has_to_name,
	shown_by_redis($ca->certificate('text', names => ['DNS:127.0.0.1'])), ours => of_name(''));
told('a part of a label', qr/$not_accepted hostname mismatch\./, $has_to_name,
	shown_by_redis($ca->certificate('wild', names => ['DNS:re*.elsewhere.test'])),
	ours => of_name('redis.elsewhere.test'));
works('a label', shown_by_redis($ca->certificate('wild', names => ['DNS:*.elsewhere.test'])));
told('its own authority', qr/$not_accepted self[- ]signed certificate\./, $authority,
	shown_by_redis({ cert => $other_ca->file, key => $other_ca->key_file }));
works('again', shown_by_redis($good), ours => of_name(''));

# Somebody in between, who would like to see the password
my $thief = LockRedis::TlsRelay->new($redis->port,
	certificate => $other_ca->certificate('thief'));
told('somebody in between', qr/$not_accepted unable to get local issuer certificate\./,
	$authority, ours => { 'lockredis.url' => $thief->url });
is_deeply([ grep { $_->{in} } $thief->connections ], [], 'who is told nothing');
works('again', ours => { 'lockredis.url' => $redis->tls_url });
$thief->stop;

# One that OpenSSL would take for all names below it
foreach my $name ('.elsewhere.test', 'a b', 'a/b', "a\xc3\xa9b")
{
	$one->query_fails("ALTER SYSTEM SET lockredis.tls_server_name = '$name'",
		'22023', qr/invalid value for parameter "lockredis\.tls_server_name".*Invalid character at position [12]\./s, "no name: $name");
}

# ----------
# Our certificate
# ----------

my $ours = $ca->certificate('client', names => []);
my $stranger = $other_ca->certificate('client', names => []);

sub shown_by_us ($certificate)
{
	return {
		'lockredis.tls_cert_file' => $certificate->{cert},
		'lockredis.tls_key_file' => $certificate->{key}
	};
}

foreach my $version ('TLSv1.2', 'TLSv1.3')
{
	my $none = { 'lockredis.tls_cert_file' => '', 'lockredis.tls_key_file' => '' };

	$redis->configure(
		'tls-protocols' => $version,
		'tls-auth-clients' => 'yes',
		'tls-ca-cert-file' => $ca->file);
	$redis->restart;
	told("$version, none is set",
		qr/The node asks for a certificate of this server, and none is set: [^\n]*\./,
		qr/Set lockredis\.tls_cert_file and lockredis\.tls_key_file\./, ours => $none);
	told("$version, of another authority",
		qr/The node did not accept the certificate of this server: [^\n]*unknown ca\./,
		qr/Check lockredis\.tls_cert_file, and/, ours => shown_by_us($stranger));
	told("$version, has expired",
		qr/The node did not accept the certificate of this server: [^\n]*expired\./,
		qr/Check lockredis\.tls_cert_file, and/,
		ours => shown_by_us($ca->certificate('late', from => -30, to => -1)));
	works("$version, a good one", ours => shown_by_us($ours));
}

# ----------
# Our files
# ----------

my $words = 'PRIVATE WORDS';

sub our_file ($kind, $name, $detail, $content, $mode = undef)
{
	my $setting = "lockredis.tls_${kind}_file";
	my $before = $one->value("SHOW $setting");
	my $file = ref $content ? $$content :
	  write_file("$dir/$kind.pem", $content, $mode // 0600);

	told("$kind file: $name", $detail, qr/Check lockredis\.tls_${kind}_file\./,
		ours => { $setting => $file });
	$node->set($setting => $before);
	return;
}

sub text_of ($file) { return PostgreSQL::Test::Utils::slurp_file($file); }

foreach my $case ([ ca => 'CA' ], [ cert => 'certificate' ], [ key => 'key' ])
{
	my ($kind, $called) = @$case;

	our_file($kind, 'is not there',
		qr/Could not open the $called file: No such file or directory\./, \"$dir/none");
	our_file($kind, 'is a directory', qr/The $called file is not a regular file\./, \$dir);
	our_file($kind, 'is empty', qr/The $called file has no [^\n]*\./, '');
	our_file($kind, 'is nonsense', qr/The $called file has no [^\n]*\./, $words);
}
my $no_certificate = qr/The [^\n]* file has no certificate, or one that cannot be [^\n]*\./;
my $another = qr/The key file has the key of another certificate\./;

foreach (
	[ 'ca', 'is cut', $no_certificate, substr(text_of($ca->file), 0, 300) ],
	[ 'ca', 'has one that is cut behind a good one',
		$no_certificate, text_of($ca->file) . substr(text_of($ca->file), 0, 300) ],
	[ 'key', 'of another certificate', $another, text_of($stranger->{key}) ],
	[ 'key', 'of another algorithm than the certificate',
		$another, (PostgreSQL::Test::Utils::run_command([qw(openssl genpkey -algorithm RSA)]))[0] ],
	[ 'key', 'is readable by others', qr/The key file has group or world access; [^\n]*/,
		text_of($ours->{key}), 0640 ],
	[ 'key', 'asks for a passphrase', qr/The key file asks for a passphrase, which nobody can be asked for\./,
		text_of($ca->locked_key($ours->{key}, 'PRIVATE')) ],
	map { [ $_, 'asks for a passphrase', $no_certificate, text_of($ca->locked_certificate($ours->{cert}, 'PRIVATE')) ] }
	  'ca', 'cert')
{
	our_file(@$_);
}
$node->set('lockredis.tls_key_file' => '');
told('a certificate without a key', qr/There is a certificate file without a key file\./,
	qr/Set both of/);
$node->set('lockredis.tls_key_file' => $ours->{key}, 'lockredis.tls_cert_file' => '');
told('a key without a certificate', qr/There is a key file without a certificate file\./,
	qr/Set both of/);
works('with both', ours => shown_by_us($ours));

# ----------
# Another port, other versions
# ----------

# Redis takes what TLS begins with for part of a line, and waits for the rest.  The watchdog is
# stopped, or it might be the first to find that out: then nobody asks a node that is silent.
my $watchdog = $node->watchdog_pid;

kill 'STOP', $watchdog;
told('a port without TLS',
	qr/The node accepted the connection but did not finish the TLS handshake in time\./,
	qr/The port in lockredis\.url may be one without TLS/,
	ours => {
		'lockredis.url' => 'rediss://127.0.0.1:' . $redis->port,
		'lockredis.connect_timeout' => '500ms'
	});
kill 'CONT', $watchdog;
$node->set('lockredis.connect_timeout' => '2s');
$node->set('lockredis.url' => 'redis://127.0.0.1:' . $redis->tls_port);

# Nobody asks a node that was silent, until the watchdog has read that it is another one.
poll_until('it to be asked',
	sub { ($one->query("SELECT redis_try_lock('k')")->detail // '') !~ /did not answer lately/ });
$one->query_fails("SELECT redis_try_lock('k')",
	'58030', qr/DETAIL:  [^\n]*expect TLS[^\n]*\nHINT:  If the node expects TLS on this port, write rediss:/s,
	'a port with TLS');
foreach my $case (
	[ "-ERR unknown command\r\n", qr/The node does not expect TLS on this port: it answers in Redis's protocol\.\nHINT:  Write redis:/ ],
	[ "HTTP/1.0 400 Bad Request\r\n\r\n", qr/The node's answer is not TLS: it seems to be an HTTP server\./ ],
	[ 'what is that', qr/The node's answer is not TLS\./ ],
	[ '', qr/The node closed the connection during the TLS handshake\./ ])
{
	my ($answer, $detail) = @$case;
	my $fake = LockRedis::FakeNode->new;

	$fake->behave('answers', raw => $answer, then => 'close');
	(my $url = $fake->url) =~ s/^redis:/rediss:/;
	$node->set('lockredis.url' => $url);
	$one->query_fails("SELECT redis_try_lock('k')", '58000', qr/DETAIL:  $detail/,
		"no TLS: '" . substr($answer, 0, 4) . "'");
	$fake->stop;
}
works('the right one', ours => { 'lockredis.url' => $redis->tls_url });

# ----------
# And nobody is told more
# ----------

nothing_leaked($node, [ $secret, $words, 'BEGIN ', 'PRIVATE KEY' ], [$redis]);
$node->wait_for_up;
end_test($node, $redis);
