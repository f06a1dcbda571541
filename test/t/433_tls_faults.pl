# Copyright (c) 2026, lockredis contributors

# TLS that breaks, wherever it does.
#
# - A handshake that does not go on is waited for within connect_timeout, and
#   whatever ends a wait ends this one.
# - Wherever the bytes stop, end or are spoiled, the answer is an error of class 58
#   or the right one, nothing is held by nobody, and a lock that is held stays.
# - Memory and descriptors do not grow over that.
#
# LOCKREDIS_FUZZ_SEED chooses other places.
#
# Proves G5, G30, G40.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use LockRedis::Test;
use LockRedis::Ca;
use LockRedis::TlsRelay;
use Process qw(sockets private_kb);

local $ENV{MALLOC_TRIM_THRESHOLD_} = 1;
local $ENV{MALLOC_TOP_PAD_} = 0;

my $ca = LockRedis::Ca->new('main');
my $redis = LockRedis::Redis->new(tls => $ca->certificate('good'));
my $relay = LockRedis::TlsRelay->new($redis->tls_port);
my $node = LockRedis::Node->create(
	'main',
	url => $relay->url,
	settings => {
		'lockredis.tls_ca_file' => $ca->file,
		'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => '60s'
	});
my ($holder, $one) = map { $node->session } 1 .. 2;
my $try = "SELECT redis_try_lock('k'), redis_unlock('k')";

# ----------
# Handshakes that do not go on
# ----------

$node->wait_for_up;
$holder->query_is("SELECT redis_lock('held')", '');

foreach my $at (0, 3, 500)
{
	$relay->mode('stop', $at);
	foreach my $case (
		[ sub { $_[0]->cancel }, '57014', qr/due to user request/ ],
		[ sub { $_[0]->terminate }, '57P01', qr/administrator command/ ])
	{
		my ($stop, $sqlstate, $message) = @$case;
		my $s = $node->session;

		$relay->forget;
		$s->start($try);
		poll_until('the handshake', sub { !$s->is_running || grep { $_->{in} } $relay->connections });
		ok($s->is_running, "after $at bytes: it waits");
		$stop->($s);
		$s->wait(10)->fails($sqlstate, $message, "after $at bytes: $sqlstate");
		$s->quit;
	}
}
my $s = $node->session;
$s->query("SET statement_timeout = '200ms'");
$s->query_fails($try, '57014', qr/statement timeout/, 'statement_timeout');
$s->quit;
$node->set('lockredis.connect_timeout' => '300ms');
$s = $node->session;
$s->query_fails($try, '58000', qr/did not finish the TLS handshake in time/,
	'connect_timeout');
$relay->mode('pass');
$node->wait_for_up;
poll_until('nobody to be silent', sub { !$s->query($try)->error });
$s->query_is($try, 't|t', 'and well again');
$s->quit;
$holder->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

# ----------
# Bytes that are spoiled, or end, anywhere
# ----------

# A handshake, three replies of it and two of the locks take about so many bytes.
my $whole = do {
	my $first = $node->session;

	$relay->forget;
	$first->query_is($try, 't|t');
	$first->quit;
	my ($link) = sort { $b->{out} <=> $a->{out} } $relay->connections;
	$link->{out};
};
note "$whole bytes";
$node->set('lockredis.command_timeout' => '300ms');

$one->query($try);
my %outcomes;
my $pid = $one->pid;

sub break_at ($mode, $at)
{
	# The session's connection is ended in order; the new one is the broken one.
	my ($client) = grep { $_->{name} eq "lockredis-session-$pid" } $redis->clients;
	$redis->try_cmd('CLIENT', 'KILL', 'ID', $client->{id}) if $client;
	poll_until('it to be gone',
		sub { !grep { $_->{name} eq "lockredis-session-$pid" } $redis->clients });
	$relay->mode($mode, $at);
	my $result = $one->query($try);
	$relay->mode('pass');
	$outcomes{ $mode . ' ' . ($result->sqlstate // $result->out) }++;
	return $result;
}

# Other places with another seed
my $seed = $ENV{LOCKREDIS_FUZZ_SEED} || 1;
my @wrong;

srand $seed;
note "seed $seed";
foreach my $mode ('flip', 'close', 'reset')
{
	for (my $at = 0; $at < $whole + 20; $at += 1 + int rand 60)
	{
		my $result = break_at($mode, $at);

		next if defined $result->sqlstate && $result->sqlstate =~ /^58/;
		next if !defined $result->sqlstate && $result->out =~ /^[tf]\|[tf]$/;
		push @wrong, "$mode at $at: $result->{raw} $result->{out}";
	}
}
is_deeply(\@wrong, [], 'an error of class 58, or an answer');
note join ', ', map { "$outcomes{$_} times $_" } sort keys %outcomes;
ok($outcomes{'flip 58000'} && $outcomes{'close 58000'} && $outcomes{'reset 58000'},
	'in the handshake');
poll_until('the store to serve', sub { $one->query($try)->out eq 't|t' });

# A connection that was good, and whose calls may take their time
$node->set('lockredis.command_timeout' => '60s', 'lockredis.connect_timeout' => '60s');
poll_until('the store to serve', sub { $one->query($try)->out eq 't|t' });
$one->query_is("SELECT redis_lock('mine')", '');
$relay->flip_next;
$one->query_fails($try, '58030', qr/TLS connection has failed: bad record type/, 'a spoiled reply');
poll_until('the store to serve', sub { $one->query($try)->out eq 't|t' });
$one->query_is("SELECT redis_unlock('mine')", 't', 'what it had is its own still');
$node->wait_for_up;
$holder->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

# Ended by the node right after an answer: what is sent a moment later is read by nobody, so
# even a create is sent again.  Slow rounds say nothing: the relay may have been late, or the
# session, which then has looked whether the connection is still there.
my ($quick, $again) = (0, 0);
foreach my $round (1 .. 20)
{
	poll_until('the store to serve', sub { $one->query("SELECT redis_is_locked('k')")->out eq 'f' });
	$relay->end_behind_next;
	my $result = $one->query(
		"SELECT redis_is_locked('k'), pg_sleep(0.002) IS NULL, redis_try_lock('$round'), redis_unlock('$round')"
	);

	next if $result->ms >= 10;
	$quick++;
	last if $again = $result->out eq 'f|f|t|t';
}
ok($again || $quick < 10, 'a create on a connection that was just ended');

# ----------
# Nothing grows
# ----------

sub usage { return (private_kb($pid), scalar sockets($pid)); }

$node->set('lockredis.command_timeout' => '300ms', 'lockredis.connect_timeout' => '300ms');
break_at('flip', 200 + $_) foreach 1 .. 30;
poll_until('the store to serve', sub { $one->query($try)->out eq 't|t' });
my ($kb, $sockets) = usage();
break_at((qw(flip close reset))[ $_ % 3 ], $_ * 7) foreach 1 .. 150;
poll_until('the store to serve', sub { $one->query($try)->out eq 't|t' });
my ($kb_after, $sockets_after) = usage();
cmp_ok($kb_after, '<', $kb + 300, "memory: $kb kB before, $kb_after kB after")
  if defined $kb;
is($sockets_after, $sockets, 'sockets');

$holder->query_is("SELECT redis_unlock('held')", 't');
end_test($node, $redis);
