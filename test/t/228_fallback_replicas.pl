# Copyright (c) 2026, lockredis contributors

# Fallback mode with lockredis.min_replicas: in the table it does nothing; on the way
# back replicas have to confirm each lock, and one that they do not stays in the table,
# held, and is tried again.  What asks for none goes back at once.
#
# Proves G26, G37.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

my $redis = LockRedis::Redis->new(config => { 'repl-diskless-sync-delay' => 0 });
my $replica = new_replica_of($redis, 'replica');
my ($node, undef, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	redis => $redis,
	settings => {
		'lockredis.lease' => '30s',
		'lockredis.command_timeout' => '3s',
		'lockredis.replica_timeout' => '1s'
	});
my $none = $node->session;
my $one = $node->session(settings => { 'lockredis.min_replicas' => 1 });

sub is_in
{
	my ($store, $key) = @_;

	return $store->cmd('EXISTS', $key) eq '1';
}

wait_for_replicas($redis, 1);
run($one, "SELECT redis_lock('before')");
$node->cut_off($proxy);
poll_until('a lock to be in the table', sub { is_in($table, 'before') });

# No replica can be asked, nor has it to be.
run($one, "SELECT redis_lock('meanwhile'), redis_lock('given', '5 min')");
run($none, "SELECT redis_lock('without')");

# Back, without its replica
$replica->freeze;
$redis->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
wait_for_replicas($redis, 0);
my $unreplicated = $node->lock_stat('unreplicated');
$node->reconnect($proxy);
poll_until('what asks for none to be in Redis',
	sub { is_in($redis, 'without') && !is_in($table, 'without') });
poll_until('the others to be tried again and again',
	sub { $node->lock_stat('unreplicated') >= $unreplicated + 9 });
foreach my $key ('before', 'meanwhile', 'given')
{
	ok(is_in($table, $key), "$key: stays in the table");
	$one->query_is("SELECT redis_is_held('$key')", 't', "$key: and is held");
}
is($node->lock_stat('losses'), 0, 'nothing is lost');

# And with it
$replica->thaw;
foreach my $key ('before', 'meanwhile', 'given')
{
	poll_until("$key to be in Redis alone",
		sub { is_in($redis, $key) && !is_in($table, $key) });
	$one->query_is("SELECT redis_is_held('$key')", 't', "$key: held there");
	is($replica->cmd('EXISTS', $key), 1, "$key: and the replica has it");
}
is($node->lock_stat('losses'), 0, 'nothing was lost');
$one->query_is('SELECT redis_unlock_all()', '3', 'given back');
$none->query_is('SELECT redis_unlock_all()', '1', 'given back');
end_test($node, $redis, clients => 3);
