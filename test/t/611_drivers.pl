# Copyright (c) 2026, lockredis contributors

# What docs/drivers.md and docs/poolers.md say of psycopg, SQLAlchemy, asyncpg, Active Record,
# HikariCP and redis-py is so: what they send, what stays in their pools, and that after a lost
# session-level lock the next user of the connection cannot commit, unless the pool gives back.
# Proves G10.

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

sub output_of
{
	my (@command) = @_;
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
# JDBC
# ----------

IPC::Run::run(
	[
		'java', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn', '-cp',
		LockRedis::Redisson->build, "$top/test/interop/drivers/Pool.java",
		"jdbc:postgresql://$address?user=$user"
	],
	'>', \my $out, '2>', \my $err);
is($out, <<'END', 'HikariCP') or diag $err;
left in the pool: left
at work: nightly-report
a failure
left in the pool: nothing
END

# What JDBC's setString sends
$one->query_fails("PREPARE p (varchar, varchar) AS SELECT redis_try_lock(\$1, \$2)",
	'42883', qr/function redis_try_lock\(character varying, character varying\) does not exist/,
	'two strings: there is no such function');
$one->query_is("PREPARE p (varchar, varchar) AS SELECT redis_try_lock(\$1, \$2::interval)",
	'', 'with ::interval there is one');

end_test($node, $redis);
