# Copyright (c) 2026, lockredis contributors

# redis_lock_status has a row for each replica that the master names, as the master
# last said how it is: behind the master and before the Sentinels.
#
# - One that is in step is up; one that is not yet, and all of them while the master
#   does not answer or does not say, are connecting; one that has gone has no row.
# - The replicas of another master after a change of lockredis.url take their place (402_failover
#   has a failover).
#
# Proves G36.

use LockRedis::Test;
use LockRedis::Topic::Replicas;

start_servers();

my $rows = "SELECT string_agg(role || ' ' || state, ', ' ORDER BY node) FROM redis_lock_status";

sub shown ($wanted, $name)
{
	ok(eval { poll_until($name, sub { $node->value($rows) eq $wanted }) }, $name)
	  || diag $node->value($rows);
	return;
}

# ----------
# What a row has
# ----------

shown('master up, replica up, replica up', 'two replicas');
is( $node->value(
		"SELECT string_agg(address, ' ' ORDER BY address) FROM redis_lock_status WHERE role = 'replica'"),
	join(' ', sort map { '127.0.0.1:' . $_->port } @replicas),
	'where they are');
is( $node->value(<<'SQL'), '2|t|t', 'what is not known of them is null, and they take no locks');
SELECT count(*),
    bool_and(up AND NOT in_use),
    num_nulls(VARIADIC array_agg(coalesce(round_trip::text, version, renewal_lag::text,
        maxmemory_policy, last_error, last_error_at::text, since::text, reason))) = 2
FROM redis_lock_status WHERE role = 'replica'
SQL
$node->safe_psql('postgres', 'CREATE ROLE bob');
is($node->value('SET ROLE bob; SELECT count(*) || \' \' || count(address) FROM redis_lock_status'),
	'3 0', 'no address for everybody');

# ----------
# What changes
# ----------

$redis->cmd('CONFIG', 'SET', 'repl-diskless-sync-delay', 3600);
my $third = new_replica_of($redis, 'third');
shown('master up, replica up, replica up, replica connecting', 'one that is not in step yet');
$redis->cmd('CONFIG', 'SET', 'repl-diskless-sync-delay', 0);
shown('master up, replica up, replica up, replica up', 'and then is');
$third->stop;
shown('master up, replica up, replica up', 'one that has gone');

$proxy->mode('refuse');
$proxy->reset_all;
shown('master down, replica connecting, replica connecting',
	'nobody knows while the master does not answer');
$proxy->mode('pass');
shown('master up, replica up, replica up', 'the master is back');

# Over the same connection, and over another one
$redis->cmd('ACL', 'SETUSER', 'default', '-info');
shown('master up, replica connecting, replica connecting', 'the master does not say any more');
$redis->cmd('ACL', 'SETUSER', 'default', '+info');
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal');
shown('master up, replica up, replica up', 'it says it again');

$node->set('lockredis.url' => 'redis://127.0.0.1:1');
shown('master down', 'another Redis, which does not answer: these were not its replicas');
my $alone = LockRedis::Redis->new(name => 'alone');
$node->set('lockredis.url' => $alone->url);
shown('master up', 'another Redis, without replicas');

# A replica is no master; its own are not shown.
my $below = new_replica_of($replicas[0], 'below');
poll_until('it to have one',
	sub { $replicas[0]->cmd('INFO', 'replication') =~ /^slave0:.*state=online/m });
$node->set('lockredis.url' => $replicas[0]->url);
shown('replica up', 'a replica that lockredis.url names');

done_testing();
