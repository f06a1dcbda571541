# Copyright (c) 2026, lockredis contributors

# Two servers with locks of their own, and a publication FOR ALL TABLES from one
# to the other, both in table mode:
#
#	 publisher			   subscriber, before the trigger
#	 DELETE (a release)	   deletes the row of a lock that is held there
#	 INSERT (an acquire)   fails on the primary key, for ever, and with it all
#						   replication
#
# Rows of locks stay as they are at the subscriber; tokens go up and never down,
# with the initial copy and later; TRUNCATE is refused and can be skipped.  What
# the subscriber itself writes is not concerned, in whatever role.
#
# Proves G35.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my %settings = (
	wal_level => 'logical',
	max_wal_senders => 10,
	max_replication_slots => 10,
	wal_retrieve_retry_interval => '100ms',
	'lockredis.lease' => '10min');
my ($publisher, $subscriber) = map {
	LockRedis::Node->create($_, mode => 'table', settings => \%settings)
} 'publisher', 'subscriber';

$_->wait_for_up foreach $publisher, $subscriber;
$_->safe_psql('postgres', 'CREATE TABLE mark (n int PRIMARY KEY)')
  foreach $publisher, $subscriber;

my $there = $publisher->session;
my $here = $subscriber->session;

sub rows
{
	my ($node) = @_;

	return $node->value(
		q{SELECT string_agg(concat_ws(' ', key, owner, hold_count), ', ' ORDER BY key) FROM redis_lock_rows}
	);
}

sub tokens
{
	my ($table) = @_;

	return $subscriber->value(
		qq{SELECT string_agg(key || ' ' || token, ', ' ORDER BY key) FROM $table});
}

# What the publisher has done until now has been applied.
my $marks = 0;

sub replicated
{
	$marks++;
	$publisher->value("INSERT INTO mark VALUES ($marks)");
	return poll_until("mark $marks",
		sub { $subscriber->value("SELECT count(*) FROM mark WHERE n = $marks") });
}

# ----------
# The initial copy
# ----------

# Higher there, higher here, and not here at all.
$there->query("SELECT redis_fence_check('there', 50), redis_fence_check('here', 5), redis_fence_check('new', 7)");
$here->query("SELECT redis_fence_check('there', 5), redis_fence_check('here', 50)");
$there->query(
	"SELECT redis_fenced_lock('counted'), redis_unlock('counted') FROM generate_series(1, 9)");
$here->query("SELECT redis_fenced_lock('counted'), redis_unlock('counted')");
$there->query("SELECT redis_lock('both'), redis_lock('only there')");
$here->query("SELECT redis_lock('both'), redis_lock('only here')");
my $mine = rows($subscriber);
like($mine, qr/^both \S+ 1, only here \S+ 1$/, 'locks of the subscriber');

$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
my $connection = $publisher->connstr('postgres');
$subscriber->safe_psql('postgres',
	'CREATE SUBSCRIPTION s CONNECTION $$' . $connection . '$$ PUBLICATION everything');
poll_until(
	'the initial copy',
	sub {
		$subscriber->value(
			"SELECT count(*) = 6 AND bool_and(srsubstate IN ('r', 's')) FROM pg_subscription_rel") eq 't';
	});
is(rows($subscriber), $mine, 'the copy: rows of locks are as they were');
is(tokens('redis_fences'), 'here 50, new 7, there 50', 'the copy: the higher token stays');
is(tokens('redis_lock_counters'), 'counted 9', 'the copy: counters too');
replicated();

# ----------
# Changes
# ----------

$there->query("SELECT redis_lock('only here'), redis_lock('both'), redis_lock('third')");
$there->query("SELECT redis_extend('both', '20 min')");
replicated();
is(rows($subscriber), $mine, 'acquires, a re-entry and a renewal');
$there->query('SELECT redis_unlock_all()');
replicated();
is(rows($subscriber), $mine, 'releases');
$here->query_is("SELECT redis_is_held('both'), redis_extend('both', '20 min'), redis_is_held('only here')",
	't|t|t', 'the subscriber has its locks');

# A program that takes a lock with SQL, on both sides: rows that the workers do not sweep away.
my ($owner_here, $owner_there) = map { LockRedis::Table->new->somebody($_) } 'here', 'there';
my $take = q{INSERT INTO redis_lock_rows (key, owner, lease, expires_at) VALUES ('program', '%s', '1 hour', clock_timestamp() + '1 hour')};
$publisher->value(sprintf $take, $owner_there);
$subscriber->value(sprintf $take, $owner_here);
$publisher->value(q{UPDATE redis_lock_rows SET hold_count = 2 WHERE key = 'program'});
$publisher->value(q{DELETE FROM redis_lock_rows WHERE key = 'program'});
replicated();
is($subscriber->value(q{DELETE FROM redis_lock_rows WHERE key = 'program' RETURNING concat_ws(' ', owner, hold_count)}),
	"$owner_here 1", 'a row of a program');

$there->query("SELECT redis_fence_check('there', 60), redis_fence_check('here', 20), redis_fence_check('new', 8), redis_fence_check('newer', 9)");
replicated();
is(tokens('redis_fences'), 'here 50, new 8, newer 9, there 60', 'tokens go up only');
$there->query("SELECT redis_fence_forget('new'), redis_fence_forget('there')");
replicated();
is(tokens('redis_fences'), 'here 50, new 8, newer 9, there 60', 'and are not forgotten');
$there->query("SELECT redis_fence_check('new', 3)");
replicated();
is(tokens('redis_fences'), 'here 50, new 8, newer 9, there 60', 'nor lowered by one that is recorded anew');
$there->query("SELECT redis_fenced_lock('counted'), redis_fenced_lock('other'), redis_unlock_all()");
replicated();
is(tokens('redis_lock_counters'), 'counted 10, other 1', 'counters go up');
$here->query_is("SELECT redis_fenced_xact_lock('counted'), redis_fenced_xact_lock('there')",
	'11|61', 'tokens of the subscriber are above all of them');

# The subscriber may have a transaction open that has recorded a token.
my $before = $subscriber->value(q{SELECT token FROM redis_fences WHERE key = 'here'});
$here->query_is("BEGIN; SELECT redis_fenced_xact_lock('here')", $before + 1, 'recorded');
$there->query("SELECT redis_fence_check('here', 1000)");
poll_until(
	'the apply worker to wait',
	sub {
		$subscriber->value(
			'SELECT count(*) FROM pg_stat_activity WHERE ' . $here->pid . ' = ANY (pg_blocking_pids(pid))');
	});
$here->query_is('COMMIT', '', 'committed');
replicated();
is($subscriber->value(q{SELECT token FROM redis_fences WHERE key = 'here'}),
	1000, 'then raised');

# ----------
# What the subscriber itself writes
# ----------

# In the role of a replica, as some tools do: these are its own.
$here->query_is(
	"SET statement_timeout = '60s'; SET session_replication_role = replica; SELECT redis_fenced_xact_lock('replica'); SELECT redis_fence_forget('replica'); RESET session_replication_role; RESET statement_timeout",
	"1\nt", 'in the role of a replica');

# From a trigger of a user in the apply worker.
$subscriber->safe_psql('postgres', <<'SQL');
CREATE FUNCTION public.on_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.redis_fenced_xact_lock('in apply');
	RETURN NEW;
END $$;
CREATE TRIGGER on_mark BEFORE INSERT ON mark FOR EACH ROW EXECUTE FUNCTION on_mark();
ALTER TABLE mark ENABLE ALWAYS TRIGGER on_mark;
SQL
replicated();
is($subscriber->value(q{SELECT token FROM redis_fences WHERE key = 'in apply'}),
	1, 'a token that is recorded in the apply worker');
$subscriber->safe_psql('postgres', 'DROP TRIGGER on_mark ON mark');

# Should somebody enable the triggers for everybody.
$subscriber->safe_psql('postgres', <<'SQL' . sprintf $take, $owner_here);
ALTER TABLE redis_lock_rows ENABLE TRIGGER ALL;
ALTER TABLE redis_fences ENABLE TRIGGER ALL;
SQL
is($subscriber->value(q{DELETE FROM redis_lock_rows WHERE key = 'program' RETURNING owner}),
	$owner_here, 'triggers that fire for everybody do nothing');
$here->query_is("SELECT redis_fenced_xact_lock('replica'), redis_fence_forget('replica')",
	'2|t', 'also those of the fence table');
$subscriber->safe_psql('postgres', <<'SQL');
ALTER TABLE redis_lock_rows ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_lock_rows ENABLE REPLICA TRIGGER lockredis_replicated_truncate;
ALTER TABLE redis_fences ENABLE REPLICA TRIGGER lockredis_replicated;
ALTER TABLE redis_fences ENABLE REPLICA TRIGGER lockredis_replicated_truncate;
SQL

# ----------
# TRUNCATE
# ----------

$subscriber->log_since_here;
$publisher->value('TRUNCATE redis_lock_rows');
poll_until('the refusal',
	sub { $subscriber->log_text =~ /cannot apply TRUNCATE of another server to table "redis_lock_rows"/ });
is(rows($subscriber), $mine, 'nothing has gone');
my $lsn;
poll_until('where to go on',
	sub { ($lsn) = $subscriber->log_text =~ m{finished at ([0-9A-F]+/[0-9A-F]+)} });
$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION s SKIP (lsn = '$lsn')");
replicated();
is(rows($subscriber), $mine, 'it can be skipped');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$here->query_is('SELECT redis_unlock_all()', '2', 'given back');
$_->quit foreach $there, $here;
is(rows($subscriber), '', 'nothing is left');
done_testing();
