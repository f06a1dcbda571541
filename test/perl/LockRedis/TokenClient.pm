# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::TokenClient - the real redis-py, redsync or node-redlock in a process

=head1 SYNOPSIS

  LockRedis::TokenClient->need;              # skips the test file where it has to
  my $other = LockRedis::TokenClient->new('redis-py', $redis);    # redsync, node-redlock
  my $other = LockRedis::TokenClient->new('redsync', $masters->nodes);    # a pool each

  my $token = $other->take($key, 60_000);    # its own token; undef: busy
  $other->take($key, 60_000, wait => 5_000, token => $t);
  $other->extend($key, $token, 120_000);     # true: the token had the lock
  $other->release($key, $token);
  $other->ask('owned', $key, $token);        # redis-py

  $other->start('take', $key, '-', 60_000, 5_000);    # does not wait
  my $token = $other->answer;

=head1 DESCRIPTION

The programs are in test/interop/tokens, whose F<build> fetches the libraries from their
registries into F<target> there; where that directory cannot be written they have to be
there.

=cut

package LockRedis::TokenClient;

use LockRedis::Pragmas;

use parent 'LockRedis::Program';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Program qw(log_file need_built start_talking);
use LockRedis::Wait qw(limit now);

my $place = abs_path(dirname(__FILE__) . '/../../interop/tokens');
my %command = (
	'redis-py' => ['python3', "$place/target/python/driver.py"],
	'redsync' => ["$place/target/redsync"],
	'node-redlock' => ['node', "$place/target/node/driver.js"]);

# Skip the test file where they cannot be had.
sub need { return need_built("$place/build", 'the other libraries for token locks'); }

sub new ($class, $library, @nodes)
{
	my $self = bless { library => $library }, $class;
	local $ENV{PYTHONPATH} = "$place/target/python";

	@$self{qw(pid in out)} =
	  start_talking(log_file($library), @{ $command{$library} }, map { $_->port } @nodes);
	return $self;
}

sub start ($self, @words)
{
	local $SIG{PIPE} = 'IGNORE';

	print { $self->{in} } "@words\n" or die "$self->{library} has ended\n";
	return;
}

# What it says: undef, or a word.
sub answer ($self)
{
	my $until = now() + limit(60);
	my $line = '';

	while ($line !~ /\n/)
	{
		my $left = $until - now();
		my $ready = '';

		vec($ready, fileno $self->{out}, 1) = 1;
		die "$self->{library} does not answer\n"
		  if $left <= 0 || !select($ready, undef, undef, $left);
		sysread $self->{out}, $line, 4096, length $line or die "$self->{library} has ended\n";
	}
	return if $line eq "no\n";
	$line =~ /^ok (\S+)$/ or die "$self->{library}: $line";
	return $1;
}

sub ask ($self, @words)
{
	$self->start(@words);
	return $self->answer;
}

sub take ($self, $key, $lease, %opts)
{
	return $self->ask('take', $key, $opts{token} // '-', $lease, $opts{wait} // 0);
}

sub extend ($self, @words) { return $self->ask('extend', @words); }
sub release ($self, @words) { return $self->ask('release', @words); }

1;
