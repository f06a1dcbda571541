# Copyright (c) 2026, lockredis contributors

# Who writes into the tables breaks nothing but his own: nobody may but their owner, and what he
# does there, beside sessions that count under locks, disturbs no other key and never ends the table
# worker.  257_table_blocked has what he leaves open.  308_torture_fallback has table mode under contention.
# Proves G1, G25.

use IPC::Run;
use LockRedis::Test qw(:DEFAULT counting_script);
use PostgreSQL::Test::Utils;

my $table = LockRedis::Table->new;
my ($node, $one) = LockRedis::Node->create('main', sessions => 1, redis => $table);

$node->safe_psql(
	'postgres', q{
	CREATE TABLE counter (k int PRIMARY KEY, v int NOT NULL);
	INSERT INTO counter SELECT i, 0 FROM generate_series(1, 3) i;
	CREATE ROLE program LOGIN});

# ----------
# Rights
# ----------

my $program = $node->session(user => 'program');
foreach my $table (qw(redis_lock_rows redis_lock_shares redis_lock_counters redis_lock_values))
{
	$program->query_fails($_, '42501', qr/permission denied/, 'not for everybody: ' . $_)
	  foreach "SELECT * FROM $table", "INSERT INTO $table DEFAULT VALUES", "DELETE FROM $table",
	  "TRUNCATE $table", "BEGIN; LOCK TABLE $table";
	$program->query('ROLLBACK');
}

# ----------
# The owner of the tables writes there, while everybody asks
# ----------

my $worker = $node->table_worker_pid;
my $somebody = $table->somebody('somebody');
my $tmp = $PostgreSQL::Test::Utils::tmp_check;
my %script = (

	# Rows come, change and go: some such as lockredis writes, and some not.
	write => qq{
		\\set k random(1, 5)
		\\set what random(1, 6)
		INSERT INTO redis_lock_rows (key, owner, lease, expires_at)
			VALUES ('contested ' || :k, CASE :what WHEN 1 THEN 'some program' ELSE '$somebody' END,
				CASE :what WHEN 2 THEN NULL ELSE interval '1 min' END,
				clock_timestamp() + interval '20 ms')
			ON CONFLICT (key) DO UPDATE SET owner = EXCLUDED.owner, hold_count = :what - 3,
				lease = EXCLUDED.lease, expires_at = EXCLUDED.expires_at, instance = NULL;
		DELETE FROM redis_lock_rows WHERE key = 'contested ' || :k;
		DELETE FROM redis_lock_shares WHERE key = 'contested ' || :k;
	},
	look => q{
		\set k random(1, 5)
		SELECT redis_is_locked('contested ' || :k), redis_lock_owner('contested ' || :k),
			redis_lock_ttl('contested ' || :k);
	},
	take => q{
		\set k random(1, 5)
		SELECT redis_try_lock('contested ' || :k, '1 s');
		SELECT redis_unlock('contested ' || :k);
	},
	count => counting_script(3));
my @running;
foreach my $name (sort keys %script)
{
	my $file = "$tmp/210_$name.sql";
	my $output = '';

	PostgreSQL::Test::Utils::append_to_file($file, $script{$name});
	push @running,
	  [
		$name, \$output,
		IPC::Run::start(
			[
				'pgbench', '-n', '-c', 4, ($name eq 'count' ? ('-t', 50) : ('-T', 6)), '-f',
				$file, $node->connstr('postgres')
			],
			'>', \$output, '2>&1', IPC::Run::timeout(limit(120)))
	  ];
}
foreach my $run (@running)
{
	my ($name, $output, $process) = @$run;

	$process->finish;
	is($process->full_result(0), 0, "$name: nobody failed")
	  || diag join "\n", (grep { /error/i } split /\n/, $$output)[ 0 .. 3 ];
}
is($node->value('SELECT sum(v) FROM counter'), 4 * 50, 'the count of other keys is exact');
is($node->table_worker_pid, $worker, 'the worker is the same one');
poll_until('what is left to have gone', sub { !$table->all_keys });
$one->query_is("SELECT redis_try_lock('contested ' || i), redis_unlock('contested ' || i) FROM generate_series(1, 5) i",
	join("\n", ('t|t') x 5), 'all keys are free');

end_test($node, $table);
