# Copyright (c) 2026, lockredis contributors

# What the watchdog has to do for a lock that is handed over to a session that
# does not run yet (two, which is stopped).
#
#   one                      watchdog                           two
#   gives the lock back:
#   handed to two
#                            a new connection: Redis may be
#                            another one, without the lock.
#                            Asks for each that is held
#                                                               runs: has the lock
#
# That one has to be asked for too, and not when it would be renewed anyway.
#
#   two                      watchdog                           one
#   waits, the first that
#   does since long
#                            sleeps, until Redis is to be
#                            asked whether it is there
#   is stopped
#                                                               gives the lock
#                                                               back: handed to two
#
# Whoever comes next is to have it after a second, and not in the end.
#
# Proves G21, G22.

use LockRedis::Test;

my ($node, $redis, $one, $two, $three) = servers(
	sessions => 3, settings => { 'lockredis.lease' => '1h' });
my $tries = 5;

sub renewals
{
	my ($key) = @_;

	return $node->value("SELECT max(renewals) FROM redis_locks WHERE key = '$key'");
}

# False: two was not stopped for so short a time that it was passed over.
sub is_asked_for
{
	my ($key) = @_;

	$one->query("SELECT redis_lock('$key'), redis_lock('witness')");
	$node->queue_up($key, $two => "SELECT redis_lock('$key')");
	$two->freeze;
	my $began = now();
	my $before = renewals('witness');
	$one->query("SELECT redis_unlock('$key')");
	$redis->cmd('DEL', $key);
	$redis->kill_clients('watchdog');
	poll_until('others to be asked for', sub { renewals('witness') > $before });
	my $valid = now() - $began < 0.9;
	$two->thaw;
	is($two->wait(20)->error, undef, "$key: two has it");
	my $there = eval {
		poll_until('the lock to be there', sub { $redis->cmd('EXISTS', $key) }, 10);
	};
	$two->query("SELECT redis_unlock_all()");
	$one->query("SELECT redis_unlock_all()");
	is($there, 1, "$key: so it does in Redis");
	return $valid;
}

sub until_valid
{
	my ($what, $sub) = @_;

	foreach my $try (1 .. $tries)
	{
		return if $sub->("$what $try");
	}
	note "$what: this machine is too slow to show anything";
	return;
}

until_valid('asked', \&is_asked_for);

# The watchdog asks Redis for the time every 5 s if there is nothing else to do;
# it has just done so.  Nobody has waited for the last 3 s.
my $passed_over;

sub is_passed_over
{
	my ($key) = @_;

	pause(3.5);
	my $probes = $redis->calls('time');
	poll_until('a probe', sub { $redis->calls('time') > $probes });
	my $probed = now();
	$one->query("SELECT redis_lock('$key')");
	$two->start("SELECT redis_lock('$key')");
	$node->wait_for_waiters($key, 1);
	$two->freeze;
	$one->query("SELECT redis_unlock('$key')");
	$three->query_is("SELECT redis_lock('$key')", '', "$key: three has it");
	$passed_over = now() - $probed;
	$two->thaw;
	$three->query_is("SELECT redis_unlock('$key')", 't', "$key: and gives it back");
	is($two->wait(20)->error, undef, "$key: two has it");
	$two->query_is("SELECT redis_unlock('$key')", 't', "$key: and gives it back");
	note "passed over after $passed_over s";
	return $passed_over < 4;
}

until_valid('first', \&is_passed_over);
cmp_ok($passed_over, '<', 4, 'one that does not run is passed over');

end_test($node, $redis);
