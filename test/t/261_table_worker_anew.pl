# Copyright (c) 2026, lockredis contributors

# A table worker that was started anew remembers nothing of the rows, and takes from a row
# for how long it counts.  What a session asks before the worker has looked at its row must
# not shorten that.
#
#   session: has a lock for an hour
#                           the worker ends; the next one finds the table locked, and so
#                           cannot look at the rows
#   session: takes the lock again, for 100 ms
#   after 100 ms:           the row counts for the rest of the hour, as the lock does
#
# Of the kinds of lock whose row says how often it is held, since the second request of others
# is sent only for a longer lease.
#
# Proves G25, G29.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table);
my $one = $node->session;
my $two = $node->session;
my $admin = $node->session;
my %take = (
	'lock' => q{redis_lock('lock', '%s')},
	'fair lock' => q{redis_fair_lock('fair lock', '%s')});
my @kinds = sort keys %take;

sub take_all
{
	my ($lease) = @_;

	return 'SELECT ' . join ', ', map { sprintf $take{$_}, $lease } @kinds;
}

$node->wait_for_up;
is($one->query(take_all('1 h'))->error, undef, 'locks for an hour');

# The worker sweeps when it starts, and 10 s later.  It sleeps when it has tried to.
my $worker = $node->table_worker_pid;
$admin->query('BEGIN; LOCK TABLE redis_lock_rows');
$admin->query("SELECT pg_terminate_backend($worker)");
poll_until(
	'another worker, which has tried to sweep',
	sub {
		$node->value(
			qq{SELECT count(*) FROM pg_stat_activity
			   WHERE backend_type = 'lockredis table worker' AND pid <> $worker
			   AND wait_event_type = 'Extension'}) == 1;
	});
$admin->query('COMMIT');
is($one->query(take_all('100 ms'))->error, undef, 'the same once more, for 100 ms');
pause(0.2);
foreach my $key (@kinds)
{
	$two->query_is(
		"SELECT redis_is_locked('$key'), redis_lock_ttl('$key') > '50 min'",
		't|t', "$key: counts for as long as before");
}
$one->query_is('SELECT redis_unlock_all()', scalar @kinds, 'all are given back');
end_test($node, $table);
