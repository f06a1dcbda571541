# Copyright (c) 2026, lockredis contributors

# What a session does at the very moment at which another node becomes the master: it fails in
# front of a queue, or gives back what a former master has granted.  Each is forced, by a proxy
# or a debugger; a false Sentinel says who is the master.  (A COMMIT that is overtaken is the
# simulator's: its mutants failover_guard_once and failover_answer_noted.)
# Proves G7, G38.

use LockRedis::Debugger;
use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my ($a, $b) = map { LockRedis::Redis->new(name => $_) } 'a', 'b';
my $sentinel = LockRedis::FalseSentinel->new;
my $epoch = 1;

$sentinel->names($a, epoch => $epoch);
my $node = LockRedis::Node->create(
	'main',
	url => $sentinel->url_of,
	settings => { 'lockredis.command_timeout' => '1min', 'lockredis.lease' => '5min' });
my ($s, $other) = map { $node->session } 1 .. 2;

wait_until_used($node, $a);
$_->query_is("SELECT redis_lock('warm'), redis_unlock('warm')", '|t', 'warm') foreach $s, $other;

sub back_to_a
{
	$sentinel->names($a, epoch => ++$epoch);
	wait_until_used($node, $a);
	$node->wait_until_asked($_) foreach $s, $other;
	return;
}

# A redis_try_lock is in front of the queue and fails; who waits behind it outlives the
# failover, and must not be failed by one that does not wait for it.
{
	my $proxy = LockRedis::Proxy->new($a);

	$sentinel->names($proxy, epoch => ++$epoch);
	wait_until_used($node, $proxy);
	$node->wait_until_asked($_) foreach $s, $other;
	my $held = $proxy->rule(match => 'queue', action => 'hold');
	$s->start("SELECT redis_try_lock('queue')");
	$proxy->wait_for_rule($held);
	$other->start("SELECT redis_lock('queue')");
	$node->wait_for_waiters('queue', 2);
	$proxy->clear;
	$proxy->reset_all;
	$s->wait->fails('58030', qr/./, 'a try in front of a queue: fails');
	is($other->wait->error, undef, 'a try in front of a queue: who waits behind it gets the lock');
	$other->query_is("SELECT redis_unlock('queue')", 't', 'a try in front of a queue: given back');
	$proxy->stop;
}

# A try gets a lock from a master that is none any more, gives it back at the present one,
# and that is none any more either before the session has looked.  Nobody knows what is at
# the next master, and the session is told why.
{
	back_to_a();
	my $stop = LockRedis::Debugger->new($s->pid);

	$stop->run_to('lt_grant');
	$s->start("SELECT redis_try_lock('twice')");
	$stop->wait_for_stop;
	$sentinel->names($b, epoch => ++$epoch);
	wait_until_used($node, $b);
	$stop->run_to('wait_release');
	$stop->wait_for_stop;
	$stop->out_of('ask_run');
	$sentinel->names($a, epoch => ++$epoch);
	wait_until_used($node, $a);
	$stop->let_go;
	my $error = $s->wait;
	$error->fails('58030', qr/did not answer/, 'given back at a former master: not known');
	like($error->{raw}, qr/DETAIL: +The node that answered is not the master any more/,
		'given back at a former master: and why');
	poll_until('the watchdog to give it back', sub { !$a->cmd('EXISTS', 'twice') });
	$node->wait_until_asked($s);
	$s->query_is("SELECT redis_try_lock('twice'), redis_unlock('twice')", 't|t', 'given back at a former master: free');
}

$sentinel->stop;
done_testing();
