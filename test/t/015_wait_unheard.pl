# Copyright (c) 2026, lockredis contributors

# Waiting where nobody tells, or the message is not heard: leases that end, locks
# of clients that publish nothing (polled), time limits, a subscription that comes too
# late.  031_store_errors cuts them off.
#
# A lease is ten minutes here, of foreign holders as well, and nothing waits
# nearly as long: whoever is not woken in time fails the test.
#
# Proves G18, G21.

use LockRedis::Test;
use LockRedis::Topic::Waiting;

start_servers();

#
# The end of a foreign lease is not told by anybody.
#
{
	my $start = now();
	$redis->foreign_lock('ends', ms => 1200);
	$s[0]->query_is("SELECT redis_lock('ends')", '', 'a lease has ended');
	cmp_ok(now() - $start, '>=', 1.1, 'not before its time');
	give_back($s[0], 'ends');

	# A holder keeps the key for a shorter time, and says so.
	$redis->foreign_lock('shorter');
	queue_up('shorter', "SELECT redis_lock('shorter')", @s[ 0, 1 ]);
	$start = now();
	$redis->cmd('PEXPIRE', 'shorter', 1500);
	$redis->tell_waiters('shorter');
	is($s[0]->wait(20)->error, undef, 'a shortened lease has ended');
	cmp_ok(now() - $start, '>=', 1.4, 'not before its time');
	ok($s[1]->is_running, 'for one of two');
	give_back($s[0], 'shorter');
	is($s[1]->wait(20)->error, undef, 'then for the other one');
	give_back($s[1], 'shorter');

	# A lease that is renewed is waited for again and again, without polling.
	my $calls = $redis->script_calls;
	$redis->foreign_lock('renewed', ms => 5000);
	$s[0]->start("SELECT redis_lock('renewed')");
	my $until = now() + 11;
	while (now() < $until)
	{
		$redis->cmd('PEXPIRE', 'renewed', 5000);
		pause(0.1);
	}
	ok($s[0]->is_running, 'a renewed foreign lease');
	cmp_ok($redis->script_calls - $calls, '<=', 6, 'is asked for seldom');
	$redis->foreign_unlock('renewed');
	is($s[0]->wait(20)->error, undef, 'until it is given back');
	give_back($s[0], 'renewed');
}

#
# A hash without a TTL never ends: only a message helps.
#
{
	$redis->cmd('HSET', 'endless', 'somebody:1', 1);
	queue_up('endless', "SELECT redis_lock('endless')", $s[0]);
	my $calls = settled_calls();
	pause(1.5);
	is($redis->script_calls - $calls, 0, 'a lock without TTL is not polled');
	$redis->foreign_unlock('endless');
	is($s[0]->wait(20)->error, undef, 'but waited for');
	give_back($s[0], 'endless');
}

#
# A string with a TTL is a token lock of somebody who tells nothing.
#
{
	$redis->cmd('SET', 'token', 'secret', 'PX', $lease_ms);
	$s[0]->query_is("SELECT redis_try_lock('token')", 'f', 'busy');
	my $calls = $redis->script_calls;
	$s[0]->start("SELECT redis_lock('token')");
	$node->wait_for_waiters('token', 1);
	my $since = now();
	my $polls = 0;
	poll_until('polls',
		sub { ($polls = $redis->script_calls - $calls) >= 3 && now() - $since >= 2 });
	pass('polled');
	cmp_ok($polls, '<=', 10 * (now() - $since), 'but not all the time');
	is($redis->cmd('GET', 'token'), 'secret', 'and left alone');
	$redis->cmd('DEL', 'token');
	is($s[0]->wait(20)->error, undef, 'taken when it is gone');
	give_back($s[0], 'token');

	$redis->cmd('SET', 'token', 'secret', 'PX', 1000);
	$s[0]->query_is("SELECT redis_try_lock('token', '20s')",
		't', 'or when its time is over');
	give_back($s[0], 'token');
}

#
# Time limits: the shorter one of wait and lock_timeout decides, behind a local
# holder and behind a foreign one, as head of the queue and behind it.
#
{
	$s[9]->query("SELECT redis_lock('local')");
	$redis->foreign_lock($_) foreach 'foreign', 'queued';
	queue_up('queued', "SELECT redis_lock('queued')", $s[8]);
	my $before = stats();

	foreach my $key ('local', 'foreign', 'queued')
	{
		# [ lock_timeout, call, how long it takes in ms, false or the error ]
		foreach my $case (
			[ '0', "redis_try_lock('$key')", 0, 'f' ],
			[ '0', "redis_try_lock('$key', '200ms')", 200, 'f' ],
			[ '200ms', "redis_lock('$key')", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', NULL)", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', '20s')", 200, '55P03' ],
			[ '200ms', "redis_try_lock('$key', '150ms')", 150, 'f' ],
			[ '200ms', "redis_try_lock('$key')", 0, 'f' ],
			[ '20s', "redis_try_lock('$key', '200ms')", 200, 'f' ])
		{
			my ($limit, $call, $ms, $ends) = @$case;
			my $name = "$call, lock_timeout $limit";

			$s[0]->query("SET lock_timeout = '$limit'");
			my $result = $s[0]->query("SELECT $call");
			$ends eq 'f'
			  ? is($result->out . $result->{raw}, 'f', "$name: false")
			  : $result->fails($ends, qr/canceling statement due to lock timeout/, $name);
			cmp_ok($result->ms, '>=', $ms - 1, "$name: not too early");
			cmp_ok($result->ms, '<', 10_000, "$name: nor too late");
		}
		$s[0]->query('RESET lock_timeout');
	}
	my $after = stats();

	# A slow request may use up the time before there is anything to wait for.
	my %more = map { $_ => $after->{$_} - $before->{$_} } keys %$after;
	is($more{timeouts} + $more{busy}, 24, 'timeouts and refusals are counted');
	cmp_ok($more{timeouts}, '>=', 12, 'most of them as timeouts');
	cmp_ok($more{busy}, '>=', 6, 'those without a wait as busy');

	# The limit is for waiting, not for being served.
	$s[0]->query_is("SELECT redis_try_lock('free', '0'), redis_unlock('free')",
		't|t', 'a wait of nothing is enough for a free lock');

	# No limit.
	my @endless = ('NULL', "'178000000 years'");
	push @endless, "'infinity'"
	  if $viewer->value('SHOW server_version_num') >= 170000;
	foreach my $wait (@endless)
	{
		$redis->foreign_lock('forever');
		queue_up('forever', "SELECT redis_try_lock('forever', $wait)", $s[0]);
		pause(0.5);
		ok($s[0]->is_running, "wait $wait");
		$redis->foreign_unlock('forever');
		is($s[0]->wait(20)->out, 't', 'until it is given back');
		give_back($s[0], 'forever');
	}

	give_back($s[9], 'local');
	$redis->foreign_unlock('queued');
	is($s[8]->wait(20)->error, undef, 'the one before has it');
	give_back($s[8], 'queued');
	$redis->foreign_unlock('foreign');
}

#
# The reply to the PING of a silent connection is an error, and a subscription is requested
# behind it.  That error is none of the subscription.
#
{
	$far->set('lockredis.command_timeout' => '60s');
	my ($one, $two) = map { $far->session } 1 .. 2;
	my $ping = $proxy->rule(match => "\r\nPING\r\n", action => 'hold');
	my $behind = $proxy->rule(match => $redis->channel('behind'), action => 'delay');

	$redis->foreign_lock($_) foreach 'silent', 'behind';
	$one->start("SELECT redis_lock('silent')");
	$proxy->wait_for_rule($ping);
	$far->log_since_here;
	$two->start("SELECT redis_lock('behind')");
	$proxy->wait_for_rule($behind);
	$redis->cmd('ACL', 'SETUSER', 'default', '-ping');
	$proxy->let_go;
	$redis->wait_for_subscribers('behind', 1);
	$redis->foreign_unlock('behind');
	is($two->wait($soon)->error, undef, 'a PING is refused: a subscription behind it is not');
	ok(!$far->logged(qr/refused a subscription|no release messages/), 'nor taken for refused');
	$redis->cmd('ACL', 'SETUSER', 'default', '+ping');
	$redis->foreign_unlock('silent');
	is($one->wait($soon)->error, undef, 'nor is one before it');
	$far->set('lockredis.command_timeout' => '3s');
	$_->quit foreach $one, $two;
}

#
# A release between the first try and the subscription: the proxy keeps back the SUBSCRIBE, the key
# is given back, nobody is told.  (That the try which follows the confirmation finds it free is the
# simulator's: its mutant confirm_ignored.)
#
{
	my ($one, $two) = map { $far->session } 1 .. 2;
	my $hold = sub {
		my ($key) = @_;
		my $rule = $proxy->rule(
			match => "\r\nSUBSCRIBE\r\n",
			action => 'hold');

		$redis->foreign_lock($key);
		$one->start("SELECT redis_lock('$key')");
		$proxy->wait_for_rule($rule);
		return;
	};
	# As long as there is no confirmation the waiter looks every second.
	$hold->('deaf gap');
	$redis->foreign_unlock('deaf gap');
	is($one->wait($soon)->error, undef, 'even without a subscription');
	$proxy->release;
	give_back($one, 'deaf gap');

	# A message comes while the head asks: the reply, which says busy for ten
	# minutes, is kept back until the release has been told.
	$redis->foreign_lock('crossing');
	queue_up('crossing', "SELECT redis_lock('crossing')", $one);
	my $rule = $proxy->rule(
		on => 'reply',
		match => 'crossing',
		action => 'hold');
	$redis->tell_waiters('crossing');
	$proxy->wait_for_rule($rule);
	is($redis->foreign_unlock('crossing'), 1, 'told while the head asks');
	pause(0.2);
	$proxy->release;
	is($one->wait($soon)->error, undef, 'and not forgotten');
	give_back($one, 'crossing');

	# The same with a second waiter, and a head that gives up over it.
	$redis->foreign_lock('crossing');
	queue_up('crossing', "SELECT redis_lock('crossing')", $one);
	$two->start("SELECT redis_lock('crossing')");
	poll_until('two waiters', sub { $far->count_locks == 2 });
	$rule = $proxy->rule(
		on => 'reply',
		match => 'crossing',
		action => 'hold');
	$redis->tell_waiters('crossing');
	$proxy->wait_for_rule($rule);
	$redis->foreign_unlock('crossing');
	$one->cancel;
	$one->wait($soon)->fails('57014', qr/user request/, 'the head is cancelled');
	is($two->wait($soon)->error, undef, 'the next one has it');
	$proxy->release;
	give_back($two, 'crossing');
	$_->quit foreach $one, $two;
}

end_test([ $node, $far ], $redis);
