# Copyright (c) 2026, lockredis contributors

# A session asks the table, since Redis has been silent for longer than any lease that it
# may have given lasts.  Before the session has the answer Redis is there for a moment, in
# which somebody elsewhere takes the key, and is silent again:
#
#   session                             Redis
#   nobody elsewhere can have the key
#   asks the table
#   the table has granted it            is there, grants the key to another client
#                                       is silent
#   has the lock?
#
# The judgement of before is worth nothing: the session gives back what the table has
# granted, and waits as long as that client may have the lock.  Likewise if the table was
# locked by somebody, so that the session's request was sent again after all that.
#
# Proves G26.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Debugger->need;

# Redis has to answer for 8 s before new locks go there again.
my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main',
	settings => { 'lockredis.lease' => '25s', 'lockredis.fallback_after' => '16s',
		'lockredis.command_timeout' => '1min' });

sub master_is
{
	my ($state) = @_;

	poll_until("the master to be $state", sub {
		$node->value("SELECT state FROM redis_lock_status WHERE role = 'master'") eq $state;
	});
	return;
}

sub answer_for_a_moment
{
	$proxy->mode('pass');
	master_is('up');
	$proxy->mode('refuse');
	$proxy->reset_all;
	master_is('down');
	return;
}

sub granted_beside
{
	my ($key, $sql) = @_;
	my $one = $node->session;
	my $stop = LockRedis::Debugger->new($one->pid);

	$stop->run_to('lt_grant');
	$one->start($sql);
	$stop->wait_for_stop;
	isnt(owner_in($table->hash($key)), '', "$key: the table has granted it");
	$redis->foreign_lock($key, owner => 'elsewhere:1', ms => 22_000);
	answer_for_a_moment();
	is($node->store_in_use, 'table', "$key: Redis was not there for long enough");
	$stop->let_go;
	is($one->wait(120)->error, undef, "$key: the session has the lock");
	is($redis->cmd('EXISTS', $key), '0', "$key: the other client has it no more");
	$one->query_is("SELECT redis_unlock('$key')", 't', "$key: released");
	$one->quit;
	return;
}

$node->cut_off($proxy);
my $warm = $node->session;
$warm->start("SELECT redis_lock('warm'), redis_unlock('warm')");
is($warm->wait(120)->error, undef, 'the table grants keys that nobody here has had');
$warm->quit;

granted_beside('plain', "SELECT redis_lock('plain')");
granted_beside('tried', "SELECT redis_try_lock('tried', '50s')");

# The worker finds the table locked, and the session asks it again and again.
{
	my ($one, $admin) = map { $node->session } 1 .. 2;

	$admin->query('BEGIN; LOCK TABLE redis_lock_rows');
	$one->start("SELECT redis_lock('blocked')");
	poll_until('it to ask the table', sub {
		$node->value('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $one->pid) eq
		  'Extension' });
	$redis->foreign_lock('blocked', owner => 'elsewhere:1', ms => 22_000);
	answer_for_a_moment();
	is($node->store_in_use, 'table', 'blocked: Redis was not there for long enough');
	ok($one->is_running, 'blocked: it still asks');
	$admin->query('ROLLBACK');
	is($one->wait(120)->error, undef, 'blocked: the session has the lock');
	is($redis->cmd('EXISTS', 'blocked'), '0', 'blocked: the other client has it no more');
	$one->query_is("SELECT redis_unlock('blocked')", 't', 'blocked: released');
	$_->quit foreach $one, $admin;
}

$node->reconnect($proxy);
end_test($node, $redis);
