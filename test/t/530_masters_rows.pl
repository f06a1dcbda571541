# Copyright (c) 2026, lockredis contributors

# Independent masters, as redis_lock_status and the log show them: up, gone, frozen,
# started lately, one that is listed twice, one that says nothing of itself, a replica.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3);
my @nodes = $masters->nodes;
my $node = LockRedis::Node->create(
	'main',
	redis => $masters,
	settings => {
		'lockredis.lease' => '2s',
		'lockredis.max_lease' => '2s',
		'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => '500ms'
	});

sub rows
{
	return $node->value(q{
		SELECT string_agg(format('%s %s %s', state, in_use, coalesce(reason, '-')), ', ' ORDER BY node)
		  FROM redis_lock_status});
}

sub wait_for_rows ($pattern, $name) { return poll_until($name, sub { rows() =~ $pattern }); }

sub error_of ($n)
{
	return $node->value("SELECT last_error FROM redis_lock_status WHERE node = $n");
}

my $good = 'up t -';

wait_for_rows(qr/^$good, $good, $good$/, 'all are up and have a vote');
is($node->value(q{SELECT string_agg(address, ' ' ORDER BY node) FROM redis_lock_status}),
	join(' ', map { $_->address } @nodes), 'each has a row with its address');
like($node->value('SELECT version FROM redis_lock_status WHERE node = 2'),
	qr/^(Valkey )?\d/, 'and its version');
$node->wait_until_logged(qr/3 of 3 masters are up \(2 needed\)/);

# ---- one that is gone, and comes back with nothing
$node->log_since_here;
$nodes[1]->kill9;
wait_for_rows(qr/^$good, down f -, $good$/, 'one is gone');
poll_until('its row to say why', sub { error_of(2) =~ /\w/ });
$node->wait_until_logged(qr/2 of 3 masters are up \(2 needed\)/);
like($node->log_text, qr/DETAIL:  127\.0\.0\.1:\d+: /, 'with the reason');

my $began = now();
$masters->restart_empty(1);
wait_for_rows(qr/^$good, $good, $good$/, 'it was restarted, and has a vote');
cmp_ok(now() - $began, '>=', 2, 'after the longest lease');
$node->append_conf('postgresql.conf', "lockredis.max_lease = '1h'");
$node->restart;
wait_for_rows(qr/^$good, up f restarted \d+ s ago, votes in 3[56]\d\d s, $good$/,
	'with a longer one it is up, and has none');
$node->stop;
$masters->restart_old(1);
$node->start;
wait_for_rows(qr/^$good, $good, $good$/, 'one that has run for long has one at once');

# ---- one that says nothing
$node->log_since_here;
$nodes[2]->freeze;
wait_for_rows(qr/^$good, $good, down f -$/, 'one does not answer');
$node->wait_until_logged(qr/2 of 3 masters are up/);
$nodes[2]->thaw;
wait_for_rows(qr/^$good, $good, $good$/, 'it answers again');

# ---- most say nothing: they, and not the third one, are the reason
$node->log_since_here;
$_->freeze foreach @nodes[ 1, 2 ];
poll_until('the store to be down', sub { $node->logged(qr/the lock store is down\n/) });
like($node->log_text, qr/the lock store is down\n.*DETAIL: .*Master 2: [^\n]* did not answer in time/s,
	'with what became of each');
$_->thaw foreach @nodes[ 1, 2 ];
wait_for_rows(qr/^$good, $good, $good$/, 'they answer again');

# ---- one that has become a replica
$nodes[0]->cmd('REPLICAOF', '127.0.0.1', $nodes[1]->port);
$nodes[0]->cmd('CLIENT', 'KILL', 'TYPE', 'normal');
wait_for_rows(qr/^down f -, $good, $good$/, 'one is a replica');
poll_until('its row to say so', sub { error_of(1) =~ /is a replica/ });
$nodes[0]->cmd('REPLICAOF', 'NO', 'ONE');
wait_for_rows(qr/^$good, $good, $good$/, 'it is a master again');

# ---- one whose INFO is not for us
foreach my $n (0 .. 2)
{
	$nodes[$n]->cmd('ACL', 'SETUSER', 'few', 'on', 'nopass', '~*', '&*', '+@all',
		$n == 1 ? '-info' : ());
}
$node->set('lockredis.url' => join ' ',
	map { 'redis://few@127.0.0.1:' . $_->port } @nodes);
wait_for_rows(qr/^$good, down f -, $good$/, 'one does not let us ask');
poll_until('its row to have its words', sub { error_of(2) =~ /NOPERM/ });
unlike(error_of(2), qr/few/, 'but no user');

# ---- the same one by two ways
$node->set('lockredis.url' => join ' ',
	$nodes[0]->url, $nodes[1]->url, $nodes[1]->unix_url);
poll_until('one of the two to be refused',
	sub { rows() =~ /^$good, (?:$good, down f -|down f -, $good)$/ });
poll_until('the row of that one to say why', sub {
	$node->value(q{SELECT count(*) FROM redis_lock_status
		WHERE last_error = 'It is the same server as that of another URL.'}) == 1 });

# ---- as many as there can be, and back to one
$node->set('lockredis.url' => join ' ',
	map { $_->url } @nodes, map { LockRedis::Redis->new(name => "more$_") } 1 .. 2);
wait_for_rows(qr/^$good, $good, $good, up f restarted [^,]*, [^,]*, up f restarted /,
	'five of them');
$node->set('lockredis.url' => $nodes[0]->url);
wait_for_rows(qr/^up t -$/, 'one Redis');

end_test($node, $masters);
