# Copyright (c) 2026, lockredis contributors

# A Redis Cluster whose network breaks: a master and one of two servers of ours are cut
# off from all others.  What that server holds, and replicas have confirmed, is kept from
# the other one, at the next master, until it has been told that it is lost: what that
# master renews alone does not count.  On its side nothing is granted that wants a replica,
# and nothing at all when the master has noticed; locks at the other masters are not in
# doubt.  When the cables are mended all is well on both sides.
#
# And a cluster that is down, since most masters do not answer, and comes back, with its
# data and without.
# Proves G1, G46.

use LockRedis::Netns 'enter';
use LockRedis::RedisCluster;
use LockRedis::Test;

my $net = LockRedis::Netns->new;
my $cluster = LockRedis::RedisCluster->new(net => $net);
my $island = $net->place('island');
my $lease = limit(10);
my $near = LockRedis::Node->create('near', redis => $cluster,
	settings => {
		'lockredis.lease' => '5min',
		'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => '60s' });
my $far = LockRedis::Node->create('far', redis => $cluster, start => 0,
	settings => { 'lockredis.lease' => "${lease}s" });

# A server there; sockets in the file system do not end at a network.
sub start_on_island
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my ($real) = grep { -x } map { "$_/pg_ctl" } split /:/, $ENV{PATH};

	PostgreSQL::Test::Utils::append_to_file("$dir/pg_ctl",
		join(' ', "#!/bin/sh\nexec", $island->inside($real), qq{"\$@"\n}));
	chmod 0755, "$dir/pg_ctl" or die $!;
	local $ENV{PATH} = "$dir:$ENV{PATH}";
	$far->start;
	$far->safe_psql('postgres', 'CREATE EXTENSION lockredis');
	return;
}

sub works ($when)
{
	foreach my $server ($near, $far)
	{
		my $session = $server->session;

		foreach my $master ($cluster->masters)
		{
			my $key = $cluster->key_on($master, 'works');

			poll_until("$when: a lock",
				sub { ($session->query("SELECT redis_try_lock('$key')")->value // '') eq 't' });
			$session->query_is("SELECT redis_unlock('$key')", 't',
				"$when: taken and given back, by " . $server->name);
		}
		$session->quit;
	}
	return;
}

sub wait_for_replicas
{
	foreach my $key (@_)
	{
		poll_until("a replica to have $key",
			sub {
				my $replica = $cluster->replica_of($cluster->node_of($key));

				return $replica && grep { $_ eq $key } $replica->all_keys;
			});
	}
	return;
}

start_on_island();
$cluster->wait_until_used($near, $far);
my ($one, $asker) = map { $near->session } 1 .. 2;
my ($two, $other) = map { $far->session } 1 .. 2;

# ---- a master and a server are cut off

{
	my ($cut, $healthy) = $cluster->masters;
	my $theirs = $cluster->key_on($cut, 'far');
	my $elsewhere = $cluster->key_on($healthy, 'far');
	my $ours = $cluster->key_on($healthy, 'near');
	my $fresh = $cluster->key_on($cut, 'fresh');
	my @away = ($cluster->place_of($cut), $island);

	$two->query('SET lockredis.min_replicas = 1');
	foreach my $key ($theirs, $elsewhere)
	{
		poll_until("$key to be free", sub { !$two->query("SELECT redis_lock('$key')")->error });
	}
	$one->query("SELECT redis_lock('$ours')");
	wait_for_replicas($theirs, $elsewhere, $ours);
	$cluster->be_patient(0);
	foreach my $place (@away)
	{
		$net->cut($place, $_)
		  foreach $net->here, grep { $_ != $away[0] } map { $cluster->place_of($_) } $cluster->nodes;
	}

	# On its side: it may not know yet
	my $result = $other->query("SET lockredis.min_replicas = 1; SELECT redis_try_lock('$fresh')");
	like($result->sqlstate // 'granted', qr/^58/, 'cut off: nothing is granted that wants a replica');
	$other->query('RESET lockredis.min_replicas');

	# On the other one
	$asker->start("SELECT redis_lock('$theirs')");
	$one->query_is("SELECT redis_is_held('$ours')", 't', 'at another master: held');
	$one->query_is("SELECT redis_extend('$ours', NULL)", 't', 'and renewed');
	is($asker->wait(limit(120))->error, undef, 'what was held over there is acquired, in the end');
	$two->query_is("SELECT redis_is_held('$theirs')", 'f', 'when its holder knew that it is lost');
	$one->query_is("SELECT redis_lock('$elsewhere'), redis_unlock('$elsewhere')", '|t',
		'and what it held at another master');
	$two->query_is("SELECT redis_is_held('$elsewhere')", 'f', 'likewise');
	$two->query_fails("SELECT redis_assert_held('$theirs')", '55000', qr/lost/, 'it is told');

	poll_until('the master to have noticed', sub { $cut->cmd('CLUSTER', 'INFO') =~ /cluster_state:fail/ });
	$result = $other->query("SELECT redis_try_lock('$fresh')");
	like($result->sqlstate // 'granted', qr/^58/, 'cut off: then nothing is granted');
	$one->query_is("SELECT redis_try_lock('$fresh')", 't', 'which the others have');

	$cluster->be_patient(1);
	$net->heal;
	poll_until('it to be a replica', sub { !$cut->is_master });
	$cluster->wait_until_steady;
	$cluster->wait_until_used($near, $far);
	poll_until('those who were cut off to have an answer',
		sub { !($result = $other->query("SELECT redis_try_lock('$fresh')"))->error });
	is($result->value, 'f', 'mended: it is kept from those who were cut off');
	$one->query_is("SELECT redis_is_held('$_')", 't', "mended: $_ is held") foreach $ours, $fresh;
	$asker->query_is("SELECT redis_is_held('$theirs')", 't', "mended: $theirs is held");
	$_->query('SELECT redis_unlock_all()') foreach $one, $two, $asker;
	$two->query('RESET lockredis.min_replicas');
	works('mended');
	poll_until('nothing to be left', sub { !$cluster->all_keys });
}

# ---- a cluster that is down

{
	my ($awake, @masters) = $cluster->masters;
	my @keys = map { $cluster->key_on($_, 'down') } $awake, @masters;

	$far->set('lockredis.connect_timeout' => '60s', 'lockredis.command_timeout' => '60s');
	$one->query("SELECT redis_lock('$_')") foreach @keys;
	$far->queue_up($keys[0], $two => "SELECT redis_lock('$keys[0]')");
	wait_for_replicas(@keys);
	my @frozen = grep { $_ != $awake } $cluster->nodes;
	$cluster->be_patient(0);
	$_->freeze foreach @frozen;
	poll_until('the cluster to be down',
		sub { $awake->cmd('CLUSTER', 'INFO') =~ /cluster_state:fail/ });
	$one->query_is("SELECT redis_is_held('$_')", 't', 'down: held until the lease ends') foreach @keys;
	$_->thaw foreach @frozen;
	$cluster->wait_until_steady;
	$cluster->be_patient(1);
	$cluster->wait_until_used($near, $far);
	$one->query_is("SELECT redis_is_held('$_')", 't', 'back: held') foreach @keys;
	$one->query_is("SELECT redis_extend('$_', NULL)", 't', 'and renewed') foreach @keys;
	ok($two->is_running, 'who waited waits');
	$one->query_is("SELECT redis_unlock('$keys[0]')", 't', 'it is given back');
	is($two->wait(limit(60))->error, undef, 'who waited has it');
	$two->query('SELECT redis_unlock_all()');

	# Without its data
	$_->kill9 foreach $cluster->nodes;
	$_->start foreach $cluster->nodes;
	$cluster->wait_until_steady;
	$near->wait_for_loss($_) foreach @keys[ 1, 2 ];
	$one->query_is("SELECT redis_is_held('$_')", 'f', 'back without data: lost') foreach @keys[ 1, 2 ];
	$one->query_fails("SELECT redis_assert_held('$keys[1]')", '55000', qr/lost/, 'and told');
	$one->query('SELECT redis_unlock_all()');
	$cluster->wait_until_used($near, $far);
	works('back');
}

end_test([ $near, $far ], $cluster, clients => qr/session/);
