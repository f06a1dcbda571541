# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Handover - four sessions that hand locks to each other

=head1 DESCRIPTION

What the tests 060_handover and 065_handover_terms have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Handover;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($redis $node $counters $one $two $three $four start_servers
  gone with_key);

our ($redis, $node, $counters, $one, $two, $three, $four);

sub start_servers
{
	$redis = LockRedis::Redis->new;

	# Nothing is renewed while commands are counted.
	$node = LockRedis::Node->create(
		'main',
		redis => $redis,
		settings => { 'lockredis.lease' => '10min' });

	$node->wait_for_up;
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (a int);

-- Returns when somebody waits for the key.
CREATE PROCEDURE await_waiter(k text) LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM redis_locks
					   WHERE key = k AND waiting_since IS NOT NULL) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SQL

	$counters = qr/^redisson_lock_token:/;
	($one, $two, $three, $four) = map { $node->session } 1 .. 4;

	# Connections are made, and Redis knows the scripts.
	foreach my $s ($one, $two, $three, $four)
	{
		$s->query(
			"SELECT redis_lock('warm'), redis_fenced_lock('warm'), redis_unlock_all()"
		);
	}
	$redis->cmd('DEL', 'redisson_lock_token:{warm}');
	return;
}

# Ends the test of a key that is held by nobody any more.  A COMMIT waits for its release
# for 100 ms only, after which the watchdog has it.
sub gone ($key, $name)
{
	return ok(
		eval {
			poll_until("$key to be gone",
				sub { !$redis->cmd('EXISTS', $key) && $node->count_locks("key = '$key'") == 0 });
		},
		"$name: nothing is left");
}

sub with_key ($sql, $key) { return $sql =~ s/KEY/$key/gr; }

1;
