# Copyright (c) 2026, lockredis contributors

# What drivers do with the errors of lockredis.  A store that fails, and what is refused, is no
# reason to close the connection to PostgreSQL; and only what may succeed when it is repeated is
# an exception that is repeated.  What they do close, and what they would repeat, shows that the
# test can tell.  The table in docs/reference.md has what HikariCP, Spring, psycopg, SQLAlchemy
# and Active Record make of each code.
# Proves G19.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::TokenClient;
use PostgreSQL::Test::Utils qw(slurp_file);

LockRedis::Redisson->need;
LockRedis::TokenClient->need;
need_tool('ruby');

my $top = abs_path(dirname(__FILE__) . '/../..');
# JDBC knows no unix sockets.
my ($node, $redis) = servers(settings => { listen_addresses => '127.0.0.1' });

$node->value(q{CREATE FUNCTION raise(code text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = code; END $$});

my ($in, $out) = ('', '');
my $java = IPC::Run::start(
	[
		'java', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off', '-cp',
		LockRedis::Redisson->build, "$top/test/interop/drivers/Errors.java",
		'jdbc:postgresql://127.0.0.1:' . $node->port . '/postgres?user=' . getpwuid $>
	],
	'<', \$in, '>', \$out, '2>', \my $err, IPC::Run::timeout(limit(600)));

sub said_by_java ($line)
{
	$out = '';
	$in .= "$line\n";
	$java->pump until $out =~ /\n/ || !$java->pumpable;
	chomp $out;
	return $out;
}

sub becomes ($sql, $expected, $name)
{
	return like(said_by_java($sql), qr/^$expected$/, $name) || diag $err;
}

# ---- codes that no error of lockredis has

becomes(q{SELECT raise('08006')},
	'08006 closed DataAccessResourceFailureException not repeated', 'class 08 closes');
becomes(q{SELECT raise('40002')}, '40002 kept PessimisticLockingFailureException repeated',
	'class 40 is repeated');

# ---- each code, and the table in docs/reference.md

# By code: the cells of HikariCP, Spring, psycopg with SQLAlchemy, and Active Record
my %table;

foreach my $row (slurp_file("$top/docs/reference.md") =~ /^### What drivers do\n(.*?)^## /ms ? $1 =~ /^\| ((?:\d|XX).*) \|$/mg : ())
{
	my ($codes, undef, @cells) = split / \| /, $row;

	$table{$_} = join ' | ', @cells foreach split /, /, $codes;
}
my @codes = sort keys %table;
cmp_ok(scalar @codes, '>', 20, 'there is a table');

# Only the end of a session is what PostgreSQL does itself.
sub sql_of ($code)
{
	return $code eq '57P01' ? 'SELECT pg_terminate_backend(pg_backend_pid())' : "SELECT raise('$code')";
}

my $calls = join "\n", map { "$_ " . sql_of($_) } @codes;
my $dsn = "postgresql+psycopg://@{[ scalar getpwuid $> ]}\@127.0.0.1:" . $node->port . '/postgres';

local $ENV{PYTHONPATH} = "$top/test/interop/tokens/target/python";
IPC::Run::run([ 'python3', '-c', <<"END" ], '<', \$calls, '>', \my $by_python, '2>', \my $python_errors);
import sys, psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
engine = create_engine("$dsn", pool_size=1, max_overflow=0)
for line in sys.stdin:
    code, sql = line.strip().split(" ", 1)
    try:
        with engine.connect() as connection:
            connection.execute(text(sql))
    except DBAPIError as error:
        name = type(error).__name__
        print(code, error.orig.sqlstate, "closed" if error.connection_invalidated else "kept", name,
            isinstance(error.orig, getattr(psycopg, name)))
END
local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ('127.0.0.1', $node->port, 'postgres');
IPC::Run::run([ 'ruby', '-e', <<'END' ], '<', \$calls, '>', \my $by_ruby, '2>', \my $ruby_errors);
require "active_record"
ActiveRecord::Base.establish_connection(adapter: "postgresql", pool: 1, min_messages: "error")
pool = ActiveRecord::Base.connection_pool
STDIN.each_line do |line|
  code, sql = line.chomp.split(" ", 2)
  pool.with_connection do |connection|
    connection.execute(sql)
  rescue ActiveRecord::ActiveRecordError => error
    puts "#{code} #{connection.active? ? "kept" : "closed"} #{error.class.name.split("::").last}"
    connection.reconnect! unless connection.active?
  end
end
END
my %python = map { /^(\w+) (.*)/ ? ($1 => $2) : () } split /\n/, $by_python;
my %ruby = map { /^(\w+) (.*)/ ? ($1 => $2) : () } split /\n/, $by_ruby;

foreach my $code (@codes)
{
	my $closed = $code eq '57P01' ? 'closed' : 'kept';
	my ($kept, $spring) = said_by_java(sql_of($code)) =~ /^$code (kept|closed) (.*)/;
	my ($python) = ($python{$code} // '') =~ /^$code $closed (\w+) True$/;
	my ($ruby) = ($ruby{$code} // '') =~ /^$closed (\w+)$/;

	$spring = ($spring // '') =~ /^(\w+Exception) (repeated)?/ ? "`$1`" . ($2 ? ', repeated' : '') : 'none';
	is(join(' | ', ($kept // '') eq 'kept' ? 'keeps' : 'closes', $spring, map { '`' . ($_ // '?') . '`' } $python, $ruby),
		$table{$code}, $code)
	  or diag join "\n", $err, $python{$code} // $python_errors, $ruby{$code} // $ruby_errors;
	is(said_by_java('plain ' . sql_of($code)), "$code $closed PSQLException", "$code: pgjdbc");
}

# ---- errors of lockredis

my $other = $node->session;

$other->query("SELECT redis_lock('busy')");
becomes(q{SET lock_timeout = 1; SELECT redis_lock('busy')},
	'55P03 kept not translated', 'somebody else has it');
becomes(q{SELECT redis_assert_held('busy')},
	'55000 kept not translated', 'not held');
becomes(q{SELECT redis_fence_check('f', 2), redis_fence_check('f', 1)},
	'23000 kept DataIntegrityViolationException not repeated', 'a stale token');
$redis->cmd('RPUSH', 'list', 'x');
becomes(q{SELECT redis_try_lock('list')}, '42809 kept BadSqlGrammarException not repeated',
	'something else');
$node->set('lockredis.session_locks' => 'off');
becomes(q{SELECT redis_lock('refused')}, '55000 kept not translated',
	'refused by a setting');
$node->set('lockredis.session_locks' => 'on');

# Out of reach, and silent: the session finds that out itself.
my $watchdog = $node->watchdog_pid;
kill STOP => $watchdog;
$redis->freeze;
becomes(q{SELECT redis_xact_lock('silent')},
	'58030 kept DataAccessResourceFailureException not repeated', 'no answer');
$redis->thaw;
kill CONT => $watchdog;
$redis->kill9;
poll_until('that to be seen',
	sub { $node->value("SELECT state FROM redis_lock_status") eq 'down' });
becomes(q{SELECT redis_try_lock('away')},
	'580[03]0 kept DataAccessResourceFailureException not repeated', 'out of reach');
$redis->start;
$node->wait_for_up;

# Redis, which was started later, has the pipe too: its end would not be seen.
$in .= "\n";
$java->finish;
$other->query('SELECT redis_unlock_all()');
$other->quit;
done_testing();
