# Copyright (c) 2026, lockredis contributors

# What answers at the place of lockredis.url is not Redis, or out of its mind.
#
# - Whatever answers, every call ends within its budget with a clear error of
#   class 58, the processes live on.  (311_hostile has replies that are cut off, 317_endless
#   those without an end, and whether processes grow.)
# - No reply is taken for that of another request.
#
# Proves G18, G28.

use LockRedis::FakeNode;
use LockRedis::Test;
use LockRedis::Topic::Budgets;

my ($node, $redis, $one, $two) = servers(sessions => 2);

# ----------
# What is not Redis, or out of its mind
#
# A server of the test whose behaviour is chosen before each call.  Whenever it
# changes, the connections are closed.  It asks nobody and knows no locks.
# ----------

my $inspect_none = "*4\r\n\$4\r\nnone\r\n:-2\r\n\$0\r\n\r\n\$0\r\n\r\n";
my $inspect_held =
  "*4\r\n\$4\r\nhash\r\n:1000\r\n\$3\r\na:1\r\n\$1\r\n1\r\n";
my $fake = LockRedis::FakeNode->new(
	good => { script => sub { return script_reply(@_) } },
	grants => {
		script => sub {
			my @args = @_;
			return ':' . int(Time::HiRes::time() * 1000) . "\r\n"
			  if @args == 7;
			return "+OK\r\n";
		}
	},
	late => {
		script => sub {
			my @args = @_;
			return "*3\r\n:2\r\n:0\r\n:" . int(Time::HiRes::time() * 1000) . "\r\n"
			  if @args == 7;
			return script_reply(@args);
		}
	},
	chatty => { script => sub { return script_reply(@_) . $inspect_held } },
	mumbling =>
	  { script => sub { return script_reply(@_) . substr $inspect_held, 0, 9 } },
	lingering => {
		script => sub { return script_reply(@_) },
		afterwards => $inspect_held
	});

# What a node without any lock answers to a script, told by its arguments.
sub script_reply ($command, $script, $nkeys, @args)
{
	return "*0\r\n" if !$nkeys;
	return $inspect_none if @args == 2 && $nkeys == 1;
	return "*3\r\n:1\r\n:60000\r\n\$3\r\na:1\r\n" if @args == 4 && $nkeys == 1;
	return "*$nkeys\r\n" . ":-1\r\n" x $nkeys;
}

sub sane_again
{
	$fake->behave('good');
	poll_until('sane answers again',
		sub { $one->query("SELECT redis_is_locked('k')")->out eq 'f' });
	return;
}

# These fail with class 58, in time, and with these words.
my @all_calls = (
	q{redis_try_lock('k')}, q{redis_try_lock('k', '1min', '10s')},
	q{redis_is_locked('k')}, q{redis_force_unlock('k')});
my @calls = @all_calls;

sub out_of_its_mind ($name, $words, %behaviour)
{
	my @wrong;

	foreach my $call (@calls)
	{
		my $got;

		# Where the watchdog was there first, and has waited in vain, nobody is asked.
		foreach my $try (1 .. 20)
		{
			sane_again();
			$fake->behave($name, %behaviour);
			$got = $one->query("SELECT $call");
			last if $got->{raw} !~ /did not answer lately/;
		}
		push @wrong, "$call: $got->{out} $got->{raw}"
		  unless ($got->sqlstate || '') =~ /^58/
		  && $got->{raw} =~ $words
		  && $got->{raw} !~ /[^\n -~]/
		  && $got->ms < $in_time_ms;
	}
	return ok(!@wrong, $name) || diag join "\n", @wrong;
}

$node->set('lockredis.url' => $fake->url);
sane_again();
$node->wait_for_up;
$two->query_is("SELECT redis_is_locked('k')", 'f', 'the false node answers');
my $watchdog = $node->watchdog_pid;
my $before = descriptors($one, $two, $node);
my $one_pid = $one->pid;

my $no_redis = qr/The node's answer is not in Redis's protocol/;
my $no_sense = qr/The node's answer makes no sense/;
my $cut_off = qr/closed the connection|connection to the node was lost/;

foreach my $case (
	[ 'closes at once', $cut_off, accept => 'close' ],
	[ 'resets at once', qr/$cut_off|Could not connect/, accept => 'reset' ],
	[ 'closes when asked', $cut_off, raw => '', then => 'close' ],
	[ 'resets when asked', $cut_off, raw => '', then => 'reset' ],
	[
		'a TLS alert', qr/$no_redis: it seems to expect TLS/,
		raw => "\x15\x03\x01\x00\x02\x02\x46", then => 'close'
	],
	[ 'an SSH greeting', $no_redis, greet => "SSH-2.0-OpenSSH_9.2p1 Debian\r\n" ],
	[ 'a MySQL greeting', $no_redis, greet => "J\0\0\0\n8.0.30\0\x08\0\0\0abcdefgh\0\xff\xf7" ],
	[ 'a memcached', $no_redis, raw => "ERROR\r\nERROR\r\n", then => 'close' ],
	[ 'empty lines', $no_redis, raw => "\r\n\r\n\r\n" ],
	[ 'endless noise', $no_redis, raw => "\xde\xad\xbe\xef" x 4096, then => 'flood' ],
	[ 'a greeting in RESP', qr/$no_sense|not asked for/, greet => ":1\r\n:2\r\n" ])
{
	out_of_its_mind(@$case);
}

my %bytes = (
	'a nested array' => "*2\r\n*1\r\n:1\r\n:1\r\n",
	'an array nested 10,000 times' => "*1\r\n" x 10_000,
	'an array of a billion' => "*1000000000\r\n",
	'an array of 2^40' => "*1099511627776\r\n",
	'an array of 300' => "*300\r\n" . ":1\r\n" x 300,
	'a string of 10^30' => '$1' . '0' x 30 . "\r\nabc",
	'a string of -7' => "\$-7\r\n",
	'a string that is too long' => "\$1\r\nabc\r\n",
	'a number with letters' => ":12abc\r\n",
	'a number of 20 digits' => ":99999999999999999999\r\n",
	'a nil' => "\$-1\r\n",
	'an empty array' => "*0\r\n",
	'a status' => "+FINE\r\n",
	'a RESP3 map' => "%1\r\n+a\r\n+b\r\n",
	'a RESP3 null' => "_\r\n",
	'a RESP3 push' => ">1\r\n:1\r\n",
	'a RESP3 big number' => "(123456789012345678901234567890\r\n");

# Every one of them as the answer to everything, where one call is as good as another, and to a
# script only.
foreach my $what (sort keys %bytes)
{
	@calls = $all_calls[0];
	out_of_its_mind($what, qr/$no_redis|$no_sense/, raw => $bytes{$what} x 8);
	@calls = @all_calls;
	out_of_its_mind("$what, from a script",
		qr/$no_redis|$no_sense/, script => $bytes{$what});
}

# Well-formed, of the right type even, and wrong.
foreach my $reply (
	[ ':0', ':0', '$x' ],
	[ ':0', ':0', ':-1' ],
	[ ':0', ':0', ':99999999999999999' ],
	[ ':9', ':0', ':1000' ],
	[ '$0', ':0', ':1000' ],
	[ ':1', ':-5', '$a:1' ],
	[ ':1', ':1000', ':1' ],
	[ ':1', '$1000', '$a:1' ],
	[ ':3', ':-1', ':1' ],
	[ ':1', ':1000', '$a:1', '$a:1' ],
	[ '$hash', '$x', '$a:1', '$1' ],
	[ '$hash', ':-9', '$a:1', '$1' ],
	[ '$hash', ':1', ':1', '$1' ],
	[ '$hash', ':1', '$a:1', ':1' ])
{
	my $bytes = join '', '*' . @$reply . "\r\n", map {
		/^\$(.*)/ ? '$' . length($1) . "\r\n$1\r\n" : "$_\r\n"
	} @$reply;
	out_of_its_mind("a script says @$reply", $no_sense, script => $bytes);
}

# A number alone can be the clock, which says that a lock was taken.
@calls = (q{redis_try_lock('k')}, q{redis_try_lock('k', '1min', '10s')}, q{redis_is_locked('k')});
out_of_its_mind("a script says :$_", $no_sense, script => ":$_\r\n")
  foreach 0, 1, 59_999, -1, '-99999999999999999', '99999999999999999', '9223372036854775807';
@calls = @all_calls;

# Errors.  Their words are shown, but no more of them than is good.
out_of_its_mind('an error to everything',
	qr/The node answered: ERR unknown command/,
	reply => "-ERR unknown command\r\n");
out_of_its_mind('an empty error', qr/The node answered: /, reply => "-\r\n");
out_of_its_mind('a long error', qr/The node answered: ERR x{50,200}\b/,
	reply => '-ERR ' . 'x' x 100_000 . "\r\n");
out_of_its_mind(
	'an error with control characters',
	qr/The node answered: ERR \?\[31mred\?\?end/,
	script => "-ERR \e[31mred\a\xffend\r\n");
out_of_its_mind('a node of a cluster, without any address',
	qr/The node answered: (?:MOVED|ASK) 3999$/m,
	script => "-$_ 3999 10.11.12.13:6381\r\n")
  foreach qw(MOVED ASK);
out_of_its_mind('NOSCRIPT for ever', qr/The node answered: NOSCRIPT/,
	script => "-NOSCRIPT No matching script.\r\n");

# Silence, from the start or in the middle of something.
$node->set(%short);
@calls = q{redis_is_locked('k')};
out_of_its_mind('says nothing', qr/did not answer in time/, raw => '');
out_of_its_mind('the beginning of a status, then silence',
	qr/did not answer in time/, raw => '+O');
@calls = q{redis_try_lock('k')};
out_of_its_mind('a string of 2^63-1, then silence',
	qr/did not answer in time/, script => "\$9223372036854775807\r\nabc");
out_of_its_mind('a part of an array, then silence',
	qr/did not answer in time/, script => "*3\r\n:0\r\n:0");
@calls = @all_calls;
$node->set(%default);

# An answer too many, or the beginning of one, or one that comes a little later:
# never taken for the answer to the next request.
sane_again();
foreach my $way (qw(chatty mumbling lingering))
{
	$fake->behave($way);
	foreach (1 .. 5)
	{
		$two->query_is("SELECT redis_is_locked('k')",
			'f', "an answer too many: $way");
		$fake->finish_sending;
	}
}

# A clock that is always ahead.
$fake->behave('late');
$one->query_fails("SELECT redis_try_lock('k')",
	'58030', qr/too late/, 'refused as too late twice');

# What was taken from it cannot be given back.
$fake->behave('grants');
$two->query_is("SELECT redis_try_lock('granted', lease => '1min')",
	't', 'taken');
$two->query_warns("SELECT redis_unlock('granted')",
	't', '58030', $no_sense, 'given back, with nonsense for an answer');

is($one->value('SELECT pg_backend_pid()'), $one_pid, 'the same backend');
is($node->watchdog_pid, $watchdog, 'the same watchdog');
sane_again();
$two->query_is("SELECT redis_is_locked('k')", 'f', 'the false node is sane');
$node->wait_for_up;
poll_until(
	'the descriptors to be as before',
	sub {
		my $open = descriptors($one, $two, $node);
		return !grep { $open->{$_} > $before->{$_} } keys %$before;
	});
ok(1, 'no descriptor is lost over all of this');

# What is there is told by a call, by redis_lock_status and in the server log.
foreach my $case (
	[ 'an HTTP server', $fake->url, qr/The node's answer is not in Redis's protocol: it seems to be an HTTP server\./ ],
	[
		'PostgreSQL itself',
		'unix://' . $node->host . '/.s.PGSQL.' . $node->port,
		qr/The node closed the connection without an answer: it may expect TLS, or be no Redis server\./
	])
{
	my ($what, $url, $pattern) = @$case;

	$node->log_since_here;
	$fake->behave('http', raw => "HTTP/1.0 400 Bad request syntax\r\n\r\n", then => 'close');
	$node->set('lockredis.url' => $url);
	# The first word may be the watchdog's, which then speaks for the session.
	$one->query_fails("SELECT redis_try_lock('k')", '58030', qr/$pattern|did not answer lately/, $what);
	poll_until("redis_lock_status to tell of $what",
		sub { $node->lock_status("state || ': ' || last_error") =~ /^(?:down|connecting): .*$pattern/ });
	poll_until("the server log to tell of $what",
		sub { $node->logged(qr/LOG:  lockredis: the lock store is down.*DETAIL:  \S+: $pattern/s) });
}

$node->set('lockredis.url' => $redis->url);
$fake->stop;
$node->wait_for_up;
end_test($node, $redis, name => 'nothing is left of the false node');
