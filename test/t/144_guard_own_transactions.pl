# Copyright (c) 2026, lockredis contributors

# Transactions that PostgreSQL begins by itself.  Who the commit
# guard is for: the end of a session drops its temporary tables,
# whatever became of its locks; statements that commit in between are the user's.
# Proves G12.  Shows what is not guaranteed: N6.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $two) = servers(
	sessions => 1,
	settings => {
		'lockredis.lease' => '10min',
		'lockredis.connect_timeout' => limit(3) . 's',
		'lockredis.command_timeout' => limit(3) . 's'
	});

sub temporary_tables
{
	return $node->value(
		"SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname = 'left_behind'"
	);
}

# A FATAL in the middle of the exit leaves the table behind, for ever if nobody
# makes temporary tables in that slot again.
sub leaves_nothing ($s, $how)
{
	$node->log_since_here;
	$how->($s);
	poll_until('the session to end', sub { $s->is_gone });
	is(temporary_tables(), 0, 'the temporary table has gone');
	is($node->times_logged(qr/FATAL:  (?!terminating connection due to administrator)/),
		0, 'no FATAL but the one that was asked for');
	ok(!$node->logged(qr/could not commit/), 'nothing was refused');
	return;
}

my %end = (
	'an ordinary disconnect' => sub { $_[0]->quit },
	'pg_terminate_backend' => sub {
		$_[0]->terminate;
		$_[0]->quit;
	},
	'a connection that breaks' => sub { $_[0]->vanish });

foreach my $guard (qw(lease verify))
{
	foreach my $end (sort keys %end)
	{
		subtest "$end, $guard" => sub {
			my $s = $node->session(settings => { 'lockredis.commit_guard' => $guard });

			run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
			$two->take_away('x');
			leaves_nothing($s, $end{$end});
		};
	}
}

subtest 'a given lease that ran out' => sub {
	my $s = $node->session;

	run($s, 'CREATE TEMP TABLE left_behind (a int)');
	$s->in_time("SELECT redis_lock('x', '50 ms')");
	$node->wait_for_loss('x');
	leaves_nothing($s, $end{'an ordinary disconnect'});
};

subtest 'on_lost = terminate' => sub {
	my $s = $node->session(settings => { 'lockredis.on_lost' => 'terminate' });

	run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
	leaves_nothing($s, sub { $two->take_away('x'); poll_until('the session to end', sub { $s->is_gone }); $s->quit });
};

# Nobody may ask Redis at that time either.
subtest 'verify, and Redis does not answer' => sub {
	my $s = $node->session(settings => { 'lockredis.commit_guard' => 'verify' });

	run($s, "CREATE TEMP TABLE left_behind (a int); SELECT redis_lock('x')");
	$redis->freeze;
	leaves_nothing($s, $end{'an ordinary disconnect'});
	$redis->thaw;
	$node->wait_for_up;
	poll_until('the lock to be given back', sub { !$redis->cmd('EXISTS', 'x') });
};

# Those of a statement of the user.
subtest 'statements that commit in between' => sub {
	my $s = $node->session;

	run($s, 'CREATE TABLE t (a int); CREATE TEMP TABLE mine (a int)');
	run($s, "SELECT redis_lock('x')");
	$two->take_away('x');
	foreach my $sql ('CREATE INDEX CONCURRENTLY i ON t (a)', 'VACUUM FULL t', 'DISCARD TEMP')
	{
		$s->query_fails($sql, '55000', qr/could not commit because the lock "x" was lost/,
			"$sql: as any that writes");
	}
	$s->query_is('DISCARD ALL', '', 'DISCARD ALL acknowledges the loss');
	run($s, 'DROP TABLE t');
	$s->quit;
};

end_test($node, $redis);
