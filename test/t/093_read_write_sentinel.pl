# Copyright (c) 2026, lockredis contributors

# Read-write locks through Sentinels: at a failover those that the new master has are
# kept, those that it has not are lost and told, and who waits goes on waiting.
# Proves G38.

use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
my $node = LockRedis::Node->create('main', redis => $ha);
my @sessions = map { $node->session } 1 .. 4;
my ($reader, $other, $writer, $waiter) = @sessions;

$node->wait_for_up;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach @sessions;

$reader->query("SELECT redis_read_lock('kept')");
$other->query("SELECT redis_read_lock('kept')");
$writer->query("SELECT redis_write_lock('written'), redis_read_lock('written')");
replicated($ha);
$waiter->start("SELECT redis_write_lock('kept')");
$node->wait_for_waiters('kept', 1);

my $old = $ha->master;
my @replicas = $ha->replicas;
$old->outrun_replicas(@replicas);
$reader->query("SELECT redis_read_lock('gone')");
$writer->query("SELECT redis_write_lock('gone too')");
$old->kill9;
$_->thaw foreach @replicas;
wait_until_used($node, $ha->wait_for_master_but($old));

$node->wait_for_loss($_) foreach 'gone', 'gone too';
$reader->query_warns("SELECT redis_read_unlock('gone')", 'f', '01000', qr/lost/,
	'a reader is told');
$writer->query_warns("SELECT redis_write_unlock('gone too')", 'f', '01000', qr/lost/,
	'a writer is told');
$reader->query_is("SELECT redis_is_held('kept'), redis_read_unlock('kept')", 't|t',
	'a reader that the new master has');
ok($waiter->is_running, 'who waits does so');
$other->query_is("SELECT redis_read_unlock('kept')", 't', 'another one');
is($waiter->wait->error, undef, 'until nobody reads');
$waiter->query_is("SELECT redis_write_unlock('kept')", 't');
$writer->query_is("SELECT redis_is_held('written', 'write'), redis_write_unlock('written'), "
	. "redis_is_held('written', 'read'), redis_read_unlock('written')", 't|t|t|t',
	'a writer that reads');

end_test($node, $ha);
