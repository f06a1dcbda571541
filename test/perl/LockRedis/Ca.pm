# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Ca - a certificate authority of a test, made with openssl

=head1 SYNOPSIS

  my $ca = LockRedis::Ca->new('main');
  $ca->file; $ca->key_file;                     # its own certificate and key
  $ca->locked_key($good->{key}, 'passphrase');  # a file
  $ca->locked_certificate($good->{cert}, 'secret');   # behind a passphrase
  my $good = $ca->certificate('good');          # localhost and 127.0.0.1
  my $other = $ca->certificate('other', names => ['DNS:elsewhere.test']);
  my $old = $ca->certificate('old', from => -30, to => -1);    # days from now
  $good->{cert}; $good->{key};                  # files; the key is 0600
  LockRedis::Redis->new(tls => $good, config => { 'tls-auth-clients' => 'yes',
      'tls-ca-cert-file' => $ca->file });

=cut

package LockRedis::Ca;

use strict;
use warnings FATAL => 'all';

use Carp;
use Digest::MD5 qw(md5_hex);
use MIME::Base64 qw(encode_base64);
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;

sub new
{
	my ($class, $name) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless { name => $name, dir => $dir }, $class;

	_write("$dir/index", '');
	_write("$dir/ca.conf", <<"CONF");
[ca]
default_ca = main
[main]
dir = $dir
database = $dir/index
new_certs_dir = $dir
certificate = $dir/ca.crt
private_key = $dir/ca.key
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
email_in_dn = no
[any]
commonName = supplied
[req]
distinguished_name = subject
prompt = no
[subject]
commonName = $name authority
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
CONF
	$self->_openssl('req', '-x509', '-config', "$dir/ca.conf", '-extensions',
		'authority', _new_key("$dir/ca.key"), '-out', "$dir/ca.crt", '-days',
		3650);
	return $self;
}

sub file { my ($self) = @_; return "$self->{dir}/ca.crt"; }

sub key_file { my ($self) = @_; return "$self->{dir}/ca.key"; }

# The key of a file, behind a passphrase: another file
sub locked_key
{
	my ($self, $file, $passphrase) = @_;

	$self->_openssl('pkey', '-in', $file, '-aes128', '-passout', "pass:$passphrase",
		'-out', "$file.locked");
	return "$file.locked";
}

# A certificate behind a passphrase: another file.  No program writes one, but OpenSSL
# reads them, with a key that is made of the passphrase and the vector.
sub locked_certificate
{
	my ($self, $file, $passphrase) = @_;
	my $vector = '00112233445566778899AABBCCDDEEFF';
	my $der = "$file.der";

	$self->_openssl('x509', '-in', $file, '-outform', 'DER', '-out', $der);
	$self->_openssl('enc', '-aes-128-cbc', '-in', $der, '-out', "$der.enc", '-iv', $vector,
		'-K', md5_hex($passphrase . substr(pack('H*', $vector), 0, 8)));
	my $text = encode_base64(PostgreSQL::Test::Utils::slurp_file("$der.enc"), '');
	_write("$file.locked",
		    "-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n"
		  . "DEK-Info: AES-128-CBC,$vector\n\n"
		  . join('', map { "$_\n" } unpack('(A64)*', $text))
		  . "-----END CERTIFICATE-----\n");
	return "$file.locked";
}

# A certificate and its key; with the same name again: new ones in other files.
sub certificate
{
	my ($self, $name, %opts) = @_;
	my $file = "$self->{dir}/" . ++$self->{made} . "-$name";
	my @names = @{ $opts{names} || [ 'DNS:localhost', 'IP:127.0.0.1' ] };

	$self->_openssl('req', '-new', '-config', "$self->{dir}/ca.conf", '-subj',
		"/CN=$name", _new_key("$file.key"), '-out', "$file.csr");
	_write("$file.conf",
		    "basicConstraints = CA:FALSE\nauthorityKeyIdentifier = keyid\n"
		  . (@names ? 'subjectAltName = ' . join(',', @names) . "\n" : ''));
	$self->_openssl('ca', '-config', "$self->{dir}/ca.conf", '-batch', '-notext',
		'-startdate', _day($opts{from} // -1), '-enddate', _day($opts{to} // 3000),
		'-extfile', "$file.conf", '-in', "$file.csr", '-out', "$file.crt");
	chmod 0600, "$file.key" or die $!;
	return { cert => "$file.crt", key => "$file.key" };
}

# In files that are there, so that their names stay
sub put
{
	my ($class, $certificate, $cert_file, $key_file) = @_;

	foreach my $pair ([ $certificate->{cert}, $cert_file ],
		[ $certificate->{key}, $key_file ])
	{
		my ($from, $to) = @$pair;

		_write("$to.new", PostgreSQL::Test::Utils::slurp_file($from));
		chmod 0600, "$to.new" or die $!;
		rename "$to.new", $to or die $!;
	}
	return { cert => $cert_file, key => $key_file };
}

# A directory with this authority as OpenSSL's own have them, and with others
sub hashed_directory
{
	my ($self) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();

	_write("$dir/authority.pem", PostgreSQL::Test::Utils::slurp_file($self->file));
	$self->_openssl('rehash', $dir);
	return $dir;
}

sub _new_key
{
	my ($file) = @_;

	return ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
		'-keyout', $file);
}

sub _day
{
	my ($days) = @_;

	return strftime('%Y%m%d%H%M%SZ', gmtime(time() + $days * 86400));
}

sub _write
{
	my ($file, $text) = @_;

	open my $fh, '>', $file or die "could not write $file: $!";
	print $fh $text;
	close $fh or die $!;
	return;
}

sub _openssl
{
	my ($self, @args) = @_;
	my $log = "$self->{dir}/log";
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>', $log;
		open STDERR, '>&', \*STDOUT;
		exec 'openssl', @args or POSIX::_exit(127);
	}
	waitpid $pid, 0;
	croak "openssl @args: " . PostgreSQL::Test::Utils::slurp_file($log) if $?;
	return;
}

1;
