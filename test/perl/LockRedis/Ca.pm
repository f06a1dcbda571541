# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Ca - a certificate authority of a test

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

use LockRedis::Pragmas;

use Carp;
use Digest::MD5 qw(md5_hex);
use File::Copy qw(copy);
use IO::Socket::SSL::Utils qw(CERT_create KEY_create_ec PEM_cert2file PEM_key2file);
use IPC::Run;
use MIME::Base64 qw(encode_base64);
use PostgreSQL::Test::Utils;

sub new ($class, $name)
{
	my $self = bless { dir => PostgreSQL::Test::Utils::tempdir_short() }, $class;

	$self->{issuer} = [ _create("$self->{dir}/ca", "$name authority", -1, 3650, CA => 1) ];
	return $self;
}

sub _create ($file, $name, $from, $to, %of)
{
	my ($certificate, $key) = CERT_create(
		%of,
		subject => { commonName => $name },
		key => KEY_create_ec('prime256v1'),
		not_before => time + $from * 86_400,
		not_after => time + $to * 86_400);

	PEM_cert2file($certificate, "$file.crt");
	PEM_key2file($key, "$file.key");
	chmod 0600, "$file.key" or die $!;
	return ($certificate, $key);
}

sub file ($self) { return "$self->{dir}/ca.crt"; }

sub key_file ($self) { return "$self->{dir}/ca.key"; }

# The key of a file, behind a passphrase: another file
sub locked_key ($self, $file, $passphrase)
{
	_openssl('pkey', '-in', $file, '-aes128', '-passout', "pass:$passphrase", '-out', "$file.locked");
	return "$file.locked";
}

# A certificate behind a passphrase: another file.  No program writes one, but OpenSSL
# reads them, with a key that is made of the passphrase and the vector.
sub locked_certificate ($self, $file, $passphrase)
{
	my $vector = '00112233445566778899AABBCCDDEEFF';
	my $der = "$file.der";

	_openssl('x509', '-in', $file, '-outform', 'DER', '-out', $der);
	_openssl('enc', '-aes-128-cbc', '-in', $der, '-out', "$der.enc", '-iv', $vector,
		'-K', md5_hex($passphrase . substr(pack('H*', $vector), 0, 8)));
	my $text = encode_base64(slurp_file("$der.enc"), '');
	append_to_file("$file.locked",
		    "-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n"
		  . "DEK-Info: AES-128-CBC,$vector\n\n"
		  . join('', map { "$_\n" } unpack('(A64)*', $text))
		  . "-----END CERTIFICATE-----\n");
	return "$file.locked";
}

# A certificate and its key; with the same name again: new ones in other files.
sub certificate ($self, $name, %opts)
{
	my $file = "$self->{dir}/" . ++$self->{made} . "-$name";
	my @names = map { [ split /:/, $_, 2 ] } @{ $opts{names} || [ 'DNS:localhost', 'IP:127.0.0.1' ] };

	_create($file, $name, $opts{from} // -1, $opts{to} // 3000,
		issuer => $self->{issuer}, @names ? (subjectAltNames => \@names) : ());
	return { cert => "$file.crt", key => "$file.key" };
}

# In files that are there, so that their names stay
sub put ($class, $certificate, $cert_file, $key_file)
{
	foreach my $pair ([ $certificate->{cert}, $cert_file ], [ $certificate->{key}, $key_file ])
	{
		my ($from, $to) = @$pair;

		copy($from, "$to.new") or die $!;
		chmod 0600, "$to.new" or die $!;
		rename "$to.new", $to or die $!;
	}
	return { cert => $cert_file, key => $key_file };
}

# A directory with this authority as OpenSSL's own have them, and with others
sub hashed_directory ($self)
{
	my $dir = PostgreSQL::Test::Utils::tempdir_short();

	copy($self->file, "$dir/authority.pem") or die $!;
	_openssl('rehash', $dir);
	return $dir;
}

sub _openssl (@args)
{
	my $said;

	IPC::Run::run([ 'openssl', @args ], '>&', \$said) or croak "openssl @args: $said";
	return;
}

1;
