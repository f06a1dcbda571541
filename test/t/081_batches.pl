# Copyright (c) 2026, lockredis contributors

# Locks of several kinds in one batch: what is alike goes out side by side, whatever
# order the locks were taken in, and shares commands.  Counted, not timed:
#
# - the end of a transaction, redis_unlock_all and the end of a session need one
#   command for each kind, not for each lock
# - so do renewals; locks with the same script share commands whatever their kind
#
# For bars of speed, not for a guarantee.

use LockRedis::Test;

# Of each kind; as many as one release takes.
my $n = 40;
my @kinds = qw(lock fair_lock read_lock write_lock);
my ($node, $redis, $one) = servers(
	sessions => 1, settings => { 'lockredis.lease' => '60s', 'lockredis.command_timeout' => '60s' });

# Locks of all kinds by turns.
sub take
{
	my ($session, $xact, @of) = @_;

	my @calls = map { my $name = $xact ? s/lock$/xact_lock/r : $_; "redis_$name('$_:' || i)" } @of;
	my $taken = $session->query('SELECT ' . join(', ', map { "count($_)" } @calls)
		  . " FROM generate_series(1, $n) i");

	is($taken->{raw}, '', 'locks of ' . @of . ' kinds');
	return;
}

# The scripts that a session calls meanwhile: how many keys each call has.
sub calls
{
	my ($do) = @_;

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

my $two = $node->session;
take($two, 0, @kinds);
is_deeply([ sort { $a <=> $b } calls(sub { $two->quit }) ],
	\@expected, 'the end of a session: likewise');

# All are due when the watchdog has a connection again.  What it sends until each has
# been renewed: lock, and time-out of a reader.
sub renewals
{
	my ($locks) = @_;
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

end_test($node, $redis);
