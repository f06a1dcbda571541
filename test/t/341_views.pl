# Copyright (c) 2026, lockredis contributors

# What monitoring reads: numbers beside intervals, names beside OIDs, how long
# was waited, what is held and awaited; as much as a role may see; and rows in
# the order of the lock table.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis);

$node->wait_for_up;
$node->safe_psql('postgres', 'CREATE ROLE bob LOGIN; CREATE DATABASE "other one"');
$node->safe_psql('other one', 'CREATE EXTENSION lockredis');

my $one = $node->session;
my $bob = $node->session(user => 'bob');
my $other = $node->session(dbname => 'other one');

sub stats
{
	my ($columns) = @_;

	return $node->value("SELECT concat_ws(' ', $columns) FROM redis_lock_stats");
}

# ----------
# redis_locks
# ----------

$one->query("SET application_name = 'billing'");
$bob->query("SET application_name = 'bob''s'");
$one->query("SELECT redis_lock('k', '1 day 1.5 s'), redis_lock('renewed')");
$bob->query("SELECT redis_lock('of bob', '1 hour')");
$other->query("SELECT redis_lock('elsewhere')");

my $names = q{SELECT string_agg(concat_ws(' ', key, datname, usename, coalesce(application_name, '-')), ', ' ORDER BY key) FROM redis_locks};
my $me = $node->value('SELECT current_user');
my $psql = $other->value("SELECT current_setting('application_name')");
$one->query_is($names,
	qq{elsewhere other one $me $psql, k postgres $me billing, of bob postgres bob bob's, renewed postgres $me billing},
	'names for who may see all');
$bob->query_is("$names WHERE usename = 'bob'", "of bob postgres bob bob's", 'one sees oneself');
$bob->query_is(
	'SELECT count(*), count(key), count(owner), count(application_name), count(datname), count(usename) FROM redis_locks',
	'4|1|1|1|4|4', 'and of others as little as before');
$one->query("SET application_name = 'renamed'");
is($node->value(q{SELECT application_name FROM redis_locks WHERE key = 'k'}),
	'renamed', 'it can change');

# Units, and that they are numbers.
is( $node->value(
		q{SELECT pg_typeof(lease_seconds)::text || ' ' || lease_seconds FROM redis_locks WHERE key = 'k'}),
	'double precision 86401.5', 'a lease in seconds');
is( $node->value(
		q{SELECT bool_and(expires_in_seconds = extract(epoch FROM expires_in) AND expires_in_seconds > 0) FROM redis_locks}),
	't', 'the rest of it');

# In the order of the queue, without ORDER BY.
my @waiters;
foreach my $i (1 .. 3)
{
	my $s = $node->session;

	$s->start("SELECT redis_lock('k')");
	$node->wait_for_waiters('k', $i);
	push @waiters, $s;
}
is( join(' ', split /\n/, $node->value(q{SELECT pid FROM redis_locks WHERE key = 'k'})),
	join(' ', map { $_->pid } $one, @waiters),
	'rows of a key are in the order of its queue');
is( join(' ', split /\n/, $node->value(q{SELECT pid FROM (SELECT * FROM redis_locks) l WHERE key = 'k'})),
	join(' ', map { $_->pid } $one, @waiters),
	'with all columns');

# ----------
# redis_lock_stats
# ----------

is(stats('held, waiting'), '4 3', 'what is held and awaited');
$one->query("BEGIN; SELECT redis_xact_lock('k'), redis_xact_lock('new')");
is(stats('held, waiting'), '6 3', 'each level counts');
is( $node->value('SELECT count(*) FILTER (WHERE granted), count(*) FILTER (WHERE waiting_since IS NOT NULL) FROM redis_locks'),
	'6|3', 'as the rows say');
$one->query('ROLLBACK');
is(stats('held, waiting'), '4 3', 'one less');

# A wait counts when it ends: with the lock, by a limit, canceled, terminated.
is(stats('wait_seconds, pg_typeof(wait_seconds)'), '0 double precision', 'none has ended');
my $total = 0;
my $longer = sub {
	my ($name, $at_least) = @_;
	my $now;

	poll_until($name, sub { ($now = stats('wait_seconds')) > $total });
	cmp_ok($now - $total, '>=', $at_least, "$name: counted");
	$total = $now;
	return;
};
my $waited = sub {
	my ($s) = @_;
	return $node->value('SELECT extract(epoch FROM clock_timestamp() - waiting_since) FROM redis_locks WHERE waiting_since IS NOT NULL AND pid = ' . $s->pid);
};
my $so_far = $waited->($waiters[2]);
$waiters[2]->cancel;
$waiters[2]->wait;
$longer->('canceled', $so_far - 0.05);
$so_far = $waited->($waiters[1]);
$waiters[1]->terminate;
poll_until('the session to end', sub { $waiters[1]->is_gone });
$longer->('terminated', $so_far - 0.05);
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
is($waiters[0]->wait->error, undef, 'the first waiter has it');
$longer->('with the lock', $so_far);
$one->query_is("SELECT redis_try_lock('k', '300 ms')", 'f', 'busy for 300 ms');
$longer->('a limit', 0.25);
$one->query_is("SELECT redis_try_lock('k')", 'f', 'busy');
is(stats('wait_seconds'), $total, 'who does not wait is not counted');
is(stats('waiting'), 0, 'nobody waits');
$node->value('SELECT redis_lock_stats_reset()');
is(stats('wait_seconds, held'), '0 4', 'a reset is for sums only');

# ----------
# redis_lock_status
# ----------

my $status = 'SELECT up, state, round_trip_seconds = extract(epoch FROM round_trip), renewal_lag_seconds, pg_typeof(up), pg_typeof(round_trip_seconds) FROM redis_lock_status';
is($node->value($status), 't|up|t|0|boolean|double precision', 'up');
$_->query('SELECT redis_unlock_all()') foreach $one, $bob, $other, $waiters[0];
$redis->stop;
poll_until('the store to be down',
	sub { $node->value('SELECT up FROM redis_lock_status') eq 'f' });
$redis->start;
$node->wait_for_up;

$_->quit foreach $one, $bob, $other, @waiters;
nothing_left($node, $redis);
done_testing();
