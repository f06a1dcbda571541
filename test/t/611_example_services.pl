# Copyright (c) 2026, lockredis contributors

# The services of examples/ in Java, Python, Go and JavaScript, with their own lock
# libraries and drivers: each waits for what a session of ours has on its key, is let go on
# by its unlock, keeps others out while it works, and leaves nothing behind.  And what
# docs/drivers.md says of psycopg, SQLAlchemy, HikariCP and redis-py is so.
# Proves G1, G23.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;
use LockRedis::Wait qw(limit);
use PostgreSQL::Test::Utils;

LockRedis::Redisson->need;
LockRedis::TokenClient->need;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $built = "$top/test/interop/tokens/target";
my $redis = LockRedis::Redis->new;
# JDBC knows no unix sockets.
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => { listen_addresses => '127.0.0.1' });
my $address = '127.0.0.1:' . $node->port . '/postgres';
my $user = getpwuid $>;
my %place = (PYTHONPATH => "$built/python", NODE_PATH => "$built/node/node_modules");

$node->wait_for_up;
$node->value($_) foreach 'CREATE TABLE report (who text)',
  # Goes on when the test lets it
  q{CREATE PROCEDURE build_report(who text) LANGUAGE sql AS $$
	INSERT INTO report VALUES (who);
	SELECT pg_advisory_xact_lock_shared(1);
$$};

# Each with its kind of lock here: how that is taken, tried and given back, and what the
# program prints.
my $token = {
	take => "SELECT redis_token_lock(%s, '1 h', 'ours') IS NOT NULL",
	try => "SELECT redis_try_token_lock(%s, '0', '1 h', 'ours') IS NOT NULL",
	give_back => "SELECT redis_token_unlock(%s, 'ours')"
};
my $reentrant = {
	take => 'SELECT redis_lock(%s) IS NOT NULL',
	try => 'SELECT redis_try_lock(%s)',
	give_back => 'SELECT redis_unlock(%s)'
};
my %services = (
	java => {
		kind => $reentrant,
		command => [ 'java', '-XX:TieredStopAtLevel=1', '-cp', LockRedis::Redisson->build,
			"$top/examples/java/ReportService.java" ],
		url => "jdbc:postgresql://$address?user=$user",
		says => "busy\nbuilt\nbuilt in a transaction\n",
		rows => 2
	},
	python => {
		kind => $token,
		command => [ 'python3', "$top/examples/python/worker.py" ],
		says => "busy\na token lock\nbuilt\n"
	},
	go => { kind => $token, command => ["$built/service"], says => "busy\nbuilt\n" },
	node => {
		kind => $token,
		command => [ 'node', "$top/examples/node/service.js" ],
		says => "busy\nbuilt\n"
	});

sub start
{
	my ($command, $url, $key) = @_;
	my %program = (out => '', err => '');
	local @ENV{ keys %place } = values %place;

	$program{harness} = IPC::Run::start([ @$command, $url, 'redis://127.0.0.1:' . $redis->port, $key ],
		'<', \undef, '>', \$program{out}, '2>', \$program{err});
	return \%program;
}

sub has_said
{
	my ($program, $line) = @_;

	$program->{harness}->pump_nb;
	return 1 if $program->{out} =~ /^\Q$line\E$/m;
	die "it has ended:\n$program->{out}$program->{err}" unless $program->{harness}->pumpable;
	return 0;
}

my ($one, $gate) = ($node->session, $node->session);
my %running;
my $sql = sub { my ($name, $what) = @_; return sprintf $services{$name}{kind}{$what}, "'report:$name'" };

$gate->query('SELECT pg_advisory_lock(1)');
foreach my $name (sort keys %services)
{
	my $service = $services{$name};

	$one->query($sql->($name, 'take'));
	$running{$name} =
	  start($service->{command}, $service->{url} // "postgresql://$user\@$address", "report:$name");
}

foreach my $name (sort keys %services)
{
	poll_until("$name to be ready", sub { has_said($running{$name}, 'busy') }, 180);
	is($node->value("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'build_report' AND pid <> pg_backend_pid()"),
		0, "$name waits") if $name eq 'go';
}
$one->query_is($sql->($_, 'give_back'), 't', "$_: ours is given back") foreach sort keys %services;
poll_until(
	'all to be at work',
	sub {
		has_said($_, 'busy') foreach values %running;
		$node->value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 4;
	},
	180);
$one->query_is($sql->($_, 'try'), 'f', "$_: its lock keeps ours out") foreach sort keys %services;
is($node->value('SELECT count(*) FROM report'), 0, 'nothing is to be seen yet');
$gate->query('SELECT pg_advisory_unlock(1)');

foreach my $name (sort keys %services)
{
	my $program = $running{$name};

	poll_until("$name to end",
		sub { $program->{harness}->pump_nb; !$program->{harness}->pumpable }, 180);
	$program->{harness}->finish;
	is($program->{harness}->result(0), 0, "$name: ends well") or diag $program->{err};
	is($program->{out}, $services{$name}{says}, "$name: did what it says");
	is($node->value("SELECT count(*) FROM report WHERE who = '$name'"),
		$services{$name}{rows} // 1, "$name: and did it");
	is($redis->cmd('EXISTS', "report:$name"), 0, "$name: has given its lock back");
}

# ----------
# What docs/drivers.md says
# ----------

sub python
{
	my ($program) = @_;
	local @ENV{ keys %place } = values %place;

	IPC::Run::run([ 'python3', '-c', $program ], '>', \my $out, '2>', \my $err);
	return $out . $err;
}

my $dsn = "postgresql://$user\@$address";
my $port = $redis->port;

$one->query("SELECT redis_lock('hash')");
is(python(<<"END"), "2D000\nt\nTrue\nFalse\nlocked: WRONGTYPE\nowned: WRONGTYPE\n", 'psycopg and redis-py');
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

is(python(<<"END"), "2D000\nt\nkept: job\nkept: None\n", 'SQLAlchemy');
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
url = "postgresql+psycopg://$user\@$address"
kept = text("SELECT string_agg(key, ' ') FROM redis_locks WHERE pid = pg_backend_pid()")
plain = create_engine(url)
with plain.connect() as connection:
    try:
        connection.execute(text("SELECT 1"))
        connection.execute(text("CALL redis_with_lock('job', 'SELECT 1')"))
    except DBAPIError as error:
        print(error.orig.sqlstate)
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
engine.dispose()
END

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
$_->quit foreach $one, $gate;

nothing_left($node, $redis);
done_testing();
