# Copyright (c) 2026, lockredis contributors

# Five independent masters, two of which answer later than the others.
#
# - Three say that somebody has the key, two of them for long: who waits asks again when
#   most may be free, and not when those are that answered first.
# - Three grant a lock, and the late ones say that somebody has it there: it is put there
#   a second later, whether its lease is renewed (at a third of an hour) or given.
#
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 5, proxies => 1);
my @nodes = $masters->nodes;
my @late = (3, 4);
my @proxies = ($masters->proxies)[@late];
my $node = $masters->server('main');
my $session = $node->session;

$masters->wait_until_watched($node);

# ---- a waiter

$masters->connect_to_all($session);
my $seconds = limit(20);
$nodes[$_]->foreign_lock('waited', owner => 'foreign:1', ms => $_ < 2 ? 600_000 : 3000)
  foreach 0 .. 4;
my @rules = map { $_->rule(match => 'waited', action => 'delay', ms => 500, times => 0) } @proxies;
$session->query_is("SELECT redis_try_lock('waited', '$seconds s')",
	't', 'a majority is free before those that answered first are');
$session->query("SELECT redis_unlock('waited')");
$_->clear foreach @proxies;
$nodes[$_]->foreign_unlock('waited', owner => 'foreign:1') foreach 0, 1;

# ---- who has been granted a lock by three

sub is_put_at_all
{
	my ($key, $command) = @_;

	$masters->connect_to_all($session);
	$nodes[$_]->foreign_lock($key, owner => 'foreign:2', ms => 600_000) foreach @late;
	my @answers;
	foreach my $proxy (@proxies)
	{
		push @answers, $proxy->rule(on => 'reply', match => $key, action => 'hold');
		$proxy->rule(match => $key, skip => 1, action => 'hold');
	}
	$session->query_is("SELECT $command", 't', "$command: granted by three");
	$proxies[$_]->wait_for_rule($answers[$_]) foreach 0, 1;
	$nodes[$_]->foreign_unlock($key, owner => 'foreign:2') foreach @late;
	$_->let_go foreach @proxies;
	$masters->wait_for_owners($key, 5);
	is(scalar(grep { defined } $masters->owners($key)), 5, "$command: all have it");
	$session->query_is("SELECT redis_unlock('$key')", 't', "$command: given back");
	return;
}

is_put_at_all('renewed', "redis_try_lock('renewed')");
is_put_at_all('given', "redis_try_lock('given', '0', '50s')");

end_test($node, $masters);
