# Copyright (c) 2026, lockredis contributors

# A statement that took a token lock and fails before it ends gives it back; what an
# earlier statement took stays, however the transaction ends.
# Proves G5.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis);
my ($one, $two) = map { $node->session } 1 .. 2;

sub is_there { return $redis->cmd('EXISTS', $_[0]) == 1; }

# What is given back is an orphan until it is.
sub is_given_back
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	poll_until("$key to be given back",
		sub { !is_there($key) && $node->count_rows('redis_locks') == 0 });
	return pass($name);
}

sub stays
{
	my ($key, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($node->count_rows('redis_locks'), 0, "$name: nothing is given back");
	$two->query_is("SELECT redis_token_unlock('$key', 'x')", 't', $name);
	return;
}

# ----------
# It fails
# ----------

foreach my $stop ('cancel', 'terminate')
{
	my $session = $node->session;

	$session->start("SELECT redis_token_lock('k', '1h', 'x'), pg_sleep(3600)");
	poll_until('the lock to be had', sub { is_there('k') });
	$session->$stop;
	$session->wait->fails($stop eq 'cancel' ? '57014' : '57P01', qr/./, $stop);
	is_given_back('k', "$stop: given back");
	$session->quit;
}

# Terminated while it waits for another lock, which others wait for behind it
{
	my ($session, $behind) = map { $node->session } 1 .. 2;

	$two->query_is("SELECT redis_lock('b', '1h')", '');
	$session->start("SELECT redis_token_lock('k', '1h', 'x'), redis_lock('b', '1h')");
	$node->wait_for_waiters('b', 1);
	ok(is_there('k'), 'the token lock is had');
	$behind->start("SELECT redis_lock('b', '1h')");
	$node->wait_for_waiters('b', 2);
	$session->terminate;
	$session->wait->fails('57P01', qr/./, 'terminated in a wait');
	poll_until('k to be given back', sub { !is_there('k') });
	$node->wait_for_waiters('b', 1);
	$two->query_is("SELECT redis_unlock('b')", 't');
	is($behind->wait->error, undef, 'the next one gets the other lock');
	$behind->query_is("SELECT redis_unlock('b')", 't');
	is_given_back('k', 'terminated in a wait: given back');
	$_->quit foreach $session, $behind;
}

$one->query("CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_token_lock('k', '1h', 'x');
		RAISE 'it fails';
	END \$\$");
$one->query_fails('SELECT fails()', 'P0001', qr/it fails/, 'a function');
is_given_back('k', 'a function: given back');
$one->query_fails("BEGIN; SELECT redis_token_lock('before', '1h', 'x'); SELECT fails()",
	'P0001', qr/it fails/, 'in a transaction');
$one->query('ROLLBACK');
is_given_back('k', 'in a transaction: given back');
stays('before', 'what the statement before took');

# Behind a savepoint, as drivers set one for each statement
$one->query_fails("BEGIN; SAVEPOINT a; SELECT redis_token_lock('before', '1h', 'x'); "
	  . "SELECT redis_token_lock('k', '1h', 'x'), 1 / (random() < 0)::int", '22012', qr/zero/,
	'behind a savepoint');
$one->query('ROLLBACK TO a');
is_given_back('k', 'behind a savepoint: given back');
$one->query('COMMIT');
stays('before', 'behind a savepoint: what the statement before took');

# Given back and taken again, by others, before it fails
$two->query('CREATE TABLE stop (); BEGIN; LOCK stop');
$one->start("DO \$\$
	BEGIN
		PERFORM redis_token_lock('k', '1h', 'x');
		PERFORM redis_token_unlock('k', 'x');
		PERFORM redis_token_lock('had', '1h', 'x');
		LOCK stop;
		RAISE 'it fails';
	END \$\$");
poll_until('the locks to be had', sub { is_there('had') });
my $other = $node->session;
$other->query_is("SELECT redis_token_lock('k', '1h', 'x')", 'x', 'taken by somebody else');
$two->query('ROLLBACK');
$one->wait->fails('P0001', qr/it fails/, 'fails after that');
is_given_back('had', 'what it had');
ok(is_there('k'), 'not what somebody else has');
stays('k', 'that');
$other->quit;

# ----------
# It does not
# ----------

$one->query("BEGIN; SELECT redis_token_lock('k', '1h', 'x'); ROLLBACK");
stays('k', 'ROLLBACK');
$one->query("BEGIN\\; SELECT redis_token_lock('k', '1h', 'x')\\; ROLLBACK\\; SELECT 1");
stays('k', 'ROLLBACK in the same message');
$one->query_fails("BEGIN; SELECT redis_token_lock('k', '1h', 'x'); SELECT 1 / 0", '22012', qr/zero/,
	'the next statement fails');
$one->query('ROLLBACK');
stays('k', 'the next statement');
$one->query_is("DO \$\$
	BEGIN
		BEGIN
			PERFORM redis_token_lock('k', '1h', 'x');
			RAISE 'it fails';
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
	END \$\$", '', 'an error that is caught');
stays('k', 'an error that is caught');
$one->query_fails("DO \$\$
	BEGIN
		PERFORM redis_token_lock('k', '1h', 'x');
		COMMIT;
		RAISE 'it fails';
	END \$\$", 'P0001', qr/it fails/, 'after a COMMIT');
stays('k', 'committed');
$one->query_is("DO \$\$
	BEGIN
		PERFORM redis_token_lock('k', '1h', 'x');
		ROLLBACK;
	END \$\$", '', 'a procedure that rolls back');
stays('k', 'a procedure that rolls back');
$one->query_fails("DO \$\$
	BEGIN
		PERFORM redis_token_lock('k', '1h', 'x');
		ROLLBACK;
		RAISE 'it fails';
	END \$\$", 'P0001', qr/it fails/, 'after a ROLLBACK');
is_given_back('k', 'after a ROLLBACK');
$one->query_is("DO \$\$
	DECLARE
		c CURSOR FOR SELECT redis_token_lock('k', '1h', 'x') FROM generate_series(1, 2);
		t text;
	BEGIN
		OPEN c;
		FETCH c INTO t;
		ROLLBACK;
	END \$\$", '', 'a cursor in a procedure that rolls back');
stays('k', 'a cursor in a procedure');
$one->query("BEGIN; DECLARE c CURSOR FOR SELECT redis_token_lock('k', '1h', 'x')
	FROM generate_series(1, 2); FETCH c; ROLLBACK");
stays('k', 'a cursor that ends with its transaction');
$one->query_fails("PREPARE take AS SELECT redis_token_lock('k', '1h', 'x'); EXECUTE take; SELECT 1 / 0",
	'22012', qr/zero/, 'a prepared one');
stays('k', 'a prepared one');

nothing_left($node, $redis);
done_testing();
