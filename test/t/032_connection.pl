# Copyright (c) 2026, lockredis contributors

# lockredis.url, and the way to the node.
#
# - Every malformed URL is refused with what is wrong and where, a form that is
#   valid but not served says so; a reload with one keeps the URL in use.
# - A changed URL: everybody goes to the new place, what is not there is lost.
# - Host names are resolved without holding up a session beyond its budget.
# - One connection a session, at most two for the watchdog, named, kept, made
#   again when found dead.
#
# Proves G18, G27, G30.

use IO::Socket::IP;
use LockRedis::Test;
use LockRedis::Topic::Budgets;
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

my ($node, $redis, $one, $two) = servers(
	sessions => 2, redis => LockRedis::Redis->new(config => { bind => [ '127.0.0.1', '-::1' ] }));
my $port = $redis->port;
my $came_back = qr/LOG:  lockredis: the lock store at \S+ is up/;

sub our_clients ($server)
{
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
	[ "redis://h\t", qr/Control character at position 10\./ ],
	[ "redis://h\xc3\xa9", qr/not ASCII .* at position 10\./ ],

	[ 'localhost', qr/Missing scheme .* at position 1\./ ],
	[ 'http://localhost', qr/Unknown scheme .* at position 1\./ ],

	[ 'redis://', qr/Empty host at position 9\./ ],
	[ 'redis://u@', qr/Empty host at position 11\./ ],
	[ 'redis://h*st', qr/Invalid character in host at position 10\./ ],
	[ 'redis://a..b', qr/Empty label in host at position 11\./ ],
	[
		'redis://' . join('.', ($long_label) x 6),
		qr/Host too long \(255 characters at most\) at position 9\./
	],
	[ 'redis://1.2.3', qr/Invalid IPv4 address at position 9\./ ],
	[ 'redis://007', qr/Invalid IPv4 address at position 9\./ ],
	[ 'redis://::1', qr/Several colons .* at position 9\./ ],
	[ 'redis://[::1', qr/Missing closing bracket .* at position 9\./ ],
	[ 'redis://[]', qr/Empty host at position 9\./ ],
	[ 'redis://[::g]', qr/Invalid IPv6 address at position 10\./ ],
	[ 'redis://[::1]x', qr/Only a port may follow .* at position 14\./ ],

	[ 'redis://h:', qr/Invalid port .* at position 11\./ ],
	map({ [ "redis://h:$_", qr/Invalid port .* at position 11\./ ] } '0',
		'65536', '99999999999999999999', '-1', '+1', '0x10', '6379x', '6379,',
		'1.5'),

	[ 'redis://@h', qr/Empty user name at position 9\./ ],
	[ 'redis://u:@h', qr/Empty password at position 11\./ ],
	[ 'redis://u%@h', qr/Invalid percent-escape .* at position 10\./ ],
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
	[ 'redis://h#x', qr/Unexpected fragment at position 10\./ ],

	[ 'unix://', qr/Empty socket path at position 8\./ ],
	[ 'unix://tmp/x', qr/must be absolute .* at position 8\./ ],
	[ 'unix:///', qr/names no file at position 8\./ ],
	[ 'unix:///' . 'x' x 107, qr/Socket path too long .* at position 115\./ ],
	[ 'unix:///x%00', qr/Control character in the socket path at position 10\./ ],
	[ 'unix:///x%2', qr/Invalid percent-escape .* at position 10\./ ],
	[ 'unix:///x?foo=1', qr/Unknown query parameter .* at position 11\./ ],
	[ 'unix:///x?db=', qr/Invalid database number .* at position 14\./ ],
	[ 'unix:///x?db=1&db=2', qr/Unknown query parameter .* at position 15\./ ],

	# The other forms are judged as strictly.
	[ 'redis-sentinel://h', qr/Missing service name at position 19\./ ],
	[ 'redis-sentinel://h/a*', qr/Invalid character in service .* 21\./ ],
	[ 'redis-sentinel://h,,i/a', qr/Empty host at position 20\./ ],
	[ 'redis-sentinel://a,b,c,d,e,f,g,h,i/s', qr/Too many Sentinels .* at position 34\./ ],
	[ 'redis-sentinel://h/' . 'x' x 128, qr/Service name too long .* at position 20\./ ],
	[ 'rediss-sentinel://h:0/s', qr/Invalid port .* at position 21\./ ],
	[ 'redis-cluster://h,', qr/Empty host at position 19\./ ],
	[ 'redis-cluster://' . join(',', ('h') x 17), qr/Too many nodes .* at position 49\./ ],
	[ 'redis-cluster://h/1', qr/no database numbers.* at position 19\./ ],

	# Independent masters: 3 to 9, each of which could stand alone
	[ 'redis://a redis://b:0', qr/Invalid port .* at position 21\./ ],
	[ 'redis://a redis://b', qr/Too few URLs .*3 to 9 .* at position 11\./ ],
	[ join(' ', map { "redis://h$_" } 0 .. 9), qr/Too many URLs .* at position 100\./ ],
	[ 'redis://a redis://b redis://a', qr/The same server twice: again at position 21\./ ],
	[ 'redis://a redis://b rediss://u@A:6379/3', qr/The same server twice: .* 21\./ ],
	[ 'unix:///a redis://b unix:///a?db=2', qr/The same server twice: .* 21\./ ],
	[ 'redis://a redis-sentinel://h/s redis://b', qr/Only redis:.* at position 11\./ ],
	[ 'redis-cluster://a redis://b redis://c', qr/Only redis:.* at position 1\./ ]);

my @valid = (
	'redis-cluster://h', 'redis-cluster://u@h:1,i:2,j/', 'rediss-cluster://h',
	'redis://h', 'redis://h/', 'redis://h:1', 'redis://h:65535/0', 'REDIS://h',
	'Redis://h.example.org./2147483647', 'redis://under_score-1', 'redis://1.2.3.4:5',
	'redis://[::1]', 'redis://[::ffff:1.2.3.4]:1/2', 'redis://user@h',
	'redis://u%40s%2Fer@h:1/2', 'unix:///x', 'UNIX:///x/y.sock?db=0',
	'rediss://h', 'rediss://u@h:1/0', 'REDISS://[::1]', 'unix:///a%20b?db=15', 'unix:///' . 'x' x 106,
	'redis-sentinel://h/s', 'rediss-sentinel://h/s',
	'redis-sentinel://u@h:1,[::1]:2,1.2.3.4/my-master.1/3',
	'redis-sentinel://a,b,c,d,e,f,g,h/' . 'x' x 127,
	'redis://a redis://b:1/2 unix:///c?db=1', join(' ', map { "rediss://h:$_" } 1 .. 9),
	'redis://' . 'u' x 255 . '@h');

sub alter ($url)
{
	$url =~ s/([\\'])/\\$1/g;
	return "ALTER SYSTEM SET lockredis.url = E'$url'";
}

sub shown ($url)
{
	$url =~ s/[^ -~]/?/g;
	return length $url > 60 ? substr($url, 0, 57) . '...' : "'$url'";
}

foreach my $case (@malformed)
{
	my ($url, $detail) = @$case;

	$one->query_fails(alter($url), '22023', qr/DETAIL:  .*$detail/, 'malformed: ' . shown($url));
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
$node->log_since_here;
$node->append_conf('postgresql.conf', "lockredis.url = 'redis://a redis://b'");
$node->reload;
poll_until('the complaint in the log', sub { $node->logged(qr/contains errors/) });
like(
	$node->log_text,
	qr/LOG:  invalid value for parameter "lockredis\.url".*\n.*DETAIL:  .*Too few URLs .* at position 11\./,
	'reload with a malformed URL is refused in the log');
is($one->value('SHOW lockredis.url'), $redis->url, 'the old one is kept');
$one->query_is("SELECT redis_extend('one', '1min')", 't', 'and works');
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
	sub { $node->lock_status('state') eq 'up' && $node->logged(qr/received SIGHUP/) });
is_deeply([ map { "$_->{name} $_->{id}" } our_clients($redis) ],
	\@before, 'a reload that leaves the URL alone leaves connections alone');
is($node->times_logged($came_back), 0, 'and is no news');

# ----------
# Connections: how many, and their names
# ----------

my @ten = map { $node->session } 1 .. 10;
$_->value("SELECT redis_is_locked('one')") foreach @ten;
$redis->foreign_lock('foreign', ms => 60_000);
$_->start("SELECT redis_lock('foreign')") foreach @ten;
$node->wait_for_waiters('foreign', 10);
poll_until('the subscription', sub { $redis->subscribers($redis->channel('foreign')) });
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
poll_until('their connections to be closed', sub { scalar(our_clients($redis)) <= 5 });

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
$redis->foreign_lock('foreign', ms => 60_000);
$two->start("SELECT redis_lock('foreign')");
poll_until('the subscription', sub { $redis->subscribers($redis->channel('foreign')) });
$redis->foreign_unlock('foreign');
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
is($node->lock_status('state'), 'up', 'the store was up all the time');
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
$redis->foreign_lock('foreign', ms => 10_000);
$waiter->start("SELECT redis_lock('foreign')");
$node->wait_for_waiters('foreign', 1);
$two->value("SELECT redis_lock('two')");
$other->foreign_lock('two', owner => 'newcomer:1', ms => 60_000);

$node->log_since_here;
$node->set('lockredis.url' => $other->url);
poll_until('the losses to be seen', sub { $node->count_locks('lost_at IS NOT NULL') == 2 });
$two->query_fails("SELECT redis_assert_held('two')",
	'55000', qr/taken by newcomer:1/, 'taken at the new place');
$two->query_warns("SELECT redis_unlock('two')", 'f', '01000', qr/was lost/, 'acknowledged');
$one->query_warns("SELECT redis_unlock('one')",
	'f', '01000', qr/was lost.*was changed/s,
	'not there at the new place: lost, though its lease was given');
$one->query_is("SELECT redis_try_lock('one')", 't', 'taken at the new place');
is_deeply([ $other->all_keys ], [ 'one', 'two' ], 'where it is');
is($node->lock_status('address'), '127.0.0.1:' . $other->port, 'known to the view');

# Nobody looks after the old place any more.
$waiter->wait->fails('58030', qr/has been changed/,
	'who was waiting is told to start again');
$_->value("SELECT redis_is_locked('k')") foreach $one, $two, $waiter;
poll_until('nobody to be connected to the old place any more', sub { !our_clients($redis) });
$waiter->quit;
$one->query_is("SELECT redis_unlock('one')", 't', 'given back');
$other->cmd('DEL', 'two');
$redis->cmd('DEL', $redis->all_keys) if $redis->all_keys;
$other->stop;

# ----------
# Databases, unix sockets, host names, IPv6
# ----------

# The keys of the database that holds the lock, after it was taken there.
sub found_in ($db)
{
	my $raw = $redis->connection;

	$raw->call('SELECT', $db);
	my $keys = $raw->call('KEYS', '*');
	$raw->disconnect;
	return "@$keys";
}

my $socket = $redis->socket_path;
foreach my $case (
	[ "redis://127.0.0.1:$port/3", 3 ],
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
	like($node->lock_status('address'), qr/^\[::1\]:$port$/, 'shown in brackets');
	$one->query_is("SELECT redis_unlock('where')", 't', 'and unlock');
}

$node->set('lockredis.url' => "redis://127.0.0.1:$port/99");
$one->query_fails("SELECT redis_try_lock('k')",
	'58030', qr/refused.*ERR DB index is out of range/s, 'no such database');

$node->set('lockredis.url' => "unix://$socket.not");
$one->query_fails("SELECT redis_try_lock('k')",
	'58000', qr/Could not connect to the node: No such file/, 'no such socket');

# A unix socket whose queue of connections is full.  (The kernel takes one more
# than the backlog.)
my $narrow =
  LockRedis::Redis->new(name => 'narrow', config => { 'tcp-backlog' => 1 });
$node->set(%short, 'lockredis.url' => $narrow->unix_url);
$node->wait_for_up;
my $late = $node->session;

# The watchdog, whose connection is there, would find out first that there is no answer.
kill 'STOP', $watchdog;
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
$result->fails('58000', qr/Could not connect to the node in time/, 'a unix socket without room');
cmp_ok($result->ms, '<', $in_time_ms, 'within the budget');
$narrow->thaw;
kill 'CONT', $watchdog;
poll_until('room in the queue', sub { $late->query("SELECT redis_try_lock('k')")->out eq 't' });
$late->quit;
$_->close foreach @fillers;
$narrow->stop;

# A name that nobody knows, by RFC 6761.
$node->set(%short, 'lockredis.url' => "redis://no-such-host.invalid:$port");
$result = $one->query("SELECT redis_try_lock('k')");
$result->fails('58000',
	qr/could not reach.*host name in lockredis\.url/s,
	'unknown host');
cmp_ok($result->ms, '<', $in_time_ms, 'within the budget');
# It is down already, for another reason, until the watchdog has read that.
ok( eval {
		poll_until('the store to be down for this name',
			sub { $node->lock_status('state, last_error') =~ /^down\|.*resolve the host name.*: \w/ });
	},
	"the view has the resolver's words") || diag $node->lock_status('last_error');
$one->query_fails("SELECT redis_is_locked('k')",
	'58000', qr/resolve the host name.*: \w/, 'and so has the next error');
$node->set('lockredis.url' => "redis://localhost:$port");
poll_until('the right name to be resolved',
	sub { $one->query("SELECT redis_try_lock('k')")->out eq 't' });
$one->query_is("SELECT redis_unlock('k')", 't', 'and all is well');

end_test($node, $redis);
