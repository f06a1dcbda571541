# Copyright (c) 2026, lockredis contributors

# Passwords and rights in Redis: right, wrong, changed, missing; users who lack
# one; a password in the URL.
#
# - A refusal is an error with the node's words and its SQLSTATE, never "busy";
#   what was or will be taken is given back.
# - A password never appears in a message, log line or view of ours, an address
#   never in what a client is told.
#
# Proves G19, G32.

use LockRedis::Test;
use LockRedis::Told qw(nothing_leaked);
use LockRedis::Topic::Refusals;

start_servers();

# ----------
# Passwords
# ----------

my $secret = 'hemlich;$ 7%"\'';
my $second = 'second-secret';
my $wrong = 'wrong-secret';
my $safe = LockRedis::Redis->new(name => 'safe', password => $secret);
my $file = $node->basedir . '/password';

sub write_password ($text, $mode)
{
	unlink $file;
	open my $fh, '>', $file or die "could not create $file: $!";
	binmode $fh;
	print $fh $text;
	close $fh or die $!;
	chmod $mode, $file or die $!;
	return;
}

my $denied = qr/the lock store denied access/;
my $look_there = qr/HINT:  Check lockredis\.url and lockredis\.password_file/;

$node->log_since_here;
$node->set('lockredis.url' => $safe->url);
$two->query_fails("SELECT redis_try_lock('p')",
	'58000', qr/$denied.*NOAUTH.*$look_there/s, 'no password');
$two->query_fails("SELECT redis_is_locked('p')",
	'58000', qr/$denied.*NOAUTH.*$look_there/s, 'no password to look');
$node->wait_for_state('down');
is($node->times_logged($went_away), 1, 'logged as down');

# What is wrong with the file, in words.
my $check_file = qr/HINT:  Check lockredis\.password_file/;
$node->set('lockredis.password_file' => $file);
foreach my $case (
	[ undef, 0, qr/Could not open the password file: No such file/ ],
	[ $secret, 0644, qr/.*group or world access.*0600/ ],
	[ $secret, 0640, qr/.*group or world access.*0600/ ],
	[ $secret, 0000, qr/Could not open the password file: Permission denied/ ],
	[ '', 0600, qr/The password file is empty/ ],
	[ "\n", 0600, qr/The password file is empty/ ],
	[ "$secret\n\n", 0600, qr/.*more than one line/ ],
	[ "$secret\0", 0600, qr/.*more than one line/ ],
	[ 'x' x 600, 0600, qr/.*too long/ ])
{
	my ($text, $mode, $words) = @$case;
	my $name = sprintf 'password file, mode %04o: %s', $mode, $words;

	unlink $file;
	write_password($text, $mode) if defined $text;
	$two->query_fails(
		"SELECT redis_try_lock('p')",
		'58000',
		qr/could not reach the lock store.*DETAIL:  $words.*$check_file/s,
		$name);
}
unlink $file;
mkdir $file or die $!;
$two->query_fails("SELECT redis_try_lock('p')",
	'58000', qr/not a regular file/, 'the password file is a directory');
rmdir $file or die $!;

# Wrong, and right in several spellings.  The file is read at each connection.
write_password($wrong, 0600);
$two->query_fails("SELECT redis_try_lock('p')",
	'58000', qr/$denied.*WRONGPASS.*$look_there/s, 'a wrong password');
foreach my $case ([ $secret, 0600 ], [ "$secret\n", 0600 ],
	[ "$secret\r\n", 0400 ])
{
	write_password(@$case);
	$node->reload;
	my $fresh = $node->session;
	$fresh->query_is("SELECT redis_try_lock('p')", 't', 'the right password');
	$fresh->quit;
}
$node->wait_for_up;
$two->query_is("SELECT redis_try_lock('p', lease => '1min')",
	't', 'the session that had the wrong one connects');

# Changed: in Redis, in the file, and told by a reload.
$safe->cmd('CONFIG', 'SET', 'requirepass', $second);
$safe->{password} = $second;
write_password("$second\n", 0600);
$node->set('lockredis.command_timeout' => '4s');
my $fresh = $node->session;
$fresh->query_is("SELECT redis_try_lock('p2')", 't', 'a changed password');
$two->query_is("SELECT redis_unlock('p')", 't', 'for who was there before');
$fresh->query_is("SELECT redis_unlock('p2')", 't', 'and who was not');
$node->wait_for_up;

# A user and a password that nobody asks for.
$node->set('lockredis.url' => $redis->url);
$two->query_fails(
	"SELECT redis_try_lock('p')",
	'58000',
	qr/$denied.*AUTH.*without any password/s,
	'a password, and the node has none');
$node->set('lockredis.password_file' => '');
$node->wait_for_up;

# ----------
# Users and their rights
# ----------

my $port = $redis->port;
write_password($second, 0600);
$node->set('lockredis.password_file' => $file);

# Reload with this user in the URL, and wait until new requests use it.
sub user ($user, @rules)
{
	$redis->cmd('ACL', 'SETUSER', $user, 'reset', 'on', ">$second", @rules);
	my $encoded = $user;
	$encoded =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ge;
	$node->set('lockredis.url' => "redis://$encoded\@127.0.0.1:$port");
	return;
}

user('a@lice', '~*', '&*', '+@all');
$node->wait_for_up;
$two->query_is("SELECT redis_lock('u')", '', 'a user in the URL');

# The watchdog may not have read yet that it is another one.
ok( eval {
		poll_until(
			'the user of both connections',
			sub {
				join(' ', map { $_->{user} } grep { $_->{name} =~ /^lockredis/ } $redis->clients) eq
				  'a@lice a@lice';
			});
	},
	'is who connects') || diag $@;
$two->query_is("SELECT redis_unlock('u')", 't', 'with all rights');

$node->set('lockredis.url' => "redis://nobody\@127.0.0.1:$port");
$two->query_fails("SELECT redis_lock('u')",
	'58000', qr/$denied.*WRONGPASS/s, 'an unknown user');

# Rights that are missing; Redis 8 has other words for it within a script.
my $noperm = qr/(?:NOPERM|ACL failure)/;
user('bob', '~*', '&*', '+@all', '-evalsha', '-eval');
$two->query_fails("SELECT $_('u')",
	'58000', qr/$denied.*$noperm/s, "NOPERM for scripts: $_")
  foreach qw(redis_lock redis_try_lock redis_is_locked redis_force_unlock);

foreach my $rights ('-pexpire', '-pexpire -del')
{
	user('bob', '~*', '&*', '+@all', split / /, $rights);
	$two->query_fails("SELECT $_('u')",
		'58000', qr/$denied.*$noperm|$denied.*can't run/s, "NOPERM, $rights: $_")
	  foreach qw(redis_lock redis_try_lock);
	is_deeply([ $redis->all_keys ],
		[], "nothing is left without a TTL, $rights");
}

user('bob', '~mine:*', '~redisson_lock__channel:*', '&*', '+@all');
$two->query_fails("SELECT redis_lock('u')",
	'58000', qr/$denied.*$noperm|$denied.*can't access/s,
	'NOPERM for the key');
$two->query_is("SELECT redis_lock('mine:u')", '', 'a key that is allowed');
$two->query_is("SELECT redis_unlock('mine:u')", 't', 'and back');

# No messages: who waits looks by itself, who gives back is told.  (A right that is withdrawn while
# somebody sleeps is the simulator's: its mutant fault_refused_untold.)
user('bob', '~*', 'resetchannels', '+@all');
$redis->foreign_lock('foreign', ms => 300_000);
$node->log_since_here;
$two->start("SELECT redis_lock('foreign')");
$node->wait_for_waiters('foreign', 1);
poll_until('the refusal of the subscription',
	sub { $node->logged(qr/refused a subscription/) });
$redis->cmd('DEL', 'foreign');
is($two->wait->error, undef, 'had without any message');
$two->query_warns("SELECT redis_unlock('foreign')",
	't', '58000', qr/$denied.*$noperm|$denied.*can't/s,
	'given back, but nobody could be told');
all_given_back('and gone');
is($node->times_logged(qr/refused a subscription/),
	1, 'the refusal is logged once');

# ----------
# A password in the URL: accepted with a warning, and never repeated by us
# ----------

$node->set('lockredis.password_file' => '');
$redis->cmd('ACL', 'SETUSER', 'bob', 'reset', 'on', ">$second", '~*', '&*',
	'+@all');
my $url = "redis://bob:$second\@127.0.0.1:$port";

$two->query_warns("ALTER SYSTEM SET lockredis.url = '$url'",
	'', '01000', qr/lockredis\.url" contains a password.*HINT:.*password_file/s,
	'warned of a password');
$two->query_fails(
	"ALTER SYSTEM SET lockredis.url = 'redis://bob:$second\@127.0.0.1:99999'",
	'22023', qr/Invalid port/, 'a wrong URL with a password');
$two->query('BEGIN');
my $warned = qr/WARNING:  "lockredis\.url" contains a password/;
$node->log_since_here;
$node->reload;
poll_until('the warning in the log', sub { $node->logged($warned) });
$node->wait_for_up;
poll_until(
	'the new URL',
	sub {
		grep { $_->{user} eq 'bob' && $_->{name} =~ /watchdog/ } $redis->clients;
	});
$two->query_is('COMMIT', '', 'no session is bothered by a reload');
$two->query_is("SELECT redis_try_lock('u')", 't', 'it is used');
$two->query_is("SELECT redis_unlock('u')", 't', 'in full');

# Workers of a parallel query take over the leader's settings.
$two->query(join ';', map { "SET $_" } qw(
	min_parallel_table_scan_size=0 parallel_setup_cost=0
	parallel_tuple_cost=0 max_parallel_workers_per_gather=2
	enable_indexscan=off enable_indexonlyscan=off));
like($two->query('EXPLAIN SELECT count(*) FROM pg_proc')->out,
	qr/Gather/, 'a parallel query');
my $parallel = $two->query('SELECT count(*) > 0 FROM pg_proc');
is($parallel->out . $parallel->{raw}, 't', 'which is not warned either');
$node->log_since_here;
$redis->cmd('ACL', 'SETUSER', 'bob', 'resetpass', '>another');
$redis->kill_clients('');
$two->query_fails("SELECT redis_try_lock('u')",
	'58000', qr/$denied.*WRONGPASS/s, 'not right any more');

$two->query('ALTER SYSTEM RESET lockredis.url');
$node->set('lockredis.url' => $redis->url);
$node->wait_for_up;

# ----------
# What was said
# ----------

nothing_leaked($node, [ map { quotemeta } $secret, $second, $wrong ], [ $redis, $safe ]);

end_test($node, $redis);
