# Copyright (c) 2026, lockredis contributors

# What the documentation gives to be pasted can be pasted, and does what it says:
# docs/acl.md into redis-cli, the two loops of docs/snapshots.md and what creates
# the extension into psql.  And each script asks for what it needs, and no more.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils ();

my $docs = dirname(abs_path(__FILE__)) . '/../../docs';

# The blocks of a file, in their order.
sub blocks ($file)
{
	my $text = PostgreSQL::Test::Utils::slurp_file("$docs/$file");

	return $text =~ /^```\w*\n(.*?)^```$/msg;
}

# What is below a heading
sub slurp_section ($file, $heading)
{
	my $text = PostgreSQL::Test::Utils::slurp_file("$docs/$file");

	$text =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms or die "no $heading in $file";
	return $1;
}

# As redis-cli does with what is pasted at its prompt: a line is a command.
sub paste ($redis, $block)
{
	return map {
		my $line = $_;
		my $reply = $redis->try_cmd(split ' ', $line);

		[ $line, ref $reply ? $$reply : $reply ];
	} grep { /\S/ } split /\n/, $block;
}

# A file of what is pasted into psql
sub pasted ($block)
{
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/pasted.sql';

	PostgreSQL::Test::Utils::append_to_file($file, $block);
	return $file;
}

sub all_ok ($name, @replies)
{
	my @wrong = grep { $_->[1] ne 'OK' } @replies;

	ok(@replies > 0 && !@wrong, "$name: can be pasted")
	  || diag join "\n", map { "$_->[0]: $_->[1]" } @wrong;
	return;
}

#
# docs/acl.md
#
my $redis = LockRedis::Redis->new;
my @acl = blocks('acl.md');
my @rules = grep { /^ACL SETUSER/ } @acl;
my @others = grep { !/^ACL SETUSER/ } @acl;
my ($everything, $rule, $tokens, $all, $all_tokens, undef, $read_write, $fair) = @rules;

# 440_acl tries them with all functions.
cmp_ok(scalar @rules, '>=', 9, 'acl.md: the rules');
is($everything, slurp_section('acl.md', 'One rule for all') =~ /^(ACL .*\n)/m ? $1 : '',
	'acl.md: first the one for all');
ok($rule =~ /~jobs:/ && $rule !~ /token/, 'acl.md: then the one for some keys');
ok($all =~ /~\*/ && $all !~ /wait/, 'acl.md: then the one for any key');
my ($settings) = grep { /lockredis\.url/ } @others;
my ($log) = grep { /^redis-cli/ } @others;
is(scalar @others, 3, 'acl.md: and settings, and how to see what was refused');
{
	# All of the others but for keys: what is after ~* is refused.
	my @words = map { /^[+&]/ ? $_ : () } map { split } grep { /SETUSER lockredis/ } @rules[ 1 .. $#rules ];
	my %count;

	$count{$_}++ foreach @words;
	is(join(' ', sort grep { /^[+&]/ } split ' ', $everything),
		join(' ', sort keys %count), 'acl.md: one rule for all is all of them');
	like($everything, qr/ ~\* /, 'for all keys');
}

my ($password) = $rule =~ /^ACL SETUSER lockredis on >(\S+)/;
my $secret = secret_file('password', $password);

# Its own user, at the port and with the file of this test.
$settings =~ s/redis\.example\.com:6379/'127.0.0.1:' . $redis->port/e
  or die 'no address in acl.md';
$settings =~ s{'/etc/postgresql/lockredis\.password'}{'$secret'}
  or die 'no password file in acl.md';

all_ok('acl.md: some keys', paste($redis, $rule));
my $node = LockRedis::Node->create('main', redis => $redis, start => 0);
$node->append_conf('postgresql.conf', $settings);
$node->start;
$node->value('CREATE EXTENSION IF NOT EXISTS lockredis');
$node->wait_for_up;

# Keys, channels, commands: waiting for somebody else's lock has them all.
sub works ($name, $key)
{
	my $session = $node->session;

	$session->query_is(
		"SELECT redis_try_lock('$key'), redis_hold_count('$key'), redis_is_locked('$key'),
		        redis_extend('$key', '1 min'), redis_unlock('$key')",
		't|1|t|t|t', "$name: lock and unlock");
	$redis->foreign_lock($key);
	$session->start("SELECT redis_lock('$key'), redis_unlock('$key')");
	$redis->wait_for_subscribers($key, 1);
	$redis->foreign_unlock($key);
	is($session->wait(30)->out, '|t', "$name: woken by a message");
	$session->quit;
	return;
}

sub is_refused ($sql, $name)
{
	my $session = $node->session;
	my $result = $session->query($sql);

	like($result->error ? $result->{raw} : '', qr/NOPERM|permission/i, $name);
	$session->quit;
	return;
}

works('some keys', 'jobs:1');
is_refused("SELECT redis_try_lock('other')", 'some keys: no others');
is_refused("SELECT redis_try_fenced_lock('jobs:2')", 'some keys: no tokens');
ok( scalar @{ $redis->cmd(split ' ', $log =~ s/^redis-cli//r) } > 0,
	'acl.md: the log of what was refused');
all_ok('acl.md: tokens', paste($redis, $tokens));
my $fenced = $node->session;
$fenced->query_is(
	"SELECT redis_try_fenced_lock('jobs:3') > 0, redis_unlock('jobs:3')",
	't|t', 'some keys: with tokens');
is_refused("SELECT redis_try_fenced_lock('other')", 'some keys: tokens of no others');
all_ok('acl.md: read-write locks', paste($redis, $read_write));
all_ok('acl.md: fair locks', paste($redis, $fair));
all_ok('acl.md: all keys', paste($redis, $all));
works('all keys', 'other');
all_ok('acl.md: all keys, tokens', paste($redis, $all_tokens));
$fenced->query_is("SELECT redis_try_fenced_lock('other') > 0, redis_unlock('other')",
	't|t', 'all keys: with tokens');
$fenced->quit;

#
# docs/snapshots.md: a loop that commits
#
# From the second pass on the first variant has nothing; the second one has the
# lock of its row, in each.
#
{
	my ($wrong, $right) = grep { /LOOP/ } blocks('snapshots.md');
	my $session = $node->session;
	my $expected = qr/UPDATE account SET/;

	$session->query(
		'CREATE TABLE account (id int PRIMARY KEY, balance int);
		 INSERT INTO account SELECT i, 100 FROM generate_series(1, 3) i;
		 CREATE TABLE pass (account int, held bool)');
	foreach my $case ([ $wrong, '1:t 2:f 3:f', 'locks taken by the query' ],
		[ $right, '1:t 2:t 3:t', 'locks taken in the loop' ])
	{
		my ($block, $held, $name) = @$case;
		my $result = $session->query($block);

		is($result->error, undef, "snapshots.md, $name: runs");
		is($session->value("SELECT string_agg(balance::text, ' ') FROM account"),
			join(' ', ($block eq $wrong ? 110 : 120) x 3), "snapshots.md, $name: does it all");

		# The same with a look at the lock where the work begins
		$block =~ s{(?=UPDATE account SET)}
			{INSERT INTO pass SELECT r.id, redis_is_held('account:' || r.id);\n}
			or die 'no UPDATE in the loop';
		$session->query("TRUNCATE pass");
		$session->query($block);
		is($session->value("SELECT string_agg(account || ':' || held, ' ' ORDER BY account) FROM pass")
				=~ s/(true|false)/substr $1, 0, 1/ger,
			$held, "snapshots.md, $name: who is held in which pass");
		$session->query('UPDATE account SET balance = 110');
	}
	$wrong =~ s{(?=UPDATE account SET)}{PERFORM redis_assert_held('account:' || r.id);\n};
	$session->query_fails($wrong, '55000', qr/account:2/,
		'snapshots.md: redis_assert_held tells');
	$session->quit;
}

#
# README: what is in postgresql.conf
#
{
	my ($install) = grep { /^sudo apt-get install/ } blocks('../README.md');
	my ($file) = $install =~ /<<'END' &&\n(.*?)^END$/ms or die 'no postgresql.conf in README';

	$file =~ s/localhost:6379/'127.0.0.1:' . $redis->port/e or die 'no address in README';
	$redis->cmd('ACL', 'SETUSER', 'default', 'on', 'nopass', '~*', '&*', '+@all');
	my $other = LockRedis::Node->create('readme', redis => $redis, start => 0);
	$other->append_conf('postgresql.conf', $file);
	$other->start;
	$other->value('CREATE EXTENSION IF NOT EXISTS lockredis');
	$other->wait_for_up;
	is($other->value("SELECT redis_try_lock('nightly-report')"), 't', 'README: its settings work');
	$other->stop;
}

#
# CREATE EXTENSION, wherever it stands, and what takes back a grant
#
$node->value('CREATE ROLE alice LOGIN');
foreach my $file ('../README.md', 'security.md', 'table-mode.md')
{
	my @create = grep { /CREATE EXTENSION lockredis/ } blocks($file);
	my $alice;

	is(scalar @create, 1, "$file: one place that creates the extension");
	$node->value('CREATE DATABASE app');
	$node->command_ok(
		[
			'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('app'), '-f',
			pasted($create[0])
		],
		"$file: can be pasted");
	$alice = $node->session(dbname => 'app', user => 'alice');
	$alice->query_is("SELECT redis_try_lock('jobs:1'), redis_unlock('jobs:1')",
		't|t', "$file: the functions are found");
	$alice->quit;
	$node->value('DROP DATABASE app');
}
{
	my ($revoke) = grep { /REVOKE EXECUTE ON ROUTINE/ } blocks('security.md');
	my $handed_out = q{SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
		  AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lockredis'
		WHERE NOT has_function_privilege('public', p.oid, 'EXECUTE')
		  AND has_function_privilege('alice', p.oid, 'EXECUTE')};

	$node->value('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO alice');
	cmp_ok($node->value($handed_out), '>', 20, 'a grant on all functions of public hands them out');
	$node->value($revoke);
	is($node->value($handed_out), 0, 'security.md: taken back');
	is($node->value(q{SELECT has_function_privilege('alice', 'redis_unlock(text)', 'EXECUTE')}),
		't', 'security.md: what all may call stays');
}

#
# script/bootstrap, where there is nothing but what PostgreSQL and a compiler are
# called by
#
{
	my $path = PostgreSQL::Test::Utils::tempdir();
	my $asked = sub {
		my @run = ("$docs/../script/bootstrap", @_);
		local $ENV{PATH} = $path;

		IPC::Run::run(\@run, \'', '>', \my $out, '2>', \my $err);
		return $out . ($err =~ s/^bootstrap: please .*hold://r);
	};

	foreach my $tool (qw(sh sed cat id mktemp cc gcc make runuser pg_config))
	{
		my ($found) = grep { -x } map { "$_/$tool" } split /:/, $ENV{PATH};

		symlink $found, "$path/$tool" or die "$tool: $!" if defined $found;
	}
	$ENV{PG_CONFIG} = 'pg_config' unless defined $ENV{PG_CONFIG};
	is($asked->('demo', '--no-redis'), '', 'demo --no-redis needs no more');
	is($asked->('demo'), " redis-server redis-tools\n", 'demo needs a Redis');
	like($asked->(@$_), qr/redis-server.* maven.* valgrind/, "@$_: the tests need more")
	  foreach [], ['test'], ['bench'], ['--bench'];
}

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
