# Copyright (c) 2026, lockredis contributors

# Three independent masters, and a session that does nothing more when it has given its
# lock back: what the slowest of them has answered is read by nobody then.  All the same
# the lock is free there, too.
#
# Forced here:
# - node 3 stands still while the lock is given back.  Its script of a release was never
#   loaded: told so, nobody would send it again.  So it came in full
# - node 3 is told of a create and its release late.  It has forgotten the script of the
#   create, and has been told that of a release by others: that runs, the create does not.
#   It must not be sent again, behind its release
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, proxies => 1);
my @nodes = $masters->nodes;
my @proxies = $masters->proxies;
my $node = $masters->server('main');
my $third = $nodes[2];

# ---- a script that was not loaded

{
	my $session = $node->session;

	$_->cmd('SCRIPT', 'FLUSH') foreach @nodes;
	$session->query_is("SELECT redis_is_locked('first')", 'f', 'a session that is connected');
	$masters->take_at_all($session, 'first');
	$third->freeze;
	$session->query_is("SELECT redis_unlock('first')", 't', 'given back while one stands still');
	$third->thaw;
	poll_until('the third to be free of it', sub { $masters->have('first') == 0 });
	$session->quit;
}

# ---- a create that did not run, and its release that did

{
	my ($one, $two) = map { $node->session } 1 .. 2;

	# Each knows all scripts then.
	$masters->connect_to_all($_) foreach $one, $two;
	$masters->take_at_all($two, 'other');

	my $held = $proxies[2]->rule(match => 'late', action => 'hold');

	$one->query_is("SELECT redis_try_lock('late')", 't', 'taken at two of three');
	$proxies[2]->wait_for_rule($held);
	$one->query_is("SELECT redis_unlock('late')", 't', 'and given back');
	$third->cmd('SCRIPT', 'FLUSH');

	# Whoever finds the script missing has it loaded.
	poll_until('the third to know the script of a release', sub {
		$two->value("SELECT redis_unlock('other')");
		$two->value("SELECT redis_is_locked('other')");
		return $third->cmd('EXISTS', 'other') == 0;
	});
	my $calls = $third->script_calls;

	$proxies[2]->let_go;
	poll_until('the third to have both', sub { $third->script_calls >= $calls + 2 });

	# Whatever this session asks of the third node now is behind what it sent before.
	$nodes[1]->freeze;
	$one->value("SELECT redis_is_locked('after')");
	is($third->cmd('EXISTS', 'late'), 0, 'the create is not sent behind its release');
	$nodes[1]->thaw;
	$_->quit foreach $one, $two;
}

nothing_left($node, $masters);
done_testing();
