# Copyright (c) 2026, lockredis contributors

# What a transaction remembers of locks that it has given back: nothing, in
# whatever order, and what it has to remember of those that it has; the
# record of a token belongs to the subtransaction.  (Which losses ROLLBACK TO forgets: 140_guard.)
# Proves G30.

use LockRedis::Test qw(:DEFAULT run);

my ($node, $redis, $one, $two) = servers(
	sessions => 2, settings => { 'lockredis.lease' => '10min' });

run($one, 'CREATE TABLE t (a int)');

# An entry has more than 50 bytes.
my $rounds = 1500;
my $memory = q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext'};

my %loop = (
	'in the order in which they were taken' => q{
		PERFORM redis_lock('a'), redis_lock('b');
		PERFORM redis_unlock('a');
		PERFORM redis_unlock('b')},
	'each in a block of its own' => q{
		BEGIN
		    PERFORM redis_lock('a'), redis_lock('b');
		    PERFORM redis_unlock('a');
		    PERFORM redis_unlock('b');
		EXCEPTION WHEN division_by_zero THEN
		END},
	'taken in one block, given back in another' => q{
		BEGIN
		    PERFORM redis_lock('a');
		EXCEPTION WHEN division_by_zero THEN
		END;
		BEGIN
		    PERFORM redis_lock('b');
		    PERFORM redis_unlock('a');
		    PERFORM redis_unlock('b');
		EXCEPTION WHEN division_by_zero THEN
		END},
	'on top of transaction-level ones' => q{
		PERFORM redis_lock('x'), redis_lock('y');
		PERFORM redis_unlock('x');
		PERFORM redis_unlock('y')},
	'over and over, beside one that stays' => q{
		PERFORM redis_lock('x');
		PERFORM redis_lock('a');
		PERFORM redis_unlock('x');
		PERFORM redis_lock('x');
		PERFORM redis_unlock('a');
		PERFORM redis_unlock('x')});

foreach my $name (sort keys %loop)
{
	subtest $name => sub {
		my $one = $node->session;

		run($one,
			"BEGIN; SELECT redis_xact_lock('x'), redis_xact_lock('y'); SAVEPOINT s");
		my $rounds_sql = sub {
			"DO \$\$ BEGIN FOR i IN 1 .. $_[0] LOOP $loop{$name}; END LOOP; END \$\$";
		};
		run($one, $rounds_sql->(20));
		my $before = $one->value($memory);
		run($one, $rounds_sql->($rounds));
		cmp_ok($one->value($memory) - $before,
			'<', $rounds * 20, 'remembers nothing of them');
		run($one, 'COMMIT');
		$one->quit;
	};
}

# The owner's trigger on the fence table takes further fenced locks, for which it
# runs again.  All of their records are made when the last lock has been taken,
# so the room that this one left is not enough for them.
subtest 'records of nested fenced locks' => sub {
	my $depth = 30;

	$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION take_next() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	IF length(NEW.key) < $depth THEN
		PERFORM redis_fenced_xact_lock(NEW.key || 'n');
	END IF;
	RETURN NEW;
END \$\$;
CREATE TRIGGER take_next BEFORE INSERT ON redis_fences FOR EACH ROW EXECUTE FUNCTION take_next();
SQL
	my $s = $node->session;

	foreach my $before (90 .. 100)
	{
		run($s,
			"BEGIN; SELECT count(redis_xact_lock('before ' || i)) FROM generate_series(1, $before) i;
			 SELECT redis_fenced_xact_lock('n')");
		$s->query_is('SELECT count(*) FROM redis_fences',
			$depth, "$before locks before: all tokens are recorded");
		run($s, 'ROLLBACK');
	}
	$s->quit;
	$node->safe_psql('postgres', 'DROP TRIGGER take_next ON redis_fences');
};

# A session that once held many locks does not keep the memory for them.
foreach my $case (
	[ 'unlocked all', '', 'redis_lock', 'SELECT redis_unlock_all()' ],
	[ 'in a transaction', 'BEGIN;', 'redis_xact_lock', 'COMMIT' ],
	[ 'unlocked one by one', '', 'redis_lock',
		"SELECT count(redis_unlock('k ' || i)) FROM generate_series(1, 4000) i" ])
{
	my ($name, $begin, $lock, $end) = @$case;

	subtest "many locks, $name" => sub {
		my $s = $node->session;

		run($s, "SELECT redis_lock('one'); SELECT redis_unlock('one')");
		my $before = $s->value($memory);
		run($s, "$begin SELECT count($lock('k ' || i)) FROM generate_series(1, 4000) i");
		my $grown = $s->value($memory) - $before;
		cmp_ok($grown, '>', 1_000_000, 'many locks take memory');
		run($s, $end);
		run($s, "SELECT redis_lock('one'); SELECT redis_unlock('one')");
		cmp_ok($s->value($memory) - $before, '<', $grown / 4, 'which is given back');

		# The room that is left is enough for some.
		run($s, "SELECT count(redis_lock('k ' || i)) FROM generate_series(1, 600) i");
		$s->query_is('SELECT redis_unlock_all()', 600, 'and locks work');
		$s->quit;
	};
}

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
