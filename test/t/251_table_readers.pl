# Copyright (c) 2026, lockredis contributors

# Read-write locks in table mode: the queue of readers and writers; programs that have
# only SQL meet readers, take a key away from them, and are at their rows with an open
# transaction; ends of the worker, of sessions and of the server; a table that is not there yet.
# Proves G1, G5, G25, G29.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my ($node, $one, $two, $three) = LockRedis::Node->create(
	'main', sessions => 3, redis => $table, settings => { 'lockredis.lease' => '10min' });

sub shares
{
	return $node->value("SELECT count(*) FROM redis_lock_shares WHERE key = '$_[0]'");
}

# ----------
# Who is next
# ----------

# A writer that waits goes before readers that come later; they go together then.
$one->query("SELECT redis_read_lock('a')");
$two->start("SELECT redis_write_lock('a')");
$node->wait_for_waiters('a', 1);
$three->query_is("SELECT redis_try_read_lock('a')", 'f', 'a reader that comes later');
my @readers = map { $node->session } 1 .. 3;
$_->start("SELECT redis_read_lock('a')") foreach @readers;
$node->wait_for_waiters('a', 4);
$one->query_is("SELECT redis_read_lock('a')", '', 'one that is there may go on');
$one->query_is("SELECT redis_read_unlock('a'), redis_read_unlock('a')", 't|t');
is($two->wait(60)->error, undef, 'the writer is next');
ok($_->is_running, 'a reader waits') foreach @readers;
$two->query_is("SELECT redis_write_unlock('a')", 't');
is($_->wait(60)->error, undef, 'and reads then') foreach @readers;
is_deeply($table->hash('a'), { readers => 3 }, 'with the others');
$readers[0]->quit;
$readers[1]->terminate;
poll_until('both gone', sub { shares('a') == 1 });
is_deeply($table->hash('a'), { readers => 1 }, 'ends of sessions');
$readers[2]->query_is("SELECT redis_read_unlock('a')", 't');
is($table->cmd('EXISTS', 'a') + shares('a'), 0, 'nothing is left');
$readers[2]->quit;

# Who gives up, or has asked, leaves nothing.
$one->query("SELECT redis_read_lock('b')");
$two->query_is("SELECT redis_try_write_lock('b', '100ms')", 'f', 'at its limit');
$two->start("SELECT redis_write_lock('b')");
$node->wait_for_waiters('b', 1);
$two->cancel;
$two->wait(60)->fails('57014', qr/cancel/, 'cancelled');
$three->query_is("SELECT redis_try_read_lock('b'), redis_read_unlock('b')", 't|t',
	'readers need not wait for it');
$one->query_is("SELECT redis_read_unlock('b')", 't');

# ----------
# Rows that somebody changes
# ----------

$one->query("SELECT redis_read_lock('c')");
$two->query("SELECT redis_read_lock('c')");
is($node->value("SELECT redis_lock_owner('c')"), '2 readers', 'who has it');

# It is taken away from both, and is given to a reader anew before they know.
$node->value("DELETE FROM redis_lock_rows WHERE key = 'c'");
$one->query_is("SELECT redis_extend('c', '20 min', 'read')", 'f', 'the first finds out');
is(shares('c'), 1, 'and has no share any more');
$three->query_is("SELECT redis_try_read_lock('c')", 't', 'a new reader');
is_deeply($table->hash('c'), { readers => 1 }, 'is alone');
is(shares('c'), 1, 'with its share');
$two->query_is("SELECT redis_extend('c', '20 min', 'read')", 'f',
	'the second had it together with the first, not with him');
foreach my $session ($one, $two)
{
	$session->query_warns("SELECT redis_read_unlock('c')", 'f', '01000', qr/lost/, 'told');
}
$three->query_is("SELECT redis_extend('c', '20 min', 'read'), redis_read_unlock('c')", 't|t',
	'who came later is not disturbed');
is($table->cmd('EXISTS', 'c') + shares('c'), 0, 'nothing is left');

# Somebody else has it instead.
$one->query("SELECT redis_read_lock('d')");
$node->value("DELETE FROM redis_lock_rows WHERE key = 'd'");
ok($table->take('d', 'somebody', '1h'), 'of somebody else');
my $somebody = $table->somebody('somebody');
$one->query_is("SELECT redis_extend('d', '20 min', 'read')", 'f', 'lost');
$one->query_warns("SELECT redis_read_unlock('d')", 'f', '01000', qr/\Q$somebody\E/, 'to whom');
is_deeply($table->hash('d'), { somebody => 1 }, 'who keeps it');
is(shares('d'), 0, 'there is no share');
$node->value("DELETE FROM redis_lock_rows WHERE key = 'd'");

# A row is deleted under a writer who reads too.
$one->query("SELECT redis_write_lock('e'), redis_read_lock('e')");
$node->value("DELETE FROM redis_lock_rows WHERE key = 'e'");
$one->query_is("SELECT redis_extend('e', '20 min', 'write')", 'f', 'the write lock is lost');
$one->query_is("SELECT redis_extend('e', '20 min', 'read')", 'f', 'and the read lock');
$one->query('SELECT redis_unlock_all()');
is(shares('e'), 0, 'there is no share');

# Somebody is at a row with an open transaction: nothing is done by halves.
my $blocker = $node->session;
foreach my $what ('rows', 'shares')
{
	$one->query("SELECT redis_read_lock('f')");
	$two->query("SELECT redis_read_lock('f')");
	$blocker->query("BEGIN; SELECT FROM redis_lock_$what WHERE key = 'f' FOR UPDATE");
	$one->query("SELECT redis_read_unlock('f')");
	is_deeply($table->hash('f'), { readers => 2 }, "$what: both count");
	is(shares('f'), 2, "$what: both have a share");
	$blocker->query('ROLLBACK');
	poll_until("$what: the watchdog has given it back", sub { shares('f') == 1 });
	is_deeply($table->hash('f'), { readers => 1 }, "$what: once");
	$two->query_is("SELECT redis_read_unlock('f')", 't');
	is($table->cmd('EXISTS', 'f') + shares('f'), 0, "$what: nothing is left");
}
$blocker->quit;

# ----------
# Forms
# ----------

# A library that is newer than the extension.
$node->safe_psql('postgres', 'ALTER TABLE redis_lock_shares RENAME TO away');
$one->query_fails("SELECT redis_read_lock('g')", '55000', qr/has (another|no)/,
	'no such table');
$one->query_is("SELECT redis_try_lock('g'), redis_unlock('g')", 't|t', 'other locks');
$node->safe_psql('postgres', 'ALTER TABLE away RENAME TO redis_lock_shares');
$one->query_is("SELECT redis_try_read_lock('g'), redis_read_unlock('g')", 't|t',
	'it is there again');

# ----------
# Ends
# ----------

$one->query("SELECT redis_read_lock('h')");
$two->query("SELECT redis_read_lock('h')");
my $worker = $node->table_worker_pid;
$node->value("SELECT pg_terminate_backend($worker)");
poll_until('another worker',
	sub { my $new = $node->table_worker_pid; $new && $new != $worker });
$node->wait_for_up;
$three->query_is("SELECT redis_try_write_lock('h')", 'f', 'a new worker knows the readers');
$one->query_is("SELECT redis_read_unlock('h')", 't', 'who still have it');
is_deeply($table->hash('h'), { readers => 1 }, 'and count');
$three->start("SELECT redis_write_lock('h')");
$node->wait_for_waiters('h', 1);
$two->query_is("SELECT redis_read_unlock('h')", 't');
is($three->wait(60)->error, undef, 'the writer is next');
$three->query("SELECT redis_read_lock('h'), redis_write_unlock('h')");
is_deeply($table->hash('h'), { readers => 1 }, 'downgraded');

# A crash: all that was had is nobody's.
$one->query("SELECT redis_read_lock('i')");
$three->kill9;
poll_until('the server', sub { eval { $node->value('SELECT 1') } }, 120);
$node->wait_for_up;
my $after = $node->session;
$after->query_is("SELECT redis_try_write_lock('h'), redis_try_read_lock('i')", 't|t',
	'after a crash of the server');
is(shares('h'), 0, 'a share of before is gone with the row');
$after->query_is("SELECT redis_unlock_all()", 2);
poll_until('what is left is swept', sub { !$table->all_keys }, 60);
end_test($node, $table);
