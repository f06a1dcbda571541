# Copyright (c) 2026, lockredis contributors

# The examples in SQL do what their README says, on two servers that share a Redis: a job
# that pg_cron starts on both and one runs, workers of which two at a time use a relay,
# transfers that go opposite ways, and a leader that is followed.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Test;

my $examples = abs_path(dirname(__FILE__) . '/../../examples');
my $libraries = `pg_config --pkglibdir`;
chomp $libraries;
plan skip_all => 'there is no pg_cron' unless -e "$libraries/pg_cron.so";

my $redis = LockRedis::Redis->new;
my @servers = map { server("server_$_") } 'a', 'b';
my ($one, $two) = @servers;

sub server ($name)
{
	my $node = LockRedis::Node->create($name, redis => $redis, patient => 1, start => 0, extension => 0);

	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'pg_cron, lockredis'\n"
		  . "cron.database_name = 'postgres'\n"
		  . "cron.host = '" . $node->host . "'\n");
	$node->start;
	$node->value('CREATE EXTENSION lockredis');
	$node->wait_for_up;
	return $node;
}

# As it is pasted, or read by psql -f
sub run_file ($node, $file)
{
	$node->command_ok(
		[ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$examples/$file" ],
		"$file on " . $node->name);
	return;
}

# ----------
# pg_cron: begun here, since it starts something only when a minute does
# ----------

my $night = '0 3 * * *';
my $version;
foreach my $node (@servers)
{
	run_file($node, 'pg_cron/job.sql');
	($version) = $node->value("SELECT extversion FROM pg_extension WHERE extname = 'pg_cron'") =~ /^([\d.]+)/;
	is($node->value("SELECT schedule FROM cron.job WHERE jobname = 'nightly-report'"),
		$night, 'for the night');
	my $soon = $version >= 1.5 ? '2 seconds' : '* * * * *';
	$node->value("UPDATE cron.job SET schedule = '$soon'");
}
$one->value("SELECT cron.schedule('broken', (SELECT schedule FROM cron.job LIMIT 1),
	\$\$CALL run_job('broken', 'SELECT 1/0')\$\$)");

# ----------
# Workers
# ----------

run_file($_, 'workers/setup.sql') foreach @servers;
$_->value(q{INSERT INTO mail (recipient) SELECT 'alice' FROM generate_series(1, 10)})
  foreach @servers;
{
	my @workers = map { ($one->session, $two->session) } 1 .. 3;
	my (@changes, $most);
	my $now = 0;

	$_->start('CALL send_mails()') foreach @workers;
	is($_->wait(limit(60))->error, undef, 'a worker ends') foreach @workers;
	$_->quit foreach @workers;
	foreach my $node (@servers)
	{
		is($node->value('SELECT count(*) FROM mail WHERE sent IS NULL'), 0, 'all are sent');
		push @changes, map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres',
			'SELECT extract(epoch FROM begun), 1 FROM mail
			 UNION ALL SELECT extract(epoch FROM sent), -1 FROM mail');
	}
	foreach my $change (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @changes)
	{
		$now += $change->[1];
		$most = $now if !defined $most || $now > $most;
	}
	cmp_ok($most, '<=', 2, 'never more than two at a time');
	cmp_ok($most, '>=', 1, 'and some');
}

# ----------
# Accounts
# ----------

run_file($_, 'accounts/transfer.sql') foreach @servers;
$one->value('INSERT INTO account VALUES (7, 100), (42, 100)');
{
	my ($there, $back) = ($one->session, $one->session);

	$there->start("DO 'BEGIN FOR i IN 1 .. 20 LOOP CALL transfer(42, 7, 1); COMMIT; END LOOP; END'");
	$back->start("DO 'BEGIN FOR i IN 1 .. 30 LOOP CALL transfer(7, 42, 1); COMMIT; END LOOP; END'");
	is($_->wait(limit(60))->error, undef, 'no deadlock') foreach $there, $back;
	is($one->safe_psql('postgres', 'SELECT id, balance FROM account ORDER BY id'),
		"7|90\n42|110", 'and each has what it has got');
	$there->query_fails('CALL transfer(42, 7, 1000)', 'P0001', qr/less than/, 'not more than there is');
	is($one->value("SELECT count(*) FROM redis_fences"), 2, 'their tokens are recorded');
	$_->quit foreach $there, $back;
}

# ----------
# A leader
# ----------

run_file($_, 'leader/leader.sql') foreach @servers;
{
	my ($leader, $next) = ($one->session, $two->session);
	my $has_led = sub {
		my ($node, $session) = @_;

		die $session->wait->error unless $session->is_running;
		return $node->value('SELECT count(*) FROM led') > 0;
	};

	$leader->start("CALL run_as_leader('billing', '10 ms')");
	poll_until('it leads', sub { $has_led->($one, $leader) });
	$two->queue_up('leader:billing', $next => "CALL run_as_leader('billing', '1 h')");
	is($two->value('SELECT count(*) FROM led'), 0, 'one leads');
	$leader->terminate;
	poll_until('another one leads', sub { $has_led->($two, $next) });
	pass('one follows');
	# In its commit it would be told by that, and go on.
	$two->wait_for_event($next, 'PgSleep');
	$two->value("SELECT redis_force_unlock('leader:billing')");
	poll_until('the leader that lost it to be ended', sub { !$next->is_running });
	is($next->wait->sqlstate, '57P01', 'one that lost the lock is ended');
}

# ----------
# What pg_cron did meanwhile
# ----------

# A minute until it begins, and as long as a poll has otherwise
my $soon_enough = 180;
foreach my $node (@servers)
{
	poll_until(
		'the job to have been started by pg_cron on ' . $node->name,
		sub { $node->value("SELECT count(*) FROM job_run WHERE job = 'nightly-report'") > 0 },
		$soon_enough);
}
poll_until('the broken job to have failed',
	sub { $one->value("SELECT count(*) FROM cron.job_run_details WHERE status = 'failed'") > 0 },
	$soon_enough);
$_->value('SELECT cron.unschedule(jobid) FROM cron.job') foreach @servers;
foreach my $node (@servers)
{
	poll_until('no job to run',
		sub { $node->value("SELECT count(*) FROM cron.job_run_details WHERE status NOT IN ('succeeded', 'failed')") == 0 });
}
my $sum = sub {
	my ($sql) = @_;
	my $all = 0;

	$all += $_->value($sql) foreach @servers;
	return $all;
};
is($sum->("SELECT count(*) FROM job_run WHERE job = 'nightly-report' AND ran"),
	1, 'one server has run it');
is($sum->('SELECT count(*) FROM report'), 1, 'once');
cmp_ok($sum->("SELECT count(*) FROM job_run WHERE job = 'nightly-report' AND NOT ran"),
	'>=', 1, 'the other one has skipped it');
is($sum->("SELECT count(*) FROM cron.job_run_details WHERE command ~ 'nightly-report' AND status <> 'succeeded'"),
	0, 'pg_cron says that both have succeeded');
like(
	$one->value("SELECT return_message FROM cron.job_run_details WHERE status = 'failed' LIMIT 1"),
	qr/division by zero/, 'and why one has failed');
is($sum->("SELECT count(*) FROM job_run WHERE job = 'broken'"), 0, 'of which nothing is written down');

$redis->cmd('DEL', 'nightly-report');
end_test([@servers], $redis,
	keys => qr/^(?:redisson_lock_token:|mail relay$|\{mail relay\})/);
