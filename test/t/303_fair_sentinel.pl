# Copyright (c) 2026, lockredis contributors

# Fair locks of two servers at a failover by Sentinels: who stands in the queue of the
# new master keeps his place; who does not takes a new one; the one who has the lock
# gives it back there, and all get it, one after the other.
# Proves G1, G38.

use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;
use LockRedis::Topic::Fair;

my $ha = $redis = LockRedis::Sentinels->new;
my @nodes = map { LockRedis::Node->create($_, redis => $ha) } 'near', 'far';

$_->wait_for_up foreach @nodes;
my ($holder, @sessions) = map { patient_session($nodes[ $_ % 2 ]) } 0 .. 4;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach $holder, @sessions;

# Another master, which has all but what is done by this function meanwhile.
sub fail_over
{
	my ($meanwhile) = @_;

	replicated($ha);
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	if ($meanwhile)
	{
		$old->outrun_replicas(@replicas);
		$meanwhile->();
	}
	$old->kill9;
	$_->thaw foreach @replicas;
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($_, $new) foreach @nodes;
	return $old;
}

# All who stand in the queue are told by the new master.
sub subscribed
{
	my ($key) = @_;

	return poll_until(
		'all to be subscribed there',
		sub {
			my @places = queue($key);
			@places == grep { $ha->subscribers("redisson_lock__channel:{$key}:$_") } @places;
		});
}

# All of them are in the queue that the new master has.
$holder->query("SELECT redis_fair_lock('kept')");
my @waiting = map { [ $_, wait_fairly($_, 'kept') ] } @sessions;
my $before = join ' ', queue('kept');
my $old = fail_over();
is(join(' ', queue('kept')), $before, 'the new master has the queue');
subscribed('kept');
$holder->query_is("SELECT redis_is_held('kept'), redis_unlock('kept')", 't|t', 'given back there');
each_in_turn('kept', 'kept', @waiting);
$old->start;
$ha->wait_until_steady;
wait_until_used($_, $ha->master) foreach @nodes;

# The new master does not know of the last of them, who stands there again soon.
$holder->query("SELECT redis_fair_lock('gone')");
my %place = map { $_ => wait_fairly($sessions[$_], 'gone') } 0 .. 1;
fail_over(sub { $place{$_} = wait_fairly($sessions[$_], 'gone') foreach 2 .. 3 });
poll_until('all to be in the queue', sub { queue('gone') == 4 });
my @after = queue('gone');
my %of = map { $place{$_} => $sessions[$_] } keys %place;
is("@after[ 0 .. 1 ]", "$place{0} $place{1}", 'those that the new master knows are before them');
is(scalar(grep { $of{$_} } @after), 4, 'and each has the name that it had');
subscribed('gone');
$holder->query_is("SELECT redis_unlock('gone')", 't', 'given back');
each_in_turn('gone', 'gone', map { [ $of{$_}, $_ ] } @after);

end_test([@nodes], $ha);
