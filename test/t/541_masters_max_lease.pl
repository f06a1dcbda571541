# Copyright (c) 2026, lockredis contributors

# lockredis.max_lease: with independent masters no lease is longer, so one that has run for
# that long has a vote, whatever anybody has asked for.
#
# - a master that has run for longer than this machine votes at once
# - a longer lease, or hold_at_least, is refused for each call that takes one
# - a lock for 20 days that is asked for, or that somebody else has, takes no votes
# - a start with a lockredis.lease that is longer is refused, and so are a reload and SET of
#   it; the reload of a URL that makes it too long is told
# - with one Redis, and in a table, nothing is refused
#
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3, age => 100 * 86_400);
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create(
	'main',
	redis => $masters,
	settings => { 'lockredis.lease' => '4 s', 'lockredis.max_lease' => '24 d' });

sub votes { return $node->value('SELECT count(*) FROM redis_lock_status WHERE in_use'); }

sub wait_for_votes
{
	poll_until('all to have a vote', sub { votes() == 3 });
	return;
}

# By this machine's clock, which begins when that starts, their starts have negative times.
wait_for_votes();
pass('who has run for longer than this machine has a vote');
$node->append_conf('postgresql.conf', "lockredis.max_lease = '6 s'");
$node->restart;

wait_for_votes();
my $session = $node->session;

# ---- what is refused

foreach my $call (
	"redis_try_lock('k', '0', '20 days')",
	"redis_lock('k', '6001 ms')",
	"redis_xact_lock('k', '1 hour')",
	"redis_fenced_lock('k', '1 hour')",
	"redis_multi_lock(ARRAY['k', 'l'], '1 hour')",
	"redis_token_lock('k', '1 hour')",
	"redis_token_extend('k', 'token', '1 hour')",
	"redis_extend('k', '1 hour')")
{
	my $result = $session->query("SELECT $call");

	is($result->sqlstate, '22023', "$call is refused");
	like($result->error, qr/^lease must not be longer than "lockredis\.max_lease"/, 'in these words');
	like($result->hint, qr/without a lease, so that it is renewed.*"lockredis\.max_lease"/,
		'and the hint says what can be done');
}
foreach my $long ("lease => '1 hour'", "hold_at_least => '6001 ms'")
{
	$session->query_fails("CALL redis_with_lock('k', 'SELECT 1', $long)", '22023',
		qr/(lease|hold_at_least) must not be longer than "lockredis\.max_lease"/);
}
is_deeply([ $masters->all_keys ], [], 'nobody has anything of it');

$session->query_is("SELECT redis_try_lock('k', '0', '6 s'), redis_extend('k', '6 s'), redis_unlock('k')",
	't|t|t', 'as long as that it may be');
is($session->query("CALL redis_with_lock('k', 'SELECT 1', hold_at_least => '10 ms')")->error, undef,
	'and a key may stay locked for so long');

# ---- it takes no votes

is(votes(), 3, 'what was asked for takes no votes');
$masters->foreign_lock('f', owner => 'somebody', ms => 20 * 86_400_000);
$session->query_is("SELECT redis_try_lock('f')", 'f', 'somebody has a key for 20 days');
is(votes(), 3, 'nor does that');
{
	my $began = now();

	$masters->restart_empty(1);
	poll_until('the restart to be seen', sub { votes() == 2 });
	wait_for_votes();
	cmp_ok(now() - $began, '>=', 6, 'one that was restarted has none for so long');
	pass('and has one then');
}
$masters->foreign_unlock('f');

# ---- settings

$session->query_fails("SET lockredis.lease = '7 s'", '22023',
	qr/invalid value for parameter "lockredis\.lease"/, 'a session cannot have more');
$session->query_is('SHOW lockredis.lease', '4s', 'and has what it had');
$node->log_since_here;
$node->append_conf('postgresql.conf', "lockredis.lease = '7 s'");
$node->reload;
poll_until('the reload to be refused',
	sub { $node->logged(qr/invalid value for parameter "lockredis\.lease": 7000/) });
like($node->log_text, qr/With several masters no lease is longer than "lockredis\.max_lease", which is 6000 ms/,
	'and why');
is($node->value('SHOW lockredis.lease'), '4s', 'what was set counts');
$session->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', 'and locks can be taken');
$session->quit;

$node->stop;
is($node->start(fail_ok => 1), 0, 'it does not start with it');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/FATAL: .*"lockredis\.lease" must not be longer than "lockredis\.max_lease"|ERROR: .*"lockredis\.lease" must not be longer than "lockredis\.max_lease"/,
	'and says why');

# ---- one Redis

my $one = LockRedis::Redis->new;

$node->append_conf('postgresql.conf', "lockredis.url = '" . $one->url . q{'});
$node->start;
$node->wait_for_up;
$session = $node->session;
$session->query_is("SELECT redis_try_lock('k', '0', '20 days'), redis_extend('k', '21 days'), redis_unlock('k')",
	't|t|t', 'with one Redis there is no such limit');
is($session->query("CALL redis_with_lock('k', 'SELECT 1', hold_at_least => '7 s')")->error, undef,
	'nor for how long a key stays locked');
$session->query_is("SET lockredis.lease = '8 s'; SELECT redis_try_lock('r'), redis_unlock('r')", 't|t',
	'nor for what is renewed');
$session->quit;
$one->cmd('FLUSHALL');

# From one Redis to several masters, by a reload that cannot know of the lease
$node->log_since_here;
$node->set('lockredis.url' => $masters->url);
poll_until('that to be told',
	sub { $node->logged(qr/WARNING:  "lockredis\.lease" is longer than "lockredis\.max_lease"/) });
$session = $node->session;
$session->query_fails("SELECT redis_try_lock('k')", '22023',
	qr/"lockredis\.lease" must not be longer than "lockredis\.max_lease"/, 'a lock that has it is refused');
wait_for_votes();
$session->query_is("SELECT redis_try_lock('k', '0', '5 s'), redis_unlock('k')", 't|t', 'another is not');

# Other processes of a query have what their leader has.
$session->query('CREATE TABLE t AS SELECT generate_series(1, 1000) i; ANALYZE t');
$session->query_is(
	q{SET debug_parallel_query = regress; SELECT count(*) FROM t},
	1000, 'nor is a parallel query')
  if $session->query("SELECT 1 FROM pg_settings WHERE name = 'debug_parallel_query'")->value;
$session->query_is(
	q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
		SELECT count(*) FROM t},
	1000, 'a parallel query goes on');
$session->quit;

# ---- a table

my $table = LockRedis::Node->create('table', mode => 'table', settings =>
	  { 'lockredis.url' => $masters->url, 'lockredis.lease' => '2 min', 'lockredis.max_lease' => '1 min' });

$table->wait_for_up;
is($table->value("SELECT redis_try_lock('k', '0', '20 days')"), 't', 'in a table there is none');

end_test($node, $masters);
