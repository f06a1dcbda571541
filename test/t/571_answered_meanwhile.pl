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
# granted, and waits as long as that client may have the lock.  (Likewise if the table was
# locked by somebody, so that the session's request was sent again after all that: the
# simulator's mutant judged_when_sent.)
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

$node->cut_off($proxy);
my $warm = $node->session;
$warm->start("SELECT redis_lock('warm'), redis_unlock('warm')");
is($warm->wait(120)->error, undef, 'the table grants keys that nobody here has had');
$warm->quit;

my $one = $node->session;
my $stop = LockRedis::Debugger->new($one->pid);

$stop->run_to('lt_grant');
$one->start("SELECT redis_lock('k')");
$stop->wait_for_stop;
isnt(owner_in($table->hash('k')), '', 'the table has granted it');
$redis->foreign_lock('k', owner => 'elsewhere:1', ms => 22_000);
$proxy->mode('pass');
master_is('up');
$proxy->mode('refuse');
$proxy->reset_all;
master_is('down');
is($node->store_in_use, 'table', 'Redis was not there for long enough');
$stop->let_go;
is($one->wait(120)->error, undef, 'the session has the lock');
is($redis->cmd('EXISTS', 'k'), '0', 'the other client has it no more');
$one->query_is("SELECT redis_unlock('k')", 't', 'released');

$node->reconnect($proxy);
end_test($node, $redis);
