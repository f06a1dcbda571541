# Copyright (c) 2026, lockredis contributors

# Table mode: what it leaves and what it costs.  The table
# stays small however many pairs of lock and unlock there were (rows are pruned
# as they go, updates stay on their page, autovacuum keeps up); the worker sleeps
# when there is nothing to do; requests share commits (211_table_worker_ends, too); commits reach the
# disk when they are told to, and always those of tokens and of kept keys.
#
# LOCKREDIS_TEST_PAIRS: so many pairs (1000000 takes some minutes)
#
# Proves G25, G30.

use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $pairs = $ENV{LOCKREDIS_TEST_PAIRS} || 8_000;
my $clients = 16;
my $table = LockRedis::Table->new;
my ($node, $viewer) = LockRedis::Node->create(
	'main', sessions => 1,
	redis => $table,
	settings => {
		wal_level => 'replica',
		max_wal_senders => 1,
		autovacuum_naptime => '1s',
		'lockredis.lease' => '10min',
		'lockredis.command_timeout' => '60s'
	});

# Transaction numbers handed out so far; sessions that only lock need none.
sub transactions
{
	return $viewer->value(
		'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint');
}

sub stat_of ($column)
{
	return $viewer->value(
		"SELECT $column FROM pg_stat_user_tables WHERE relname = 'redis_lock_rows'");
}

sub size { return $viewer->value(q{SELECT pg_total_relation_size('redis_lock_rows')}); }

sub pgbench ($script, $count, $name)
{
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name.sql";
	my $output = '';

	PostgreSQL::Test::Utils::append_to_file($file, $script);
	IPC::Run::run(
		[
			'pgbench', '-n', '-c', $clients, '-j', 2, '-t',
			int($count / $clients), '-f', $file, $node->connstr('postgres')
		],
		'>',
		\$output,
		'2>&1');
	is($?, 0, "$name: nobody failed") || diag $output;
	return;
}

#
# Idle: the worker wakes up for its sweep, and for nothing else.
#
{
	my $pid = $node->table_worker_pid;
	my $switches = sub {
		my $text = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status");
		return $text =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? $1 : die $text;
	};

	# Statistics of what it has just done are reported a moment later.
	pause(2);
	my $since = now();
	my $before = $switches->();
	pause(4);
	my $wakes = $switches->() - $before;
	my $seconds = now() - $since;
	note sprintf 'idle: %d in %.1f seconds', $wakes, $seconds;
	cmp_ok($wakes, '<=', 3 * $seconds, 'idle: the worker sleeps');
}

#
# Pairs of lock and unlock, on keys of each session's own and on keys of all.
#
{
	my $before = transactions();
	my $since = now();
	my $limit = 3 * 1024 * 1024;

	pgbench(<<'SQL', $pairs, 'pairs');
SELECT redis_lock('own ' || :client_id);
SELECT redis_unlock('own ' || :client_id);
SQL
	my $took = transactions() - $before;
	note sprintf '%d pairs in %.1f s with %d transactions, table of %d bytes',
	  $pairs, now() - $since, $took, size();
	cmp_ok($took, '<', 2 * $pairs, 'pairs: fewer commits than requests');
	cmp_ok(size(), '<=', $limit, 'pairs: the table is small');

	# In five parts.  Before the next one the table is vacuumed, as autovacuum does it, which comes
	# when the machine lets it: what is dead by then is used again.
	foreach (1 .. 5)
	{
		pgbench(<<'SQL', $pairs / 5, "many_keys_$_");
\set k random(1, 100000)
SELECT redis_lock('key ' || :k);
SELECT redis_unlock('key ' || :k);
SQL
		$viewer->value('VACUUM redis_lock_rows');
	}
	note sprintf 'many keys: table of %d bytes', size();
	cmp_ok(size(), '<=', $limit, 'many keys: the table is small');

	# Extended: the lease in the row changes, on its page.
	my ($updates, $hot) = map { stat_of($_) } 'n_tup_upd', 'n_tup_hot_upd';
	pgbench(<<'SQL', $pairs / 8, 'extended');
SELECT redis_lock('own ' || :client_id);
SELECT redis_extend('own ' || :client_id, '1 hour');
SELECT redis_extend('own ' || :client_id, '2 hours');
SELECT redis_unlock('own ' || :client_id);
SQL
	my $expected = 2 * $clients * int($pairs / 8 / $clients);
	poll_until('the statistics',
		sub { stat_of('n_tup_upd') - $updates >= $expected });
	$updates = stat_of('n_tup_upd') - $updates;
	$hot = stat_of('n_tup_hot_upd') - $hot;
	note sprintf '%d updates, %d HOT, table of %d bytes', $updates, $hot, size();
	cmp_ok($hot, '>=', 0.8 * $updates, 'extended: most updates are HOT');

	# Autovacuum has something to do, and does it: what is dead goes.
	poll_until('autovacuum', sub { stat_of('autovacuum_count') > 0 }, 60);
	poll_until('few rows to be dead', sub { stat_of('n_dead_tup') < 20_000 }, 60);
	poll_until('few rows to be live', sub { stat_of('n_live_tup') < 1000 }, 60);
	nothing_left($node, $table, name => 'pairs: nothing is left');
}

#
# synchronous_commit.  Off, a commit of the worker waits for nothing, though no
# standby confirms it, and whatever the setting of the server is; on, it waits.
#
{
	# Less than the budget of a request.
	my $one = $node->session(settings => { statement_timeout => '4s' });

	$node->set(synchronous_standby_names => 'nobody', synchronous_commit => 'on');
	$one->query_is("SELECT redis_try_lock('sync'), redis_fenced_lock('token')",
		't|1', 'off: nobody is waited for');
	$one->query_is('SELECT redis_unlock_all()', '2', 'off: nor for a release');
	$node->set('lockredis.table_synchronous_commit' => 'on');
	$one->query_fails("SELECT redis_try_lock('sync')",
		'57014', qr/statement timeout/, 'on: the commit waits');
	$node->let_commits_wait(0);
	nothing_left($node, $table, name => 'on: nothing is left of it');
	$one->quit;
}

#
# Whoever asks while a commit waits for a standby is served after it.  The wait is by
# the worker's latch and takes what was to wake it: it slept until its next sweep
# then, 10 s after the last one, and so each time here but the first.
#
{
	my ($one, $two) = map { $node->session } 1 .. 2;
	my @times;

	foreach my $round (1 .. 3)
	{
		$node->let_commits_wait(1);
		$one->start("SELECT redis_lock('one')");
		$node->wait_for_event($node->table_worker_pid, 'SyncRep');
		$two->start("SELECT redis_lock('two')");
		$node->wait_for_event($two, 'Extension');
		$node->let_commits_wait(0);
		is($one->wait->error, undef, "round $round: committed");
		my $since = now();
		is($two->wait->error, undef, "round $round: and the other");
		push @times, now() - $since;
		$_->query_is('SELECT redis_unlock_all()', '1', "round $round: given back") foreach $one, $two;
	}
	note("times: @times");
	cmp_ok((sort { $a <=> $b } @times[1, 2])[0], '<', 5, 'served at once');
	nothing_left($node, $table, name => 'standby: nothing is left');
	$_->quit foreach $one, $two;
}

#
# A crash undoes what was not flushed, and tokens and kept keys were.  The WAL
# writer is kept from doing it in passing.
#
{
	$node->append_conf('postgresql.conf', $_)
	  foreach "wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'", 'autovacuum = off';
	$viewer->quit;
	$node->restart;
	$node->wait_for_up;
	my $begin = sub {
		$node->start;
		$node->wait_for_up;
		return $node->session;
	};
	my $one = $node->session;
	my $token = $one->value("SELECT redis_fenced_lock('crash')");

	$node->stop('immediate');
	$one->quit;
	$one = $begin->();
	cmp_ok($one->value("SELECT redis_fenced_lock('crash')"), '>', $token, 'crash: a token does not come twice');
	$one->query_is("CALL redis_with_lock('kept', 'SELECT 1', hold_at_least => '1h')", 't', 'crash: a job');
	$node->stop('immediate');
	$one->quit;
	$one = $begin->();
	$one->query_is("SELECT redis_try_lock('kept'), redis_force_unlock('kept')", 'f|t', 'crash: a kept key is kept');
	$one->quit;
}
end_test($node, $table);
