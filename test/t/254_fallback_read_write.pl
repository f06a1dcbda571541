# Copyright (c) 2026, lockredis contributors

# Read-write locks in fallback mode: while Redis is away 58000
# with a hint, also for those who wait; what is held ends with its lease, or goes on if
# Redis is back before; the table never has any of it.
# Proves G26.

use LockRedis::Test;

my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '60s' });
my ($one, $two, $three, $four) = map { $node->session } 1 .. 4;
my $soon = limit(60);

sub is_refused
{
	my ($result, $kind, $name) = @_;

	$result->fails('58000', qr/"$kind" is not available.*Try again when redis_lock_status/s, $name);
	return;
}

#
# Redis goes away.
#
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
$_->quit foreach $one, $two, $three, $four;
is($node->lock_stat('losses'), 1, 'one was lost');
end_test($node, $redis);
