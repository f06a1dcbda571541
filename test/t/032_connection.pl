# Copyright (c) 2026, lockredis contributors

# lockredis.url, the way to the node, and what answers there.
#
# The guarantees:
# - every malformed URL is refused with what is wrong and where, a form that is
#   valid but not served says so; a reload with one keeps the URL in use;
# - a changed URL: everybody goes to the new place, what is not there is lost;
# - host names are resolved without holding up a session beyond its budget;
# - whatever answers, every call ends within its budget with a clear error of
#   class 08, the processes live on and do not grow;
# - no reply is taken for that of another request; a request that only its
#   owner's lock can feel is repeated once, a create never;
# - one connection a session, at most two for the watchdog, named, kept, made
#   again when found dead.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Wait qw(limit);
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

# Where something must be waited for in vain; the budget is 1.2 s.
my %short = (
	'lockredis.connect_timeout' => '500ms',
	'lockredis.command_timeout' => '700ms');

# The defaults: room enough for a busy machine.
my %default = (
	'lockredis.connect_timeout' => '2s',
	'lockredis.command_timeout' => '3s');

my $in_time_ms = 1000 * limit(5);

my $redis = LockRedis::Redis->new(config => { bind => [ '127.0.0.1', '-::1' ] });
my $node = LockRedis::Node->create('main', redis => $redis);
my $one = $node->session;
my $two = $node->session;
my $port = $redis->port;
my $came_back = qr/LOG:  lockredis: the lock store at \S+ is up/;

$node->wait_for_up;

sub status
{
	my ($column) = @_;

	return $node->value("SELECT $column FROM redis_lock_status");
}

sub our_clients
{
	my ($server) = @_;

	my @ours = sort { $a->{name} cmp $b->{name} }
	  grep { $_->{name} =~ /^lockredis-/ } $server->clients;
	return @ours;
}

# ----------
# URLs
# ----------

my $long_label = 'a' x 50;
my @malformed = (
	[ '', qr/The URL is empty\./ ],
	[ ' redis://h', qr/Unexpected space .* at position 1\./ ],
	[ 'redis://h ', qr/Unexpected space .* at position 10\./ ],
	[ 'redis://a  redis://b', qr/Unexpected space .* at position 10\./ ],
	[ "redis://h\t", qr/Control character at position 10\./ ],
	[ "redis://h\n/1", qr/Control character at position 10\./ ],
	[ "redis://h\x7f", qr/Control character at position 10\./ ],
	[ "redis://h\xc3\xa9", qr/not ASCII .* at position 10\./ ],

	[ 'localhost', qr/Missing scheme .* at position 1\./ ],
	[ 'localhost:6379', qr/Missing scheme .* at position 1\./ ],
	[ '//localhost', qr/Missing scheme .* at position 1\./ ],
	[ '://localhost', qr/Missing scheme .* at position 1\./ ],
	[ 'redis:localhost', qr/Missing scheme .* at position 1\./ ],
	[ 'redis:/localhost', qr/Missing scheme .* at position 1\./ ],
	[ '/tmp/redis.sock', qr/Missing scheme .* at position 1\./ ],
	[ 'http://localhost', qr/Unknown scheme .* at position 1\./ ],
	[ 'redis2://localhost', qr/Unknown scheme .* at position 1\./ ],
	[ 'redis ://localhost', qr/Missing scheme .* at position 1\./ ],
	[ 'u:p@redis://h', qr/Unknown scheme .* at position 1\./ ],

	[ 'redis://', qr/Empty host at position 9\./ ],
	[ 'redis:///0', qr/Empty host at position 9\./ ],
	[ 'redis://:6379', qr/Empty host at position 9\./ ],
	[ 'redis://u@', qr/Empty host at position 11\./ ],
	[ 'redis://h*st', qr/Invalid character in host at position 10\./ ],
	[ 'redis://h%41st', qr/Invalid character in host at position 10\./ ],
	[ 'redis://h,i', qr/Invalid character in host at position 10\./ ],
	[ 'redis://a..b', qr/Empty label in host at position 11\./ ],
	[ 'redis://.a', qr/Empty label in host at position 9\./ ],
	[
		'redis://' . join('.', ($long_label) x 6),
		qr/Host too long \(255 characters at most\) at position 9\./
	],
	[ 'redis://1.2.3', qr/Invalid IPv4 address at position 9\./ ],
	[ 'redis://1.2.3.4.5', qr/Invalid IPv4 address at position 9\./ ],
	[ 'redis://256.1.1.1', qr/Invalid IPv4 address at position 9\./ ],
	[ 'redis://::1', qr/Several colons .* at position 9\./ ],
	[ 'redis://h:1:2', qr/Several colons .* at position 9\./ ],
	[ 'redis://[::1', qr/Missing closing bracket .* at position 9\./ ],
	[ 'redis://[]', qr/Empty host at position 9\./ ],
	[ 'redis://[::g]', qr/Invalid IPv6 address at position 10\./ ],
	[ 'redis://[1.2.3.4]', qr/Invalid IPv6 address at position 10\./ ],
	[ 'redis://[' . '1:' x 40 . ']', qr/Invalid IPv6 address at position/ ],
	[ 'redis://[::1]x', qr/Only a port may follow .* at position 14\./ ],
	[ 'redis://[::1]6379', qr/Only a port may follow .* at position 14\./ ],

	[ 'redis://h:', qr/Invalid port .* at position 11\./ ],
	[ 'redis://[::1]:', qr/Invalid port .* at position 15\./ ],
	map({ [ "redis://h:$_", qr/Invalid port .* at position 11\./ ] } '0',
		'65536', '99999999999999999999', '-1', '+1', '0x10', '6379x', '6379,',
		'1.5'),

	[ 'redis://@h', qr/Empty user name at position 9\./ ],
	[ 'redis://u:@h', qr/Empty password at position 11\./ ],
	[ 'redis://:@h', qr/Empty password at position 10\./ ],
	[ 'redis://u%@h', qr/Invalid percent-escape .* at position 10\./ ],
	[ 'redis://u%4@h', qr/Invalid percent-escape .* at position 10\./ ],
	[ 'redis://u%zz@h', qr/Invalid percent-escape .* at position 10\./ ],
	[ 'redis://u:p%4@h', qr/Invalid percent-escape .* at position 12\./ ],
	[ 'redis://u%00@h', qr/Control character in the user name at position 10\./ ],
	[ 'redis://u:p%0a@h', qr/Control character in the password at position 12\./ ],
	[
		'redis://' . 'u' x 256 . '@h',
		qr/User name too long \(255 bytes at most\) at position 264\./
	],
	[
		'redis://:' . 'p' x 512 . '@h',
		qr/Password too long \(511 bytes at most\) at position 521\./
	],

	map({ [ "redis://h/$_", qr/Invalid database number .* at position 11\./ ] }
		'x', '-1', '1.5', '0x1', '1/2', '1/', '2147483648',
		'99999999999999999999'),
	[ 'redis://h?db=1', qr/Unknown query parameter .* at position 10\./ ],
	[ 'redis://h/1?x', qr/Unknown query parameter .* at position 12\./ ],
	[ 'redis://h#x', qr/Unexpected fragment at position 10\./ ],

	[ 'unix://', qr/Empty socket path at position 8\./ ],
	[ 'unix://?db=1', qr/Empty socket path at position 8\./ ],
	[ 'unix://tmp/x', qr/must be absolute .* at position 8\./ ],
	[ 'unix:///', qr/names no file at position 8\./ ],
	[ 'unix:///' . 'x' x 107, qr/Socket path too long .* at position 115\./ ],
	[ 'unix:///x%00', qr/Control character in the socket path at position 10\./ ],
	[ 'unix:///x%2', qr/Invalid percent-escape .* at position 10\./ ],
	[ 'unix:///x?', qr/Unknown query parameter .* at position 11\./ ],
	[ 'unix:///x?db', qr/Unknown query parameter .* at position 11\./ ],
	[ 'unix:///x?foo=1', qr/Unknown query parameter .* at position 11\./ ],
	[ 'unix:///x?db=', qr/Invalid database number .* at position 14\./ ],
	[ 'unix:///x?db=x', qr/Invalid database number .* at position 14\./ ],
	[ 'unix:///x?db=1&db=2', qr/Unknown query parameter .* at position 15\./ ],

	# What is not served yet is judged as strictly.
	[ 'rediss://h:0', qr/Invalid port .* at position 12\./ ],
	[ 'rediss://h/x', qr/Invalid database number .* at position 12\./ ],
	[ 'redis-sentinel://h', qr/Missing service name at position 19\./ ],
	[ 'redis-sentinel://h/', qr/Missing service name at position 19\./ ],
	[ 'redis-sentinel://h//0', qr/Missing service name at position 19\./ ],
	[ 'redis-sentinel://h/a*', qr/Invalid character in service .* 21\./ ],
	[ 'redis-sentinel://h/a/x', qr/Invalid database number .* 22\./ ],
	[ 'redis-sentinel://h,,i/a', qr/Empty host at position 20\./ ],
	[ 'redis-cluster://h,', qr/Empty host at position 19\./ ],
	[ 'redis-cluster://h:1,i:0', qr/Invalid port .* at position 23\./ ],
	[ 'redis-cluster://h/1', qr/no database numbers.* at position 19\./ ],
	[ 'redis://a redis://b:0', qr/Invalid port .* at position 21\./ ],
	[ 'redis://a rediss://', qr/Empty host at position 20\./ ]);

my $not_offered = 'not offered by this version\.';
my @not_served = (
	map({ [ $_, qr/TLS \(rediss:\/\/\) are $not_offered/ ] } 'rediss://h',
		'rediss://u@h:1/0',
		'REDISS://[::1]'),
	map({ [ $_, qr/Sentinel .* is $not_offered/ ] } 'redis-sentinel://h/s',
		'redis-sentinel://u@h:1,[::1]:2,1.2.3.4/my-master.1/3'),
	map({ [ $_, qr/Redis Cluster .* is $not_offered/ ] } 'redis-cluster://h',
		'redis-cluster://u@h:1,i:2,j/'),
	map({ [ $_, qr/independent masters\) are $not_offered/ ] }
		'redis://a redis://b',
		'redis://a:1 rediss://b unix:///c?db=1'));

my @valid = (
	'redis://h', 'redis://h/', 'redis://h:1', 'redis://h:65535/0', 'REDIS://h',
	'Redis://h.example.org./2147483647', 'redis://under_score-1', 'redis://1.2.3.4:5',
	'redis://[::1]', 'redis://[::ffff:1.2.3.4]:1/2', 'redis://user@h',
	'redis://u%40s%2Fer@h:1/2', 'redis://007', 'unix:///x', 'UNIX:///x/y.sock?db=0',
	'unix:///a%20b?db=15', 'unix:///' . 'x' x 106,
	'redis://' . 'u' x 255 . '@h');

# 007 has digits only, and is no address.
@valid = grep { $_ ne 'redis://007' } @valid;
push @malformed, [ 'redis://007', qr/Invalid IPv4 address at position 9\./ ];

sub alter
{
	my ($url) = @_;

	$url =~ s/([\\'])/\\$1/g;
	return "ALTER SYSTEM SET lockredis.url = E'$url'";
}

sub shown
{
	my ($url) = @_;

	$url =~ s/[^ -~]/?/g;
	return length $url > 60 ? substr($url, 0, 57) . '...' : "'$url'";
}

foreach my $case (@malformed)
{
	my ($url, $detail) = @$case;

	$one->query_fails(alter($url), '22023', qr/DETAIL:  .*$detail/,
		'malformed: ' . shown($url));
}
foreach my $case (@not_served)
{
	my ($url, $detail) = @$case;

	$one->query_fails(alter($url), '0A000', qr/DETAIL:  .*$detail/,
		'not served: ' . shown($url));
}
$one->query_is(alter($_), '', 'valid: ' . shown($_)) foreach @valid;
$one->query_warns(alter('redis://:p%40ss@h'),
	'', '01000', qr/contains a password/, 'valid: a password');
$one->query('ALTER SYSTEM RESET lockredis.url');

# ----------
# Reload
# ----------

$one->value("SELECT redis_lock('one')");
$two->value("SELECT redis_is_locked('k')");
my @before = map { "$_->{name} $_->{id}" } our_clients($redis);

# Malformed: said in the log, and nothing else happens.
foreach my $case (
	[ 'redis://h:0', qr/Invalid port .* at position 11\./ ],
	[ 'rediss://h', qr/TLS .* are $not_offered/ ])
{
	my ($url, $detail) = @$case;
	$node->log_since_here;
	$node->append_conf('postgresql.conf', "lockredis.url = '$url'");
	$node->reload;
	poll_until('the complaint in the log',
		sub { $node->logged(qr/contains errors/) });
	like(
		$node->log_text,
		qr/LOG:  invalid value for parameter "lockredis\.url".*\n.*DETAIL:  .*$detail/,
		"reload with $url is refused in the log");
	is($one->value('SHOW lockredis.url'), $redis->url, 'the old one is kept');
	$one->query_is("SELECT redis_extend('one', '1min')", 't', 'and works');
}
is_deeply([ map { "$_->{name} $_->{id}" } our_clients($redis) ],
	\@before, 'over the same connections');

# Nothing changed for us: neither do our connections.
$node->log_since_here;
$node->set('lockredis.url' => $redis->url, 'lockredis.lease' => '20s');
is($one->value('SHOW lockredis.lease'), '20s', 'a reload for another reason');
$two->value("SELECT redis_is_locked('k')");
$one->query_is("SELECT redis_extend('one', '1min')", 't', 'all is well');
poll_until(
	'the watchdog to have taken notice',
	sub { status('state') eq 'up' && $node->logged(qr/received SIGHUP/) });
is_deeply([ map { "$_->{name} $_->{id}" } our_clients($redis) ],
	\@before, 'a reload that leaves the URL alone leaves connections alone');
is($node->times_logged($came_back), 0, 'and is no news');

# ----------
# Connections: how many, and their names
# ----------

my @ten = map { $node->session } 1 .. 10;
$_->value("SELECT redis_is_locked('one')") foreach @ten;
$redis->cmd('HSET', 'foreign', 'somebody:1', 1);
$redis->cmd('PEXPIRE', 'foreign', 60_000);
$_->start("SELECT redis_lock('foreign')") foreach @ten;
$node->wait_for_waiters('foreign', 10);
poll_until('the subscription',
	sub { $redis->subscribers('redisson_lock__channel:{foreign}') });
my $watchdog = $node->watchdog_pid;
is_deeply(
	[ map { $_->{name} } our_clients($redis) ],
	[
		sort("lockredis-listener-$watchdog", "lockredis-watchdog-$watchdog",
			map { 'lockredis-session-' . $_->pid } $one, $two, @ten)
	],
	'a connection for each session, and two for the watchdog');
$_->cancel foreach @ten;
$_->wait foreach @ten;
$redis->cmd('DEL', 'foreign');
$_->quit foreach splice @ten, 1;
poll_until('their connections to be closed',
	sub { scalar(our_clients($redis)) <= 5 });

# Found dead, again and again: made again, and nothing is lost on the way.
my $before = descriptors($one, $two, $ten[0], $node);
foreach my $round (1 .. 30)
{
	$redis->cmd('CLIENT', 'KILL', 'ID', $_->{id})
	  foreach grep { $_->{name} =~ /session/ } our_clients($redis);
	$_->value("SELECT redis_is_locked('one')") foreach $one, $two, $ten[0];
}
is_deeply(descriptors($one, $two, $ten[0], $node),
	$before, 'no descriptor is lost over 30 dead connections');
is(scalar(grep { $_->{name} =~ /session/ } our_clients($redis)),
	3, 'still a connection for each session');
$ten[0]->quit;

# A Redis that ends connections which are idle for a second.  One that listens
# in vain is missed by nobody.
$redis->cmd('HSET', 'foreign', 'somebody:1', 1);
$redis->cmd('PEXPIRE', 'foreign', 60_000);
$two->start("SELECT redis_lock('foreign')");
poll_until('the subscription',
	sub { $redis->subscribers('redisson_lock__channel:{foreign}') });
$redis->cmd('DEL', 'foreign');
$redis->cmd('PUBLISH', 'redisson_lock__channel:{foreign}', '0');
$two->wait;
$two->value("SELECT redis_unlock('foreign')");
$node->log_since_here;
$redis->cmd('CONFIG', 'SET', 'timeout', 1);
poll_until(
	'all idle connections to be closed',
	sub { !grep { $_->{name} !~ /watchdog/ } our_clients($redis) });
$redis->cmd('CONFIG', 'SET', 'timeout', 0);
$two->query_is("SELECT redis_try_lock('idle'), redis_unlock('idle')",
	't|t', 'idle connections that were closed are made again');
is(status('state'), 'up', 'the store was up all the time');
is( $node->times_logged(
		qr/lock store is down|no release messages|lock store at \S+ is up/),
	0,
	'all of which is no news');

# ----------
# Another Redis
#
# One holds a lock of the old place; another session of this server waits there
# for somebody else, within a statement, and so does not see the reload.
# ----------

my $other = LockRedis::Redis->new(name => 'other');
my $waiter = $node->session(settings => { 'lockredis.lease' => '3s' });
$redis->cmd('HSET', 'foreign', 'somebody:1', 1);
$redis->cmd('PEXPIRE', 'foreign', 3000);
$waiter->start("SELECT redis_lock('foreign')");
$node->wait_for_waiters('foreign', 1);
$two->value("SELECT redis_lock('two')");
$other->cmd('HSET', 'two', 'newcomer:1', 1);
$other->cmd('PEXPIRE', 'two', 60_000);

$node->log_since_here;
$node->set('lockredis.url' => $other->url);
poll_until(
	'the losses to be seen',
	sub {
		$node->value(
			'SELECT count(*) FROM redis_locks WHERE lost_at IS NOT NULL') == 2;
	});
$two->query_fails("SELECT redis_assert_held('two')",
	'55000', qr/taken by newcomer:1/, 'taken at the new place');
$two->query_warns("SELECT redis_unlock('two')",
	'f', '01000', qr/was lost/, 'acknowledged');
$one->query_warns("SELECT redis_unlock('one')",
	'f', '01000', qr/was lost.*was changed/s,
	'not there at the new place: lost, though its lease was given');
$one->query_is("SELECT redis_try_lock('one')", 't', 'taken at the new place');
is_deeply([ $other->all_keys ], [ 'one', 'two' ], 'where it is');
is(status('address'), '127.0.0.1:' . $other->port, 'known to the view');

# Nobody looks after the old place any more.
$waiter->wait->fails('08006', qr/has another place now/,
	'who was waiting is told to start again');
$_->value("SELECT redis_is_locked('k')") foreach $one, $two, $waiter;
poll_until('nobody to be connected to the old place any more',
	sub { !our_clients($redis) });
$waiter->quit;
$one->query_is("SELECT redis_unlock('one')", 't', 'given back');
$other->cmd('DEL', 'two');
$redis->cmd('DEL', $redis->all_keys) if $redis->all_keys;
$other->stop;

# ----------
# Databases, unix sockets, host names, IPv6
# ----------

# The keys of the database that holds the lock, after it was taken there.
sub found_in
{
	my ($db) = @_;
	my $raw = $redis->connection;

	$raw->call('SELECT', $db);
	my $keys = $raw->call('KEYS', '*');
	$raw->disconnect;
	return "@$keys";
}

my $socket = $redis->socket_path;
foreach my $case (
	[ "redis://127.0.0.1:$port/3", 3 ],
	[ "redis://127.0.0.1:$port/0", 0 ],
	[ "redis://127.0.0.1:$port/", 0 ],
	[ "unix://$socket", 0 ],
	[ "unix://$socket?db=7", 7 ],
	[ "redis://localhost:$port/2", 2 ])
{
	my ($url, $db) = @$case;
	my ($name) = $url =~ /^(\w+:\/\/\w*).*?((?:db=|\/)\d*)?$/;

	$node->set('lockredis.url' => $url);
	$one->query_is("SELECT redis_try_lock('where')", 't', "$name, db $db");
	is(found_in($db), 'where', 'is the database');
	my ($client) =
	  grep { $_->{name} eq 'lockredis-session-' . $one->pid } our_clients($redis);
	is($client->{db}, $db, 'of the connection');
	$redis->cmd('CLIENT', 'KILL', 'ID', $client->{id});
	$one->query_is("SELECT redis_unlock('where')", 't', 'and of the next one');
}

SKIP:
{
	my $v6 = IO::Socket::IP->new(LocalHost => '::1', Listen => 1);
	skip 'no IPv6 on this machine', 2 unless $v6;
	close $v6;
	$node->set('lockredis.url' => "redis://[::1]:$port/5");
	$one->query_is("SELECT redis_try_lock('where')", 't', 'IPv6');
	is(found_in(5), 'where', 'in its database');
	like(status('address'), qr/^\[::1\]:$port$/, 'shown in brackets');
	$one->query_is("SELECT redis_unlock('where')", 't', 'and unlock');
}

$node->set('lockredis.url' => "redis://127.0.0.1:$port/99");
$one->query_fails("SELECT redis_try_lock('k')",
	'08006', qr/refused.*ERR DB index is out of range/s, 'no such database');

$node->set('lockredis.url' => "unix://$socket.not");
$one->query_fails("SELECT redis_try_lock('k')",
	'08001', qr/Could not connect to the node: No such file/, 'no such socket');

# A unix socket whose queue of connections is full.  (The kernel takes one more
# than the backlog.)
my $narrow =
  LockRedis::Redis->new(name => 'narrow', config => { 'tcp-backlog' => 1 });
$node->set(%short, 'lockredis.url' => $narrow->unix_url);
$node->wait_for_up;
my $late = $node->session;
$narrow->freeze;
my @fillers;
my $full = 0;
until ($full || @fillers == 100)
{
	socket(my $filler, AF_UNIX, SOCK_STREAM, 0) or die "no socket: $!";
	$filler->blocking(0);
	$full = !connect($filler, pack_sockaddr_un($narrow->socket_path));
	push @fillers, $filler;
}
ok($full, 'the queue is full');
my $result = $late->query("SELECT redis_try_lock('k')");
$result->fails('08001', qr/Could not connect to the node in time/,
	'a unix socket without room');
cmp_ok($result->ms, '<', $in_time_ms, 'within the budget');
$narrow->thaw;
poll_until('room in the queue',
	sub { $late->query("SELECT redis_try_lock('k')")->out eq 't' });
$late->quit;
$_->close foreach @fillers;
$narrow->stop;

# A name that nobody knows, by RFC 6761.
$node->set(%short, 'lockredis.url' => "redis://no-such-host.invalid:$port");
$result = $one->query("SELECT redis_try_lock('k')");
$result->fails('08001',
	qr/could not reach.*host name in lockredis\.url/s,
	'unknown host');
cmp_ok($result->ms, '<', $in_time_ms, 'within the budget');
poll_until('the store to be down', sub { status('state') eq 'down' });
like(
	status('last_error'),
	qr/resolve the host name.*: \w/,
	"the view has the resolver's words");
$one->query_fails("SELECT redis_is_locked('k')",
	'08001', qr/resolve the host name.*: \w/, 'and so has the next error');
$node->set('lockredis.url' => "redis://localhost:$port");
poll_until('the right name to be resolved',
	sub { $one->query("SELECT redis_try_lock('k')")->out eq 't' });
$one->query_is("SELECT redis_unlock('k')", 't', 'and all is well');

# One name right after another: the limit of how often a name is resolved (once
# a second, longer than may be waited here) is for one and the same.
$node->set(
	'lockredis.url' => "REDIS://LocalHost:$port/4",
	'lockredis.connect_timeout' => '800ms');
$one->query_is("SELECT redis_try_lock('k')", 't', 'the next host name');
is(found_in(4), 'k', 'in its database');
$one->query_is("SELECT redis_unlock('k')", 't', 'and unlock');
$node->set(%default);

# ----------
# What is not Redis, or out of its mind
#
# A server of the test whose behaviour is chosen before each call.  Whenever it
# changes, the connections are closed.  It asks nobody and knows no locks.
# ----------

my $inspect_none = "*4\r\n\$4\r\nnone\r\n:-2\r\n\$0\r\n\r\n\$0\r\n\r\n";
my $inspect_held =
  "*4\r\n\$4\r\nhash\r\n:1000\r\n\$3\r\na:1\r\n\$1\r\n1\r\n";
my $fake = FakeNode->new(
	good => { script => sub { return script_reply(@_) } },
	grants => {
		script => sub {
			my @args = @_;
			return "*3\r\n:0\r\n:0\r\n:" . int(Time::HiRes::time() * 1000) . "\r\n"
			  if @args == 7;
			return "+OK\r\n";
		}
	},
	late => {
		script => sub {
			my @args = @_;
			return "*3\r\n:2\r\n:0\r\n:" . int(Time::HiRes::time() * 1000) . "\r\n"
			  if @args == 7;
			return script_reply(@args);
		}
	},
	chatty => { script => sub { return script_reply(@_) . $inspect_held } },
	mumbling =>
	  { script => sub { return script_reply(@_) . substr $inspect_held, 0, 9 } },
	lingering => {
		script => sub { return script_reply(@_) },
		afterwards => $inspect_held
	});

# What a node without any lock answers to a script, told by its arguments.
sub script_reply
{
	my ($command, $script, $nkeys, @args) = @_;

	return "*0\r\n" if !$nkeys;
	return $inspect_none if @args == 1;
	return "*3\r\n:1\r\n:60000\r\n\$3\r\na:1\r\n" if @args == 4 && $nkeys == 1;
	my $locks = (@args - 2 - $nkeys) / 2;
	return "*$locks\r\n" . ":-1\r\n" x $locks;
}

sub sane_again
{
	$fake->behave('good');
	poll_until('sane answers again',
		sub { $one->query("SELECT redis_is_locked('k')")->out eq 'f' });
	return;
}

# These fail with class 08, in time, and with these words.
my @all_calls = (
	q{redis_try_lock('k')}, q{redis_try_lock('k', '1min', '10s')},
	q{redis_is_locked('k')}, q{redis_force_unlock('k')});
my @calls = @all_calls;

sub out_of_its_mind
{
	my ($name, $words, %behaviour) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @wrong;

	foreach my $call (@calls)
	{
		sane_again();
		$fake->behave($name, %behaviour);
		my $got = $one->query("SELECT $call");
		push @wrong, "$call: $got->{out} $got->{raw}"
		  unless ($got->sqlstate || '') =~ /^08/
		  && $got->{raw} =~ $words
		  && $got->{raw} !~ /[^\n -~]/
		  && $got->ms < $in_time_ms;
	}
	return ok(!@wrong, $name) || diag join "\n", @wrong;
}

$node->set('lockredis.url' => $fake->url);
sane_again();
$node->wait_for_up;
$two->query_is("SELECT redis_is_locked('k')", 'f', 'the false node answers');
$before = descriptors($one, $two, $node);
my $one_pid = $one->pid;

my $no_redis = qr/The node's answer is not in Redis's protocol/;
my $no_sense = qr/The node's answer makes no sense/;
my $cut_off = qr/closed the connection|connection to the node was lost/;

out_of_its_mind('closes at once', $cut_off, accept => 'close');
out_of_its_mind('resets at once', qr/$cut_off|Could not connect/,
	accept => 'reset');
out_of_its_mind('closes when asked', $cut_off, raw => '', then => 'close');
out_of_its_mind('resets when asked', $cut_off, raw => '', then => 'reset');
out_of_its_mind(
	'HTTP',
	qr/$no_redis: it seems to be an HTTP server/,
	raw => "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	then => 'close');
out_of_its_mind(
	'a TLS alert', qr/$no_redis: it seems to expect TLS/,
	raw => "\x15\x03\x01\x00\x02\x02\x46",
	then => 'close');
out_of_its_mind('an SSH greeting', $no_redis,
	greet => "SSH-2.0-OpenSSH_9.2p1 Debian\r\n");
out_of_its_mind('an SMTP greeting', $no_redis, greet => "220 mail ESMTP\r\n");
out_of_its_mind('a MySQL greeting', $no_redis,
	greet => "J\0\0\0\n8.0.30\0\x08\0\0\0abcdefgh\0\xff\xf7");
out_of_its_mind('empty lines', $no_redis, raw => "\r\n\r\n\r\n");
out_of_its_mind('zeros', $no_redis, raw => "\0" x 1000);
out_of_its_mind('endless noise', $no_redis, raw => "\xde\xad\xbe\xef" x 4096,
	then => 'flood');
out_of_its_mind('a greeting in RESP', qr/$no_sense|not asked for/,
	greet => ":1\r\n:2\r\n");

my %bytes = (
	'a nested array' => "*2\r\n*1\r\n:1\r\n:1\r\n",
	'an array nested 10,000 times' => "*1\r\n" x 10_000,
	'an array of a billion' => "*1000000000\r\n",
	'an array of 2^40' => "*1099511627776\r\n",
	'an array of -7' => "*-7\r\n",
	'an array of 300' => "*300\r\n" . ":1\r\n" x 300,
	'an array of letters' => "*abc\r\n",
	'a string of 10^30' => '$1' . '0' x 30 . "\r\nabc",
	'a string of -7' => "\$-7\r\n",
	'a string of letters' => "\$abc\r\n",
	'a string that is too long' => "\$1\r\nabc\r\n",
	'a number with letters' => ":12abc\r\n",
	'an empty number' => ":\r\n",
	'a number of 20 digits' => ":99999999999999999999\r\n",
	'a nil' => "\$-1\r\n",
	'a nil array' => "*-1\r\n",
	'an empty array' => "*0\r\n",
	'a status' => "+FINE\r\n",
	'a RESP3 map' => "%1\r\n+a\r\n+b\r\n",
	'a RESP3 null' => "_\r\n",
	'a RESP3 boolean' => "#t\r\n",
	'a RESP3 double' => ",1.5\r\n",
	'a RESP3 set' => "~1\r\n:1\r\n",
	'a RESP3 push' => ">1\r\n:1\r\n",
	'a RESP3 big number' => "(123456789012345678901234567890\r\n");

# Every one of them as the answer to everything, and to a script only.
foreach my $what (sort keys %bytes)
{
	out_of_its_mind($what, qr/$no_redis|$no_sense/, raw => $bytes{$what} x 8);
	out_of_its_mind("$what, from a script",
		qr/$no_redis|$no_sense/, script => $bytes{$what});
}

# Endless, within one reply.
foreach my $start ('$2147483647', '+', '-', ':', '*')
{
	my $line = $start =~ /^\$/ ? "$start\r\n" : $start;
	out_of_its_mind("an endless reply: $start", $no_redis,
		raw => $line . 'x' x 16384, then => 'flood');
}

# The beginning of a reply.
foreach my $beginning ('$', "\$10\r\nabc", "*3\r\n:0\r\n:0", '+O', ':', "*3\r\n")
{
	my $name = $beginning =~ s/[\r\n]+/ /gr;
	out_of_its_mind("the beginning $name, then the end",
		$cut_off, raw => $beginning, then => 'close');
	out_of_its_mind("the beginning $name from a script, then a reset",
		$cut_off, script => $beginning, then => 'reset');
}

# Well-formed, of the right type even, and wrong.
foreach my $reply (
	[ ':0', ':0', '$x' ],
	[ ':0', ':-1', ':1000' ],
	[ ':0', ':0', ':-1' ],
	[ ':0', ':0', ':99999999999999999' ],
	[ ':9', ':0', ':1000' ],
	[ ':-1', ':0', ':1000' ],
	[ '$0', ':0', ':1000' ],
	[ ':1', ':-5', '$a:1' ],
	[ ':1', ':1000', ':1' ],
	[ ':1', '$1000', '$a:1' ],
	[ ':3', ':-1', ':1' ],
	[ ':0', ':0' ],
	[ ':1', ':1000', '$a:1', '$a:1' ],
	[ '$hash', '$x', '$a:1', '$1' ],
	[ '$hash', ':-9', '$a:1', '$1' ],
	[ '$hash', ':1', ':1', '$1' ],
	[ ':1', ':1', '$a:1', '$1' ],
	[ '$hash', ':1', '$a:1', ':1' ])
{
	my $bytes = join '', '*' . @$reply . "\r\n", map {
		/^\$(.*)/ ? '$' . length($1) . "\r\n$1\r\n" : "$_\r\n"
	} @$reply;
	out_of_its_mind("a script says @$reply", $no_sense, script => $bytes);
}

# Errors.  Their words are shown, but no more of them than is good.
out_of_its_mind('an error to everything',
	qr/The node answered: ERR unknown command/,
	reply => "-ERR unknown command\r\n");
out_of_its_mind('an empty error', qr/The node answered: /, reply => "-\r\n");
out_of_its_mind('a long error', qr/The node answered: ERR x{50,200}\b/,
	reply => '-ERR ' . 'x' x 100_000 . "\r\n");
out_of_its_mind(
	'an error with control characters',
	qr/The node answered: ERR \?\[31mred\?\?end/,
	script => "-ERR \e[31mred\a\xffend\r\n");
out_of_its_mind('a node of a cluster, without any address',
	qr/The node answered: (?:MOVED|ASK) 3999$/m,
	script => "-$_ 3999 10.11.12.13:6381\r\n")
  foreach qw(MOVED ASK);
out_of_its_mind('NOSCRIPT for ever', qr/The node answered: NOSCRIPT/,
	script => "-NOSCRIPT No matching script.\r\n");

# Silence, from the start or in the middle of something.
$node->set(%short);
@calls = q{redis_is_locked('k')};
out_of_its_mind('says nothing', qr/did not answer in time/, raw => '');
out_of_its_mind('the beginning of a status, then silence',
	qr/did not answer in time/, raw => '+O');
@calls = q{redis_try_lock('k')};
out_of_its_mind('a string of 2^63-1, then silence',
	qr/did not answer in time/, script => "\$9223372036854775807\r\nabc");
out_of_its_mind('a part of an array, then silence',
	qr/did not answer in time/, script => "*3\r\n:0\r\n:0");
@calls = @all_calls;
$node->set(%default);

# An answer too many, or the beginning of one, or one that comes a little later:
# never taken for the answer to the next request.
sane_again();
foreach my $way (qw(chatty mumbling lingering))
{
	$fake->behave($way);
	foreach (1 .. 5)
	{
		$two->query_is("SELECT redis_is_locked('k')",
			'f', "an answer too many: $way");
		$fake->finish_sending;
	}
}

# A clock that is always ahead.
$fake->behave('late');
$one->query_fails("SELECT redis_try_lock('k')",
	'08006', qr/too late/, 'refused as too late twice');

# What was taken from it cannot be given back.
$fake->behave('grants');
$two->query_is("SELECT redis_try_lock('granted', lease => '1min')",
	't', 'taken');
$two->query_warns("SELECT redis_unlock('granted')",
	't', '08006', $no_sense, 'given back, with nonsense for an answer');

is($one->value('SELECT pg_backend_pid()'), $one_pid, 'the same backend');
is($node->watchdog_pid, $watchdog, 'the same watchdog');
sane_again();
$two->query_is("SELECT redis_is_locked('k')", 'f', 'the false node is sane');
$node->wait_for_up;
poll_until(
	'the descriptors to be as before',
	sub {
		my $open = descriptors($one, $two, $node);
		return !grep { $open->{$_} > $before->{$_} } keys %$before;
	});
ok(1, 'no descriptor is lost over all of this');

# Memory: more of the large replies than a leak could hide among.
sub private_kb
{
	my ($pid) = @_;

	return PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~
	  /^RssAnon:\s+(\d+)/m ? $1 : die 'no RssAnon';
}

my %kb = map { $_ => private_kb($_) } $one_pid, $watchdog;
foreach my $round (1 .. 30)
{
	$fake->behave(
		"flood $round",
		raw => "\$2147483647\r\n" . 'x' x 16384,
		then => 'flood');
	$one->query("SELECT redis_try_lock('k')");
}
sane_again();
foreach my $pid (sort keys %kb)
{
	cmp_ok(private_kb($pid) - $kb{$pid},
		'<', 12_000, 'memory does not grow with what is sent');
}
$node->set('lockredis.url' => $redis->url);
$fake->stop;
$node->wait_for_up;
nothing_left($node, $redis, name => 'nothing is left of the false node');

# ----------
# A bad way to the right node
# ----------

my $proxy = LockRedis::Proxy->new($redis);
$node->set('lockredis.url' => $proxy->url);
$node->wait_for_up;

sub works_again
{
	$proxy->clear;
	poll_until('the node to work again',
		sub { $one->query("SELECT redis_is_locked('other')")->out eq 'f' });
	return;
}

sub all_gone
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok(
		eval {
			poll_until(
				'everything to be given back',
				sub {
					!$redis->all_keys
					  && $node->value('SELECT count(*) FROM redis_locks') == 0;
				});
		},
		$name);
}

# Slow, but not too slow.
$node->set('lockredis.command_timeout' => '1s');
works_again();
$proxy->rule(on => 'reply', match => 'slow', action => 'delay', ms => 300);
$one->query_is("SELECT redis_try_lock('slow')", 't', 'a slow reply');
$one->query_is("SELECT redis_unlock('slow')", 't', 'is a reply');

# Too slow: the create has run, and is given back.  A later reply is not taken
# for that to the next request.
$proxy->rule(on => 'reply', match => 'slow', action => 'delay', ms => 3000);
$result = $one->query("SELECT redis_try_lock('slow')");
$result->fails('08006', qr/did not answer/, 'a reply that is too slow');
cmp_ok($result->ms, '<', $in_time_ms, 'is not waited for');
works_again();
all_gone('what it took is given back');

$redis->cmd('HSET', 'slow', 'somebody:1', 1);
$proxy->rule(on => 'reply', match => 'slow', action => 'delay', ms => 1500);
$one->query_fails("SELECT redis_is_locked('slow')",
	'08006', qr/did not answer/, 'another one that is too slow');
works_again();
$one->query_is(
	"SELECT redis_is_locked('other'), pg_sleep(1) IS NULL, redis_is_locked('other')",
	'f|f|f',
	'is not the answer to the next question');
$redis->cmd('DEL', 'slow');

# Reconnect and repeat are within the same budget: the connection is reset under
# the request, and a new one gets no answer.
$node->set(%short);
works_again();
my $rule = $proxy->rule(match => 'budget', action => 'hold');
$one->start("SELECT redis_is_locked('budget')");
$proxy->wait_for_rule($rule);
$proxy->mode('silent');
$proxy->reset_all;
$result = $one->wait;
$result->fails('08001', qr/did not answer in time/, 'repeated in vain');
cmp_ok($result->ms, '<', $in_time_ms, 'within one budget');
$proxy->mode('pass');
$proxy->release;
$node->set(%default);
works_again();

# The round trip is that of now, not that of the connection's beginning.
my $quick = $node->session(settings => { 'lockredis.lease' => '2s' });
$quick->value("SELECT redis_lock('quick')");
$proxy->latency(100);
poll_until('the slower round trip to be seen',
	sub { status(q{round_trip > '0.2s'}) eq 't' });
$proxy->latency(0);
poll_until('the quicker round trip to be seen',
	sub { status(q{round_trip < '0.2s'}) eq 't' });
$quick->quit;

# Cut in the middle of the reply, and before it, and before the request.
my @ways = (
	map({
			my $bytes = $_;
			map {
				{
					on => 'reply',
					action => 'truncate',
					bytes => $bytes,
					then => $_
				}
			} qw(close reset)
		} 0,
		1, 3),
	{ action => 'cut' },
	{ action => 'reset' },
	{ action => 'close' });
my $create = 'createa';
foreach my $way (@ways)
{
	my $name = join ' ', map { "$_ $way->{$_}" } sort keys %$way;
	my $arrives = $way->{action} !~ /^(?:reset|close)$/;

	# A create (a script with this key only) is sent once; whether it ran
	# nobody knows.
	$rule = $proxy->rule(
		%$way,
		match => "\$1\r\n1\r\n\$7\r\n$create\r\n",
		times => 0);
	$one->query_fails(
		"SELECT redis_try_lock('$create')",
		'08006',
		qr/the lock store did not answer.*(?:$cut_off)/s,
		"create: $name");
	is($proxy->acted($rule), 1, 'sent once');
	$proxy->clear;
	$create++;

	# What acts only on an own lock is repeated over a new connection, once.
	$one->value("SELECT redis_lock('cut')");
	$rule = $proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_is_locked('cut')", 't', "inspect: $name");
	$proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_lock('cut')", '', "re-entry: $name");
	is((values %{ $redis->hash('cut') })[0], 2, 'counted once');
	$proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_extend('cut', '1h')", 't', "extend: $name");
	cmp_ok($redis->cmd('PTTL', 'cut'), '>', 3_000_000, 'extended');
	$proxy->rule(%$way, match => 'cut');
	$one->query_is("SELECT redis_unlock('cut')", 't', "one unlock: $name");
	is((values %{ $redis->hash('cut') })[0], 1, 'counted once');

	# The last release: gone for sure, but if its answer is lost nobody can say
	# whether the lock had been ours until then.
	$proxy->rule(%$way, match => 'cut');
	my $release = $one->query("SELECT redis_unlock('cut')");
	is($release->out, 't', "last unlock: $name");
	is(scalar($release->warnings), $arrives ? 1 : 0, 'with a warning or not');
	poll_until('the lock to be gone', sub { !$redis->cmd('EXISTS', 'cut') });

	# Twice in a row: once is enough.
	$rule = $proxy->rule(%$way, match => 'twice', times => 2);
	$one->query_fails("SELECT redis_is_locked('twice')",
		'08006', $cut_off, "inspect, twice: $name");
	is($proxy->acted($rule), 2, 'repeated once');
	$proxy->clear;
}
all_gone('all that ran unheard is given back');

# Ended by the node right after an answer: what is sent a moment later is read by
# nobody, so even a create is sent again.  The proxy may be late on a busy machine.
my $again;
foreach my $round (1 .. 5)
{
	$proxy->rule(
		on => 'reply',
		match => "before$round",
		action => 'truncate',
		bytes => 1_000_000,
		then => 'close');
	$again = $one->query(
		"SELECT redis_is_locked('before$round'), pg_sleep(0.004) IS NULL, redis_try_lock('after')"
	);
	last if $again->out eq 'f|f|t';
	all_gone('what may have been taken is given back');
}
is($again->out, 'f|f|t', 'a create on a connection that was just ended');
$one->query_is("SELECT redis_unlock('after')", 't', 'is had once');

# At rest, all at once.
$one->value("SELECT redis_lock('rest')");
$two->value("SELECT redis_lock('rest2')");
$proxy->reset_all;
$one->query_is("SELECT redis_unlock('rest')", 't', 'reset at rest: unlock');
$proxy->reset_all;
$two->query_is("SELECT redis_try_lock('rest')", 't', 'reset at rest: lock');
$two->query_is("SELECT redis_unlock_all()", '2', 'and unlock all');
$one->query_is("SELECT redis_is_locked('k')", 'f', 'reset at rest: inspect');

# connect() that does not return.  Kept connections are not concerned.
$node->set(%short);
$one->query_is("SELECT redis_is_locked('k')", 'f', 'connected');
$proxy->mode('hang');
$one->query_is("SELECT redis_is_locked('k')", 'f', 'kept ones still work');
my $fresh = $node->session;
$result = $fresh->query("SELECT redis_try_lock('k')");
$result->fails('08001', qr/Could not connect to the node in time/,
	'connecting lasts too long');
cmp_ok($result->ms, '<', $in_time_ms, 'and is given up');
$proxy->mode('pass');
poll_until('the store to be back',
	sub { $fresh->query("SELECT redis_try_lock('k')")->out eq 't' });

$_->quit foreach $one, $two, $fresh;
nothing_left($node, $redis);
$proxy->stop;
done_testing();


# A server that accepts, and answers as it is told.
package FakeNode;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::IP;
use JSON::PP;
use POSIX ();
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER TCP_NODELAY);
use Time::HiRes ();

my @fakes;

# Behaviours that need code, by name.
sub new
{
	my ($class, %named) = @_;
	my $listener = IO::Socket::IP->new(
		LocalHost => '127.0.0.1',
		LocalPort => 0,
		Listen => 64,
		Blocking => 0) or die "could not listen: $!";

	pipe(my $orders, my $give_orders) && pipe(my $hear, my $say)
	  or die "could not make a pipe: $!";
	my $pid = fork();
	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		close $_ foreach $give_orders, $hear;
		eval { _serve($listener, $orders, $say, \%named); };
		print STDERR $@ if $@;
		POSIX::_exit(1);
	}
	close $_ foreach $orders, $say;
	$give_orders->autoflush(1);
	my $self = bless {
		pid => $pid,
		orders => $give_orders,
		hear => $hear,
		port => $listener->sockport,
		owner => $$
	}, $class;
	push @fakes, $self;
	close $listener;
	return $self;
}

sub url { my ($self) = @_; return "redis://127.0.0.1:$self->{port}"; }

# accept: "close" or "reset" at once; greet: bytes sent at once; raw: bytes sent
# when something has come; reply: bytes for each command; script: for scripts
# only, the rest is answered as Redis does; afterwards: bytes sent a moment after
# that; then: "close", "reset" or "flood" (repeat it for ever) in the end.
sub behave
{
	my ($self, $name, %behaviour) = @_;

	print { $self->{orders} }
	  encode_json({ name => $name, %behaviour }), "\n";
	readline($self->{hear}) or die 'the false node has ended';
	return;
}

# All that it sends by itself has been sent.
sub finish_sending
{
	my ($self) = @_;

	print { $self->{orders} } "{}\n";
	readline($self->{hear}) or die 'the false node has ended';
	return;
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	kill 'KILL', $self->{pid};
	waitpid delete $self->{pid}, 0;
	return;
}

sub _serve
{
	my ($listener, $orders, $say, $named) = @_;
	my $now = {};
	my (%in, %flood);
	my $readers = IO::Select->new($listener, $orders);
	my $writers = IO::Select->new;

	local $SIG{PIPE} = 'IGNORE';
	my $end = sub {
		my ($conn, $how) = @_;
		$conn->setsockopt(SOL_SOCKET, SO_LINGER, pack('ii', 1, 0))
		  if $how eq 'reset';
		$readers->remove($conn);
		$writers->remove($conn);
		delete @$_{$conn} foreach \%in, \%flood;
		close $conn;
	};
	my $answer = sub {
		my ($conn, $bytes) = @_;
		my $then = $now->{then} || '';

		# Small enough for the buffers of the kernel, but for floods.
		syswrite $conn, $bytes if length $bytes;
		$end->($conn, $then) if $then eq 'close' || $then eq 'reset';
		if ($then eq 'flood')
		{
			$flood{$conn} = substr $bytes, -16384;
			$writers->add($conn);
		}
	};

	while (getppid() != 1)
	{
		my ($readable, $writable) =
		  IO::Select->select($readers, $writers, undef, 1);
		foreach my $conn (@{ $writable || [] })
		{
			next if defined syswrite $conn, $flood{$conn};
			$end->($conn, 'close') unless $!{EAGAIN};
		}
		foreach my $conn (@{ $readable || [] })
		{
			if ($conn == $orders)
			{
				my $line = readline $orders;
				return unless defined $line;
				my $next = decode_json($line);
				if (defined $next->{name})
				{
					$now = { %$next, %{ $named->{ $next->{name} } || {} } };
					$end->($_, 'close')
					  foreach grep { $_ != $listener && $_ != $orders }
					  $readers->handles;
				}
				syswrite $say, "done\n";
				last;
			}
			if ($conn == $listener)
			{
				my $new = $listener->accept or next;
				$new->blocking(0);
				$new->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
				$in{$new} = '';
				$readers->add($new);
				$end->($new, $now->{accept}) if $now->{accept};
				syswrite $new, $now->{greet} if defined $now->{greet};
				next;
			}
			next unless defined $in{$conn};    # ended just now
			my $got = sysread $conn, $in{$conn}, 65536, length $in{$conn};
			if (!$got)
			{
				$end->($conn, 'close') if defined $got || !$!{EAGAIN};
			}
			elsif (defined $now->{raw})
			{
				$answer->($conn, $now->{raw}) if !$flood{$conn};
			}
			else
			{
				_answer_commands($conn, \$in{$conn}, $now, $answer)
				  unless defined $now->{greet};
			}
		}
	}
	return;
}

sub _answer_commands
{
	my ($conn, $in, $now, $answer) = @_;

	while (defined fileno $conn && defined(my $args = _command($in)))
	{
		my $command = uc $args->[0];

		if (defined $now->{reply})
		{
			$answer->($conn, $now->{reply});
		}
		elsif ($command eq 'TIME')
		{
			my ($s, $us) = Time::HiRes::gettimeofday();
			syswrite $conn,
			  join "\r\n", '*2', map({ ('$' . length, $_) } $s, $us), '';
		}
		elsif ($command =~ /^EVAL/)
		{
			my $script = $now->{script};
			$answer->($conn, ref $script ? $script->(@$args) : $script);
			if (defined $now->{afterwards} && defined fileno $conn)
			{
				select undef, undef, undef, 0.03;
				syswrite $conn, $now->{afterwards};
			}
		}
		else
		{
			syswrite $conn, $command eq 'INFO' ? "\$0\r\n\r\n" : "+OK\r\n";
		}
	}
	return;
}

# The next complete command, taken off the input.
sub _command
{
	my ($in) = @_;

	return unless $$in =~ /\A\*(\d+)\r\n/g;
	my ($left, @args) = ($1);
	while ($left-- > 0)
	{
		return unless $$in =~ /\G\$(\d+)\r\n/g;
		my ($length, $at) = ($1, pos $$in);
		return if length $$in < $at + $length + 2;
		push @args, substr $$in, $at, $length;
		pos($$in) = $at + $length + 2;
	}
	substr $$in, 0, pos $$in, '';
	return \@args;
}

END
{
	my $exit_code = $?;

	$_->stop foreach grep { $_->{owner} == $$ } @fakes;
	$? = $exit_code;
}
