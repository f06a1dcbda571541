# Copyright (c) 2026, lockredis contributors

# Least rights behind Sentinels, at the nodes and at the Sentinels: with just those
# that docs/acl.md lists a failover is followed, and without each of them once the
# reason is shown, or it is done without, as the page says.
#
# Proves G19, G38.

use File::Basename qw(dirname);
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;
use PostgreSQL::Test::Utils;

my $text = slurp_file(dirname($0) . '/../../docs/acl.md');
my @rules = map { [split] } $text =~ /^(ACL SETUSER .*)$/mg;
my (undef, $base, $tokens, undef, undef, $wait) = @rules;
my ($watcher) = grep { $_->[2] eq 'watcher' } @rules;
my %at_node = map { $_ => 1 }
  grep { /^[+~&]/ && !/select|setname/ } map { @$_[ 3 .. $#$_ ] } $base, $tokens, $wait;
my %at_sentinel = map { $_ => 1 } grep { /^[+&]/ } @$watcher[ 3 .. $#$watcher ];
my $ha = LockRedis::Sentinels->new;

sub grant ($user, $password, $servers, %has)
{
	$_->cmd('ACL', 'SETUSER', $user, 'on', ">$password", 'resetkeys', 'resetchannels',
		'-@all', sort keys %has)
	  foreach @$servers;
	return;
}

sub grant_all
{
	grant('lockredis', 'secret', [ $ha->nodes ], %at_node);
	grant('watcher', 'other', [ $ha->sentinels ], %at_sentinel);
	return;
}

grant_all();

my $node = LockRedis::Node->create(
	'main',
	url => $ha->url(user => 'lockredis'),
	settings => {
		'lockredis.password_file' => secret_file('secret', 'secret'),
		'lockredis.sentinel_user' => 'watcher',
		'lockredis.sentinel_password_file' => secret_file('other', 'other'),
		'lockredis.replica_timeout' => '2500ms'
	});
my $one = $node->session(settings => { 'lockredis.min_replicas' => 2 });

sub works ($name)
{
	$one->query_is(
		"SELECT redis_try_lock('jobs:1', '10 s'), redis_try_fenced_lock('jobs:2', '10 s') > 0,
			redis_extend('jobs:1', '1 min'), redis_unlock('jobs:1'), redis_unlock('jobs:2')",
		't|t|t|t|t', $name);
	return;
}

# No error of any server that is in use
sub is_well
{
	return $node->value(
		q{SELECT count(*) FROM redis_lock_status WHERE state <> 'up'}) == 0;
}

$node->wait_for_up;
poll_until('all to be up', \&is_well);
works('with these rights');
run($one, "SET lockredis.min_replicas = 1; SELECT redis_lock('jobs:held', '10 min')");
$ha->wait_for_replicas($ha->fail_over, 1);
wait_until_used($node, $ha->master);
works('after a failover');
$one->query_is("SELECT redis_unlock('jobs:held')", 't', 'and what was held is');
$ha->wait_until_steady;
$ha->wait_for_replicas($ha->master, 2);
run($one, 'SET lockredis.min_replicas = 2');

# ----------
# At the Sentinels
# ----------

my $told = "SELECT count(*) FROM redis_lock_status
	 WHERE role = 'sentinel' AND state = 'down' AND last_error ~* 'NOPERM|permission'";

foreach my $right (sort keys %at_sentinel)
{
	my %rest = %at_sentinel;

	delete $rest{$right};
	grant('watcher', 'other', [ $ha->sentinels ], %rest);
	$_->kill_clients('') foreach $ha->sentinels;
	if ($right =~ /sentinel/)
	{
		poll_until("without $right at the Sentinels: all to be refused", sub { $node->value($told) == 3 });
	}
	works("without $right at the Sentinels: the master is known");
	grant('watcher', 'other', [ $ha->sentinels ], %at_sentinel);
	poll_until("with $right again: all to be up", \&is_well);
}

# News are not heard: the question that is asked each second finds it.
grant('watcher', 'other', [ $ha->sentinels ],
	map { $_ => 1 } grep { !/^&|subscribe/ } keys %at_sentinel);
run($one, 'SET lockredis.min_replicas = 0');
$ha->fail_over;
wait_until_used($node, $ha->master);
works('a failover without news of it');
grant_all();
$ha->wait_until_steady;
$ha->wait_for_replicas($ha->master, 2);

# ----------
# At the nodes
# ----------

{
	my %rest = %at_node;

	delete $rest{'+time'};
	grant('lockredis', 'secret', [ $ha->nodes ], %rest);
	$_->kill_clients('') foreach $ha->nodes;
	poll_until('the watchdog to have no connection',
		sub { $node->value("SELECT in_use FROM redis_lock_status WHERE role = 'master'") eq 'f' });
	$one->query_fails("SELECT redis_try_lock('jobs:1')",
		'58000', qr/as the master|Which node is the master/, 'without +time at the nodes');
	poll_until('the reason to be shown',
		sub { $node->value("SELECT count(*) FROM redis_lock_status WHERE role <> 'sentinel' AND last_error ~* 'NOPERM|permission'") });
	grant_all();
	$node->wait_for_up;
	works('with +time again');
}

$one->quit;
poll_until('nothing to be left',
	sub { $node->count_locks == 0 && !grep { !/^redisson_lock_token/ } $ha->all_keys });
done_testing();
