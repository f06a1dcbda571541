# Copyright (c) 2026, lockredis contributors

# redis_force_unlock: whatever kind of lock it takes away, and from however many, each of
# them in this server has lost it when it returns, without anybody having to be asked: the
# background worker stands still meanwhile.  It takes tokens and permits too.  Where nobody
# has anything it says so, unless it may not see whether that is so.
#
# (One whose lock was granted, and who does not know that yet, is the simulator's: its mutants
# granted_before_force and granted_after_force.)
#
# Proves G6.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my ($node, $redis) = servers(redis => lock_store, settings => { 'lockredis.lease' => '1h' });

$node->safe_psql('postgres', 'CREATE TABLE written (what text)');
my $force = $node->session;
my @sessions = map { $node->session } 1 .. 3;
my $watchdog = $node->watchdog_pid;

# The watchdog stands still while that is done.
sub unwatched ($code)
{
	kill 'STOP', $watchdog;
	my $done = eval { $code->(); 1 };
	my $error = $@;
	kill 'CONT', $watchdog;
	die $error unless $done;
	return;
}

sub is_forced ($key, $name)
{
	$force->query_is("SELECT redis_force_unlock('$key')", 't', "$name: taken away");
	return;
}

# The session has lost the key as that kind, and its transaction does not commit.
sub has_lost ($session, $key, $kind, $name, $sqlstate)
{
	$session->query_is("SELECT redis_is_held('$key', '$kind')", 'f', "$name: lost");
	$session->query_fails('COMMIT', $sqlstate, qr/"$key" was lost.*by force/s,
		"$name: and no commit");
	$session->query('SELECT redis_unlock_all()');
	return;
}

#
# Of all kinds
#

my %taken = (
	reentrant => [ "SELECT redis_lock('%s')" ],
	fair => [ "SELECT redis_fair_lock('%s')" ],
	write => [ "SELECT redis_write_lock('%s'), redis_read_lock('%s')" ],
	read => [ ("SELECT redis_read_lock('%s')") x 2, "SELECT redis_read_xact_lock('%s')" ],
	permit => [ ("SELECT redis_permit_lock('%s')") x 2, "SELECT redis_permit_xact_lock('%s')" ]);

foreach my $kind (sort keys %taken)
{
	my $key = "all_$kind";
	my @calls = @{ $taken{$kind} };

	$force->query("SELECT redis_permit_init('$key', 5)") if $kind eq 'permit';
	foreach my $i (0 .. $#calls)
	{
		$sessions[$i]->query("BEGIN; INSERT INTO written VALUES ('$kind')");
		my $result = $sessions[$i]->query($calls[$i] =~ s/%s/$key/gr);
		is($result->error, undef, "$kind $i: had");
	}
	unwatched(sub {
		is_forced($key, $kind);
		has_lost($sessions[$_], $key, $kind, "$kind $_",
			$calls[$_] =~ /xact/ ? '40001' : '55000')
		  foreach 0 .. $#calls;
	});
	$force->query_is("SELECT redis_force_unlock('$key')", 'f', "$kind: nothing is left");
}
is($node->value('SELECT count(*) FROM written'), 0, 'nothing was written');
$force->query_is("SELECT redis_permit_available('all_permit')", '5', 'all_permits are free');

# More than can be told at once.
my @many = map { $node->session(settings => { 'lockredis.on_lost' => 'cancel' }) } 1 .. 10;
foreach (@many)
{
	$_->query("SELECT redis_read_lock('many')");
	$_->start('SELECT pg_sleep(600)');
	$node->wait_for_event($_, 'PgSleep');
}
unwatched(sub {
	is_forced('many', 'many');
	is((scalar grep { ($_->wait->sqlstate // '') eq '57014' } @many), 10, 'many: each is told');
});
$_->quit foreach @many;

#
# Tokens, and what nobody has
#

$force->query("SELECT redis_token_lock('token', '1 hour', 'secret')");
$sessions[0]->start("SELECT redis_lock('token')");
$node->wait_for_waiters('token', 1);
is_forced('token', 'token');
is($sessions[0]->wait(60)->error, undef, 'token: who waits has it');
$sessions[0]->query("SELECT redis_unlock('token')");
$force->query_is("SELECT redis_token_is_held('token', 'secret')", 'f', 'token: gone');

# Who waits may have it before the one who has taken the token away goes on.
$force->query("SELECT redis_token_lock('quick', '1 hour', 'secret')");
$sessions[0]->start("SELECT redis_lock('quick')");
$node->wait_for_waiters('quick', 1);
my $before = LockRedis::Debugger->new($force->pid);
$before->run_to('ask_run', 'op->kind == STORE_FORCE');
$force->start("SELECT redis_force_unlock('quick')");
$before->wait_for_stop;
$before->tell('finish');
is($sessions[0]->wait(60)->error, undef, 'quick: who waits has it');
$before->let_go;
is($force->wait->value, 't', 'quick: taken away');
$sessions[0]->query_is("SELECT redis_is_held('quick'), redis_unlock('quick')", 't|t',
	'quick: who has come since keeps it');

$force->query("SELECT redis_semaphore_init('semaphore', 3), redis_latch_init('latch', 2)");
foreach my $key ('nothing', 'semaphore', 'latch', 'all_permit')
{
	$force->query_is("SELECT redis_force_unlock('$key')", 'f', "$key: nobody has anything");
}
$force->query_is("SELECT redis_semaphore_available('semaphore'), redis_latch_count('latch')", '3|2',
	'numbers stay as they were');
$force->query("SELECT redis_semaphore_delete('semaphore'), redis_latch_delete('latch')");

of_redis 'other values, and the rights of a user' => sub {
	$redis->cmd('RPUSH', 'list', 'a');
	$redis->cmd('SET', 'text', 'a');
	$redis->cmd('SET', 'long', 'a' x 2000, 'PX', 600_000);
	$force->query_fails("SELECT redis_force_unlock('$_')", '42809', qr/does not hold/,
		"$_: no lock")
	  foreach qw(list text long);
	$redis->cmd('DEL', qw(list text long));

	# Another token than the one that was seen.
	$redis->cmd('SET', 'other', 'one', 'PX', 600_000);
	my $stop = LockRedis::Debugger->new($force->pid);
	$stop->run_to('ask_run', 'op->kind == STORE_FORCE');
	$force->start("SELECT redis_force_unlock('other')");
	$stop->wait_for_stop;
	$redis->cmd('SET', 'other', 'another', 'PX', 600_000);
	$stop->let_go;
	is($force->wait->value, 'f', 'other: taken from nobody who has come since');
	is($redis->cmd('GET', 'other'), 'another', 'other: who keeps it');
	$redis->cmd('DEL', 'other');

	# A user who may not see the permits that are held is not told that there are none.
	$sessions[0]->query("SELECT redis_permit_lock('all_permit')");
	$redis->cmd('ACL', 'SETUSER', 'default', 'resetkeys', '~all_permit');
	my $refused = $force->query("SELECT redis_force_unlock('all_permit')");
	like($refused->error . ' ' . ($refused->detail // ''), qr/denied access/, 'permits out of reach');
	$redis->cmd('ACL', 'SETUSER', 'default', '~*');
	$sessions[0]->query("SELECT redis_unlock_all()");
};

$force->query("SELECT redis_unlock_all()");
$redis->cmd('FLUSHALL');
end_test($node, $redis);
