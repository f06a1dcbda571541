# Copyright (c) 2026, lockredis contributors

# Permits when something goes wrong in the middle: requests whose replies nobody reads, by a
# hold and by an id, at a cancel and at the end of the session; releases that are not
# answered; Redis that comes back empty; a server that crashes; a waiter that gives up when
# it is woken.  302_torture_kinds has more waiters than permits, on two servers.
# Proves G1, G4.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);

# For so long an orphan is looked after, and anything else may take.
my $node = LockRedis::Node->create('main', url => $proxy->url,
	settings => { 'lockredis.command_timeout' => limit(4) . 's', 'lockredis.lease' => '1h' });
my ($one, $two) = map { $node->session } 1 .. 2;

sub available { return $redis->cmd('GET', 'k') }

sub all_are_back
{
	my ($name) = @_;

	return poll_until("$name: all to be back",
		sub { available() == 2 && $redis->cmd('EXISTS', '{k}:timeout') == 0 && $node->count_locks("key = 'k'") == 0 });
}

$one->query_is("SELECT redis_permit_init('k', 2)", 't');
$one->query_is("SELECT redis_permit_lock('k'), redis_permit_unlock('k')", '|t');

# It is carried out, or not yet when its caller goes; then all of it arrives.
foreach my $case (
	[ "redis_permit_lock('k')", request => 'cancel' ],
	[ "redis_permit_acquire('k', '1h')", reply => 'cancel' ],
	[ "redis_try_permit_acquire('k', '1h', '1h')", reply => 'terminate' ])
{
	my ($request, $on, $end) = @$case;
	my $name = "$request, its $on is late, $end";
	my $session = $node->session;
	my $orphans = $node->lock_stat('orphans');
	my $rule = $proxy->rule(on => $on, match => '{k}:timeout', action => 'hold');

	$session->start("SELECT $request");
	$proxy->wait_for_rule($rule);
	$session->$end;
	ok(defined $session->wait(60)->error, "$name: it ends");
	poll_until("$name: the orphan", sub { $node->lock_stat('orphans') > $orphans });
	$proxy->release;
	$proxy->clear;
	all_are_back($name);
	$session->quit if $end eq 'cancel';
}

# A release whose reply is late counts once.
$one->query_is("SELECT redis_permit_lock('k'), redis_permit_lock('k')", '|');
{
	my $rule = $proxy->rule(on => 'reply', match => '{k}:timeout', action => 'hold');

	$one->start("SELECT redis_permit_unlock('k')");
	$proxy->wait_for_rule($rule);
	$one->cancel;
	$one->wait(60);
	$proxy->release;
	$proxy->clear;
}
poll_until('the orphan to go', sub { $node->count_locks("key = 'k'") == 1 });
is(available(), 1, 'one is back');
$one->query_is("SELECT redis_permit_unlock('k')", 't', 'the other');
all_are_back('two releases');

# A Redis without memory refuses, and takes nothing away by that.
$one->query_is("SELECT redis_permit_lock('k')", '');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_fails("SELECT redis_extend('k', '2h')", '58030', qr/refused/, 'no lease is lengthened');
$one->query_is("SELECT redis_is_held('k')", 't', 'none is lost');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$one->query_is("SELECT redis_extend('k', '2h')", 't', 'afterwards all is as before');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_is("SELECT redis_permit_unlock('k')", 't', 'it can be given back without memory');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
all_are_back('no memory');

# Redis loses everything: all permits are lost, and there is no semaphore.
$one->query_is("SELECT redis_permit_lock('k')", '');
$redis->cmd('FLUSHALL');
$two->query_fails("SELECT redis_permit_lock('k')", '42704', qr/number of permits of/, 'there is none');
$one->query_warns("SELECT redis_permit_unlock('k')", 'f', '01000', qr/lost/, 'it was lost');
$one->query_is("SELECT redis_permit_init('k', 2)", 't', 'a new one');

# One is woken and gives up in that moment: the next one gets it.
{
	my @waiters = map { $node->session } 1 .. 2;

	$one->query_is("SELECT redis_permit_lock('k'), redis_permit_lock('k')", '|');
	$node->queue_up('k', map { $_ => "SELECT redis_permit_lock('k', '1h')" } @waiters);
	$waiters[0]->freeze;
	$one->query_is("SELECT redis_permit_unlock('k')", 't', 'given back while the first stands still');
	is($waiters[1]->wait(60)->error, undef, 'the second gets it');
	$waiters[0]->cancel;
	$waiters[0]->thaw;
	like($waiters[0]->wait(60)->error, qr/user request/, 'the first gives up');
	$_->query_is("SELECT redis_permit_unlock('k')", 't') foreach $waiters[1], $one;
	all_are_back('one that stood still');
	$_->quit foreach @waiters;
}

# The server crashes: what its sessions had comes back at the end of the lease.
$one->query_is("SELECT redis_permit_lock('k', '1h')", '');
my $id = $two->value("SELECT redis_permit_acquire('k', '1h')");
$one->kill9;
poll_until('the server to be back', sub { eval { $node->value('SELECT 1') } });
is(available(), 0, 'both are still had');
is($node->value("SELECT redis_permit_release('k', '$id')"), 't', 'that of the id can be given back');
is(available(), 1, 'one is free');
$redis->cmd('ZADD', '{k}:timeout', 1, $_) foreach @{ $redis->cmd('ZRANGE', '{k}:timeout', 0, -1) };
is($node->value("SELECT redis_permit_available('k')"), 2, 'the other one at the end of its lease');

done_testing();
