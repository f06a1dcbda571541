# Copyright (c) 2026, lockredis contributors

# Fallback mode and a standby: it has no table to write, so it stays with Redis, and is
# promoted with rows of the dead primary in its table.  (A crash during an outage is the
# simulator's.)
# Proves G26.

use LockRedis::Test qw(:DEFAULT owner_in);

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	settings => {
		'lockredis.lease' => '3s',
		wal_level => 'replica',
		max_wal_senders => 4
	});

$node->backup('backup');
my $standby = LockRedis::Node->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$standby->wait_for_up;
my $one = $node->session;
$one->query_is("SELECT redis_lock('failover')", '', 'the primary has it');
$node->cut_off($proxy);
poll_until('the row to be there', sub { $table->cmd('EXISTS', 'failover') eq '1' });
pause(1.5);
is($standby->store_in_use, 'master', 'it stays with Redis');
my $two = $standby->session;
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
