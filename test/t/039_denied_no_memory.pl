# Copyright (c) 2026, lockredis contributors

# A command for several locks was refused while others are under way, and there is
# no memory to ask whether the node runs scripts at all: those under way are
# answered all the same, and no later request gets their answers.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my $redis = LockRedis::Redis->new;
my $proxy = LockRedis::Proxy->new($redis);

$redis->cmd('ACL', 'SETUSER', 'bob', 'on', 'nopass', '~*', '&*', '+@all');
(my $url = $proxy->url) =~ s{redis://}{redis://bob\@};
my ($node, $one) = LockRedis::Node->create(
	'main', sessions => 1,
	url => $url,
	settings => {
		'lockredis.lease' => '2min',
		'lockredis.connect_timeout' => '20s',
		'lockredis.command_timeout' => '20s'
	});

# Three commands, each of which is refused; the answer to the first one comes first.
$one->value(
	q{SELECT count(redis_lock(CASE i % 10 WHEN 7 THEN 'other:' ELSE 'app:' END || i)) FROM generate_series(1, 250) i}
);
$redis->cmd('ACL', 'SETUSER', 'bob', 'resetkeys', '~app:*',
	'~redisson_lock__channel:*');

my $rule =
  $proxy->rule(match => 'redisson_lock__channel', skip => 1, times => 1, action => 'hold');
my $gdb = LockRedis::Debugger->new($one->pid);
$gdb->run_to('redis_put_proof');
$one->start('SELECT redis_unlock_all()');
$gdb->wait_for_stop;
$gdb->tell('set var out->failed = 1');
$gdb->let_go;
$proxy->wait_for_rule($rule);    # answers are to come
$proxy->let_go;
like($one->wait->{raw}, qr/NOPERM/, 'refused');
is(scalar(grep { !/^other:/ } $redis->all_keys), 0, 'what is allowed is given back');

$redis->cmd('ACL', 'SETUSER', 'bob', '~*');
foreach my $i (1 .. 3)
{
	$one->query_is("SELECT redis_try_lock('app:next$i')", 't', "the next request $i");
	$one->query_is("SELECT redis_unlock('app:next$i')", 't', "and its release $i");
}
$redis->cmd('CLIENT', 'KILL', 'ID', $_->{id})
  foreach grep { $_->{name} =~ /watchdog/ } $redis->clients;
poll_until('the watchdog to be done', sub { $node->count_locks == 0 });
is_deeply([ $redis->all_keys ], [], 'all is given back');
$one->quit;
done_testing();
