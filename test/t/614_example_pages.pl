# Copyright (c) 2026, lockredis contributors

# Each example runs alone from nothing, by the commands of its page: once with its lock free,
# where it waits for nobody, itself included, and once with its lock taken, where it waits, or
# skips what it is not to do, is let go on by the release, and keeps others out while it works.
# No two have a key in common: they run at the same time, and all locks are taken at the same
# time.  What apt installs for them is what script/bootstrap installs.
# Proves G1, G23.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Examples;
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

# Until a Java program has started where much else runs
use constant LONG => 180;

# Where Debian has it.
$ENV{PATH} .= ':/usr/sbin';
need_tool('pgbouncer');
LockRedis::Examples->need;

my $libraries = `pg_config --pkglibdir`;
chomp $libraries;
plan skip_all => 'there is no pg_cron' unless -e "$libraries/pg_cron.so";

my $top = abs_path(dirname(__FILE__) . '/../..');
my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create(
	'main',
	redis => $redis,
	patient => 1,
	start => 0,
	extension => 0,
	# JDBC knows no unix sockets.
	settings => { listen_addresses => '127.0.0.1' });
my $user = getpwuid $>;

$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pg_cron, lockredis'\ncron.database_name = 'postgres'\n");
$node->start;
$node->value('CREATE EXTENSION lockredis');
$node->wait_for_up;

# How the lock of an example is taken, tried and given back in SQL
my $lock = { take => 'SELECT redis_lock(%s) IS NOT NULL', try => 'SELECT redis_try_lock(%s)',
	give_back => 'SELECT redis_unlock(%s)' };
my $token = { take => "SELECT redis_token_lock(%s, '1 h', 'ours') IS NOT NULL",
	try => "SELECT redis_try_token_lock(%s, '0', '1 h', 'ours') IS NOT NULL",
	give_back => "SELECT redis_token_unlock(%s, 'ours')" };
my $permits = {
	take => 'SELECT redis_permit_lock(%1$s) IS NOT NULL AND redis_permit_lock(%1$s) IS NOT NULL',
	give_back => 'SELECT redis_permit_unlock(%1$s) AND redis_permit_unlock(%1$s)'
};

# A service says "busy" when it waits, and has written a row when it has worked.
sub service ($name, $kind, $says, $rows)
{
	return (key => "$name-report", kind => $kind, service => 1,
		prints => qr/\ACREATE TABLE\n(?:busy\n)?$says\z/,
		works => "SELECT count(*) = %d * $rows FROM service_report WHERE made_by = '$name'");
}

my %examples = (
	accounts => { key => 'account:7', waiters => 1, prints => qr/ 7 \|     110\n 42 \|      90\n/,
		works => 'SELECT %d > 0 AND sum(balance) = 200 AND count(*) = 2 FROM account' },
	asyncpg => { service('asyncpg', $lock, "built\n", 1) },
	go => { service('go', $token, "built\n", 1) },
	java => { service('java', $lock, "built\nbuilt in a transaction\n", 2) },
	leader => { key => 'leader:billing', waiters => 1, returns => 0,
		prints => qr/\A(?:CREATE \w+\n)+\z/, works => 'SELECT count(*) > 0 AND %d > 0 FROM led' },
	node => { service('node', $token, "built\n", 1) },
	pg_cron => { key => 'nightly-report', waiters => 0,
		prints => qr/ ran \n-+\n t\n\(1 row\)\n\n\z/, skips => qr/ ran \n-+\n f\n\(1 row\)\n\n\z/,
		works => 'SELECT count(*) = 1 AND %d > 0 FROM report' },
	pgbouncer => { key => 'visit:/index.html', waiters => 1,
		prints => qr/^BEGIN\n.*^UPDATE 1\nCOMMIT\n\z/ms,
		works => "SELECT count = %d FROM visit WHERE page = '/index.html'" },
	python => { service('python', $token, "built\n", 1) },
	rails => { service('rails', $lock, "built\n", 1) },
	workers => { key => 'mail relay', kind => $permits, waiters => 3,
		prints => qr/^ sent \n-+\n +(?:10|20)\n/m, works => 'SELECT count(sent) = %d * 10 FROM mail' });
my @names = sort keys %examples;

is(join(' ', sort map { s{.*/examples/(\w+)/README\.md}{$1}r } glob "$top/examples/*/README.md"),
	"@names", 'these are all examples');
my %of_key = map { $_->{key} => 1 } values %examples;
is(scalar keys %of_key, scalar @names, 'each has a key of its own');

# Where the servers are, as the page of all examples has it, but for what is in it
my %environment = (LEASE => 3600);
{
	my %ours = (PGHOST => '127.0.0.1', PGPORT => $node->port, PGDATABASE => 'postgres',
		PGUSER => $user, PGPASSWORD => 'postgres',
		REDIS_URL => 'redis://127.0.0.1:' . $redis->port);
	my ($export) = slurp_file("$top/examples/README.md") =~ /^```sh\n(export .*?)^```/ms;

	$environment{$_} = $ours{$_} // die "what is $_?" foreach $export =~ /(\w+)=/g;
	is(scalar keys %environment, 1 + keys %ours, 'the page says where the servers are');
}

sub works ($name, $times) { return $node->value(sprintf $examples{$name}{works}, $times) eq 't'; }

# Waits until it has ended, and looks at what it has done
sub ends_well ($name, $program, $times, $expected)
{
	my $example = $examples{$name};

	if (defined $example->{returns})
	{
		# Its page makes the table first.
		poll_until("$name to work", sub { eval { works($name, $times) } }, LONG);
		$node->value("SELECT pg_terminate_backend(pid) FROM redis_locks WHERE key = '$example->{key}'");
	}
	poll_until("$name to end", sub { $program->has_ended }, LONG);
	is($program->status == 0 ? 1 : 0, $example->{returns} // 1, "$name: its status")
	  or diag $program->errors;
	like($program->output, $expected, "$name: what it prints") or diag $program->errors;
	ok(works($name, $times), "$name: what it does") if $expected eq $example->{prints};
	return;
}

# ----------
# From nothing, with all locks free
# ----------

# Readers follow one page after another.  Here all are followed at once, and two that create the
# same table in the same moment fail, IF NOT EXISTS or not.
my ($create) = slurp_file("$top/examples/go/README.md") =~ /^psql -c '(CREATE TABLE [^']*)'$/m;
$node->value($create);

my %running = map { $_ => LockRedis::Examples->start($_, %environment) } @names;

foreach my $name (@names)
{
	ends_well($name, $running{$name}, 1, $examples{$name}{prints});
	unlike($running{$name}->output, qr/^busy$/m, "$name: waits for nobody");
}
my ($refusal) = slurp_file("$top/examples/pgbouncer/README.md") =~ /^```\n(ERROR.*?)^```/ms;
like($running{pgbouncer}->errors, qr/\Q$refusal/, 'pgbouncer: what is refused');
# A session gives back when its client has gone.
poll_until('no session to have a lock', sub { $node->count_locks == 0 });
pass('no session has a lock');
my @keys = map { $_->{key} } grep { ($_->{kind} || $lock) != $permits } values %examples;
poll_until('no lock to be left', sub { !$redis->cmd('EXISTS', @keys) });
pass('no lock is left');

# ----------
# With all locks taken
# ----------

my ($one, $gate) = ($node->session, $node->session);
my $ask = sub {
	my ($name, $what) = @_;
	my $example = $examples{$name};

	return sprintf +($example->{kind} || $lock)->{$what}, "'$example->{key}'";
};

$one->query_is($ask->($_, 'take'), 't', "$_: the lock is taken") foreach @names;
%running = map { $_ => LockRedis::Examples->start($_, %environment) } @names;
foreach my $name (@names)
{
	my $example = $examples{$name};

	if ($example->{service})
	{
		poll_until("$name to wait", sub { $running{$name}->says('busy') }, LONG);
	}
	elsif ($example->{waiters})
	{
		$node->wait_for_waiters($example->{key}, $example->{waiters});
	}
	else
	{
		ends_well($name, $running{$name}, 1, $example->{skips});
	}
}
is($node->value('SELECT count(*) FROM service_report'), 7, 'none has worked');

# Services stop where they write.
my @services = grep { $examples{$_}{service} } @names;
$gate->query('BEGIN; LOCK TABLE service_report IN EXCLUSIVE MODE');
$one->query_is($ask->($_, 'give_back'), 't', "$_: ours is given back") foreach @names;
my $at_work = q{SELECT count(*) FROM pg_locks
	WHERE relation = 'service_report'::regclass AND NOT granted};
poll_until('all services to work',
	sub { $_->has_ended foreach values %running; $node->value($at_work) == @services }, LONG);
$one->query_is($ask->($_, 'try'), 'f', "$_: its lock keeps ours out") foreach @services;
is($node->value('SELECT count(*) FROM service_report'), 7, 'nothing is to be seen yet');
$gate->query('COMMIT');
ends_well($_, $running{$_}, 2, $examples{$_}{prints}) foreach grep { !$examples{$_}{skips} } @names;

# A lock that was waited for, and is lost at work: the service ends, and has written nothing.
$one->query($ask->('node', 'take'));
my $late = LockRedis::Examples->start('node', %environment);
poll_until('node to wait again', sub { $late->says('busy') }, LONG);
$gate->query('BEGIN; LOCK TABLE service_report IN EXCLUSIVE MODE');
$one->query($ask->('node', 'give_back'));
poll_until('node to work again', sub { $node->value($at_work) }, LONG);
$redis->cmd('DEL', 'node-report');
$gate->query('COMMIT');
poll_until('node to end', sub { $late->has_ended }, LONG);
isnt($late->status, 0, 'node: fails when its lock was lost');
ok(works('node', 2), 'node: has written nothing');
$_->quit foreach $one, $gate;

# ----------
# What the pages show besides
# ----------

my $session = $node->session;
my $bootstrap = slurp_file("$top/script/bootstrap");
foreach my $name (@names)
{
	my $page = slurp_file("$top/examples/$name/README.md");

	foreach my $packages ($page =~ /sudo apt-get install (?:-y )?--no-install-recommends\s+([^`\n#]+)/g)
	{
		like($bootstrap, qr/^\s*need "?\Q$_\E"? /m, "$name: bootstrap installs $_")
		  foreach map { s/postgresql-15/postgresql-\$1/r } split ' ', $packages;
	}
	# A leader never returns.
	is($session->query($_)->error, undef, "$name: " . $_ =~ s/\s+/ /gr)
	  foreach grep { !/run_as_leader/ } $page =~ /^```sql\n(.*?)^```/msg;
	unlike($page, qr/apt-get install (?!(?:-y )?--no-install-recommends)/, "$name: no more than that");
}
$session->quit;
$redis->cmd('DEL', map { $_->{key} } grep { $_->{kind} && $_->{kind} == $token } values %examples);
end_test($node, $redis,
	keys => qr/^(?:redisson_lock_token:|mail relay$|\{mail relay\})/);
