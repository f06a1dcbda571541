# Copyright (c) 2026, lockredis contributors

# lockredis.idle_timeout: the time-out strikes in the middle of what uses the
# connection.
#
#   session                                  its time-out
#   begins a request
#                                            too late: the request is under way
#   looks whether the connection is good
#                                            too late
#   sends
#                                            too late
#   reads the reply
#
# and before the first of them the connection is ended, which the look finds.  A
# create never goes out twice.
#
# Proves G39.

use strict;
use warnings FATAL => 'all';

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		'lockredis.idle_timeout' => '10min',
		'lockredis.lease' => '10min'
	});
my $one = $node->session;

$node->wait_for_up;
run($one, "SELECT redis_lock('warm'), redis_lock('warm'), redis_unlock_all()");

# The session is stopped at a function, in which its time-out strikes: by the
# debugger, with a time that has passed.
sub strike_in
{
	my ($function, $sql, $out, @commands) = @_;
	my @before = map { $node->lock_stat($_) } 'connects', 'idle_closes';
	my $stop = LockRedis::Debugger->new($one->pid);

	$stop->run_to($function);
	$one->start($sql);
	$stop->wait_for_stop;
	$stop->tell($_) foreach @commands, 'set var lr_idle_timeout = 1';
	$stop->tell('call (void) idle_handler()');
	$stop->tell('set var lr_idle_timeout = 600000');
	$stop->let_go;
	my $result = $one->wait;
	is($result->error // $result->out, $out, "$sql, in $function");
	return join ', ', map { $node->lock_stat($_) - shift @before } 'connects',
	  'idle_closes';
}

# ----------
# A request
# ----------

run($one, "SELECT redis_lock('k', '1 min')");
is(strike_in('node_batch_start', "SELECT redis_extend('k', '2 min')", 't'),
	'1, 1', 'before it begins: over another connection');
foreach my $function ('node_batch_check_connection', 'redis_conn_flush',
	'redis_conn_receive')
{
	my $before = $redis->script_calls;

	is(strike_in($function, "SELECT redis_extend('k', '3 min')", 't'),
		'0, 0', "$function: too late");
	is($redis->script_calls - $before, 1, "$function: one request");
}

run($one, "SELECT redis_unlock('k')");

# ----------
# A lock call
# ----------

foreach my $function ('node_batch_start', 'redis_conn_flush', 'redis_conn_receive',
	'lt_grant')
{
	my $before = $redis->script_calls;

	is(strike_in($function, "SELECT redis_lock('k')", ''),
		'0, 0', "$function: a lock call keeps its connection");
	is($redis->script_calls - $before, 1, "$function: one create");
	$one->query_is("SELECT redis_unlock('k')", 't', "$function: given back");
}

# ----------
# What is owed
# ----------

# There are no replicas to wait for, and something that they would have to have.
# A debugger takes a while to stop and to call something.
my $replica_s = 8;
$node->set('lockredis.command_timeout' => '1min');
run($one, "SET lockredis.min_replicas = 1; SET lockredis.replica_timeout = '${replica_s}s'");
$redis->foreign_lock('foreign', owner => 'elsewhere:1', ms => 600_000);
is( strike_in(
		'lt_found_busy', "SELECT redis_try_lock('foreign')",
		'f', 'set var kept = 0'),
	'0, 0',
	'not while an answer is owed');
pause($replica_s + 0.1);
is(strike_in('node_batch_start', "SELECT redis_is_locked('foreign')", 't'),
	'1, 1', 'but when it must be there, read or not');
$redis->cmd('DEL', 'foreign');

$one->quit;
nothing_left($node, $redis);
done_testing();
