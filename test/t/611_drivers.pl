# Copyright (c) 2026, lockredis contributors

# What docs/drivers.md and docs/poolers.md say of psycopg, SQLAlchemy, asyncpg, Active Record,
# Django, HikariCP, JPA (Hibernate with Spring's transactions) and redis-py is so: what they send,
# which statements run in a transaction, what a lost lock raises, what stays in their pools, and
# that after a lost session-level lock the next user of the connection cannot commit, unless the
# pool gives back.
#
# And what docs/waiting.md says of time limits that a client keeps by itself.
# - node-postgres: query_timeout leaves a session that waits.  With client.release() it gets
#   the lock later, which stays with the pooled connection and is renewed; with
#   client.release(error) the session ends when it has got the lock.
# - pgjdbc: setQueryTimeout ends the wait; socketTimeout closes the connection, and the session
#   waits on.
# Proves G4, G10.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Examples;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;
use PostgreSQL::Test::Utils;

LockRedis::Redisson->need;
LockRedis::TokenClient->need;
LockRedis::Examples->need;

my $top = abs_path(dirname(__FILE__) . '/../..');
# JDBC knows no unix sockets.
my ($node, $redis, $one) = servers(
	sessions => 1, patient => 1, settings => { listen_addresses => '127.0.0.1' });
my $address = '127.0.0.1:' . $node->port . '/postgres';
my $user = getpwuid $>;
my %place = (
	PYTHONPATH => "$top/test/interop/tokens/target/python",
	PGHOST => '127.0.0.1',
	PGPORT => $node->port,
	PGDATABASE => 'postgres',
	PGUSER => $user);
$node->value('CREATE TABLE report (who text)');

sub output_of (@command)
{
	local @ENV{ keys %place } = values %place;

	IPC::Run::run(\@command, '>', \my $out, '2>', \my $err);
	return $out . $err;
}

my $dsn = "postgresql://$user\@$address";
my $port = $redis->port;

$one->query("SELECT redis_lock('hash')");
is(output_of('python3', '-c', <<"END"), "2D000\nt\nTrue\nFalse\nlocked: WRONGTYPE\nowned: WRONGTYPE\n", 'psycopg and redis-py');
import psycopg, redis
with psycopg.connect("$dsn") as connection:
    try:
        connection.execute("SELECT 1")
        connection.execute("CALL redis_with_lock('job', 'SELECT 1')")
    except psycopg.Error as error:
        print(error.sqlstate)
with psycopg.connect("$dsn", autocommit=True) as connection:
    print(str(connection.execute("CALL redis_with_lock('job', 'SELECT 1')").fetchone()[0])[0].lower())
    print(connection.execute("SELECT redis_try_lock(%s, %s::interval)", ("job", "5 s")).fetchone()[0])
client = redis.Redis(port=$port)
lock = client.lock("hash", timeout=60)
print(lock.acquire(blocking=False))
for name in "locked", "owned":
    try:
        getattr(lock, name)()
    except redis.ResponseError as error:
        print(name + ": " + str(error).split()[0])
END
$one->query("SELECT redis_unlock('hash')");

is(output_of('python3', '-c', <<"END"), "2D000\n40001\nt\nt\nkept: job\nkept: None\ncommitted\n", 'SQLAlchemy');
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
url = "postgresql+psycopg://$user\@$address"
kept = text("SELECT string_agg(key, ' ') FROM redis_locks WHERE pid = pg_backend_pid()")
plain = create_engine(url)
with plain.connect() as connection:
    try:
        connection.execute(text("SELECT 1"))
        connection.execute(text("CALL redis_with_lock('job', 'SELECT 1')"))
    except DBAPIError as error:
        print(error.orig.sqlstate)
try:
    with Session(plain) as session, session.begin(), plain.connect() as other:
        session.execute(text("SELECT redis_xact_lock(:key)"), {"key": "nightly-report"})
        session.execute(text("INSERT INTO report VALUES ('never')"))
        other.execute(text("SELECT redis_force_unlock('nightly-report')"))
except DBAPIError as error:
    print(error.orig.sqlstate)
with plain.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    print(str(connection.execute(text("CALL redis_with_lock('job', 'SELECT 1')")).scalar())[0].lower())
plain.dispose()
engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)
with engine.connect() as connection:
    print(str(connection.execute(text("CALL redis_with_lock('job', 'SELECT 1')")).scalar())[0].lower())
    connection.execute(text("SELECT redis_lock('job')"))
with engine.connect() as connection:
    print("kept:", connection.execute(kept).scalar())
\@event.listens_for(engine, "reset")
def give_back_locks(dbapi_connection, connection_record, reset_state):
    if not reset_state.terminate_only:
        dbapi_connection.rollback()
        dbapi_connection.cursor().execute("SELECT redis_unlock_all()")
    dbapi_connection.rollback()
with engine.connect() as connection:
    pass
with engine.connect() as connection:
    print("kept:", connection.execute(kept).scalar())
    connection.execute(text("SELECT redis_lock('job')"))
    with plain.connect() as other:
        other.execute(text("SELECT redis_force_unlock('job')"))
with engine.connect() as connection:
    connection.execute(text("INSERT INTO report VALUES ('sqlalchemy')"))
    print("committed")
engine.dispose()
END

# ----------
# After a lost lock, with what docs/drivers.md has pools run and without it
# ----------

my $page = slurp_file("$top/docs/drivers.md");
my ($give_back) = $page =~ /^(async def give_back.*?\n)\n/ms;
is( output_of(LockRedis::Examples->folder('asyncpg') . '/.venv/bin/python', '-c', <<"END"),
import asyncio, datetime, asyncpg
$give_back
async def use(**options):
    other = await asyncpg.connect()
    async with asyncpg.create_pool(min_size=1, max_size=1, **options) as pool:
        async with pool.acquire() as connection:
            await connection.execute("SELECT redis_lock('job')")
            await other.execute("SELECT redis_force_unlock('job')")
        async with pool.acquire() as connection:
            try:
                await connection.execute("INSERT INTO report VALUES ('asyncpg')")
                print("committed")
            except asyncpg.PostgresError as error:
                print(error.sqlstate)
            await connection.execute("SELECT redis_unlock_all()")
            for wait in datetime.timedelta(seconds=5), "5 s":
                try:
                    print(await connection.fetchval("SELECT redis_try_lock(\$1, \$2)", "job", wait))
                except asyncpg.DataError as error:
                    print("a string is no interval")
            await connection.execute("SELECT redis_unlock_all()")
    await other.close()
asyncio.run(use())
asyncio.run(use(reset=give_back))
END
	"55000\nTrue\na string is no interval\ncommitted\nTrue\na string is no interval\n",
	'asyncpg');

my ($callback) = $page =~ /^(ActiveRecord::ConnectionAdapters.*?^end\n)/ms;
is(output_of('ruby', '-e', <<"END"), "55000\ncommitted\n1 of 2\n", 'Active Record');
require "active_record"
ActiveRecord::Base.establish_connection(adapter: "postgresql", pool: 1, min_messages: "error")
pool = ActiveRecord::Base.connection_pool
use = lambda do
  pool.with_connection do |connection|
    connection.execute("SELECT redis_lock('job')")
    PG.connect.exec("SELECT redis_force_unlock('job')")
  end
  pool.with_connection do |connection|
    begin
      connection.execute("INSERT INTO report VALUES ('rails')")
      puts "committed"
    rescue ActiveRecord::StatementInvalid => error
      puts error.cause.result.error_field(PG::Result::PG_DIAG_SQLSTATE)
    end
    connection.execute("SELECT redis_unlock_all()")
  end
end
use.call
$callback
use.call
pool.with_connection do |connection|
  connection.cache { 2.times { connection.select_value("SELECT redis_try_lock('job')") } }
  puts "#{connection.select_value("SELECT redis_hold_count('job')")} of 2"
end
END

# ----------
# Django
# ----------

my ($block) = $page =~ /^(with transaction\.atomic.*?^    build_report\(\)\n)/ms;
($give_back) = $page =~ /^(\@receiver.*?)^```/ms;

$block =~ s/^/    /gm;

my $said = output_of('python3', '-c', <<"END");
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql",
    "NAME": "postgres", "HOST": "127.0.0.1", "PORT": $place{PGPORT}, "USER": "$user", "CONN_MAX_AGE": None}})
django.setup()
from django.core.signals import request_finished
from django.db import Error, connection, connections, transaction
from django.dispatch import receiver
other = connections.create_connection("default")
def ask(sql, *parameters, by=connection):
    with by.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0] if cursor.description else None
def build_report():
    ask("INSERT INTO report VALUES ('django')")
    ask("SELECT redis_force_unlock('nightly-report')", by=other)
def report():
$block
def job():
    with transaction.atomic():
        return ask("CALL redis_with_lock('job', 'SELECT 1')")
def kept():
    return ask("SELECT string_agg(key, ' ') FROM redis_locks WHERE pid = pg_backend_pid()")
def next_request():
    ask("SELECT redis_lock('left')")
    ask("SELECT redis_force_unlock('left')", by=other)
    request_finished.send(None)
    ask("INSERT INTO report VALUES ('django')")
    return "committed"
def see(name, what):
    try:
        print(name + ":", what())
    except Error as error:
        print(name + ":", type(error).__name__, error.__cause__.sqlstate)
see("lost", report)
see("job", lambda: ask("CALL redis_with_lock('job', 'SELECT 1')"))
see("job in a transaction", job)
see("interval", lambda: ask("SELECT redis_try_lock(%s, %s)", "left", "5 s"))
request_finished.send(None)
see("kept", kept)
see("the next user", next_request)
ask("SELECT redis_unlock_all()")
connection.close()
connection.settings_dict["CONN_MAX_AGE"] = 0
ask("SELECT redis_lock('left')")
request_finished.send(None)
print("without CONN_MAX_AGE:", "open" if connection.connection else "closed")
connection.settings_dict["CONN_MAX_AGE"] = None
$give_back
ask("SELECT redis_lock('left')")
request_finished.send(None)
see("kept", kept)
see("the next user", next_request)
END
is($said, <<'END', 'Django');
lost: OperationalError 40001
job: True
job in a transaction: InternalError 2D000
interval: True
kept: left
the next user: OperationalError 55000
without CONN_MAX_AGE: closed
kept: None
the next user: committed
END

# ----------
# JDBC
# ----------

sub output_of_java ($program, @arguments)
{
	IPC::Run::run(
		[
			'java', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off', '-cp',
			LockRedis::Redisson->build, "$top/test/interop/drivers/$program.java",
			"jdbc:postgresql://$address?user=$user", @arguments
		],
		'>', \my $out, '2>', \my $err);
	note $err;
	return $out;
}

is(output_of_java('Pool'), <<'END', 'HikariCP');
left in the pool: left
at work: nightly-report
a failure
left in the pool: nothing
END

is(output_of_java('Jpa'), <<'END', 'JPA');
lock: nightly-report
afterwards: null
a cast: true
two colons: IllegalArgumentException
lost: CannotAcquireLockException repeated 40001
redis_with_lock: GenericJDBCException 2D000
END

like($page, qr/\Q"SELECT redis_xact_lock(:key)"/, 'the statement of the page is what was run');
is($node->value("SELECT count(*) FROM report WHERE who = 'django'"), 1, 'what was committed');

# What JDBC's setString sends
$one->query_fails("PREPARE p (varchar, varchar) AS SELECT redis_try_lock(\$1, \$2)",
	'42883', qr/function redis_try_lock\(character varying, character varying\) does not exist/,
	'two strings: there is no such function');
$one->query_is("PREPARE p (varchar, varchar) AS SELECT redis_try_lock(\$1, \$2::interval)",
	'', 'with ::interval there is one');

# ----------
# Time limits that a client keeps by itself
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
	$node_js = IPC::Run::start([ 'node', '-e', $program, $dsn ],
		'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(limit(600)));
}

# The next line that it says
sub says ($expected, $name)
{
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

$one->query("SELECT redis_lock('k')");
is(output_of_java('Timeouts', limit(6)), <<'END', 'JDBC');
setQueryTimeout: 57014
held: false
socketTimeout: 08006
closed: true
END
is($node->count_locks('waiting_since IS NOT NULL'), 1, 'the session of the closed connection waits');
$one->query_is("SELECT redis_unlock('k')", 't', 'given back');
end_test($node, $redis);
