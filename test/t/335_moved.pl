# Copyright (c) 2026, lockredis contributors

# lockredis.url points elsewhere:
# - what is not at the new place is lost, and "moved" is the reason if nobody else
#   has the key there, whoever finds it (the watchdog, the release, the commit
#   guard), whatever its lease
# - what is at the old place is given back there, and nothing else
# - so it is when a lock is released at that moment
# - a count that may have been made at the old place, which does not answer, is made
#   nowhere else, and the log says so, also if the watchdog ends; one under way is made once
# - the same Redis under another name: nothing is lost, nothing is given back
# - a statement that has begun before is told; a reload of something else disturbs nobody
# Proves G27.

use LockRedis::Test qw(:DEFAULT owner_in);

my $old = LockRedis::Redis->new(name => 'old');
my $new = LockRedis::Redis->new(name => 'new');
my $proxy = LockRedis::Proxy->new($old);

# What is held back at the proxy does not run out of time.
my $node = LockRedis::Node->create('main', url => $proxy->url,
	settings => { 'lockredis.lease' => '10min', 'lockredis.command_timeout' => '2min' });
$node->safe_psql('postgres', 'CREATE TABLE written (what text)');
my ($one, $two, $three) = map { $node->session } 1 .. 3;

# The watchdog is there when this returns.
sub go_to ($url)
{
	my $address = $url =~ s{^(?:redis|unix)://}{}r;

	$node->set('lockredis.url' => $url);
	poll_until("$address to be used",
		sub { $node->lock_status("state || ' ' || address") eq "up $address" });
	return;
}

sub reason ($key)
{
	return $node->value("SELECT DISTINCT lost_reason FROM redis_locks WHERE key = '$key'");
}

sub only_at_old { return join ' ', $old->all_keys; }

#
# All that can be held.
#

$old->cmd('HSET', 'foreign', 'somebody:1', 1);
$one->query_is("SELECT redis_lock('renewed'), redis_lock('renewed')", '|', 'held: renewed');
$one->query_is("SELECT redis_lock('given', '1 hour')", '', 'held: with a given lease');
$two->query("BEGIN; INSERT INTO written VALUES ('two')");
$two->query_is("SELECT redis_xact_lock('xact')", '', 'held: by a transaction');
$three->query("SET lockredis.on_lost = 'cancel'");
$three->query_is("SELECT redis_lock('told')", '', 'held: wants to be told');
$three->start('SELECT pg_sleep(600)');
$node->wait_for_event($three, 'PgSleep');
$new->cmd('HSET', 'given', 'somebody:1', 1);
$node->log_since_here;
go_to($new->url);

foreach my $key (qw(renewed given xact told))
{
	poll_until("$key to be lost", sub { reason($key) ne '' });
}
is(reason($_), 'moved', "moved: $_") foreach qw(renewed xact told);
is(reason('given'), 'taken by somebody:1', 'moved: if nobody else has the key there');
$three->wait(20)->fails('57014', qr/cancel/, 'moved: told');
poll_until('the old place to be empty', sub { only_at_old() eq 'foreign' });
is_deeply($old->hash('foreign'), { 'somebody:1' => 1 }, 'moved: but for what is not ours');
is_deeply($new->hash('given'), { 'somebody:1' => 1 }, 'moved: here, too');
is(scalar(grep { $_ ne 'given' } $new->all_keys), 0, 'moved: nothing was made here');
like($two->query('COMMIT')->detail // '', qr/"lockredis.url" was changed/,
	'moved: the transaction is told');
$one->query_warns("SELECT redis_unlock('renewed')",
	'f', '01000', qr/"lockredis.url" was changed/, 'moved: told');
$one->query_warns("SELECT redis_unlock('given')", 'f', '01000', qr/taken by/,
	'moved: so is who has it now');
$three->query_warns("SELECT redis_unlock('told')", 'f', '01000', qr/was changed/,
	'moved: acknowledged');
$one->query_is("SELECT redis_try_lock('renewed')", 't', 'moved: free at the new place');
$one->query_is("SELECT redis_unlock('renewed')", 't', 'moved: given back');
$new->cmd('DEL', 'given');

#
# Released by its session before the watchdog has looked.
#

go_to($proxy->url);
$one->query_is("SELECT redis_lock('release')", '', 'release: held');
$two->query("BEGIN; INSERT INTO written VALUES ('two')");
$two->query_is("SELECT redis_xact_lock('verify')", '', 'release: one to be verified');
my $watchdog = $node->watchdog_pid;
kill 'STOP', $watchdog;
$node->set('lockredis.url' => $new->url);
$one->query_warns("SELECT redis_unlock('release')",
	'f', '01000', qr/"lockredis.url" was changed/, 'release: told');
$two->query("SET LOCAL lockredis.commit_guard = 'verify'");
$two->query_is("SELECT redis_xact_lock('verify')", '', 'release: with the stricter guard');
like($two->query('COMMIT')->detail // '', qr/"lockredis.url" was changed/,
	'release: the guard finds out');
is(only_at_old(), 'foreign release verify', 'release: the old place has them');
kill 'CONT', $watchdog;
poll_until('the old place to be empty', sub { only_at_old() eq 'foreign' });
$node->wait_for_up;

#
# The same Redis under another name.
#

my $losses = $node->lock_stat('losses');
$one->query_is("SELECT redis_lock('same'), redis_lock('same given', '1 hour')", '|', 'same: held');
my $owner = owner_in($new->hash('same'));
go_to($new->unix_url);
poll_until('the lock to be asked for',
	sub { $node->value("SELECT sum(renewals) FROM redis_locks WHERE key = 'same'") > 0 });
$two->query_is("SELECT redis_try_lock('same given')", 'f', 'same: locked');
$one->query_is("SELECT redis_is_held('same'), redis_is_held('same given')", 't|t', 'same: held');
is(owner_in($new->hash('same')), $owner, 'same: by the same owner');
is($node->lock_stat('losses'), $losses, 'same: nothing is lost');
$one->query_is("SELECT redis_unlock('same'), redis_unlock('same given')", 't|t',
	'same: given back');

#
# A count that was sent to the old place, and not answered.
#

sub count_in_vain ($latch)
{
	go_to($proxy->url);
	$one->query("SELECT redis_latch_init('$latch', 5); BEGIN; SELECT redis_latch_xact_count_down('$latch')");
	$old->freeze;
	$node->log_since_here;
	$one->query_is('COMMIT', '', "$latch: committed");
	return go_to($new->url);
}

count_in_vain('sum');
$proxy->reset_all;
poll_until('the count to be given up', sub { $node->count_locks == 0 });
poll_until('that to be logged', sub { $node->logged(qr/gave up counting 1 for the latch "sum"/) });
ok($node->logged(qr/DETAIL:  It may have been counted where "lockredis.url" pointed/), 'and why');
$old->thaw;

# The watchdog ends while the old place has yet to answer.
count_in_vain('end');
poll_until('the count to be left to the old place', sub { $node->count_locks == 0 });
$node->replace_watchdog;
poll_until('that to be logged', sub { $node->logged(qr/gave up counting 1 for the latch "end"/) });
$old->thaw;

# A batch of counts is under way there, and is sent again since the script is not known any more;
# meanwhile the same counts are left to the old place, in another order.
go_to($proxy->url);
my @counts = map { "count $_" } 'a' .. 'c';
$one->query("SELECT redis_latch_init('$_', 50)") foreach @counts;
my $held = $proxy->rule(match => 'count ', action => 'hold', times => 0);
foreach my $count ([ $three, 'b' ], [ $two, 'a' ], [ $one, 'c' ])
{
	$count->[0]->query("BEGIN; SELECT redis_latch_xact_count_down('count $count->[1]'); COMMIT");
}
my $before = $proxy->acted($held);
$proxy->reset_all;
$proxy->wait_for_rule($held, $before + 1);
$old->cmd('SCRIPT', 'FLUSH');
go_to($new->url);
poll_until('the counts to be left to the old place', sub { $node->count_locks == 0 });
$proxy->let_go;
poll_until('all to be counted', sub { !grep { $old->cmd('GET', $_) == 50 } @counts });
is_deeply([ map { $old->cmd('GET', $_) } @counts ], [ 49, 49, 49 ], 'each count counts once');

#
# A session reads its settings between statements only.  So in the middle of one it is told instead
# of being left where nobody renews or listens: one that waits for a foreign or for a local holder,
# soon; one that takes locks, at the next one, or at its commit if it holds one.
#

go_to($proxy->url);
$_->cmd('FLUSHALL') foreach $old, $new;
$node->safe_psql('postgres', 'CREATE TABLE go_on (what text)');
my $moved = qr/the lock store has been changed.*DETAIL:.*lockredis\.url.*HINT:  Run/s;

#
#   holder    has "local"
#   one       awaits "foreign", which another client has, for ten minutes
#   two       awaits "local"
#   loop      takes and releases in one statement that goes on, and stops
#             without the lock while the gate is closed
#   within    stops there and holds a lock
#
my ($holder, $loop, $within, $gate) = map { $node->session } 1 .. 4;
$old->foreign_lock('foreign');
$holder->query("SELECT redis_lock('local')");
$one->start("SELECT redis_lock('foreign')");
$two->start("SELECT redis_lock('local')");
$loop->start(<<'SQL');
DO $$ BEGIN
	LOOP
		PERFORM redis_lock('loop');
		PERFORM redis_unlock('loop');
		INSERT INTO go_on VALUES ('loop');
		PERFORM pg_advisory_xact_lock_shared(1);
		COMMIT;
	END LOOP;
END $$
SQL
$node->wait_for_waiters($_, 1) foreach 'foreign', 'local';

# Something else.
$node->set('lockredis.command_timeout' => '4s');
pause(1);
ok($_->is_running, 'another setting: nobody is disturbed') foreach $one, $two, $loop;

# The place.
$gate->query('SELECT pg_advisory_lock(1)');
$within->start(<<'SQL');
DO $$ BEGIN
	PERFORM redis_lock('within');
	PERFORM pg_advisory_xact_lock_shared(1);
	PERFORM redis_unlock('within');
	INSERT INTO go_on VALUES ('within');
	COMMIT;
END $$
SQL
$node->wait_for_postgres_lock($_) foreach $loop, $within;
$node->set('lockredis.url' => $new->url);
$one->wait(15)->fails('58030', $moved, 'who waits for a foreign holder is told');
$two->wait(15)->fails('58030', $moved, 'who waits for a local holder is told');
$node->wait_for_loss('within');
$gate->query('SELECT pg_advisory_unlock(1)');
$loop->wait(15)->fails('58030', $moved, 'who takes locks in a long statement is told');
$within->wait(15)
  ->fails('55000', qr/the lock "within" was lost.*lockredis\.url/s, 'who has one cannot commit');
$holder->query_fails("SELECT redis_assert_held('local')", '55000', qr/lost/,
	'who had a lock has lost it');
$holder->query_warns("SELECT redis_unlock('local')", 'f', '01000', qr/lost/,
	'and acknowledges that');
$one->query_is("SELECT redis_try_lock('foreign')", 't', 'the next statement is there');
$two->query_is("SELECT redis_try_lock('local')", 't', 'for everybody');
$loop->query_is("SELECT redis_try_lock('loop')", 't', 'for the loop, too');
is_deeply([ $new->all_keys ], [ 'foreign', 'local', 'loop' ], 'all of it is there');
ok( poll_until('what was taken to be given back',
		sub { !grep { !/^(?:foreign|local)$/ } $old->all_keys }),
	'and what was taken at the old place was given back');
is_deeply($old->hash('foreign'), { 'somebody:1' => 1 }, 'but that of others');

# Without a change, who begins to wait after a reload waits.
$node->queue_up('loop', $holder => "SELECT redis_lock('loop')");
$loop->query_is("SELECT redis_unlock('loop')", 't', 'given back');
is($holder->wait(10)->error, undef, 'had');

end_test($node, $new);
