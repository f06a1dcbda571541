# Copyright (c) 2026, lockredis contributors

# What HikariCP and Spring do with the errors of lockredis.  A store that fails, and what is
# refused, is no reason to close the connection to PostgreSQL; and only what may succeed when
# it is repeated is an exception that is repeated.  What they do close, and what they would
# repeat, shows that the test can tell.
# Proves G19.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::Wait qw(limit poll_until);

LockRedis::Redisson->need;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $redis = LockRedis::Redis->new;
# JDBC knows no unix sockets.
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	settings => {
		listen_addresses => '127.0.0.1',
		# The watchdog finds out as late as the session does.
		'lockredis.command_timeout' => '5s'
	});

$node->wait_for_up;
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

sub becomes
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$out = '';
	$in .= "$sql\n";
	$java->pump until $out =~ /\n/ || !$java->pumpable;
	chomp $out;
	return like($out, qr/^$expected$/, $name) || diag $err;
}

# ---- what they do with codes that are none of lockredis

becomes(q{SELECT raise('08006')},
	'08006 closed DataAccessResourceFailureException not repeated', 'class 08 closes');
becomes(q{SELECT raise('0A000')}, '0A000 closed not translated',
	'0A000 closes');
becomes(q{SELECT raise('53400')}, '53400 kept DataAccessResourceFailureException not repeated',
	'no slot');
becomes(q{SELECT raise('57P01')}, '57P01 closed DataAccessResourceFailureException not repeated',
	'what on_lost = terminate says closes');
becomes(q{SELECT raise('40002')}, '40002 kept PessimisticLockingFailureException repeated',
	'class 40 is repeated');
becomes("SELECT raise('40P01')", '40P01 kept PessimisticLockingFailureException repeated',
	'a deadlock, too');
becomes("SELECT raise('40001')", '40001 kept CannotAcquireLockException repeated',
	'and what cannot be serialized');

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

# Out of reach, and silent
$redis->freeze;
becomes(q{SELECT redis_xact_lock('silent')},
	'58030 kept DataAccessResourceFailureException not repeated', 'no answer');
$redis->thaw;
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
