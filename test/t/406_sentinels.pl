# Copyright (c) 2026, lockredis contributors

# Sentinels that are away, or do not know the service (415 has some that lie); passwords of nodes
# and Sentinels, wrong and changed; host names; TLS among all of them.
# Proves G32, G38, G40.

use LockRedis::Ca;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ca = LockRedis::Ca->new('main');
my $ha = LockRedis::Sentinels->new(password => 'nodes-secret', sentinel_password => 'sentinels-secret',
	names => 1, tls => $ca);
my $node = LockRedis::Node->create(
	'main',
	redis => $ha,
	settings => {
		# More than a failover takes on a busy machine
		'lockredis.lease' => '90s',
		'lockredis.tls_ca_file' => $ca->file,
		'lockredis.password_file' => secret_file('nodes', 'nodes-secret'),
		'lockredis.sentinel_password_file' => secret_file('sentinels', 'sentinels-secret')
	});
my ($s, $holder) = map { $node->session } 1 .. 2;

# Says so, with words of the cause in the message or in the view.
sub refused ($name, $pattern)
{
	my $new = $node->session;
	my $result = $new->query("SELECT redis_lock('k')");

	like($result->sqlstate // 'granted', qr/^58/, "$name: refused");
	my $reasons;
	poll_until(
		"the cause of: $name",
		sub {
			$reasons = $node->value('SELECT string_agg(last_error, E\'\n\') FROM redis_lock_status');
			return "$result->{raw} $reasons" =~ $pattern;
		});
	unlike("$result->{raw} $reasons", qr/nodes-secret|sentinels-secret|changed-secret/, "$name: no secret");
	$new->quit;
	return;
}

sub in_order ($name)
{
	$ha->wait_until_steady;
	$node->wait_for_up;
	$node->wait_until_asked($s);
	$node->wait_until_asked($holder);
	return serves($s, $name);
}

like($ha->url, qr/^rediss-sentinel:/, 'encrypted');
in_order('with passwords and host names');
ok(!grep({ $_->{laddr} !~ /:@{[ $ha->master->tls_port ]}$/ } $ha->master->clients),
	'nobody came to the plain port')
  if $ha->master->version >= 7;
$holder->query_is("SELECT redis_lock('held')", '', 'a lock for the whole test');
poll_until('the Sentinels to be heard',
	sub {
		$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'sentinel' AND state = 'up'")
		  == 3;
	});

# A failover among names
{
	replicated($ha);
	my $new = $ha->fail_over;
	in_order('names: after a failover');
	ok($new->cmd('EXISTS', 'held'), 'names: the lock is at the new master');
	$holder->query_is("SELECT redis_is_held('held')", 't', 'names: and held');
}

# All Sentinels away
{
	$_->kill9 foreach $ha->sentinels;
	serves($s, 'all Sentinels killed: locks go on');
	my $new = $node->session;
	$new->query_is("SELECT redis_lock('n'), redis_unlock('n')", '|t',
		'all Sentinels killed: a new session too');
	$new->quit;
	poll_until('the view to know',
		sub {
			$node->value("SELECT count(*) FROM redis_lock_status WHERE role = 'sentinel' AND state = 'up'")
			  == 0;
		});
	$holder->query_is("SELECT redis_is_held('held')", 't', 'all Sentinels killed: held');

	# A server that starts then knows of no master.
	$node->restart;
	$_ = $node->session foreach $s, $holder;
	refused('no Sentinel at the start', qr/[Ss]entinel/);
	$_->start foreach $ha->sentinels;
	in_order('Sentinels again');
	$holder->query_is("SELECT redis_lock('held')", '', 'another lock');
}

# Frozen ones keep nobody from hearing the others.
{
	my (@frozen) = ($ha->sentinels)[ 0, 1 ];

	$_->freeze foreach @frozen;
	serves($s, 'two of three frozen');
	$_->thaw foreach @frozen;
	in_order('thawed');
}

# Passwords, and the authority
{
	foreach (
		[ 'a wrong password of the Sentinels', sentinel_password_file => secret_file('w1', 'wrong'), qr/WRONGPASS|password/ ],
		[ 'no password of the Sentinels', sentinel_password_file => '', qr/NOAUTH|password/ ],
		[ 'a wrong password of the nodes', password_file => secret_file('w2', 'wrong'), qr/WRONGPASS|password/ ],
		[ 'another authority', tls_ca_file => LockRedis::Ca->new('other')->file, qr/certificate/ ])
	{
		my ($what, $setting, $value, $pattern) = @$_;
		my $right = $node->value("SHOW lockredis.$setting");

		$node->set("lockredis.$setting" => $value);
		$node->restart;
		$_ = $node->session foreach $s, $holder;
		refused($what, $pattern);
		$node->set("lockredis.$setting" => $right);
		in_order("$what: put right");
		$holder->query_is("SELECT redis_lock('held')", '', 'a lock');
	}

	# Changed on all nodes while a lock is held: old connections live on, new ones
	# take the new one.
	secret_file('nodes', 'changed-secret');
	foreach my $redis ($ha->nodes)
	{
		$redis->cmd('CONFIG', 'SET', 'masterauth', 'changed-secret');
		$redis->cmd('CONFIG', 'SET', 'requirepass', 'changed-secret');
		$redis->{password} = 'changed-secret';
	}
	$_->set('auth-pass', 'changed-secret') foreach $ha->sentinels;
	$_->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') foreach $ha->nodes;
	in_order('the password of the nodes was changed');
	$holder->query_is("SELECT redis_is_held('held')", 't', 'the lock is held all the time');
	$ha->fail_over;
	in_order('and after a failover');
	$holder->query_is("SELECT redis_is_held('held')", 't', 'still held');
}

# A service that nobody knows, and a URL without TLS
$holder->query_is("SELECT redis_unlock('held')", 't', 'unlocked');
foreach ([ $ha->url =~ s{/svc$}{/nobody}r, qr/do not know the service/ ], [ $ha->url =~ s/^rediss/redis/r, qr/TLS/ ])
{
	my ($url, $pattern) = @$_;

	$node->set('lockredis.url' => $url);
	refused($url, $pattern);
	$node->set('lockredis.url' => $ha->url);
	in_order('the right URL again');
}

end_test($node, $ha);
