# Copyright (c) 2026, lockredis contributors

# A group that Redis refuses is tried again one by one, also when
# its scripts are not loaded, and when the connection is lost in the middle.
#
# Each time 500 locks, some of which may not be touched any more, are given back
# in one batch; what is left right after that is what is refused, and no more.
#
# Proves G20.

use LockRedis::Test;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');

(my $url = $proxy->url) =~ s{redis://}{redis://bob\@};
my $node = LockRedis::Node->create(
	'main',
	url => $url,
	settings => {
		'lockredis.lease' => '2min',
		'lockredis.connect_timeout' => '5s',
		'lockredis.command_timeout' => '20s'
	});
$node->wait_for_up;

# Over a new connection all is tried at once.
sub clean_up
{
	$redis->cmd('ACL', 'SETUSER', 'bob', '~*');
	$redis->kill_clients('watchdog');
	return poll_until('the watchdog to be done', sub { $node->count_locks == 0 });
}

# One of "every" locks is refused; "prepare" comes before they are given back.
sub give_back
{
	my ($name, $every, $prepare) = @_;
	my $s = $node->session;
	my $bad = 500 / $every;

	$s->value(
		qq{SELECT count(redis_lock(CASE i % $every WHEN 7 THEN 'other:' ELSE 'app:' END || i)) FROM generate_series(1, 500) i}
	);
	$redis->cmd('ACL', 'SETUSER', 'bob', 'resetkeys', '~app:*',
		'~redisson_lock__channel:*');
	my $rule = $prepare->();
	$s->query_warns('SELECT redis_unlock_all()',
		'500', '58000', qr/denied access.*NOPERM/s, $name);
	my @left = $redis->all_keys;
	is(scalar(grep { /^other:/ } @left), $bad, "$name: what is refused is left");
	is(scalar(grep { /^app:/ } @left), 0, "$name: and no more");
	is($proxy->acted($rule), 1, "$name: the connection was lost")
	  if defined $rule;
	$proxy->clear;
	$s->quit;
	clean_up();
	return;
}

sub forget_scripts
{
	$redis->cmd('SCRIPT', 'FLUSH');
	return;
}

# What asks whether scripts run at all has no keys: the end of the script, and 0.
sub cut_at_the_proof
{
	forget_scripts();
	return $proxy->rule(
		on => 'request',
		match => "return reply\n\r\n\$1\r\n0\r\n",
		times => 1,
		action => 'cut');
}

# The first request with it is that of its group, the second its own.
sub cut_in_the_split
{
	return $proxy->rule(
		on => 'request',
		match => 'other:7',
		skip => 1,
		times => 1,
		action => 'cut');
}

give_back('scripts not loaded, one key', 500, \&forget_scripts);
give_back('scripts not loaded, keys in each group', 10, \&forget_scripts);
give_back('connection lost in the split', 500, \&cut_in_the_split);
give_back('connection lost at the proof', 500, \&cut_at_the_proof);
end_test($node, $redis);
