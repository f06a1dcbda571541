# Copyright (c) 2026, lockredis contributors

# Fallback mode: Redis says that a lock is gone, and before its session marks it
# lost the watchdog carries it over to the table.
#
#   session                              watchdog
#   SET, MINT or RENEW to Redis
#   reply: the owner is not there
#   has the hold been moved?  no
#                                        Redis is away: carries the hold over
#   marks it lost: does not concern the
#   hold, which is elsewhere
#   goes by the reply all the same
#
# It must go by the hold: it is held, in the table, so it is asked about there.
# What went by the reply told of a loss that was none, freed a live hold, and
# lowered the number of losses below nothing, so that the next one passed.
#
# All who ask about a held lock are stopped there at once: re-entry, extend, a
# fencing token, one of two holds given back, commit_guard = verify.
#
# Proves G6, G26.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT owner_in);

LockRedis::Debugger->need;

# Leases are renewed long after the test.
my ($node, $redis, $proxy, $table) =
  LockRedis::Node->create_fallback('main', settings => {
	'lockredis.lease' => '10min', 'lockredis.command_timeout' => '20s' });
$node->safe_psql('postgres', 'CREATE TABLE written (what text)');

my %case = (
	reenter => {
		before => "SELECT redis_lock('reenter')",
		asks => "SELECT redis_lock('reenter', '1 hour')",
		count => 2
	},
	extend => {
		before => "SELECT redis_lock('extend')",
		asks => "SELECT redis_extend('extend', '1 hour')",
		out => 't',
		count => 1
	},
	part => {
		before => "SELECT redis_lock('part'); BEGIN; SELECT redis_xact_lock('part')",
		asks => "SELECT redis_unlock('part')",
		out => 't',
		count => 1
	},
	mint => {
		before => "BEGIN; SELECT redis_xact_lock('mint')",
		asks => "SELECT redis_fenced_xact_lock('mint')",
		count => 1
	},
	guard => {
		before => "SET lockredis.commit_guard = 'verify'; SELECT redis_lock('guard');"
		  . " BEGIN; INSERT INTO written VALUES ('guard')",
		asks => 'COMMIT',
		count => 1
	});
my @names = sort keys %case;

foreach my $name (@names)
{
	my $c = $case{$name};

	$c->{session} = $node->session;
	is($c->{session}->query($c->{before})->error, undef, "$name: held");
	$c->{owner} = owner_in($redis->hash($name));
}
$redis->cmd('DEL', $_) foreach @names;
foreach my $name (@names)
{
	my $c = $case{$name};

	$c->{stop} = LockRedis::Debugger->new($c->{session}->pid);
	$c->{stop}->run_to('lt_lose');
	$c->{session}->start($c->{asks});
	$c->{stop}->wait_for_stop;
}

$node->cut_off($proxy);
foreach my $name (@names)
{
	my $owner = $case{$name}{owner};

	poll_until("$name to be carried over",
		sub { owner_in($table->hash($name)) eq $owner });
}
$_->{stop}->let_go foreach @case{@names};

foreach my $name (@names)
{
	my $c = $case{$name};
	my $s = $c->{session};
	my $result = $s->wait(20);

	is($result->error, undef, "$name: no error");
	is($result->out, $c->{out}, "$name: yes") if $c->{out};
	is(scalar @{ [ $result->warnings ] }, 0, "$name: no warning");
	$s->query_is("SELECT redis_is_held('$name'), redis_hold_count('$name')",
		"t|$c->{count}", "$name: held in the table");
	is_deeply($table->hash($name), { $c->{owner} => 1 },
		"$name: which knows of it");
}
is($node->lock_stat('losses'), 0, 'nothing was lost');
$case{$_}{session}->query('COMMIT') foreach 'mint', 'part';

# A real loss is one.
foreach my $name (grep { !/^(?:mint|part)$/ } @names)
{
	my $s = $case{$name}{session};

	is($s->value("SELECT redis_force_unlock('$name')"), 't', "$name: taken away");
	$s->query("BEGIN; INSERT INTO written VALUES ('lost')");
	like($s->query('COMMIT')->sqlstate // '', qr/^(?:40001|55000)$/,
		"$name: what is written then is not committed");
	$s->query_warns("SELECT redis_unlock('$name')", 'f', '01000', qr/lost/,
		"$name: acknowledged");
	is($s->query("INSERT INTO written VALUES ('fine')")->error, undef,
		"$name: and that was all");
}

$node->reconnect($proxy);
$_->{session}->quit foreach @case{@names};

# Taken away by force in Redis, and before that is noted the hold is carried over
# to the table: it is lost, and its row, which nobody has deleted, is given back.
my ($holder, $other) = ($node->session, $node->session);
$holder->query_is("SELECT redis_lock('forced')", '', 'forced: held');
my $forced = owner_in($redis->hash('forced'));
my $stop = LockRedis::Debugger->new($other->pid);
$stop->run_to('lt_lose_forced');
$other->start("SELECT redis_force_unlock('forced')");
$stop->wait_for_stop;
is_deeply($redis->hash('forced'), {}, 'forced: not in Redis any more');
$node->cut_off($proxy);
poll_until('the forced lock to be carried over',
	sub { owner_in($table->hash('forced')) eq $forced });
$stop->let_go;
is($other->wait(20)->out, 't', 'forced: taken away');
poll_until('its row to be given back', sub { !%{ $table->hash('forced') } });
$holder->query_warns("SELECT redis_unlock('forced')", 'f', '01000', qr/lost/,
	'forced: lost');
$node->reconnect($proxy);
end_test($node, $redis, keys => qr/^redisson_lock_token:/);
