# Copyright (c) 2026, lockredis contributors

# Taking a lock again sends nothing, so a loop can do it more often than an integer counts:
# the last time is an error, and the lock stays as it is.  The session is stopped where it
# has looked at its lock, and finds that it holds it that often.
# Proves G2.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my ($node, $redis, $s) = servers(sessions => 1);

run($s, "SELECT redis_lock('k')");

# The session-level holds that it finds, and what comes of taking the lock again
sub taken_again_with ($holds)
{
	my $stop = LockRedis::Debugger->new($s->pid);

	$stop->run_to('lt_look');
	$s->start("SELECT redis_lock('k')");
	$stop->wait_for_stop;
	like($stop->tell('finish'), qr/Run till exit/, 'it has looked');
	unlike($stop->tell("set var view.scope[0].count = $holds"), qr/No symbol/, "at $holds");
	$stop->let_go;
	return $s->wait;
}

taken_again_with(2**31 - 2)->fails('22003', qr/integer out of range/, 'once too often');
$s->query_is("SELECT redis_hold_count('k')", '1', 'nothing has changed');
is(taken_again_with(2**31 - 3)->error, undef, 'the last time');
$s->query_is("SELECT redis_hold_count('k'), redis_is_held('k')", (2**31 - 2) . '|t', 'so often');
$s->query_is('SELECT redis_unlock_all()', '1', 'all of it is released');
end_test($node, $redis);
