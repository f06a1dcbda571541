# Copyright (c) 2026, lockredis contributors

# What docs/drivers.md says of Django and of JPA (Hibernate with Spring's transactions) is so:
# which statements run in a transaction, what a lost lock raises, and what gives back the locks
# that a kept connection still has.
# Proves G10.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;
use PostgreSQL::Test::Utils;

LockRedis::Redisson->need;
LockRedis::TokenClient->need;

my $top = abs_path(dirname(__FILE__) . '/../..');
# JDBC knows no unix sockets.
my ($node, $redis) = servers(patient => 1, settings => { listen_addresses => '127.0.0.1' });
my $port = $node->port;
my $user = getpwuid $>;

$node->value('CREATE TABLE report (who text)');

# ----------
# Django
# ----------

my $page = slurp_file("$top/docs/drivers.md");
my ($block) = $page =~ /^(with transaction\.atomic.*?^    build_report\(\)\n)/ms;
my ($give_back) = $page =~ /^(\@receiver.*?)^```/ms;

$block =~ s/^/    /gm;

$ENV{PYTHONPATH} = "$top/test/interop/tokens/target/python";
IPC::Run::run([ 'python3', '-c', <<"END" ], '>', \my $out, '2>', \my $err);
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql",
    "NAME": "postgres", "HOST": "127.0.0.1", "PORT": $port, "USER": "$user", "CONN_MAX_AGE": None}})
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
is($out, <<'END', 'Django') or diag $err;
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
# Hibernate with Spring's transactions
# ----------

IPC::Run::run(
	[
		'java', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off', '-cp',
		LockRedis::Redisson->build, "$top/test/interop/drivers/Jpa.java",
		"jdbc:postgresql://127.0.0.1:$port/postgres?user=$user"
	],
	'>', \$out, '2>', \$err);
is($out, <<'END', 'JPA') or diag $err;
lock: nightly-report
afterwards: null
a cast: true
two colons: IllegalArgumentException
lost: CannotAcquireLockException repeated 40001
redis_with_lock: GenericJDBCException 2D000
END

# What the page says of the lock and its statement is what was run.
like($page, qr/\Q"SELECT redis_xact_lock(:key)"/, 'the statement of the page');

is($node->value('SELECT string_agg(who, $$ $$) FROM report'), 'django', 'what was committed');
end_test($node, $redis);
