# Copyright (c) 2026, lockredis contributors

# Read-write locks: a writer that is announced in Redis and does not run when it is woken
# loses the announcement, so that nobody waits for it while the key is free: the next
# one of its server, one of another server, and readers.  The same with what it has just
# been given there, before it knows.  When it runs again it starts anew.  One that is passed
# over in a request that takes long gives up by itself what that has announced.
# Proves G1, G5.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

# What ends by itself does so long after the limits of this test.
my $redis = LockRedis::Redis->new;
my %settings = ('lockredis.wait_lease' => '1h', 'lockredis.lease' => '30min');
my $near = LockRedis::Node->create('near', redis => $redis, settings => \%settings);
my $far = LockRedis::Node->create('far', redis => $redis, settings => \%settings);
my ($stopped, $next) = map { $near->session } 1 .. 2;
my $other = $far->session;

$_->wait_for_up foreach $near, $far;

sub writers
{
	my ($key) = @_;

	return $redis->cmd('ZCARD', "lockredis_writers:{$key}");
}

# A writer that knows nothing of lockredis has the key, until it is told here.
sub locked_elsewhere
{
	my ($key) = @_;

	$redis->cmd('HSET', $key, 'mode', 'write', 'elsewhere:1:write', 1);
	$redis->cmd('PEXPIRE', $key, 3_600_000);
	return;
}

sub unlock_elsewhere
{
	my ($key) = @_;

	$redis->cmd('DEL', $key);
	$redis->cmd('PUBLISH', "redisson_rwlock:{$key}", '1');
	return;
}

sub announced
{
	my ($session, $key) = @_;
	my $before = writers($key);

	# It sleeps then, and is told over this channel.
	$redis->after_second_look($key, sub { $session->start("SELECT redis_write_lock('$key')") },
		channel => "redisson_rwlock:{$key}");
	poll_until('announced', sub { writers($key) == $before + 1 });
	return;
}

sub had
{
	my ($session, $unlock, $name) = @_;

	is($session->wait(60)->error, undef, $name);
	$session->query_is("SELECT $unlock", 't');
	return;
}

# The next one of the same server; then one of another server, with nobody behind the
# one that is stopped; then a reader there.
locked_elsewhere('a');
announced($stopped, 'a');
$next->start("SELECT redis_write_lock('a')");
$near->wait_for_waiters('a', 2);
$stopped->freeze;
unlock_elsewhere('a');
had($next, "redis_write_unlock('a')", 'the next one of its server has the lock');
is(writers('a'), 0, 'nobody is announced');
ok($stopped->is_running, 'the one that was stopped waits on');
$stopped->thaw;
had($stopped, "redis_write_unlock('a')", 'and has the lock when it runs again');

foreach my $kind ('write', 'read')
{
	locked_elsewhere($kind);
	announced($stopped, $kind);
	if ($kind eq 'write')
	{
		announced($other, $kind);
	}
	else
	{
		$other->start("SELECT redis_read_lock('$kind')");
		$far->wait_for_waiters($kind, 1);
	}
	$stopped->freeze;
	unlock_elsewhere($kind);
	is($other->wait(60)->error, undef, "$kind: one of another server has the lock");
	is(writers($kind), 0, "$kind: nobody is announced");
	$stopped->thaw;
	poll_until("$kind: it is announced anew", sub { writers($kind) == 1 });
	$other->query_is("SELECT redis_${kind}_unlock('$kind')", 't');
	had($stopped, "redis_write_unlock('$kind')", "$kind: and then has the lock");
}

# Redis has given it the lock, and it is stopped before it knows: what it has there is
# given back, and it does not take what others may have had since.
my $stop = LockRedis::Debugger->new($stopped->pid);

$stop->run_to('lt_grant');
$stopped->start("SELECT redis_write_lock('given')");
$stop->wait_for_stop;
my ($owner) = grep { /:write$/ } keys %{ $redis->hash('given') };
like($owner, qr/^\S+:write$/, 'Redis has given it the lock');
$next->start("SELECT redis_write_lock('given')");
$near->wait_for_waiters('given', 2);
had($next, "redis_write_unlock('given')", 'the next one has the lock');
$redis->wait_for_key('given', 0);
$stop->let_go;
is($stopped->wait(60)->error, undef, 'it takes the lock when it runs again');
isnt($redis->hash('given')->{$owner}, 1, 'as another owner');
is(scalar keys %{ $redis->hash('given') }, 2, 'which Redis knows');
$stopped->query_is("SELECT redis_write_unlock('given')", 't');

# A request takes long, and meanwhile the one that asks is woken once more: it is passed
# over.  The others need not wait for what it has announced, though it runs.
my $proxy = LockRedis::Proxy->new($redis);
my $slow = LockRedis::Node->create('slow', url => $proxy->url, redis => $redis,
	settings => { %settings, 'lockredis.command_timeout' => '5min' });
my ($first, $second) = map { $slow->session } 1 .. 2;

$slow->wait_for_up;
locked_elsewhere('slow');
announced($first, 'slow');
$second->start("SELECT redis_write_lock('slow')");
$slow->wait_for_waiters('slow', 2);
my $id = $proxy->rule(match => 'slow', action => 'hold', times => 1);
$redis->cmd('PUBLISH', 'redisson_rwlock:{slow}', '1');
$proxy->wait_for_rule($id);
$redis->cmd('PUBLISH', 'redisson_rwlock:{slow}', '1');
poll_until('the second asks instead', sub { writers('slow') == 2 }, 60);
$proxy->let_go;
poll_until('the first gives up what it has announced', sub { writers('slow') == 1 }, 60);
unlock_elsewhere('slow');
had($second, "redis_write_unlock('slow')", 'the second has the lock');
had($first, "redis_write_unlock('slow')", 'and then the first');

end_test([ $near, $far, $slow ], $redis);
