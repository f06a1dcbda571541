# Copyright (c) 2026, lockredis contributors

# What a watchdog was told before it was stopped does not count when it goes on: not
# that a node was named as the master, to which it was about to connect, nor that its
# connection stands, as long as it has not looked at that again.  Nor does a naming that
# is as old for another reason: that the node's answer has taken long.
#
# Each interleaving is forced: by false Sentinels, which name another node meanwhile
# and then say nothing, by a proxy that holds back an answer, and by a debugger.
# Proves G38.

use LockRedis::Debugger;
use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

# Longer than STALL of src/store/redis/discovery.c, NAMING_LIFE of src/store/nodes.c
# and TOPOLOGY_TRUST of src/store/nodes.h, in seconds
my $stall = 2.5;
my $naming = 2.5;
my $trust = 5.5;

my ($a, $b) = map { LockRedis::Redis->new(name => $_) } 'a', 'b';

my $node = LockRedis::Node->create(
	'main',
	url => 'redis-sentinel://127.0.0.1:1/svc',
	settings => { 'lockredis.connect_timeout' => '1min', 'lockredis.command_timeout' => '5s' });

sub is_refused ($name)
{
	my $session = $node->session;

	$session->query_fails("SELECT redis_try_lock('k')", '58000', qr/lock store/, "$name: nobody is asked");
	ok(!$a->cmd('EXISTS', 'k'), "$name: the former master has nothing");
	$session->quit;
	return;
}

#   watchdog                              Sentinels
#                                         name a
#   connects to a, asks who it is
#                                         name b; are not heard any more
#                                         a answers: a master
#   has the answer: all may connect to a
#
# It is stopped meanwhile, for no longer than a naming is believed; or in the middle of
# a round, for longer than that; or not at all.
foreach my $how ('stopped', 'renewals_step', 'running')
{
	my $sentinel = LockRedis::FalseSentinel->new;
	my $proxy = LockRedis::Proxy->new($a);
	my $stop;

	$sentinel->names($proxy, epoch => 1);
	follow($node, $proxy, $sentinel);
	my $held = $proxy->rule(on => 'reply', match => 'HELLO', action => 'hold');
	$proxy->reset_all;
	$proxy->wait_for_rule($held);

	my $watchdog = $node->watchdog_pid;
	if ($how eq 'stopped')
	{
		kill 'STOP', $watchdog;
		$sentinel->names($b, epoch => 2);
	}
	elsif ($how eq 'renewals_step')
	{
		$stop = LockRedis::Debugger->new($watchdog);
		$stop->run_to($how);
		$stop->wait_for_stop;
		$sentinel->names($b, epoch => 2);
	}
	kill 'STOP', $sentinel->pid;
	pause($how eq 'stopped' ? $stall : $naming);
	$proxy->let_go;
	kill 'CONT', $watchdog if $how eq 'stopped';
	$stop->let_go if $stop;
	poll_until(
		'the watchdog to have the answer',
		sub { is_used($node, $proxy) || $proxy->stats->{open} == 0 });
	is_refused("named long ago, $how");

	kill 'CONT', $sentinel->pid;
	$sentinel->names($b, epoch => 2);
	wait_until_used($node, $b);
	serves($node, "named long ago, $how: the new master is used");
	$sentinel->stop;
	$proxy->stop;
}

# An answer that names another one is read after the stop, and was asked for before.  Who
# has a connection goes on, as when no Sentinel is heard.
{
	my $sentinel = LockRedis::FalseSentinel->new;
	my $proxy = LockRedis::Proxy->new($sentinel);

	$sentinel->names($a, epoch => 1);
	$node->set('lockredis.url' => 'redis-sentinel://' . $proxy->address . '/svc');
	wait_until_used($node, $a);
	# A question that is under way would use up the rule: its connection ends.
	kill 'STOP', my $watchdog = $node->watchdog_pid;
	$sentinel->names($b, epoch => 2);
	my $held = $proxy->rule(on => 'reply', match => 'GET-MASTER-ADDR-BY-NAME', action => 'hold', times => 0);
	kill 'CONT', $watchdog;
	$proxy->wait_for_rule($held);
	kill 'STOP', $watchdog;
	kill 'STOP', $sentinel->pid;
	$proxy->let_go;
	pause($stall);
	my $asked = $proxy->stats->{requests};
	kill 'CONT', $watchdog;
	poll_until('the watchdog to have read it, and to ask again',
		sub { $proxy->stats->{requests} > $asked });
	my $session = $node->session;
	$session->query("SELECT redis_try_lock('k')");
	ok(!$b->cmd('EXISTS', 'k'), 'asked before the stop: not believed');
	$session->quit;
	$sentinel->stop;
	$proxy->stop;
}

#   watchdog                              a
#   has a connection to a
#   is stopped, without Sentinels         is killed, and restarted without its data
#   finds no Sentinel
#   all may connect to a, as ever
#   finds that its connection is gone
#
# It is stopped between two rounds, and in the middle of one.
foreach my $where ('redis_follow_step', 'sentinel_step')
{
	my $sentinel = LockRedis::FalseSentinel->new;

	$sentinel->names($a, epoch => 1);
	follow($node, $a, $sentinel);
	$node->log_since_here;
	$sentinel->stop;
	poll_until('the Sentinel to be down', sub { $node->logged(qr/the Sentinel at .* is down/) });
	my $stop = LockRedis::Debugger->new($node->watchdog_pid);
	$stop->run_to($where);
	$stop->wait_for_stop;
	$a->kill9;
	$a->start;
	pause($trust);
	$stop->run_to('renewals_step');
	$stop->wait_for_stop;
	is_refused("connected before it was stopped in $where");
	$stop->let_go;
}

done_testing();
