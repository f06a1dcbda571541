# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Jobs - jobs, and what they have done

=head1 DESCRIPTION

What the tests 120_job, 124_job_commands and 125_job_hold have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Jobs;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT quoted);
use LockRedis::Wait qw(limit);

our @EXPORT = qw($lease_ms $redis $node $one $two start_servers done start_sleeper released);

our ($lease_ms, $redis, $node, $one, $two);

sub start_servers
{
	$lease_ms = limit(6) * 1000;
	($node, $redis, $one, $two) = servers(
		sessions => 2,
		settings => {
			'lockredis.lease' => "${lease_ms}ms",
			'lockredis.command_timeout' => limit(2) . 's'
		});
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE done (what text);
CREATE ROLE bob LOGIN;
GRANT ALL ON done TO bob;
SQL
	return;
}

# What was done, in order; forgotten by asking.
sub done
{
	return $node->value(
		q{WITH d AS (DELETE FROM done RETURNING ctid, what) SELECT string_agg(what, ' ' ORDER BY ctid) FROM d}
	);
}

# TAP: the key of a job that has failed is free, soon: the end of its transaction waits
# for the release for 100 ms, after which the watchdog has it.
sub released ($key, $name) { return ok(eval { $node->wait_for_free($redis, $key) }, $name); }

# Start a job whose command sleeps once it has done its first part, and wait
# until it does.
sub start_sleeper ($s, $key, %opts)
{
	my $command = ($opts{before} || "INSERT INTO done VALUES ('begun')")
	  . '; SELECT pg_sleep(600)';
	my $more = $opts{more} ? ", $opts{more}" : '';

	$s->start("CALL redis_with_lock('$key', " . quoted($command) . "$more)");
	$node->wait_for_event($s, 'PgSleep');
	return;
}

1;
