# Copyright (c) 2026, lockredis contributors

# A transaction of the table worker that fails is run again one by one, and nothing of the
# first time is left then.
#
#   two requests in one transaction:  is "gone" locked?  take "bad"
#   worker: sees the row of "gone", and that it counts;  cannot write that of "bad"
#                                      the owner of the table deletes the row of "gone"
#   worker, again: there is no row of "gone", of which the time left is remembered
#
# An index of the table's owner makes the second request wait and fail.
#
# Proves G25, G29.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table,
	settings => { 'lockredis.command_timeout' => '60s' });
my $admin = $node->session;
my $worker;

$node->wait_for_up;
$admin->query(
	q{CREATE FUNCTION slow_to_fail(key text) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$
	  BEGIN
		IF key LIKE 'bad%' THEN
			PERFORM pg_sleep(1);
			RAISE 'no such row';
		END IF;
		RETURN 1;
	  END $$;
	  CREATE INDEX slow ON redis_lock_rows (slow_to_fail(key))});

# Those who ask are served in the order in which their backends have come; so both are
# tried.
my @asks = map { $node->session } 1 .. 2;
$_->query('SELECT redis_is_locked($$nothing$$)') foreach @asks;
$worker = $node->table_worker_pid;
my $pids = join ', ', map { $_->pid } @asks;

foreach my $order ([ 0, 1 ], [ 1, 0 ])
{
	my ($looks, $fails) = @asks[@$order];
	my $name = "asked by $order->[0]";

	foreach my $kind ('a lock', 'readers', 'a token lock', 'permits')
	{
		my %take = (
			'a lock' => "SELECT redis_lock('gone')",
			'readers' => "SELECT redis_read_lock('gone')",
			'a token lock' => "SELECT redis_token_lock('gone', '1h', 'x')",
			'permits' => "SELECT redis_permit_set('gone', 1), redis_permit_acquire('gone', '1h') <> ''");
		my $holder = $node->session;

		is($holder->query($take{$kind})->error, undef, "$name: $kind");
		$table->freeze;
		$looks->start("SELECT redis_is_locked('gone'), redis_lock_owner('gone') IS NULL, redis_lock_ttl('gone') IS NULL");
		$fails->start("SELECT redis_lock('bad', '1h')");
		poll_until('both to have asked',
			sub {
				$node->value(
					"SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension'"
				) == 2;
			});
		$table->thaw;
		poll_until('the worker to be about to fail',
			sub {
				$node->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $worker") eq 'PgSleep';
			});
		$admin->query("DELETE FROM redis_lock_rows; DELETE FROM redis_lock_shares");
		is($looks->wait(30)->error, undef, "$name: $kind: it was answered");
		$fails->wait(30)->fails('P0001', qr/no such row/, "$name: $kind: the other one fails");
		is($node->table_worker_pid, $worker, "$name: $kind: the worker is the same one");
		$looks->query_is("SELECT redis_is_locked('gone')", 'f', "$name: $kind: is gone");
		$holder->quit;
		$admin->query('DELETE FROM redis_lock_values');
	}
}

$admin->query('DROP INDEX slow');
end_test($node, $table);
