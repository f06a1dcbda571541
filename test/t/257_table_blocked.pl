# Copyright (c) 2026, lockredis contributors

# A table or a row that somebody has locked says nothing of who has a key.  Who asks asks again
# for as long as a request may take, and is refused then (55P03); nobody is told that the
# key is busy, nothing is left locked or in a queue by who was refused, and those whose rows are
# not locked are not held up.
# Proves G6, G25, G29.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my $table = LockRedis::Table->new;
my ($node, $one, $two, $three, $admin) = LockRedis::Node->create(
	'main', sessions => 4,
	redis => $table,
	settings => {
		'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => '2s',
		log_lock_waits => 'on',
		deadlock_timeout => '20ms'
	});
my $worker = $node->table_worker_pid;

$node->safe_psql('postgres', 'CREATE TABLE ran (n int)');

sub patient { $node->set('lockredis.command_timeout' => '60s'); return }
sub impatient { $node->set('lockredis.command_timeout' => '2s'); return }

# TAP: refused, as a row or a table is locked; asked once more if the worker did not come to
# say so in time.
sub is_blocked ($session, $sql, $name)
{
	my $result;

	$session->start($sql) if !$session->{running};
	poll_until(
		"an answer to $sql",
		sub {
			$result = $session->{running} ? $session->wait(limit(20)) : $session->query($sql);
			return ($result->sqlstate // '') ne '58030';
		});
	return $result->fails('55P03', qr/blocked by another transaction/, $name);
}

# ----------
# What is free is not said to be taken
# ----------

my @asks = map { "SELECT $_" } (
	"redis_try_lock('k1')", "redis_lock('k2')", "redis_try_lock('k3', '10 ms')",
	"redis_try_xact_lock('k4')", "redis_try_fenced_lock('k5')", "redis_try_read_lock('k6')",
	"redis_try_write_lock('k7')", "redis_try_fair_lock('k8')",
	"redis_try_token_lock('k9', '0', '1h', 't')", "redis_try_permit_lock('k10')",
	"redis_try_semaphore_acquire('k11', 1)", "redis_latch_wait('k12', '10 ms')",
	"redis_permit_total('k13')", "redis_semaphore_available('k14')",
	"redis_token_unlock('k15', 't')");
my $keys = scalar @asks;
my %ways = (
	'the tables' => 'LOCK TABLE redis_lock_rows, redis_lock_shares, redis_lock_values',
	'a REINDEX' => 'REINDEX TABLE redis_lock_rows; REINDEX TABLE redis_lock_values',
	'rows that are inserted' => qq{
		INSERT INTO redis_lock_rows (key, owner, lease, expires_at)
		SELECT 'k' || i, 'x', '1 h', 'infinity' FROM generate_series(1, $keys) i;
		INSERT INTO redis_lock_values
		SELECT 'k' || i, kind, 1 FROM generate_series(1, $keys) i,
			unnest('{permit,semaphore,latch}'::text[]) kind});
my @sessions = map { $node->session } @asks;
foreach my $way (sort keys %ways)
{
	$admin->query("BEGIN; $ways{$way}");
	$sessions[$_]->start($asks[$_]) foreach 0 .. $#asks;
	is_blocked($sessions[$_], $asks[$_], "$way: $asks[$_]") foreach 0 .. $#asks;
	is_blocked($one, "CALL redis_with_lock('k1', 'INSERT INTO ran VALUES (1)')",
		"$way: a job is not skipped");

	# In time.
	patient();
	$one->start("SELECT redis_try_lock('k1')");
	$node->wait_for_waiters('k1', 1);
	$admin->query('ROLLBACK');
	is($one->wait(limit(60))->value, 't', "$way: when it is over it is acquired");
	$one->query_is("SELECT redis_unlock('k1')", 't', "$way: given back");
	impatient();
}
is($node->value('SELECT count(*) FROM ran'), 0, 'no job has run');
$_->quit foreach @sessions;

# ----------
# Others go on
# ----------

# Several keys of one session, one of which is blocked.
$one->query("SELECT redis_lock('h' || i) FROM generate_series(1, 9) i");
$admin->query("BEGIN; SELECT FROM redis_lock_rows WHERE key = 'h5' FOR UPDATE");
$one->query_warns('SELECT redis_unlock_all()', '9', '55P03', qr/blocked/, 'all but one');
is(join(' ', $table->all_keys), 'h5', 'are given back');
$admin->query('ROLLBACK');
poll_until('the watchdog to give back the last', sub { !$table->all_keys });

# At the end of a transaction nobody waits; the watchdog sees to it.
$one->query("BEGIN; SELECT redis_xact_lock('h')");
$admin->query('BEGIN; LOCK TABLE redis_lock_rows');
patient();
is($one->query('COMMIT', limit(50))->error, undef, 'COMMIT does not wait for it');
impatient();
$admin->query('ROLLBACK');
poll_until('the watchdog to give it back', sub { !$table->all_keys });

# The sweep cannot delete this row, which does not count for another lease nevertheless.
$three->query("SELECT redis_lock('swept', '9s')");
$admin->query("BEGIN; SELECT FROM redis_lock_rows WHERE key = 'swept' FOR KEY SHARE");
$node->wait_for_loss('swept');
$two->query("INSERT INTO redis_lock_rows (key, owner, lease, expires_at) VALUES ('x', 'x', '0', 'infinity')");
poll_until('a sweep', sub { join(' ', $table->all_keys) eq 'swept' });
$two->query_is("SELECT redis_is_locked('swept')", 'f', 'nobody has it once its lease is over');
$three->query_warns("SELECT redis_unlock('swept')", 'f', '01000', qr/Its lease expired/, 'it is told');
$admin->query('ROLLBACK');
poll_until('nothing to be left', sub { !$table->all_keys });

# ----------
# Conditions
# ----------

# Who wants to wait and cannot give the lock back is told that, and the lock goes.
$one->query("SELECT redis_lock('c')");
$admin->query("BEGIN; SELECT FROM redis_lock_rows WHERE key = 'c' FOR UPDATE");
$one->query_fails("SELECT redis_condition_wait('c')", '55P03', qr/blocked/, 'no wait for a condition');
$one->query_warns("SELECT redis_unlock('c')", 'f', '01000', qr/was lost/, 'the lock is told to be lost');
$admin->query('ROLLBACK');
poll_until('the key to be free', sub { !$table->all_keys });
$two->query_is("SELECT redis_lock('c'), redis_condition_notify('c'), redis_unlock('c')", '|0|t',
	'nobody waits for it');

# Who cannot ask any more, nor leave, is not told: the one behind him is.
$one->query("SELECT redis_lock('c')");
$one->start("SELECT redis_condition_wait('c', '1 min')");
poll_until('it to wait', sub { !$table->all_keys });
$admin->query('BEGIN; LOCK TABLE redis_lock_rows');
$one->wait(limit(30))->fails('55P03', qr/blocked/, 'it cannot ask whether it was told');
$admin->query('ROLLBACK');
$one->query('SELECT redis_unlock_all()');
poll_until('the watchdog to have it leave', sub { $node->count_locks == 0 });
$two->query("SELECT redis_lock('c')");
$two->start("SELECT redis_condition_wait('c', '1 min')");
poll_until('another one to wait', sub { !$table->all_keys });
$three->query_is("SELECT redis_lock('c'), redis_condition_notify('c'), redis_unlock('c')", '|1|t',
	'one is told');
is($two->wait(limit(30))->value, 't', 'who still waits');
$two->query_is("SELECT redis_unlock('c')", 't');

# ----------
# Who has it with others
# ----------

# The table of shares says who they are, and of permits that of numbers how many there are: while
# one of these is locked nobody is told that there is nobody, or that they have been taken away.
$three->query("SELECT redis_permit_init('permit', 2)");
foreach my $case (
	[ 'permit', 'LOCK TABLE redis_lock_shares' ],
	[ 'permit', 'LOCK TABLE redis_lock_values' ],
	[ 'permit', "SELECT FROM redis_lock_shares WHERE key = 'permit' FOR UPDATE" ],
	[ 'read', 'LOCK TABLE redis_lock_shares' ])
{
	my ($kind, $way) = @$case;

	$_->query("SELECT redis_${kind}_lock('$kind')") foreach $one, $two;
	$admin->query("BEGIN; $way");
	is_blocked($three, "SELECT redis_is_locked('permit')", "$way: whether there is anybody is not known")
	  if $kind eq 'permit' && $way =~ /^LOCK/;
	is_blocked($three, "SELECT redis_force_unlock('$kind')", "$kind: $way: nothing was taken away");
	$admin->query('ROLLBACK');
	$_->query_is("SELECT redis_is_held('$kind', '$kind')", 't', "$kind: $way: still held")
	  foreach $one, $two;
	$three->query_is("SELECT redis_force_unlock('$kind')", 't', "$kind: taken away");
	$_->query_is("SELECT redis_is_held('$kind')", 'f', "$kind: lost") foreach $one, $two;
	$_->query('SELECT redis_unlock_all()') foreach $one, $two;
}
$three->query_is("SELECT redis_permit_available('permit')", '2', 'permits are free');

# What the watchdog is to count, and was blocked, has not run: it is not given up after a time as
# what may have.
$three->query("SELECT redis_semaphore_init('s', 1)");
$admin->query("BEGIN; SELECT FROM redis_lock_values WHERE key = 's' FOR UPDATE");
my $stop = LockRedis::Debugger->new($node->watchdog_pid);
$stop->run_to('lt_answered');
$one->query($_) foreach 'BEGIN', "SELECT redis_semaphore_xact_release('s', 2)", 'COMMIT';
$stop->wait_for_stop;
$stop->let_go;
$admin->query('ROLLBACK');
poll_until('it to be counted', sub { $three->value("SELECT redis_semaphore_available('s')") == 3 });

unlike($node->log_text, qr/process $worker still waiting/, 'the worker has waited for nobody');
is($node->table_worker_pid, $worker, 'the worker is the same one');
end_test($node, $table);
