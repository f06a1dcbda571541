# Copyright (c) 2026, lockredis contributors

# What docs/postgres-failover.md says: a primary fails over to its standby, both use one Redis.
# - The primary crashes: its locks stay until their leases end, and no longer; a session that
#   was waiting on the standby goes on waiting through the promotion, and gets the lock then.
#   A job whose key stays locked (hold_at_least) is not run again by the new primary.
# - The fence table of the standby may lack what the primary recorded last.  Tokens go on above
#   all that were given out, since their counter is in Redis.
# - A switchover: the primary is shut down, which releases its locks at once, however long their
#   leases are.  It comes back as a standby, under another instance name, and its locks and those
#   of the new primary exclude each other.
# Proves G4, G8, G17.

use LockRedis::Test qw(:DEFAULT owner_in);

my $redis = LockRedis::Redis->new;
my $first = LockRedis::Node->create(
	'first',
	redis => $redis,
	settings => { 'lockredis.lease' => '12s', wal_level => 'replica', max_wal_senders => 4 });

sub instance_of ($key) { return substr(owner_in($redis->hash($key)), 0, 36); }

# A standby of a server, with its data
sub standby_of ($node, $name)
{
	my $standby = LockRedis::Node->new($name);

	$node->backup("for_$name");
	$standby->init_from_backup($node, "for_$name", has_streaming => 1);
	$standby->start;
	$standby->wait_for_up;
	return $standby;
}

# ----------
# The primary crashes.
# ----------

my $second = standby_of($first, 'second');
my ($one, $two, $three) = map { $first->session } 1 .. 3;

$one->query_is("SELECT redis_lock('leader')", '', 'crash: the primary holds a lock');
my $recorded = $two->value("SELECT redis_fenced_xact_lock('account')");
$first->wait_for_catchup($second);

# From here on the standby receives nothing: replication is asynchronous.
$second->set(primary_conninfo => '');
poll_until('replication to end',
	sub { $first->value('SELECT count(*) FROM pg_stat_replication') == 0 });
my $unreplicated = $two->value("SELECT redis_fenced_xact_lock('account')");
cmp_ok($unreplicated, '>', $recorded, 'crash: a token that the standby does not learn');
$three->query_is("CALL redis_with_lock('nightly', 'SELECT 1', hold_at_least => '1 hour')",
	't', 'crash: a job that holds its key for an hour');

my $waiter = $second->session;
$second->queue_up('leader', $waiter => "SELECT redis_lock('leader')");
my $old = instance_of('leader');
my $own = $second->value('SELECT instance FROM redis_lock_status LIMIT 1');

$first->stop('immediate');
my $stopped = now();
$_->quit foreach $one, $two, $three;
$second->promote;
is(instance_of('leader'), $old, 'crash: the lock is still that of the dead primary');
is($waiter->wait(60)->error, undef, 'crash: the wait goes on and ends with the lock');
cmp_ok(now() - $stopped, '<', 30, 'crash: when the lease of 12 s has ended');
is(instance_of('leader'), $own, 'crash: now it is of the new primary');
is($second->value('SELECT instance FROM redis_lock_status LIMIT 1'),
	$own, 'crash: whose instance is the same as before the promotion');

my $four = $second->session;
is($four->value(q{SELECT max(token) FROM redis_fences WHERE key = 'account'}),
	$recorded, 'crash: the last token has not arrived');
cmp_ok($four->value("SELECT redis_fenced_xact_lock('account')"),
	'>', $unreplicated, 'crash: the next one is above it all the same');
$four->query_is("CALL redis_with_lock('nightly', 'SELECT 1', wait => '0')",
	'f', 'crash: the job is not run again');

# ----------
# A switchover: the clean end of a primary.
# ----------

my $third = standby_of($second, 'third');
$waiter->query('SELECT redis_unlock_all()');
$waiter->query_is("SELECT redis_lock('leader', '1 hour')", '', 'switchover: a lock for an hour');
$one = $third->session;
$third->queue_up('leader', $one => "SELECT redis_lock('leader')");
$second->stop('fast');
is($one->wait(30)->error, undef, 'switchover: it is released by the shutdown');
$third->promote;
$one->query_is("SELECT redis_is_held('leader')", 't', 'switchover: held through the promotion');
$_->quit foreach $waiter, $four;

$second->enable_streaming($third);
$second->append_conf('postgresql.conf', "recovery_target_timeline = 'latest'");
$second->start;
$second->wait_for_up;
is($second->value('SELECT pg_is_in_recovery()'), 't', 'switchover: the old primary is a standby');
my $back = $second->value('SELECT instance FROM redis_lock_status LIMIT 1');
isnt($back, $own, 'switchover: another instance than before');
isnt($back, instance_of('leader'), 'switchover: and than the new primary');
$two = $second->session;
$two->query_is("SELECT redis_try_lock('leader')", 'f', 'switchover: the new primary has the lock');
$two->query_is("SELECT redis_try_lock('reports')", 't', 'switchover: locks can be taken on it');
$one->query_is("SELECT redis_try_lock('reports')", 'f', 'switchover: they exclude the primary');
$two->query_fails("SELECT redis_fenced_xact_lock('account')",
	'25006', qr/read-only|recovery/, 'switchover: but it cannot record a token');

end_test([ $second, $third ], $redis, name => 'nothing is left', keys => qr/account|nightly/);
