# Copyright (c) 2026, lockredis contributors

# A statement that took permits of a semaphore and fails before it ends gives them back, also
# behind a savepoint; not what it has given back itself, nor what an earlier statement took.
# Proves G43.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

my $redis = lock_store;
my $node = LockRedis::Node->create('main', redis => $redis);
my ($one, $two) = map { $node->session } 1 .. 2;

$node->wait_for_up;

sub free { return $two->value("SELECT redis_semaphore_available('$_[0]')"); }

# So many are free, and nothing is to be given back any more.
sub is_free
{
	my ($key, $n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	poll_until("$name: nothing to be given back", sub { $node->count_rows('redis_locks') == 0 });
	return is(free($key), $n, $name);
}

$one->query("SELECT redis_semaphore_init('s', 5), redis_semaphore_init('t', 5)");

# ----------
# It fails
# ----------

foreach my $stop ('cancel', 'terminate')
{
	foreach my $function ('redis_semaphore_acquire', 'redis_try_semaphore_acquire')
	{
		my $session = $node->session;

		$session->start("SELECT $function('s', 2), pg_sleep(3600)");
		poll_until('two to be had', sub { free('s') == 3 });
		$session->$stop;
		$session->wait->fails($stop eq 'cancel' ? '57014' : '57P01', qr/./, "$function: $stop");
		is_free('s', 5, "$function: $stop: given back");
		$session->quit;
	}
}

# It waits for more when it is cancelled.
$one->start("SELECT redis_semaphore_acquire('s', 2), redis_semaphore_acquire('t', 6)");
$node->wait_for_waiters('t', 1);
is(free('s'), 3, 'two are had');
$one->cancel;
$one->wait->fails('57014', qr/./, 'cancelled in a wait');
is_free('s', 5, 'cancelled in a wait: given back');

$one->query_fails("SELECT redis_semaphore_acquire('s'), redis_semaphore_acquire('s', 2), 1 / (random() < 0)::int",
	'22012', qr/zero/, 'taken twice');
is_free('s', 5, 'taken twice: given back');
$one->query_fails("SELECT redis_semaphore_drain('s'), 1 / (random() < 0)::int", '22012', qr/zero/, 'drained');
is_free('s', 5, 'drained: given back');

# Behind a savepoint, as drivers set one for each statement
$one->query_fails("BEGIN; SELECT redis_semaphore_acquire('t'); SAVEPOINT a; SELECT redis_semaphore_acquire('s'); "
	  . "SAVEPOINT b; SELECT redis_semaphore_acquire('s', 2), 1 / (random() < 0)::int",
	'22012', qr/zero/, 'behind a savepoint');
$one->query('ROLLBACK TO b');
is_free('s', 4, 'behind a savepoint: what the statement took');
$one->query('COMMIT');
is_free('s', 4, 'the one before stays');
is_free('t', 4, 'and the one in the transaction');
$two->query("SELECT redis_semaphore_release('s'), redis_semaphore_release('t')");

# What it has given back itself, it has not.
$one->query("CREATE FUNCTION takes(given_back int) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_semaphore_acquire('s', 3);
		PERFORM redis_semaphore_acquire('t', 1);
		PERFORM redis_semaphore_release('s', given_back);
		RAISE 'it fails';
	END \$\$");
foreach my $n (1, 3, 4)
{
	$one->query_fails("SELECT takes($n)", 'P0001', qr/it fails/, "$n were given back");
	is_free('s', $n > 3 ? 6 : 5, "$n were given back: the others, too");
	is_free('t', 5, "$n were given back: and others");
}
$two->query("SELECT redis_semaphore_acquire('s')");

# In a loop over a query, or by a cursor: that has a portal of its own, which may have ended
# before the statement fails.
my %loops = (
	'in its body' => "FOR r IN SELECT redis_semaphore_acquire('s') LOOP RAISE 'it fails'; END LOOP",
	'in its body, before its end' =>
	  "FOR r IN SELECT redis_try_semaphore_acquire('s') FROM generate_series(1, 100)
		LOOP RAISE 'it fails'; END LOOP",
	'in its body, over rows that are written' =>
	  "FOR r IN INSERT INTO written SELECT redis_semaphore_acquire('s')::text RETURNING *
		LOOP RAISE 'it fails'; END LOOP",
	'behind it' => "FOR r IN SELECT redis_semaphore_acquire('s') LOOP END LOOP",
	'behind one in another' => "FOR r IN SELECT 1 LOOP
		FOR r IN SELECT redis_semaphore_acquire('s') LOOP END LOOP; END LOOP",
	'behind an error that was caught' => "BEGIN
			FOR r IN SELECT redis_semaphore_acquire('s') LOOP RAISE 'caught'; END LOOP;
		EXCEPTION WHEN OTHERS THEN NULL;
		END",
	'behind an open cursor' => "OPEN c FOR SELECT redis_semaphore_acquire('s'); FETCH c INTO r; FETCH c INTO r",
	'behind a closed cursor' =>
	  "OPEN c FOR SELECT redis_semaphore_acquire('s'); MOVE ALL FROM c; CLOSE c");
$one->query('CREATE TABLE written (what text)');
foreach my $name (sort keys %loops)
{
	my $body = "\$\$ DECLARE r record; c refcursor; BEGIN $loops{$name}; RAISE 'it fails'; END \$\$";

	# A function has its rows fetched many at a time, a block one by one.
	$one->query("CREATE OR REPLACE FUNCTION loops() RETURNS void LANGUAGE plpgsql AS $body");
	foreach my $statement ("DO $body", 'SELECT loops()')
	{
		my $what = substr($statement, 0, 2) . ": a loop fails $name";

		$two->query("SELECT redis_semaphore_drain('s')");
		$two->query("SELECT redis_semaphore_release('s', 5)");
		$one->query_fails($statement, 'P0001', qr/it fails/, $what);
		is_free('s', 5, "$what: given back");
	}
}

# What it would have given back at its commit is not given back by that.
$one->query_fails("DO \$\$
	BEGIN
		PERFORM redis_semaphore_acquire('s');
		PERFORM redis_semaphore_xact_release('s');
		RAISE 'it fails';
	END \$\$", 'P0001', qr/it fails/, 'at its commit');
is_free('s', 5, 'at its commit: given back once');

# ----------
# It does not
# ----------

sub stays
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is_free('s', 4, $name);
	$two->query("SELECT redis_semaphore_release('s')");
	return;
}

$one->query("BEGIN; SELECT redis_semaphore_acquire('s'); ROLLBACK");
stays('ROLLBACK');
$one->query_fails("BEGIN; SELECT redis_semaphore_acquire('s'); SELECT 1 / 0", '22012', qr/zero/,
	'the next statement fails');
$one->query('ROLLBACK');
stays('the next statement');
$one->query_is("DO \$\$
	BEGIN
		BEGIN
			PERFORM redis_semaphore_acquire('s');
			RAISE 'it fails';
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
	END \$\$", '', 'an error that is caught');
stays('an error that is caught');
$one->query_fails("DO \$\$
	BEGIN
		PERFORM redis_semaphore_acquire('s');
		COMMIT;
		RAISE 'it fails';
	END \$\$", 'P0001', qr/it fails/, 'after a COMMIT');
stays('committed');
$one->query_fails("SELECT redis_try_semaphore_acquire('s', 9), 1 / (random() < 0)::int", '22012', qr/zero/,
	'one that got none');
is_free('s', 5, 'nothing to be given back');

$_->quit foreach $one, $two;
done_testing();
