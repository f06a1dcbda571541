# Copyright (c) 2026, lockredis contributors

# Reentrancy and exclusion, as Redis and its other clients see them: holds are counted
# by the session, with an unlock of its own for each; who excludes whom; owners; what goes over
# the wire, counted in client commands.
# Proves G1, G2, G31.

use LockRedis::Test;
use LockRedis::Topic::TwoServers;

start_servers();

sub session_commands
{
	my ($do) = @_;

	return map { [ LockRedis::Monitor->args($_) ] }
	  $redis->session_commands($do);
}

# What was published since the subscription; a message of our own ends it.
sub messages
{
	my ($ear, $channel) = @_;
	my @messages;

	$redis->cmd('PUBLISH', $channel, 'that was all');
	while (1)
	{
		my $push = $ear->read_reply;
		next unless $push->[0] eq 'message';
		return \@messages if $push->[2] eq 'that was all';
		push @messages, $push->[2];
	}
}

# TAP: what others were told of "count" since this was asked last.
my $ear;

sub were_told
{
	my ($messages, $name) = @_;

	of_redis 'it tells nobody' => sub {
		is_deeply(messages($ear, $redis->channel('count')), $messages, $name);
	};
	return;
}

#
# Counts.  One field, <uuid>:<number>, whose value stays 1: only the first acquire and
# the last release ask Redis, and the release is told once.
#
{
	of_redis 'nobody listens' => sub {
		$ear = $redis->connection;
		$ear->send_command('SUBSCRIBE', $redis->channel('count'));
		$ear->read_reply;
	};

	$one->query_is("SELECT redis_lock('count')", '', 'taken');
	my $owner = $redis->owner_of('count');
	like($owner, $owner_like, 'the owner is a uuid and a number');
	is_deeply($redis->hash('count'), { $owner => 1 }, 'count 1 in Redis');
	my $calls = $redis->script_calls;
	$one->query_is("SELECT redis_hold_count('count')", '1', 'count 1 here');
	$one->query_is("SELECT redis_lock('count')", '', 'taken again');
	$one->query_is("SELECT redis_try_lock('count')", 't', 'and again');
	$one->query_is("SELECT redis_hold_count('count')", '3', 'count 3 here');
	is( $node->value(
			q{SELECT pid, key, kind, scope, granted, hold_count, renewed, owner
			  FROM redis_locks}),
		$one->pid . "|count|reentrant|session|t|3|t|$owner",
		'one row in redis_locks');
	cmp_ok($redis->cmd('PTTL', 'count'), '>', 500_000, 'with its lease');

	$one->query_is("SELECT redis_unlock('count')", 't', 'one given back');
	$two->query_is("SELECT redis_try_lock('count')", 'f', 'still taken');
	$one->query_is("SELECT redis_unlock('count')", 't', 'another one');
	is_deeply($redis->hash('count'), { $owner => 1 }, 'Redis shows 1 all the time');
	of_redis 'no commands that could be counted' => sub {
		is($redis->script_calls, $calls, 'and was not asked since');
	};
	were_told([], 'nothing was told yet');
	$one->query_is("SELECT redis_unlock('count')", 't', 'the last one');
	is($redis->cmd('EXISTS', 'count'), 0, 'the key is gone');
	were_told(['0'], 'told once');
	$one->query_warns("SELECT redis_unlock('count')",
		'f', '01000', qr/own/, 'no hold is left');
	were_told([], 'and nothing told');

	# Holds survive rollback, and redis_unlock_all drops every one of them.
	$one->query('BEGIN; SELECT redis_lock(\'count\'); ROLLBACK');
	$one->query_is("SELECT redis_hold_count('count')",
		'1', 'a hold survives a rollback');
	$one->query_is("SELECT redis_lock('count'), redis_lock('second')",
		'|', 'two keys');
	$one->query_is('SELECT redis_unlock_all()', '2',
		'redis_unlock_all counts keys');
	is_deeply([ $redis->all_keys ], [], 'both are gone');
	were_told(['0'], 'told once by redis_unlock_all');
	$one->query_is("SELECT redis_hold_count('count')", '0', 'no hold is left');

	# So does the end of a session.
	my $brief = $node->session;
	$brief->query("SELECT redis_lock('count'), redis_lock('count')");
	$brief->quit;
	poll_until('the key to go', sub { !$redis->cmd('EXISTS', 'count') });
	were_told(['0'], 'told once by the end of a session');

	# And DISCARD ALL.
	$one->query("SELECT redis_lock('count'), redis_lock('count')");
	$one->query_is('DISCARD ALL', '', 'DISCARD ALL');
	$one->query("SET lockredis.lease = '10min'");
	were_told(['0'], 'told once by DISCARD ALL');
	$ear->disconnect if $ear;
}

#
# What costs nothing.  The session that asks has no connection to Redis and
# gets none; then Redis is stopped, so that a request would fail.
#
{
	my $poor = $node->session(settings => {%calm});

	$one->query("SELECT redis_lock('free')");
	my $ask = sub {
		$poor->query_is("SELECT redis_try_lock('free')",
			'f', 'a local lock is busy');
		$poor->query_is(
			"SELECT redis_is_held('free'), redis_hold_count('free')",
			'f|0', 'not held by another session');
		$poor->query_fails("SELECT redis_assert_held('free')",
			'55000', qr/own/, 'as redis_assert_held says');
		$one->query_is(
			"SELECT redis_is_held('free'), redis_hold_count('free')",
			't|1', 'held by its own');
		$one->query_is("SELECT redis_assert_held('free')",
			'', 'as redis_assert_held says');
	};
	of_redis 'no commands, no connections' => sub {
		my $calls = $redis->script_calls;
		my $clients = $redis->clients;
		my @commands = session_commands($ask);

		is_deeply(\@commands, [], 'no command was sent');
		is($redis->script_calls, $calls, 'no script was called');
		is(scalar $redis->clients, $clients, 'no connection was made');
	};

	$redis->freeze;
	$ask->();
	$redis->thaw;
	$node->wait_until_asked($one);
	$one->query_is("SELECT redis_unlock('free')", 't', 'given back');
	$poor->quit;
}

#
# What costs one command: taking a free lock, giving it back, a try that finds
# the lock of somebody else.
#
of_redis 'no commands that could be counted' => sub {
	my $pair = q{
		DO $$ BEGIN
			FOR i IN 1 .. 100 LOOP
				PERFORM redis_lock('pair');
				PERFORM redis_unlock('pair');
			END LOOP;
		END $$};

	$one->query($pair);
	my $calls = $redis->script_calls;
	my @commands = session_commands(sub { $one->query($pair) });
	is(scalar @commands, 200, '100 pairs are 200 client commands');
	is(scalar(grep { $_->[0] eq 'EVALSHA' && $_->[3] eq 'pair' } @commands),
		200, 'of scripts for the key');
	is($redis->script_calls - $calls, 200, 'as commandstats says');

	# What each costs Redis: words of the requests (a create has lease, owner and time, a
	# release owner and channel), and commands within.
	my @within = qw(pttl time hset pexpire hdel publish lindex);
	my @others = qw(exists type del hlen hget hexists hkeys incr);

	# The watchdogs ask for the time now and then.
	my @watchdogs = map { $_->watchdog_pid } $node, $other_node;
	kill 'STOP', @watchdogs;
	my %before = map { $_ => $redis->calls($_) } @within, @others;
	$one->query($pair);
	my %after = map { $_ => $redis->calls($_) } @within, @others;
	kill 'CONT', @watchdogs;
	is_deeply([ sort map { scalar @$_ } @commands[ 0, 1 ] ],
		[ 6, 7 ], 'words of the two requests of a pair');
	is_deeply(
		{ map { $_ => $after{$_} - $before{$_} } @within, @others },
		{ (map { $_ => 100 } @within), map { $_ => 0 } @others },
		'commands within the scripts of 100 pairs');

	$redis->foreign_lock('foreign');
	my $subscribed = $redis->calls('subscribe');
	@commands = session_commands(
		sub {
			$one->query(q{
				DO $$ BEGIN
					FOR i IN 1 .. 100 LOOP
						IF redis_try_lock('foreign') THEN
							RAISE EXCEPTION 'taken';
						END IF;
					END LOOP;
				END $$});
		});
	is(scalar @commands, 100, '100 tries of a foreign lock are 100 commands');
	is($redis->calls('subscribe') - $subscribed,
		0, 'who does not wait needs no subscription');
	is_deeply($redis->hash('foreign'), { 'somebody:1' => 1 }, 'left alone');
	$redis->cmd('DEL', 'foreign');
};

#
# Owners.  Each lock that is taken has a number of its own, of one uuid a start
# of the server.
#
of_redis 'no commands that show the owners' => sub {
	my %seen;
	my $monitor = $redis->monitor;
	my $take = q{
		DO $$ BEGIN
			FOR i IN 1 .. 50 LOOP
				PERFORM redis_lock('owner ' || pg_backend_pid());
				PERFORM redis_lock('owner ' || pg_backend_pid());
				PERFORM redis_unlock_all();
			END LOOP;
		END $$};

	$one->start($take);
	$two->start($take);
	$one->wait;
	$two->wait;

	# A create has the lease, the owner, and a time for arguments.
	foreach my $args (map { [ $monitor->args($_) ] } $monitor->stop)
	{
		next unless $args->[0] eq 'EVALSHA' && @$args == 7;
		my ($key, $lease, $owner) = @$args[ 3, 4, 5 ];
		next unless $key =~ /^owner \d+$/ && $owner =~ $owner_like;
		$seen{$owner}++;
	}
	is(scalar keys %seen, 100, '100 acquires are 100 owners');
	is_deeply([ grep { $_ != 1 } values %seen ], [], 'each of them new');
	is(scalar(keys %{ { map { (split /:/)[0] => 1 } keys %seen } }),
		1, 'with one uuid');
};

{
	$one->query("SELECT redis_lock('mine')");
	$two->query("SELECT redis_lock('yours')");
	isnt($redis->owner_of('mine'), $redis->owner_of('yours'), 'two sessions are two owners');
	$one->query_is("SELECT redis_lock_owner('yours')",
		$redis->owner_of('yours'), 'asked by the other session');
	$one->query('SELECT redis_unlock_all()');
	$two->query('SELECT redis_unlock_all()');
}

#
# Two servers on one Redis exclude each other.
#
{
	$one->query_is("SELECT redis_try_lock('shared')", 't', 'taken here');
	my $mine = $redis->owner_of('shared');
	$away->query_is("SELECT redis_try_lock('shared')", 'f', 'busy there');
	$away->query_is(
		"SELECT redis_is_held('shared'), redis_is_locked('shared')",
		'f|t', 'seen locked there');
	$away->query_is("SELECT redis_lock_owner('shared')", $mine,
		'with the owner');
	$away->query_warns("SELECT redis_unlock('shared')",
		'f', '01000', qr/own/, 'cannot be given back there');
	is($redis->owner_of('shared'), $mine, 'nothing has happened to it');
	$one->query_is("SELECT redis_unlock('shared')", 't', 'given back here');
	$away->query_is("SELECT redis_try_lock('shared')", 't', 'taken there');
	of_redis 'there is one server' => sub {
		isnt((split /:/, $redis->owner_of('shared'))[0],
			(split /:/, $mine)[0], 'by another uuid');
	};
	$one->query_is("SELECT redis_try_lock('shared')", 'f', 'busy here');
	$away->query_is("SELECT redis_unlock('shared')", 't', 'given back there');
}

end_test([ $node, $other_node ], $redis);
