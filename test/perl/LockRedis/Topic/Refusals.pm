# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Refusals - a server whose Redis refuses

=head1 DESCRIPTION

What the tests 031_store_errors and 033_credentials have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Refusals;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test;

our @EXPORT = qw($went_away $came_back $redis $node $one $two start_servers
  all_given_back);

our ($went_away, $came_back, $redis, $node, $one, $two);

sub start_servers
{
	$went_away = qr/LOG:  lockredis: the lock store is down/;
	$came_back = qr/LOG:  lockredis: the lock store at \S+ is up/;

	$redis = LockRedis::Redis->new;
	$node = LockRedis::Node->create('main', redis => $redis);
	$one = $node->session(settings => { 'lockredis.lease' => '60s' });
	$two = $node->session(settings => { 'lockredis.lease' => '60s' });

	$two->query('\set SHOW_CONTEXT always');
	$node->wait_for_up;
	return;
}

# All that is left belongs to the watchdog, and goes.
sub all_given_back ($name, @keys)
{
	return ok(
		eval {
			poll_until(
				'all to be given back',
				sub {
					"@keys" eq join(' ', $redis->all_keys)
					  && $node->value(
						'SELECT count(*) FROM redis_locks WHERE pid IS NULL')
					  == 0;
				});
		},
		$name)
	  || diag 'left: ', join ' ', $redis->all_keys;
}

1;
