# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Cancels - sessions that are interrupted while the proxy holds
their requests

=head1 DESCRIPTION

What 021_cancel and the tests of other kinds of locks that are interrupted have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Cancels;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;
use LockRedis::Wait qw(limit);

our @EXPORT = qw($command_ms $redis $proxy $node $two $three $rule start_servers
  key_is_free is_awaited deliver hold_next rule_acted nobody_has_any);

our ($command_ms, $redis, $proxy, $node, $two, $three, $rule);

sub start_servers
{
	# The budget of a request decides how long an orphan is looked after.  No lease
	# ends while a test waits: what goes away has been given back.
	$command_ms = limit(4) * 1000;
	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$node = LockRedis::Node->create(
		'main',
		url => $proxy->url,
		settings => {
			'lockredis.lease' => '1h',
			'lockredis.connect_timeout' => "${command_ms}ms",
			'lockredis.command_timeout' => "${command_ms}ms"
		});
	$two = $node->session;
	$three = $node->session;

	$node->wait_for_up;

	$node->warm_up($two, "${command_ms}ms");
	return;
}

sub key_is_free ($key, $name)
{
	poll_until("$key to be free", sub { $redis->cmd('EXISTS', $key) == 0 });
	return pass($name);
}

sub is_awaited ($key) { return $redis->subscribers($redis->channel($key)) == 1; }

# What nobody waits for any more has arrived at Redis, before whatever it is asked next.
# A script that has run would not tell: the watchdog repeats its releases.
sub deliver
{
	$proxy->let_go;
	$redis->cmd('PING');
	return;
}

sub hold_next ($key, %rule)
{
	$rule = $proxy->rule(match => $key, action => 'hold', %rule);
	return;
}

sub rule_acted { $proxy->wait_for_rule($rule); return; }

sub nobody_has_any ($name)
{
	poll_until('nothing to be left',
		sub { !$redis->all_keys && $node->count_rows('redis_locks') == 0 });
	return pass($name);
}

1;
