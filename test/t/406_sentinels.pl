# Copyright (c) 2026, lockredis contributors

# Sentinels that are away, that do not know the service, that disagree and that lie;
# passwords of nodes and Sentinels, wrong and changed; host names.
# Proves G32, G38.

use LockRedis::FalseSentinel;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ha = LockRedis::Sentinels->new(password => 'nodes-secret', sentinel_password => 'sentinels-secret',
	names => 1);
my $node = LockRedis::Node->create(
	'main',
	redis => $ha,
	settings => {
		# More than a failover takes on a busy machine
		'lockredis.lease' => '90s',
		'lockredis.password_file' => secret_file('nodes', 'nodes-secret'),
		'lockredis.sentinel_password_file' => secret_file('sentinels', 'sentinels-secret')
	});
my ($s, $holder) = map { $node->session } 1 .. 2;

# Says so, with words of the cause in the message or in the view.
sub refused
{
	my ($name, $pattern) = @_;
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

sub in_order
{
	my ($name) = @_;

	$ha->wait_until_steady;
	$node->wait_for_up;
	$node->wait_until_asked($s);
	$node->wait_until_asked($holder);
	return serves($s, $name);
}

in_order('with passwords and host names');
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

# Passwords
{
	my %change = (
		'a wrong password of the Sentinels' =>
		  [ 'lockredis.sentinel_password_file' => secret_file('w1', 'wrong'), qr/WRONGPASS|password/ ],
		'no password of the Sentinels' =>
		  [ 'lockredis.sentinel_password_file' => '', qr/NOAUTH|password/ ],
		'a wrong password of the nodes' =>
		  [ 'lockredis.password_file' => secret_file('w2', 'wrong'), qr/WRONGPASS|password/ ]);

	foreach my $what (sort keys %change)
	{
		my ($setting, $value, $pattern) = @{ $change{$what} };
		my $right = $node->value("SHOW $setting");

		$node->set($setting => $value);
		$node->restart;
		$_ = $node->session foreach $s, $holder;
		refused($what, $pattern);
		$node->set($setting => $right);
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

# A service that nobody knows
{
	my $url = $ha->url =~ s{/svc$}{/nobody}r;

	$holder->query_is("SELECT redis_unlock('held')", 't', 'unlocked');
	$node->set('lockredis.url' => $url);
	refused('an unknown service', qr/do not know the service/);
	$node->set('lockredis.url' => $ha->url);
	in_order('a known service');
}

# One that lies, beside three that do not: a replica, an epoch of the past, a
# service that it does not know.  Never a lock at a replica, never one at a master
# that nobody but the liar names.
{
	my $liar = LockRedis::FalseSentinel->new;
	my $stranger = LockRedis::Redis->new(name => 'stranger', password => 'changed-secret');
	my ($replica) = $ha->replicas;

	$liar->names($stranger, epoch => 0);
	$node->set('lockredis.url' => $ha->url(sentinels => [ $liar, $ha->sentinels ]));
	in_order('a liar with an old epoch');
	$liar->names($replica, epoch => 99999);
	foreach my $try (1 .. 20)
	{
		my $result = $s->query("SELECT redis_lock('lied'), redis_unlock('lied')");
		last if is_used($node, $ha->master) && $try > 5 && !$result->error;
		die "$result->{raw}" if $result->error && $result->sqlstate !~ /^58/;
		pause(0.05);
	}
	ok(!is_used($node, $replica), 'a liar that names a replica: it is not used');
	$liar->names(undef);
	in_order('a liar that knows nothing');
	ok(!grep({ $_->{name} =~ /session/ } $stranger->clients),
		'nobody has asked the stranger for a lock');
	$liar->stop;
	in_order('without the liar');
}

end_test($node, $ha);
