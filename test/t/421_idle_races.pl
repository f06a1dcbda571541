# Copyright (c) 2026, lockredis contributors

# lockredis.idle_timeout: the time-out strikes in the middle of what uses the
# connection.
#
#   session                                  its time-out
#   begins a request
#                                            too late: the request is under way
#   looks whether the connection is good, sends, reads the reply
#
# and before the first of them the connection is ended, which the look finds.  A
# create never goes out twice.
#
# Proves G39.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my ($node, $redis, $one) = servers(
	sessions => 1,
	settings => {
		'lockredis.idle_timeout' => '10min',
		'lockredis.connect_timeout' => '1min',
		'lockredis.command_timeout' => '1min',
		'lockredis.lease' => '10min'
	});

run($one, "SELECT redis_lock('warm'), redis_lock('warm'), redis_unlock_all()");

# After so many s the time-out strikes: more, if the machine is busy.
my ($first_s, $most_s) = (2, 32);

# The time-out is armed for so long, by a request.
sub arm ($seconds)
{
	$node->set('lockredis.idle_timeout' => "${seconds}s");
	poll_until('the session to know', sub { $one->value('SHOW lockredis.idle_timeout') eq "${seconds}s" });
	run($one, q{SELECT redis_is_locked('warm')});
	return;
}

# The session is stopped at a function, in which its time-out strikes: it has passed when the
# process goes on.  If it has come before that, so that more connections were closed by it than
# before, it is armed for longer.  The debugger takes its time, so it was started before.
sub strike_in ($function, $sql, $out, $undo = undef)
{
	for (my $seconds = $first_s; $seconds <= $most_s; $seconds *= 2)
	{
		my $stop = LockRedis::Debugger->new($one->pid, later => 1);

		arm($seconds);
		my @before = figures();
		$stop->attach;
		$stop->run_to($function);
		$one->start($sql);
		$stop->wait_for_stop;
		if ($node->lock_stat('idle_closes') == $before[1])
		{
			pause($seconds + 0.1);
			$stop->out_of('idle_handler');
			$stop->tell('set var lr_idle_timeout = 600000');
			$stop->let_go;
			return struck($function, $sql, $out, @before);
		}
		$stop->let_go;
		$one->wait;
		run($one, $undo) if $undo;
	}
	die 'the time-out comes too early';
}

sub figures
{
	return (split(/\|/, $node->lock_stat('connects, idle_closes')), $redis->script_calls);
}

# Connections made, connections closed by the time-out, scripts run
sub struck ($function, $sql, $out, @before)
{
	my $result = $one->wait;

	is($result->error // $result->out, $out, "$sql, in $function");
	return join ', ', map { $_ - shift @before } figures();
}

# ----------
# A request
# ----------

run($one, "SELECT redis_lock('k', '1h')");
is(strike_in('part_batch_start', "SELECT redis_extend('k', '2h')", 't'),
	'1, 1, 1', 'before it begins: over another connection');
is(strike_in('node_batch_check_connection', "SELECT redis_extend('k', '3h')", 't'), '0, 0, 1', 'too late, one request');
run($one, "SELECT redis_unlock('k')");

# ----------
# A lock call
# ----------

is(strike_in('lt_grant', "SELECT redis_lock('k')", '', "SELECT redis_unlock('k')"),
	'0, 0, 1', 'a lock call keeps its connection, one create');
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');

end_test($node, $redis);
