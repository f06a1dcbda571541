# Copyright (c) 2026, lockredis contributors

# Many sessions that have or await one key cost each other nothing: counted, not timed.
#
# - a reader looks at no other one of its server, however many there are
# - nor does its release at the others in Redis, unless it has the longest lease; then
#   it looks for one who stays as long
#
# For bars of speed, not for a guarantee.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my $many = 20;
my ($node, $redis) = LockRedis::Node->create_with_redis(
	'main', settings => { 'lockredis.lease' => '600s', 'lockredis.command_timeout' => '60s' });
my @readers = map { $node->session } 1 .. $many;
my ($one, $other) = ($node->session, $node->session);

# How often a session looks at a hold of the key while it takes a read lock and gives it
# back.
sub looks
{
	my ($session) = @_;
	my $gdb = LockRedis::Debugger->new($session->pid);
	my $number = $gdb->tell('break lt_is_live') =~ /Breakpoint (\d+)/ ? $1 : die 'no breakpoint';
	my $count = sub {
		return $gdb->tell("info breakpoints $number") =~ /already hit (\d+) time/ ? $1 : 0;
	};

	$gdb->tell("ignore $number 1000000");
	$gdb->run_to('lt_end_release');
	$session->start("SELECT redis_read_lock('k'), redis_read_unlock('k')");
	$gdb->wait_for_stop;
	my $n = $count->();
	$gdb->let_go;
	is($session->wait->error, undef, 'taken and given back');
	return $n;
}

# What a release asks Redis about time-outs
sub asked
{
	my ($session) = @_;

	$session->query("SELECT redis_read_lock('k', '300s')");
	my $before = $redis->calls('pttl', 'hkeys');
	$session->query_is("SELECT redis_read_unlock('k')", 't', 'given back');
	return $redis->calls('pttl', 'hkeys') - $before;
}

# The watchdog asks Redis the same now and then.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;

# They have the longest lease.
$_->query("SELECT redis_read_lock('k')") foreach $one, $readers[0];
$one->query("SELECT redis_read_unlock('k')");
my $few = looks($one);
my $few_asked = asked($one);
$_->query("SELECT redis_read_lock('k')") foreach @readers[ 1 .. $#readers ];
is(looks($one), $few, "as many looks beside $many readers as beside one: $few");
is(asked($one), $few_asked, "as many questions: $few_asked");

# Whoever has the longest lease with others: who comes after it is as good.
$_->query("SELECT redis_read_lock('k', '3600s')") foreach $one, $other;
my $before = $redis->calls('pttl');
$one->query_is("SELECT redis_read_unlock('k')", 't', 'the longest of two');
cmp_ok($redis->calls('pttl') - $before, '<=', 4, 'looks for nobody else, or for one');
ok($redis->cmd('PTTL', 'k') > 3_000_000, 'and shortens nothing');
$other->query_is("SELECT redis_read_unlock('k')", 't', 'the longest of all');
my $left = $redis->cmd('PTTL', 'k');
ok($left > 0 && $left <= 600_000, 'leaves the lock as long as the others stay');
$redis->cmd('PERSIST', 'k');
$readers[0]->query_is("SELECT redis_read_unlock('k')", 't', 'of a lock without an end');
is(scalar keys %{ $redis->hash('k') }, $many, 'one of many goes, and mode stays');
$_->query_is("SELECT redis_read_unlock('k')", 't', 'given back') foreach @readers[ 1 .. $#readers ];
kill 'CONT', $watchdog;
poll_until('nothing left', sub { !$redis->all_keys });

end_test($node, $redis);
