# Copyright (c) 2026, lockredis contributors

# Fallback mode and the ends of servers: a crash during an outage, and a standby,
# which stays with Redis, and is promoted with rows of the dead primary in its
# table.
# Proves G26.

use LockRedis::Test qw(:DEFAULT owner_in);

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	settings => {
		'lockredis.lease' => '3s',
		wal_level => 'replica',
		max_wal_senders => 4
	});

#
# A crash during an outage: the new instance has nothing, begins with Redis, and
# goes to the table; rows of the old one do not count.
#

my $one = $node->session;
$one->query_is("SELECT redis_lock('crash')", '', 'crash: held');
$node->cut_off($proxy);
poll_until('the lock to be in the table', sub { $table->cmd('EXISTS', 'crash') eq '1' });
my $owner = owner_in($table->hash('crash'));
$one->kill9;
poll_until('the server to be there again',
	sub { eval { $node->store_in_use } });
$node->wait_for_store('table');
my $two = $node->session;
$two->start("SELECT redis_lock('crash')");
is($two->wait(20)->error, undef, 'crash: free when a lease is over');
isnt(owner_in($table->hash('crash')), $owner, 'crash: by a new owner');
$owner = owner_in($table->hash('crash'));
$node->reconnect($proxy);
poll_until('the lock to be in Redis',
	sub { owner_in($redis->hash('crash')) eq $owner });
$two->query_is("SELECT redis_is_held('crash')", 't', 'crash: held over the way back');
$two->query_is("SELECT redis_unlock('crash')", 't', 'crash: given back');
$two->quit;
nothing_left($node, $redis, name => 'crash: nothing is left');

#
# A standby has no table to write.
#

$node->backup('backup');
my $standby = LockRedis::Node->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$standby->wait_for_up;
$one = $node->session;
$one->query_is("SELECT redis_lock('failover')", '', 'failover: the primary has it');
$node->cut_off($proxy);
poll_until('the row to be there', sub { $table->cmd('EXISTS', 'failover') eq '1' });
pause(1.5);
is($standby->store_in_use, 'master', 'standby: it stays with Redis');
$two = $standby->session;
$two->query_fails("SELECT redis_try_lock('failover')",
	'58000', qr/lock store/, 'standby: so there are no locks');
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
$standby->wait_for_store('table');
$two->start("SELECT redis_lock('failover')");
is($two->wait(20)->error, undef, 'failover: the new primary takes it in the table');
$table->use_node($standby);
isnt(owner_in($table->hash('failover')), '', 'failover: it is there');
$two->query_is("SELECT redis_unlock('failover')", 't', 'failover: given back');
$proxy->mode('pass');
$standby->wait_for_store('master');
end_test($standby, $redis, name => 'failover: nothing is left');
