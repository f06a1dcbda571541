# Copyright (c) 2026, lockredis contributors

# A bounded buffer of producers and consumers on two servers, by two conditions of one lock:
# each thing is put in and taken out once, in order of its producer, there are never more than
# fit, and nobody sleeps for ever, while waits are cut short by limits and cancels.
# A condition is no lock, so no guarantee speaks of it.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Topic::Condition;
use LockRedis::Wait qw(limit);

my $SIZE = 3;
my $EACH = 40;
my $PRODUCERS = 4;

start_servers();

# The buffer is in one database, whichever server the lock is taken by.
foreach my $node ($near, $far)
{
	$node->safe_psql('postgres', "CREATE EXTENSION IF NOT EXISTS dblink");
}
$near->safe_psql('postgres', 'CREATE TABLE buffer (id bigserial, what text); CREATE TABLE taken (id bigserial, what text)');

my $connection = sprintf "host=%s port=%s dbname=postgres user=postgres", $near->host, $near->port;

# What each does in a loop: under the lock, wait until there is room or something, change the
# buffer, tell one of the others.
sub procedure
{
	my ($name, $todo, $wait_for, $tell, $work) = @_;

	return <<"END";
CREATE PROCEDURE $name(who text, n int, patience interval) LANGUAGE plpgsql AS \$\$
DECLARE
	there int;
BEGIN
	PERFORM dblink_connect('buffer', '$connection');
	FOR i IN 1 .. n LOOP
		PERFORM redis_lock('buffer');
		LOOP
			SELECT x INTO there FROM dblink('buffer', 'SELECT count(*) FROM buffer') AS t(x int);
			IF there > $SIZE THEN
				RAISE 'the buffer has %', there;
			END IF;
			EXIT WHEN $todo;
			PERFORM redis_condition_wait('buffer', patience, '$wait_for');
		END LOOP;
		PERFORM dblink_exec('buffer', $work);
		PERFORM redis_condition_notify('buffer', '$tell');
		PERFORM redis_unlock('buffer');
		COMMIT;
	END LOOP;
	PERFORM dblink_disconnect('buffer');
END \$\$;
END
}
foreach my $node ($near, $far)
{
	$node->safe_psql('postgres',
		procedure('produce', "there < $SIZE", 'room', 'thing',
			q{format('INSERT INTO buffer (what) VALUES (%L)', who || ' ' || i)})
		  . procedure('consume', 'there > 0', 'thing', 'room',
			q{'WITH first AS (DELETE FROM buffer WHERE id = (SELECT min(id) FROM buffer) RETURNING what) INSERT INTO taken (what) SELECT what FROM first'}));
}

# Half of them wait with a limit, after which they look: no notification may be lost by that.
my (@producers, @consumers);
foreach my $i (1 .. $PRODUCERS)
{
	my $patience = $i % 2 ? 'NULL' : "'20 ms'";
	my $producer = patient($i > $PRODUCERS / 2 ? $near : $far);
	my $consumer = patient($i > $PRODUCERS / 2 ? $far : $near);

	$consumer->start("CALL consume('c$i', $EACH, $patience)");
	$producer->start("CALL produce('p$i', $EACH, $patience)");
	push @producers, $producer;
	push @consumers, $consumer;
}

# Others that wait with them are cancelled, when they were told, too; who was told and is not
# cancelled any more does nothing, and tells another one.
foreach my $round (1 .. 10)
{
	my $guest = patient($near);
	my $condition = $round % 2 ? 'thing' : 'room';

	$guest->query("SELECT redis_lock('buffer')");
	$guest->start("SELECT redis_condition_wait('buffer', NULL, '$condition')");
	poll_until('it waits', sub {
		!$guest->is_running
		  || $near->count_locks("kind = 'condition' AND pid = " . $guest->pid) });
	$guest->cancel;
	my $cancelled = defined $guest->wait(limit(120))->error;

	# It may have had the lock again already: then it was told, too.
	if ($cancelled && $guest->value("SELECT redis_is_held('buffer')") eq 'f')
	{
		$guest->query_warns("SELECT redis_unlock('buffer')", 'f', '01000', qr/given back/,
			'cancelled');
	}
	else
	{
		$guest->query("SELECT redis_condition_notify('buffer', '$condition')");
		$guest->query_is("SELECT redis_unlock('buffer')", 't', 'told');
	}
	$guest->quit;
	last unless grep { $_->is_running } @producers;
}
is($_->wait(limit(300))->error, undef, 'a producer is through') foreach @producers;
is($_->wait(limit(300))->error, undef, 'a consumer is through') foreach @consumers;

is($near->value('SELECT count(*) FROM buffer'), 0, 'all is taken out');
is($near->value('SELECT count(*) || \' \' || count(DISTINCT what) FROM taken'),
	$PRODUCERS * $EACH . ' ' . $PRODUCERS * $EACH, 'each thing once');
is( $near->value(
		q{SELECT count(*) FROM (SELECT split_part(what, ' ', 2)::int AS n, lag(split_part(what, ' ', 2)::int) OVER (PARTITION BY split_part(what, ' ', 1) ORDER BY id) AS before FROM taken) AS t WHERE n <= before}),
	0, 'in the order of each producer');

$_->quit foreach @producers, @consumers;
nothing_left([ $near, $far ], $redis);
done_testing();
