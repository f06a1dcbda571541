# Copyright (c) 2026, lockredis contributors

# What work costs beside much else: counted, not timed.
#
# - Locks of several kinds in one batch: what is alike goes out side by side, whatever order the
#   locks were taken in, and shares commands.  So the end of a transaction, redis_unlock_all and the
#   end of a session need one command for each kind, and not for each lock; so do renewals.
# - A reader looks at no other one of its server, however many there are, nor does its release at the
#   others in Redis, unless it has the longest lease; then it looks for one who stays as long.  All
#   of them may leave, and who is the longest leaves a time to live that covers the others.
# - Fair locks: fifty places of a server that has crashed end together, for who waits behind them
#   with as few questions as behind one.
# - When more is due at once than a batch can take, the watchdog goes over all of it once for a
#   batch, to choose what is most urgent.
# - A commit looks at each of the locks that a session has only when the lease of one of them is
#   near its end, by what that lease wants.
# - Where replies usually take longer than recv() waits for them at first, it soon waits for longer,
#   so a request does not need another system call to wait for its reply.
#
# For bars of speed, not for a guarantee.

use FindBin;
use lib "$FindBin::Bin/../bench";

use Bench::Meter;
use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my ($node, $redis, $proxy) = LockRedis::Node->create_behind_proxy(
	'main',
	settings => {
		'lockredis.lease' => '600s',
		'lockredis.wait_lease' => '300s',
		'lockredis.command_timeout' => '60s'
	});
my ($one, $two, @readers) = map { $node->connected_session } 1 .. 22;

# ----------
# Batches
# ----------

# Of each kind; as many as one release takes.
my $n = 40;
my @kinds = qw(lock fair_lock read_lock write_lock);

# Locks of all kinds by turns.
sub take ($session, $xact, @of)
{
	my @calls = map { my $name = $xact ? s/lock$/xact_lock/r : $_; "redis_$name('$_:' || i)" } @of;
	my $taken = $session->query('SELECT ' . join(', ', map { "count($_)" } @calls)
		  . " FROM generate_series(1, $n) i");

	is($taken->{raw}, '', 'locks of ' . @of . ' kinds');
	return;
}

# The scripts that a session calls meanwhile: how many keys each call has.
sub calls ($do)
{
	return map { my @args = LockRedis::Monitor->args($_); $args[0] =~ /^eval/i ? $args[2] : () }
	  $redis->session_commands($do);
}

# Redis has all scripts then.
take($one, 0, @kinds);
$one->query_is('SELECT redis_unlock_all()', 4 * $n, 'given back');

# Keys of a release: the lock; all of a fair lock; lock, channel and time-out of this
# reader, or writers.
my @expected = sort { $a <=> $b } $n, 5 * $n, 3 * $n, 3 * $n;

# A COMMIT waits for its releases for 100 ms: what has not been sent by then is left to the
# watchdog.
my @sent;
foreach (1 .. 20)
{
	$one->query('BEGIN');
	take($one, 1, @kinds);
	@sent = sort { $a <=> $b } calls(sub { $one->query('COMMIT') });
	poll_until('all to be given back', sub { $node->count_locks == 0 });
	last if "@sent" eq "@expected";
}
is_deeply(\@sent, \@expected, 'the end of a transaction: a command for each kind');

take($one, 0, @kinds);
is_deeply([ sort { $a <=> $b } calls(sub { $one->query('SELECT redis_unlock_all()') }) ],
	\@expected, 'redis_unlock_all: likewise');

my $ends = $node->session;
take($ends, 0, @kinds);
is_deeply([ sort { $a <=> $b } calls(sub { $ends->quit }) ],
	\@expected, 'the end of a session: likewise');

# All are due when the watchdog has a connection again.  What it sends until each has
# been renewed: lock, and time-out of a reader.
sub renewals ($locks)
{
	my $before = $node->lock_stat('renewals');
	my $monitor = $redis->monitor;
	my %keys;

	$redis->kill_clients('watchdog');
	poll_until('all to be renewed', sub { $node->lock_stat('renewals') >= $before + $locks }, 60);
	foreach my $line ($monitor->stop)
	{
		my ($command, undef, $keys, @names) = $monitor->args($line);

		next unless $command =~ /^eval/i && $keys > 0;
		push @{ $keys{calls} }, $keys;
		$keys{locks} += grep { /^(?:fair_|read_|write_)?lock:/ } @names[ 0 .. $keys - 1 ];
	}
	return \%keys;
}

take($one, 0, @kinds);
my $sent = renewals(4 * $n);
cmp_ok($sent->{locks}, '>=', 4 * $n, 'all were renewed');
cmp_ok($sent->{locks} / @{ $sent->{calls} },
	'>=', $n / 2, "in few commands: $sent->{locks} locks in @{$sent->{calls}}");
$one->query('SELECT redis_unlock_all()');

take($one, 0, qw(lock fair_lock));
$sent = renewals(2 * $n);
ok((grep { $_ > $n } @{ $sent->{calls} }),
	"two kinds with one script share commands: @{$sent->{calls}}");
$one->query('SELECT redis_unlock_all()');

# ----------
# Readers
# ----------

# The watchdog asks Redis the same now and then.
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;

# How often a session looks at a hold of the key while it takes a read lock and gives it
# back.
sub looks ($session)
{
	my $gdb = LockRedis::Debugger->new($session->pid);
	my $hits = $gdb->counts('lt_is_live');

	$gdb->run_to('lt_end_release');
	$session->start("SELECT redis_read_lock('k'), redis_read_unlock('k')");
	$gdb->wait_for_stop;
	my $looks = $hits->();
	$gdb->let_go;
	is($session->wait->error, undef, 'taken and given back');
	return $looks;
}

# What a release asks Redis about time-outs
sub asked ($session)
{
	$session->query("SELECT redis_read_lock('k', '300s')");
	my $before = $redis->calls('pttl', 'hkeys');
	$session->query_is("SELECT redis_read_unlock('k')", 't', 'given back');
	return $redis->calls('pttl', 'hkeys') - $before;
}

# They have the longest lease.
$_->query("SELECT redis_read_lock('k')") foreach $one, $readers[0];
$one->query("SELECT redis_read_unlock('k')");
my $few = looks($one);
my $few_asked = asked($one);
$_->query("SELECT redis_read_lock('k')") foreach @readers[ 1 .. $#readers ];
is(looks($one), $few, "as many looks beside @{[ scalar @readers ]} readers as beside one: $few");
is(asked($one), $few_asked, "as many questions: $few_asked");

# Whoever has the longest lease with others: who comes after it is as good.
$_->query("SELECT redis_read_lock('k', '3600s')") foreach $one, $two;
my $before = $redis->calls('pttl');
$one->query_is("SELECT redis_read_unlock('k')", 't', 'the longest of two');
cmp_ok($redis->calls('pttl') - $before, '<=', 4, 'looks for nobody else, or for one');
ok($redis->cmd('PTTL', 'k') > 3_000_000, 'and shortens nothing');
$two->query_is("SELECT redis_read_unlock('k')", 't', 'the longest of all');
my $left = $redis->cmd('PTTL', 'k');
ok($left > 0 && $left <= 600_000, 'leaves the lock as long as the others stay');
$redis->cmd('PERSIST', 'k');
$readers[0]->query_is("SELECT redis_read_unlock('k')", 't', 'of a lock without an end');
is(scalar keys %{ $redis->hash('k') }, scalar @readers, 'one of many goes, and mode stays');
$_->query_is("SELECT redis_read_unlock('k')", 't', 'given back') foreach @readers[ 1 .. $#readers ];

# So many readers of other servers: of each the last ms of its lease; 0: it has crashed.
sub readers_elsewhere ($key, @ends)
{
	$redis->cmd('EVAL', q{
		redis.call('HSET', KEYS[1], 'mode', 'read')
		for i = 1, #ARGV do
			redis.call('HSET', KEYS[1], 'elsewhere:' .. i, 1)
			if ARGV[i] ~= '0' then
				redis.call('SET', '{' .. KEYS[1] .. '}:elsewhere:' .. i .. ':rwlock_timeout:1', 1,
					'PX', ARGV[i])
				if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[i]) then
					redis.call('PEXPIRE', KEYS[1], ARGV[i])
				end
			end
		end}, 1, $key, @ends);
	return;
}

my @commands = qw(del exists expire hdel hexists hget hgetall hkeys hlen hset pexpire pttl publish set
  type zadd zrange zrem zremrangebyscore zscore);

sub cost ($session, $sql)
{
	my $before = $redis->calls(@commands);

	$session->query($sql);
	return $redis->calls(@commands) - $before;
}

# All of their leases end before ours, by up to a third.
my %cost;

foreach my $others (3, 300)
{
	my $key = "k$others";

	readers_elsewhere($key, map { 400_000 + int(199_000 * $_ / $others) } 1 .. $others);
	$cost{take}{$others} = cost($one, "SELECT redis_read_lock('$key')");
	$cost{extend}{$others} = cost($one, "SELECT redis_extend('$key', '601s', 'read')");
	$cost{leave}{$others} = cost($one, "SELECT redis_read_unlock('$key')");
	is(scalar keys %{ $redis->hash($key) }, $others + 1, "$others stay");
	cmp_ok($redis->cmd('PTTL', $key), '>', 590_000, 'and the lock lasts until the last one ends');
}
foreach (sort keys %cost)
{
	is($cost{$_}{300}, $cost{$_}{3}, "$_: as many commands beside 300 readers as beside 3: $cost{$_}{3}");
}

# Who stays for much longer than all others looks for the last of them, once.
readers_elsewhere('long', map { 10_000 + 1000 * $_ } 1 .. 100);
$one->query("SELECT redis_read_lock('long', '1h'), redis_read_unlock('long')");
$left = $redis->cmd('PTTL', 'long');
ok($left > 60_000 && $left <= 110_000, "the lock lasts for as long as the last of the others: $left");

# Who leaves a little later than the longest does not leave its time to live to the others.
readers_elsewhere('chain', 30_000);
$one->query("SELECT redis_read_lock('chain', '1000s')");
$two->query("SELECT redis_read_lock('chain', '600s')");
$_->query_is("SELECT redis_read_unlock('chain')", 't', 'given back') foreach $one, $two;
$left = $redis->cmd('PTTL', 'chain');
ok($left > 0 && $left <= 60_000, "the lock lasts for twice as long as who stays, at most: $left");

# Each of those who have crashed is looked at once.
readers_elsewhere('dead', (0) x 100, 200_000, (0) x 100);
my $first = cost($one, "SELECT redis_read_lock('dead'), redis_read_unlock('dead')");
cmp_ok(cost($one, "SELECT redis_read_lock('dead'), redis_read_unlock('dead')"), '<=', $first - 150,
	'those who have crashed are gone by that');
cmp_ok($redis->cmd('PTTL', 'dead'), '>', 100_000, 'but who lives stays');

$redis->cmd('FLUSHALL');
kill 'CONT', $watchdog;

# ----------
# Places of a fair lock
# ----------

# That many places of servers elsewhere, which count for some seconds and are not renewed
sub dead_places ($key, $n, $ms)
{
	$redis->cmd('EVAL', q{
		local time = redis.call('TIME')
		local now = time[1] * 1000 + math.floor(time[2] / 1000)
		for i = 1, ARGV[1] do
			local owner = 'elsewhere:' .. i
			redis.call('RPUSH', KEYS[1], owner)
			redis.call('ZADD', KEYS[2], now + 600000, owner)
			redis.call('ZADD', KEYS[3], now + ARGV[2], owner)
		end}, 3, map({ "$_:{$key}" } qw(redisson_lock_queue redisson_lock_timeout
			lockredis_places)), $n, $ms);
	return;
}

# Who asks for the key behind them sleeps until they end, and asks then.
foreach my $dead (1, 50)
{
	my $key = "behind$dead";

	my @asked = grep { /"eval/i } $redis->session_commands(
		sub {
			dead_places($key, $dead, 3000);
			$one->query_is("SELECT redis_fair_lock('$key')", '', "had after $dead dead places");
		});

	cmp_ok(scalar @asked, '<=', 6, "in few questions behind $dead: " . @asked);
	is(join(' ', grep { /behind/ } $redis->all_keys), $key, 'nothing is left of them');
	$one->query_is("SELECT redis_unlock('$key')", 't', 'given back');
}

# ----------
# More than a batch can take
# ----------

my ($locks, $batch) = (640, 10);
run($one, "SELECT count(redis_lock('n' || i)) FROM generate_series(1, $locks) i");

# At a time when all of them are due, for a batch with little room
my $gdb = LockRedis::Debugger->new($node->watchdog_pid);
$gdb->run_to('lt_collect_due', 'connected');
$gdb->wait_for_stop;
$gdb->tell('set var now = now + 500000000');
$gdb->tell("set var max = $batch");
my $hits = $gdb->counts('due_is_due');
my $taken = $gdb->tell('finish') =~ /Value returned is .* = (\d+)/ ? $1 : die 'no return';
my $looks = $hits->();
$gdb->let_go;

is($taken, $batch, 'a full batch');
cmp_ok($looks, '>=', $locks, 'all have been looked at');
cmp_ok($looks, '<', 2 * $locks, 'once');
$one->query_is('SELECT redis_unlock_all()', $locks, 'held all the time');

# ----------
# Commits beside many locks
# ----------

my $commits = 40;
$locks = 20;
my $commit_often = "DO \$\$ BEGIN FOR i IN 1..$commits LOOP PERFORM pg_current_xact_id(); COMMIT; "
  . 'END LOOP; END $$';

# How often the session looks at a hold while it commits, and for how long it does so;
# nothing if the machine was too busy for so short a lease.
sub looks_of_commits
{
	run($one, $_)
	  foreach 'SELECT redis_unlock_all()',
	  "SET lockredis.lease = '600s'",
	  "SELECT count(redis_lock('n' || i)) FROM generate_series(1, $locks) i",
	  "SET lockredis.lease = '1s'", "SELECT redis_lock('short')";
	my $gdb = LockRedis::Debugger->new($one->pid);
	my $hits_of_commits = $gdb->counts('lt_look');

	$gdb->run_to('lt_end_release');
	my $begun = now();
	my $error = $one->query($commit_often)->error;
	my $seconds = now() - $begun;
	$one->start("SELECT redis_unlock('n1')");
	$gdb->wait_for_stop;
	my $looked = $hits_of_commits->();
	$gdb->let_go;
	my $lost = $one->wait->error || !$one->value("SELECT redis_is_held('short')");
	return if $error || $lost;
	return ($looked, $seconds);
}

my ($looked, $seconds);
for (my $try = 1; !defined $looked; $try++)
{
	die 'a lease of 1 s never lasts' if $try > 20;
	($looked, $seconds) = looks_of_commits();
}

# It is renewed when two thirds of it are left, and a tenth is wanted.
my $walks = 2 + int($seconds / 0.5);
cmp_ok($looked, '<', ($walks + 1) * ($locks + 1), "$commits commits in $seconds s look at $looked holds");

run($one, 'SELECT redis_unlock_all()');

# ----------
# Late replies
# ----------

my $requests = 40;
my $late = $node->session;

sub pairs ($n)
{
	return run($late, "SELECT count(redis_lock('k')), count(redis_unlock('k')) FROM generate_series(1, $n)");
}

# How often the session waited for anything but a reply in recv()
sub waits
{
	my $calls = Bench::Meter::system_calls([ $late->pid ], sub { pairs($requests / 2) });

	return ($calls->{epoll_wait} // 0) + ($calls->{epoll_pwait} // 0);
}

pairs(1);

# More than the 10 ms of a new connection, less than the 80 ms that it becomes at most.
$proxy->latency(20);
pairs(10);

# A machine that has much to do may need longer for some replies.
my $waits;
poll_until('replies to be waited for in recv()', sub { ($waits = waits()) < $requests / 2 });
cmp_ok($waits, '<', $requests / 2, "$waits other waits in $requests requests");

$proxy->latency(0);
end_test($node, $redis);
