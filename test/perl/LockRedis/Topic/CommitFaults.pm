# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::CommitFaults - a server whose Redis fails at the end of
transactions

=head1 DESCRIPTION

What the tests 104_commit_faults and 106_commit_ends have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::CommitFaults;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

our @EXPORT = qw($connect $command $budget $slack $redis $proxy $node $one
  start_servers recovered nothing_worse);

our ($connect, $command, $budget, $slack, $redis, $proxy, $node, $one);

sub start_servers
{
	# Budget of a call, and what may be added on a busy machine.
	$connect = limit(0.5);
	$command = limit(2);
	$budget = ($connect + $command) * 1000;
	$slack = limit(6) * 1000;

	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$node = LockRedis::Node->create(
		'main',
		url => $proxy->url,
		settings => {
			'lockredis.lease' => '10min',
			'lockredis.connect_timeout' => "${connect}s",
			'lockredis.command_timeout' => "${command}s"
		});
	$one = $node->session;

	$node->wait_for_up;

	# Afterwards Redis has every script: a fault is to hit the first attempt.
	run($one,
		q{CREATE TABLE t (a int);
		  BEGIN; SELECT redis_lock('warm'), redis_lock('warm'), redis_xact_lock('warm');
		  SELECT redis_unlock_all(); COMMIT;
		  SET lockredis.commit_guard = 'verify'; SELECT redis_xact_lock('warm');
		  RESET lockredis.commit_guard});
	return;
}

# All is well again, and nothing has been forgotten.
sub recovered ($s, $name)
{
	poll_until('all locks to be given back',
		sub { !$redis->all_keys && $node->count_locks == 0 });
	$node->wait_until_asked($s);
	return $s->query_is(
		"BEGIN; SELECT redis_xact_lock('a'), redis_xact_lock('b'); COMMIT",
		'|', "$name: locks work again, and all were given back");
}

# In the end: whatever happened, nothing worse has; "killed" processes were killed by
# the test.
sub nothing_worse ($killed)
{
	ok( !$node->logged(
			qr/PANIC|TRAP:|while in COMMIT|signal (?:6|11)\b|out of shared memory/),
		'no PANIC, no failed assertion, no warning of the transaction machinery');
	is($node->times_logged(qr/was terminated by signal/),
		$killed, 'processes that were killed');
	return;
}

1;
