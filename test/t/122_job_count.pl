# Copyright (c) 2026, lockredis contributors

# How often a session has a lock besides a job that failed; the store knows nothing of
# that, and the next one gets the lock as it should be.
# Proves G2, G24.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);
my $one = $node->session;
my $two = $node->session;

$node->wait_for_up;

foreach my $command ('SELECT 1/0', q{CALL redis_with_lock('k', 'SELECT 1/0')})
{
	run($one, "SELECT redis_lock('k'), redis_lock('k')");
	(my $quoted = $command) =~ s/'/''/g;
	$one->query_fails("CALL redis_with_lock('k', '$quoted')",
		'22012', qr/division/, "$command fails");
	$one->query_is("SELECT redis_hold_count('k')", 2, 'two holds are left');
	$one->query_is("SELECT redis_unlock('k'), redis_unlock('k')", 't|t', 'given back');
	is(scalar($redis->all_keys), 0, 'all of it');
}

# A waiter gets the lock as it should be.
{
	my $before = $node->lock_stat('handoffs');

	run($one, "SELECT redis_lock('k')");
	$one->query("CALL redis_with_lock('k', 'SELECT 1/0')");
	$two->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	run($one, "SELECT redis_unlock('k')");
	is($two->wait->error, undef, 'the next one has it');
	is($node->lock_stat('handoffs') - $before, 1, 'handed over');
	is_deeply([ values %{ $redis->hash('k') } ], [1], 'as it should be');
	run($two, "SELECT redis_unlock('k')");
}

# The lock was lost: its session sees it.
{
	run($one, "SELECT redis_lock('k')");
	$one->query(q{CALL redis_with_lock('k', 'SELECT redis_force_unlock(''k''); SELECT 1/0')});
	$one->query_fails("SELECT redis_lock('k')",
		'55000', qr/was lost/, 'a lock that was lost meanwhile is lost');
	$one->query_warns("SELECT redis_unlock('k')",
		'f', '01000', qr/was lost/, 'until it is unlocked');
}

$_->quit foreach $one, $two;
nothing_left($node, $redis);
done_testing();
