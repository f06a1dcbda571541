# Copyright (c) 2026, lockredis contributors

# A lock that fewer than all of several masters have granted: those that are there get it
# a second later, although leases are long (a third of one is 20 minutes here).
#
# - who stands still at the grant, and runs again before anybody has noticed
# - the same of a lease that was given, of several keys at once, of a lock that was taken again
# - who has somebody else's lock keeps that
# - who is away is given nothing, and asked nothing, until it is back
# - who was found silent by a session, and by nobody else: when it answers again
# - a lock that all have is not asked about
# - a lock that was released before the third was given it, and one that was not, while another node
#   was started again empty
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my $third = $nodes[2];
my $node = $masters->server('main');

# What it has made due because it was connected is done, and so is what is due a second after a
# grant.
sub wait_for_calm
{
	my $before = -1;

	poll_until('the watchdog to have nothing to do',
		sub {
			my $now = $node->lock_stat('renewals');
			my $calm = $now == $before;

			$before = $now;
			pause(2.5) if !$calm;
			return $calm;
		});
	return;
}

sub counted ($repairs, $what)
{
	# When the answer has been read: the lock is there before that.
	poll_until("$what: repairs", sub { $node->lock_stat('repairs') >= $repairs });
	is($node->lock_stat('repairs'), $repairs, "$what: counted");
	return;
}

# A session that is connected to no node: the third does not answer its greeting.
sub without_the_third (@queries)
{
	my $session = $node->session;

	$third->freeze;
	$session->query($_)->value foreach @queries;
	return $session;
}

$masters->wait_until_watched($node);
counted(0, 'nothing');

# ---- it stands still for a moment

{
	my $session = without_the_third("SELECT redis_lock('short')");

	pause(0.5);
	$third->thaw;
	$masters->wait_for_owners('short', 3);
	my %owners = map { $_ => 1 } $masters->owners('short');

	is(keys %owners, 1, 'it ran again half a second later: it has the lock, too');
	counted(1, 'one');
	$session->query_is("SELECT redis_unlock('short')", 't', 'given back');
	poll_until('all to be free of it', sub { !$masters->all_keys });

	# Once, and no other round.
	my $renewals = $node->lock_stat('renewals');

	pause(2.5);
	counted(1, 'once');
	is($node->lock_stat('renewals'), $renewals, 'in one round');
	$session->quit;
}
{
	my $session = without_the_third(
		"SELECT redis_lock('given', lease => '10min')",
		"SELECT redis_lock('again')",
		"SELECT redis_lock('again')",
		"SELECT redis_multi_lock(ARRAY['one', 'two'])");

	$third->thaw;
	$masters->wait_for_owners($_, 3) foreach qw(given again one two);
	counted(5, 'four more');

	my $left = $third->cmd('PTTL', 'given');

	cmp_ok($left, '>', 300_000, 'for what is left of the given lease');
	cmp_ok($left, '<=', 600_000, 'and no longer');
	$session->query_is('SELECT redis_unlock_all()', 4, 'given back');
	poll_until('all to be free of them', sub { !$masters->all_keys });
	$session->quit;
}

# ---- somebody else's

{
	my $session = $node->session;
	my $renewals = $node->lock_stat('renewals');

	$third->foreign_lock('taken');
	my ($foreign) = keys %{ $third->hash('taken') };

	poll_until('it to be acquired',
		sub { $session->value("SELECT redis_try_lock('taken')") eq 't' });
	pause(2.5);
	is((keys %{ $third->hash('taken') })[0], $foreign, 'what another has there stays his');
	counted(5, 'nothing');
	$session->query_is("SELECT redis_is_held('taken')", 't', 'and most have ours');
	$third->foreign_unlock('taken');
	$session->query_is("SELECT redis_unlock('taken')", 't', 'given back');
	poll_until('all to be free of it', sub { !$masters->all_keys });
	$session->quit;
}

# ---- all have it

{
	my $session = $node->session;

	wait_for_calm();
	$masters->take_at_all($session, 'calm');

	# Whoever was the last to answer when it was granted is asked once more.
	wait_for_calm();
	my $renewals = $node->lock_stat('renewals');

	pause(2.5);
	is($node->lock_stat('renewals'), $renewals, 'what all have nobody asks about');
	$session->query_is("SELECT redis_unlock('calm')", 't', 'given back');

	# ---- one is away

	$third->kill9;
	poll_until('that to be seen',
		sub { $node->value("SELECT count(*) FROM redis_lock_status WHERE state = 'down'") == 1 });
	$session->query("SELECT redis_lock('away ' || i) FROM generate_series(1, 50) i")->value;
	$renewals = $node->lock_stat('renewals');
	pause(2.5);
	is($node->lock_stat('renewals'), $renewals, 'one is away: nobody asks for that');
	counted(5, 'nothing');
	$masters->restart_old(2);
	poll_until('it to have all', sub { 50 == grep { /^away/ } $third->all_keys });
	counted(55, 'it is back, and has all');
	$session->query_is('SELECT redis_unlock_all()', 50, 'given back');
	poll_until('all to be free of them', sub { !$masters->all_keys });
	$session->quit;
}

# ---- silent for one session

{
	my $session = $node->session;

	$masters->wait_until_watched($node);
	wait_for_calm();
	$masters->take_at_all($session, 'before');
	my $repairs = $node->lock_stat('repairs');
	my $name = 'lockredis-watchdog';
	my @connections = sort map { $_->{id} } grep { $_->{name} =~ /^$name/ } $third->clients;

	# Of this session alone
	$node->append_conf('postgresql.conf', "lockredis.command_timeout = '1500ms'");
	kill HUP => $session->pid;
	poll_until('it to know',
		sub { $session->value('SHOW lockredis.command_timeout') eq '1500ms' });
	$third->freeze;

	# What is not answered for so long is given up by the next call; the one after that
	# asks it nothing.
	for my $i (1 .. 3)
	{
		$session->query("SELECT redis_lock('silent $i')")->value;
		pause(1.6);
	}
	pause(1.2);
	$third->thaw;
	$masters->wait_for_owners("silent $_", 3) foreach 1 .. 3;
	is_deeply([ sort map { $_->{id} } grep { $_->{name} =~ /^$name/ } $third->clients ],
		\@connections, 'though the watchdog never lost it');
	poll_until('that to be counted', sub { $node->lock_stat('repairs') > $repairs });
	cmp_ok($node->lock_stat('repairs'), '<=', $repairs + 3, 'once each');
	$session->query_is('SELECT redis_unlock_all()', 4, 'given back');
	poll_until('all to be free of them', sub { !$masters->all_keys });
	$session->quit;
}

# ---- released before the third is given it, while another node is cut off or hangs

# The watchdog has renewed the lock at the first two nodes, and stands still when the third answers
# that it has none.
sub renewed_by_most
{
	$masters->wait_until_watched($node);
	wait_for_calm();
	my $renewals = $node->lock_stat('renewals');
	my $session = without_the_third("SELECT redis_lock('asked')");

	poll_until('most to have renewed it', sub { $node->lock_stat('renewals') > $renewals });
	kill 'STOP', $node->watchdog_pid;
	$third->thaw;
	return $session;
}

{
	my $session = renewed_by_most();
	my $repairs = $node->lock_stat('repairs');
	my $watchdog = $node->watchdog_pid;

	$masters->connect_to_all($session);
	$session->query_is("SELECT redis_unlock('asked')", 't', 'given back meanwhile');
	poll_until('at the first two', sub { !$masters->have('asked') });
	kill 'CONT', $watchdog;
	wait_for_calm();
	is($node->lock_stat('repairs'), $repairs, 'the third is not given it any more');
	is($third->cmd('EXISTS', 'asked'), 0, 'so nothing stays there');
	$session->quit;
}
{
	my $session = renewed_by_most();
	my $repairs = $node->lock_stat('repairs');
	my $watchdog = $node->watchdog_pid;

	$masters->restart_empty(0);
	kill 'CONT', $watchdog;
	poll_until('the third to be given it',
		sub { $node->lock_stat('repairs') > $repairs });
	poll_until('the first to be given it, or the lock to be lost',
		sub { $nodes[0]->cmd('EXISTS', 'asked') || $node->lock_stat('losses') > 0 });
	wait_for_calm();
	is_deeply([ map { $_->cmd('EXISTS', 'asked') } @nodes ], [ 1, 1, 1 ], 'all have it');
	$session->query_is("SELECT redis_unlock('asked')", 't', 'given back');
	poll_until('all to be free of it', sub { !$masters->all_keys });
	$session->quit;
}

end_test($node, $masters);
