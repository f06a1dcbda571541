# Copyright (c) 2026, lockredis contributors

# A peer whose answer to the first question is 17 GB long: arrays in
# arrays, each with 256 elements, sent as fast as they can be read.  It is one of five
# independent masters, or the only node.
#
# Checked: renewals go on; calls that do not need it succeed, and others end in time;
# the processes do not grow.
#
# Proves G3, G18, G28.

use FindBin;
use lib "$FindBin::RealBin/../fuzz";
use LockRedis::FakeNode;
use LockRedis::Masters;
use LockRedis::Test;
use Process qw(private_kb);

my $lease = limit(6);
my $array = ":1\r\n";
$array = "*256\r\n" . $array x 256 foreach 1 .. 3;
my $fake = LockRedis::FakeNode->new(
	endless => { raw => "*256\r\n", then => 'flood', flood => $array });

# One of five masters.  Two leases long: who is stopped by it has lost its locks by then.
my $masters = LockRedis::Masters->new(n => 4);
my %settings = map { ("lockredis.${_}_timeout" => limit(3) . 's') } qw(connect command);
$fake->behave('away', accept => 'close');
my $node = LockRedis::Node->create('main',
	url => $masters->url . ' ' . $fake->url, settings => { %settings, 'lockredis.lease' => "${lease}s" });
my $holder = $node->session;
my $session = $node->session(settings => { statement_timeout => limit(5000) });
poll_until('a lock', sub { $holder->query("SELECT redis_try_lock('held')")->out eq 't' });
$session->query("SELECT redis_try_lock('k'), redis_unlock('k')");
my $watchdog = $node->watchdog_pid;
my %kb = map { $_ => private_kb($_) } $session->pid, $watchdog;
my $renewals = $node->lock_stat('renewals');
my $wrong = '';

$fake->behave('endless');
my $until = now() + 2 * $lease;
while (now() < $until)
{
	my $result = $session->query("SELECT redis_try_lock('k'), redis_unlock('k')");
	$wrong .= $result->out . $result->{raw} if $result->out ne 't|t' || $result->{raw} ne '';
	pause(0.2);
}
is($wrong, '', 'each lock is taken and given back');
cmp_ok($node->lock_stat('renewals') - $renewals, '>=', 2, 'renewals go on');
$holder->query_is("SELECT redis_is_held('held')", 't', 'no lock is lost');
is($node->watchdog_pid, $watchdog, 'the same watchdog');
cmp_ok(private_kb($_) - $kb{$_}, '<', 12_000, 'memory does not grow')
  foreach grep { defined $kb{$_} } sort keys %kb;
$fake->behave('away', accept => 'close');
$_->quit foreach $holder, $session;
nothing_left($node, $masters);
$_->stop foreach $masters->nodes;

# Where nobody else can be asked: alone, or one of three, of which two are needed.
$node->set('lockredis.connect_timeout' => limit(20) . 's', 'lockredis.command_timeout' => limit(20) . 's');
$session = $node->session(settings => { statement_timeout => 500 });
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
