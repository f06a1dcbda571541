# Copyright (c) 2026, lockredis contributors

# Tokens in reserve (072) are those of one counter: they are not used when another store or
# another master has the lock.  Forced here: a failover, and the table and back, each with a
# reserve that is left.  Several masters raise the counters of most of them above all of it,
# also where these differ.
# Proves G17, G22, G47.

use LockRedis::Masters;
use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Topic::Failover;

# The reserve that the first hand-over takes, in settings.c
use constant MAX_HANDOFFS => 32;

my $counters = qr/^redisson_lock_token:/;
my $fenced = "SELECT redis_fenced_lock('k')";
my $recording = "BEGIN; SELECT redis_fenced_xact_lock('k')";

# What the next one gets from the holder
sub hand ($holder, $next, $how = "SELECT redis_unlock('k')")
{
	run($holder, $how);
	my $result = $next->wait(limit(60));
	die $result->{raw} if $result->dead || $result->error;
	return $result->value;
}

#
# one ─► two: 2, in reserve 3 .. ─► another master ─► three: asks that one
#
{
	my $ha = LockRedis::Sentinels->new;
	my $node = LockRedis::Node->create('failover', redis => $ha,
		settings => { 'lockredis.lease' => '10min' });

	$node->wait_for_up;
	my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;

	run($one, $fenced);
	$node->queue_up('k', map { $_ => $fenced } $two, $three, $four);
	is(hand($one, $two), 2, 'failover: two');
	replicated($ha);
	my $new = $ha->fail_over;
	wait_until_used($node, $new);
	poll_until('the new master to be asked',
		sub { $node->value("SELECT renewals FROM redis_locks WHERE granted AND key = 'k'") > 0 }, 60);
	is(hand($two, $three), 2 + MAX_HANDOFFS, 'failover: three has one of the new master');
	is(hand($three, $four), 3 + MAX_HANDOFFS, 'failover: and four the next one in reserve');
	is($node->lock_stat('handoffs'), 3, 'failover: each was handed over');
	is($new->token('k'), 2 * MAX_HANDOFFS, 'failover: the new counter is above them');
	run($four, "SELECT redis_unlock('k')");
	$ha->wait_until_steady;

	# With the lock one takes tokens for those behind it ─► another master ─► two: asks that one
	$new->foreign_lock('k');
	$node->queue_up('k', map { $_ => $fenced } $one, $two, $three);
	$new->foreign_unlock('k');
	my $token = $one->wait(limit(60))->value;
	is($token, 2 * MAX_HANDOFFS + 1, 'failover: one again, with the lock');
	replicated($ha);
	$new = $ha->fail_over;
	wait_until_used($node, $new);
	poll_until('the new master to be asked',
		sub { $node->value("SELECT renewals FROM redis_locks WHERE granted AND key = 'k'") > 0 }, 60);
	is(hand($one, $two), $token + MAX_HANDOFFS + 1, 'failover: two has one of the new master');
	is(hand($two, $three), $token + MAX_HANDOFFS + 2, 'failover: and three the next one in reserve');
	run($three, "SELECT redis_unlock('k')");
	$_->quit foreach $one, $two, $three, $four;
	$ha->wait_until_steady;
	nothing_left($node, $ha, keys => $counters);
	$node->stop;
}

#
# one ─► two: 2, in reserve 3 .. ─► the table: no tokens at session level, others are its own
#     ─► Redis again: tokens go on there
#
{
	my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('fallback',
		settings => { 'lockredis.lease' => '30s' });
	my ($one, $two, $refused, $three, $four, $five, $six) = map { $node->session } 1 .. 7;

	run($one, $fenced);
	$node->queue_up(
		'k',
		$two => $fenced,
		$refused => $fenced,
		$three => $recording,
		$four => $recording,
		$five => $fenced,
		$six => $fenced);
	is(hand($one, $two), 2, 'fallback: two');
	$node->cut_off($proxy);
	poll_until('the lock to be in the table', sub { %{ $table->hash('k') } });

	# The one that is refused is handed it first, and has taken tokens by then.
	my $token = hand($two, $three);
	$refused->wait(limit(60))->fails('55000', qr/redis_fenced_xact_lock/,
		'fallback: there are none at session level');
	is($token, MAX_HANDOFFS, 'fallback: three has one of the table');
	is($table->token('k'), $token + MAX_HANDOFFS - 3, 'fallback: the table has a reserve, too');
	is(hand($three, $four, 'COMMIT'), $token + 1, 'fallback: of which four has the next one');
	$node->reconnect($proxy);
	poll_until('the lock to be in Redis', sub { !%{ $table->hash('k') } });
	is(hand($four, $five, 'COMMIT'), 2 + MAX_HANDOFFS, 'fallback: five has one of Redis again');
	is(hand($five, $six), 3 + MAX_HANDOFFS, 'fallback: and six the next one in reserve');
	is($node->lock_stat('handoffs'), 5, 'fallback: each was handed over');
	run($six, "SELECT redis_unlock('k')");
	$_->quit foreach $one, $two, $refused, $three, $four, $five, $six;
	nothing_left($node, $redis, keys => $counters);
	$node->stop;
}

#
# Several masters, two of which are ahead, so that one of them has a vote: the reserve begins
# above its counter, and the other one follows.
#
{
	my $masters = LockRedis::Masters->new(n => 3);
	my @nodes = $masters->nodes;
	my ($node, $other) = map {
		LockRedis::Node->create($_, redis => $masters,
			settings => { 'lockredis.lease' => '10min', 'lockredis.command_timeout' => '60s' })
	} 'masters', 'other';

	$_->wait_for_up foreach $node, $other;
	my ($one, $two, $three) = map { $node->session } 1 .. 3;
	my $elsewhere = $other->session;

	run($one, $fenced);
	$masters->wait_for_owners('k', 3);
	$node->queue_up('k', map { $_ => $fenced } $two, $three);
	$_->set_token('k', 100) foreach @nodes[ 0, 1 ];
	is(hand($one, $two), 101, 'masters: two is above the highest');
	cmp_ok((grep { $_->token('k') == 100 + MAX_HANDOFFS } @nodes), '>=', 2,
		'masters: most of them have the reserve');
	is(hand($two, $three), 102, 'masters: three has the next one in reserve');
	$elsewhere->start($fenced);
	run($three, "SELECT redis_unlock('k')");
	cmp_ok($elsewhere->wait(limit(60))->value, '>', 100 + MAX_HANDOFFS,
		'masters: another server is above all of it');

	# Likewise where the create takes it.
	$node->queue_up('k', map { $_ => $fenced } $one, $two);
	$_->set_token('k', 1000) foreach @nodes[ 1, 2 ];
	run($elsewhere, "SELECT redis_unlock('k')");
	is($one->wait(limit(60))->value, 1001, 'masters: one is above the highest');
	cmp_ok((grep { $_->token('k') == 1001 + MAX_HANDOFFS } @nodes), '>=', 2,
		'masters: most of them have the reserve of a create');
	is(hand($one, $two), 1002, 'masters: two has the next one in reserve');
	$elsewhere->start($fenced);
	run($two, "SELECT redis_unlock('k')");
	cmp_ok($elsewhere->wait(limit(60))->value, '>', 1001 + MAX_HANDOFFS,
		'masters: another server is above all of that');
	run($elsewhere, "SELECT redis_unlock('k')");
	$_->quit foreach $one, $two, $three, $elsewhere;
	nothing_left([ $node, $other ], $masters, keys => $counters);
}

done_testing();
