# Copyright (c) 2026, lockredis contributors

# Fallback mode under load, with Redis killed, frozen, restarted empty and with
# its data, and both background workers terminated, each of them once until the other
# store is in use, and then at random moments for as long as it lasts: no two
# transactions of the server had a key at once, by a counter that nothing but
# the lock protects and by the times they had it; no call that waits fails; a
# lock that is lost makes its transaction fail and nothing worse; sessions that
# are canceled, terminated or cut off meanwhile leave nothing behind.
# How long a request waited at most is told.
# Proves G1, G26.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $seconds = 36;
my $keys = 3;
my $seed = $ENV{LOCKREDIS_TEST_SEED} || time;

srand $seed;

# Shorter and longer than it takes to go to the table.
my $timeout = (qw(300ms 500ms 2s))[ rand 3 ];
note "seed $seed (set LOCKREDIS_TEST_SEED to repeat it), command_timeout $timeout";

my $redis = LockRedis::Redis->new;
my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		'lockredis.mode' => 'fallback',
		'lockredis.fallback_after' => '1s',
		'lockredis.lease' => '3s',
		'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => $timeout,
		log_statement => 'none'
	});
$table->use_node($node);
$node->wait_for_up;
$node->safe_psql(
	'postgres', qq{
	CREATE TABLE counter (k integer PRIMARY KEY, v bigint NOT NULL);
	INSERT INTO counter SELECT k, 0 FROM generate_series(1, $keys) k;
	CREATE TABLE had (k integer, pid integer, asked bigint, since bigint,
		until bigint);
	CREATE FUNCTION us() RETURNS bigint LANGUAGE sql VOLATILE AS
		'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';});

my $script = "$PostgreSQL::Test::Utils::tmp_check/fallback_load.sql";
append_to_file($script, <<"END");
\\set k random(1, $keys)
SELECT us() AS asked \\gset
BEGIN;
SELECT redis_xact_lock('load:' || :k);
SELECT v AS x, us() AS since FROM counter WHERE k = :k \\gset
\\sleep 2 ms
UPDATE counter SET v = :x + 1 WHERE k = :k;
INSERT INTO had VALUES (:k, pg_backend_pid(), :asked, :since, us());
COMMIT;
END

my $output = '';
my $pgbench = IPC::Run::start(
	[
		'pgbench', '--no-vacuum', '--client=9', '--jobs=2', "--time=$seconds",
		'--max-tries=1000', "--file=$script",
		'-h', $node->host, '-p', $node->port, 'postgres'
	],
	'<' => \undef,
	'>&' => \$output,
	IPC::Run::timer(120));
my $end = now() + $seconds - 5;

# What may happen to Redis; each waits as it is told and brings it back.
my %fault = (
	'restarted empty' => sub { $redis->kill9; $_[0]->(); $redis->start },
	'restarted with data' => sub {
		$redis->stop(keep => 1);
		$_[0]->();
		$redis->start;
	},
	'frozen' => sub { $redis->freeze; $_[0]->(); $redis->thaw });
my @names = sort keys %fault;

sub until_switched { return $node->wait_for_store('table'); }
sub for_some_time { return pause(rand(rand() < 0.3 ? 0.6 : 3)); }

# What may happen besides.
sub terminate_worker
{
	my ($name) = @_;

	$node->value(
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
		  . " WHERE backend_type = 'lockredis $name'");
	return;
}

my @bystanders;

# A session that wants a key, and is done away with before or after it has it.
sub send_bystander
{
	my $s = $node->session(settings => { lock_timeout => '10s' });
	my $key = 'load:' . (1 + int rand $keys);

	$s->start("SELECT redis_lock('$key')");
	push @bystanders, $s;
	return;
}

sub end_bystander
{
	my ($how) = @_;
	my $s = shift @bystanders or return;

	if ($how == 0)
	{
		$s->cancel;
		$s->wait;
		$s->query('SELECT redis_unlock_all()');
		$s->quit;
	}
	elsif ($how == 1) { $s->terminate; }
	else { $s->vanish; }
	return;
}

# Once each, whatever the time is.
my $faults = 0;
foreach my $name (@names)
{
	note "$name, until locks go to the table";
	send_bystander();
	$fault{$name}->(\&until_switched);
	terminate_worker($faults % 2 ? 'watchdog' : 'table worker');
	end_bystander($faults++);
	$node->wait_for_store('master');
}

while (now() < $end)
{
	my $name = $names[ rand @names ];

	send_bystander();
	pause(rand 0.8);
	note sprintf '%.1f s before the end: %s', $end - now(), $name;
	$fault{$name}->(\&for_some_time);
	$faults++;
	terminate_worker(rand() < 0.5 ? 'watchdog' : 'table worker') if rand() < 0.3;
	end_bystander(int rand 3);
	pause(rand 5);
}
$pgbench->finish;

is($pgbench->result(0), 0, 'no call that waits has failed') or diag $output;
my ($processed) = $output =~ /number of transactions actually processed: (\d+)/;
is( $node->value('SELECT sum(v) FROM counter'),
	$processed,
	'each transaction has counted');
is( $node->value(
		q{SELECT count(*) FROM had a JOIN had b ON a.k = b.k
		  AND a.ctid <> b.ctid AND a.since < b.until AND b.since < a.until
		  AND a.since <= b.since}),
	0,
	'and no two had a key at once');

my $switches = $node->value('SELECT switches FROM redis_lock_stats');
cmp_ok($switches, '>=', 2 * @names, 'there were switches');
cmp_ok($processed, '>', 0, 'and work between them');
diag sprintf '%d faults, %d switches, %d moved, %d lost, %d transactions;'
  . ' a request waited for %.1f s at most', $faults,
  split(/\|/, $node->value(
	  'SELECT switches, moves, losses FROM redis_lock_stats')),
  $processed, $node->value('SELECT max(since - asked) / 1000000.0 FROM had');

$node->wait_for_store('master');
poll_until('the rows to be gone', sub { !$table->all_keys }, 30);
nothing_left($node, $redis);
ok(!$node->logged(qr/PANIC|TRAP|server process .* was terminated/), 'no crash');
done_testing();
