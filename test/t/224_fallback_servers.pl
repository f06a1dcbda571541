# Copyright (c) 2026, lockredis contributors

# Fallback mode: a job that ends while nobody answers keeps its key; a lease that a reload lowers
# counts until a restart.  And a standby: it has no table to write, so it stays with Redis, and is
# promoted with rows of the dead primary in its table.  (A crash during an outage is the
# simulator's.)
# Proves G26.

use LockRedis::Test qw(:DEFAULT owner_in);

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	settings => {
		'lockredis.lease' => '3s',
		'lockredis.fallback_after' => '2s',
		wal_level => 'replica',
		max_wal_senders => 4
	});

# The job ends while Redis is known to be away, and before the table takes over.
my ($one, $two) = map { $node->session } 1 .. 2;
$two->query('SELECT pg_advisory_lock(1)');
$one->start(q{CALL redis_with_lock('job', 'SELECT pg_advisory_lock(1)', hold_at_least => '1h')});
$node->wait_for_postgres_lock($one);
$proxy->mode('refuse');
$proxy->reset_all;
$node->wait_for_state('down');
$two->query('SELECT pg_advisory_unlock(1)');
is($one->wait->out, 't', 'a job while nobody answers');
$node->wait_for_store('table');
$two->query_is("CALL redis_with_lock('job', 'SELECT 1', wait => '5s')", 'f', 'keeps its key');
$two->query_is("SELECT redis_try_lock('new', '20s'), redis_unlock('new')", 't|t', 'a free key');

# Somebody elsewhere may still have a lock with the lease of before the reload.
$_->quit foreach $one, $two;
$node->reconnect($proxy);
$redis->cmd('DEL', 'job');
$node->set('lockredis.lease' => '60s', 'lockredis.fallback_after' => '1s');
$node->restart;
$node->wait_for_store('master');
$node->set('lockredis.lease' => '3s');
$node->cut_off($proxy);
is($node->value("SELECT redis_try_lock('new', '6s')"), 'f', 'the longest lease counts');
$node->reconnect($proxy);

$node->backup('backup');
my $standby = LockRedis::Node->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$standby->wait_for_up;
$one = $node->session;
$one->query_is("SELECT redis_lock('failover')", '', 'the primary has it');
$node->cut_off($proxy);
poll_until('the row to be there', sub { $table->cmd('EXISTS', 'failover') eq '1' });
pause(1.5);
is($standby->store_in_use, 'master', 'it stays with Redis');
$two = $standby->session;
$two->query_fails("SELECT redis_try_lock('failover')",
	'58000', qr/lock store/, 'so there are no locks');
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
$standby->wait_for_store('table');
$two->start("SELECT redis_lock('failover')");
is($two->wait(20)->error, undef, 'the new primary takes it in the table');
$table->use_node($standby);
isnt(owner_in($table->hash('failover')), '', 'it is there');
$two->query_is("SELECT redis_unlock('failover')", 't', 'given back');
$proxy->mode('pass');
$standby->wait_for_store('master');
end_test($standby, $redis, name => 'nothing is left');
