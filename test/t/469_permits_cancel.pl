# Copyright (c) 2026, lockredis contributors

# A cancel that comes together with the answer to redis_permit_acquire: the caller does not
# get the id, so the permit is given back.
# Proves G5.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, settings => { 'lockredis.lease' => '1h' });
my $keeper = $node->session;

$keeper->query_is("SELECT redis_permit_init('k', 1)", 't');

# The answer is read; before the function goes on the signal is there.
foreach my $end (qw(cancel terminate))
{
	my $session = $node->session;
	my $stop;

	$session->query("SELECT redis_permit_total('k')");
	$stop = LockRedis::Debugger->new($session->pid);
	$stop->run_to('lt_grant');
	$session->start("SELECT redis_permit_acquire('k', '1h')");
	$stop->wait_for_stop;
	is($redis->cmd('GET', 'k'), 0, "$end: it is taken");
	$session->$end;
	$stop->let_go;
	ok(defined $session->wait(limit(60))->error, "$end: no id");
	poll_until("$end: it to be back", sub { $redis->cmd('GET', 'k') == 1 });
	poll_until('the orphan to go', sub { $node->count_locks == 0 });
	$session->quit if $end eq 'cancel';
}

done_testing();
