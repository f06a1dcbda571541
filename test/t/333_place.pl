# Copyright (c) 2026, lockredis contributors

# lockredis.url changes while statements run.  A session reads its settings
# between statements only, so it is told instead of being left where nobody
# renews or listens:
# - who waits for a foreign or for a local holder is told, soon, and starts again
# - who takes locks in a long statement gets the error at the next one, or at its
#   commit if it holds one
# - nothing is taken or left behind at the old place
# - a reload that changes something else disturbs nobody
# Proves G27.

use LockRedis::Test;

my $old = LockRedis::Redis->new(name => 'old');
my $new = LockRedis::Redis->new(name => 'new');
my $node = LockRedis::Node->create('main', redis => $old,
	settings => { 'lockredis.lease' => '10min' });
$node->safe_psql('postgres', 'CREATE TABLE go_on (what text)');
my $moved = qr/the lock store has been changed.*DETAIL:.*lockredis\.url.*HINT:  Start/s;

#
#   holder    has "local"
#   one       awaits "foreign", which another client has, for ten minutes
#   two       awaits "local"
#   loop      takes and releases in one statement that goes on, and stops
#             without the lock while the gate is closed
#   within    stops there and holds a lock
#
my ($holder, $one, $two, $loop, $within, $gate) = map { $node->session } 1 .. 6;
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
pause(2);
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
