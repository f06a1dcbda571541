# Copyright (c) 2026, lockredis contributors

# Several keys at once and a failover: another node becomes the master between the
# grants of one answer, by a debugger, or while one of the keys is waited for.
# Proves G1, G38.

use LockRedis::Debugger;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

LockRedis::Debugger->need;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my $node = LockRedis::Node->create('main', redis => $ha, settings => { 'lockredis.lease' => '5min' });
my ($one, $two) = map { $node->session } 1 .. 2;
my @keys = ('a', 'b', 'c');

$node->wait_for_up;
$_->query_is("SELECT redis_multi_lock('{a,b,c}'); SELECT redis_multi_unlock('{a,b,c}')", "\nt", 'warm')
  foreach $one, $two;

#   session                              watchdog
#   has the answer of master 1
#   a is had
#                                        master 2; asks it about a
#   b: master 1 does not count
#   gives a back, asks master 2 for each
#
# A try that does not wait is no "somebody has one" for that: nobody has.
foreach my $call ('redis_multi_lock', 'redis_try_multi_lock')
{
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my $stop = LockRedis::Debugger->new($one->pid);

	$old->outrun_replicas(@replicas);
	$stop->run_to('lt_grant_unqueued', q{name->data[0] == 'b'});
	$one->start("SELECT $call('{a,b,c}')");
	$stop->wait_for_stop;
	my $new = replace_master($node, $ha, @replicas);
	$stop->let_go;
	if ($call eq 'redis_multi_lock')
	{
		is($one->wait->error, undef, 'another master between two grants: all are had');
		$one->query_is("SELECT bool_and(redis_is_held(k)) FROM unnest('{a,b,c}'::text[]) k", 't', 'held');
		is(scalar(grep { $new->cmd('HLEN', $_) == 1 } @keys), 3, 'the new master has them');
		$two->query_is("SELECT redis_try_lock('a'), redis_try_lock('b'), redis_try_lock('c')", 'f|f|f',
			'by one only');
	}
	else
	{
		$one->wait->fails('58030', qr/lock store/, 'a try that a failover has made vain');
		poll_until('all to be given back', sub { !$new->cmd('EXISTS', @keys) });
		$one->query_is("SELECT redis_try_multi_lock('{a,b,c}')", 't', 'then again');
	}
	$one->query_is("SELECT redis_multi_unlock('{a,b,c}')", 't', 'given back');
	is($new->cmd('EXISTS', @keys), 0, 'nothing is left');
	bring_back($node, $ha, $old);
}

# Who waits for one key has the others also afterwards.
{
	$two->query_is("SELECT redis_lock('c')", '');
	$node->queue_up('c', $one => "SELECT redis_multi_lock('{c,b,a}')");
	replicated($ha);
	my $old = $ha->master;

	$old->kill9;
	wait_until_used($node, $ha->wait_for_master_but($old));
	ok($one->is_running, 'it still waits');
	$two->query_is("SELECT redis_unlock('c')", 't');
	is($one->wait->error, undef, 'and has all at last');
	$one->query_is("SELECT redis_multi_unlock('{a,b,c}')", 't', 'which were kept');
}

end_test($node, $ha);
