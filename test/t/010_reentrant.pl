# Copyright (c) 2026, lockredis contributors

# Reentrancy and exclusion, as Redis and its other clients see them: holds are counted
# by the session, with an unlock of its own for each; who excludes whom; owners; what goes over
# the wire, counted in client commands.  Keys are any text, in any encoding of the database, with
# lockredis.key_prefix in front: which name is in Redis, and that all mean the same one by it.
# Proves G1, G2, G23, G31.

use LockRedis::Test;

my $owner_like = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$/;

# Nothing is renewed in the middle of counting.
my %calm = ('lockredis.lease' => '10min');
my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis, settings => {%calm});
my $other_node = $node->another('other', redis => $redis, settings => {%calm});
my ($one, $two, $away) = map { $_->session } $node, $node, $other_node;

$_->wait_for_up foreach $node, $other_node;

sub session_commands ($do)
{
	return map { [ LockRedis::Monitor->args($_) ] }
	  $redis->session_commands($do);
}

# What was published since the subscription; a message of our own ends it.
sub messages ($ear, $channel)
{
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

# TAP: what others were notified of "count" since this was asked last.
my $ear;

sub were_told ($messages, $name)
{
	of_redis 'it tells nobody' => sub {
		is_deeply(messages($ear, $redis->channel('count')), $messages, $name);
	};
	return;
}

#
# Counts.  One field, <uuid>:<number>, whose value stays 1: only the first acquire and
# the last release ask Redis, and the release is published once.
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
	were_told([], 'nothing was published yet');
	$one->query_is("SELECT redis_unlock('count')", 't', 'the last one');
	is($redis->cmd('EXISTS', 'count'), 0, 'the key is gone');
	were_told(['0'], 'told once');
	$one->query_warns("SELECT redis_unlock('count')", 'f', '01000', qr/own/, 'no hold is left');
	were_told([], 'and nothing told');

	foreach my $end ('quit', 'DISCARD ALL', 'SELECT redis_unlock_all()')
	{
		my $s = $node->session;

		$s->query("SELECT redis_lock('count'), redis_lock('count'), redis_lock('second')");
		$end eq 'quit' ? $s->quit : $s->query($end);
		poll_until('both keys to go', sub { !$redis->all_keys });
		were_told(['0'], "$end: told once");
		$s->quit;
	}
	$ear->disconnect if $ear;
}

#
# What costs nothing.  The session that asks has no connection to Redis and
# gets none; then Redis is stopped, so that a request would fail.
#
{
	my $poor = $node->session;

	$one->query("SELECT redis_lock('free')");
	my $ask = sub {
		$poor->query_is("SELECT redis_try_lock('free')", 'f', 'a local lock is busy');
		$poor->query_is(
			"SELECT redis_is_held('free'), redis_hold_count('free')",
			'f|0', 'not held by another session');
		$poor->query_fails("SELECT redis_assert_held('free')",
			'55000', qr/own/, 'as redis_assert_held says');
		$one->query_is(
			"SELECT redis_is_held('free'), redis_hold_count('free')",
			't|1', 'held by its own');
		$one->query_is("SELECT redis_assert_held('free')", '', 'as redis_assert_held says');
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
	is($redis->calls('subscribe') - $subscribed, 0, 'who does not wait needs no subscription');
	is_deeply($redis->hash('foreign'), { 'somebody:1' => 1 }, 'left alone');
	$redis->cmd('DEL', 'foreign');
};

#
# Owners.  Each lock that is taken has a number of its own, of one uuid a start
# of the server.
#
{
	my %seen;

	foreach my $s ($one, $two, $one)
	{
		$s->query("SELECT redis_lock('mine')");
		$seen{ $redis->owner_of('mine') }++;
		$s->query("SELECT redis_unlock('mine')");
	}
	is(scalar keys %seen, 3, 'three locks, three owners');
	is(scalar(keys %{ { map { (split /:/)[0] => 1 } keys %seen } }), 1, 'with one uuid');
}

# Somebody elsewhere waits for a key that is locked here.
sub wait_for_listener ($key)
{
	$other_node->wait_for_waiters($key, 1);
	of_redis 'nobody listens' => sub {
		$redis->wait_for_subscribers($key, 1);
	};
	return;
}

#
# Keys are any text.  Each is written in hexadecimal for psql; the name in
# Redis is its UTF-8 bytes, and a waiter of it is woken over its channel.
#
{
	my @keys = (
		[ '255 bytes', 'x' x 255 ],
		[ '255 bytes of UTF-8', "\xc3\xa9" x 127 . 'y' ],
		[ 'one byte', '1' ],
		[ 'quotes', q{it's "quoted" and `ticked`} ],
		[ 'spaces', '  two  and one behind ' ],
		[ 'newlines', "line\nline\r\n\r\n" ],
		[ 'control characters', join '', map { chr } 1 .. 31, 127 ],
		[ 'backslashes and percents', 'a\\b\\\\ %s %n \\x00' ],
		[ 'non-ASCII', "\xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 caf\xc3\xa9" ],
		[ 'a request', "*1\r\n\$8\r\nFLUSHALL\r\n" ],
		[ 'a hash tag', 'a{b}c' ],
		[ 'braces', '}{' ]);

	foreach my $case (@keys)
	{
		my ($what, $key) = @$case;
		my $hex = unpack 'H*', $key;
		my $sql = "convert_from('\\x$hex', 'UTF8')";

		$one->query_is("SELECT redis_try_lock($sql)", 't', "$what: taken");
		is_deeply([ $redis->all_keys ], [$key], "$what: name in Redis");
		like($redis->owner_of($key), $owner_like, "$what: a lock in Redis");
		$two->query_is(
			"SELECT redis_try_lock($sql),
				(SELECT count(*) FROM redis_locks WHERE key = $sql)",
			'f|1', "$what: busy here, and shown");
		$away->query_is("SELECT redis_try_lock($sql)", 'f', "$what: busy there");
		$away->start("SELECT redis_lock($sql)");
		wait_for_listener($key);
		$one->query_is("SELECT redis_unlock($sql)", 't', "$what: given back");
		is($away->wait(20)->error, undef, "$what: taken there");
		$away->query_is("SELECT redis_unlock($sql)", 't', "$what: and back");
	}
	is_deeply([ $redis->all_keys ], [], 'no key is left');
}

#
# Encodings of the database.  Keys are UTF-8 in Redis whatever it is.
#
{
	foreach my $encoding ('LATIN1', 'SQL_ASCII')
	{
		$node->safe_psql('postgres',
			"CREATE DATABASE $encoding ENCODING $encoding LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
		);
		$node->safe_psql(lc $encoding, 'CREATE EXTENSION lockredis');
	}
	my $latin1 = $node->session(dbname => 'latin1');
	my $ascii = $node->session(dbname => 'sql_ascii');
	my $cafe = "caf\xc3\xa9";

	is($latin1->value("SELECT length('$cafe'), octet_length('$cafe')"), '4', 'a LATIN1 database');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 't', 'taken in LATIN1');
	is_deeply([ $redis->all_keys ], [$cafe], 'UTF-8 in Redis');
	$away->query_is("SELECT redis_try_lock('$cafe')",
		'f', 'busy for a UTF-8 session of another server');
	$one->query_is("SELECT redis_try_lock('$cafe')",
		'f', 'busy for a UTF-8 session of this server');
	$_->query_is('SELECT key FROM redis_locks', $cafe, 'shown in each database')
	  foreach $one, $latin1;
	$latin1->query_is("SELECT redis_unlock('$cafe')", 't', 'given back');
	$away->query_is("SELECT redis_try_lock('$cafe')", 't', 'taken there');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 'f', 'busy in LATIN1');
	$away->query_is("SELECT redis_unlock('$cafe')", 't', 'given back there');

	# 255 bytes are counted in UTF-8.
	$latin1->query_is("SELECT redis_try_lock(repeat('\xc3\xa9', 127))", 't', '254 bytes of UTF-8');
	$latin1->query_fails("SELECT redis_try_lock(repeat('\xc3\xa9', 128))",
		'22023', qr/256 bytes/, '256 bytes of UTF-8, though 128 of LATIN1');
	$latin1->query_is('SELECT redis_unlock_all()', '1', 'given back');

	# The prefix is the same in all of them, or refused.
	my $set = "SET lockredis.key_prefix = '\xc3\xa9'";
	$one->query_is($set, '', 'a prefix in UTF-8');
	$latin1->query_fails($set, '22023', qr/key_prefix.*UTF-8/s, 'its bytes in LATIN1 are no UTF-8');
	$one->query('RESET lockredis.key_prefix');

	# A key that LATIN1 lacks.
	$one->query("SELECT redis_lock('euro \xe2\x82\xac')");
	$latin1->query_is('SELECT key FROM redis_locks',
		'euro \xe2\x82\xac', 'shown with escapes in LATIN1');
	$_->query_is('SELECT key FROM redis_locks', "euro \xe2\x82\xac", 'as it is in UTF-8 and SQL_ASCII')
	  foreach $one, $ascii;
	$ascii->query_is("SELECT redis_try_lock('euro \xe2\x82\xac')",
		'f', 'the same key in SQL_ASCII');
	$one->query('SELECT redis_unlock_all()');

	$ascii->query_is("SELECT redis_try_lock(E'caf\\xc3\\xa9')", 't', 'taken in SQL_ASCII');
	is_deeply([ $redis->all_keys ], [$cafe], 'the same bytes in Redis');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 'f', 'busy in LATIN1');
	$ascii->query_is("SELECT redis_unlock(E'caf\\xc3\\xa9')", 't', 'given back');
	foreach my $call ('redis_lock', 'redis_try_lock', 'redis_unlock',
		'redis_is_held', 'redis_is_locked')
	{
		$ascii->query_fails("SELECT $call(E'caf\\xe9')",
			'22021', qr/encoding/, "$call in SQL_ASCII: no UTF-8");
	}
	is_deeply([ $redis->all_keys ], [], 'nothing was taken');
	$latin1->quit;
	$ascii->quit;
}

#
# lockredis.key_prefix is part of the key in Redis and in redis_locks.
#
{
	my $app = $node->session(settings => { 'lockredis.key_prefix' => 'app:' });

	$app->query_is("SELECT redis_try_lock('p')", 't', 'taken with a prefix');
	is_deeply([ $redis->all_keys ], ['app:p'], 'the prefix in Redis');
	$one->query_is('SELECT key FROM redis_locks', 'app:p', 'and in redis_locks');
	$one->query_is("SELECT redis_try_lock('p')", 't', 'another key without');
	$one->query_is("SELECT redis_try_lock('app:p')", 'f', 'the same one written whole');
	$away->query_is("SELECT redis_lock_owner('app:p')",
		$redis->owner_of('app:p'), 'elsewhere, too');
	$away->start("SELECT redis_lock('app:p')");
	wait_for_listener('app:p');

	# What is held is found by its whole name.
	$app->query("SET lockredis.key_prefix = ''");
	$app->query_is("SELECT redis_is_held('p'), redis_is_held('app:p')",
		'f|t', 'the prefix of the moment counts');
	$app->query("SET lockredis.key_prefix = 'app:'");
	$app->query_is("SELECT redis_unlock('p')", 't', 'given back');
	is($away->wait(20)->error, undef, 'the release is published with the prefix');
	$away->query('SELECT redis_unlock_all()');
	$one->query('SELECT redis_unlock_all()');

	# The longest of both.
	$app->query('SELECT set_config($$lockredis.key_prefix$$, repeat($$p$$, 64), false)');
	$app->query_is("SELECT redis_try_lock(repeat('k', 255))",
		't', '64 bytes of prefix and 255 of key');
	is_deeply([ $redis->all_keys ], [ 'p' x 64 . 'k' x 255 ], 'are one key of 319 bytes');
	$app->query_is("SELECT redis_unlock(repeat('k', 255))", 't', 'given back');
	$app->query_fails("SELECT redis_try_lock(repeat('k', 256))",
		'22023', qr/256 bytes/, 'the prefix does not count as key');
	$app->query_fails(
		'SELECT set_config($$lockredis.key_prefix$$, repeat($$p$$, 65), false)',
		'22023', qr/64/, 'a prefix of 65 bytes');
	$app->quit;
}

end_test([ $node, $other_node ], $redis);
