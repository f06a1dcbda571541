# Copyright (c) 2026, lockredis contributors

# The rig of the tests that follow, by itself: cables that are cut in one
# direction or both, a master that is cut off, replaced and turned round, a
# failover by command, a Sentinel that lies.  It proves nothing of lockredis;
# where it fails, the others prove nothing either.

use strict;
use warnings FATAL => 'all';

use LockRedis::Netns 'enter';
use LockRedis::FalseSentinel;
use LockRedis::Resp;
use LockRedis::Sentinels;
use LockRedis::Test;

my $net = LockRedis::Netns->new;
my ($here, $there) = ($net->place('one end'), $net->place('the other end'));
my $redis = LockRedis::Redis->new(place => $there);

# A program at one end that counts at the other: has it an answer within so many seconds,
# and has it counted?
sub counts
{
	my ($key, $seconds) = @_;
	my @words = $here->inside('timeout', $seconds, 'redis-cli', '-h', $redis->host,
		'-p', $redis->port, 'INCR', $key);
	my $answer = `@words 2>/dev/null`;

	return ($answer eq "1\n" ? 'answered' : 'no answer') . ', '
	  . ($redis->cmd('EXISTS', $key) ? 'done' : 'not done');
}

is(counts('whole', 60), 'answered, done', 'a cable');
$net->cut($here, $there);
is(counts('both', 1), 'no answer, not done', 'cut');
$net->heal;
is(counts('again', 60), 'answered, done', 'mended');
$net->cut_one_way($here, $there);
is(counts('there', 1), 'no answer, not done', 'cut one way: nothing arrives');
$net->heal;

# Over a connection that is there already; a new one would need both ways.
{
	my @words = $here->inside('redis-cli', '-h', $redis->host, '-p', $redis->port);
	open my $cli, '|-', "@words >/dev/null 2>&1" or die $!;
	$cli->autoflush(1);
	print $cli "INCR first\n";
	$redis->wait_for_key('first', 1);
	$net->cut_one_way($there, $here);
	print $cli "INCR second\n";
	ok($redis->wait_for_key('second', 1), 'cut the other way: it arrives');
	is(counts('back', 1), 'no answer, not done', 'and no answer comes back');
	$net->heal;
	close $cli;
}

my $ha = LockRedis::Sentinels->new(net => $net, password => 'secret',
	sentinel_password => 'another');
my $old = $ha->master;
is($old->{name}, 'master', 'the Sentinels name the first master');
is($ha->cmd('WAIT', 2, 0), 2, 'it has two replicas');

$net->cut_off($ha->place_of($old));
my $new = $ha->wait_for_master_but($old);
is($old->role, 'master', 'one that is cut off does not know that it was replaced');
$net->heal;
$ha->wait_until_steady;
is($old->role, 'slave', 'it is turned round when it is back');

my $third = $ha->fail_over;
isnt($third, $new, 'failover by command');
$ha->wait_until_steady;

my $liar = LockRedis::FalseSentinel->new;
my ($replica) = $ha->replicas;
$liar->names($replica, epoch => 99);
my $conn = LockRedis::Resp->connect($liar->port);
is_deeply(
	$conn->call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'svc'),
	[ $replica->host, $replica->port ],
	'a Sentinel that lies');
my %facts = @{ $conn->call('SENTINEL', 'MASTER', 'svc') };
is($facts{'config-epoch'}, 99, 'and boasts');

done_testing();
