# Copyright (c) 2026, lockredis contributors

# A peer whose answer to the first question is 17 GB long: arrays in
# arrays, each with 256 elements, sent as fast as they can be read.  It is one of five
# independent masters, one of three Sentinels, a seed of a Redis Cluster, or all of them.
#
# Checked: renewals go on; calls that do not need it succeed, and others end in time;
# the processes do not grow.
#
# Proves G3, G18, G28.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use LockRedis::FakeNode;
use LockRedis::FalseSentinel;
use LockRedis::Masters;
use LockRedis::RedisCluster;
use LockRedis::Test;
use Process qw(private_kb);

my $lease = limit(6);
my $array = ":1\r\n";
$array = "*256\r\n" . $array x 256 foreach 1 .. 3;
my $fake = LockRedis::FakeNode->new(
	endless => { raw => "*256\r\n", then => 'flood', flood => $array });

# Two leases long: who is stopped by it has lost its locks by then.
sub stays_alive
{
	my ($name, $redis, $url, @left) = @_;
	my $node;
	my $wrong = '';
	my $longest = 0;

	$fake->behave('away', accept => 'close');
	$node = LockRedis::Node->create(
		$name,
		url => $url,
		settings => {
			'lockredis.lease' => "${lease}s",
			'lockredis.connect_timeout' => limit(3) . 's',
			'lockredis.command_timeout' => limit(3) . 's'
		});
	my $holder = $node->session;
	my $session = $node->session(settings => { statement_timeout => limit(5000) });
	poll_until("$name: a lock", sub { $holder->query("SELECT redis_try_lock('held')")->out eq 't' });
	$session->query("SELECT redis_try_lock('k'), redis_unlock('k')");
	my $watchdog = $node->watchdog_pid;
	my %kb = map { $_ => private_kb($_) } $session->pid, $watchdog;
	my $renewals = $node->lock_stat('renewals');

	$fake->behave('endless');
	my $until = now() + 2 * $lease;
	while (now() < $until)
	{
		my $result = $session->query("SELECT redis_try_lock('k'), redis_unlock('k')");
		$wrong .= $result->out . $result->{raw} if $result->out ne 't|t' || $result->{raw} ne '';
		$longest = $result->ms if $result->ms > $longest;
		pause(0.2);
	}
	note sprintf '%s: the longest call took %d ms', $name, $longest;
	is($wrong, '', "$name: each lock is taken and given back");
	cmp_ok($node->lock_stat('renewals') - $renewals,
		'>=', 2, "$name: renewals go on");
	$holder->query_is("SELECT redis_is_held('held')", 't', "$name: no lock is lost");
	is($node->watchdog_pid, $watchdog, "$name: the same watchdog");
	foreach my $pid (sort keys %kb)
	{
		next unless defined $kb{$pid};
		cmp_ok(private_kb($pid) - $kb{$pid}, '<', 12_000, "$name: memory does not grow");
	}
	$fake->behave('away', accept => 'close');
	$_->quit foreach $holder, $session;
	nothing_left($node, $redis, @left);
	$node->stop;
	return;
}

my $masters = LockRedis::Masters->new(n => 4);
stays_alive('masters', $masters, $masters->url . ' ' . $fake->url);
$_->stop foreach $masters->nodes;

my $redis = LockRedis::Redis->new;
my @sentinels = map { LockRedis::FalseSentinel->new } 1, 2;
$_->names($redis, epoch => 1) foreach @sentinels;
stays_alive('sentinels', $redis,
	LockRedis::FalseSentinel::url_of(@sentinels) =~ s/(?=\/\w+$)/',' . $fake->address/er);

my $cluster = LockRedis::RedisCluster->new(replicas => 0);
stays_alive('cluster', $cluster,
	$cluster->url =~ s/^(redis-cluster:\/\/)/$1 . $fake->address . ','/er,
	clients => qr/session/);

# ----------
# Where nobody else can be asked
# ----------

my $node = LockRedis::Node->create(
	'alone',
	url => $fake->url,
	settings => {
		'lockredis.connect_timeout' => limit(20) . 's',
		'lockredis.command_timeout' => limit(20) . 's'
	});
my $session = $node->session(settings => { statement_timeout => 500 });

foreach my $url ($fake->url, join ' ', map { $_->url } $fake, ($masters->nodes)[ 0, 1 ])
{
	$node->set('lockredis.url' => $url);
	$fake->behave('endless');
	my $result = $session->query("SELECT redis_try_lock('k')");

	ok(defined $result->sqlstate, 'the call fails') || diag $result->out;
	cmp_ok($result->ms, '<', limit(5000), 'statement_timeout is obeyed');
}
$fake->stop;
$session->quit;
done_testing();
