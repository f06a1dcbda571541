# Copyright (c) 2026, lockredis contributors

# Independent masters of which one has forgotten a lock that is still held.  Whoever
# would put it there again stands still meanwhile, and nobody is asked to wait.
#
# - A has the lock at 1 and 2; 2 is restarted empty; B is granted it by 2 and 3, and
#   does not get it, since 2 has no vote
# - the control: if 2 says that it is the same as before, B does get it
#
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my %settings = (
	'lockredis.lease' => '1h',
	'lockredis.connect_timeout' => '20s',
	'lockredis.command_timeout' => '20s');
my ($first, $second) =
  map { LockRedis::Node->create($_, redis => $masters, settings => {%settings}) } qw(first second);

sub wait_for_masters
{
	my ($node, $n) = @_;

	poll_until("$n masters to be up", sub {
		$node->value(q{SELECT count(*) FROM redis_lock_status WHERE role = 'master' AND state = 'up'})
		  == $n;
	});
	return;
}

# What B gets while A has the key, at the first two, and the second has forgotten it.
sub second_gets
{
	my ($key, $restart) = @_;
	my ($one, $two) = map { $_->session } $first, $second;

	$nodes[2]->stop;
	wait_for_masters($_, 2) foreach $first, $second;
	$one->query_is("SELECT redis_try_lock('$key')", 't', "$key: taken at two of three");
	my $watchdog = $first->watchdog_pid;
	kill STOP => $watchdog;
	$masters->$restart(1);
	$masters->restart_old(2);
	wait_for_masters($second, 3);
	is_deeply([ map { scalar keys %{ $_->hash($key) } } @nodes ],
		[ 1, 0, 0 ], 'one of them has forgotten it');
	my $got = $two->value("SELECT redis_try_lock('$key')");
	kill CONT => $watchdog;
	$_->quit foreach $one, $two;
	return $got;
}

wait_for_masters($_, 3) foreach $first, $second;
is(second_gets('given away', 'restart_old'), 't', 'one that seems not to have been restarted has a vote');
$masters->reset;
wait_for_masters($_, 3) foreach $first, $second;
is(second_gets('kept', 'restart_empty'), 'f', 'one that was restarted has none');

done_testing();
