# Copyright (c) 2026, lockredis contributors

# monitoring/: Debian's prometheus-postgres-exporter asks the queries with the rights that
# are said there, a Prometheus scrapes it and has no fault to find with the rules, and each
# query of the dashboard has an answer.  621_alerts and 622_alerts_nodes have the incidents.

use IPC::Run;
use JSON::PP qw(decode_json);
use LockRedis::Exporter;
use LockRedis::Test;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

need_tool($_) foreach 'prometheus', 'promtool', 'prometheus-postgres-exporter';

my $directory = $LockRedis::Exporter::directory;

# ----------
# What needs no servers
# ----------

my $ran = IPC::Run::run([ 'promtool', 'check', 'rules', "$directory/alerts.yml" ], '>&', \my $said);
ok($ran, 'promtool has no fault to find with the rules') or diag $said;

my @alerts = slurp_file("$directory/alerts.yml") =~ /^ *- alert: (\w+)$/mg;

# ----------
# Servers
# ----------

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, patient => 1, extension => 0);
my $exporter = LockRedis::Exporter->new($node);
my $prometheus = PostgreSQL::Test::Cluster::get_free_port();
my $dir = PostgreSQL::Test::Utils::tempdir_short();

$node->wait_for_up;
append_to_file("$dir/prometheus.yml", <<"END");
global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}
rule_files: [$directory/alerts.yml]
scrape_configs:
  - job_name: lockredis
    static_configs: [{targets: ['127.0.0.1:@{[ $exporter->port ]}']}]
END
my $program = LockRedis::Exporter::start_web('prometheus', $prometheus, 'prometheus', "--config.file=$dir/prometheus.yml",
	"--storage.tsdb.path=$dir/data", "--web.listen-address=127.0.0.1:$prometheus");

sub ask_prometheus ($what, %arguments)
{
	my $http = $LockRedis::Exporter::http;
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

my $metrics = $exporter->text;
my $queries = slurp_file("$directory/queries.yaml");
my (@names, $namespace);
foreach my $line (split /\n/, $queries)
{
	$namespace = $1 if $line =~ /^(\w+):$/;
	push @names, "${namespace}_$1" if $line =~ /^ +- (\w+): \{usage: (?:COUNTER|GAUGE),/;
}
cmp_ok(scalar @names, '>', 30, 'there are metrics');
is(join(' ', grep { $metrics !~ /^\Q$_\E\{/m } @names), '', 'each is exported');
like($metrics, qr/^lockredis_node_up\{.*role="master".*\} 1$/m, 'Redis is up');
like($metrics, qr/^lockredis_locks_waiting\{kind="reentrant".*\} 1$/m, 'one waits');
like($metrics, qr/^lockredis_stats_losses\{.*\} 1$/m, 'one was lost');
like($metrics, qr/^lockredis_stats_max_slots\{.*\} 10000$/m, 'of so many');

# Each kind has its series.
my @kinds = map { slurp_file($_) =~ /^const LockKind .*?\.name = "(\w+)"/msg }
  glob "$directory/../src/kinds/*.c";
is_deeply([ $metrics =~ /^lockredis_locks_held\{kind="(\w+)"/mg ], [ sort @kinds ], 'kinds of locks');

# Of many keys the ten that are held, and awaited, longest
$one->query("SELECT redis_lock('many ' || i) FROM generate_series(1, 30) i");
my @named = $exporter->text =~ /^lockredis_key_hold_seconds\{key="([^"]+)"/mg;
is(scalar(grep { /^(?:k|many \d+)$/ } @named), 10, 'ten keys that are held') || diag "@named";

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

my $dashboard = decode_json(slurp_file("$directory/dashboard.json"));
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

LockRedis::Exporter::stop_web($program);
$exporter->stop;
$one->quit;
$two->wait;
end_test($node, $redis);
