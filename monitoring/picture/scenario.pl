# Copyright (c) 2026, lockredis contributors

# What script/dashboard draws: a server with some load and its Redis, which is killed in the
# middle and comes back empty; scraped by an exporter and a Prometheus.  Writes into a file
# where that is, and from when to when; ends when its input does.

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use LockRedis::Program;
use LockRedis::Test;
use LockRedis::Wait;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my ($top, $seconds, $file) = @ARGV;
my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	extension => 0,
	settings => { 'lockredis.lease' => '9s', max_connections => 50 });
my ($exporter, $prometheus) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;
my $dir = PostgreSQL::Test::Utils::tempdir();
my @programs;

sub start
{
	my ($name, @command) = @_;

	push @programs, LockRedis::Program::start_program("$dir/$name.log", @command);
	return;
}

$node->value($_)
  foreach 'CREATE SCHEMA lockredis', 'CREATE EXTENSION lockredis SCHEMA lockredis',
  'ALTER DATABASE postgres SET search_path = public, lockredis',
  'CREATE TABLE work (id int, at timestamptz)', <<'END';
	CREATE FUNCTION work(id int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF redis_try_xact_lock('order:' || id, '1 s') THEN
			INSERT INTO work VALUES (id, now());
			PERFORM pg_sleep(0.02 + random() / 10);
		END IF;
	EXCEPTION WHEN system_error OR io_error THEN
		PERFORM pg_sleep(0.5);
	END $$;
END
append_to_file("$dir/work.sql", "\\set id random_exponential(1, 30, 4)\nSELECT work(:id);\n");
append_to_file("$dir/prometheus.yml", <<"END");
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: lockredis
    static_configs: [{targets: ['127.0.0.1:$exporter']}]
END
$ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . ' dbname=postgres sslmode=disable';
start('exporter', 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$exporter",
	"--extend.query-path=$top/monitoring/queries.yaml");
start('prometheus', 'prometheus', "--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/data",
	"--web.listen-address=127.0.0.1:$prometheus");
poll_until('Prometheus', sub { HTTP::Tiny->new->get("http://127.0.0.1:$prometheus/-/ready")->{success} });

# A leader, and who waits for it; and the load
my ($leader, $next) = map { $node->session } 1 .. 2;
$leader->query("SELECT redis_lock('leader')");
$next->start("SELECT redis_try_lock('leader', '10 min')");
start('pgbench', 'pgbench', '-n', '-c', 10, '-j', 2, '-T', $seconds + 60, '--rate', 60, '--max-tries', 5,
	'-f', "$dir/work.sql", $node->connstr('postgres'));
LockRedis::Wait::pause(20);
my $begin = time;
LockRedis::Wait::pause($seconds / 2);
$redis->kill9;
LockRedis::Wait::pause(15);
$redis->start;
LockRedis::Wait::pause($seconds / 2 - 20);
append_to_file("$file.new", "http://127.0.0.1:$prometheus $begin " . time . "\n");
rename "$file.new", $file or die "could not rename $file.new: $!";
<STDIN>;
kill 'KILL', @programs;
waitpid $_, 0 foreach @programs;
$next->cancel;
$next->wait;
$_->quit foreach $leader, $next;
