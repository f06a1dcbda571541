# Copyright (c) 2026, lockredis contributors

# The count that the store shows for a lock which the session has besides a job
# that failed: the hash field shows the number of session-level holds.
# Proves G2, G24.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);
my $node = LockRedis::Node->create(
	'main',
	url => $proxy->url,
	settings => { 'lockredis.command_timeout' => limit(60) . 's' });
my $one = $node->session;
my $two = $node->session;
my $blocker = $node->session;

$node->wait_for_up;

# Every script is loaded, those of a set too.
run($one,
	q{SELECT redis_lock('warm'), redis_lock('warm');
	  SELECT redis_unlock('warm'); SELECT redis_unlock('warm')});

sub shown { my ($r, $key) = @_; return join ' ', values %{ $r->hash($key) }; }

foreach my $command ('SELECT 1/0', q{CALL redis_with_lock('k', 'SELECT 1/0')})
{
	run($one, "SELECT redis_lock('k'), redis_lock('k')");
	(my $quoted = $command) =~ s/'/''/g;
	$one->query_fails("CALL redis_with_lock('k', '$quoted')",
		'22012', qr/division/, "$command fails");
	$one->query_is("SELECT redis_hold_count('k')", 2, 'two holds are left');
	is(shown($redis, 'k'), 2, 'and shown in Redis');
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
	is(shown($redis, 'k'), 1, 'with the right count');
	run($two, "SELECT redis_unlock('k')");
}

# The request that sets the count gets lost: what the store shows is not known
# then, so the lock is not handed over as it is.
{
	my $before = $node->lock_stat('handoffs');

	run($blocker, 'SELECT pg_advisory_lock(1)');
	run($one, "SELECT redis_lock('k')");
	$one->start(
		q{CALL redis_with_lock('k', 'SELECT pg_advisory_lock_shared(1); SELECT 1/0')});
	poll_until('the command to wait',
		sub { $node->value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1 });
	is(shown($redis, 'k'), 2, 'the job has it too');
	my $id = $proxy->rule(match => 'k', action => 'drop');
	run($blocker, 'SELECT pg_advisory_unlock(1)');
	$one->wait->fails('22012', qr/division/, 'the job fails');
	is($proxy->acted($id), 1, 'and its request is lost');
	$one->query_is("SELECT redis_hold_count('k')", 1, 'the hold of the session is left');
	$node->wait_for_up;
	$two->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', 1);
	run($one, "SELECT redis_unlock('k')");
	is($two->wait->error, undef, 'the next one has it');
	is($node->lock_stat('handoffs') - $before, 0, 'not handed over');
	is(shown($redis, 'k'), 1, 'with the right count');
	run($two, "SELECT redis_unlock('k')");
	run($one, 'SELECT pg_advisory_unlock_all()');
}

# The lock was lost: the request finds that out, and its session sees it.
{
	run($one, "SELECT redis_lock('k')");
	$one->query(q{CALL redis_with_lock('k', 'SELECT redis_force_unlock(''k''); SELECT 1/0')});
	$one->query_fails("SELECT redis_lock('k')",
		'55000', qr/was lost/, 'a lock that was lost meanwhile is lost');
	$one->query_warns("SELECT redis_unlock('k')",
		'f', '01000', qr/was lost/, 'until it is unlocked');
}

# The table shows it as well.
{
	my $table = LockRedis::Table->new;
	my $other = LockRedis::Node->create('table', redis => $table);
	my $s = $other->session;

	$other->wait_for_up;
	run($s, "SELECT redis_lock('k')");
	$s->query_fails("CALL redis_with_lock('k', 'SELECT 1/0')", '22012', qr/division/, 'fails');
	is(shown($table, 'k'), 1, 'the table shows what is left');
	$s->quit;
	nothing_left($other, $table, name => 'nothing is left in the table');
}

$_->quit foreach $one, $two, $blocker;
nothing_left($node, $redis);
done_testing();
