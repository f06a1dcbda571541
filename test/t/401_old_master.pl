# Copyright (c) 2026, lockredis contributors

# What a master has said that is none any more.  Each interleaving is forced: a
# session is stopped, by a debugger, between an answer of the old master and what
# it does with it; meanwhile another node becomes the master and the watchdog
# finds that out.
#
# Proves G1, G7, G38.

use LockRedis::Debugger;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my ($node, $one, $two) = LockRedis::Node->create(
	'main', sessions => 2, redis => $ha, settings => { 'lockredis.lease' => '5min' });

$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach $one, $two;

# Runs a statement that stops where it begins to apply its answer; another node
# becomes the master; it goes on.  Replicas have nothing that is newer than the
# moment before.
sub overtaken
{
	my ($session, $sql, $function) = @_;
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my $stop = LockRedis::Debugger->new($session->pid);

	$old->outrun_replicas(@replicas);
	$stop->run_to($function);
	$session->start($sql);
	$stop->wait_for_stop;
	my $new = replace_master($node, $ha, @replicas);
	$stop->let_go;
	return ($old, $new, $session->wait);
}

# A lock that the old master granted: the session has its answer, but the lock is
# not in the lock table yet.  It is taken from the new master.
{
	my ($old, $new, $result) = overtaken($one, "SELECT redis_try_lock('granted')", 'lt_grant');

	is($result->error, undef, 'granted by the old master: no error');
	$one->query_is("SELECT redis_is_held('granted')", 't', 'granted by the old master: held');
	is($new->owner_of('granted'), $one->value("SELECT redis_lock_owner('granted')"),
		'granted by the old master: the new one has it');
	$two->query_is("SELECT redis_try_lock('granted')", 'f', 'granted by the old master: by one only');
	$one->query_is("SELECT redis_unlock('granted')", 't', 'granted by the old master: given back');
	ok(!$new->cmd('EXISTS', 'granted'), 'granted by the old master: nothing is left');
	bring_back($node, $ha, $old);
}

# Given back at the old master, which died before it could tell: the key is free at
# the new one too.
{
	$one->query_is("SELECT redis_lock('released')", '', 'a lock');
	poll_until('the replicas to have it', sub { $ha->cmd('WAIT', 2, 100) == 2 });
	my ($old, $new, $result) = overtaken($one, "SELECT redis_unlock('released')", 'lt_end_release');

	is($result->error, undef, 'given back at the old master: no error');
	poll_until('the new master to be free of it', sub { !$new->cmd('EXISTS', 'released') });
	$two->query_is("SELECT redis_try_lock('released'), redis_unlock('released')",
		't|t', 'given back at the old master: free');
	bring_back($node, $ha, $old);
}

# Lengthened at the old master: the new one has it for as long, or the session does
# not believe that it has.
{
	$one->query_is("SELECT redis_try_lock('extended', lease => '200 s')", 't', 'a given lease');
	poll_until('the replicas to have it', sub { $ha->cmd('WAIT', 2, 100) == 2 });
	my ($old, $new, $result) = overtaken($one, "SELECT redis_extend('extended', '600 s')", 'lt_set_scope');

	is($result->error, undef, 'extended at the old master: no error');
	$one->query_is("SELECT redis_is_held('extended')", 't', 'extended at the old master: held');
	cmp_ok($new->cmd('PTTL', 'extended'),
		'>', 500000, 'extended at the old master: at the new one too');
	$one->query_is("SELECT redis_unlock('extended')", 't', 'extended at the old master: given back');
	bring_back($node, $ha, $old);
}

# A given lease that nobody renews: as long at the new master as it was promised by
# the old one, although that had not told the replicas.
{
	$one->query_is("SELECT redis_try_lock('given', lease => '200 s')", 't', 'a given lease');
	poll_until('the replicas to have it', sub { $ha->cmd('WAIT', 2, 100) == 2 });
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	$old->outrun_replicas(@replicas);
	$one->query_is("SELECT redis_extend('given', '600 s')", 't', 'longer, and no replica knows');
	my $new = replace_master($node, $ha, @replicas);
	poll_until('the new master to have it as long',
		sub { $new->cmd('PTTL', 'given') > 300000 });
	$one->query_is("SELECT redis_is_held('given'), redis_unlock('given')", 't|t', 'held, given back');
	bring_back($node, $ha, $old);
}

# COMMIT before the new master was asked: it asks.  The watchdog is stopped where it
# would begin.
{
	$one->query_is('BEGIN', '', 'a transaction');
	$one->query_is("SELECT redis_xact_lock('commit')", '', 'with a lock');
	$one->query_is('CREATE TABLE t (i int)', '', 'and work');
	my $old = $ha->master;
	my $stop = LockRedis::Debugger->new($node->watchdog_pid);

	$stop->run_to('failover_happened');
	$old->kill9;
	my $new = $ha->wait_for_master_but($old);
	$stop->wait_for_stop;
	$one->query_fails('COMMIT', '58000', qr/could not reach/,
		'COMMIT before the new master was asked: refused');
	$stop->let_go;
	wait_until_used($node, $new);
	bring_back($node, $ha, $old);
}

end_test($node, $ha);
