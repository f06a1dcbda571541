# Copyright (c) 2026, lockredis contributors

# Time limits of the server or the database are none of the table worker's: one that is shorter
# than one of its transactions would end it (FATAL; transaction_timeout, PostgreSQL 17), again
# and again.
#
#   an index of the tables' owner takes its time;  a session asks for a lock;  the worker
#   is longer about it than each limit
#
# Before PostgreSQL 17 all but lock_timeout are for statements of clients only, and
# cannot end a worker.
#
# Proves G25, G29.

use LockRedis::Test;

my $node = LockRedis::Node->create('main', mode => 'table');
my $admin = $node->session;
my @limits = qw(statement_timeout idle_in_transaction_session_timeout);

$node->wait_for_up;
push @limits, 'transaction_timeout'
  if $admin->value('SHOW server_version_num') >= 170000;

# Not for the connections of the test.
$ENV{PGOPTIONS} = join ' ', map { "-c $_=0" } @limits, 'lock_timeout';
$node->append_conf('postgresql.conf', "$_ = '30ms'") foreach @limits;
$node->append_conf('postgresql.conf', "lock_timeout = '1ms'");
$admin->query("ALTER DATABASE postgres SET $_ = '50ms'") foreach @limits;
$node->restart;
$node->wait_for_up;

$admin = $node->session;
my $one = $node->session;
my $worker = $node->table_worker_pid;

$admin->query(
	q{CREATE FUNCTION slow_to_write(key text) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$
	  BEGIN
		IF key = 'slow' THEN
			PERFORM pg_sleep(1);
		END IF;
		RETURN 1;
	  END $$;
	  CREATE INDEX slow ON redis_lock_rows (slow_to_write(key))});
$node->log_since_here;
$one->start("SELECT redis_lock('slow')");
$node->wait_for_event($worker, 'PgSleep');
is($one->wait(30)->error, undef, 'the lock is acquired');
$one->query_is("SELECT redis_unlock('slow')", 't', 'and given back');
is($node->table_worker_pid, $worker, 'the worker has not ended');
unlike($node->log_text, qr/terminating|canceling statement/, 'and nothing was canceled');

$_->quit foreach $admin, $one;
done_testing();
