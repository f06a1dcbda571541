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

# A server that uses this master, and Sentinels that name these by these numbers
sub begin
{
	my ($name, $master, @named) = @_;
	my @sentinels = LockRedis::FalseSentinel->naming(@named);
	my $node = LockRedis::Node->create(
		$name,
		url => LockRedis::FalseSentinel::url_of(@sentinels),
		settings => { 'lockredis.command_timeout' => '1min' });

	wait_until_used($node, $master);
	$node->log_since_here;
	return ($node, @sentinels);
}

sub finish { $_->stop foreach @_; return; }

sub wait_until_numbered_anew
{
	my ($node) = @_;

	return poll_until('numbers to begin anew', sub { $node->logged(qr/number their failovers anew/) });
}

# All configured ones have a lower number, which most of them have never passed.
{
	my ($node, @sentinels) = begin('all', $b, $a => 5, $a => 5, $b => 9);

	$sentinels[2]->names($a, epoch => 5);
	wait_until_used($node, $a);
	serves($node, 'all name another one, by a lower number: believed');
	$sentinels[1]->names($b, epoch => 6);
	wait_until_used($node, $b);
	serves($node, 'and what one of them tells next');
	finish($node, @sentinels);
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
	my ($node, @sentinels) = begin('cut_off', $b, $b => 9, $b => 9, $a => 5);
	my @two = @sentinels[ 0, 1 ];
	my $before = $node->lock_stat('failovers');

	$_->names($b, epoch => 0) foreach @two;
	wait_until_numbered_anew($node);

	# Their next one is one by one; had the third been believed it would be passed by.
	$two[0]->names($c, epoch => 1);
	wait_until_used($node, $c);
	serves($node, 'one is cut off: the next failover of the others is followed');
	is($node->lock_stat('failovers') - $before, 1, 'one is cut off: it is not believed');

	# Another watchdog knows it as well.
	$two[1]->names($c, epoch => 1);
	$node->replace_watchdog;
	wait_until_used($node, $c);
	$two[0]->names($b, epoch => 2);
	wait_until_used($node, $b);
	is($node->lock_stat('failovers') - $before, 2, 'one is cut off: nor by another watchdog');

	# It meets the others: either they learn from it, or it from them.
	$two[1]->names($a, epoch => 5);
	wait_until_used($node, $a);
	serves($node, 'others have learned from it: followed');
	$sentinels[2]->names($c, epoch => 6);
	wait_until_used($node, $c);
	serves($node, 'and it counts as they do from then on');

	finish($node, @sentinels);
}

# One that has a later number than all that were known when the others began anew
{
	my ($node, @sentinels) = begin('later', $b, $b => 9, $b => 9, $a => 5);

	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	$sentinels[2]->names($a, epoch => 10);
	wait_until_used($node, $a);
	serves($node, 'one tells a later failover than was known before: followed');
	finish($node, @sentinels);
}

# The third one was away when the others were set up anew, and was itself.
sub begin_without_the_third
{
	my ($name) = @_;
	my ($node, @sentinels) = begin($name, $b, ($b => 9) x 3);

	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	$sentinels[2]->names(undef);
	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	return ($node, @sentinels);
}

# Nobody else can be heard from then on.  It names the first master of all, and then
# learns of the next failover.
{
	my ($node, @sentinels) = begin_without_the_third('alone');
	my $before = $node->lock_stat('failovers');

	$_->names(undef) foreach @sentinels[ 0, 1 ];
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	$sentinels[2]->names($a, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard($sentinels[2]);
	is($node->lock_stat('failovers') - $before, 0, 'the third names another one by the same number');
	$sentinels[2]->names($c, epoch => 1);
	wait_until_used($node, $c);
	serves($node, 'the third is the only one that tells of a failover: followed');
	finish($node, @sentinels);
}

# It names b, and is cut off.  The others make c the master; when that is away the second is
# as well, and the first is set up anew and names b: that is one of three.
#
#   learned   it named b when that was the master
#   late      it was heard only later
{
	my ($learned, @learned) = begin_without_the_third('learned');
	my ($late, @late) = begin_without_the_third('late');

	$learned[2]->names($b, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard($learned[2]);
	$_->names($c, epoch => 1) foreach @learned[ 0, 1 ], @late[ 0, 1 ];
	wait_until_used($_, $c) foreach $learned, $late;
	$late[2]->names($b, epoch => 0);
	LockRedis::FalseSentinel::wait_until_heard(@learned, @late);

	$_->names(undef) foreach $learned[1], $late[1];
	$_->names($b, epoch => 0) foreach $learned[0], $late[0];
	$c->kill9;

	# As ANEW_LIFE of src/store/redis/discovery.c, and some more
	my $until = now() + 14;
	my %used;
	while (now() < $until)
	{
		$used{ $_->name } ||= is_used($_, $b) foreach $learned, $late;
		pause(0.2);
	}
	ok(!$used{$_}, "$_: a former master is not believed for who was set up anew long ago")
	  foreach qw(learned late);
	finish(@learned, @late, $learned, $late);
	$c->start;
}

# The third one named a replica by a high number, was believed and passed over.  Should
# that node say that it is a master, while it is still named, it is believed again.
sub begin_with_a_lie
{
	my ($name) = @_;

	$a->cmd('REPLICAOF', '127.0.0.1', $b->port);
	my ($node, @sentinels) = begin($name, $b, ($b => 4) x 3);
	my $before = $node->lock_stat('failovers');

	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	$sentinels[2]->names($a, epoch => 9);
	poll_until('the liar to be passed over', sub { $node->lock_stat('failovers') - $before == 2 });
	wait_until_used($node, $b);
	ok(!$node->logged(qr/number their failovers anew/), "$name: nobody numbers anew for a liar");
	return ($node, @sentinels);
}

# Later most name it by that number, and then only one of them can be heard.
{
	my ($node, @sentinels) = begin_with_a_lie('most');

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
	finish($node, @sentinels);
}

# The others are set up anew, and reach that number again.
{
	my ($node, @sentinels) = begin_with_a_lie('anew');

	$_->names($b, epoch => 0) foreach @sentinels[ 0, 1 ];
	wait_until_numbered_anew($node);
	$_->names(undef) foreach @sentinels[ 1, 2 ];
	LockRedis::FalseSentinel::wait_until_heard(@sentinels[ 1, 2 ]);
	$a->cmd('REPLICAOF', 'NO', 'ONE');
	$sentinels[0]->names($a, epoch => 9);
	wait_until_used($node, $a);
	serves($node, 'a number of the new count is no lie of the old one');
	finish($node, @sentinels);
}

# It goes on to name that node, which is made a master.
{
	my ($node, @sentinels) = begin_with_a_lie('says_so');

	$a->cmd('REPLICAOF', 'NO', 'ONE');
	wait_until_used($node, $a);
	serves($node, 'who was passed over is believed when it says itself that it is a master');
	finish($node, @sentinels);
}

done_testing();
