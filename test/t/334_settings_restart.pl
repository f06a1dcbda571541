# Copyright (c) 2026, lockredis contributors

# No setting keeps a database from starting that a reload has accepted:
# - fallback mode with settings that do not fit each other starts, says so, and
#   goes by the largest value that is safe; a reload says the same; a restart
#   after that reload, orderly or after a crash, is no different
# - what PostgreSQL refuses itself is a WARNING at the start
# Proves G34.

use LockRedis::Test qw(:DEFAULT owner_in);
use PostgreSQL::Test::Utils;

my ($node, $redis, $proxy, $table) = LockRedis::Node->create_fallback(
	'main',
	settings => {
		'lockredis.fallback_after' => '20s',
		'lockredis.lease' => '15s'
	});

sub does_not_fit ($used)
{
	my $message = qr/"lockredis.fallback_after" must be below two thirds of "lockredis.lease"/;

	return qr/WARNING:  $message\n.*DETAIL:  .* $used ms are used instead of 20000 ms/;
}

# An outage: a renewed lock lives to see the table.
sub outage ($when)
{
	my $s = $node->session;

	$s->query_is("SELECT redis_lock('kept')", '', "$when: held");
	my $owner = owner_in($redis->hash('kept'));
	$node->cut_off($proxy);
	poll_until("$when: the lock to be carried over, or lost",
		sub {
			owner_in($table->hash('kept')) eq $owner
			  || $s->value("SELECT redis_is_held('kept')") eq 'f';
		});
	$s->query_is("SELECT redis_is_held('kept')", 't', "$when: carried over in time");
	$s->query_is("SELECT redis_unlock('kept')", 't', "$when: given back");
	$s->quit;
	$node->reconnect($proxy);
	return;
}

like(slurp_file($node->logfile), does_not_fit(9999), 'it has started, and says so');
is($node->value('SHOW lockredis.fallback_after'), '20s', 'the setting is what it is');
outage('start');

$node->log_since_here;
$node->set('lockredis.lease' => '12s');
poll_until('the reload to be told', sub { $node->logged(does_not_fit(7999)) });

$node->log_since_here;
$node->restart;
poll_until('the watchdog to say so', sub { $node->logged(does_not_fit(7999)) });
$node->wait_for_up;

my $victim = $node->session;
$victim->kill9;
poll_until('the server to be there again', sub { eval { $node->store_in_use } });
$node->wait_for_up;
outage('crash');

$node->log_since_here;
$node->set('lockredis.fallback_after' => '1s');
pause(1);
ok(!$node->logged(qr/must be below two thirds/), 'settings that fit are nothing to tell');
nothing_left($node, $redis);
$node->stop;

#
# Invalid values: PostgreSQL would go on with the default, and ask a Redis that nobody has named.
#

my %invalid = (
	'lockredis.mode' => 'redsi',
	'lockredis.url' => 'http://127.0.0.1',
	'lockredis.key_prefix' => 'x' x 65,
	'lockredis.lease' => '1ms',
	'lockredis.session_locks' => 'maybe');

my $other = LockRedis::Node->create('invalid', extension => 0, start => 0,
	url => $redis->url, settings => { 'lockredis.nonsense' => '1' });
command_fails_like([ 'postgres', '-D', $other->data_dir, '-c', "$_=$invalid{$_}" ],
	qr/FATAL: .*\Q$_\E/, "a server with $_ = $invalid{$_} does not start")
  foreach sort keys %invalid;
$other->start;
like(slurp_file($other->logfile), qr/WARNING: .*lockredis\.nonsense/, 'an unknown name is a warning');
$other->stop;
done_testing();
