# Copyright (c) 2026, lockredis contributors

# Conditions of locks in table mode: who is notified, what the lock is afterwards, limits, who is
# cancelled when he was notified, and a worker that ends.
# A condition is no lock, so no guarantee speaks of it.

use LockRedis::Test;
use LockRedis::Topic::Condition qw(told);

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', mode => 'table', redis => $table);
my @sessions = map { $node->session } 1 .. 4;
my ($one, $two, $three, $notifier) = @sessions;

# It waits, and the lock has gone.
sub await ($session, $key, $wait = undef)
{
	$wait = defined $wait ? "'$wait'" : 'NULL';
	$session->start("SELECT redis_condition_wait('$key', $wait)");
	poll_until('it waits', sub {
		$node->count_locks("key = '$key' AND kind = 'condition' AND pid = " . $session->pid)
		  && !$node->count_locks("key = '$key' AND granted AND pid = " . $session->pid) });
	return;
}

# In the order of arrival; as often as before.
foreach ($one, $two, $three)
{
	$_->query("SELECT redis_lock('a'), redis_lock('a')");
	await($_, 'a');
	poll_until('the lock is free', sub {
		$notifier->value("SELECT redis_try_lock('a')") eq 't'
		  && $notifier->value("SELECT redis_unlock('a')") eq 't' });
}
is($node->value("SELECT count(*) FROM redis_lock_rows"), 0, 'nobody has it');
foreach ($one, $two)
{
	$notifier->query_is("SELECT redis_lock('a'), redis_condition_notify('a'), redis_unlock('a')",
		'|1|t', 'one is notified');
	is(told($_), 't', 'the one who waits longest');
	$_->query_is("SELECT redis_hold_count('a'), redis_unlock_all()", '2|1', 'as before');
}
$_->query("SELECT redis_lock('a')"), await($_, 'a') foreach $one, $two;
$notifier->query_is(
	"SELECT redis_lock('a'), redis_condition_notify_all('a', 'another one'), redis_condition_notify_all('a')",
	'|0|3', 'all');
ok($one->is_running && $two->is_running && $three->is_running, 'but they wait for the lock');
$notifier->query_is("SELECT redis_unlock('a'), redis_is_held('a')", 't|f');
my %left = map { $_ => $_ } $one, $two, $three;
while (%left)
{
	my $session = poll_until('another one', sub { (grep { !$_->is_running } values %left)[0] });

	is(told($session), 't', 'one after the other');
	$session->query_is("SELECT redis_unlock_all()", '1');
	delete $left{$session};
}

# Limits.
$one->query_is("SELECT redis_lock('b'), redis_condition_wait('b', '100ms'), redis_is_held('b'), "
	. "redis_condition_wait('b', '0'), redis_unlock('b')", '|f|t|f|t', 'nobody notified in time');
$one->query("SELECT redis_lock('b'); SET lock_timeout = '3s'");
await($one, 'b');
$two->query("SELECT redis_lock('b')");
await($two, 'b');
$notifier->query_is("SELECT redis_lock('b'), redis_condition_notify('b')", '|1');
$one->wait(limit(60))->fails('55P03', qr/lock timeout/, 'notified, but the lock was not free');
$notifier->query_is("SELECT redis_unlock('b')", 't');
is(told($two), 't', 'so another one is notified');
$two->query_is("SELECT redis_unlock('b')", 't');
$one->query_warns("RESET lock_timeout; SELECT redis_unlock('b')", 'f', '01000', qr/released/, 'lost');

# A worker that is started again knows nobody.
$one->query("SELECT redis_lock('c')");
await($one, 'c');
my $worker = $node->table_worker_pid;
$node->value("SELECT pg_terminate_backend($worker)");
is(told($one), 't', 'who waited looks for himself');
$one->query_is("SELECT redis_is_held('c'), redis_unlock('c')", 't|t');

# What the lock has to be.
$one->query_fails("SELECT redis_condition_notify('d')", '55000', qr/don't own/, 'not held');
$one->query("SELECT redis_lock('d')");
$table->cmd('DEL', 'd');
$one->query_fails("SELECT redis_condition_notify('d')", '55000', qr/was lost/, 'lost');
$one->query("SELECT redis_unlock('d')");

end_test($node, $table);
