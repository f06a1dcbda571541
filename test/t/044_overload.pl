# Copyright (c) 2026, lockredis contributors

# More is due than fits into a batch of the watchdog: those go first whose lease
# ends first, wherever they stand in the lock table.
#
# Everything is made due at once by a new connection.  MONITOR shows in which
# order the keys are asked for; no clock is involved.
#
# Proves G3.

use LockRedis::Test;

my $batch = 5000;                   # BATCH_MAX of renewals.c
my $many = 6000;
my $few = 200;
my ($node, $redis, $one) = servers(sessions => 1, settings => { 'lockredis.max_locks' => 20000 });

sub take
{
	my ($prefix, $n, $lease) = @_;

	$one->query("SET lockredis.lease = '$lease'");
	is( $one->query(
			"DO \$\$ BEGIN FOR i IN 1..$n LOOP PERFORM redis_lock('$prefix' || i); END LOOP; END \$\$",
			120)->error,
		undef,
		"$n locks with leases of $lease");
	return;
}

# In which order are the keys renewed after a new connection?
sub order_of_renewals
{
	my $monitor = $redis->monitor;
	my @watchdog = grep { $_->{name} =~ /watchdog/ } $redis->clients;
	my %seen;
	my @order;

	$redis->cmd('CLIENT', 'KILL', 'ID', $_->{id}) foreach @watchdog;
	poll_until(
		'everything to be renewed',
		sub {
			$node->count_locks('renewals = 0') == 0;
		},
		60);
	foreach my $line ($monitor->stop)
	{
		my @args = $monitor->args($line);

		next unless uc($args[0] // '') =~ /^EVAL/;
		push @order, grep { !$seen{$_}++ } @args[ 3 .. 2 + $args[2] ];
	}
	return @order;
}

take('long', $many, '1h');
take('short', $few, '30min');
my @order = order_of_renewals();
is(scalar @order, $many + $few, 'each is renewed');
my @first = grep { /^short/ } @order[ 0 .. $batch - 1 ];
is(scalar @first, $few, 'those with the shorter leases in the first batch');

$one->query_is('SELECT redis_unlock_all()', $many + $few, 'given back');
end_test($node, $redis);
