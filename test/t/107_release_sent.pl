# Copyright (c) 2026, lockredis contributors

# lockredis.release_wait = sent: the end of a transaction sends its releases and goes on.
# The answer is read before the next one over that connection, or else the watchdog
# repeats the release.  Also how long a COMMIT waits that waits for the answer.
# Somebody elsewhere who waits is not always overtaken, and a session gets at once what it
# gave back.  With replicas that have to confirm, a cluster, several masters or a table COMMIT
# waits for the answer.  (An answer that comes when its row belongs to the next hold, a release or an
# answer that is lost, a session that ends before it is answered, another master or another store,
# and a release that comes late are the simulator's: its mutants sent_any_owner, sent_not_repeated,
# sent_out_of_order, master_moves, untraced_move and lua_release_owner.)
# Proves G4, G5, G15.

use IO::Socket::INET;
use LockRedis::Masters;
use LockRedis::RedisCluster;
use LockRedis::Test qw(:DEFAULT run);

my $long = limit(60);
my ($node, $redis, $proxy, $one, $two) = LockRedis::Node->create_behind_proxy(
	'main', sessions => 2,
	settings => {
		'lockredis.connect_timeout' => "${long}s",
		'lockredis.command_timeout' => "${long}s",
		'lockredis.lease' => '10min',
		'lockredis.release_wait' => 'sent'
	});
my $watchdog = $node->watchdog_pid;

run($one, 'CREATE TABLE t (a int)');

# The first release of a connection waits, since Redis may lack the script.  If that takes
# too long, on a busy machine, it is left to the watchdog, and the connection is lost.
sub warm_up ($s)
{
	my $orphans;

	do
	{
		$orphans = $node->lock_stat('orphans');
		run($s,
			q{BEGIN; SELECT redis_xact_lock('warm'), redis_read_xact_lock('r'),
			  redis_fair_xact_lock('f'); COMMIT});
		all_is_free();
	} while ($node->lock_stat('orphans') > $orphans);
	return;
}

sub all_is_free
{
	return poll_until('all to be released',
		sub { $node->count_locks == 0 && !$redis->all_keys });
}

warm_up($_) foreach $one, $two;

sub commit_of ($s, $key, $end = 'COMMIT')
{
	return run($s, "BEGIN; SELECT redis_xact_lock('$key'); $end");
}

# The hold of a release that was sent stays until it is answered.
sub left ($key) { return $node->count_locks("key = '$key' AND pid IS NULL"); }

# So many are left besides those whose answer was waited for in vain.
sub count_sent ($orphans) { return $node->count_locks - ($node->lock_stat('orphans') - $orphans); }

# The session does not wait until Redis has got its release: TAP.
sub commands_are ($before, $n, $name)
{
	poll_until('Redis to have all commands', sub { $redis->script_calls - $before >= $n });
	return is($redis->script_calls - $before, $n, $name);
}

# Without the watchdog nothing is repeated.
sub without_watchdog ($sub)
{
	kill 'STOP', $watchdog;
	$sub->();
	kill 'CONT', $watchdog;
	return all_is_free();
}

# ----------
# Who reads the answer
# ----------

# The session itself: two commands a pair, and nobody else does anything.
without_watchdog(
	sub {
		my $before = $redis->script_calls;

		commit_of($one, 'k') foreach 1 .. 20;
		is(left('k'), 1, 'the last release is not answered');
		commands_are($before, 40, 'two commands a pair of a session that goes on');
		commit_of($one, 'k', $_) foreach 'ROLLBACK', 'COMMIT';
		is(left('k'), 1, 'the end of a transaction that is rolled back is no other');
		$one->query_is("SELECT redis_try_lock('k')", 't', 'the session takes the key at once');
		is(left('k'), 0, 'and has read the answer by that');
		run($one, "SELECT redis_unlock('k')");
	});

# The watchdog: the session idles.
{
	my $before = $redis->script_calls;

	commit_of($one, 'idle');
	all_is_free();
	commands_are($before, 3, 'three commands a pair of a session that idles');
	my ($losses, $orphans) = map { $node->lock_stat($_) } qw(losses orphans);
	commit_of($one, 'idle');
	all_is_free();
	run($one, "SELECT redis_is_locked('idle')");
	is($node->lock_stat('losses'), $losses, 'no answer is taken for a loss');
	is($node->lock_stat('orphans'), $orphans, 'nor for something unanswered');
}

# Several locks, of several kinds; and more than are remembered.
foreach my $n (3, 16, 17)
{
	my $orphans = $node->lock_stat('orphans');

	without_watchdog(
		sub {
			run($one,
				"BEGIN; SELECT redis_xact_lock('a' || i) FROM generate_series(1, $n - 2) i;
				 SELECT redis_read_xact_lock('r'), redis_fair_xact_lock('f'); COMMIT");
			is(count_sent($orphans), $n > 16 ? 0 : $n,
				"$n locks: " . ($n > 16 ? 'waits for the answer' : 'sent'));
			run($one, "SELECT redis_is_locked('k')");
			is(count_sent($orphans), 0, 'all were answered');
		});
}

# ----------
# Others of this server
# ----------

# A newcomer waits for the repeat, though it only tries; not for the end of the lease.
commit_of($one, 'next');
$two->query_is("SELECT redis_try_xact_lock('next')", 't', 'a try of another session');
commit_of($one, 'next');
$two->query_is("BEGIN; SELECT redis_try_multi_lock(ARRAY['next', 'more']); COMMIT",
	't', 'of several keys');
run($two, 'SELECT redis_unlock_all()');

# Who waits already gets the lock by hand-over, or, on other terms, by an answer.
foreach my $lease (undef, '1min')
{
	my $arguments = "'awaited'" . ($lease ? ", '$lease'" : '');

	run($one, "BEGIN; SELECT redis_xact_lock('awaited')");
	$two->start("SELECT redis_lock($arguments)");
	$node->wait_for_waiters('awaited', 1);
	my $handed = $node->lock_stat('handoffs');
	run($one, 'COMMIT');
	is($two->wait->error, undef, 'who waits gets it');
	is($node->lock_stat('handoffs') - $handed, $lease ? 0 : 1, 'by hand-over, if it may');
	run($two, "SELECT redis_unlock('awaited')");
}

# ----------
# The lock is gone
# ----------

foreach my $taken (0, 1)
{
	my $name = $taken ? 'taken' : 'deleted';
	my $losses = $node->lock_stat('losses');

	warm_up($one);
	$node->log_since_here;
	without_watchdog(
		sub {
			run($one, "BEGIN; SELECT redis_xact_lock('$name'); INSERT INTO t VALUES (1)");
			$redis->cmd('DEL', $name);
			$redis->foreign_lock($name, owner => 'other:1', ms => 60_000) if $taken;
			$one->query_is('COMMIT', '', "$name: COMMIT says nothing");
			is($node->lock_stat('losses'), $losses, 'and nothing is known');
			run($one, "SELECT redis_is_locked('k')");
			is($node->lock_stat('losses'), $losses + 1, 'the answer is counted as a loss');
			is(left($name), 0, 'and nothing is left');
			$redis->cmd('DEL', $name);
		});
	my $pid = $one->pid;
	ok( poll_until(
			'the loss to be logged',
			sub { $node->logged(qr/process $pid lost the transaction-level lock "$name"/) }),
		'and logged') || note $node->log_text;
}

# ----------
# Failures
# ----------

# Redis says an error.
$redis->cmd('SCRIPT', 'FLUSH');
run($one, "BEGIN; SELECT redis_xact_lock('flushed')");
$redis->cmd('SCRIPT', 'FLUSH');
run($one, 'COMMIT');
all_is_free();
{
	my $orphans = $node->lock_stat('orphans');

	without_watchdog(
		sub {
			commit_of($one, 'again');
			is(count_sent($orphans), 0, 'after an error the next release waits for its answer');
		});
	warm_up($one);
	without_watchdog(
		sub {
			commit_of($one, 'again');
			is(left('again'), 1, 'and that behind it does not');
		});
}

# ----------
# Somebody elsewhere
# ----------

# Somebody elsewhere waits for it: has subscribed.
my $ear = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $redis->port) or die;
$ear->autoflush(1);
print $ear 'AUTH ' . $redis->password . "\r\n" if $redis->password;
print $ear 'SUBSCRIBE ' . $redis->channel('k') . "\r\n";
$redis->wait_for_subscribers('k', 1);

foreach my $take ("redis_xact_lock('k')", "redis_multi_xact_lock(ARRAY['k', 'l'])")
{
	kill 'STOP', $watchdog;
	my @sent;
	my $orphans = $node->lock_stat('orphans');
	for (1 .. 6)
	{
		run($one, "BEGIN; SELECT $take; COMMIT");
		push @sent, count_sent($orphans);
	}
	kill 'CONT', $watchdog;
	all_is_free();
	note "$take: " . join ' ', @sent;
	ok((grep { $_ == 0 } @sent) >= 2, "$take: some releases wait for the answer");
}
close $ear;

# The connection is lost along with the release; the session tries at once.
{
	warm_up($one);
	my $open = $proxy->stats->{open};
	my $id = $proxy->rule(on => 'request', match => 'lost', skip => 1, action => 'reset');
	commit_of($one, 'lost');
	$proxy->wait_for_rule($id);
	# The rule has acted a moment before the connection is reset.
	poll_until('the connection to be reset', sub { $proxy->stats->{open} < $open });
	$one->query_is("SELECT redis_try_lock('lost'), redis_unlock('lost')", 't|t',
		'the session takes what it gave back');
	$proxy->clear;
	all_is_free();
}

# Likewise if the answer is an error, as Redis has lost the script.
{
	warm_up($one);
	run($one, "BEGIN; SELECT redis_xact_lock('lost')");
	$redis->cmd('SCRIPT', 'FLUSH');
	run($one, 'COMMIT');
	$one->query_is("SELECT redis_try_lock('lost'), redis_unlock('lost')", 't|t',
		'scripts are flushed: likewise');
	all_is_free();
}

# ----------
# Where it is not for
# ----------

sub is_answered ($name, $sql)
{
	warm_up($one);
	my $orphans = $node->lock_stat('orphans');
	return without_watchdog(
		sub {
			run($one, $sql);
			is(count_sent($orphans), 0, "$name: waits for the answer");
		});
}

is_answered('ROLLBACK TO', "BEGIN; SAVEPOINT s; SELECT redis_xact_lock('k'); ROLLBACK TO s");
run($one, 'COMMIT');
is_answered('redis_unlock', "SELECT redis_lock('k'); SELECT redis_unlock('k')");
is_answered('DISCARD ALL', "SELECT redis_lock('k'); DISCARD ALL");
is_answered('the setting is off',
	"SET lockredis.release_wait = answered; BEGIN; SELECT redis_xact_lock('k'); COMMIT");
run($one, 'RESET lockredis.release_wait');

all_is_free();

# How many are left by a COMMIT while nothing is repeated
sub left_by_commit ($server, %settings)
{
	my $s = $server->session(settings => { 'lockredis.release_wait' => 'sent', %settings });
	my $worker = $server->watchdog_pid;

	# The first release of a connection waits.
	run($s, "BEGIN; SELECT redis_xact_lock('k'); COMMIT");
	poll_until('it to be released', sub { $server->count_locks == 0 });
	my $orphans = $server->lock_stat('orphans');
	kill 'STOP', $worker;
	run($s, "BEGIN; SELECT redis_xact_lock('k'); COMMIT");
	my $left = $server->count_locks - ($server->lock_stat('orphans') - $orphans);
	kill 'CONT', $worker;
	$s->quit;
	return $left;
}

{
	my $replica = LockRedis::Redis->new(
		name => 'replica',
		config => { replicaof => [ '127.0.0.1', $redis->port ], 'repl-diskless-sync-delay' => 0 });

	poll_until('the replica', sub { $redis->cmd('WAIT', 1, 100) == 1 });
	is(left_by_commit($node, 'lockredis.min_replicas' => 1), 0, 'min_replicas: waits');
	$replica->stop;
}
foreach my $case (
	[ 'cluster', redis => LockRedis::RedisCluster->new(replicas => 0) ],
	[ 'masters', redis => LockRedis::Masters->new ],
	[ 'table', mode => 'table' ])
{
	my ($name, @where) = @$case;
	my $server = LockRedis::Node->create($name, @where);

	$server->wait_for_up;
	is(left_by_commit($server), 0, "$name: waits");
	$server->stop;
}
# ----------
# A Redis that is slow, and a COMMIT that waits for it: not for long
# ----------

# The release is sent when the transaction's changes are visible and its heavyweight
# locks are gone; what is not answered soon is left to the watchdog, so whoever
# waits for the end of the COMMIT (NOTIFY) does not wait for Redis.
my %settings = (
	'lockredis.connect_timeout' => "${long}s",
	'lockredis.command_timeout' => "${long}s",
	'lockredis.lease' => '10min');

$node->set('lockredis.release_wait' => 'answered');
run($one, 'TRUNCATE t; INSERT INTO t VALUES (1)');
warm_up($_) foreach $one, $two;

# ----------
# COMMIT and ROLLBACK
# ----------

foreach my $end ('COMMIT', 'ROLLBACK')
{
	run($two, 'LISTEN n');
	run($one, "BEGIN; SELECT redis_xact_lock('slow'); NOTIFY n, 'said'");
	my $id = $proxy->rule(match => 'slow', action => 'hold');
	$one->start($end);
	my $result = $one->wait($long / 2);
	is($result->{raw}, '', "$end does not wait for Redis");
	is($proxy->acted($id), 1, 'which has not got the release');
	like($two->query('SELECT 1')->out, qr/Asynchronous notification "n"/,
		'and others are notified')
	  if $end eq 'COMMIT';

	# Somebody gets the lock while that release is still on its way.
	$two->query_is("SELECT redis_lock('slow')", '', 'the watchdog gives the lock back');
	$proxy->let_go;
	$two->query_is("SELECT redis_is_locked('slow'), redis_unlock('slow')",
		't|t', 'the late release touches nobody');
	$one->query_is("BEGIN; SELECT redis_xact_lock('slow'); COMMIT",
		'', 'the session goes on');
}

# ----------
# ROLLBACK TO
# ----------

# One is stopped while it waits for Redis (or right after that): the locks of the
# subtransaction must be gone by then.  Whoever comes after the abort does not wait
# for the row, those who wait for it already are woken by that.
{
	run($one,
		q{BEGIN; SAVEPOINT s; SELECT redis_xact_lock('inner'); UPDATE t SET a = 2;
		  SELECT pg_advisory_xact_lock(7)});
	$two->start('UPDATE t SET a = 3 RETURNING a');
	poll_until('two to wait for the row',
		sub { $node->value('SELECT count(*) FROM pg_locks WHERE NOT granted') == 1 });
	my $id = $proxy->rule(match => 'inner', action => 'hold');
	$one->start('ROLLBACK TO s');
	$proxy->wait_for_rule($id);
	$one->freeze;
	is($two->wait($long / 2)->out, 3, 'two has it while one is still in ROLLBACK TO');
	$two->query_is('SELECT pg_try_advisory_lock(7)', 't', 'and other locks');
	$one->thaw;
	is($one->wait->error, undef, 'which returns');
	$proxy->let_go;
	run($two, 'SELECT pg_advisory_unlock_all()');
	$one->query_is('SELECT a FROM t; COMMIT', '3', 'and goes on');
}

# A waiter of this server gets the lock with the row.
{
	run($one, q{BEGIN; SAVEPOINT s; SELECT redis_xact_lock('both'); UPDATE t SET a = 4});
	$two->start("SELECT redis_lock('both'); SELECT a FROM t FOR UPDATE NOWAIT");
	$node->wait_for_waiters('both', 1);
	run($one, 'ROLLBACK TO s');
	my $result = $two->wait;
	is($result->error, undef, 'whoever is handed the lock finds the row free');
	run($one, 'COMMIT');
	run($two, "SELECT redis_unlock('both')");
}

# ----------
# What it waits for
# ----------

{
	my $other = LockRedis::Node->create('slow_table', mode => 'table', settings => \%settings);
	my $s = $other->session;

	$other->wait_for_up;
	run($s, "SELECT redis_lock('seen')");
	my $worker = $other->table_worker_pid;
	kill 'STOP', $worker;
	$s->start('DISCARD ALL');
	ok($other->wait_for_event($s, 'Extension'), 'waiting for the table is one');
	kill 'CONT', $worker;
	is($s->wait->error, undef, 'it returns');

	# A worker that is not asked for long is not one that is away.
	run($s, "BEGIN; SELECT redis_xact_lock('slow')");
	kill 'STOP', $worker;
	$s->start('COMMIT');
	is($s->wait($long / 2)->{raw}, '', 'COMMIT does not wait for the table worker');
	kill 'CONT', $worker;
	$s->query_is("SELECT redis_lock('slow'); SELECT redis_unlock('slow')",
		"\nt", 'and it is asked again at once');
	$s->quit;
	$other->stop;
}

# ----------
# A Redis that is far away
# ----------

# Each release takes twice the limit of one that is near.
{
	$proxy->latency(100);
	my $far = LockRedis::Node->create('far', url => $proxy->url, settings => \%settings);
	my $s = $far->session;

	$far->wait_for_up;
	run($s, "BEGIN; SELECT redis_xact_lock('far $_'); COMMIT") foreach 1 .. 5;
	cmp_ok($far->lock_stat('orphans'),
		'<', 5, 'is waited for by usual commits');
	$proxy->latency(0);

	# It was near before lockredis.url was changed.
	$far->set('lockredis.url' => $redis->url);
	$far->wait_for_up;
	run($s, "BEGIN; SELECT redis_xact_lock('near'); COMMIT");
	$proxy->latency(100);
	$far->set('lockredis.url' => $proxy->url);
	$far->wait_for_up;
	my $before = $far->lock_stat('orphans');
	run($s, "BEGIN; SELECT redis_xact_lock('far $_'); COMMIT") foreach 1 .. 5;
	cmp_ok($far->lock_stat('orphans') - $before,
		'<', 5, 'wherever it was before');
	$proxy->latency(0);
	$s->quit;
	poll_until('all to be given back', sub { !$redis->all_keys });
	$far->stop;
}

end_test($node, $redis);
