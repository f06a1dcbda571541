# Copyright (c) 2026, lockredis contributors

# What lockredis.max_locks costs is paid for locks that there are: memory that is touched
# at the start, and due times that the watchdog looks at, counted and not timed.
#
# For bars of speed, not for a guarantee.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new;

sub server ($name, $max_locks)
{
	my $node = LockRedis::Node->create(
		$name,
		redis => $redis,
		settings => {
			'lockredis.max_locks' => $max_locks,
			'lockredis.lease' => '600s',
			huge_pages => 'off',
			shared_buffers => '8MB'
		});

	$node->wait_for_up;
	return $node;
}

# Megabytes of shared memory that the first process has touched
sub touched ($node)
{
	my $sum = 0;
	my $shared = 0;

	foreach my $line (
		split /\n/,
		PostgreSQL::Test::Utils::slurp_file('/proc/' . PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr . '/smaps'))
	{
		$shared = $1 eq 's' if $line =~ /^[0-9a-f]+-[0-9a-f]+ ...(.)/;
		$sum += $1 if $shared && $line =~ /^Rss:\s+(\d+) kB/;
	}
	return $sum / 1024;
}

# How many it looks at, at a time when all of them are due.  lt_read_due is inline, and with
# assertions not in the loop where gdb breaks.
sub looks ($node)
{
	my $gdb = LockRedis::Debugger->new($node->watchdog_pid);

	$gdb->run_to('lt_collect_due', 'connected');
	$gdb->wait_for_stop;
	$gdb->tell('set var now = now + 500000000, max = 1');
	my $hits = $gdb->counts('due_is_due');
	$gdb->tell('finish');
	my $n = $hits->();
	$gdb->let_go;
	return $n;
}

my $few = server('few', 1000);
my $many = server('many', 1_000_000);
my ($touched_few, $touched_many) = map { touched($_) } $few, $many;

note "$touched_few MB and $touched_many MB";
cmp_ok($touched_many - $touched_few, '<', 30, 'a table for a million locks is not touched');

my $one = $many->session;
run($one, "SELECT count(redis_lock('n' || i)) FROM generate_series(1, 100) i");
my $n = looks($many);
cmp_ok($n, '>=', 100, 'the watchdog looks at due times');
cmp_ok($n, '<', 110, 'and not at those that were never used');

# The same slots again and again
run($one,
	q{DO $$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM redis_lock('m' || i), redis_unlock('m' || i); END LOOP; END $$});
cmp_ok(looks($many), '<', 110, 'nor for locks that are taken and given back');
is($many->count_locks('true'), 100, 'all are shown');
run($one, 'SELECT redis_unlock_all()');
is($many->count_locks('true'), 0, 'and gone');

end_test([ $few, $many ], $redis);
