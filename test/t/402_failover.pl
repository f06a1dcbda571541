# Copyright (c) 2026, lockredis contributors

# One failover after the other, and what each means to those who hold, wait and
# ask: a lock that the new master has is kept and renewed at once, one that it
# does not have is lost and its holder is told; who waits goes on waiting and gets
# the lock; who asks gets it or is told at once that nobody can be reached.  The
# master is killed, stopped in good order, stands still, and is replaced by
# command.
# Proves G38.

use LockRedis::Sentinels;
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new;
# However long a failover takes on a busy machine, no lease ends in it.
my $lease_ms = 150_000;
my $node = LockRedis::Node->create('main', redis => $ha, settings => { 'lockredis.lease' => "${lease_ms}ms" });
my ($holder, $waiter, $asker) = map { $node->session } 1 .. 3;
my @sessions = ($holder, $waiter, $asker);

$node->wait_for_up;
$_->query_is("SELECT redis_try_lock('warm'), redis_unlock('warm')", 't|t', 'warm')
  foreach @sessions;

sub failovers { return $node->lock_stat('failovers'); }

# However the master ends: $end does it, $back brings it back.
sub survives
{
	my ($how, $end, $back) = @_;
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my ($kept, $gone) = map { "$how $_" } qw(kept gone);
	my $before = failovers();

	$node->log_since_here;
	$holder->query_is('SELECT redis_lock(' . quoted($kept) . ')', '', "$how: a lock");
	replicated($ha);
	my $owner = $ha->owner_of($kept);
	$node->queue_up($kept, $waiter => 'SELECT redis_lock(' . quoted($kept) . ')');

	$old->outrun_replicas(@replicas);
	$holder->query_is('SELECT redis_lock(' . quoted($gone) . ')',
		'', "$how: a lock that the replicas do not have");
	my $ended = now();
	$end->($old);
	$_->thaw foreach @replicas;

	my $ask = 'SELECT redis_lock(' . quoted("$how asked") . ')';
	$asker->start($ask);
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($node, $new);
	my $asked = $asker->wait;
	# A failover that took longer than a call may
	$asked = $asker->query($ask) if ($asked->sqlstate // '') eq '58000';
	is($asked->error, undef, "$how: who asks in the middle of it gets the lock");
	is($new->owner_of("$how asked"), $asker->value('SELECT redis_lock_owner(' . quoted("$how asked") . ')'),
		"$how: from the new master");

	# Told without being asked, and long before the lease ends
	$node->wait_for_loss($gone);
	$holder->query_is('SELECT redis_is_held(' . quoted($gone) . ')', 'f', "$how: it is lost");
	$holder->query_warns('SELECT redis_unlock(' . quoted($gone) . ')',
		'f', '01000', qr/was lost.*deleted/s, "$how: and its holder is told");
	ok(!$new->cmd('EXISTS', $gone), "$how: nobody has it");

	is($new->owner_of($kept), $owner, "$how: the other one is there");
	$holder->query_is('SELECT redis_is_held(' . quoted($kept) . ')', 't', "$how: and is held");
	my $left = $new->cmd('PTTL', $kept);
	cmp_ok($left, '>=', $lease_ms - 1000 * (now() - $ended), "$how: and was renewed since then");
	ok($waiter->is_running, "$how: who waits for it goes on waiting");
	$holder->query_is('SELECT redis_unlock(' . quoted($kept) . ')', 't', "$how: unlocked");
	is($waiter->wait->error, undef, "$how: then it is his");
	is($new->owner_of($kept), $waiter->value('SELECT redis_lock_owner(' . quoted($kept) . ')'),
		"$how: at the new master");
	$waiter->query_is('SELECT redis_unlock(' . quoted($kept) . ')', 't', "$how: given back");
	$asker->query_is('SELECT redis_unlock_all()', '1', "$how: as is that of who asked");

	cmp_ok(failovers(), '>', $before, "$how: counted");
	my ($from, $to) = map { quotemeta $_->address } $old, $new;
	ok($node->logged(qr/the master of "svc" is now at $to \(was at $from\)/), "$how: logged");
	$back->($old) if $back;
	$ha->wait_until_steady;
	wait_until_used($node, $ha->master);
	nothing_left($node, $ha, name => "$how: nothing is left");
	return;
}

survives('killed', sub { $_[0]->kill9 }, sub { $_[0]->start });
survives('stopped', sub { $_[0]->stop }, sub { $_[0]->start });
survives('frozen', sub { $_[0]->freeze }, sub { $_[0]->thaw });

# Many: whoever has lost a lock is told, and whoever is told that it has it has it.
{
	my $count = 200;
	my $old = $ha->master;
	my @replicas = $ha->replicas;
	my $lost = $node->lock_stat('losses');
	my $of_each = sub {
		my ($name, $call) = @_;
		return $holder->query("SELECT $call('$name ' || n) FROM generate_series(1, $count) n");
	};

	$of_each->('many kept', 'redis_lock');
	replicated($ha);
	$old->outrun_replicas(@replicas);
	is($of_each->('many gone', 'redis_lock')->error, undef, "many: $count that no replica has");
	my $new = replace_master($node, $ha, @replicas);
	poll_until('all losses to be known',
		sub { $node->count_locks("key LIKE 'many gone %' AND lost_at IS NOT NULL") == $count });
	my @keys = $new->all_keys;
	is(scalar(grep { /^many kept / } @keys), $count, 'many: the new master has the others');
	is(scalar(grep { /^many gone / } @keys), 0, 'many: and none of these');
	foreach my $name ('many kept', 'many gone')
	{
		my $held = $name eq 'many kept' ? 't' : 'f';
		is($of_each->($name, 'redis_is_held')->out, join("\n", ($held) x $count),
			"many: $name: held: $held");
	}
	is(scalar($of_each->('many gone', 'redis_unlock')->warnings),
		$count, 'many: each loss is told');
	is($node->lock_stat('losses') - $lost, $count, 'many: and counted, and no other');
	is($of_each->('many kept', 'redis_unlock')->out, join("\n", ('t') x $count),
		'many: the others are given back');
	bring_back($node, $ha, $old);
}

# By command: nothing is lost that the replicas have, and nobody is kept waiting
# for longer than the change takes.
{
	my $old = $ha->master;

	$holder->query_is("SELECT redis_lock('planned')", '', 'planned: a lock');
	replicated($ha);
	$node->queue_up('planned', $waiter => "SELECT redis_lock('planned')");
	my $new = $ha->fail_over;
	wait_until_used($node, $new);
	$holder->query_is("SELECT redis_is_held('planned')", 't', 'planned: held');
	$holder->query_is("SELECT redis_unlock('planned')", 't', 'planned: unlocked at the new master');
	is($waiter->wait->error, undef, 'planned: the next one has it');
	is($new->owner_of('planned'), $waiter->value("SELECT redis_lock_owner('planned')"),
		'planned: there');
	$waiter->query_is("SELECT redis_unlock('planned')", 't', 'planned: given back');
	$ha->wait_until_steady;
}

# While there is no master: at once without a wait, within the budget with one.
{
	my $old = $ha->master;

	$old->kill9;
	my $failed = $asker->query("SELECT redis_try_lock('no master')");
	like($failed->sqlstate, qr/^58/, 'no master: redis_try_lock says so');
	$failed = $asker->query("SELECT redis_lock('no master')");
	like($failed->sqlstate, qr/^58/, 'no master: redis_lock says so when its budget is used');
	wait_until_used($node, $ha->wait_for_master_but($old));
	$asker->query_is("SELECT redis_try_lock('no master'), redis_unlock('no master')",
		't|t', 'a master again');
	$old->start;
	$ha->wait_until_steady;
}

# Replicas and Sentinels that come and go are nobody's concern.
foreach my $server ($ha->replicas, $ha->sentinels)
{
	$server->kill9;
	$asker->query_is("SELECT redis_try_lock('any'), redis_unlock('any')", 't|t',
		"$server->{name} killed");
	$server->start;
	$server->freeze;
	$asker->query_is("SELECT redis_try_lock('any'), redis_unlock('any')", 't|t',
		"$server->{name} frozen");
	$server->thaw;
}
$ha->wait_until_steady;

end_test($node, $ha);
