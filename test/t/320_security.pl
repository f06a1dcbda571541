# Copyright (c) 2026, lockredis contributors

# What an ordinary role can and cannot do, as docs/security.md lists it:
# - it cannot read where the locks are kept nor the password, wherever it looks
# - no role that is not told to can have the server use another Redis
# - a key is a name, never a command, a script, a pattern or a format
# What functions do with values of Redis that are no locks is in 325_functions.
# Proves G32, G33.

use LockRedis::Search qw(found make_search);
use LockRedis::Test;

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
sub nothing_told
{
	my ($name, %where) = @_;

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

# The superuser is told that the place is not for a role or database either.
foreach my $where ('ROLE bob', 'DATABASE shop')
{
	$admin->query_fails("ALTER $where SET lockredis.$_ = '" . $other->url . q{'},
		'55P02', qr/cannot be changed now/, "ALTER $where SET lockredis.$_")
	  foreach qw(url password_file);
}

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

sub quoted
{
	my ($key) = @_;

	$key =~ s/([\\'])/$1$1/g;
	$key =~ s/\r/\\r/g;
	$key =~ s/\n/\\n/g;
	return "E'$key'";
}

my %harmless = map { $_ => 1 } qw(EVALSHA EVAL TIME CLIENT INFO AUTH PING);
poll_until('earlier subscriptions to end', sub { !$redis->channels });
foreach my $key (@keys)
{
	my $q = quoted($key);
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
foreach my $key ('*', 'h[a-z]llo?')
{
	$redis->foreign_lock($key);
	$node->queue_up($key, $bob => "SELECT redis_lock('$key')");
	$redis->wait_for_subscribers($key, 1);
	is($redis->cmd('PUBSUB', 'NUMPAT'), 0, "no pattern is subscribed to: $key");
	$redis->foreign_unlock($key);
	is($bob->wait->error, undef, "woken: $key");
	$bob->query_is("SELECT redis_unlock('$key')", 't', "given back: $key");
}
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
$fenced_in->query_fails("$_ lockredis.key_prefix",
	'42501', qr/permission denied/, "$_ by an ordinary role")
  foreach 'RESET';
$fenced_in->query_fails("SET lockredis.key_prefix = ''",
	'42501', qr/permission denied/, 'SET by an ordinary role');
$fenced_in->query_is("RESET ALL; DISCARD ALL; SELECT redis_is_held('k')",
	'f', 'DISCARD ALL');
$fenced_in->quit;
$redis->cmd('FLUSHALL');

end_test($node, $redis);
