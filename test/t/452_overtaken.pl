# Copyright (c) 2026, lockredis contributors

# What a session does at the very moment at which another node becomes the master: it
# commits, it applies an answer, it fails in front of a queue.  Each interleaving is
# forced, by debuggers in the session and in the watchdog, and by a proxy; a false
# Sentinel says who is the master.
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
$node->safe_psql('postgres', 'CREATE TABLE t (i int)');
$_->query_is("SELECT redis_lock('warm'), redis_unlock('warm')", '|t', 'warm') foreach $s, $other;

sub back_to_a
{
	$sentinel->names($a, epoch => ++$epoch);
	wait_until_used($node, $a);
	$node->wait_until_asked($_) foreach $s, $other;
	return;
}

# In an open transaction a lock and work; the watchdog is stopped before it knows of the
# next master, the session (in $sql) in a function; then the watchdog is let go as far
# as to where the epoch has changed and nobody has asked the new master anything.
sub overtake
{
	my ($sql, $function, $times) = @_;
	my $stop = LockRedis::Debugger->new($s->pid);
	my $watchdog = LockRedis::Debugger->new($node->watchdog_pid);

	$stop->run_to($function);
	$watchdog->run_to('topology_change');

	# A debugger may take seconds to attach, and after five (TOPOLOGY_TRUST of
	# src/store/nodes.h) the session asks nobody.
	my $heard = $sentinel->answered('SENTINEL');
	poll_until('the watchdog to go on', sub { $sentinel->answered('SENTINEL') >= $heard + 6 });
	$sentinel->names($b, epoch => ++$epoch);
	$watchdog->wait_for_stop;
	$s->start($sql);
	$stop->wait_for_stop;
	foreach (2 .. $times)
	{
		$stop->run_to($function);
		$stop->wait_for_stop;
	}
	$watchdog->run_to('failover_happened');
	$watchdog->wait_for_stop;
	$stop->let_go;
	my $result = $s->wait;
	return ($watchdog, $result);
}

# COMMIT has asked the master about two locks, and has applied what that said of the
# first, when another one is the master.  What it has asked before does not count.
{
	$s->query_is("SET lockredis.commit_guard = 'verify'; BEGIN; INSERT INTO t VALUES (1);
		 SELECT redis_xact_lock('first'); SELECT redis_xact_lock('second')", "\n", 'two locks, to be verified');
	my ($watchdog, $result) = overtake('COMMIT', 'lt_raise_deadline', 2);

	$result->fails('58000', qr/could not reach/, 'COMMIT that is overtaken between two answers: refused');
	$watchdog->let_go;
	wait_until_used($node, $b);
	is($node->value('SELECT count(*) FROM t'), 0, 'COMMIT that is overtaken: nothing is committed');
	back_to_a();
}

# The answer to the only one has been found to be of the present master; when it is
# noted that is another one.  It has to be noted as an answer of the former.
{
	$s->query_is("BEGIN; INSERT INTO t VALUES (2); SELECT redis_xact_lock('noted')", '', 'a lock, to be verified');
	my ($watchdog, $result) = overtake('COMMIT', 'lt_note_answer', 1);

	$result->fails('58000', qr/could not reach/, 'COMMIT that is overtaken while it notes an answer: refused');
	$watchdog->let_go;
	wait_until_used($node, $b);
	is($node->value('SELECT count(*) FROM t'), 0, 'COMMIT that is overtaken so: nothing is committed');
	$s->query('RESET lockredis.commit_guard');
	back_to_a();
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
