# Copyright (c) 2026, lockredis contributors

# The replicas of a Redis Cluster in redis_lock_status: a row for each, whose number stays,
# up while the cluster does not say that it has failed, and no master that is missing.

use LockRedis::RedisCluster;
use LockRedis::Test;

my $cluster = LockRedis::RedisCluster->new;
my $node = LockRedis::Node->create('main', redis => $cluster);

sub addresses ($where)
{
	return $node->value(qq{
		SELECT string_agg(address, ' ' ORDER BY address COLLATE "C") FROM redis_lock_status WHERE $where});
}

sub addresses_of { return join ' ', sort map { $_->address } @_; }

sub wait_for ($what, $where, @nodes)
{
	return is(poll_until($what, sub { addresses($where) eq addresses_of(@nodes) }), 1, $what);
}

my @masters = $cluster->masters;
my %is_master = map { $_->id => 1 } @masters;
my @replicas = grep { !$is_master{ $_->id } } $cluster->nodes;

wait_for('the masters are up', q{role = 'master' AND state = 'up' AND in_use}, @masters);
wait_for('the replicas are up', q{role = 'replica' AND state = 'up' AND NOT in_use}, @replicas);
is($node->value('SELECT count(*) FROM redis_lock_status'), 6, 'there are no others');
is($node->value(q{SELECT count(*) FROM redis_lock_status WHERE role = 'replica' AND
	num_nonnulls(round_trip, version, renewal_lag, maxmemory_policy, last_error, since, reason) > 0}),
	0, 'of a replica nothing else is known');

# Each node lists the others in an order of its own.
my $rows = q{SELECT string_agg(node || ' ' || address, ', ' ORDER BY node) FROM redis_lock_status};
my $before = $node->value($rows);
my $asked = $cluster->calls('cluster|nodes');
my $moved = $before;
poll_until('many answers to have come', sub {
	my $now = $node->value($rows);

	$moved = $now if $now ne $before;
	return $cluster->calls('cluster|nodes') >= $asked + 20 });
is($moved, $before, 'the numbers of the rows stay');

# One that has failed
my $gone = $cluster->replica_of($masters[0]);
$cluster->be_patient(0);
$gone->kill9;
wait_for('one is down', q{role = 'replica' AND state = 'down'}, $gone);
wait_for('the others are up', q{role = 'replica' AND state = 'up'},
	grep { $_ != $gone } @replicas);
wait_for('as are the masters', q{role = 'master' AND up}, @masters);
$cluster->be_patient(1);
$gone->start;
wait_for('it is back', q{role = 'replica' AND state = 'up'}, @replicas);

# A master that becomes a replica
my $new = $cluster->fail_over($masters[1]);
wait_for('another master', q{role = 'master' AND up AND in_use},
	$new, grep { $_ != $masters[1] } @masters);
wait_for('another replica', q{role = 'replica' AND up},
	$masters[1], grep { $_ != $new } @replicas);

# Of which nobody tells any more, to another watchdog
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;
$_->kill9 foreach $cluster->nodes;
kill $_, $watchdog foreach 'TERM', 'CONT';
poll_until('another watchdog', sub { ($node->watchdog_pid // $watchdog) != $watchdog });
wait_for('a replica of which nobody tells is not up', q{role = 'replica' AND state = 'up'});

# A single Redis has those that it tells of
my $single = LockRedis::Redis->new(name => 'single');
$node->set('lockredis.url' => $single->url);
wait_for('no row of the cluster is left', 'true', $single);
done_testing();
