# Copyright (c) 2026, lockredis contributors

# Many sessions on few keys, locks of every kind, short waits, and a hand that
# cancels, terminates and stops backends at random.
#
# Each section reads a counter in one statement and writes it, plus one, in
# the next; nothing but the Redis lock protects it.  What was written is noted in
# the same statement, so the notes tell, whatever happened to the client: with
# exclusion each number from one to the counter was written exactly once.
# Fencing tokens grow in the order in which the sections wrote.  One more client
# takes the keys in Redis itself, so that the server must let go of them.
# In the end nothing is left, nothing was lost, and each lock that was taken
# was given back.  It goes on until all that is asserted has happened once, so
# that a slow machine takes longer and fails no more often.
#
# LOCKREDIS_TEST_SEED repeats the choices of a run, though not its timing.
#
# Proves G1, G5, G22.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);
use POSIX           ();

my $seconds = 20;
my $most_seconds = limit(300);
my $workers = 16;
my @keys = map { "stress $_" } 1 .. 3;
my $seed = $ENV{LOCKREDIS_TEST_SEED} || time % 1_000_000;
my $redis = LockRedis::Redis->new;

# Longer than any backend is stopped for, and than any machine stands still.
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		'lockredis.lease' => limit(60) . 's',
		'lockredis.max_handoffs' => 6
	});

note "LOCKREDIS_TEST_SEED=$seed";
$node->wait_for_up;
$node->safe_psql('postgres', <<'SQL');
CREATE UNLOGGED TABLE counter (k text PRIMARY KEY, v int NOT NULL);
CREATE UNLOGGED TABLE written (k text, v int, token bigint, how text,
	pid int DEFAULT pg_backend_pid());
INSERT INTO counter SELECT 'stress ' || n, 0 FROM generate_series(1, 3) n;

CREATE FUNCTION write(key text, seen int, tok bigint, h text) RETURNS void
LANGUAGE sql AS $$
	UPDATE counter SET v = seen + 1 WHERE k = key;
	INSERT INTO written (k, v, token, how) VALUES (key, seen + 1, tok, h);
$$;

CREATE FUNCTION section(key text, h text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE seen int;
BEGIN
	SELECT v INTO seen FROM counter WHERE k = key;
	PERFORM write(key, seen, NULL, h);
END $$;
SQL

# How a lock is asked for: "got" tells whether it was had, "token" which one.
my %ask = (
	plain => q{SELECT 't' AS got, '' AS token FROM %s \gset},
	try => q{SELECT %s AS got, '' AS token \gset},
	fenced => q{SELECT 't' AS got, t AS token FROM %s t WHERE t IS NOT NULL \gset}
);
my $unlock = q{SELECT redis_unlock('KEY');};

# [ name, how it is asked for, the lock, how it is given back, what is before ];
# KEY is the key, WAIT some milliseconds.  What is before is one request (psql's
# "\;"), so that psql's ERROR tells of all of it.
my @kinds = (
	[ 'session', plain => q{redis_lock('KEY')}, $unlock ],
	[ 'all', plain => q{redis_lock('KEY')}, 'SELECT redis_unlock_all();' ],
	[ 'discard', plain => q{redis_lock('KEY')}, 'DISCARD ALL;' ],
	[
		'twice',
		plain => q{redis_lock('KEY') a, redis_lock('KEY') b},
		$unlock . $unlock
	],
	[ 'given', plain => q{redis_lock('KEY', '1min')}, $unlock ],
	[ 'try', try => q{redis_try_lock('KEY')}, $unlock ],
	[ 'try wait', try => q{redis_try_lock('KEY', 'WAIT')}, $unlock ],
	[ 'fenced', fenced => q{redis_fenced_lock('KEY')}, $unlock ],
	[ 'try fenced', fenced => q{redis_try_fenced_lock('KEY', 'WAIT')}, $unlock ],
	[
		'lock_timeout',
		plain => q{redis_lock('KEY')},
		$unlock, q{SET lock_timeout = 'WAIT';}
	],
	[
		'statement_timeout',
		plain => q{redis_lock('KEY')},
		$unlock, q{SET statement_timeout = 'WAIT';}
	],
	[ 'xact', plain => q{redis_xact_lock('KEY')}, 'COMMIT;', 'BEGIN;' ],
	[
		'try xact',
		try => q{redis_try_xact_lock('KEY', 'WAIT')},
		'COMMIT;', 'BEGIN;'
	],
	[
		'fenced xact',
		fenced => q{redis_fenced_xact_lock('KEY')},
		'COMMIT;', 'BEGIN;'
	],
	[ 'rolled back', plain => q{redis_xact_lock('KEY')}, 'ROLLBACK;', 'BEGIN;' ],
	[
		'savepoint',
		plain => q{redis_xact_lock('KEY')},
		'ROLLBACK TO s; COMMIT;', 'BEGIN\\; SAVEPOINT s;'
	]);

# Those whose writes are rolled back.
my $vain = qr/^(?:rolled back|savepoint)$/;

# A script of psql for one section: it goes on only if it has the lock, and asks
# for it only if what is before succeeded.  A cancel that hits BEGIN (a signal meant
# for the statement before it is enough) would otherwise leave a lock that ends with
# the statement that takes it, and a section that nothing protects.
sub script_of
{
	my ($kind, $key, $wait) = @_;
	my ($how, $ask, $lock, $end, $before) = @$kind;
	my $take = sprintf $ask{$ask}, $lock;
	my $script = <<"END";
\\set got f
\\unset seen
\\unset token
\\set ERROR false
@{[ $before || '' ]}
\\if :ERROR
\\else
$take
\\if :got
SELECT v AS seen FROM counter WHERE k = 'KEY' \\gset
\\if :{?seen}
SELECT write('KEY', :seen, nullif(:'token', '')::bigint, '$how');
\\endif
\\endif
$end
\\endif
END

	$script =~ s/KEY/$key/g;
	$script =~ s/WAIT/$wait ms/g;
	return $script;
}

# The job runner does the same by itself.
sub job
{
	my ($key, $wait) = @_;

	return
	  "CALL redis_with_lock('$key', 'SELECT section(''$key'', ''job'')', wait => '$wait ms');\n";
}

# What cancels, terminates and limits do to the statements of a script; 25P02 are
# those of an aborted transaction.
my $expected = qr/^(?:57014|57P01|55P03|25P02)$/;

# The hand hits only those who have this name, from before they are seen.
my $worker_name = 'stress worker';

# There when it is over, for the children.
my $over = "$PostgreSQL::Test::Utils::tmp_check/062_handover_stress.over";
my $parent = $$;
unlink $over;

sub is_over
{
	die 'the test has died' if getppid() != $parent;
	return -e $over;
}

# One of the children: sections until it is over.
sub work
{
	my ($n) = @_;
	my $done = 0;
	my $session;

	srand($seed * 100 + $n);
	until (is_over() && $done)
	{
		if (!$session)
		{
			$session = $node->session(
				may_fail => 1,
				settings => { application_name => $worker_name });
			if ($session->connect_error)
			{
				$session->quit;
				undef $session;
				next;
			}
		}
		my $key = $keys[ rand @keys ];
		my $wait = 1 + int rand 30;
		my $kind = $kinds[ rand @kinds + 1 ];
		my $script = $kind ? script_of($kind, $key, $wait) : job($key, $wait);
		my $result = $session->query($script, limit(60));

		# Cancelled after it was taken, a lock is held and the script does not know.
		until ($result->dead)
		{
			check_errors($result, $script);
			$result =
			  $session->query("ROLLBACK; RESET ALL; SELECT redis_unlock_all();",
				limit(60));
			last if !$result->dead && !defined $result->error;
		}
		undef $session if $result->dead;
		$done++;
	}
	$session->quit if $session;
	return $done;
}

sub check_errors
{
	my ($result, $script) = @_;

	foreach my $message ($result->_of(qr/^(?:ERROR|FATAL|PANIC)$/))
	{
		die "$script\n$message->{raw}" if $message->sqlstate !~ $expected;
	}
	return;
}

# The client elsewhere: takes a key as Redisson does, without waiting in a queue.
my $take_elsewhere = <<'LUA';
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], 600000)
return 1
LUA
my $release_elsewhere = <<'LUA';
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
LUA

sub work_elsewhere
{
	my ($n) = @_;
	my $conn = $redis->connection;
	my $session = $node->session;
	my $done = 0;

	srand($seed * 100 + $n);
	until (is_over() && $done)
	{
		my $key = $keys[ rand @keys ];

		if (!$conn->call('EVAL', $take_elsewhere, 1, $key, 'elsewhere:1'))
		{
			pause(0.002);
			next;
		}
		my $seen = $session->value("SELECT v FROM counter WHERE k = '$key'");
		$session->value("SELECT write('$key', $seen, NULL, 'elsewhere')");
		$conn->call('EVAL', $release_elsewhere, 2, $key,
			"redisson_lock__channel:{$key}",
			'elsewhere:1') == 1
		  or die "$key was not there any more";
		$done++;
		pause(0.02);
	}
	$conn->disconnect;
	$session->quit;
	return $done;
}

# The statements of the session that wrote a number, to the one that did.
sub log_of
{
	my ($pid, $key, $v) = @_;
	my @lines = grep { /\[$pid\]/ } split /\n/,
	  PostgreSQL::Test::Utils::slurp_file($node->logfile);
	my $write = sprintf q{write('%s', %d,}, $key, $v - 1;
	my ($at) = grep { index($lines[$_], $write) >= 0 } 0 .. $#lines;

	return "$pid: " . (defined $at
		? join "\n", @lines[ ($at < 12 ? 0 : $at - 12) .. $at ]
		: 'its statement is not in the log');
}

# A lock whose BEGIN has failed protects no section: there is none.
my $first = $node->session;

foreach my $kind (grep { $_->[4] && $_->[4] =~ /BEGIN/ } @kinds)
{
	my @failing = @$kind;
	$failing[4] = 'SELECT 1 / 0;';
	$first->query(script_of(\@failing, $keys[0], 10));
}
$first->query_is('SELECT count(*) FROM written',
	'0', 'no section without its transaction');
$first->quit;

my %children;
my $until = now() + $seconds;
my $latest = now() + $most_seconds;

foreach my $n (1 .. $workers + 1)
{
	pipe(my $read, my $write) or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		# Only the parent talks to the harness.
		Test::More->builder->output('/dev/null');
		my $done = eval { $n > $workers ? work_elsewhere($n) : work($n) };
		syswrite $write, defined $done ? $done : "failed: $@";
		POSIX::_exit(0);
	}
	close $write;
	$children{$n} = { pid => $pid, read => $read };
}

# Cancel most often, those who wait in the first place.
my $admin = $node->session;
my %hits = (cancel => 0, terminate => 0, stop => 0);
my $stopped;
my $thaw_at = 0;

# What has not happened yet of all that is asserted below.
my $how_many = 2 + grep { $_->[0] !~ $vain } @kinds;

sub is_missing
{
	my $seen = $admin->value(
		"SELECT (SELECT count(DISTINCT how) = $how_many AND count(DISTINCT k) = "
		  . @keys
		  . ' FROM written) AND (SELECT handoffs > 0 AND cancels > 0 AND timeouts > 0'
		  . ' FROM redis_lock_stats)');

	return $seen ne 't' || grep { !$_ } values %hits;
}

srand($seed);
while (now() < $until || (now() < $latest && is_missing()))
{
	if ($stopped && now() >= $thaw_at)
	{
		kill 'CONT', $stopped;
		undef $stopped;
	}
	my $dice = rand;
	my $who =
	  rand() < 0.7
	  ? 'pid IN (SELECT pid FROM redis_locks WHERE waiting_since IS NOT NULL)'
	  : "state = 'active'";
	my $pid =
	  $admin->value("SELECT coalesce((SELECT pid FROM pg_stat_activity"
		  . " WHERE application_name = '$worker_name' AND $who"
		  . ' ORDER BY random() LIMIT 1), 0)');
	if ($pid)
	{
		if ($dice < 0.03 && !$stopped)
		{
			$hits{stop}++ if kill 'STOP', $pid;
			$stopped = $pid;
			$thaw_at = now() + 0.2 + rand 1.6;
		}
		elsif ($dice < 0.15)
		{
			$hits{terminate}++
			  if $admin->value("SELECT pg_terminate_backend($pid)") eq 't';
		}
		else
		{
			$hits{cancel}++
			  if $admin->value("SELECT pg_cancel_backend($pid)") eq 't';
		}
	}
	pause(0.01 + rand 0.03);
}
kill 'CONT', $stopped if $stopped;
PostgreSQL::Test::Utils::append_to_file($over, '');

my (%done, @failed);
foreach my $n (sort { $a <=> $b } keys %children)
{
	my $child = $children{$n};
	my $said = '';

	poll_until("worker $n to end",
		sub { waitpid($child->{pid}, POSIX::WNOHANG()) == $child->{pid} }, 180);
	sysread $child->{read}, $said, 65536;
	$done{$n} = $said =~ /^\d+$/ ? $said : 0;
	push @failed, "worker $n: $said" if $said !~ /^\d+$/;
}
is_deeply(\@failed, [],
	'all workers have ended, and saw no error but those expected');
cmp_ok((sort { $a <=> $b } @done{ 1 .. $workers })[0],
	'>', 0, 'each had its turn');
cmp_ok($done{ $workers + 1 }, '>', 0, 'the client elsewhere as well');

foreach my $key (@keys)
{
	is( $admin->value(
			"SELECT (SELECT v FROM counter WHERE k = '$key') = count(*) AND count(DISTINCT v) = count(*)"
			  . " AND min(v) = 1 AND max(v) = count(*) FROM written WHERE k = '$key'"
		),
		't',
		"$key: exact")
	  || diag join "\n", map { "$_->[1], $_->[2]; " . log_of($_->[0], $key, $_->[1]) }
	  @{
		$admin->query(
			"SELECT pid, v, how FROM written w WHERE k = '$key' AND"
			  . " (SELECT count(*) FROM written o WHERE o.k = w.k AND o.v = w.v) > 1 ORDER BY v"
		)->rows
	  };
	is( $admin->value(
			"SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY v) AS before FROM written"
			  . " WHERE k = '$key' AND token IS NOT NULL) t WHERE token <= before"
		),
		0,
		"$key: tokens grow");
}
is( $admin->value('SELECT count(DISTINCT how) FROM written'),
	$how_many,
	'each kind of lock was had')
  || diag $admin->query('SELECT how, count(*) FROM written GROUP BY 1 ORDER BY 1')
  ->out;

$admin->quit;
nothing_left($node, $redis, keys => qr/^redisson_lock_token:/);

my $stats = sub { return $node->value("SELECT $_[0] FROM redis_lock_stats"); };
cmp_ok($stats->('handoffs'), '>', 0, 'locks were handed over');
is($stats->('losses'), 0, 'no lock was lost');
is($stats->('deadlocks'), 0, 'no deadlock was seen, as there was none');
is($stats->('acquires - releases'), 0, 'each lock that was taken was given back');
is($stats->('handoffs <= acquires AND cancels > 0 AND timeouts > 0'),
	't', 'the other counts are possible');
note sprintf '%d sections, %d elsewhere; %d cancels, %d terminates, %d stops; %s',
  $node->value('SELECT count(*) FROM written'), $done{ $workers + 1 },
  @hits{ 'cancel', 'terminate', 'stop' },
  $node->value('SELECT l FROM redis_lock_stats l');
diag "LOCKREDIS_TEST_SEED=$seed" unless Test::More->builder->is_passing;

done_testing();
