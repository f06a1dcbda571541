# Copyright (c) 2026, lockredis contributors

# Fair locks in fallback mode: who waits for one stands in the queue of the server while the
# table is in use, in the order of the places and with plain locks, and takes his place in
# Redis again in that order; what he had there before is given back; one that stands still
# holds up nobody; a lock that is held goes along, past those who queue in Redis.
# Proves G1, G5, G26.

use LockRedis::Test qw(:DEFAULT owner_in);

# Leases that no stop of the machine uses up, and places that end by nothing but what is to
# be tested.
my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main',
	settings => {
		'lockredis.lease' => '60s',
		'lockredis.wait_lease' => '1h',
		'lockredis.max_handoffs' => 0 });
my @sessions = map { $node->session } 1 .. 7;
my ($holder, @waiting) = @sessions;
my $soon = limit(60);

# A watchdog that has not looked for a second does not know whether Redis has answered since:
# who asks the table then waits for one lease more.  So it is not stopped here, and the time of
# each turn is longer than a lease.
my $patience = 60 + limit(60);

sub queue
{
	my ($key) = @_;

	return @{ $redis->cmd('LRANGE', "redisson_lock_queue:{$key}", 0, -1) };
}

sub wait_fairly
{
	my ($session, $key) = @_;
	my $n = queue($key);

	$session->start("SELECT redis_fair_lock('$key')");
	poll_until('its place', sub { queue($key) > $n });
	return;
}

sub wait_for_row
{
	my ($key, $owner) = @_;

	return poll_until("$key to belong to $owner in the table",
		sub { owner_in($table->hash($key)) eq $owner });
}

# All who wait for the key are in one queue, behind who has it.
sub wait_for_queue
{
	my ($key, $n) = @_;

	return poll_until("$n to queue for $key",
		sub { $node->count_locks("key = '$key' AND cardinality(blocked_by) = $n") == 1 });
}

# They have the key one at a time, and give it back; true if in this order.
sub have_it_in_turn
{
	my ($key, @all) = @_;
	my @left = @all;
	my @order;

	while (@left)
	{
		my ($next) = poll_until("$key: the next one",
			sub { (grep { !$_->is_running } @left)[0] }, $patience);

		@left = grep { $_ != $next } @left;
		push @order, $next;
		is($next->wait($patience)->error, undef, "$key: the next one");
		is((scalar grep { $_->is_running } @left), scalar @left, "$key: and nobody else");
		$next->query_is("SELECT redis_unlock('$key')", 't', "$key: and back");
	}
	return "@order" eq "@all";
}

#
# To the table: in the order of the places, plain locks among them.  Who does not run for a
# second when his turn has come lets the next one go first by right: then once more.
#
my ($key, $owner);
my $kept = 0;
for (my $round = 1; $round <= 5 && !$kept; $round++)
{
	$node->reconnect($proxy) if $round > 1;
	$key = "a$round";
	$holder->query("SELECT redis_fair_lock('$key')");
	wait_fairly($waiting[0], $key);
	$waiting[1]->start("SELECT redis_lock('$key')");
	poll_until('it to wait', sub { $node->count_locks("key = '$key' AND NOT granted") == 2 });
	wait_fairly($waiting[2], $key);
	$waiting[3]->start("SELECT redis_lock('$key')");
	poll_until('it to wait', sub { $node->count_locks("key = '$key' AND NOT granted") == 4 });
	$owner = owner_in($redis->hash($key));
	$node->cut_off($proxy);
	wait_for_row($key, $owner);
	wait_for_queue($key, 4);
	$holder->query_is("SELECT redis_unlock('$key')", 't', 'given back in the table');
	$kept = have_it_in_turn($key, @waiting[ 0 .. 3 ]);
}
ok($kept, 'in the order of their places');
$waiting[4]->query_is("SELECT redis_try_fair_lock('$key', '1h')", 't', 'one that comes then');
$node->queue_up($key,
	$waiting[0] => "SELECT redis_fair_lock('$key')",
	$waiting[1] => "SELECT redis_try_fair_lock('$key', '1h')");
$waiting[4]->query_is("SELECT redis_unlock('$key')", 't');
have_it_in_turn($key, @waiting[ 0, 1 ]);
$node->reconnect($proxy);
poll_until('the places of before to be given back', sub { !queue($key) });

#
# And back: each takes his place after the one before him.  Likewise.
#
$kept = 0;
for (my $round = 1; $round <= 5 && !$kept; $round++)
{
	$key = "b$round";
	$holder->query("SELECT redis_fair_lock('$key')");
	$owner = owner_in($redis->hash($key));
	$node->cut_off($proxy);
	wait_for_row($key, $owner);
	$node->queue_up($key, map { $_ => "SELECT redis_fair_lock('$key')" } @waiting);
	$node->reconnect($proxy);
	poll_until('all to have a place', sub { queue($key) == @waiting });
	is(scalar(grep { !$_->is_running } @waiting), 0, 'all wait');
	$holder->query_is("SELECT redis_unlock('$key')", 't');
	$kept = have_it_in_turn($key, @waiting);
}
ok($kept, 'in the order in which they waited in the table');

# One of them stands still: the others wait for it for a second, and it comes last.
$holder->query("SELECT redis_fair_lock('c')");
$owner = owner_in($redis->hash('c'));
$node->cut_off($proxy);
wait_for_row('c', $owner);
$node->queue_up('c', map { $_ => "SELECT redis_fair_lock('c')" } @waiting[ 0 .. 2 ]);
$waiting[0]->freeze;
$node->reconnect($proxy);
poll_until('places of the others', sub { queue('c') == 2 });
$waiting[0]->thaw;
poll_until('its place', sub { queue('c') == 3 });
$holder->query_is("SELECT redis_unlock('c')", 't');
foreach my $left (reverse 0 .. 2)
{
	my $next = poll_until('the next one', sub { (grep { !$_->is_running } @waiting[ 0 .. $left ])[0] });

	last if $next == $waiting[0] && $left > 0;	# the others had lost their places, by right
	is($next->wait($soon)->error, undef, 'one of them');
	$next->query_is("SELECT redis_unlock('c')", 't');
	@waiting[ 0 .. $left ] = ((grep { $_ != $next } @waiting[ 0 .. $left ]), $next);
}
foreach my $session (grep { $_->is_running || $node->count_locks("key = 'c'") } @waiting[ 0 .. 2 ])
{
	is($session->wait($soon)->error, undef, 'one that is left');
	$session->query_is("SELECT redis_unlock('c')", 't');
}

# One that waits gives up, in the table: nothing of it is in Redis.
$holder->query("SELECT redis_fair_lock('d')");
wait_fairly($waiting[0], 'd');
wait_fairly($waiting[1], 'd');
$owner = owner_in($redis->hash('d'));
$node->cut_off($proxy);
wait_for_row('d', $owner);
$waiting[0]->cancel;
$waiting[0]->wait($soon)->fails('57014', qr/cancel/, 'cancelled');
$node->reconnect($proxy);
poll_until('one place', sub { queue('d') == 1 });
$holder->query_is("SELECT redis_unlock('d')", 't');
is($waiting[1]->wait($soon)->error, undef, 'of the other one');
$waiting[1]->query_is("SELECT redis_unlock('d')", 't');

# A lock that is held comes back although somebody stands in the queue there.
$holder->query("SELECT redis_fair_lock('e'), redis_fair_lock('e')");
$owner = owner_in($redis->hash('e'));
$node->cut_off($proxy);
wait_for_row('e', $owner);
$redis->cmd('DEL', 'e');
$redis->cmd('RPUSH', 'redisson_lock_queue:{e}', 'somebody:1');
$redis->cmd('ZADD', 'redisson_lock_timeout:{e}', 9_999_999_999_999, 'somebody:1');
$node->reconnect($proxy);
poll_until('it to be in Redis', sub { owner_in($redis->hash('e')) eq $owner });
poll_until('and not in the table', sub { !$table->all_keys });
$holder->query_is("SELECT redis_hold_count('e', 'fair'), redis_unlock('e'), redis_unlock('e')",
	'2|t|t', 'held all the time');
is(join(' ', queue('e')), 'somebody:1', 'the queue is as it was');
$redis->cmd('DEL', 'redisson_lock_queue:{e}', 'redisson_lock_timeout:{e}');

$_->quit foreach @sessions;
is($node->lock_stat('losses'), 0, 'nothing was lost');
end_test($node, $redis);
