# Copyright (c) 2026, lockredis contributors

# A bad way to the right node: requests that are late, lost or cut.
#
# - Every call ends within its budget with a clear error of class 58.
# - No reply is taken for that of another request; a request that only its owner's
#   lock can feel is repeated once, a create never.
#
# Proves G5, G18, G19.

use LockRedis::Test;
use LockRedis::Topic::Budgets;

my $cut_off = qr/closed the connection|connection to the node was lost/;
my ($node, $redis, $one) = servers(sessions => 1);

# ----------
# A bad way to the right node
# ----------

my $proxy = LockRedis::Proxy->new($redis);
$node->set('lockredis.url' => $proxy->url);
$node->wait_for_up;

sub works_again
{
	$proxy->clear;
	poll_until('the node to work again',
		sub { $one->query("SELECT redis_is_locked('other')")->out eq 'f' });
	return;
}

sub all_gone ($name)
{
	return ok(
		eval {
			poll_until('everything to be given back',
				sub { !$redis->all_keys && $node->count_locks == 0 });
		},
		$name);
}

$node->set('lockredis.command_timeout' => '3s');
works_again();

# Too slow: the create has run, and is given back.  A later reply is not taken
# for that to the next request.
$proxy->rule(on => 'reply', match => 'slow', action => 'delay', ms => 5000);
my $result = $one->query("SELECT redis_try_lock('slow')");
$result->fails('58030', qr/did not answer/, 'a reply that is too slow');
cmp_ok($result->ms, '<', $in_time_ms, 'is not waited for');
works_again();
all_gone('what it took is given back');

$redis->cmd('HSET', 'slow', 'somebody:1', 1);
$proxy->rule(on => 'reply', match => 'slow', action => 'delay', ms => 5000);
$one->query_fails("SELECT redis_is_locked('slow')",
	'58030', qr/did not answer/, 'another one that is too slow');
works_again();
$one->query_is(
	"SELECT redis_is_locked('other'), pg_sleep(3) IS NULL, redis_is_locked('other')",
	'f|f|f',
	'is not the answer to the next question');
$redis->cmd('DEL', 'slow');

# Reconnect and repeat are within the same budget: the connection is reset under
# the request, and a new one gets no answer.
my $rule = $proxy->rule(match => 'budget', action => 'hold');
$one->start("SELECT redis_is_locked('budget')");
$proxy->wait_for_rule($rule);
$proxy->mode('silent');
$proxy->reset_all;
$result = $one->wait;
$result->fails('58000', qr/did not answer in time/, 'repeated in vain');
cmp_ok($result->ms, '<', $in_time_ms, 'within one budget');
$proxy->mode('pass');
$proxy->release;
works_again();

# The round trip is that of now, not that of the connection's beginning.
my $quick = $node->session(settings => { 'lockredis.lease' => '2s' });
$quick->value("SELECT redis_lock('quick')");
$proxy->latency(100);
poll_until('the slower round trip to be seen',
	sub { $node->lock_status(q{round_trip > '0.2s'}) eq 't' });
$proxy->latency(0);
poll_until('the quicker round trip to be seen',
	sub { $node->lock_status(q{round_trip < '0.2s'}) eq 't' });
$quick->quit;

# Cut in the middle of the reply, and before it, and before the request.
my @ways = (
	(map { +{ on => 'reply', action => 'truncate', bytes => $_->[0], then => $_->[1] } }
		  [ 0, 'close' ], [ 1, 'reset' ], [ 3, 'close' ]),
	{ action => 'cut' },
	{ action => 'reset' },
	{ action => 'close' });
my $create = 'createa';
foreach my $way (@ways)
{
	my $name = join ' ', map { "$_ $way->{$_}" } sort keys %$way;
	my $arrives = $way->{action} !~ /^(?:reset|close)$/;

	# A create (a script with this key only, and behind it a lease) is sent once;
	# whether it ran nobody knows.
	$rule = $proxy->rule(
		%$way,
		match => "\$1\r\n1\r\n\$7\r\n$create\r\n\$5\r\n30000\r\n",
		times => 0);
	$one->query_fails(
		"SELECT redis_try_lock('$create')",
		'58030',
		qr/the lock store did not answer.*(?:$cut_off)/s,
		"create: $name");
	is($proxy->acted($rule), 1, 'sent once');
	$proxy->clear;
	$create++;

	# What acts only on an own lock is repeated over a new connection, once.
	$one->value("SELECT redis_lock('cut')");
	$rule = $proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_is_locked('cut')", 't', "inspect: $name");
	$proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_lock('cut', '50min')", '', "re-entry for longer: $name");
	cmp_ok($redis->cmd('PTTL', 'cut'), '>', 2_900_000, 'longer');
	$proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_extend('cut', '1h')", 't', "extend: $name");
	cmp_ok($redis->cmd('PTTL', 'cut'), '>', 3_000_000, 'extended');
	$one->query_is("SELECT redis_unlock('cut')", 't', 'one unlock asks nobody');

	# The last release: gone for sure, but if its answer is lost nobody can say
	# whether the lock had been ours until then.
	$proxy->rule(%$way, match => 'cut');
	my $release = $one->query("SELECT redis_unlock('cut')");
	is($release->out, 't', "last unlock: $name");
	is(scalar($release->warnings), $arrives ? 1 : 0, 'with a warning or not');
	poll_until('the lock to be gone', sub { !$redis->cmd('EXISTS', 'cut') });

	# Twice in a row: once is enough.
	$rule = $proxy->rule(%$way, match => 'twice', times => 2);
	$one->query_fails("SELECT redis_is_locked('twice')",
		'58030', $cut_off, "inspect, twice: $name");
	is($proxy->acted($rule), 2, 'repeated once');
	$proxy->clear;
}
all_gone('all that ran unheard is given back');

# Ended by the node right after an answer: what is sent a moment later is read by
# nobody, so even a create is sent again.  The proxy may be late on a busy machine.
my $again;
foreach my $round (1 .. 5)
{
	$proxy->rule(
		on => 'reply',
		match => "before$round",
		action => 'truncate',
		bytes => 1_000_000,
		then => 'close');
	$again = $one->query(
		"SELECT redis_is_locked('before$round'), pg_sleep(0.004) IS NULL, redis_try_lock('after')"
	);
	last if $again->out eq 'f|f|t';
	all_gone('what may have been taken is given back');
}
is($again->out, 'f|f|t', 'a create on a connection that was just ended');
$one->query_is("SELECT redis_unlock('after')", 't', 'is held once');

# connect() that does not return.  Kept connections are not concerned.
$node->set(%short);
$one->query_is("SELECT redis_is_locked('k')", 'f', 'connected');
$proxy->mode('hang');
$one->query_is("SELECT redis_is_locked('k')", 'f', 'kept ones still work');
my $fresh = $node->session;
$result = $fresh->query("SELECT redis_try_lock('k')");
$result->fails('58000', qr/Could not connect to the node in time/,
	'connecting lasts too long');
cmp_ok($result->ms, '<', $in_time_ms, 'and is given up');
$proxy->mode('pass');
poll_until('the store to be back',
	sub { $fresh->query("SELECT redis_try_lock('k')")->out eq 't' });

end_test($node, $redis);
