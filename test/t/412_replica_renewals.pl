# Copyright (c) 2026, lockredis contributors

# The watchdog's renewals with lockredis.min_replicas: they count only when
# replicas have confirmed them.  Without replicas such locks end with their lease,
# and others do not lose theirs by it; the log says so once.  A renewal writes even
# where it changes nothing, so that there is something to confirm.  407_double_grant has
# what it is for.  (One that was asked with fewer replicas than the lock has come to want, and
# what was handed over, are the simulator's: its mutants fewer_replicas, renewal_not_confirmed.)
#
# Proves G37.

use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Replicas;

# "quick" and "brief" have less than a WAIT may take; all have more than a busy machine needs.
start_servers(
	'lockredis.lease' => '15s',
	'lockredis.replica_timeout' => '8s',
	'lockredis.command_timeout' => '15s');

my $one = $node->session(settings => { 'lockredis.min_replicas' => 1 });
my $two = $node->session(settings => { 'lockredis.min_replicas' => 2 });
my $quick = $node->session(settings => { 'lockredis.lease' => '7500ms' });
my $brief = $node->session(
	settings => { 'lockredis.min_replicas' => 1, 'lockredis.lease' => '7500ms' });

sub renewals ($key)
{
	return $node->value("SELECT max(renewals) FROM redis_locks WHERE key = '$key'");
}

sub wait_for_renewal ($key)
{
	my $before = renewals($key);

	return poll_until("$key to be renewed", sub { renewals($key) > $before });
}

# ----------
# Renewed
# ----------

run($one, "SELECT redis_lock('one')");
run($two, "SELECT redis_lock('two')");
run($quick, "SELECT redis_lock('quick')");
wait_for_renewal($_) foreach 'one', 'two', 'quick';
ok($redis->calls('wait') > 2, 'replicas are asked');

# A lease that is longer already
{
	my $before;

	run($one, "SELECT redis_lock('longer')");
	$redis->cmd('PEXPIRE', 'longer', 600_000);
	run($_, "SELECT redis_unlock_all()") foreach $two, $quick;
	$before = $redis->calls('pexpire');
	wait_for_renewal('longer');
	cmp_ok($redis->calls('pexpire') - $before,
		'>=', 2, 'it is written, or there is nothing to confirm');
	cmp_ok($redis->cmd('PTTL', 'longer'), '>', 500_000, 'and not made shorter');
	run($one, "SELECT redis_unlock('longer')");
}
run($two, "SELECT redis_lock('two')");
run($quick, "SELECT redis_lock('quick')");

# ----------
# One of two away
# ----------

$node->log_since_here;
run($brief, "SELECT redis_lock('brief')");
replicas_away(1);
$node->wait_for_loss('two');
$two->query_warns("SELECT redis_unlock('two')", 'f', '01000', qr/was lost.*lease expired/s, 'two of one');
$brief->query_is("SELECT redis_is_held('brief')",
	't', 'what has its replica outlives what has not, with a lease shorter than a WAIT');
cmp_ok(renewals('brief'), '>', 3, 'it was renewed all the time');
$brief->query_is("SELECT redis_unlock('brief')", 't', 'given back');
$one->query_is("SELECT redis_is_held('one')", 't', 'one of one');
$quick->query_is("SELECT redis_is_held('quick')", 't', 'who asks for none');
wait_for_renewal('one');
cmp_ok($node->lock_stat('unreplicated'), '>', 0, 'counted');
# Of the other one, too, if the replica that is left was long away.
is($node->times_logged(qr/leases are not renewed for want of replicas\n.*DETAIL:  1 of 2 replicas confirmed it within 8 s\./),
	1, 'logged once, with the number');
like($node->lock_status('last_error'), qr/1 of 2 replicas/, 'and shown');

# ----------
# Both away, and back in time
# ----------

run($one, "SET lockredis.lease = '36s'; SELECT redis_unlock('one'); SELECT redis_lock('one'); RESET lockredis.lease");
replicas_away(2);
poll_until('a renewal to fail',
	sub { $node->logged(qr/leases are not renewed for want of replicas\n.*DETAIL:  0 of 1 replicas confirmed it within 8 s\./) });
is($node->value("SELECT state FROM redis_lock_status WHERE role = 'master'"),
	'up', 'the store is up all the same');
replicas_back();
wait_for_renewal('one');
poll_until('that to be logged', sub { $node->logged(qr/replicas confirm renewals again/) });
$one->query_is("SELECT redis_unlock('one')", 't', 'never lost');
$quick->query_is("SELECT redis_unlock('quick')", 't', 'never lost, either');

$_->quit foreach $one, $two, $quick, $brief;
done_testing();
