# Copyright (c) 2026, lockredis contributors

# lockredis.idle_timeout: a connection of a session that nobody uses is closed,
# whatever the session is doing, and the next request makes another one.  Not while
# a lock call waits.  Locks that are held stay held.
#
# Proves G39.

use LockRedis::Ca;
use LockRedis::Test qw(:DEFAULT run);

my $idle_ms = 600;
my ($node, $redis, $one, $two) = servers(
	sessions => 2,
	settings => { 'lockredis.idle_timeout' => "${idle_ms}ms", 'lockredis.lease' => '9s' });

sub is_connected ($session, $store = undef)
{
	my $name = 'lockredis-session-' . $session->pid;

	return grep { $_->{name} eq $name } ($store || $redis)->clients;
}

sub is_closed ($session, $name, $store = undef)
{
	return poll_until("$name: the connection to be closed", sub { !is_connected($session, $store) });
}

# ----------
# What the session is doing
# ----------

run($one, "SELECT redis_lock('k')");
# It may be closed already.
is($node->lock_stat('connects'), 2, 'a connection is made on first use');
is_closed($one, 'an idle session');
poll_until('that to be counted', sub { $node->lock_stat('idle_closes') > 0 });
is($node->lock_stat('idle_closes'), 1, 'counted once');
$one->query_is("SELECT redis_unlock('k')", 't', 'and made again without a word');
is($node->lock_stat('connects'), 3, 'the watchdog, and twice the session');

run($one, "BEGIN; SELECT redis_xact_lock('k')");
is_closed($one, 'in a transaction');
is($redis->cmd('EXISTS', 'k'), 1, 'its lock stays');
$one->query_is('COMMIT', '', 'and is given back by the commit');
# A commit waits for that a moment, and leaves the rest to the watchdog.
$redis->wait_for_key('k', 0);

run($two, 'SELECT pg_advisory_lock(1)');
$one->start("SELECT redis_lock('k'), pg_advisory_lock(1)");
$node->wait_for_postgres_lock($one);
is_closed($one, 'in the middle of a query');
run($two, 'SELECT pg_advisory_unlock(1)');
is($one->wait->error, undef, 'which goes on');

# Errors end the time-outs of a session.
my $in_savepoint = "BEGIN; SELECT redis_xact_lock('z'); SAVEPOINT s; SELECT redis_is_locked('z')";

foreach (
	[ 'after an error', "SELECT redis_lock('k'), pg_advisory_unlock_all()", 'SELECT 1/0' ],
	[ 'in a transaction that has failed', "BEGIN; SELECT redis_xact_lock('x')", 'SELECT 1/0' ],
	[ 'after an exception block',
		"DO \$\$ BEGIN PERFORM redis_lock('k'); PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN END \$\$" ],
	[ 'in a savepoint that has failed', $in_savepoint, 'SELECT 1/0' ],
	[ 'after what was refused in one', $in_savepoint, 'SELECT 1/0', 'SELECT 1', 'ROLLBACK TO s' ],
	[ 'after what was refused in a transaction that has failed',
		"BEGIN; SELECT redis_is_locked('z')", 'SELECT 1/0', 'SELECT 1', 'ROLLBACK' ])
{
	my ($when, $asks, @then) = @$_;

	run($one, $asks);
	$one->query($_) foreach @then;
	is_closed($one, $when);
	$one->query('ROLLBACK');
}

# Others time out, too.
run($one, "SET idle_in_transaction_session_timeout = '1min'");
run($one, "BEGIN; SELECT redis_xact_lock('y'); SET LOCAL statement_timeout = '200ms'");
$one->query_fails('SELECT pg_sleep(60)', '57014', qr/statement timeout/);
is_closed($one, 'beside other time-outs');
run($one, 'ROLLBACK');
$one->query_is("SELECT redis_is_held('k')", 't', 'a lock of the session is held all the time');

# ----------
# A lock call keeps it
# ----------

$redis->foreign_lock('foreign', owner => 'elsewhere:1', ms => 600_000);
$node->queue_up('foreign', $two => "SELECT redis_lock('foreign')");
$redis->wait_for_subscribers('foreign', 1);
foreach my $round (1, 2)
{
	run($one, "SELECT redis_is_locked('k')");
	is_closed($one, "beside one that waits, $round");
}
ok(is_connected($two), 'who waits for a lock keeps the connection');
$redis->foreign_unlock('foreign');
is($two->wait->error, undef, 'and has the lock');
is_closed($two, 'afterwards');

# What no replica confirms is owed, and nobody reads it.
$redis->foreign_lock('owed', owner => 'elsewhere:1', ms => 600_000);
run($one, "SET lockredis.min_replicas = 1; SET lockredis.replica_timeout = '1s'");
$one->query_is("SELECT redis_try_lock('owed')", 'f', 'busy');
is_closed($one, 'behind an answer that is owed');
$redis->cmd('DEL', 'owed');
run($one, 'RESET lockredis.min_replicas; RESET lockredis.replica_timeout');

# ----------
# Settings
# ----------

$node->set('lockredis.idle_timeout' => '0');
run($_, "SELECT redis_is_locked('k')") foreach $one, $two;
pause(2 * $idle_ms / 1000);
ok(is_connected($one) && is_connected($two), '0: never');
$node->set('lockredis.idle_timeout' => '10min');
run($one, "SELECT redis_is_locked('k')");
$node->set('lockredis.idle_timeout' => "${idle_ms}ms");
pause(2 * $idle_ms / 1000);
ok(is_connected($one), 'an idle session goes by what it has read');
run($one, 'SELECT 1');
is_closed($one, 'a shorter time counts from the next statement');

# ----------
# TLS
# ----------

{
	my $ca = LockRedis::Ca->new('main');
	my $secure =
	  LockRedis::Redis->new(name => 'secure', tls => $ca->certificate('good'));

	run($_, 'SELECT redis_unlock_all()') foreach $one, $two;
	$node->set(
		'lockredis.idle_timeout' => '10min',
		'lockredis.tls_ca_file' => $ca->file,
		'lockredis.url' => $secure->tls_url);
	run($one, "SELECT redis_lock('k')");
	ok(is_connected($one, $secure), 'with TLS');
	$node->set('lockredis.idle_timeout' => "${idle_ms}ms");
	run($one, 'SELECT 1');
	is_closed($one, 'TLS', $secure);
	$one->query_is("SELECT redis_unlock('k')", 't', 'TLS: and made again');
	$_->quit foreach $one, $two;
	nothing_left($node, $secure);
}
done_testing();
