# Copyright (c) 2026, lockredis contributors

# Storms of cancels and of time limits at random moments: at no time two have the
# lock, nothing is lost, nothing is left.
# Proves G1, G5.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Topic::Cancels;
use Time::HiRes qw(usleep);

start_servers();

# ----------
# Storms
# ----------

# The lock protects a read-add-write step on a sequence: setval neither waits
# for anybody nor is undone by an abort.  Each session counts its steps in a
# sequence of its own, in the same expression, where no interrupt is looked for.
# Two sessions in the step at once lose one of two additions.
my $seed = $ENV{LOCKREDIS_TEST_SEED} || time;
my @workers = map { $node->connected_session } 1 .. 4;

my $descriptors = descriptors(@workers);

srand $seed;
note "seed $seed; LOCKREDIS_TEST_SEED sets it";
$node->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE counter MINVALUE 0;
CREATE SEQUENCE steps_1 MINVALUE 0;
CREATE SEQUENCE steps_2 MINVALUE 0;
CREATE SEQUENCE steps_3 MINVALUE 0;
CREATE SEQUENCE steps_4 MINVALUE 0;
CREATE SEQUENCE cancels;
CREATE SEQUENCE stop;

CREATE FUNCTION step(worker text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	seen bigint;
BEGIN
	PERFORM redis_lock('storm');
	SELECT last_value INTO seen FROM counter;
	PERFORM pg_sleep(0.001);
	PERFORM setval('counter', seen + 1), nextval(worker);
	PERFORM redis_unlock('storm');
END $$;

CREATE FUNCTION work(worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT (SELECT is_called FROM stop) LOOP
		BEGIN
			PERFORM step(worker);
		EXCEPTION WHEN query_canceled THEN
			PERFORM nextval('cancels');
		END;
		LOOP
			BEGIN
				PERFORM redis_unlock_all();
				EXIT;
			EXCEPTION WHEN query_canceled THEN
				PERFORM nextval('cancels');
			END;
		END LOOP;
	END LOOP;
END $$;
SQL

sub begin_storm
{
	$node->safe_psql('postgres',
		q{SELECT setval('counter', 0), setval('steps_' || i, 0) FROM generate_series(1, 4) i}
	);
	return;
}

sub end_storm
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($counter, $steps) = split /\|/, $node->value(
		q{SELECT c.last_value, a.last_value + b.last_value + d.last_value + e.last_value
		  FROM counter c, steps_1 a, steps_2 b, steps_3 d, steps_4 e});

	is($counter, $steps, "$name: no step was lost");
	cmp_ok($steps, '>', 0, "$name: $steps steps were made");
	$_->query("SELECT redis_is_locked('nothing')") foreach @workers;
	is_deeply(descriptors(@workers), $descriptors, "$name: no descriptor was lost");
	nothing_left($node, $redis, name => "$name: nothing is left");
	return;
}

# Cancels strike the four of them at random moments, wherever they are.  One
# that strikes between the blocks ends the loop, which is then started again.
begin_storm();
my %fatal;
my $start = sub {
	my ($i) = @_;
	$workers[$i]->start("SELECT work('steps_" . ($i + 1) . "')");
};
my $collect = sub {
	my ($i) = @_;
	my $result = $workers[$i]->wait;
	$fatal{ $result->{raw} } = 1
	  if $result->error && $result->sqlstate ne '57014';
};
$start->($_) foreach 0 .. 3;
foreach my $round (1 .. 200)
{
	my $i = int rand 4;

	usleep(int rand 20_000);
	$workers[$i]->cancel;
	foreach my $j (0 .. 3)
	{
		next if $workers[$j]->is_running;
		$collect->($j);
		$start->($j);
	}
}
$node->value(q{SELECT nextval('stop')});
$collect->($_) foreach 0 .. 3;
is_deeply([ keys %fatal ], [], 'cancelled at random: no other error');
$_->query('SELECT redis_unlock_all()') foreach @workers;
cmp_ok($node->value('SELECT last_value FROM cancels'),
	'>=', 20, 'cancelled at random: many cancels struck a lock function');
end_storm('cancelled at random');

# The same with time limits of 1 to 20 ms; longer ones where nobody makes a step in that time.
begin_storm();
%fatal = ();
my $struck = 0;
my $most_ms = 20;
foreach my $round (1 .. 180)
{
	if ($round > 30 && $round % 30 == 1)
	{
		last if $struck >= 20 && $node->value('SELECT last_value FROM counter') > 0;
		$most_ms *= 2;
	}
	foreach my $i (0 .. 3)
	{
		my $ms = 1 + int rand $most_ms;
		$workers[$i]->start(
			"SET statement_timeout = '${ms}ms'; SELECT step('steps_"
			  . ($i + 1)
			  . "') FROM generate_series(1, 5)");
	}
	foreach my $worker (@workers)
	{
		my $result = $worker->wait;
		$struck++ if defined $result->error && $result->sqlstate eq '57014';
		$fatal{ $result->{raw} } = 1
		  if defined $result->error && $result->sqlstate ne '57014';

		# With 1 ms even this may be too slow.
		poll_until('the time limit to be taken away',
			sub { !$worker->query('RESET statement_timeout')->error });
		$worker->query('SELECT redis_unlock_all()');
	}
}
is_deeply([ keys %fatal ], [], 'timed out at random: no other error');
cmp_ok($struck, '>=', 20, 'timed out at random: many time-outs');
end_storm('timed out at random');

$_->quit foreach @workers, $two, $three;
nothing_left($node, $redis, name => 'only the watchdog is connected');
done_testing();
