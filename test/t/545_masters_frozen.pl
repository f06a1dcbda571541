# Copyright (c) 2026, lockredis contributors

# One of five independent masters does not answer, or answers a few requests now and then,
# over connections that stand.  Nobody waits for it: not even for a moment, and not when it
# is behind by as much as it is asked at all.
#
# Each unlock that does wait waits 20 ms, in every round; of many rounds on a busy machine most
# of one are quick.
#
# Two of them answer later than the others.  Three say that somebody has the key, two of those for
# long: who waits asks again when most may be free, and not when those are that answered first.
#
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;
use POSIX ();

my $masters = LockRedis::Masters->new(n => 5, proxies => 1);
my $fifth = ($masters->nodes)[4];
my $node = $masters->server('main', 'lockredis.connect_timeout' => '5min', 'lockredis.command_timeout' => '5min');

# So many of these locks were taken and given back, each in so many milliseconds
sub pairs ($session, $n, $ms)
{
	return $session->value(
		"SELECT count(*) FILTER (WHERE redis_try_lock('k') AND redis_unlock('k')
			AND clock_timestamp() < t + '$ms ms'::interval)
		 FROM generate_series(1, $n) n, LATERAL (SELECT clock_timestamp() AS t OFFSET n * 0) began");
}

sub is_quick ($session, $name)
{
	my ($quick, $until) = (0, now() + limit(60));

	# More than can be under way at a time
	is(pairs($session, 600, 600_000), 600, "$name: 600 locks are held");
	$quick = pairs($session, 10, 20) while $quick <= 5 && now() < $until;
	return cmp_ok($quick, '>', 5, "$name: no unlock waits for it");
}

my ($one, $two) = map { $node->session } 1 .. 2;

# ---- two answer later than the others

my @nodes = $masters->nodes;
my @late = ($masters->proxies)[ 3, 4 ];

$masters->wait_until_watched($node);
$masters->connect_to_all($one);
my $seconds = limit(20);
$nodes[$_]->foreign_lock('waited', owner => 'foreign:1', ms => $_ < 2 ? 600_000 : 3000)
  foreach 0 .. 4;
$_->rule(match => 'waited', action => 'delay', ms => 500, times => 0) foreach @late;
$one->query_is("SELECT redis_try_lock('waited', '$seconds s')",
	't', 'a majority is free before those that answered first are');
$one->query("SELECT redis_unlock('waited')");
$_->clear foreach @late;
$nodes[$_]->foreign_unlock('waited') foreach 0, 1;

# ---- one does not answer

$masters->connect_to_all($one);
$fifth->freeze;
is_quick($one, 'frozen');
$fifth->thaw;
$one->quit;

# It runs for a moment now and then, so it never is behind for long enough to be left.
$masters->connect_to_all($two);
my $pid = $fifth->pid;
my $child = fork() // die "could not fork: $!";
if ($child == 0)
{
	foreach (1 .. limit(600))
	{
		kill 'STOP', $pid;
		select undef, undef, undef, 0.1;
		kill 'CONT', $pid;
		select undef, undef, undef, 0.001;
	}
	POSIX::_exit(0);
}
is_quick($two, 'trickling');
kill 'KILL', $child;
waitpid $child, 0;
kill 'CONT', $pid;
$two->quit;

end_test($node, $masters);
