# Copyright (c) 2026, lockredis contributors

# Five independent masters that are shared with the real redsync, with a pool for each,
# and with the real RedissonRedLock, with a client for each: who has a lock on one side
# keeps the other side out, who waits gets what the other side gives back; and with one master
# gone it is the same.  306_torture_masters has many of all at once, and masters that stand still.

use LockRedis::Masters;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;

LockRedis::TokenClient->need;
LockRedis::Redisson->need;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '30s', 'lockredis.command_timeout' => '30s' });
my $java = LockRedis::Redisson->new;
my $redsync = LockRedis::TokenClient->new('redsync', @nodes);
my $one = $node->session;

my @uuids = $java->call('r', 'connect', $masters->url, 30_000)->or_die->words;
is(scalar @uuids, 5, 'Redisson: a client for each of them');
$node->wait_for_up;

# A session that is idle sends nothing: what goes to a node whose connection was being made
# for too long goes there with what it does next.
sub has_in_the_end ($key, $n, $what)
{
	poll_until(
		"$what: $n nodes with $key",
		sub {
			$one->value("SELECT redis_is_locked('p')");
			return $masters->have($key) == $n;
		});
	return;
}

# A majority has it, whoever else was asked.
sub majority_has ($key, $what)
{
	cmp_ok($masters->have($key), '>=', 3, $what);
	return;
}

# 478_token_clients has what each side may do with a token of the other one; here it is that a
# majority of masters goes by it.
sub with_redsync ($which)
{
	# Theirs
	my $theirs = $redsync->take('t', 60_000);
	ok(defined $theirs, "redsync, $which: taken by the other side");
	majority_has('t', 'at a majority');
	$one->query_is("SELECT redis_try_token_lock('t', '0', '1min')", 'NULL', 'busy for us');
	$one->query_is("SELECT redis_token_is_held('t', '$theirs')", 't', 'we know its token');
	$one->query_is("SELECT redis_token_extend('t', '$theirs', '10min')", 't', 'may extend it');
	$one->query_is("SELECT redis_token_unlock('t', '$theirs')", 't', 'and may give it back');
	has_in_the_end('t', 0, 'everywhere');

	# Ours
	my $ours = $one->value("SELECT redis_token_lock('t', '1min')");
	majority_has('t', "redsync, $which: taken by us");
	is($redsync->take('t', 60_000), undef, 'busy for the other side');
	ok($redsync->extend('t', $ours, 600_000), 'with it it can extend');
	cmp_ok(scalar(grep { $_->pid && $_->cmd('PTTL', 't') > 300_000 } @nodes),
		'>=', 3, 'for longer');
	ok($redsync->release('t', $ours), 'and release');
	has_in_the_end('t', 0, 'nothing is left');

	# Who waits
	$one->query_is("SELECT redis_token_lock('t', '1h', 'ours')", 'ours', 'ours again');
	$redsync->start('take', 't', '-', 3_600_000, 50_000);
	$one->query_is("SELECT redis_token_unlock('t', 'ours')", 't');
	$theirs = $redsync->answer;
	ok(defined $theirs, 'who waits there gets it');
	$node->queue_up('t', $one => "SELECT redis_token_lock('t', '1h', 'ours')");
	ok($redsync->release('t', $theirs), 'the other side gives it back');
	is($one->wait(60)->value, 'ours', 'and we have it');
	$one->query_is("SELECT redis_token_unlock('t', 'ours')", 't', 'and give it back');
	has_in_the_end('t', 0, 'nothing is left');

	# A reentrant lock of ours
	$one->query_is("SELECT redis_try_lock('t')", 't', 'a reentrant lock');
	is($redsync->take('t', 60_000), undef, 'keeps it out as well');
	$one->query_is("SELECT redis_unlock('t')", 't', 'given back');
	has_in_the_end('t', 0, 'nothing is left');
	return;
}

sub with_redisson ($which)
{
	# Theirs
	$java->call('r.1', 'red.lock', 'k', -1)->or_die;
	majority_has('k', "RedissonRedLock, $which: taken by the other side");
	my @have = grep { $_->pid && $_->cmd('EXISTS', 'k') } @nodes;
	my %owners = map { $_->owner_of('k') => 1 } @have;
	is(scalar keys %owners, scalar @have, 'with another owner at each');
	$one->query_is("SELECT redis_try_lock('k')", 'f', 'busy for us');
	$one->query_is("SELECT redis_is_locked('k'), redis_lock_owner('k') IS NULL",
		't|t', 'it is locked, and by nobody whom all know');
	$one->query_is("SELECT redis_try_token_lock('k', '0', '1min')", 'NULL',
		'busy as a token lock');
	$node->queue_up('k', $one => "SELECT redis_lock('k')");
	$java->call('r.1', 'red.unlock', 'k')->or_die;
	is($one->wait(60)->error, undef, 'we have it when it is given back');

	# Ours
	poll_until('nobody to wait',
		sub { !grep { $_->pid && $_->subscribers($_->channel('k')) } @nodes });
	is($java->value('r.1', 'red.tryLock', 'k', 0, -1), 'false', 'busy for the other side');
	$one->query_is("SELECT redis_is_held('k')", 't', 'ours stays');
	my $waits = $java->send('r.2', 'red.lock', 'k', -1);
	poll_until('Redisson to wait',
		sub { grep { $_->pid && $_->subscribers($_->channel('k')) } @nodes });
	$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
	ok(!$java->wait($waits, 60)->error, 'who waits there has it then');
	$one->query_is("SELECT redis_try_lock('k')", 'f', 'and keeps us out');
	$java->call('r.2', 'red.unlock', 'k')->or_die;
	has_in_the_end('k', 0, 'nothing is left');
	return;
}

# All of them know the scripts: where one has to be told twice, a session asks for no
# token lock for a while.
$one->query_is("SELECT redis_token_lock('first', '1min', 'first')", 'first', 'a token lock');
$one->query_is("SELECT redis_token_unlock('first', 'first')", 't', 'given back');
has_in_the_end('first', 0, 'everywhere');

with_redsync('five masters');
with_redisson('five masters');

# ---- one of them is gone

$nodes[4]->kill9;
$one->quit;
$one = $node->session;
with_redsync('one is gone');
with_redisson('one is gone');

$java->shutdown('r');
$java->stop;
$redsync->stop;
end_test($node, $masters, keys => qr/unlock_latch/, clients => qr/session/);
