# Copyright (c) 2026, lockredis contributors

# A statement that took a token lock, permits of a semaphore, or a permit by its id, and fails
# before it ends gives that back, also behind a savepoint, and what a loop or a cursor in it took;
# not what it has given back itself, nor what an earlier statement took, however the transaction
# ends.  And redis_unlock_all counts the keys of which something was given back, however many
# permits of others were lost.
# Proves G5, G43, G45.

use LockRedis::Test;

my ($node, $redis, $one, $two) = servers(sessions => 2, redis => lock_store);

# What takes one of them, so many are free while nobody has any, and what gives one back
my %kinds = (
	token => {
		takes => "redis_token_lock('k', '1h', 'x')",
		tries => "redis_try_token_lock('k', '0', '1h', 'x')",
		all => 1,
		free => "1 - redis_token_is_held('k', 'x')::int",
		gives_back => "redis_token_unlock('k', 'x')"
	},
	semaphore => {
		takes => "redis_semaphore_acquire('s')",
		tries => "redis_try_semaphore_acquire('s')",
		all => 5,
		free => "redis_semaphore_available('s')",
		gives_back => "redis_semaphore_release('s')"
	},
	permit => {
		takes => "redis_permit_acquire('p', '1h')",
		tries => "redis_try_permit_acquire('p', '0', '1h')",
		all => 2,
		free => "redis_permit_available('p')",
		gives_back => "redis_permit_set('p', redis_permit_total('p') + 1)"
	});

$node->wait_for_up;
$one->query("SELECT redis_semaphore_init('s', 5), redis_semaphore_init('t', 5), redis_permit_init('p', 2)");
$one->query('CREATE TABLE written (what text)');

sub free { return $two->value("SELECT $_[0]{free}"); }

# So many are free, and nothing is to be given back any more.
sub is_free ($kind, $n, $name)
{
	poll_until("$name: nothing to be given back", sub { $node->count_locks == 0 });
	return is(free($kind), $n, $name);
}

sub is_given_back ($kind, $name) { return is_free($kind, $kind->{all}, "$name: given back"); }

sub stays ($kind, $name)
{
	is_free($kind, $kind->{all} - 1, "$name: stays");
	$two->query("SELECT $kind->{gives_back}");
	return;
}

sub block { return join ' ', 'DECLARE r record; c refcursor; BEGIN', @_, 'END'; }

# It fails: [name, SQLSTATE, statement].  %t takes one, %y tries to.
my @fails = (
	[ 'a query', '22012', 'SELECT %t, 1 / (random() < 0)::int' ],
	[ 'a function', 'P0001', 'SELECT fails()' ],
	[ 'after a ROLLBACK', 'P0001', 'DO $$ BEGIN PERFORM %t; ROLLBACK; RAISE \'it fails\'; END $$' ]);

# It does not, or only the next one does.
my @stays = (
	[ 'ROLLBACK', 'BEGIN; SELECT %t; ROLLBACK' ],
	[ 'ROLLBACK in the same message', 'BEGIN\\; SELECT %t\\; ROLLBACK\\; SELECT 1' ],
	[ 'the next statement fails', 'BEGIN; SELECT %t; SELECT 1 / 0' ],
	[ 'a prepared one', 'PREPARE take AS SELECT %t; EXECUTE take; DEALLOCATE take; SELECT 1 / 0' ],
	[
		'an error that is caught',
		'DO $$ BEGIN BEGIN PERFORM %t; RAISE \'caught\'; EXCEPTION WHEN OTHERS THEN NULL; END; END $$'
	],
	[ 'after a COMMIT', 'DO $$ BEGIN PERFORM %t; COMMIT; RAISE \'it fails\'; END $$' ],
	[ 'a procedure that rolls back', 'DO $$ BEGIN PERFORM %t; ROLLBACK; END $$' ],
	[
		'a cursor in a procedure that rolls back',
		'DO $$ DECLARE c CURSOR FOR SELECT %t FROM generate_series(1, 2); r record;
			BEGIN OPEN c; FETCH c INTO r; ROLLBACK; END $$'
	],
	[
		'a cursor that ends with its transaction',
		'BEGIN; DECLARE c CURSOR FOR SELECT %t FROM generate_series(1, 2); FETCH c; ROLLBACK'
	]);

# In a loop over a query, or by a cursor: that has a portal of its own, which may have ended
# before the statement fails.
my %loops = (
	'in its body' => "FOR r IN SELECT %t LOOP RAISE 'it fails'; END LOOP",
	'in its body, before its end' =>
	  "FOR r IN SELECT %y FROM generate_series(1, 100) LOOP RAISE 'it fails'; END LOOP",
	'in its body, over rows that are written' =>
	  "FOR r IN INSERT INTO written SELECT %t::text RETURNING * LOOP RAISE 'it fails'; END LOOP",
	'behind it' => 'FOR r IN SELECT %t LOOP END LOOP',
	'behind one in another' => 'FOR r IN SELECT 1 LOOP FOR r IN SELECT %t LOOP END LOOP; END LOOP',
	'behind an error that was caught' =>
	  "BEGIN FOR r IN SELECT %t LOOP RAISE 'caught'; END LOOP; EXCEPTION WHEN OTHERS THEN NULL; END",
	'behind an open cursor' => 'OPEN c FOR SELECT %t; FETCH c INTO r; FETCH c INTO r',
	'behind a closed cursor' => 'OPEN c FOR SELECT %t; MOVE ALL FROM c; CLOSE c');

foreach my $name (sort keys %kinds)
{
	my $kind = $kinds{$name};
	my $sql = sub { return $_[0] =~ s/%t/$kind->{takes}/gr =~ s/%y/$kind->{tries}/gr };

	foreach my $stop ('cancel', 'terminate')
	{
		my $session = $node->session;

		$session->start("SELECT $kind->{takes}, pg_sleep(3600)");
		poll_until('it to be acquired', sub { free($kind) == $kind->{all} - 1 });
		$session->$stop;
		$session->wait->fails($stop eq 'cancel' ? '57014' : '57P01', qr/./, "$name: $stop");
		is_given_back($kind, "$name: $stop");
		$session->quit;
	}
	$one->query($sql->('CREATE OR REPLACE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN PERFORM %t; RAISE \'it fails\'; END $$'));
	foreach (@fails)
	{
		my ($what, $sqlstate, $statement) = @$_;

		$one->query_fails($sql->($statement), $sqlstate, qr/zero|it fails/, "$name: $what");
		is_given_back($kind, "$name: $what");
	}

	# Behind a savepoint, as drivers set one for each statement
	$one->query_fails('BEGIN; SAVEPOINT a; SELECT fails()', 'P0001', qr/it fails/, "$name: behind a savepoint");
	$one->query('ROLLBACK TO a');
	is_given_back($kind, "$name: behind a savepoint");
	$one->query('COMMIT');

	foreach (@stays)
	{
		my ($what, $statement) = @$_;

		$one->query($sql->($statement));
		$one->query('ROLLBACK');
		stays($kind, "$name: $what");
	}

	# What comes of portals is the same for all.
	next if $name ne 'token';

	# A function has its rows fetched many at a time, a block one by one.
	foreach my $where (sort keys %loops)
	{
		my $body = '$$ ' . block("$loops{$where};", "RAISE 'it fails';") . ' $$';

		$one->query($sql->("CREATE OR REPLACE FUNCTION loops() RETURNS void LANGUAGE plpgsql AS $body"));
		foreach my $statement ("DO $body", 'SELECT loops()')
		{
			my $what = "$name, " . substr($statement, 0, 2) . ": a loop fails $where";

			$one->query_fails($sql->($statement), 'P0001', qr/it fails/, $what);
			is_given_back($kind, $what);
		}
	}
}

# ----------
# Token locks
# ----------

$one->query_fails("BEGIN; SELECT redis_token_lock('before', '1h', 'x'); SELECT fails()",
	'P0001', qr/it fails/, 'in a transaction');
$one->query('ROLLBACK');
is_given_back($kinds{token}, 'in a transaction');
$two->query_is("SELECT redis_token_unlock('before', 'x')", 't', 'what the statement before took stays');

# Terminated while it waits for another lock, which others wait for behind it
{
	my ($session, $behind) = map { $node->session } 1 .. 2;
	my $token = $kinds{token};

	$two->query_is("SELECT redis_lock('b', '1h')", '');
	$node->queue_up('b', $session => "SELECT $token->{takes}, redis_lock('b', '1h')");
	is(free($token), 0, 'the token lock is held');
	$behind->start("SELECT redis_lock('b', '1h')");
	$node->wait_for_waiters('b', 2);
	$session->terminate;
	$session->wait->fails('57P01', qr/./, 'terminated in a wait');
	poll_until('it to be given back', sub { free($token) == 1 });
	$node->wait_for_waiters('b', 1);
	$two->query_is("SELECT redis_unlock('b')", 't');
	is($behind->wait->error, undef, 'the next one gets the other lock');
	$behind->query_is("SELECT redis_unlock('b')", 't');
	$_->quit foreach $session, $behind;
}

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
poll_until('the locks to be acquired', sub { $redis->cmd('EXISTS', 'had') == 1 });
my $other = $node->session;
$other->query_is("SELECT redis_token_lock('k', '1h', 'x')", 'x', 'taken by somebody else');
$two->query('ROLLBACK');
$one->wait->fails('P0001', qr/it fails/, 'fails after that');
poll_until('what it had to be given back', sub { $redis->cmd('EXISTS', 'had') == 0 });
stays($kinds{token}, 'what somebody else has');
$other->quit;

# ----------
# Permits of a semaphore
# ----------

my ($s, $t) = ($kinds{semaphore}, { all => 5, free => "redis_semaphore_available('t')" });

# It waits for more when it is cancelled.
$node->queue_up('t', $one => "SELECT redis_semaphore_acquire('s', 2), redis_semaphore_acquire('t', 6)");
is(free($s), 3, 'two are held');
$one->cancel;
$one->wait->fails('57014', qr/./, 'cancelled in a wait');
is_given_back($s, 'cancelled in a wait');

foreach (
	[ 'taken twice', "redis_semaphore_acquire('s'), redis_semaphore_acquire('s', 2)" ],
	[ 'drained', "redis_semaphore_drain('s')" ],
	[ 'one that got none', "redis_try_semaphore_acquire('s', 9)" ])
{
	my ($name, $call) = @$_;

	$one->query_fails("SELECT $call, 1 / (random() < 0)::int", '22012', qr/zero/, $name);
	is_given_back($s, $name);
}

# Behind savepoints: only what the statement took
$one->query_fails("BEGIN; SELECT redis_semaphore_acquire('t'); SAVEPOINT a; SELECT redis_semaphore_acquire('s'); "
	  . "SAVEPOINT b; SELECT redis_semaphore_acquire('s', 2), 1 / (random() < 0)::int",
	'22012', qr/zero/, 'behind savepoints');
$one->query('ROLLBACK TO b');
is_free($s, 4, 'behind savepoints: what the statement took');
$one->query('COMMIT');
is_free($_, 4, 'behind savepoints: those before stay') foreach $s, $t;
$two->query("SELECT redis_semaphore_release('s'), redis_semaphore_release('t')");

# What it has given back itself, or would have at its commit, it has not.
$one->query("CREATE FUNCTION takes(given_back int) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM redis_semaphore_acquire('s', 3);
		PERFORM redis_semaphore_acquire('t', 1);
		PERFORM redis_semaphore_xact_release('s');
		PERFORM redis_semaphore_release('s', given_back);
		RAISE 'it fails';
	END \$\$");
foreach my $n (1, 3, 4)
{
	$one->query_fails("SELECT takes($n)", 'P0001', qr/it fails/, "$n were given back");
	is_free($s, $n > 3 ? 6 : 5, "$n were given back: the others, too");
	is_given_back($t, "$n were given back: and others");
}

# A loop in a trigger that a COMMIT runs: its portal ends when no other one is active.
$one->query("CREATE TABLE late (i int); CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS \$\$ DECLARE r record;
	BEGIN FOR r IN SELECT redis_semaphore_acquire('t') LOOP END LOOP; RAISE 'it fails'; END \$\$;
	CREATE CONSTRAINT TRIGGER x AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
	BEGIN; INSERT INTO late VALUES (1)");
$one->query_fails('COMMIT', 'P0001', qr/it fails/, 'a loop in a deferred trigger');
is_given_back($t, 'a loop in a deferred trigger');

# ----------
# Permits
# ----------

$one->query_fails("DO \$\$ BEGIN PERFORM redis_permit_release('p', redis_permit_acquire('p', '1h')); RAISE 'it fails'; END \$\$",
	'P0001', qr/it fails/, 'what was given back');
is_free($kinds{permit}, 2, 'is not given back again');

of_redis 'what is deleted' => sub {
	$one->query("SELECT redis_permit_init('q', 3)");
	$one->query("SELECT redis_permit_lock('q', '1h'), redis_permit_lock('q', '1h'), redis_lock('r', '1h')");
	$redis->cmd('DEL', '{q}:timeout');
	$one->query_warns('SELECT redis_unlock_all()', '1', '01000', qr/2 Redis locks were lost/,
		'one key was given back, two permits of another one were lost');
};

$_->quit foreach $one, $two;
done_testing();
