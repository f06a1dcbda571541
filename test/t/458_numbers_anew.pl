# Copyright (c) 2026, lockredis contributors

# Which numbers of failovers count when Sentinels begin to count anew: those of all
# together at once; and from then on those of who began anew, but not that of one that was
# cut off before, and tells of an old failover for as long as it likes.  One that was set
# up anew later than the others is neither.  And which count when a liar is passed over.
#
# All Sentinels are false ones.
# Proves G38.

use LockRedis::FalseSentinel;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my ($a, $b, $c) = map { LockRedis::Redis->new(name => $_) } 'a', 'b', 'c';

my $node = LockRedis::Node->create(
	'main',
	url => 'redis-sentinel://127.0.0.1:1/svc',
	settings => { 'lockredis.command_timeout' => '1min' });
my (@sentinels, $before);

# Sentinels that name these by these numbers, of which that master is used
sub begin ($master, @named)
{
	my @former = @sentinels;

	@sentinels = LockRedis::FalseSentinel->naming(@named);
	follow($node, $master, @sentinels);
	$_->stop foreach @former;
	$node->log_since_here;
	$before = failovers();
	return;
}

sub failovers { return $node->lock_stat('failovers'); }

sub wait_until_numbered_anew ($by)
{
	return poll_until('numbers to begin anew', sub { $by->logged(qr/number their failovers anew/) });
}

# All configured ones have a lower number, which most of them have never passed.
{
	begin($b, $a => 5, $a => 5, $b => 9);

	$sentinels[2]->names($a, epoch => 5);
	wait_until_used($node, $a);
	serves($node, 'all name another one, by a lower number: believed');
	$sentinels[1]->names($b, epoch => 6);
	wait_until_used($node, $b);
	serves($node, 'and what one of them tells next');
}

# The third one was cut off when a was the master, by failover 5.  The others are at 9,
# and are set up anew, with the same master:
#
#   first, second   b by 9, then b by 0
#   watchdog        the number that it knows is 0
#   third           a by 5, as ever
#
# which is a later one than 0, and an earlier one than 9.
{
	begin($b, $b => 9, $b => 9, $a => 5);
	my @two = @sentinels[ 0, 1 ];

	$_->names($b, epoch => 0) foreach @two;
	wait_until_numbered_anew($node);

	# Their next one is one by one; had the third been believed it would be passed by.
	$two[0]->names($c, epoch => 1);
	wait_until_used($node, $c);
	serves($node, 'one is cut off: the next failover of the others is followed');
	is(failovers() - $before, 1, 'one is cut off: it is not believed');

	# Another watchdog knows it as well.
	$two[1]->names($c, epoch => 1);
	$node->replace_watchdog;
	wait_until_used($node, $c);
	$two[0]->names($b, epoch => 2);
	wait_until_used($node, $b);
	is(failovers() - $before, 2, 'one is cut off: nor by another watchdog');

	# It meets the others: either they learn from it, or it from them.
	$two[1]->names($a, epoch => 5);
	wait_until_used($node, $a);
	serves($node, 'others have learned from it: followed');
	$sentinels[2]->names($c, epoch => 6);
	wait_until_used($node, $c);
	serves($node, 'and it counts as they do from then on');
}

# One that has a later number than all that were known when the others began anew
{
	begin($b, $b => 9, $b => 9, $a => 5);

	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	$sentinels[2]->names($a, epoch => 10);
	wait_until_used($node, $a);
	serves($node, 'one tells a later failover than was known before: followed');
}

# The third one was away when the others were set up anew, and was itself.
sub third_is_away ($by, @of)
{
	$of[2]->names(undef);
	$_->names($b, epoch => 0) foreach @of[ 0, 1 ];
	return wait_until_numbered_anew($by);
}

# Nobody else can be heard from then on.  It names the first master of all, and then
# learns of the next failover.
{
	begin($b, ($b => 9) x 3);
	third_is_away($node, @sentinels);
	$before = failovers();
	$_->names(undef) foreach @sentinels[ 0, 1 ];
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	$sentinels[2]->names($a, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	is(failovers() - $before, 0, 'the third names another one by the same number');
	$sentinels[2]->names($c, epoch => 1);
	wait_until_used($node, $c);
	serves($node, 'the third is the only one that tells of a failover: followed');
}

# It names b, and is cut off.  The others make c the master; when that is away the second is
# as well, and the first is set up anew and names b: that is one of three.
#
#   main   the third named b when that was the master
#   late   it was heard only later
{
	my @late = LockRedis::FalseSentinel->naming(($b => 9) x 3);
	my $late = LockRedis::Node->create(
		'late',
		url => LockRedis::FalseSentinel::url_of(@late),
		settings => { 'lockredis.command_timeout' => '1min' });

	wait_until_used($late, $b);
	LockRedis::FalseSentinel::wait_until_heard(@late);
	begin($b, ($b => 9) x 3);
	third_is_away($node, @sentinels);
	third_is_away($late, @late);
	$sentinels[2]->names($b, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	$_->names($c, epoch => 1) foreach @sentinels[ 0, 1 ], @late[ 0, 1 ];
	wait_until_used($_, $c) foreach $node, $late;
	$late[2]->names($b, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard(@sentinels, @late);

	$_->names(undef) foreach $sentinels[1], $late[1];
	$_->names($b, epoch => 0) foreach $sentinels[0], $late[0];
	$c->kill9;

	# As ANEW_LIFE of src/store/redis/discovery.c, and some more
	my $until = now() + 14;
	my %used;
	while (now() < $until)
	{
		$used{ $_->name } ||= is_used($_, $b) foreach $node, $late;
		pause(0.2);
	}
	ok(!$used{$_}, "$_: a former master is not believed for who was set up anew long ago")
	  foreach qw(main late);
	$_->stop foreach @late, $late;
	$c->start;
}

# The third one named a replica by a high number, was believed and passed over.  Should
# that node say that it is a master, while it is still named, it is believed again.
sub begin_with_a_lie ($name)
{
	$a->cmd('REPLICAOF', '127.0.0.1', $b->port);
	begin($b, ($b => 4) x 3);
	$sentinels[2]->names($a, epoch => 9);
	poll_until('the liar to be passed over', sub { failovers() - $before == 2 });
	wait_until_used($node, $b);
	ok(!$node->logged(qr/number their failovers anew/), "$name: nobody numbers anew for a liar");
	return;
}

# Later most name it by that number, and then only one of them can be heard.
{
	begin_with_a_lie('most');

	$sentinels[2]->names(undef);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	$a->cmd('REPLICAOF', 'NO', 'ONE');
	$_->names($a, epoch => 9) foreach @sentinels[ 0, 1 ];
	wait_until_used($node, $a);
	serves($node, 'what most name is no lie any more');
	$sentinels[1]->names(undef);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[1]);
	$a->kill9;
	poll_until('the master to be missed', sub { !is_used($node, $a) });
	$a->start;
	wait_until_used($node, $a);
	serves($node, 'nor when only one of them can be heard');
}

# The others are set up anew, and reach that number again.
{
	begin_with_a_lie('anew');

	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	$_->names(undef) foreach @sentinels[ 1, 2 ];
	LockRedis::FalseSentinel::wait_until_heard(@sentinels[ 1, 2 ]);
	$a->cmd('REPLICAOF', 'NO', 'ONE');
	$sentinels[0]->names($a, epoch => 9);
	wait_until_used($node, $a);
	serves($node, 'a number of the new count is no lie of the old one');
}

# It goes on to name that node, which is made a master.
{
	begin_with_a_lie('says_so');

	$a->cmd('REPLICAOF', 'NO', 'ONE');
	wait_until_used($node, $a);
	serves($node, 'who was passed over is believed when it says itself that it is a master');
}

done_testing();
