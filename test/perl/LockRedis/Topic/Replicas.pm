# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Replicas - a Redis with two replicas

=head1 DESCRIPTION

What the tests 410 to 413 have in common.  start_servers(%settings) sets the
exported variables: a master, its replicas, a proxy in front of the master, and a
server whose lockredis.url is the proxy.

- replicas_away($n): so many of them do not confirm any more.  They are stopped,
  and the master has lost their connections: the kernel of one that is only stopped
  keeps what it is sent.
- replicas_back: all do again
- new_replica_of($master, $name)

=cut

package LockRedis::Topic::Replicas;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($redis @replicas $proxy $node start_servers replicas_away
  replicas_back new_replica_of wait_for_replicas unreplicated);

our ($redis, @replicas, $proxy, $node);
our @away;

my %quick = ('repl-diskless-sync-delay' => 0, 'repl-ping-replica-period' => 1);

sub new_replica_of ($master, $name)
{
	return LockRedis::Redis->new(
		name => $name,
		config => {
			%quick,
			replicaof => [ '127.0.0.1', $master->port ],
			'replica-read-only' => 'yes'
		});
}

# So many have all that the master has.
sub wait_for_replicas ($master, $n)
{
	return poll_until(
		"$n replicas to have all",
		sub {
			$master->cmd('SET', 'replicated', $n);
			my $there = $master->cmd('WAIT', $n, 100) == $n;
			$master->cmd('DEL', 'replicated');
			return $there;
		});
}

sub start_servers (%settings)
{
	$redis = LockRedis::Redis->new(config => {%quick});
	@replicas = map { new_replica_of($redis, "replica$_") } 1, 2;
	$proxy = LockRedis::Proxy->new($redis);
	$node =
	  LockRedis::Node->create('main', url => $proxy->url, settings => {%settings});
	$node->wait_for_up;
	wait_for_replicas($redis, 2);
	return;
}

sub replicas_away ($n)
{
	push @away, @replicas[ scalar(@away) .. $n - 1 ];
	$_->freeze foreach @away;
	$redis->cmd('CLIENT', 'KILL', 'TYPE', 'replica');
	wait_for_replicas($redis, @replicas - @away);
	return;
}

sub replicas_back
{
	$_->thaw foreach splice @away;
	wait_for_replicas($redis, scalar @replicas);
	return;
}

# The words of an error for want of replicas.
sub unreplicated ($has, $wanted, $time)
{
	return
	  qr/could not be replicated.*DETAIL:  $has of $wanted replicas confirmed it within \Q$time\E\..*HINT:.*min_replicas/s;
}

1;
