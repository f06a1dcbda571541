# Copyright (c) 2026, lockredis contributors

# monitoring/: Debian's prometheus-postgres-exporter asks the queries with the rights that
# are said there, a Prometheus scrapes it and has no fault to find with the rules, each
# query of the dashboard has an answer, and the alerts come when they should and only then
# (promtool).

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use HTTP::Tiny;
use IPC::Run;
use JSON::PP qw(decode_json);
use LockRedis::Program;
use LockRedis::Test;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

need_tool($_) foreach 'prometheus', 'promtool', 'prometheus-postgres-exporter';

my $top = abs_path(dirname(__FILE__) . '/../..');
# Whatever proxy the environment names
my $http = HTTP::Tiny->new(timeout => 30, proxy => undef, http_proxy => undef);

# ----------
# What needs no servers
# ----------

foreach my $check ([ 'check', 'rules', 'alerts.yml' ], [ 'test', 'rules', 'alerts_test.yml' ])
{
	my $ran = IPC::Run::run([ 'promtool', @$check ], '>&', \my $said, init => sub { chdir "$top/monitoring" });

	ok($ran, "promtool @$check") or diag $said;
}

my @alerts = slurp_file("$top/monitoring/alerts.yml") =~ /^ *- alert: (\w+)$/mg;

# ----------
# Servers
# ----------

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, extension => 0);
my @programs;
END
{
	my $exit_code = $?;

	kill 'KILL', @programs;
	$? = $exit_code;
}

# It listens where it is told to, or has ended.
sub start
{
	my ($name, $port, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/620_monitoring_$name.log";
	my $pid = LockRedis::Program::start_program($log, @command);

	push @programs, $pid;
	poll_until(
		"$name to answer (see $log)",
		sub {
			die "$name has ended, see $log\n" if waitpid($pid, 1) == $pid;
			$http->get("http://127.0.0.1:$port/metrics")->{success};
		});
	return;
}

$node->value($_)
  foreach 'CREATE SCHEMA lockredis', 'CREATE EXTENSION lockredis SCHEMA lockredis',
  'ALTER DATABASE postgres SET search_path = public, lockredis',
  slurp_file("$top/monitoring/README.md") =~ /^```sql\n(CREATE ROLE .*?)^```/ms;
$node->poll_query_until('postgres', "SELECT bool_and(up) FROM lockredis.redis_lock_status") or die;

my $exporter = PostgreSQL::Test::Cluster::get_free_port();
my $prometheus = PostgreSQL::Test::Cluster::get_free_port();
my $dir = PostgreSQL::Test::Utils::tempdir_short();

$ENV{DATA_SOURCE_NAME} = 'user=exporter host=' . $node->host . ' port=' . $node->port
  . ' dbname=postgres sslmode=disable';
start('exporter', $exporter, 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$exporter",
	"--extend.query-path=$top/monitoring/queries.yaml");

append_to_file("$dir/prometheus.yml", <<"END");
global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}
rule_files: [$top/monitoring/alerts.yml]
scrape_configs:
  - job_name: lockredis
    static_configs: [{targets: ['127.0.0.1:$exporter']}]
END
start('prometheus', $prometheus, 'prometheus', "--config.file=$dir/prometheus.yml",
	"--storage.tsdb.path=$dir/data", "--web.listen-address=127.0.0.1:$prometheus");

sub ask_prometheus
{
	my ($what, %arguments) = @_;
	my $query = $http->www_form_urlencode(\%arguments);
	my $reply = $http->get("http://127.0.0.1:$prometheus/api/v1/$what?$query");

	die "$reply->{status}: $reply->{content}" unless $reply->{success};
	return decode_json($reply->{content})->{data};
}

# ----------
# Something to be seen: locks, a wait, and one that is lost
# ----------

my ($one, $two) = map { $node->session } 1 .. 2;
$one->query("SELECT redis_lock('k'), redis_lock('lost')");
$two->start("SELECT redis_lock('k')");
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM lockredis.redis_locks WHERE waiting_since IS NOT NULL') or die;
$redis->cmd('DEL', 'lost');
$one->query("SELECT redis_extend('lost', '1 min')");

my $metrics = $http->get("http://127.0.0.1:$exporter/metrics")->{content};
my $queries = slurp_file("$top/monitoring/queries.yaml");
my (@names, $namespace);
foreach my $line (split /\n/, $queries)
{
	$namespace = $1 if $line =~ /^(\w+):$/;
	push @names, "${namespace}_$1" if $line =~ /^ +- (\w+): \{usage: (?:COUNTER|GAUGE),/;
}
cmp_ok(scalar @names, '>', 30, 'there are metrics');
is(join(' ', grep { $metrics !~ /^\Q$_\E\{/m } @names), '', 'each is exported');
like($metrics, qr/^lockredis_node_up\{.*role="master".*\} 1$/m, 'Redis is up');
like($metrics, qr/^lockredis_locks_waiting\{.*\} 1$/m, 'one waits');
like($metrics, qr/^lockredis_stats_losses\{.*\} 1$/m, 'one was lost');
like($metrics, qr/^lockredis_locks_max_slots\{.*\} 10000$/m, 'of so many');

# ----------
# Prometheus
# ----------

poll_until(
	'two samples of each',
	sub {
		my $data = ask_prometheus('query', query => 'count_over_time(lockredis_stats_acquires[5m])');

		@{ $data->{result} } && $data->{result}[0]{value}[1] >= 3;
	});

my @rules = map { @{ $_->{rules} } } @{ ask_prometheus('rules')->{groups} };
is(scalar @rules, scalar @alerts, 'it has the rules');
poll_until('all rules to have been evaluated',
	sub { !grep { $_->{health} eq 'unknown' } map { @{ $_->{rules} } } @{ ask_prometheus('rules')->{groups} } });
is(join("\n", map { "$_->{name}: $_->{lastError}" } grep { $_->{health} ne 'ok' }
		map { @{ $_->{rules} } } @{ ask_prometheus('rules')->{groups} }),
	'', 'and nothing to complain of');

my $dashboard = decode_json(slurp_file("$top/monitoring/dashboard.json"));
foreach my $panel (@{ $dashboard->{panels} })
{
	ok($panel->{description} && $panel->{fieldConfig}{defaults}{unit},
		"$panel->{title}: what it shows, in which unit");
	foreach my $target (@{ $panel->{targets} })
	{
		my $expression = $target->{expr} =~ s/\$instance/.*/gr =~ s/\$__rate_interval/1m/gr;
		# Nobody has waited to the end yet, so there is no average.  A scrape that took too
		# long leaves nothing until the next one.
		my $answers = sub {
			my $data = eval { ask_prometheus('query', query => $expression) };

			return defined $data && (@{ $data->{result} } || $expression =~ / > 0/);
		};

		ok(eval { poll_until('an answer', $answers) }, "$panel->{title}: $target->{legendFormat}")
		  or diag $expression;
	}
}

# ----------
# The end
# ----------

kill 'TERM', @programs;
foreach my $pid (@programs)
{
	poll_until('the programs to end', sub { waitpid($pid, 1) != 0 });
}
@programs = ();
$one->quit;
$two->wait;
$two->quit;
nothing_left($node, $redis);
done_testing();
