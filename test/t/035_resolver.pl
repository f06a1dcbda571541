# Copyright (c) 2026, lockredis contributors

# Host names are resolved by a process of its own (src/watchdog/resolver.c):
#
# - a resolver that hangs holds up neither renewals nor a shutdown;
# - nothing is resolved while the watchdog's connection serves it, nor for the
#   lack of a descriptor;
# - another address is taken up when nobody answers at the known one;
# - the process ends, whoever ends it, and is no part of the server.
#
# The server runs with test/fault/names.c, which resolves names as told here.
#
# Proves G18, G29.

use LockRedis::FalseSentinel;
use LockRedis::Test qw(:DEFAULT fault_library);

need_tool('prlimit');

my $names = PostgreSQL::Test::Utils::tempdir();
my $shim = fault_library('names.c');

# ----------
# What names.c does
# ----------

sub write_file ($name, $text)
{
	open my $fh, '>', "$names/.new" or die "could not write: $!";
	print $fh $text;
	close $fh or die "could not write: $!";
	rename "$names/.new", "$names/$name" or die "could not rename: $!";
	return;
}

sub name_is_at { return write_file("$_[0].shim.test", "127.0.0.1 $_[1]\n"); }

sub name_hangs { return write_file("hang-$_[0].shim.test", ''); }

sub name_answers
{
	unlink "$names/hang-$_[0].shim.test" or die "could not unlink: $!";
	return;
}

# The processes that asked for a name so far
sub askers ($name)
{
	my @pids;

	open my $fh, '<', "$names/calls" or return @pids;
	@pids = map { /^(\d+) \Q$name\E\.shim\.test$/ ? $1 : () } <$fh>;
	return @pids;
}

# ----------
# The server
# ----------

my $redis = LockRedis::Redis->new;
my $other = LockRedis::Redis->new(name => 'other');
my $proxy = LockRedis::Proxy->new($redis);
my $other_proxy = LockRedis::Proxy->new($other);

name_is_at('a', $proxy->port);
name_is_at('b', $redis->port);

# No more workers than the watchdog and PostgreSQL's own launcher of logical
# replication: the resolver is none.
my $node = LockRedis::Node->create(
	'main',
	url => 'redis://a.shim.test',
	start => 0,
	settings => {
		max_worker_processes => 2,
		'lockredis.lease' => '6s',
		'lockredis.connect_timeout' => '2s',
		'lockredis.command_timeout' => '3s'
	});

sub start_server ($which)
{
	local $ENV{LD_PRELOAD} = $shim;
	local $ENV{LOCKREDIS_TEST_NAMES} = $names;

	$which->start;
	return;
}

sub children ($pid) { return map { /(\d+)/ } `ps -o pid= --ppid $pid`; }

# A zombie without a parent waits for the process with the id 1.
sub is_gone ($pid)
{
	return poll_until("process $pid to be gone",
		sub { `ps -o stat= -p $pid` !~ /[^Z\s]/ });
}

# Nobody answers at the known address any more.
sub cut_off
{
	$proxy->mode('refuse');
	$proxy->reset_all;
	return;
}

# ... and the next one who asks for the name hangs: its process.
sub hanging_resolver
{
	my $before = askers('a');

	cut_off();
	poll_until('a process to ask for the name', sub { askers('a') > $before });
	return (askers('a'))[-1];
}

# More than a lease's worth of them
sub renewed_on ($what)
{
	my $before = $node->lock_stat('renewals');

	return ok(eval { poll_until($what, sub { $node->lock_stat('renewals') >= $before + 4 }) }, $what);
}

sub works_again ($s)
{
	return poll_until('a lock to be granted',
		sub { $s->query("SELECT redis_try_lock('again')")->out eq 't' })
	  && $s->query("SELECT redis_unlock('again')");
}

start_server($node);
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
my $one = $node->session;
my $watchdog = $node->watchdog_pid;

$one->query_is("SELECT redis_try_lock('held')", 't', 'a lock of a named node');
is(scalar askers('a'), 1, 'the name was asked for once');
poll_until('the process to be reaped', sub { !children($watchdog) });

#
# A session cannot connect, the watchdog is: no reason to ask.  (It asked by
# itself, and the lock was lost.)
#
name_hangs('a');
$proxy->mode('refuse');
my $two = $node->session;
pause(1.5);    # a name is not asked for twice in a second
$two->query_fails("SELECT redis_try_lock('k')",
	'58000', qr/could not reach/, 'one session is refused');
renewed_on('the watchdog goes on');
is(scalar askers('a'), 1, 'and has not asked for the name');
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');

#
# The watchdog's connection breaks: the name is asked for, and it goes on with
# the known address meanwhile.
#
my $resolver = hanging_resolver();
$proxy->mode('pass');
renewed_on('renewals go on while the resolver hangs');
$one->query_is("SELECT redis_is_held('held')", 't', 'the lock is held');
$two->query_is("SELECT redis_try_lock('k')", 't', 'others are granted');
is_deeply([ children($watchdog) ], [$resolver], 'it hangs still, and is one');
isnt($resolver, $watchdog, 'a process of its own');
name_answers('a');
is_gone($resolver);
$two->query_is("SELECT redis_unlock('k')", 't', 'its answer changes nothing');
$one->query_is("SELECT redis_unlock('held')", 't', 'held until the end');
is($node->watchdog_pid, $watchdog, 'by the same watchdog');

#
# The name has moved, and the node at the old address goes away in all manners.
#
name_is_at('a', $other_proxy->port);
$one->query_is("SELECT redis_try_lock('here')", 't', 'the name has moved');
is_deeply([ $redis->all_keys ], ['here'], 'not as long as the node is good');
$one->query_is("SELECT redis_unlock('here')", 't', 'and unlock');

my ($from, $to) = ($proxy, $other_proxy);
foreach my $mode ('refuse', 'hang', 'silent')
{
	name_is_at('a', $to->port);
	$to->mode('pass');
	$from->mode($mode);
	$from->reset_all;
	works_again($two);
	poll_until('the process to be reaped', sub { !children($watchdog) });
	($from, $to) = ($to, $from);
}
$two->query_is("SELECT redis_try_lock('there')", 't', 'moved three times');
is_deeply([ $other->all_keys ], ['there'], 'it is at the other address');
$two->query_is("SELECT redis_unlock('there')", 't', 'and unlock');

#
# A node that has become a replica serves an idle watchdog: its word that it
# takes no writes is a reason to ask.
#
my $before = askers('a');
$node->wait_for_up;
$other->cmd('REPLICAOF', '127.0.0.1', 1);
name_is_at('a', $proxy->port);
$proxy->mode('pass');
works_again($two);
cmp_ok(scalar askers('a'), '>', $before, 'asked after READONLY');
$other_proxy->mode('refuse');
$other_proxy->reset_all;
$node->wait_for_up;
$other->cmd('REPLICAOF', 'NO', 'ONE');

#
# No descriptor: that says nothing of the address.  In front of a node that
# denies the watchdog what it needs, so that its connection is kept and does not
# make it deaf to those who ask.
#
poll_until('the process to be reaped', sub { !children($watchdog) });
$redis->cmd('ACL', 'SETUSER', 'default', '-time');
poll_until('the node to be down', sub { $node->lock_status('state') eq 'down' });
my ($client) =
  grep { $_->{name} eq 'lockredis-session-' . $two->pid } $redis->clients;
$redis->cmd('CLIENT', 'KILL', 'ID', $client->{id});
$before = askers('a');
system('prlimit', '--pid', $two->pid, '--nofile=3:') == 0 or die 'no prlimit';
$two->query_fails("SELECT redis_try_lock('k')",
	'53000', qr/Too many open files/, 'no descriptor');
pause(1.5);    # more than any pause between two processes
is(scalar askers('a'), $before, 'nobody asks for the name');
system('prlimit', '--pid', $two->pid, '--nofile=1000:') == 0 or die 'no prlimit';
$proxy->mode('refuse');
$two->query_fails("SELECT redis_try_lock('k')", '58000', qr/could not reach/, 'refused');
poll_until('the name to be asked for', sub { askers('a') > $before });
$proxy->mode('pass');
$redis->cmd('ACL', 'SETUSER', 'default', '+time');
works_again($two);

#
# No process can be started.
#
system('prlimit', '--pid', $watchdog, '--nproc=1:') == 0 or die 'no prlimit';
$node->log_since_here;
cut_off();
poll_until('the reason to be logged',
	sub { $node->logged(qr/host name.*: could not start a process for that: \w/) });
system('prlimit', '--pid', $watchdog, '--nproc=10000:') == 0 or die 'no prlimit';
$proxy->mode('pass');
works_again($two);
is($node->watchdog_pid, $watchdog, 'the same watchdog goes on');
poll_until('the process to be reaped', sub { !children($watchdog) });

#
# However the process ends: the next one asks, and nobody else notices.
#
my $started = $node->value('SELECT pg_postmaster_start_time()');

name_hangs('a');
$resolver = hanging_resolver();
foreach my $signal ('KILL', 'TERM')
{
	my $n = askers('a');

	kill $signal, $resolver;
	is_gone($resolver);
	poll_until('the next process', sub { askers('a') > $n });
	$resolver = (askers('a'))[-1];
}
is($node->watchdog_pid, $watchdog, 'the same watchdog');
is($one->query('SELECT pg_postmaster_start_time()')->value,
	$started, 'and no session has noticed');

#
# Another name, while the process hangs with the old one.
#
$node->set('lockredis.url' => 'redis://b.shim.test');
$one->query_is("SELECT redis_try_lock('k')", 't', 'another name');
is_gone($resolver);
$before = askers('a');
name_answers('a');
$one->query_is("SELECT redis_unlock('k')", 't', 'and it stays there');
is(scalar askers('a'), $before, 'the old name is not asked for');

# A name that nobody knows is asked for now and then only.
$node->log_since_here;
my $since = now();
$node->set('lockredis.url' => 'redis://c.shim.test');
poll_until('the third process', sub { askers('c') >= 3 });
cmp_ok(now() - $since, '>=', 2.9, 'a second and two seconds between them');
is($node->times_logged(qr/could not resolve the host name/), 1, 'and one line');

# Nothing is known of this one, so it is waited for.
name_hangs('a');
$node->set('lockredis.url' => 'redis://a.shim.test');
$one->query_fails(
	"SELECT redis_try_lock('k')", '58000',
	qr/host name in lockredis\.url could not be resolved in time/,
	'within the time to connect');
$node->set('lockredis.connect_timeout' => '60s');
$one->start("SELECT redis_try_lock('k')");
$node->wait_for_event($one, 'Extension');

# It has not read yet that the name is another one now: nobody is asked for the old
# one on its account, which would keep the process from those who use the new one.
my $old = askers('a');
$node->set('lockredis.url' => 'redis://b.shim.test');
$two->query_is("SELECT redis_try_lock('new')", 't', 'the new name is asked for');
pause(1.5);
is(scalar askers('a'), $old, 'and the old one no more');
$two->query_is("SELECT redis_unlock('new')", 't', 'served there');
$one->cancel;
$one->wait(20)->fails('57014', qr/cancel/, 'a cancel ends it');
$node->set('lockredis.url' => 'redis://a.shim.test');
poll_until('the next process', sub { askers('a') > $old });

#
# Another database of the same Redis, while the process hangs: what is known of
# the name goes on being good.
#
$node->set('lockredis.connect_timeout' => '2s');
name_answers('a');
$proxy->mode('pass');
works_again($one);
poll_until('the process to be reaped', sub { !children($watchdog) });
name_hangs('a');
$before = askers('a');
$node->set('lockredis.url' => 'redis://a.shim.test/1');
$one->query_is("SELECT redis_try_lock('k')", 't', 'at the known address');
poll_until('the name to be asked for', sub { askers('a') > $before });
$one->query_is("SELECT redis_unlock('k')", 't', 'and unlock');

#
# The watchdog ends, the server too: nothing is left, and nobody waits.
#
$resolver = (askers('a'))[-1];
$one->query_is("SELECT pg_terminate_backend($watchdog)", 't', 'terminated');
is_gone($resolver);
is_gone($watchdog);
poll_until('the next process', sub { (askers('a'))[-1] != $resolver });
$resolver = (askers('a'))[-1];
isnt($node->watchdog_pid, $watchdog, 'the next watchdog asks again');
$_->quit foreach $one, $two;

foreach my $how ('fast', 'immediate')
{
	$since = now();
	$before = askers('a');
	kill 'STOP', $resolver if $how eq 'fast';
	$node->stop($how);
	cmp_ok(now() - $since, '<', 30, "$how shutdown");
	is_gone($resolver);
	start_server($node);
	poll_until('the next process', sub { askers('a') > $before });
	$resolver = (askers('a'))[-1];
}

$node->log_since_here;
$before = askers('a');
kill 'KILL', $node->watchdog_pid;
is_gone($resolver);
poll_until('the next process', sub { askers('a') > $before });

$proxy->mode('pass');
name_answers('a');
$node->wait_for_up;
$one = $node->session;
works_again($one);
$one->quit;
$watchdog = $node->watchdog_pid;
poll_until('the process to be reaped', sub { !children($watchdog) });
nothing_left($node, $redis);
$node->stop;

#
# Fallback mode: what counts is that Redis does not answer, and that it does,
# while the resolver hangs all the time.
#
$node = LockRedis::Node->create(
	'fallback',
	url => 'redis://a.shim.test',
	start => 0,
	settings => {
		'lockredis.mode' => 'fallback',
		'lockredis.fallback_after' => '1s',
		'lockredis.lease' => '6s',
		'lockredis.connect_timeout' => '2s',
		'lockredis.command_timeout' => '2s'
	});
start_server($node);
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
$node->wait_for_up;
$one = $node->session;
$one->query_is("SELECT redis_try_lock('held')", 't', 'fallback: a lock');
name_hangs('a');
$resolver = hanging_resolver();
$node->wait_for_store('table');
$one->query_is("SELECT redis_is_held('held')", 't', 'fallback: in the table');
$node->reconnect($proxy);
$one->query_is("SELECT redis_unlock('held')", 't', 'fallback: and back');
is_deeply([ children($node->watchdog_pid) ], [$resolver], 'fallback: the resolver hangs still');
$one->quit;
name_answers('a');
is_gone($resolver);

#
# Another setting, while the process hangs: Sentinels are where they were.
#
my $sentinel = LockRedis::FalseSentinel->new;
$sentinel->names($redis, epoch => 1);
name_is_at('s', $sentinel->port);
$node->set('lockredis.url' => 'redis-sentinel://s.shim.test/svc');
LockRedis::FalseSentinel::wait_until_heard($sentinel);
name_hangs('s');
$node->set('lockredis.tls_server_name' => 'of.no.use');
$before = $sentinel->answered('SENTINEL');
ok(poll_until('the Sentinel', sub { $sentinel->answered('SENTINEL') > $before + 9 }), 'still asked');
end_test($node, $redis);
