# Copyright (c) 2026, lockredis contributors

# What docs/waiting.md says of time limits that a client keeps by itself.
# - node-postgres: query_timeout leaves a session that waits.  With client.release() it gets
#   the lock later, which stays with the pooled connection and is renewed; with
#   client.release(error) the session ends when it has got the lock.
# - pgjdbc: setQueryTimeout ends the wait; socketTimeout closes the connection, and the session
#   waits on.
# Proves G4.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;

LockRedis::Redisson->need;
LockRedis::TokenClient->need;

my $top = abs_path(dirname(__FILE__) . '/../..');
# JDBC knows no unix sockets.
my ($node, $redis, $one) = servers(
	sessions => 1, patient => 1, settings => { listen_addresses => '127.0.0.1' });
my $address = '127.0.0.1:' . $node->port . '/postgres';
my $user = getpwuid $>;

# ----------
# node-postgres
# ----------

# Waits for a line before each step but the first
my $program = <<'END';
const { Pool } = require('pg');
const lines = require('readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const pool = new Pool({ connectionString: process.argv[1], max: 1 });

async function wait(release) {
  const client = await pool.connect();
  try {
    await client.query({ text: "SELECT redis_lock('k')", query_timeout: 500 });
    console.log('it has the lock');
  } catch (error) {
    console.log(error.message);
    release(client, error);
  }
}

async function main() {
  await wait((client, error) => client.release());
  await lines.next();
  const result = await pool.query('SELECT redis_unlock_all() AS n');
  console.log('left in the pool: ' + result.rows[0].n);
  await lines.next();
  await wait((client, error) => client.release(error));
  await lines.next();
  await pool.end();
  console.log('ended');
  process.exit(0);
}

main().catch((error) => { console.log(error); process.exit(1); });
END

my ($in, $out, $err) = ('', '', '');
my $node_js;
{
	local $ENV{NODE_PATH} = "$top/test/interop/tokens/target/node/node_modules";
	$node_js = IPC::Run::start([ 'node', '-e', $program, "postgresql://$user\@$address" ],
		'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(limit(600)));
}

# The next line that it says
sub says
{
	my ($expected, $name) = @_;

	$node_js->pump until $out =~ /\n/ || !$node_js->pumpable;
	my $line = $out =~ s/^(.*)\n// ? $1 : 'nothing';
	return is($line, $expected, $name) || diag $err;
}

$one->query("SELECT redis_lock('k')");
says('Query read timeout', 'query_timeout: an error');
$node->wait_for_waiters('k', 1);
$one->query_is("SELECT redis_unlock('k')", 't', 'its session still waits; the lock is given back');
poll_until('the pooled session to have the lock', sub { $node->count_locks('granted') == 1 });
poll_until('that to be idle', sub {
	$node->value('SELECT l.renewed, a.state FROM redis_locks l JOIN pg_stat_activity a USING (pid)') eq 't|idle' });
$in .= "go on\n";
says('left in the pool: 1', 'a reset query gives it back');

$one->query("SELECT redis_lock('k')");
$in .= "go on\n";
says('Query read timeout', 'query_timeout: an error, for release()');
$node->wait_for_waiters('k', 1);
$one->query_is("SELECT redis_unlock('k')", 't', 'its session still waits; the lock is given back');
poll_until('the lock to be given back', sub { $node->count_locks == 0 && !$redis->cmd('EXISTS', 'k') });
poll_until('the session to have ended', sub {
	$node->value("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'redis_lock\\(' AND pid NOT IN (pg_backend_pid(), @{[ $one->pid ]})") == 0 });
$in .= "go on\n";
says('ended', 'so has the pool');
$node_js->finish;

# ----------
# pgjdbc
# ----------

$one->query("SELECT redis_lock('k')");
IPC::Run::run(
	[
		'java', '-XX:TieredStopAtLevel=1', '-cp', LockRedis::Redisson->build,
		"$top/test/interop/drivers/Timeouts.java",
		"jdbc:postgresql://$address?user=$user", limit(6)
	],
	'>', \$out, '2>', \$err);
is($out, <<'END', 'JDBC') or diag $err;
setQueryTimeout: 57014
held: false
socketTimeout: 08006
closed: true
END
is($node->count_locks('waiting_since IS NOT NULL'), 1, 'the session of the closed connection waits');
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
end_test($node, $redis);
