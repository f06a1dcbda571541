# Copyright (c) 2026, lockredis contributors

# Host names of Sentinels that lead elsewhere by now:
#
# - two that lead to the same Sentinel have one vote, and the other name counts again when it
#   leads to another one; meanwhile it is tried ever more seldom;
# - names that change places take along what is known of the Sentinels;
# - one that leads to a plain Redis is resolved again, although that answers.
#
# All Sentinels are false ones.  The server runs with test/fault/names.c, which resolves names
# as told here.
# Proves G38.

use LockRedis::FalseSentinel;
use LockRedis::Test qw(:DEFAULT fault_library);
use LockRedis::Topic::Failover;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $shim = fault_library('names.c');
my ($a, $b) = map { LockRedis::Redis->new(name => $_) } 'a', 'b';
my ($node, @sentinels);

sub leads_to ($name, $to)
{
	open my $fh, '>', "$dir/.new" or die "could not write: $!";
	print $fh '127.0.0.1 ' . $to->port . "\n";
	close $fh or die "could not write: $!";
	rename "$dir/.new", "$dir/s$name.shim.test" or die "could not rename: $!";
	return;
}

# A server, and three names that lead to three Sentinels, which name a by 7
sub begin ($name)
{
	if ($node)
	{
		$node->stop;
		$_->stop foreach @sentinels;
	}
	@sentinels = LockRedis::FalseSentinel->naming(($a => 7) x 3);
	leads_to($_, $sentinels[$_]) foreach 0 .. 2;
	$node = LockRedis::Node->create(
		$name,
		url => 'redis-sentinel://s0.shim.test,s1.shim.test,s2.shim.test/svc',
		start => 0,
		settings => { 'lockredis.connect_timeout' => '1s', 'lockredis.command_timeout' => '1s' });
	{
		local $ENV{LD_PRELOAD} = $shim;
		local $ENV{LOCKREDIS_TEST_NAMES} = $dir;

		$node->start;
	}
	$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
	wait_until_used($node, $a);
	poll_until('all to be up', sub { count_up() == 3 });
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	return;
}

sub count_up
{
	return $node->value(
		q{SELECT count(*) FROM redis_lock_status WHERE role = 'sentinel' AND state = 'up'});
}

sub says ($name, $pattern)
{
	return poll_until(
		"s$name to be down: $pattern",
		sub {
			$node->value(
				qq{SELECT coalesce(string_agg(last_error, ''), '') FROM redis_lock_status
				 WHERE role = 'sentinel' AND state = 'down'}) =~ $pattern;
		});
}

# Two names for one: it was set up anew, the third one is away, and so is the master.
{
	begin('twice');
	$node->log_since_here;
	leads_to(1, $sentinels[0]);
	$sentinels[1]->stop;
	says(1, qr/same Sentinel as that of another name/);
	is(count_up(), 2, 'two names for one Sentinel: one of them counts');
	pause(2);
	is($node->times_logged(qr/Sentinel at .* is down/), 1, 'and one line tells of it');
	$sentinels[2]->stop;
	$a->stop;
	$sentinels[0]->names($b, epoch => 0);
	never_used($node, $b, 13, 'one Sentinel is no majority, by whatever names');
	cmp_ok($sentinels[0]->answered('HELLO'), '<', 14, 'and is seldom asked which one it is');

	my $other = LockRedis::FalseSentinel->new;
	$other->names($b, epoch => 0);
	leads_to(1, $other);
	wait_until_used($node, $b);
	serves($node, 'two Sentinels are');
	push @sentinels, $other;
	$a->start;
}

# Two names change places.  Sentinel 0 has a lower number, and so had it before.  It is cut off
# and names a former master, as does Sentinel 2, which was set up anew.
{
	begin('places');
	$sentinels[0]->names($b, epoch => 3);
	$node->replace_watchdog;
	$node->set('lockredis.url' => 'redis-sentinel://s1.shim.test,s0.shim.test,s2.shim.test/svc');
	wait_until_used($node, $a);
	poll_until('all to be up', sub { count_up() == 3 });
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);

	leads_to(0, $sentinels[1]);
	leads_to(1, $sentinels[0]);
	$_->names($_ == $sentinels[0] ? ($b, epoch => 3) : ($a, epoch => 7)) foreach @sentinels[ 0, 1 ];
	poll_until('the names to be asked for', sub { count_up() == 3 });
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	$sentinels[1]->stop;
	$sentinels[2]->names($b, epoch => 3);
	$a->stop;
	never_used($node, $b, 13, 'one that has changed its name was not set up anew');
	$a->start;
}

# A plain Redis at the address to which a name has led
{
	begin('plain');
	leads_to(1, $b);
	$sentinels[1]->stop;
	says(1, qr/it is a single Redis/);

	my $other = LockRedis::FalseSentinel->new;
	$other->names($a, epoch => 7);
	leads_to(1, $other);
	poll_until('the name to be resolved again', sub { count_up() == 3 });
	serves($node, 'a name that has led to a plain Redis');
	push @sentinels, $other;
}

done_testing();
