# Copyright (c) 2026, lockredis contributors

# As 621_alerts, with several nodes: a shard of a cluster is away; replicas do not confirm, Sentinels
# are away, another node is the master; most masters have no vote; in fallback mode locks are in the
# table, also after Redis was made a replica.
# Alerts are no guarantee: they tell of what the views show (G36).

use LockRedis::Alerts qw(has all_are_one);
use LockRedis::Masters;
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
# Independent masters
# ----------

my $masters = LockRedis::Masters->new(n => 3);
$node = LockRedis::Node->create('masters', redis => $masters, patient => 1, extension => 0);
$alerts = LockRedis::Alerts->new($node, ($masters->nodes)[2]);
@all_up = (all_are_one('node_in_use'), has('node_up{node="3",role="master"', 1));

$incident = $alerts->begin('most have no vote', from => \@all_up);
$masters->restart_empty(0, 1);
$incident->seen(all_are_one('node_up'), map { has(qq(node_in_use{node="$_"), 0) } 1, 2);
like($incident->look('LockRedisDown'), qr/^master\|up\|f\|restarted/m, 'no vote: until when');
$node->stop;
$masters->restart_old(0, 1);
$node->start;
$incident->over(\@all_up, 'LockRedisDown');
$alerts->exporter->stop;
$node->stop;
$_->stop foreach $masters->nodes;

# ----------
# Fallback mode
# ----------

my $redis = LockRedis::Redis->new;
$node = LockRedis::Node->create('fallback', redis => $redis, extension => 0,
	settings => { 'lockredis.mode' => 'fallback', 'lockredis.fallback_after' => '1s' });
$alerts = LockRedis::Alerts->new($node, $redis);
@all_up = (all_are_one('node_up'), has('node_in_use{node="1",role="master"', 1), has('node_up{node="2",role="table"', 1));

$incident = $alerts->begin('locks are in the table', from => \@all_up);
$redis->kill9;
$incident->seen(has('node_in_use{node="2",role="table"', 1), has('node_in_use{node="1",role="master"', 0));
like($incident->look('LockRedisOnTable'), qr/^table\|up\|t\|20.*\|.+$/m, 'the table: since when, and why');
$redis->start;
$incident->over(\@all_up, 'LockRedisOnTable', 'LockRedisNodeDown');

$incident = $alerts->begin('what was made a replica is away', from => \@all_up);
$redis->cmd('REPLICAOF', '127.0.0.1', 1);
poll_until('that to be seen', sub { $node->lock_status('role') eq 'replica' });
$redis->kill9;
$incident->seen(has('node_in_use{node="2",role="table"', 1), has('node_in_use{node="1",role="replica"', 0));
$redis->start;
$incident->over(\@all_up, 'LockRedisOnTable', 'LockRedisNodeDown');
$alerts->exporter->stop;

end_test($node, $redis);
