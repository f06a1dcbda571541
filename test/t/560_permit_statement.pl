# Copyright (c) 2026, lockredis contributors

# A statement that took a permit by its id and fails before it ends gives it back; what an
# earlier statement took stays, however the transaction ends.  And redis_unlock_all counts the
# keys of which something was given back, however many permits of others were lost.
# Proves G5, G45.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis);
my ($one, $two) = map { $node->session } 1 .. 2;

sub free { return $two->value("SELECT redis_permit_available('k')"); }

# What is given back is an orphan until it is.
sub is_given_back
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	poll_until('it to be given back', sub { free() == 2 && $node->count_rows('redis_locks') == 0 });
	return pass($name);
}

$one->query_is("SELECT redis_permit_init('k', 2)", 't', 'two');

# ----------
# It fails
# ----------

{
	my $session = $node->session;

	$session->start("SELECT redis_permit_acquire('k', '1h'), pg_sleep(3600)");
	poll_until('the permit to be had', sub { free() == 1 });
	$session->cancel;
	$session->wait->fails('57014', qr/./, 'cancelled');
	is_given_back('cancelled: given back');
	$session->quit;
}

$one->query("CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_permit_acquire('k', '1h');
		RAISE 'it fails';
	END \$\$");
$one->query_fails('SELECT fails()', 'P0001', qr/it fails/, 'a function');
is_given_back('a function: given back');

# Behind a savepoint, as drivers set one for each statement
$one->query_fails('BEGIN; SAVEPOINT a; SELECT fails()', 'P0001', qr/it fails/, 'behind a savepoint');
$one->query('ROLLBACK TO a');
is_given_back('behind a savepoint: given back');
$one->query('COMMIT');

# ----------
# What stays
# ----------

$one->query('BEGIN');
my $before = $one->value("SELECT redis_permit_acquire('k', '1h')");
$one->query_fails('SELECT fails()', 'P0001', qr/it fails/, 'in a transaction');
$one->query('ROLLBACK');
poll_until('the second to be given back',
	sub { free() == 1 && $node->count_rows('redis_locks') == 0 });
$two->query_is("SELECT redis_permit_release('k', '$before')", 't', 'what the statement before took stays');

$one->query("CREATE PROCEDURE commits() LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_permit_acquire('k', '1h');
		COMMIT;
		RAISE 'it fails';
	END \$\$");
$one->query_fails('CALL commits()', 'P0001', qr/it fails/, 'a procedure');
is(free(), 1, 'what it took before its COMMIT stays');
$two->query("SELECT redis_permit_set('k', 3)");
is(free(), 2, 'two are free again');

# Given back in the same statement: nothing is left to be given back
$one->query("CREATE FUNCTION gives_back() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_permit_release('k', redis_permit_acquire('k', '1h'));
		RAISE 'it fails';
	END \$\$");
$one->query_fails('SELECT gives_back()', 'P0001', qr/it fails/, 'what was given back');
poll_until('no row of it', sub { $node->count_rows('redis_locks') == 0 });
is(free(), 2, 'is not given back again');

# ----------
# redis_unlock_all
# ----------

of_redis 'what is deleted' => sub {
	$one->query("SELECT redis_permit_init('p', 3)");
	$one->query("SELECT redis_permit_lock('p', '1h'), redis_permit_lock('p', '1h'), redis_lock('q', '1h')");
	$redis->cmd('DEL', '{p}:timeout');
	$one->query_warns('SELECT redis_unlock_all()', '1', '01000', qr/2 Redis locks were lost/,
		'one key was given back, two permits of another one were lost');
};

$_->quit foreach $one, $two;
done_testing();
