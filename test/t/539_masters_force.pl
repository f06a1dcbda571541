# Copyright (c) 2026, lockredis contributors

# Three independent masters.  A lock that is taken away by force is taken from him who had
# it when that was asked for, and from nobody who has come since:
#
#   F: redis_force_unlock: who has it?  A has, at most of them
#   A: gives it back
#   X: takes it
#   F: takes it away from A: not there any more; X keeps it
#
# And a node that could not be asked to take it away is told by the watchdog of him who had
# it, as soon as it answers, long before the lease ends:
#
#   A: has it at 1, 2, 3               node 3 stands still
#   F: who has it?  A: taken away at 1 and 2, which is enough
#   watchdog: A's hold is lost; release of it to 1, 2, 3
#                                      node 3 goes on, and is free of it
# Proves G47.

use LockRedis::Debugger;
use LockRedis::Masters;
use LockRedis::Test;

LockRedis::Debugger->need;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create('main', redis => $masters,
	settings => { 'lockredis.lease' => '1h', 'lockredis.command_timeout' => '1min' });
my ($has, $next, $force) = map { $node->session } 1 .. 3;

$node->wait_for_up;
$masters->connect_to_all($_) foreach $has, $next, $force;

# ---- somebody has come since

$has->query("SELECT redis_lock('k')");
$masters->wait_for_owners('k', 3);

my $stop = LockRedis::Debugger->new($force->pid);

$stop->run_to('ask_run', 'op->kind == STORE_FORCE');
$force->start("SELECT redis_force_unlock('k')");
$stop->wait_for_stop;
$has->query_is("SELECT redis_unlock('k')", 't', 'given back meanwhile');
$masters->wait_for_owners('k', 0);
$next->query_is("SELECT redis_try_lock('k')", 't', 'and taken by another session');
$masters->wait_for_owners('k', 3);
$stop->let_go;
is($force->wait->value, 'f', 'there is nothing to be taken away from him who had it');
is($masters->have('k'), 3, 'the other one has it at all nodes');
$next->query_is("SELECT redis_is_held('k')", 't', 'as it believes');
$next->query_is("SELECT redis_unlock('k')", 't', 'and gives it back');

# ---- a node that could not be told

$has->query("SELECT redis_lock('k')");
$masters->wait_for_owners('k', 3);
$nodes[2]->freeze;
$force->query_is("SELECT redis_force_unlock('k')", 't', 'taken away at two of three');
$has->query_is("SELECT redis_is_held('k')", 'f', 'he who had it knows');
$nodes[2]->thaw;
poll_until('the third to be free of it', sub { !$nodes[2]->cmd('EXISTS', 'k') });
$has->query("SELECT redis_unlock_all()");

# A node that does not say within 20 ms who has it keeps what is of no session: then it is taken
# away there by the next one.
sub is_taken_everywhere ($key)
{
	poll_until('nobody to have it', sub {
		return 1 unless $masters->have($key);
		$force->query("SELECT redis_force_unlock('$key')");
		return 0;
	});
	return;
}

# ---- a token; and one whom no majority has any more, which he does not know

$force->query("SELECT redis_token_lock('token', '1 hour', 'secret')");
$force->query_is("SELECT redis_force_unlock('token')", 't', 'a token lock is taken away');
is_taken_everywhere('token');
$force->query_is("SELECT redis_force_unlock('token')", 'f', 'once');

$has->query("SELECT redis_lock('split')");
$masters->wait_for_owners('split', 3);
$nodes[0]->replace_owner('split', 'somebody:1');
$nodes[1]->replace_owner('split', 'somebody:2');
$force->query_is("SELECT redis_force_unlock('split')", 't', 'taken from whoever is shown');
$has->query_is("SELECT redis_is_held('split')", 'f', 'and from him who had one of three');
$has->query("SELECT redis_unlock_all()");
is_taken_everywhere('split');
end_test($node, $masters);
