# Copyright (c) 2026, lockredis contributors

# What an ordinary role can and cannot do, as docs/security.md lists it:
# - it cannot read where the locks are kept nor the password, wherever it looks
# - no role that is not told to can have the server use another Redis
# - a key is a name, never a command, a script, a pattern or a format
# - who may create the extension, and what becomes of privileges that are changed
# - nobody gives back or sees more than is theirs
# - who takes all slots can be seen, and ended
# - a wrapper that is SECURITY DEFINER can fix the terms of its lock
# What functions do with values of Redis that are no locks is in 325_functions.
# Proves G32, G33.  Shows what is not guaranteed: N16.

use File::Basename qw(dirname);
use LockRedis::Search qw(found make_search);
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

my $secret = 'hush-7f3a9c';
my $redis = LockRedis::Redis->new(name => 'safe', password => $secret);
my $other = LockRedis::Redis->new(name => 'other');
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	start => 0,
	settings => { 'lockredis.max_locks' => 30, max_connections => 60 });
my $file = secret_file('hush-file', $secret);

$node->append_conf('postgresql.conf', "lockredis.password_file = '$file'");
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION lockredis;
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE ROLE carol LOGIN;
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	CREATE ROLE signals LOGIN IN ROLE pg_signal_backend;
	CREATE DATABASE shop OWNER carol;
	CREATE SCHEMA bob AUTHORIZATION bob;});
$node->wait_for_up;

make_search($node);

my $admin = $node->session;
my $bob = $node->session(user => 'bob');

# ----------
# Where the locks are kept
# ----------

# Two spellings: the password in its file, and in the URL.
sub nothing_told ($name, %where)
{
	foreach my $what (sort keys %where)
	{
		is(found($bob, $where{$what}), '', "$name: an ordinary role finds no $what");
		like(found($admin, $where{$what}), qr/pg_settings/,
			"$name: a superuser finds the $what, where it is a setting")
		  unless $what eq 'password in a file';
	}
}

my $place = '127.0.0.1:' . $redis->port;
$bob->value("SELECT redis_lock('in use')");
nothing_told(
	'password file',
	address => $place,
	'name of the file' => 'hush-file',
	'password in a file' => $secret);
$bob->value("SELECT redis_unlock('in use')");
is(found($_, $secret), '', 'the password in the file is nowhere in SQL') foreach $bob, $admin;

# Each function that reads settings or files, and who may use it.
my @readers = (
	'SHOW lockredis.url',
	'SHOW lockredis.password_file',
	q{SELECT current_setting('lockredis.url', true)},
	q{SELECT current_setting('lockredis.password_file', true)},
	'SELECT pg_show_all_file_settings()',
	'SELECT * FROM pg_file_settings',
	q{SELECT pg_read_file('postgresql.conf')},
	qq{SELECT pg_read_file('$file')},
	qq{SELECT pg_read_binary_file('$file')},
	qq{SELECT lo_import('$file')},
	qq{CREATE TEMP TABLE stolen (t text); COPY stolen FROM '$file'},
	q{COPY (SELECT 1) TO PROGRAM 'true'},
	q{CREATE FUNCTION bob.f() RETURNS text LANGUAGE c AS '$libdir/lockredis', 'lockredis_lock'});
$bob->query_fails($_, '42501', qr/permission denied|must be superuser/, $_)
  foreach @readers;
unlike($bob->query('SHOW ALL')->out, qr/\Q$place\E|lockredis\.url/, 'SHOW ALL');
$bob->query_is(
	q{SELECT name FROM pg_settings WHERE name ~ '^lockredis' AND setting ~ '127|/'},
	'', 'pg_settings has no address and no file');
is($node->value("SET ROLE monitor; SELECT current_setting('lockredis.url')"),
	$redis->url, 'a role of pg_read_all_settings reads the URL');

# What Redis sees of a session is its process id.
$bob->query_is("SET application_name = 'bob''s'; SELECT redis_try_lock('name'), redis_unlock('name')",
	't|t', 'a session with a name');
my @names = map { $_->{name} } $redis->clients;
is_deeply([ grep { !/^lockredis-(?:session|watchdog|listener)-[0-9]+$/ } @names ],
	[], 'names of connections tell no role, database or application');
ok(scalar(grep { $_ eq 'lockredis-session-' . $bob->pid } @names),
	'but the process');

# The same with the password in the URL, in postgresql.conf and in a dump.
$node->append_conf('postgresql.conf', "lockredis.password_file = ''");
$node->set('lockredis.url' => "redis://:$secret\@$place");
$node->wait_for_up;
$bob->query_is("SELECT redis_try_lock('in use')", 't', 'password in the URL');
nothing_told('password in the URL', address => $place, password => $secret);
$bob->value("SELECT redis_unlock('in use')");
$bob->query_fails($_, '42501', qr/permission denied|must be superuser/, $_)
  foreach @readers[ 0, 2, 4 ];
is( $node->value("SET ROLE monitor; SELECT current_setting('lockredis.url') ~ '$secret'"),
	't', 'pg_read_all_settings reads a password in the URL: use the file');
my ($dump, $roles);
IPC::Run::run([ 'pg_dump', '-d', $node->connstr('postgres') ], '>', \$dump);
IPC::Run::run([ 'pg_dumpall', '-d', $node->connstr('postgres') ], '>', \$roles);
like($dump, qr/CREATE EXTENSION.*lockredis/, 'a dump has the extension');
like($roles, qr/CREATE ROLE alice/, 'a dump of all has the roles');
unlike("$dump$roles", qr/\Q$secret\E|\Q$place\E|hush-file/,
	'neither has the password, the file or the address');
$node->append_conf('postgresql.conf', "lockredis.password_file = '$file'");
$node->set('lockredis.url' => $redis->url);
$node->wait_for_up;

# ----------
# Another Redis
# ----------

# Settings that a role may change are these; each other one, now and in later
# versions, must be refused in every way.
is( $node->value(
		q{SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings
		   WHERE name LIKE 'lockredis.%' AND context = 'user'}),
	'lockredis.commit_guard lockredis.lease lockredis.on_lost lockredis.release_wait lockredis.wait_lease',
	'settings of an ordinary role');
my %kept = map { split /\|/ } split /\n/, $node->value(
	q{SELECT name || '|' || setting FROM pg_settings
	   WHERE name LIKE 'lockredis.%' AND context <> 'user' AND setting <> ''});
$kept{'lockredis.key_prefix'} = 'x';
cmp_ok(scalar keys %kept, '>=', 7, 'other settings are found');
my $shop = $node->session(user => 'carol', dbname => 'shop');
my $refused =
  qr/permission denied|must be superuser|cannot be changed|could not be changed|not allowed/;
foreach my $name (sort keys %kept)
{
	my $value = $name eq 'lockredis.url' ? $other->url : $kept{$name};
	my @ways = (
		"SET $name = '$value'",
		"SET LOCAL $name = '$value'",
		"SELECT set_config('$name', '$value', false)",
		"ALTER ROLE bob SET $name = '$value'",
		"ALTER ROLE bob IN DATABASE postgres SET $name = '$value'",
		"ALTER SYSTEM SET $name = '$value'",
		"CREATE FUNCTION bob.f() RETURNS text LANGUAGE sql SET $name = '$value' AS 'SELECT 1'");
	my @done = grep {
		my $result = $bob->query($_);
		($result->sqlstate || '') !~ /^(?:42501|55P02)$/
		  || $result->{raw} !~ $refused
	} @ways;
	is("@done", '', "an ordinary role cannot change $name");
	my $result = $shop->query("ALTER DATABASE shop SET $name = '$value'");
	like($result->sqlstate || '', qr/^(?:42501|55P02)$/,
		"nor can the owner of a database change $name");
	my $session = $node->session(
		user => 'bob',
		may_fail => 1,
		settings => { $name => $value });
	like($session->connect_error || '', $refused,
		"nor an option of the connection $name");
}
is($node->value('SELECT count(*) FROM pg_db_role_setting'),
	0, 'no setting of a role or database is left');
$bob->query_fails("SET lockredis.anything = 'x'",
	'42602', qr/invalid configuration parameter name/, 'no settings of its own');
is(scalar $other->clients, 0, 'nobody has gone to another Redis');
$bob->query_is(
	"SET lockredis.lease = '1min'; SET lockredis.commit_guard = verify; SET lockredis.on_lost = cancel; RESET ALL",
	'', 'what it may change');

# ----------
# Keys
# ----------

# Under MONITOR: whatever the key, the commands are those of a lock and the
# key is one argument, byte by byte.
$redis->cmd('SET', 'canary', 'alive');
my @keys = (
	"k\r\n*1\r\n\$8\r\nFLUSHALL\r\n",
	"k' ) redis.call('FLUSHALL') --",
	']] redis.call("FLUSHALL") [[',
	'%s%n%d%1$s', '*', '?', '[a-z]*', '{}', '{', '}', '}{', 'canary}x{', "\t\e[2J\x7f\x01",
	"'; DROP TABLE redis_fences; --",
	'"\\"', '$(reboot)', '../../etc/passwd', ' ', '%' x 255,
	'redisson-lock__channel:{x}',
	'lock_token:{x}',
	'lockredis.url', "\xf0\x9f\x94\x92");

my %harmless = map { $_ => 1 } qw(EVALSHA EVAL TIME CLIENT INFO AUTH PING);
poll_until('earlier subscriptions to end', sub { !$redis->channels });
foreach my $key (@keys)
{
	my $q = "E'" . ($key =~ s/([\\'])/$1$1/gr =~ s/\r/\\r/gr =~ s/\n/\\n/gr) . "'";
	my $shown = $key =~ s/([^ -~])/sprintf '\\x%02x', ord $1/gre;

	$shown = substr($shown, 0, 30);
	my $monitor = $redis->monitor;
	$bob->query_is(
		"BEGIN; SELECT redis_fenced_xact_lock($q) > 0; SELECT key = $q, redis_is_locked($q) FROM redis_locks; SELECT redis_try_lock($q); COMMIT",
		"t\nt|t\nt",
		"key $shown: taken");
	my $held = $redis->hash($key);
	$bob->query("SELECT redis_unlock($q)");
	my $warned = $bob->query("SELECT redis_unlock($q)");
	my @commands = map { [ $monitor->args($_) ] } $monitor->stop;

	is_deeply([ values %$held ], [1], "key $shown: is the key in Redis");
	is_deeply([ sort grep { !$harmless{ uc $_ } } map { $_->[0] } @commands ],
		[], "key $shown: no other commands");
	is( scalar(grep { my $c = $_; $c->[0] =~ /^EVAL/i && !grep { $_ eq $key } @$c }
			@commands),
		0,
		"key $shown: is an argument of each script");
	is_deeply([ map { $_->{message} } $warned->warnings ],
		["you don't own the Redis lock \"$key\""],
		"key $shown: is said as it is");
	is($node->value("SELECT count(*) FROM redis_fences WHERE key = $q"),
		1, "key $shown: is the key of the fence table");
}
is($redis->cmd('GET', 'canary'), 'alive', 'the canary lives');
is_deeply([ grep { !/canary|redisson_lock_token:/ } $redis->all_keys ],
	[], 'each was given back');

# A waiter listens to its own channel; a key is no pattern.
$redis->foreign_lock('h[a-z]*');
$node->queue_up('h[a-z]*', $bob => "SELECT redis_lock('h[a-z]*')");
$redis->wait_for_subscribers('h[a-z]*', 1);
is($redis->cmd('PUBSUB', 'NUMPAT'), 0, 'no pattern is subscribed to');
$redis->foreign_unlock('h[a-z]*');
is($bob->wait->error, undef, 'woken');
$bob->query_is("SELECT redis_unlock('h[a-z]*')", 't', 'given back');
$bob->query_fails($_, '22021', qr/0x00/, "NUL: $_")
  foreach q{SELECT redis_lock(E'a\\000b')},
  q{SELECT redis_lock(convert_from('\x610062', 'UTF8'))};

# The prefix is the administrator's, and is part of every key.
my $fenced_in = $node->session;
$fenced_in->query_is(
	q{SET lockredis.key_prefix = E'app\r\n%s{}:'; SET SESSION AUTHORIZATION bob; SELECT redis_lock('k')},
	'', 'a prefix');
is_deeply([ grep { !/canary|redisson_lock_token:/ } $redis->all_keys ],
	["app\r\n%s{}:k"], 'is put before the key');
$fenced_in->query_fails('RESET lockredis.key_prefix', '42501', qr/permission denied/, 'RESET by an ordinary role');
$fenced_in->query_is("RESET ALL; DISCARD ALL; SELECT redis_is_held('k')",
	'f', 'DISCARD ALL');
$fenced_in->quit;
$redis->cmd('FLUSHALL');

my $alice = $node->session(user => 'alice');

# ----------
# Privileges
# ----------

# What PUBLIC may do with each function, table and view is in 325_functions.
$shop->query_fails('CREATE EXTENSION lockredis',
	'42501', qr/permission denied to create extension/,
	'the owner of a database cannot create it');
$shop->quit;
is( $node->value(
		q{SELECT DISTINCT superuser, trusted, relocatable FROM pg_available_extension_versions WHERE name = 'lockredis'}
	),
	't|f|f',
	'superuser, not trusted, not relocatable');

# Taken away from everybody, and given to one.
$node->safe_psql(
	'postgres', q{
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION redis_lock(text, interval) TO alice;
	REVOKE SELECT ON redis_fences FROM PUBLIC;});
$bob->query_fails("SELECT redis_lock('k')", '42501',
	qr/permission denied for function redis_lock/, 'EXECUTE can be revoked');
$alice->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'and granted');
$bob->query_fails('SELECT * FROM redis_fences', '42501',
	qr/permission denied for table redis_fences/, 'keys of the fence table can be hidden');
$bob->query_is("SELECT redis_fenced_xact_lock('k') > 0", 't',
	'who cannot read it still records');
$node->safe_psql(
	'postgres', q{
	GRANT EXECUTE ON FUNCTION redis_lock(text, interval) TO PUBLIC;
	REVOKE EXECUTE ON FUNCTION redis_lock(text, interval) FROM alice;
	GRANT SELECT ON redis_fences TO PUBLIC;});

# Processes.  The watchdog has no role, and is nobody's to end.
my $watchdog = $node->watchdog_pid;
$bob->query_fails("SELECT pg_terminate_backend($watchdog)",
	'42501', qr/must be|permission denied/, 'an ordinary role cannot end the watchdog');
my $signals = $node->session(user => 'signals');
$signals->query_fails("SELECT $_($watchdog)",
	'42501', qr/must be a? ?superuser|permission denied/, "nor can a role of pg_signal_backend: $_")
  foreach qw(pg_cancel_backend pg_terminate_backend);
is($node->watchdog_pid, $watchdog, 'it runs');

# ----------
# What others have
# ----------

$alice->query_is("SELECT redis_lock('alice''s'); SELECT redis_fenced_lock('fenced') > 0",
	"\nt", 'two locks of alice');
$alice->query("BEGIN; SELECT redis_xact_lock('in transaction')");
foreach my $key ("alice''s", 'fenced', 'in transaction')
{
	$bob->query_warns("SELECT redis_unlock('$key')",
		'f', '01000', qr/you don't own/, "no unlock of $key");
	$bob->query_fails("SELECT redis_extend('$key', '1h')",
		'55000', qr/you don't own/, "no extend of $key");
	$bob->query_fails("SELECT redis_assert_held('$key')",
		'55000', qr/you don't own/, "no assert of $key");
	$bob->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key'), redis_fence('$key')",
		'f|0|NULL', "$key is not held");
}
$bob->query_is('SELECT redis_unlock_all()', '0', 'redis_unlock_all gives nothing of hers');
$bob->query_is('DISCARD ALL', '', 'nor does DISCARD ALL');
is_deeply([ sort grep { !/token/ } $redis->all_keys ],
	[ "alice's", 'fenced', 'in transaction' ], 'all of it is still locked');

# What the views tell of them: never the key or the owner, lost or waiting.
$redis->cmd('DEL', "alice's");
$redis->foreign_lock("alice's", owner => 'thief:1');
$alice->query_is("SELECT redis_extend('alice''s', '1h')", 'f', 'alice finds out');
my $waiting = $node->session(user => 'alice');
$node->queue_up('fenced', $waiting => "SELECT redis_lock('fenced')");
my $hidden = q{SELECT count(*), count(key), count(owner), count(lost_reason), count(pid), count(usesysid)};
is( $node->value("$hidden FROM redis_locks"),
	'4|4|3|1|4|4', 'the administrator sees it all');
$bob->query_is("$hidden FROM $_", '4|0|0|0|4|4', "bob sees that they are there: $_")
  foreach 'redis_locks', 'lockredis_locks()';
unlike($bob->query('SELECT l FROM redis_locks l')->out,
	qr/alice's|fenced|in transaction|thief/, 'and in no column what they are');
is(found($bob, 'thief:1'), '', 'nor in any other view');
$node->safe_psql('postgres', 'GRANT alice TO bob');
$bob->query_is("$hidden FROM redis_locks", '4|4|3|1|4|4', 'a member of her role sees them');
$node->safe_psql('postgres', 'REVOKE alice FROM bob');
$bob->query_is('SELECT address FROM redis_lock_status', 'NULL', 'no address for bob');
like($node->value('SET ROLE monitor; SELECT address FROM redis_lock_status'),
	qr/\Q$place\E/, 'but for pg_monitor');
$waiting->cancel;
$waiting->wait;
$waiting->quit;
$alice->query('ROLLBACK');
$alice->query('SELECT redis_unlock_all()');
poll_until('all to be given back', sub { $node->count_locks == 0 });
$redis->cmd('FLUSHALL');

# Rows belong to the role that connected, whatever the session calls itself
# when it takes its first lock.
my $pooler = $node->session;
$pooler->query("SET SESSION AUTHORIZATION alice; SELECT redis_lock('first')");
$pooler->query("RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION bob; SELECT redis_lock('second')");
is( $node->value(
		q{SELECT count(*), count(DISTINCT a.usesysid), bool_and(l.usesysid = a.usesysid)
		    FROM redis_locks l JOIN pg_stat_activity a USING (pid)}),
	'2|1|t',
	'redis_locks.usesysid is that of pg_stat_activity');
$alice->query_is('SELECT key FROM redis_locks', "NULL\nNULL",
	'no role sees the keys of another through it');
$pooler->quit;

# ----------
# Slots
# ----------

# bob takes all that there are: others are refused with an error that is in the
# log, and the view tells whose they are.
$node->log_since_here;
$bob->query_is("SELECT count(redis_lock('b' || i)) FROM generate_series(1, 30) i",
	'30', 'bob takes all slots');
$alice->query_fails("SELECT redis_lock('k')", '53400',
	qr/out of slots.*HINT.*lockredis\.max_locks.*30/s, 'alice gets none');
ok($node->logged(qr/ERROR:  out of slots for Redis locks/), 'which is in the log');
is( $node->value(
		q{SELECT usesysid::regrole, count(*), max(current_setting('lockredis.max_locks')::int) FROM redis_locks GROUP BY 1}),
	'bob|30|30',
	'the administrator sees who has them');
$signals->query_is('SELECT pg_terminate_backend(' . $bob->pid . ')',
	't', 'and ends the session');
poll_until('the session to be gone', sub { $bob->is_gone });
$bob->quit;
$alice->query_is("SELECT redis_try_lock('k'), redis_unlock('k')",
	't|t', 'which frees them');
$bob = $node->session(user => 'bob');

# What takes no slot: keys that hold_at_least keeps, counters, rows of the fence
# table.  A role without these functions can make none.
$bob->query_is(
	"CALL redis_with_lock('kept', 'SELECT 1', hold_at_least => '10min')",
	't', 'hold_at_least');
$bob->query_is("SELECT redis_fenced_xact_lock('counted') > 0", 't', 'a counter');
ok(poll_until('the counted one to be given back', sub { $node->count_locks == 0 }),
	'no row of redis_locks');
is_deeply([ $redis->all_keys ], [ 'kept', 'redisson_lock_token:{counted}' ],
	'but keys in Redis');
my $costly = join ', ', map { "redis_$_" } (
	map { "$_(text, interval)" } 'fenced_lock', 'fenced_xact_lock'),
  map { "$_(text, interval, interval)" } 'try_fenced_lock',
  'try_fenced_xact_lock';
my $job = 'redis_with_lock(text, text, interval, interval, interval, boolean)';
$node->safe_psql('postgres',
	"REVOKE EXECUTE ON FUNCTION $costly FROM PUBLIC; REVOKE EXECUTE ON PROCEDURE $job FROM PUBLIC");
$bob->query_fails($_, '42501', qr/permission denied/, $_)
  foreach "CALL redis_with_lock('k2', 'SELECT 1', hold_at_least => '10min')",
  map { "SELECT redis_$_('k2')" }
  qw(fenced_lock fenced_xact_lock try_fenced_lock try_fenced_xact_lock);
is(scalar $redis->all_keys, 2, 'no more of them');
$node->safe_psql('postgres',
	"GRANT EXECUTE ON FUNCTION $costly TO PUBLIC; GRANT EXECUTE ON PROCEDURE $job TO PUBLIC");
$redis->cmd('FLUSHALL');

# ----------
# Wrappers
# ----------

# A function that is SECURITY DEFINER gives one lock, on its own terms: settings of the caller do
# not weaken it, and the caller cannot give it back.  As the page has it, where the extension has a
# schema of its own.
{
	my $page = slurp_file(dirname(__FILE__) . '/../../docs/security.md');
	my ($wrapper) = $page =~ /^### One lock to one role\n+```sql\n(.*?)^```/ms;

	$node->safe_psql(
		'shop', "CREATE SCHEMA lockredis; GRANT USAGE ON SCHEMA lockredis TO PUBLIC;
		CREATE EXTENSION lockredis SCHEMA lockredis;
		CREATE TABLE account (balance int); INSERT INTO account VALUES (100);
		CREATE ROLE cashier LOGIN; $wrapper");
	my $cashier = $node->session(user => 'cashier', dbname => 'shop');

	$cashier->query_fails("SELECT lockredis.$_('account')",
		'42501', qr/permission denied for schema lockredis/, "wrapped: no $_")
	  foreach qw(redis_lock redis_try_xact_lock redis_fenced_lock redis_unlock);
	$cashier->query(
		"SET lockredis.commit_guard = off; SET lockredis.on_lost = terminate; SET lockredis.lease = '100ms'");
	$cashier->query_is('BEGIN; SELECT withdraw(10)', '', 'but by the wrapper');
	is( $node->value(q{SELECT lease = '30s', scope, usesysid::regrole FROM redis_locks}),
		't|transaction|cashier', 'with its own lease');
	$admin->take_away('account');
	$cashier->query_fails('COMMIT', '40001', qr/lost/,
		'the guard of the wrapper counts, not that of the caller');
	$cashier->query_is('SELECT withdraw(10)', '', 'again');
	$cashier->quit;
	is($node->safe_psql('shop', 'SELECT balance FROM account'), 90, 'withdrawn once');
}

# The job runner runs as its caller, also after its commits, and not inside a
# procedure of somebody else's rights.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE account (balance int);
CREATE TABLE ran_as (who text);
GRANT INSERT ON ran_as TO PUBLIC;
CREATE PROCEDURE job(command text) LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	AS $$ DECLARE ran boolean; BEGIN CALL public.redis_with_lock('job', command, ran => ran); END $$;
SQL
my $write = q{'INSERT INTO public.ran_as VALUES (current_user)'};
$bob->query_is("CALL redis_with_lock('job', $write)", 't', 'a job');
$admin->query_is("SET ROLE alice; CALL redis_with_lock('job', $write); SELECT current_user; RESET ROLE",
	"t\nalice", 'a job after SET ROLE');
$bob->query_fails("CALL job($write)", '2D000', qr/transaction block/,
	'none through a procedure that is SECURITY DEFINER');
$bob->query_fails("CALL redis_with_lock('job', 'UPDATE public.account SET balance = 0')",
	'42501', qr/permission denied for table account/, 'with no more rights than its caller has');
is($node->value(q{SELECT string_agg(who, ' ' ORDER BY who) FROM ran_as}),
	'alice bob', 'each ran as its caller');

end_test($node, $redis);
