# Copyright (c) 2026, lockredis contributors

# What a Sentinel says at the wrong moment: while the master is doubted, while a session
# connects, before another one that knows better; and one that talks without an end.
# Each interleaving is forced, by false Sentinels that say what they are told to, by a
# proxy that holds back an answer, and by a debugger.
# Proves G38.

use LockRedis::Debugger;
use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my ($a, $b) = map { LockRedis::Redis->new(name => $_) } 'a', 'b';
my $sentinel = LockRedis::FalseSentinel->new;

$sentinel->names($a, epoch => 1);
my $node = LockRedis::Node->create(
	'main',
	url => $sentinel->url_of,
	settings => {
		'lockredis.connect_timeout' => '20s',
		'lockredis.command_timeout' => '5s',
		'lockredis.lease' => '3s'
	});
my $s = $node->session;

wait_until_used($node, $a);
serves($s, 'the master is used');

# In the round that is judged just now the Sentinel has named the master; meanwhile
# that says that it is none:
#
#   watchdog                                   session
#   has the Sentinel's answer
#                                              READONLY: doubts the master
#   names the master, by that answer
#   is connected, so does not connect
#
# and nobody would ever be told again that the master is one.
{
	my $stop = LockRedis::Debugger->new($node->watchdog_pid);

	$stop->run_to('sentinel_has_answered', 's->answer.asked_at >= since');
	$stop->wait_for_stop;
	$a->cmd('REPLICAOF', '127.0.0.1', 1);
	my $failed = $s->query("SELECT redis_try_lock('doubt')");
	$a->cmd('REPLICAOF', 'NO', 'ONE');
	$stop->let_go;
	like($failed->{raw}, qr/READONLY|master/, 'doubted in the middle of a round');
	$node->wait_until_asked($s);
	serves($s, 'doubted in the middle of a round: used again');
	my $new = $node->session;
	serves($new, 'doubted in the middle of a round: by a new session');
	$new->quit;
}

# A session connects, and has its answer when another node is about to become the
# master: it must not ask this one any more.
{
	my $proxy = LockRedis::Proxy->new($a);

	$sentinel->names($proxy, epoch => 2);
	wait_until_used($node, $proxy);
	my $held = $proxy->rule(on => 'reply', match => 'HELLO', action => 'hold');
	my $new = $node->session;

	$new->start("SELECT redis_try_lock('connecting')");
	$proxy->wait_for_rule($held);
	$sentinel->names($proxy, epoch => 2, state => 'wait_promotion');
	poll_until(
		'the watchdog to know of the failover',
		sub {
			$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND NOT in_use");
		});
	$proxy->let_go;
	$new->wait->fails('58000', qr/which node is the master|make another node the master/i,
		'connected in the middle of a failover: refused');
	ok(!$a->cmd('EXISTS', 'connecting'), 'connected in the middle of a failover: not asked');
	$sentinel->names($proxy, epoch => 2);
	$node->wait_until_asked($new);
	serves($new, 'connected in the middle of a failover: used when there was none');
	$new->quit;
	$sentinel->names($a, epoch => 3);
	wait_until_used($node, $a);
	$proxy->stop;
}

# More messages than can be read: the watchdog takes some, and sees to its leases.  It
# is stopped before it reads, until there are a lot, and when it has done with it.
{
	my $unread = sub {
		my $port = sprintf ':%04X', $sentinel->port;
		my $sum = 0;

		open my $file, '<', '/proc/net/tcp' or die $!;
		while (<$file>)
		{
			my (undef, $from, $to, undef, $queues) = split;
			my ($sent, $received) = map { hex } $queues =~ /^(\w+):(\w+)$/ or next;
			$sum += $sent if $from =~ /$port$/;
			$sum += $received if $to =~ /$port$/;
		}
		return $sum;
	};

	$sentinel->names($a, epoch => 3, chatty => 1);
	$s->query("SET lockredis.lease = '15s'");
	$s->query_is("SELECT redis_lock('chatty')", '', 'a lock');
	$s->query('RESET lockredis.lease');
	my $renewals = $node->value("SELECT renewals FROM redis_locks WHERE key = 'chatty'");
	poll_until('messages to come', sub { $unread->() > 0 });
	poll_until('a Sentinel talks without an end: renewed',
		sub { $node->value("SELECT renewals FROM redis_locks WHERE key = 'chatty'") > $renewals });
	$s->query_is("SELECT redis_is_held('chatty')", 't', 'a Sentinel talks without an end: held');
	$s->query_is("SELECT redis_unlock('chatty')", 't', 'a Sentinel talks without an end: unlocked');

	my $stop = LockRedis::Debugger->new($node->watchdog_pid);
	$stop->run_to('sentinel_step');
	$stop->wait_for_stop;
	my $before = 0;
	poll_until(
		'it to have said all that there is room for',
		sub {
			my $last = $before;
			pause(0.3);
			$before = $unread->();
			return $before == $last && $before > 256 * 1024;
		});
	kill 'STOP', $sentinel->pid;
	$stop->run_to('renewals_step');
	$stop->wait_for_stop;
	pause(0.3);
	my $left = $unread->();
	kill 'CONT', $sentinel->pid;
	$stop->let_go;
	note "$before bytes, of which $left are left";
	cmp_ok($before, '>', 256 * 1024, 'a Sentinel talks without an end: that is a lot');
	cmp_ok($before - $left, '<', 200 * 1024, 'a Sentinel talks without an end: read by parts');
	$sentinel->names($a, epoch => 3);
}

# Behind the last answer to a probe comes nonsense, which ends the connection of the watchdog.
# Nobody connects to the master until that is connected again, so it does not wait for
# the next probe, 5 s later.  Counted are questions to the Sentinel, about ten a second,
# as on a slow machine there are fewer.
{
	my $proxy = LockRedis::Proxy->new($a);

	$sentinel->names($proxy, epoch => 4);
	wait_until_used($node, $proxy);
	my $connections = $proxy->stats->{connections};
	my $answered = $proxy->rule(on => 'reply', match => 'INFO', action => 'babble');
	$proxy->wait_for_rule($answered);
	my $before = $sentinel->answered('SENTINEL');
	poll_until('the watchdog to connect again', sub { $proxy->stats->{connections} > $connections });
	my $rounds = ($sentinel->answered('SENTINEL') - $before) / 2;
	note "connected again after $rounds questions";
	cmp_ok($rounds, '<', 20, 'nonsense behind an answer to a probe: connected again at once');
	my $new = $node->session;
	$node->wait_until_asked($new);
	serves($new, 'nonsense behind an answer to a probe: a new session');
	$new->quit;
	$sentinel->names($a, epoch => 5);
	wait_until_used($node, $a);
	$proxy->stop;
}

# At a start one Sentinel is heard before the other, which knows of a later failover.
# That must not be the master for a moment.  Under load it may be heard too late, so
# it is tried more than once.
{
	my $other = LockRedis::FalseSentinel->new;
	my $late = LockRedis::Proxy->new($other);
	my $tries = 12;
	my $right = 0;

	$other->names($b, epoch => 9);
	foreach my $try (1 .. $tries)
	{
		$late->clear;
		$late->rule(on => 'reply', match => 'MASTER', action => 'delay', ms => 50, times => 0);
		$node->log_since_here;
		$node->set('lockredis.url' =>
			'redis-sentinel://' . join(',', map { '127.0.0.1:' . $_->port } $sentinel, $late) . "/svc/$try");
		wait_until_used($node, $b);
		$right++ unless $node->logged(qr/master of "svc" is (?:now )?at \Q@{[ $a->address ]}\E/);
		last if $right;
	}
	ok($right, 'two Sentinels at a start: the one that is heard first is not believed alone');
	$other->stop;
	$late->stop;
}

# One that is far away, also farther than others are waited for; and one that hangs beside
# one that does not, when the master was restarted.
{
	my ($one, $hung) = map { LockRedis::FalseSentinel->new } 1 .. 2;
	my $far = LockRedis::Proxy->new($sentinel);

	my $db = 6;
	foreach my $ms (200, 800)
	{
		$db++;
		$far->latency($ms / 2);
		$node->set('lockredis.url' => "redis-sentinel://127.0.0.1:@{[ $far->port ]}/svc/$db");
		wait_until_used($node, $a);
	}
	$far->stop;

	$_->names($a, epoch => 4) foreach $one, $hung;
	$node->set('lockredis.command_timeout' => '5min', 'lockredis.connect_timeout' => '5min',
		'lockredis.url' => LockRedis::FalseSentinel::url_of($one, $hung));
	wait_until_used($node, $a);
	kill 'STOP', $hung->pid;
	$a->restart;
	poll_until('the watchdog to connect again', sub { grep { $_->{name} =~ /watchdog/ } $a->clients });
	$_->stop foreach $one, $hung;
	$node->set('lockredis.command_timeout' => '5s', 'lockredis.connect_timeout' => '20s');
}

# A Sentinel is about to make another one the master, and is not heard any more: what it
# has said last does not get too old to count.
{
	my $last = LockRedis::FalseSentinel->new;

	$last->names($a, epoch => 1);
	$node->set('lockredis.url' => $last->url_of);
	wait_until_used($node, $a);
	serves($s, 'the master is used, over a connection that stands from then on');
	$last->names($a, epoch => 1, state => 'wait_promotion');
	poll_until(
		'the doubt to be known',
		sub {
			$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND NOT in_use");
		});
	kill 'STOP', $last->pid;

	# Longer than ANSWER_LIFE of src/store/redis/discovery.c
	pause(3.5);
	$s->query_fails("SELECT redis_try_lock('silent')", '58000', qr/lock store/, 'in doubt, then silent: not used');
	kill 'CONT', $last->pid;
	$last->names($a, epoch => 1);
	$node->wait_until_asked($s);
	serves($s, 'in doubt, then silent: used when it is heard without a doubt');
	$last->stop;
}

# The connections to the master, and to the Sentinel that knows of a later failover, end
# together.  The other one must not be believed alone until that is connected to again.
# Under load it may be heard too late, so it is tried more than once.
{
	my ($knows, $old) = map { LockRedis::FalseSentinel->new } 1 .. 2;
	my $proxy = LockRedis::Proxy->new($a);
	my $right = 0;

	foreach my $try (1 .. 12)
	{
		$_->names($proxy, epoch => 1) foreach $knows, $old;
		$node->set('lockredis.url' => LockRedis::FalseSentinel::url_of($knows, $old) . "/$try");
		wait_until_used($node, $proxy);
		my $watchdog = $node->watchdog_pid;
		kill 'STOP', $watchdog;
		$knows->names($b, epoch => 2);
		$proxy->reset_all;
		my $before = $proxy->stats->{connections};
		kill 'CONT', $watchdog;
		wait_until_used($node, $b);
		$right = $proxy->stats->{connections} == $before;
		last if $right;
	}
	ok($right, 'connections end together: the Sentinel that knows is waited for');
	$proxy->stop;
	$_->stop foreach $knows, $old;
}

$sentinel->stop;
done_testing();
