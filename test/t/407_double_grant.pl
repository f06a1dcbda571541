# Copyright (c) 2026, lockredis contributors

# A lock that no replica has when the master dies: without lockredis.min_replicas
# somebody else gets it from the new master while the holder still believes in it
# (until it is told, at the first look at the new master); with it the first one
# does not get it at all.
# Proves G37.  Shows what is not guaranteed: N1.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my ($one, $two) = map {
	LockRedis::Node->create($_, redis => $ha,
		settings => { 'lockredis.lease' => '5min', 'lockredis.command_timeout' => '1min' })
} 'one', 'two';
my $first = $one->session;
my $second = $two->session;

$_->wait_for_up foreach $one, $two;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach $first, $second;

# What the first one got, and what the second one gets after the failover.  The
# server of the first stands still meanwhile, as one that hears of it late.
sub double_grant ($key)
{
	my $old = $ha->master;
	my @replicas = $ha->replicas;

	$old->outrun_replicas(@replicas);
	my $granted = $first->query("SELECT redis_lock('$key')");
	$old->kill9;
	$_->thaw foreach @replicas;
	kill 'STOP', my $watchdog = $one->watchdog_pid;
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($two, $new);
	my $again = $second->query("SELECT redis_try_lock('$key')");
	my $believes = $first->value("SELECT redis_is_held('$key')");
	kill 'CONT', $watchdog;
	$old->start;
	$ha->wait_until_steady;
	wait_until_used($_, $ha->master) foreach $one, $two;
	return ($granted, $again, $believes);
}

{
	my ($granted, $again, $believes) = double_grant('unsafe');

	is($granted->error, undef, 'min_replicas = 0: granted');
	is($again->value, 't', 'min_replicas = 0: and granted again after the failover');
	is($believes, 't', 'min_replicas = 0: while the first one believes in it');
	$one->wait_for_loss('unsafe');
	$first->query_warns("SELECT redis_unlock('unsafe')", 'f', '01000', qr/was lost/,
		'min_replicas = 0: until it is told');
	$second->query_is("SELECT redis_unlock('unsafe')", 't', 'min_replicas = 0: given back');
}
{
	$first->query('SET lockredis.min_replicas = 1');
	my ($granted, $again, $believes) = double_grant('safe');

	is($granted->sqlstate, '58030', 'min_replicas = 1: not granted');
	like($granted->{raw}, qr/0 of 1 replicas? confirmed it/, 'min_replicas = 1: and why');
	is($believes, 'f', 'min_replicas = 1: nobody believes in it');
	is($again->value, 't', 'min_replicas = 1: the second one has it alone');
	$second->query_is("SELECT redis_unlock('safe')", 't', 'min_replicas = 1: given back');
	$first->query("SET lockredis.replica_timeout = '50s'");
	$first->query_is("SELECT redis_lock('safe'), redis_unlock('safe')", '|t',
		'min_replicas = 1: with replicas the first one gets it, too');
	$first->query('RESET lockredis.min_replicas; RESET lockredis.replica_timeout');
}

end_test([ $one, $two ], $ha);
