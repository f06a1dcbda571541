# Copyright (c) 2026, lockredis contributors

# Keys are any text, in any encoding of the database, with lockredis.key_prefix in
# front: which name is in Redis, and that all mean the same one by it.
# Proves G23.

use LockRedis::Test;
use LockRedis::Topic::TwoServers;

start_servers();

# Somebody elsewhere waits for a key that is locked here.
sub wait_for_listener
{
	my ($key) = @_;

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
		$away->query_is("SELECT redis_try_lock($sql)", 'f',
			"$what: busy there");
		$away->start("SELECT redis_lock($sql)");
		wait_for_listener($key);
		$one->query_is("SELECT redis_unlock($sql)", 't', "$what: given back");
		is($away->wait(20)->error, undef, "$what: taken there");
		$away->query_is("SELECT redis_unlock($sql)", 't', "$what: and back");
	}
	is_deeply([ $redis->all_keys ], [], 'no key is left');

	# The same bytes in another order, or cut, are another key.
	$one->query_is("SELECT redis_try_lock('ab'), redis_try_lock('ba'),
			redis_try_lock('a'), redis_try_lock('A'), redis_try_lock('a ')",
		't|t|t|t|t', 'five keys');
	is_deeply([ $redis->all_keys ], [ 'A', 'a', 'a ', 'ab', 'ba' ],
		'are five keys');
	$one->query_is('SELECT redis_unlock_all()', '5', 'given back');
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
	my $latin1 = $node->session(dbname => 'latin1', settings => {%calm});
	my $ascii = $node->session(dbname => 'sql_ascii', settings => {%calm});
	my $cafe = "caf\xc3\xa9";

	is($latin1->value("SELECT length('$cafe'), octet_length('$cafe')"),
		'4', 'a LATIN1 database');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 't', 'taken in LATIN1');
	is_deeply([ $redis->all_keys ], [$cafe], 'UTF-8 in Redis');
	$away->query_is("SELECT redis_try_lock('$cafe')",
		'f', 'busy for a UTF-8 session of another server');
	$one->query_is("SELECT redis_try_lock('$cafe')",
		'f', 'busy for a UTF-8 session of this server');
	$one->query_is('SELECT key FROM redis_locks',
		$cafe, 'shown in the UTF-8 database');
	$latin1->query_is('SELECT key FROM redis_locks',
		$cafe, 'shown in the LATIN1 database');
	$latin1->query_is("SELECT redis_unlock('$cafe')", 't', 'given back');
	$away->query_is("SELECT redis_try_lock('$cafe')", 't', 'taken there');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 'f', 'busy in LATIN1');
	$away->query_is("SELECT redis_unlock('$cafe')", 't', 'given back there');

	# 255 bytes are counted in UTF-8.
	$latin1->query_is("SELECT redis_try_lock(repeat('\xc3\xa9', 127))",
		't', '254 bytes of UTF-8');
	$latin1->query_fails("SELECT redis_try_lock(repeat('\xc3\xa9', 128))",
		'22023', qr/256 bytes/, '256 bytes of UTF-8, though 128 of LATIN1');
	$latin1->query_is('SELECT redis_unlock_all()', '1', 'given back');

	# A key that LATIN1 lacks.
	$one->query("SELECT redis_lock('euro \xe2\x82\xac')");
	$latin1->query_is('SELECT key FROM redis_locks',
		'euro \xe2\x82\xac', 'shown with escapes in LATIN1');
	$one->query_is('SELECT key FROM redis_locks',
		"euro \xe2\x82\xac", 'but not in UTF-8');
	$ascii->query_is('SELECT key FROM redis_locks',
		"euro \xe2\x82\xac", 'and as it is in SQL_ASCII');
	$ascii->query_is("SELECT redis_try_lock('euro \xe2\x82\xac')",
		'f', 'the same key in SQL_ASCII');
	$one->query('SELECT redis_unlock_all()');

	$ascii->query_is("SELECT redis_try_lock(E'caf\\xc3\\xa9')",
		't', 'taken in SQL_ASCII');
	is_deeply([ $redis->all_keys ], [$cafe], 'the same bytes in Redis');
	$latin1->query_is("SELECT redis_try_lock('$cafe')", 'f', 'busy in LATIN1');
	$ascii->query_is("SELECT redis_unlock(E'caf\\xc3\\xa9')",
		't', 'given back');
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
	my $app = $node->session(
		settings => { %calm, 'lockredis.key_prefix' => 'app:' });

	$app->query_is("SELECT redis_try_lock('p')", 't', 'taken with a prefix');
	is_deeply([ $redis->all_keys ], ['app:p'], 'the prefix in Redis');
	$one->query_is('SELECT key FROM redis_locks', 'app:p',
		'and in redis_locks');
	$one->query_is("SELECT redis_try_lock('p')", 't', 'another key without');
	$one->query_is("SELECT redis_try_lock('app:p')",
		'f', 'the same one written whole');
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
	is($away->wait(20)->error, undef, 'the release is told with the prefix');
	$away->query('SELECT redis_unlock_all()');
	$one->query('SELECT redis_unlock_all()');

	# A tag in the prefix is the tag of all names derived.
	$app->query("SET lockredis.key_prefix = '{app}'");
	$app->query_is("SELECT redis_try_lock('p')", 't', 'a tag as prefix');
	$away->start("SELECT redis_lock('{app}p')");
	wait_for_listener('{app}p');
	$app->query_is("SELECT redis_unlock('p')", 't', 'given back');
	is($away->wait(20)->error, undef, 'told on its channel');
	$away->query('SELECT redis_unlock_all()');

	# The longest of both.
	$app->query('SELECT set_config($$lockredis.key_prefix$$, repeat($$p$$, 64), false)');
	$app->query_is("SELECT redis_try_lock(repeat('k', 255))",
		't', '64 bytes of prefix and 255 of key');
	is_deeply([ $redis->all_keys ], [ 'p' x 64 . 'k' x 255 ],
		'are one key of 319 bytes');
	$app->query_is("SELECT redis_unlock(repeat('k', 255))", 't', 'given back');
	$app->query_fails("SELECT redis_try_lock(repeat('k', 256))",
		'22023', qr/256 bytes/, 'the prefix does not count as key');
	$app->query_fails(
		'SELECT set_config($$lockredis.key_prefix$$, repeat($$p$$, 65), false)',
		'22023', qr/64/, 'a prefix of 65 bytes');
	$app->quit;
}

end_test([ $node, $other_node ], $redis);
