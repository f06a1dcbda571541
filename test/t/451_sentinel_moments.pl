# Copyright (c) 2026, lockredis contributors

# What a Sentinel says at the wrong moment: before another one that knows better, before it
# falls silent; and what a session does at the moment at which another node becomes the
# master, or is about to.  Each is forced, by false Sentinels that say what they are told to, by a proxy, and by
# a debugger.  (What comes while a master is doubted, or between the answers to a COMMIT, is the
# simulator's: its mutants failover_doubt_unseen, failover_doubt_between, failover_guard_once.
# That the watchdog connects again at once without Sentinels is the business of 036_node_facts.)
# Proves G7, G38.

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

sub wait_until_doubted ()
{
	return poll_until('the doubt to be known', sub {
		$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND NOT in_use") });
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
	wait_until_doubted();
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

# From here on no time is over while a debugger attaches.
$node->set(
	'lockredis.url' => $sentinel->url_of,
	'lockredis.command_timeout' => '1min',
	'lockredis.lease' => '5min');
my $other = $node->session;
my $epoch = 10;

sub name_another ($redis)
{
	$sentinel->names($redis, epoch => ++$epoch);
	wait_until_used($node, $redis);
	return;
}

# A session connects, and has its answer when another node is about to become the master: it must
# not ask this one any more.
{
	my $proxy = LockRedis::Proxy->new($a);

	name_another($proxy);
	my $held = $proxy->rule(on => 'reply', match => 'HELLO', action => 'hold');
	my $new = $node->session;
	$new->start("SELECT redis_try_lock('connecting')");
	$proxy->wait_for_rule($held);
	$sentinel->names($proxy, epoch => $epoch, state => 'wait_promotion');
	wait_until_doubted();
	$proxy->let_go;
	$new->wait->fails('58000', qr/which node is the master|make another node the master/i,
		'connected in the middle of a failover: refused');
	ok(!$a->cmd('EXISTS', 'connecting'), 'connected in the middle of a failover: not asked');
	$sentinel->names($proxy, epoch => $epoch);
	$node->wait_until_asked($new);
	serves($new, 'connected in the middle of a failover: used when there was none');
	$proxy->stop;
}

# A redis_try_lock is in front of the queue and fails; who waits behind it outlives the
# failover, and must not be failed by one that does not wait for it.
{
	my $proxy = LockRedis::Proxy->new($a);

	name_another($proxy);
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

# A try gets a lock from a master that is none any more.  The present one may have it, too: the
# watchdog gives it back there, and the try asks again.
{
	name_another($a);
	$node->wait_until_asked($_) foreach $s, $other;
	my $stop = LockRedis::Debugger->new($s->pid);

	$stop->run_to('lt_grant');
	$s->start("SELECT redis_try_lock('twice')");
	$stop->wait_for_stop;
	name_another($b);
	name_another($a);
	$stop->let_go;
	is($s->wait->value, 't', 'granted by a former master: asked again');
	$s->query_is("SELECT redis_unlock('twice')", 't', 'granted by a former master: given back');
	poll_until('the watchdog to have given it back', sub { !$a->cmd('EXISTS', 'twice') });
	$node->wait_until_asked($s);
	$s->query_is("SELECT redis_try_lock('twice'), redis_unlock('twice')", 't|t', 'granted by a former master: free');
}

# A given lease at a new master that may not be asked about it yet: the question is put off, and
# no unlock, nor the end of a transaction, takes its place.  Once the master answers, the loss is
# told long before the lease would have ended.
{
	my ($untouched, $unlocks, $ends) = ($s, $other, $node->session);
	my %of = (untouched => $untouched, unlocks => $unlocks, ends => $ends);

	$untouched->query("SELECT redis_lock('untouched', '10 min')");
	$unlocks->query("SELECT redis_lock('unlocks', '10 min') FROM generate_series(1, 2)");
	$ends->query(
		"SELECT redis_lock('ends', '10 min'); BEGIN; SELECT redis_xact_lock('ends', '10 min')");

	# B has none of them, and does not say so.
	$b->cmd('ACL', 'SETUSER', 'default', 'resetkeys', '~w*');
	$node->log_since_here;
	name_another($b);
	poll_until('each is refused', sub { $node->logged(qr/refuses to renew/) });
	pause(0.5);

	# It says that the store was not told, too.
	is($unlocks->value("SELECT redis_unlock('unlocks')"), 't', 'one of two is unlocked');
	$ends->query('ROLLBACK');
	$b->cmd('ACL', 'SETUSER', 'default', 'allkeys');
	foreach my $key (sort keys %of)
	{
		poll_until("the loss of $key",
			sub { $of{$key}->value("SELECT redis_is_held('$key')") eq 'f' });
	}
}

$sentinel->stop;
done_testing();
