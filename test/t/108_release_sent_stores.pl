# Copyright (c) 2026, lockredis contributors

# lockredis.release_wait = sent, and a store that changes: another master, another URL, the
# table instead of Redis.  A release that was sent is an orphan like any other then.  With
# replicas that have to confirm, a cluster, several masters or a table COMMIT waits for the
# answer.
# Proves G4, G15, G38.

use LockRedis::Masters;
use LockRedis::RedisCluster;
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);

my %settings = ('lockredis.lease' => '10min', 'lockredis.release_wait' => 'sent');
my $take = q{BEGIN; SELECT redis_xact_lock('k')};

# The first release of a connection waits.  On a busy machine it may be left to the
# watchdog, and the connection is lost.
sub warm_up
{
	my ($node, $s) = @_;
	my $orphans;

	do
	{
		$orphans = $node->lock_stat('orphans');
		run($s, "$take; COMMIT");
		poll_until('it to be released', sub { $node->count_locks == 0 });
	} while ($node->lock_stat('orphans') > $orphans);
	return;
}

# How many are left by a COMMIT, while nothing is repeated, besides those whose answer was
# waited for in vain
sub left_by_commit
{
	my ($node, $s) = @_;
	my $watchdog = $node->watchdog_pid;

	warm_up($node, $s);
	my $orphans = $node->lock_stat('orphans');
	kill 'STOP', $watchdog;
	run($s, "$take; COMMIT");
	my $left = $node->count_locks - ($node->lock_stat('orphans') - $orphans);
	kill 'CONT', $watchdog;
	poll_until('it to be released', sub { $node->count_locks == 0 });
	return $left;
}

# ----------
# Where COMMIT waits
# ----------

{
	my $redis = LockRedis::Redis->new;
	my $replica = LockRedis::Redis->new(
		name => 'replica',
		config => { replicaof => [ '127.0.0.1', $redis->port ], 'repl-diskless-sync-delay' => 0 });
	my $node = LockRedis::Node->create('one', redis => $redis, settings => \%settings);
	my $s = $node->session;

	$node->wait_for_up;
	is(left_by_commit($node, $s), 1, 'one Redis: does not wait');
	poll_until('the replica', sub { $redis->cmd('WAIT', 1, 100) == 1 });
	my $confirmed = $node->session(settings => { 'lockredis.min_replicas' => 1 });
	is(left_by_commit($node, $confirmed), 0, 'min_replicas: waits');
	$_->quit foreach $s, $confirmed;
	nothing_left($node, $redis, clients => qr/session/);
	$node->stop;
	$_->stop foreach $replica, $redis;
}

foreach my $kind ([ 'a cluster', LockRedis::RedisCluster->new(replicas => 0) ],
	[ 'several masters', LockRedis::Masters->new ])
{
	my ($name, $redis) = @$kind;
	my $node = LockRedis::Node->create(
		$name =~ s/ /_/gr,
		redis => $redis,
		settings => { 'lockredis.release_wait' => 'sent' });
	my $s = $node->session;

	$node->wait_for_up;
	is(left_by_commit($node, $s), 0, "$name: waits");
	$s->quit;
	$node->stop;
}

{
	my $node = LockRedis::Node->create('table', mode => 'table', settings => \%settings);
	my $s = $node->session;

	$node->wait_for_up;
	is(left_by_commit($node, $s), 0, 'a table: waits');
	$s->quit;
	$node->stop;
}

# ----------
# Another URL
# ----------

{
	my ($old, $new) = map { LockRedis::Redis->new(name => $_) } qw(old new);
	my $proxy = LockRedis::Proxy->new($old);
	my $node = LockRedis::Node->create('moved', url => $proxy->url, settings => \%settings);
	my ($s, $other) = map { $node->session } 1 .. 2;

	$node->wait_for_up;
	warm_up($node, $s);
	my $losses = $node->lock_stat('losses');
	my $id = $proxy->rule(match => 'k', skip => 1, action => 'hold', times => 0);
	run($s, "$take; COMMIT");
	$proxy->wait_for_rule($id);
	$node->set('lockredis.url' => $new->url);
	$node->wait_for_up($new);
	$other->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'free at the new place');
	$proxy->let_go;
	ok(poll_until('the old place to be left', sub { $node->count_locks == 0 }), 'nothing is left');
	$s->query_is("$take; COMMIT", '', 'the session goes on');
	is($node->lock_stat('losses'), $losses, 'no loss');
	$_->quit foreach $s, $other;
	nothing_left($node, $new);
	$node->stop;
}

# ----------
# The table instead of Redis, and back
# ----------

{
	my ($node, $redis, $proxy) = LockRedis::Node->create_fallback(
		'fallback', settings => { 'lockredis.release_wait' => 'sent', 'lockredis.lease' => '3s' });
	my ($s, $other) = map { $node->session } 1 .. 2;

	warm_up($node, $s);
	my $losses = $node->lock_stat('losses');
	run($s, $take);
	$proxy->rule(match => 'k', action => 'drop', times => 0);
	$s->query_is('COMMIT', '', 'Redis goes away: COMMIT does not wait');
	$node->cut_off($proxy);
	$other->query_is("SELECT redis_lock('k')", '', 'the lock is taken in the table');
	$proxy->clear;
	$node->reconnect($proxy);
	$other->query_is("SELECT redis_is_held('k'), redis_unlock('k')", 't|t', 'and kept');
	$s->query_is("$take; COMMIT", '', 'the session goes on');
	ok(poll_until('all to be released', sub { $node->count_locks == 0 && !$redis->all_keys }),
		'Redis has nothing left');
	is($node->lock_stat('losses'), $losses, 'no loss');
	$_->quit foreach $s, $other;
	$node->stop;
}

# ----------
# Another master
# ----------

{
	my $ha = LockRedis::Sentinels->new;
	my $node = LockRedis::Node->create('failover', redis => $ha, settings => \%settings);
	my ($s, $other) = map { $node->session } 1 .. 2;

	$node->wait_for_up;
	warm_up($node, $s);
	my $losses = $node->lock_stat('losses');
	my $old = $ha->master;

	run($s, $take);
	poll_until('the replicas to have it',
		sub { $old->cmd('WAIT', 2, 100) == 2 });
	$old->freeze;
	$s->query_is('COMMIT', '', 'the master stands still: COMMIT does not wait');
	my $new = $ha->wait_for_master_but($old);
	poll_until('the new one to be used', sub { $node->lock_stat('failovers') > 0 });
	ok(poll_until('the release', sub { $new->cmd('EXISTS', 'k') == 0 }), 'it is released at the new master');
	$other->query_is("SELECT redis_lock('k')", '', 'another session has it');
	$old->thaw;
	$s->query_is("SELECT redis_try_lock('k')", 'f', 'which the session sees');
	$other->query_is("SELECT redis_is_held('k'), redis_unlock('k')",
		't|t', 'and the late release of the old master changes nothing');
	is($node->lock_stat('losses'), $losses, 'no loss');
	$_->quit foreach $s, $other;
	$node->stop;
}

done_testing();
