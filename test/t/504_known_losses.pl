# Copyright (c) 2026, lockredis contributors

# A loss that a session's call has found is told, even if the call is cut while the release
# of another key hangs: redis_unlock_all, redis_multi_unlock.
#
#   A: has x, y; x is lost, which the server knows
#   A: redis_unlock_all: x is not hers any more; y's release gets no answer
#   A: is cancelled; nothing else could tell her of x
#
# Likewise of what the call itself has found: the release of x has been answered.  And if there
# are several, a cancel that comes with the first warning is not raised before the last one.
# Proves G6.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my ($node, $redis, $proxy, $admin) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 1,
	settings => {
		'lockredis.lease' => '1h',
		'lockredis.connect_timeout' => '60s',
		'lockredis.command_timeout' => limit(60) . 's'
	});

# Exactly one warning, of that key
sub warns_of ($result, $key, $name)
{
	my @warnings = map { $_->message } $result->warnings;

	is(scalar(grep { /the lock "$key" was lost/ } @warnings), 1, $name)
	  or diag(join "\n", @warnings);
	return;
}

# The session has two keys; one is lost, which it can see; the release of the other one hangs.
foreach my $case (
	[ 'redis_unlock_all()', 'lock', 'reentrant', 'cancel' ],
	[ 'redis_unlock_all()', 'read_lock', 'read', 'statement_timeout' ],
	[ "redis_multi_unlock(ARRAY['lost', 'hangs'])", 'lock', 'reentrant', 'cancel' ])
{
	my ($call, $take, $kind, $way) = @$case;
	my $session = $node->session;
	my $name = "$call, $take, $way";

	$session->query_is("SELECT redis_$take('lost'), redis_$take('hangs')", '|', "$name: taken");
	$admin->query_is("SELECT redis_force_unlock('lost')", 't', 'one is taken away');
	$session->query_is("SELECT redis_is_held('lost', '$kind')", 'f', 'which the session can see');
	$session->query("SET statement_timeout = '" . limit(6) . "s'") if $way eq 'statement_timeout';
	my $id = $proxy->rule(match => 'hangs', action => 'hold');
	$session->start("SELECT $call");
	$proxy->wait_for_rule($id);
	$session->cancel if $way eq 'cancel';
	my $result = $session->wait;

	$result->fails('57014', qr/cancel/, "$name: cut");
	warns_of($result, 'lost', "$name: the loss is told");
	$proxy->let_go;
	$session->query('RESET statement_timeout');
	$session->query_is('SELECT redis_unlock_all()', '0', "$name: nothing is left");
	$session->quit;
	$node->wait_for_free($redis, $_) foreach qw(lost hangs);
}

# The release of one was answered, and found it gone, when the call is cut.
my $session = $node->session;
$session->query("SELECT redis_lock('warm'), redis_read_lock('cold'), redis_unlock_all()");
$session->query("SELECT redis_lock('gone'), redis_read_lock('hangs')");
$redis->cmd('DEL', 'gone');
my $id = $proxy->rule(match => 'hangs', action => 'hold');
my $answered = $proxy->rule(on => 'reply', match => 'gone', action => 'delay');
$session->start('SELECT redis_unlock_all()');
$proxy->wait_for_rule($id);
$proxy->wait_for_rule($answered);
$session->wait_until_read;
$session->cancel;
my $result = $session->wait;
$result->fails('57014', qr/cancel/, 'answered in part: cut');
warns_of($result, 'gone', 'answered in part: the loss is told');
$proxy->let_go;
$session->quit;
$node->wait_for_free($redis, 'hangs');

# The cancel comes when the first of several is about to be told, or another warning.  What is
# known is lost by force, what is not is gone from Redis.
my @keys = map { "k$_" } 1 .. 5;
my $keys = "'{" . join(',', @keys) . "}'";

foreach my $case (
	[ 'redis_unlock_all()', 'known', 'report_lost', 5 ],
	[ "redis_multi_unlock($keys)", 'known', 'report_lost', 5 ],
	[ "redis_multi_unlock($keys)", 'found', 'report_lost', 4 ],
	[ "redis_multi_unlock($keys)", 'found', 'track_warn_early_unlock', 4 ],
	[ 'redis_unlock_all()', 'found', 'track_warn_early_unlock', '4 Redis locks were lost' ])
{
	my ($sql, $how, $where, $told) = @$case;
	my $name = "$sql: $how, $where";
	my $one = $node->session;

	$one->query("SELECT redis_multi_lock($keys)");
	$how eq 'known' ? $admin->query("SELECT redis_force_unlock('$_')") : $redis->cmd('DEL', $_)
	  foreach @keys[ 0 .. ($how eq 'known' ? 4 : 3) ];
	$one->query('BEGIN; SELECT pg_current_xact_id()');
	my $stop = LockRedis::Debugger->new($one->pid);
	$stop->run_to($where);
	$one->start("SELECT $sql");
	$stop->wait_for_stop;
	$one->cancel;
	$stop->let_go;
	my $warned = $one->wait;
	my @warnings = map { $_->message } $warned->warnings;

	$warned->fails('57014', qr/cancel/, "$name: cut");
	is(scalar(grep { $told =~ /^\d+$/ ? /the lock "k\d" was lost/ : /$told/ } @warnings),
		$told =~ /^\d+$/ ? $told : 1, "$name: all are told")
	  or diag(join "\n", @warnings);
	$one->query('ROLLBACK');
	$one->quit;
	poll_until('the keys to be free', sub { !grep { $redis->cmd('EXISTS', $_) } @keys });
}

end_test($node, $redis);
