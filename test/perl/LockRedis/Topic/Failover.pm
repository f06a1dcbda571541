# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Failover - a server that follows a master from node to node

=head1 DESCRIPTION

What the tests of 40x and 45x have in common.

  wait_until_used($node, $redis);      # the server takes its locks there
  is_used($node, $redis);
  never_used($node, $redis, $seconds, $name);
  follow($node, $redis, @sentinels);   # these (LockRedis::FalseSentinel) from now on, which name it
  replicated($ha);                     # all replicas have what was done so far
  my $new = replace_master($node, $ha, @frozen);   # it is killed, these are awake again
  bring_back($node, $ha, $old);
  serves($session, $name);             # or a server, by a new session
  my $watch = ours_at($redis);         # requests of lockredis from here on
  my @lines = $watch->();

=cut

package LockRedis::Topic::Failover;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::FalseSentinel;
use LockRedis::Test qw(:DEFAULT quoted);

our @EXPORT = qw(wait_until_used is_used never_used follow replicated replace_master bring_back serves ours_at);

# By the view: in use, and up.  Its host may be shown as a name.
sub is_used ($node, $redis)
{
	my $address = quoted('%:' . $redis->public_port);

	return $node->value("SELECT count(*) FROM redis_lock_status
		 WHERE address LIKE $address AND role = 'master' AND in_use AND state = 'up'") == 1;
}

sub wait_until_used ($node, $redis)
{
	return poll_until(
		$node->name . ' to use ' . $redis->address,
		sub { is_used($node, $redis) }, 60);
}

sub never_used ($node, $redis, $seconds, $name)
{
	my $until = now() + $seconds;
	my $used = 0;

	while (now() < $until && !$used)
	{
		$used = is_used($node, $redis);
		pause(0.2);
	}
	return ok(!$used, $name);
}

# What is known of other Sentinels is forgotten.
sub follow ($node, $redis, @sentinels)
{
	$node->set('lockredis.url' => LockRedis::FalseSentinel::url_of(@sentinels));
	LockRedis::FalseSentinel::wait_until_heard(@sentinels);
	return wait_until_used($node, $redis);
}

sub replicated ($ha)
{
	my $count = grep { $_->pid && !$_->{frozen} } $ha->nodes;

	$count -= 1;
	return poll_until('the replicas to have it', sub { $ha->cmd('WAIT', $count, 100) >= $count });
}

sub replace_master ($node, $ha, @frozen)
{
	my $old = $ha->master;

	$old->kill9;
	$_->thaw foreach @frozen;
	my $new = $ha->wait_for_master_but($old);
	wait_until_used($node, $new);
	return $new;
}

sub bring_back ($node, $ha, $old)
{
	$old->start;
	$ha->wait_until_steady;
	wait_until_used($node, $ha->master);
	return;
}

sub serves ($by, $name)
{
	my $session = $by->can('session') ? $by->session : $by;

	return $session->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', $name);
}

# What lockredis sends there: what MONITOR shows of it, until the node is made a
# replica and ends that, and scripts by their number, to the end.
sub ours_at ($redis)
{
	my $monitor = $redis->monitor;
	my $scripts = $redis->script_calls;
	my $others = qr/^(?:ping|info|publish|subscribe|replconf|psync|slaveof|replicaof|multi|exec
		|config|client|hello|auth|role|command|echo)$/x;

	return sub {
		my @lines = grep {
			my ($command) = map { lc } $monitor->args($_);
			$command !~ $others || /lockredis|redisson/
		} $monitor->stop;
		my $more = $redis->script_calls - $scripts;

		return (@lines, $more ? "$more scripts" : ());
	};
}

1;
