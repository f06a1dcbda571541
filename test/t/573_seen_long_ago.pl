# Copyright (c) 2026, lockredis contributors

# Fallback mode: a time to live that was seen on a key an hour ago is forgotten, one that has
# been seen since is not, also if it is shorter than the first.
#
#   somebody else: has the key for twenty minutes; A: wants it: twenty minutes
#   an hour later, but for some seconds: he has it again; A: wants it: a thousand seconds
#   some seconds later Redis is away, for longer than a lease of ours
#   A: wants the key: busy, as he may have it still
#
# And an hour after a count was sent, and not answered, it is given up, and the log says so.
# Proves G26, G43.

use LockRedis::Test qw(:DEFAULT fault_library);

use constant { FIRST => 1_200_000, SECOND => 1_000_000 };

my $library = fault_library('later.c');
my $clock = PostgreSQL::Test::Utils::tempdir() . '/later';

# The servers have it mapped, so it is written in place.
sub set_clock ($seconds)
{
	open my $file, '+<', $clock or die "could not open $clock: $!";
	syswrite $file, pack 'q', $seconds;
	close $file or die $!;
	return;
}

PostgreSQL::Test::Utils::append_to_file($clock, pack 'q', 0);
my ($node, $redis, $proxy, $table);
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{LOCKREDIS_TEST_LATER} = $clock;

	($node, $redis, $proxy, $table) =
	  LockRedis::Node->create_fallback('main', settings => { 'lockredis.lease' => '3s' });
}
my $one = $node->session;

sub seen ($ms, @keys)
{
	foreach my $key (@keys)
	{
		$redis->foreign_lock($key, owner => 'somebody:1', ms => $ms);
		$one->query_is("SELECT redis_try_lock('$key')", 'f', "$key: somebody has it for $ms ms");
	}
	return;
}

seen(FIRST, 'again', 'once', 'longer');
$redis->cmd('DEL', 'again', 'once', 'longer');
set_clock(3590);
$node->wait_for_store('master');
seen(SECOND, 'again');
seen(2 * FIRST, 'longer');
set_clock(3630);
$node->wait_for_store('master');
$node->cut_off($proxy);

# One lease of ours is over then.
foreach my $key ('never', 'once')
{
	poll_until("$key to be free", sub { $one->value("SELECT redis_try_lock('$key')") eq 't' });
}
$one->query_is("SELECT redis_try_lock('$_')", 'f', "$_: not before the lease that was seen has ended")
  foreach 'again', 'longer';
$one->query('SELECT redis_unlock_all()');
$node->reconnect($proxy);
$redis->cmd('FLUSHALL');

# Sent, and not answered for an hour
$one->query("SELECT redis_latch_init('sum', 5); BEGIN; SELECT redis_latch_xact_count_down('sum')");
$redis->freeze;
$one->query_is('COMMIT', '', 'committed');
$node->cut_off($proxy);
set_clock(2 * 3630);
$redis->thaw;
$node->log_since_here;
$node->reconnect($proxy);
poll_until('the count to be given up', sub { $node->count_locks == 0 });
poll_until('that to be told', sub { $node->logged(qr/gave up counting 1 for the latch "sum"/) });
ok($node->logged(qr/DETAIL:  It may have been counted: the lock store does not remember/),
	'and why');
$redis->cmd('DEL', 'sum');
end_test($node, $redis);
