# Copyright (c) 2026, lockredis contributors

# As 621_alerts, with several nodes: a shard of a cluster is away; replicas do not confirm, Sentinels
# are away, another node is the master; in fallback mode locks are in the table.
# Alerts are no guarantee: they tell of what the views show (G36).

use LockRedis::Alerts qw(has all_are_one);
use LockRedis::RedisCluster;
use LockRedis::Sentinels;
use LockRedis::Test;

need_tool($_) foreach 'promtool', 'prometheus-postgres-exporter';

my $incident;

# ----------
# A cluster, whose replicas wait for a command
# ----------

my $cluster = LockRedis::RedisCluster->new(config => { 'cluster-replica-no-failover' => 'yes' });
my $node = LockRedis::Node->create('cluster', redis => $cluster, patient => 1, extension => 0);
my ($alive, $victim) = $cluster->masters;
my $replica = $cluster->replica_of($victim);
my $slot = $cluster->slot($cluster->key_on($victim, 'k'));
my $there = '127.0.0.1:' . $victim->port;
my $alerts = LockRedis::Alerts->new($node, $alive);
my @all_up = (all_are_one('node_up'), has('node_up{node="6",role="replica"', 1));

$incident = $alerts->begin('a shard is away', from => \@all_up);
$cluster->be_patient(0);
$victim->kill9;
$incident->seen(has('node_up{node="', 0));
poll_until('the other nodes to miss it', sub { $alive->cmd('CLUSTER', 'NODES') =~ /\Q$there\E\S* master\S*,fail/ });
like($incident->look('LockRedisShardDown'), qr/^\d\|\Q$there\E\|.*^\w+ \Q$there\E\S* master\S*,fail/ms, 'a shard: which');
$incident->do('LockRedisShardDown', $replica);
$cluster->wait_for_master_but($victim, $slot);
$victim->start;
$cluster->wait_until_steady;
$incident->over(\@all_up, 'LockRedisShardDown', 'LockRedisNodeDown');
$alerts->exporter->stop;
$node->stop;
$_->stop foreach $cluster->nodes;

# ----------
# Sentinels
# ----------

my $ha = LockRedis::Sentinels->new;
$node = LockRedis::Node->create('ha', redis => $ha, patient => 1, extension => 0,
	settings => { 'lockredis.min_replicas' => 1 });
$alerts = LockRedis::Alerts->new($node, $ha->master);
@all_up = (all_are_one('node_up'), has('node_up{node="6",role="sentinel"', 1));

$incident = $alerts->begin('replicas do not confirm', from => \@all_up);
my $session = $node->session(settings => { 'lockredis.replica_timeout' => '100ms' });
my @replicas = $ha->replicas;
$_->freeze foreach @replicas;
$session->query_fails("SELECT redis_lock('k')", '58030', qr/could not be replicated/, 'replicas: no lock');
$incident->seen(has('stats_unreplicated', 1));
$_->thaw foreach @replicas;
like($incident->look('LockRedisReplicasMissing', $ha->master), qr/connected_slaves:2/, 'replicas: they are connected');
$session->quit;
$ha->wait_until_steady;
$incident->over(\@all_up, 'LockRedisReplicasMissing');

$incident = $alerts->begin('Sentinels are away');
my (undef, @away) = $ha->sentinels;
$_->kill9 foreach @away;
$incident->seen(has('node_up{node="5",role="sentinel"', 0), has('node_up{node="6",role="sentinel"', 0));
like($incident->look('LockRedisSentinelsMissing'), qr/^5\|.*refused.*^6\|.*refused/ms, 'Sentinels: which');
$_->start foreach @away;
$ha->wait_until_steady;
$incident->over(\@all_up, 'LockRedisSentinelsMissing', 'LockRedisNodeDown');

$incident = $alerts->begin('a failover');
$ha->fail_over;
$incident->seen(has('stats_failovers', 1), @all_up);
$incident->over(\@all_up, 'LockRedisFailover');
$alerts->exporter->stop;
$node->stop;

# ----------
# Fallback mode
# ----------

my $redis = LockRedis::Redis->new;
$node = LockRedis::Node->create(
	'fallback',
	redis => $redis,
	extension => 0,
	settings => { 'lockredis.mode' => 'fallback', 'lockredis.fallback_after' => '1s' });
$alerts = LockRedis::Alerts->new($node, $redis);
@all_up = (all_are_one('node_up'), has('node_in_use{node="1",role="master"', 1), has('node_up{node="2",role="table"', 1));

$incident = $alerts->begin('locks are in the table', from => \@all_up);
$redis->kill9;
$incident->seen(has('node_in_use{node="2",role="table"', 1), has('node_in_use{node="1",role="master"', 0));
like($incident->look('LockRedisOnTable'), qr/^table\|up\|t\|20.*\|.+$/m, 'the table: since when, and why');
$redis->start;
$incident->over(\@all_up, 'LockRedisOnTable', 'LockRedisNodeDown');
$alerts->exporter->stop;

end_test($node, $redis);
