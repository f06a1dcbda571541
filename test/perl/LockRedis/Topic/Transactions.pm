# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Transactions - a server and two sessions for tests of
transaction-level locks

=head1 DESCRIPTION

What the tests 100_xact, 102_xact_scopes and 105_xact_warnings have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Transactions;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

our @EXPORT = qw($redis $proxy $node $one $two start_servers count_in_redis
  commands_of costs rows_of left_are is_free);

our ($redis, $proxy, $node, $one, $two);

sub start_servers
{
	# Nothing is renewed in the middle of counting.
	($node, $redis, $proxy, $one, $two) = LockRedis::Node->create_behind_proxy(
		'main', sessions => 2,
		settings => {
			'lockredis.lease' => '10min',
			'lockredis.max_locks' => 3100,
			'lockredis.command_timeout' => limit(20) . 's',
			max_prepared_transactions => 2,
			max_parallel_workers => 4
		});

	run($one,
		q{CREATE TABLE t (a int);
		  CREATE TABLE pairs (a int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)}
	);

	# Redis has every script from here on, so that counts are right.
	run($one,
		q{BEGIN;
		  SELECT redis_lock('warm'), redis_lock('warm'), redis_xact_lock('warm');
		  SELECT redis_unlock_all(); COMMIT});
	return;
}

# The count that Redis shows for the only owner of a key; 0: nobody has it.
sub count_in_redis ($key)
{
	my @counts = values %{ $redis->hash($key) };

	return @counts == 1 ? $counts[0] : scalar @counts;
}

# Run something, return how many client commands it cost.  Those of the watchdog do
# not count: it repeats a release that was not answered in time, and renews.
sub commands_of ($do) { return scalar grep { /"EVAL(?:SHA)?"/i } $redis->session_commands($do); }

# TAP: the statements give this output, no message, and so many commands.
sub costs ($s, $sql, $output, $commands, $name)
{
	my $result;
	my $n = commands_of(sub { $result = $s->query($sql) });

	return is_deeply([ $result->out . $result->{raw}, $n ],
		[ $output, $commands ], "$name: $commands commands");
}

# TAP: these keys are left, and nothing that is to be given back.  The end of a
# transaction waits for its releases for 100 ms, or a little longer; what a store that
# stands still has not answered by then the watchdog gives back.  No lease ends.
sub left_are ($keys, $name)
{
	my @left;

	eval {
		poll_until(
			'all else to be given back',
			sub {
				@left = $redis->all_keys;
				return "@left" eq join(' ', sort @$keys) && $node->count_locks('pid IS NULL') == 0;
			});
	};
	return is_deeply(\@left, [ sort @$keys ], $name);
}

sub is_free ($key, $name) { return ok(eval { $node->wait_for_free($redis, $key) }, $name); }

# scope|hold_count of the rows of one key in redis_locks
sub rows_of ($key)
{
	return $node->value(
		"SELECT string_agg(scope || ' ' || hold_count, ', ' ORDER BY scope) FROM redis_locks WHERE key = '$key' AND granted"
	);
}

1;
