# Copyright (c) 2026, lockredis contributors

# Each alert because of a real incident: Redis killed, made a replica, frozen, full, slow, one that
# can evict, with a certificate near its end; a lock lost, a deadlock, a stuck holder, a crowd,
# max_locks used up, metrics missing.  Prometheus' rules as they are installed, over what the real
# exporter was asked before, in and after it, fire these alerts and no other one, and only in it.
# What the runbook says of them is done.  Who sleeps at a condition is no incident.
# Alerts are no guarantee: they tell of what the views show (G36).

use LockRedis::Alerts qw(has);
use LockRedis::Ca;
use LockRedis::Program;
use LockRedis::Test;
use PostgreSQL::Test::Utils;

need_tool($_) foreach 'promtool', 'prometheus-postgres-exporter';

my $ca = LockRedis::Ca->new('main');
my $certificate = $ca->certificate('served');
my $redis = LockRedis::Redis->new(tls => $certificate);
my $node = LockRedis::Node->create(
	'main',
	url => $redis->tls_url,
	extension => 0,
	# Redis stands still for longer than that, and until then a call waits for it.
	patient => 1,
	settings => {
		max_connections => 150,
		'lockredis.max_locks' => 200,
		'lockredis.tls_ca_file' => $ca->file
	});
my $alerts = LockRedis::Alerts->new($node, $redis);
my ($one, $two) = map { $node->session } 1 .. 2;
my $incident;

$node->wait_for_up;
$node->value('CREATE TABLE work (i int)');

# ----------
# Redis
# ----------

$incident = $alerts->begin('killed');
$redis->kill9;
$incident->seen(has('node_up', 0));
like($incident->look('LockRedisDown'), qr/refused/, 'killed: why');
$redis->start;
$incident->over([ has('node_up', 1) ], 'LockRedisDown', 'LockRedisNodeDown');

$incident = $alerts->begin('a replica by mistake');
$redis->cmd('REPLICAOF', '127.0.0.1', 1);
$incident->seen(has('node_up{node="1",role="replica"', 1), has('node_in_use{node="1",role="replica"', 1));
like($incident->look('LockRedisDown'), qr/^replica\|up\|t\|/m, 'a replica: in use');
$redis->cmd('REPLICAOF', 'NO', 'ONE');
$incident->over([ has('node_up{node="1",role="master"', 1) ], 'LockRedisDown');

# Renewed after 15 s; however busy the machine is, it does not end before the thaw.
$one->query("SET lockredis.lease = '45s'; SELECT redis_lock('held')");
$two->query_is("SELECT redis_try_lock('free'), redis_unlock('free')", 't|t');
$incident = $alerts->begin('frozen',
	timed => qr/renewal_lag/, from => [ has('node_up', 1), has('node_renewal_lag_seconds', 0) ]);
$redis->freeze;
$node->queue_up('orphan', $two => "SELECT redis_lock('orphan')");
$two->cancel;
$two->wait->fails('57014', qr/cancel/, 'frozen: nobody answers');
$incident->seen(has('node_up', 0), has('node_renewal_lag_seconds', qr/(?:[3-9]|\d\d)(?:\.\d+)?/),
	has('locks_orphaned{kind="reentrant"', 1));
like($incident->look('LockRedisOrphans'), qr/^orphan$/m, 'frozen: which key');
$redis->thaw;
$incident->look('LockRedisRenewalLate');
$incident->over([ has('node_up', 1), has('locks_orphaned{kind="reentrant"', 0), has('node_renewal_lag_seconds', 0) ],
	'LockRedisDown', 'LockRedisNodeDown', 'LockRedisOrphans', 'LockRedisRenewalLate');
$one->query_is("SELECT redis_unlock('held')", 't', 'frozen: nothing was lost');
$one->query('RESET lockredis.lease');

$incident = $alerts->begin('full');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_fails("SELECT redis_lock('k')", '58030', qr/OOM/, 'full: refused') foreach 1 .. 5;
$incident->seen(has('stats_errors', qr/(?:[5-9]|\d\d+)/));
like($incident->look('LockRedisErrors'), qr/^maxmemory:1\b/m, 'full: why');
$redis->cmd('CONFIG', 'SET', 'maxmemory', 0);
$incident->over([ has('node_up', 1) ], 'LockRedisErrors');

# Longer than from one probe to the next, which shows how long it took until there is another one.
my $quick = has('node_round_trip_seconds', qr/(?:0\.0\d*|\S+e-\d+)/);
$incident = $alerts->begin('slow', timed => qr/round_trip/, from => [ has('node_up', 1), $quick ]);
$node->set('lockredis.command_timeout' => '30s');
poll_until(
	'a slow round trip',
	sub {
		$redis->freeze;
		pause(5.5);
		$redis->thaw;
		foreach (1 .. 20)
		{
			return 1 if $incident->is_seen(has('node_round_trip_seconds', qr/(?:0\.[1-9]\d*|[1-9][.\d]*)/));
			pause(0.1);
		}
		return 0;
	});
$node->set('lockredis.command_timeout' => '10s');
$incident->look('LockRedisSlow');
$incident->over([$quick], 'LockRedisSlow');

$incident = $alerts->begin('a cache');
$redis->cmd('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
$incident->seen(has('node_can_evict', 1));
like($incident->look('LockRedisCanEvict'), qr/allkeys-lru/, 'a cache: its policy');
$incident->do('LockRedisCanEvict');
$incident->over([ has('node_can_evict', 0) ], 'LockRedisCanEvict');

# The worker, and then the operator, make it connect anew.
sub serve ($served)
{
	LockRedis::Ca->put($served, $certificate->{cert}, $certificate->{key});
	$redis->cmd('CONFIG', 'SET', 'tls-cert-file', $certificate->{cert});
	return;
}

sub worker_connections
{
	return map { $_->{id} } grep { $_->{name} =~ /^lockredis-watchdog/ } $redis->clients;
}

$incident = $alerts->begin('a certificate near its end');
serve($ca->certificate('near', to => 10));
$redis->cmd('CLIENT', 'KILL', 'ID', $_) foreach worker_connections();
poll_until('the new certificate',
	sub { $node->value(q{SELECT certificate_expires < now() + '11 days' FROM redis_lock_status}) eq 't' });
$incident->seen(has('node_certificate_expires_timestamp_seconds', qr/\S+/));
$incident->look('LockRedisCertificateEnds');
serve($ca->certificate('renewed'));
like($incident->do('LockRedisCertificateEnds', undef, n => $_), qr/lockredis-watchdog/, 'the worker is there')
  foreach worker_connections();
poll_until('the renewed certificate',
	sub { $node->value(q{SELECT certificate_expires > now() + '15 days' FROM redis_lock_status}) eq 't' });
$incident->over([ has('node_up', 1) ], 'LockRedisCertificateEnds');

# ----------
# Sessions
# ----------

$incident = $alerts->begin('a lock is lost');
$one->query("SELECT redis_lock('gone'); BEGIN; INSERT INTO work VALUES (1)");
$redis->cmd('DEL', 'gone');
$one->query("SELECT redis_extend('gone', '1 min')");
$one->query('ROLLBACK; BEGIN; INSERT INTO work VALUES (1)');
$one->query_fails('COMMIT', '55000', qr/could not commit/, 'lost: no commit');
$incident->seen(has('stats_losses', 1), has('stats_commits_refused', 1), has('locks_lost{kind="reentrant"', 1));
like($incident->look('LockRedisLossNotAcknowledged'), qr/^@{[ $one->pid ]}\|gone\|.*\|deleted$/m, 'lost: who');
$incident->do('LockRedisLossNotAcknowledged', undef, pid => $one->pid);
$incident->over([ has('locks_lost{kind="reentrant"', 0) ],
	'LockRedisLockLost', 'LockRedisCommitRefused', 'LockRedisLossNotAcknowledged');
$one->quit;
$one = $node->session;

$incident = $alerts->begin('a condition is awaited');
$one->query("SELECT redis_lock('c')");
$one->start("SELECT redis_condition_wait('c')");
$incident->seen(has('locks_waiting{kind="condition"', 1), has('stats_condition_waits', 1),
	has('key_wait_seconds{key="c",kind="condition"', qr/[1-9]\S*/));
$two->query("SELECT redis_lock('c'), redis_condition_notify('c'), redis_unlock('c')");
is($one->wait->value, 't', 'a condition: notified');
$incident->over([ has('locks_waiting{kind="condition"', 0), has('locks_lost{kind="reentrant"', 0) ]);
$one->query("SELECT redis_unlock('c')");

$incident = $alerts->begin('a stuck holder', lasts => { during => 26 * 60 }, step => 2);
$one->query("SELECT redis_lock('leader')");
$node->queue_up('leader', $two => "SELECT redis_lock('leader')");
$incident->seen(has('key_wait_seconds{key="leader",kind="reentrant"', qr/[1-9]\S*/));
like($incident->look('LockRedisLongHold'), qr/^@{[ $one->pid ]}\|.*\|leader\|.*\|idle\|/m, 'stuck: who');
$incident->do('LockRedisLongHold', undef, pid => $one->pid);
is($two->wait->error, undef, 'stuck: the next one has it');
$two->query("SELECT redis_unlock('leader')");
$incident->over([ has('locks_held{kind="reentrant"', 0) ],
	'LockRedisLongHold{key="leader"}', 'LockRedisLongWait{key="leader"}');
$one->quit;
$one = $node->session;

$incident = $alerts->begin('a crowd');
$one->query("SELECT redis_lock('crowd')");
append_to_file($PostgreSQL::Test::Utils::tmp_check . '/crowd.sql', "SELECT redis_try_lock('crowd', '1h');\n");
my $crowd = LockRedis::Program::start_program($PostgreSQL::Test::Utils::log_path . '/621_alerts_pgbench.log',
	'pgbench', '-n', '-c', 101, '-j', 1, '-t', 1, '-f', $PostgreSQL::Test::Utils::tmp_check . '/crowd.sql',
	$node->connstr('postgres'));
$node->wait_for_waiters('crowd', 101);
$incident->seen(has('locks_waiting{kind="reentrant"', 101));
like($incident->look('LockRedisManyWaiting'), qr/^crowd\|101$/m, 'a crowd: for what');
$one->query("SELECT redis_unlock('crowd')");
poll_until('the crowd to have gone', sub { waitpid($crowd, 1) != 0 });
$incident->over([ has('locks_held{kind="reentrant"', 0), has('locks_waiting{kind="reentrant"', 0) ],
	'LockRedisManyWaiting', 'LockRedisLongWait{key="crowd"}');

$incident = $alerts->begin('max_locks is used up');
$one->query_fails("SELECT redis_lock('s' || i) FROM generate_series(1, 201) i", '53400', qr/out of slots/, 'used up');
$incident->seen(has('stats_slots', 200), has('stats_max_slots', 200), has('stats_slot_refusals', 1));
like($incident->look('LockRedisSlotsUsedUp'), qr/^\w+\|s\d+\|/m, 'used up: by whom');
like($incident->look('LockRedisSlotsRefused'), qr/^200\|1$/m, 'used up: one refused');
$incident->do('LockRedisSlotsRefused', undef, pid => $one->pid);
$incident->over([ has('stats_slots', 0) ], 'LockRedisSlotsUsedUp', 'LockRedisSlotsRefused');
$one->quit;
$one = $node->session;

$incident = $alerts->begin('a deadlock');
$one->query("SELECT redis_lock('x')");
$two->query("SELECT redis_lock('y')");
$node->queue_up('x', $two => "SELECT redis_lock('x')");
$one->start("SELECT redis_lock('y')");
poll_until('one of them to end', sub { !$one->is_running || !$two->is_running });
my ($victim, $other) = $one->is_running ? ($two, $one) : ($one, $two);
$victim->wait->fails('40P01', qr/deadlock/, 'a deadlock');
$victim->query('SELECT redis_unlock_all()');
is($other->wait->error, undef, 'the other one goes on');
$incident->seen(has('stats_deadlocks', 1));
$other->query('SELECT redis_unlock_all()');
$incident->over([ has('locks_held{kind="reentrant"', 0) ], 'LockRedisDeadlocks');

# ----------
# Metrics
# ----------

$incident = $alerts->begin('no metrics, although the exporter answers');
$node->value('REVOKE USAGE ON SCHEMA lockredis FROM exporter');
$incident->seen(qr/\A(?!.*^lockredis_).*^up 1$/ms);
my $exporter = $node->session(user => 'exporter');
$exporter->query_fails($_, '42501', qr/permission denied/, 'no metrics: why')
  foreach $alerts->steps('LockRedisNoMetrics', 'See');
$exporter->quit;
$node->value('GRANT USAGE ON SCHEMA lockredis TO exporter');
$incident->over([ has('stats_acquires', qr/\d+/) ], 'LockRedisNoMetrics');

$incident = $alerts->begin('no exporter');
$alerts->exporter->stop;
$incident->seen(qr/\Aup 0\z/);
$alerts->exporter->start;
$incident->over([ has('stats_acquires', qr/\d+/) ], 'LockRedisNoMetrics');

$alerts->exporter->stop;
end_test($node, $redis);
