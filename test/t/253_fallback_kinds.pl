# Copyright (c) 2026, lockredis contributors

# Fair locks in fallback mode: who waits for one stands in the queue of the server while the
# table is in use, in the order of the places and with plain locks, and takes his place in
# Redis again in that order; what he had there before is given back; a lock that is held goes
# along, past those who queue in Redis.  And read-write locks, which the table never has.
# Proves G1, G5, G26.

use LockRedis::Test qw(:DEFAULT owner_in);

# Leases that no stop of the machine uses up, and places that end by nothing but what is to
# be tested.
my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback('main',
	settings => {
		'lockredis.lease' => '60s',
		'lockredis.wait_lease' => '1h',
		'lockredis.max_handoffs' => 0 });
my ($holder, @waiting) = map { $node->session } 1 .. 5;

# A watchdog that has not looked for a second does not know whether Redis has answered since:
# who asks the table then waits for one lease more.  So it is not stopped here, and the time of
# each turn is longer than a lease.
my $patience = 60 + limit(60);

sub queue ($key) { return @{ $redis->cmd('LRANGE', "redisson_lock_queue:{$key}", 0, -1) }; }

sub wait_for_row ($key, $owner)
{
	return poll_until("$key to belong to $owner in the table",
		sub { owner_in($table->hash($key)) eq $owner });
}

# All who wait for the key are in one queue, behind who has it.
sub wait_for_queue ($key, $n)
{
	return poll_until("$n to queue for $key",
		sub { $node->count_locks("key = '$key' AND cardinality(blocked_by) = $n") == 1 });
}

# They have the key one at a time, and give it back; true if in this order.
sub have_it_in_turn ($key, @all)
{
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
	foreach my $i (0 .. 3)
	{
		$waiting[$i]->start("SELECT redis_" . ($i % 2 ? '' : 'fair_') . "lock('$key')");
		poll_until('it to wait', sub { $node->count_locks("key = '$key' AND NOT granted") == $i + 1 });
		poll_until('its place', sub { queue($key) > $i / 2 });
	}
	$owner = owner_in($redis->hash($key));
	$node->cut_off($proxy);
	wait_for_row($key, $owner);
	wait_for_queue($key, 4);
	$holder->query_is("SELECT redis_unlock('$key')", 't', 'given back in the table');
	$kept = have_it_in_turn($key, @waiting);
}
ok($kept, 'in the order of their places');
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

is($node->lock_stat('losses'), 0, 'nothing was lost');

#
# Read-write locks: while Redis is away 58000 with a hint, also for those who wait; what is held
# ends with its lease, or goes on if Redis is back before; the table never has any of it.
#
$_->quit foreach $holder, @waiting;
my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;
my $soon = limit(60);

sub is_refused ($result, $kind, $name)
{
	$result->fails('58000', qr/"$kind" is not available.*Try again when redis_lock_status/s, $name);
	return;
}

$one->query_is("SELECT redis_read_lock('held'), redis_write_lock('written')", '|');
$one->query_is("SELECT redis_read_lock('short', '20s'), redis_lock('carried')", '|');
$two->start("SELECT redis_write_lock('held')");
$three->start("SELECT redis_read_lock('written')");
$node->wait_for_waiters('held', 1);
$node->wait_for_waiters('written', 1);

# A reader elsewhere, for whom a writer waits, and says so.
$redis->cmd('HSET', 'far', mode => 'read', 'x:1' => 1);
$redis->cmd('SET', '{far}:x:1:rwlock_timeout:1', 1);
$redis->cmd('PEXPIRE', $_, 3_600_000) foreach 'far', '{far}:x:1:rwlock_timeout:1';
$four->start("SELECT redis_write_lock('far')");
poll_until('the writer to be announced', sub { $redis->cmd('ZCARD', 'lockredis_writers:{far}') });
$node->cut_off($proxy);
is_refused($four->wait($soon), 'write', 'one that waits for somebody elsewhere');
is_refused($two->wait($soon), 'write', 'one that waits to write');
is_refused($three->wait($soon), 'read', 'and one that waits to read');
is_refused($four->query("SELECT redis_${_}_lock('k')"), $_, "a $_ lock") foreach 'read', 'write';
is_refused($four->query("SELECT redis_try_${_}_lock('k')"), $_, "a try of a $_ lock")
  foreach 'read', 'write';
is_refused($four->query("SELECT redis_fenced_write_lock('k')"), 'write', 'a fenced one');
is_refused($four->query("BEGIN; SELECT redis_read_xact_lock('k')"), 'read', 'in a transaction');
$four->query('ROLLBACK');
poll_until('the reentrant lock to be in the table', sub { $table->cmd('EXISTS', 'carried') });
is(join(' ', $table->all_keys), 'carried', 'and nothing else');

# Held until the lease ends; taken again without asking anybody.
$one->query_is("SELECT redis_is_held('held'), redis_is_held('written'), redis_is_held('short')",
	't|t|t', 'held while the lease runs');
$one->query_is("SELECT redis_read_lock('held'), redis_read_unlock('held')", '|t', 'taken again');
$two->query_fails("SELECT redis_try_lock('held')", '42809', qr/read lock/, 'by nobody else');
poll_until('the lease of one to end', sub { $one->value("SELECT redis_is_held('short')") eq 'f' }, 60);
$one->query_warns("SELECT redis_read_unlock('short')", 'f', '01000', qr/lease/, 'it is told');
$one->query_is("SELECT redis_is_held('held'), redis_is_held('written')", 't|t',
	'those with longer ones stand');

#
# Back before the leases end: they go on there.
#
$node->reconnect($proxy);
poll_until('what waited to be gone', sub { !$redis->cmd('EXISTS', 'lockredis_writers:{far}') });
$redis->cmd('DEL', 'far', '{far}:x:1:rwlock_timeout:1');
$one->query_is("SELECT redis_is_held('held'), redis_is_held('written'), redis_extend('held', '10min')",
	't|t|t', 'held all the time');
$one->query_is('SELECT redis_unlock_all()', '3', 'and given back');
is($node->lock_stat('losses'), 1, 'one was lost');
end_test($node, $redis);

