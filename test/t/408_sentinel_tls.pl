# Copyright (c) 2026, lockredis contributors

# Sentinels and nodes that speak TLS with each other and with us, by host names,
# with a password: a failover with a lock that is held and one that is waited for; a
# Sentinel that cannot be trusted is not asked, whatever it says; without TLS nobody
# is reached, and the reason is told.
# Proves G38.

use LockRedis::Ca;
use LockRedis::Sentinels;
use LockRedis::Test;
use LockRedis::Topic::Failover;

my $ca = LockRedis::Ca->new('main');
my $ha = LockRedis::Sentinels->new(tls => $ca, names => 1, password => 'secret');
my $node = LockRedis::Node->create(
	'main',
	redis => $ha,
	settings => {
		# However long a failover takes on a busy machine, no lease ends in it.
		'lockredis.lease' => '5min',
		'lockredis.password_file' => secret_file('password', 'secret'),
		'lockredis.tls_ca_file' => $ca->file
	});
my ($one, $two) = map { $node->session } 1 .. 2;

like($ha->url, qr/^rediss-sentinel:/, 'encrypted');
$node->wait_for_up;
$one->query_is("SELECT redis_lock('k')", '', 'a lock');
ok(!grep({ $_->{laddr} !~ /:@{[ $ha->master->tls_port ]}$/ } $ha->master->clients),
	'nobody came to the plain port')
  if $ha->master->version >= 7;
$node->queue_up('k', $two => "SELECT redis_lock('k')");
replicated($ha);

my $old = $ha->master;
my $new = replace_master($node, $ha);
$one->query_is("SELECT redis_is_held('k')", 't', 'held after a failover');
$one->query_is("SELECT redis_unlock('k')", 't', 'given back to the new master');
is($two->wait->error, undef, 'the next one has it');
ok($new->cmd('EXISTS', 'k'), 'there');
$two->query_is("SELECT redis_unlock('k')", 't', 'given back');
bring_back($node, $ha, $old);
nothing_left($node, $ha);

# Words of the view about those that cannot be reached
sub reasons
{
	my ($pattern, $name) = @_;
	my $reasons = '';

	eval {
		poll_until($name,
			sub {
				$reasons = $node->value(
					"SELECT string_agg(last_error, ' ') FROM redis_lock_status WHERE role = 'sentinel'");
				return $reasons =~ $pattern;
			});
	};
	return like($reasons, $pattern, $name);
}

$node->set('lockredis.tls_ca_file' => LockRedis::Ca->new('other')->file);
$node->restart;
my $s = $node->session;
like($s->query("SELECT redis_lock('k')")->sqlstate // 'granted', qr/^58/, 'another authority');
reasons(qr/certificate/, 'why');
$node->set('lockredis.tls_ca_file' => $ca->file, 'lockredis.url' => $ha->url =~ s/^rediss/redis/r);
like($s->query("SELECT redis_lock('k')")->sqlstate // 'granted',
	qr/^58/, 'redis-sentinel:// at ports of TLS');
$node->set('lockredis.url' => $ha->url);
$node->wait_for_up;
$node->wait_until_asked($s);
$s->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'put right');

end_test($node, $ha);
