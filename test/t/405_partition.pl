# Copyright (c) 2026, lockredis contributors

# Broken networks around a master: cut off from everybody; from everybody but this
# server, with a Sentinel that goes on naming it; in one direction; a server that
# reaches no Sentinel; one that is left alone with the old master and its Sentinel.
# Once a new master was named no request goes to the old one, whatever that says of
# itself.
# Proves G3, G5, G38.

use LockRedis::Netns 'enter';
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $net = LockRedis::Netns->new;
my $ha = LockRedis::Sentinels->new(net => $net);
# However long a failover takes on a busy machine, no lease ends in it.
my ($node, $holder, $asker) = LockRedis::Node->create(
	'main', sessions => 2, redis => $ha, settings => { 'lockredis.lease' => '5min' });
my $here = $net->here;

$holder->query_is("SELECT redis_lock('kept')", '', 'a lock for the whole test');

sub works ($master, $when)
{
	$asker->query_is("SELECT redis_lock('free')", '', "$when: a lock");
	ok($master->cmd('EXISTS', 'free'), "$when: at the present master");
	$asker->query_is("SELECT redis_unlock('free')", 't', "$when: given back");
	$holder->query_is("SELECT redis_is_held('kept')", 't', "$when: the other one is held");
	ok($master->cmd('EXISTS', 'kept'), "$when: there");
	return;
}

sub mended ($when)
{
	$net->heal;
	$ha->wait_until_steady;
	wait_until_used($node, $ha->master);
	$node->wait_until_asked($asker);
	works($ha->master, "$when, mended");
	return;
}

# From everybody
{
	my $old = $ha->master;

	replicated($ha);
	$net->cut_off($ha->place_of($old));
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($node, $new);
	works($new, 'master cut off');
	is($old->role, 'master', 'master cut off: it takes itself for one');
	my $seen = ours_at($old);
	# What was sent before it was replaced the kernel sends again, for as long as that may take.
	my $port = sprintf ':%04X', $old->port;
	poll_until('nothing to be on its way to it', sub {
		!grep { my @field = split; $field[2] =~ /$port$/ && $field[4] !~ /^0+:/ }
		  split /\n/, PostgreSQL::Test::Utils::slurp_file('/proc/net/tcp') });
	mended('master cut off');
	is_deeply([ $seen->() ], [], 'master cut off: not one request when it is back');
}

# From the others but not from us: it goes on answering, and one of the Sentinels
# goes on naming it.
{
	my $old = $ha->master;
	my ($with_it, @majority) = $ha->sentinels;
	my $island = [ map { $ha->place_of($_) } $old, $with_it ];
	my @others = map { $ha->place_of($_) } $ha->replicas, @majority;

	replicated($ha);
	foreach my $one (@$island)
	{
		$net->cut($one, $_) foreach @others;
	}
	my $new = $ha->wait_for_master_but($old, @majority);
	is($with_it->named, $old->address, 'split: one Sentinel names the old master');
	is($old->role, 'master', 'split: which takes itself for one');
	wait_until_used($node, $new);
	my $seen = ours_at($old);
	works($new, 'split');

	# Now only that Sentinel and that master can be reached.  Who has heard of a
	# later election does not believe them.
	my $failed;
	$net->cut($here, $_) foreach @others;
	poll_until(
		'nobody to be reached',
		sub {
			$failed = $asker->query("SELECT redis_try_lock('split')");
			return $failed->error;
		});
	like($failed->sqlstate, qr/^58/, 'alone with the old master: nobody is reached');
	like($asker->query("SELECT redis_lock('split')")->sqlstate // 'granted',
		qr/^58/, 'alone with the old master: with patience neither');
	ok(!$old->cmd('EXISTS', 'split'), 'alone with the old master: it was not asked');
	my $other = $node->session;
	like($other->query("SELECT redis_lock('split')")->sqlstate // 'granted',
		qr/^58/, 'alone with the old master: nor by a new session');
	$other->quit;
	mended('split');
	is_deeply([ $seen->() ], [], 'split: not one request to the old master');
}

# A replica or a Sentinel is nobody's concern, nor what reaches us of it, or it of us.
foreach my $server (($ha->replicas)[0], ($ha->sentinels)[0])
{
	my $place = $ha->place_of($server);

	$net->cut_off($place);
	works($ha->master, "$server->{name} cut off");
	$net->heal;
	$net->cut_one_way($place, $here);
	works($ha->master, "$server->{name} not heard");
	$net->heal;
	$net->cut_one_way($here, $place);
	works($ha->master, "$server->{name} not reached");
	$net->heal;
}
mended('each of the others');

# One direction: what is sent arrives, and no answer comes; and the other way round.
# The Sentinels see nothing of it.
foreach my $way ('from', 'to')
{
	my $place = $ha->place_of($ha->master);
	my $key = "cable $way the master";
	my $seen = ours_at($ha->master);

	$net->cut_one_way($way eq 'from' ? ($place, $here) : ($here, $place));
	my $failed = $asker->query("SELECT redis_lock('$key')");
	like($failed->sqlstate // 'granted', qr/^58/, "$key: clear error");
	my $arrived = grep { /"\Q$key\E"/ } $seen->();
	is($arrived > 0, $way eq 'from',
		"$key: " . ($way eq 'from' ? 'it arrived' : 'it did not arrive'));
	mended($key);
	$ha->wait_for_key($key, 0);
}

# No Sentinel: locks go on.  When the master is replaced meanwhile, it refuses, and
# nobody else is known; a clear error until a Sentinel is heard.
{
	my $old = $ha->master;

	$net->cut($here, $ha->place_of($_)) foreach $ha->sentinels;
	works($old, 'no Sentinel');
	replicated($ha);
	my $new = $ha->fail_over;
	poll_until('the old master to be a replica', sub { $old->role eq 'slave' });
	my $failed = $asker->query("SELECT redis_try_lock('demoted')");
	like($failed->sqlstate // 'granted', qr/^58/, 'no Sentinel: a demoted master is not used');
	ok(!$old->cmd('EXISTS', 'demoted') && !$new->cmd('EXISTS', 'demoted'),
		'no Sentinel: and nothing is locked');
	mended('no Sentinel');
}

$holder->query_is("SELECT redis_unlock('kept')", 't', 'held to the end');
end_test($node, $ha);
