# Copyright (c) 2026, lockredis contributors

# Code of an ordinary role that runs in a session, or with the rights, of
# somebody else:
# - what an owner of a table has in an index or materialized view neither gives
#   back nor takes session-level locks of who maintains it, nor has the session
#   ended
# - whoever may make triggers on the fence table does not become its owner
# - a key that shares its channel with another does not take its wake-ups
# Proves G33.

use LockRedis::Test qw(:DEFAULT quoted);

my ($node, $redis) = servers(settings => { autovacuum => 'off', autovacuum_naptime => '1s' });

$node->safe_psql(
	'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE SCHEMA alice AUTHORIZATION alice;
	CREATE SCHEMA bob AUTHORIZATION bob;});

my $admin = $node->session;
my $bob = $node->session(user => 'bob');

# ----------
# Maintenance of somebody else's table
# ----------

# The function tries all of it and tells what came of each as a WARNING, but not
# in the session in which bob fills his table.
my @refused = (
	"redis_unlock('nightly')", 'redis_unlock_all()', "redis_extend('nightly', '10ms')",
	"redis_lock('poison', '10ms')", "redis_lock('nightly', '10ms')", "redis_try_lock('poison', '0', '10ms')",
	"redis_fenced_lock('poison', '10ms')", "redis_try_fenced_lock('poison', '0', '10ms')",
	"redis_force_unlock('nightly')");
my $setup = $bob->query(<<'SQL' =~ s/REFUSED/join ', ', map { quoted($_) } @refused/er);
CREATE FUNCTION bob.attempt(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT public.' || what;
	RAISE WARNING 'done: %', what;
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING '%: %', SQLSTATE, what;
END $$;
CREATE FUNCTION bob.attempts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('lockredis.on_lost', 'terminate', false);
	PERFORM bob.attempt(what) FROM unnest(ARRAY[REFUSED]) what;
	PERFORM bob.attempt('redis_is_held(''nightly'')');
END $$;
CREATE FUNCTION bob.f(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('bob.quiet', true) IS DISTINCT FROM 'on' THEN
		PERFORM bob.attempts();
	END IF;
	RETURN i;
END $$;
SET bob.quiet = on;
CREATE TABLE bob.t (i int);
INSERT INTO bob.t VALUES (1);
CREATE INDEX i ON bob.t ((bob.f(i)));
CREATE MATERIALIZED VIEW bob.m AS SELECT bob.f(i) FROM bob.t;
SQL
is($setup->{raw}, '', 'bob sets it up');

my @wanted = ("done: redis_is_held('nightly')", map { "42501: $_" } @refused);

$admin->query("SELECT redis_lock('nightly')");
foreach my $command (
	'ANALYZE bob.t',
	'VACUUM ANALYZE bob.t',
	'REINDEX INDEX bob.i',
	'REINDEX INDEX CONCURRENTLY bob.i',
	'REFRESH MATERIALIZED VIEW bob.m',
	'CLUSTER bob.t USING i')
{
	my $result = $admin->query($command);
	my %said = map { $_->message => 1 } $result->warnings;

	is($result->error, undef, "$command: works");
	is_deeply([ sort keys %said ], [ sort @wanted ], "$command: what bob can do");
	$admin->query_is(
		"SELECT redis_is_held('nightly'), redis_hold_count('nightly'), redis_hold_count('poison')",
		't|1|0',
		"$command: the session has what it had");
}
is_deeply([ $redis->all_keys ], ['nightly'], 'and so has Redis');
$admin->query_is("SELECT current_user, redis_unlock('nightly')",
	$node->value('SELECT current_user') . '|t', 'which it gives back itself');

# A transaction-level lock ends with the command.  One that is lost makes the
# command fail, as any error of that function, but does not end the session.
$setup = $bob->query(<<'SQL');
CREATE OR REPLACE FUNCTION bob.attempts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('lockredis.on_lost', 'terminate', false);
	PERFORM public.redis_xact_lock('poison', '3s');
	WHILE public.redis_is_held('poison') LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SQL
is($setup->{raw}, '', 'bob changes his function');
$admin->query_fails('ANALYZE bob.t', '40001', qr/could not commit.*poison/s,
	'a lost transaction-level lock: the command fails');
$admin->query_is('SELECT redis_unlock_all(); CREATE TABLE t (i int); DROP TABLE t',
	'0', 'and the session goes on');
nothing_left($node, $redis, name => 'nothing of it is left');

# Autovacuum does the same as ANALYZE, and goes on to the tables of others.
$setup = $bob->query(<<'SQL');
CREATE OR REPLACE FUNCTION bob.attempts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bob.attempt('redis_lock(''poison'', ''10ms'')');
	PERFORM pg_sleep(0.1);
END $$;
ALTER TABLE bob.t SET (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
INSERT INTO bob.t VALUES (2);
SQL
is($setup->{raw}, '', 'bob has his table analyzed');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE alice.t (i int) WITH
		(autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
	ALTER TABLE alice.t OWNER TO alice;
	INSERT INTO alice.t VALUES (1);});
$node->log_since_here;
$node->set(autovacuum => 'on');
foreach my $table ('bob.t', 'alice.t')
{
	ok( poll_until(
			"autovacuum of $table",
			sub {
				$node->value(
					"SELECT last_autoanalyze IS NOT NULL FROM pg_stat_user_tables WHERE relid = '$table'::regclass"
				) eq 't';
			}),
		"autovacuum has analyzed $table");
}
ok($node->logged(qr/42501: redis_lock\('poison', '10ms'\)/),
	'no lock for code of bob in a worker');
ok(!$node->logged(qr/could not commit/), 'no worker was refused its commit');
$node->set(autovacuum => 'off');

# ----------
# Triggers on the fence table
# ----------

# GRANT ALL has the right to make triggers.
$node->safe_psql('postgres',
	'GRANT ALL ON ALL TABLES IN SCHEMA public TO bob; GRANT EXECUTE ON FUNCTION redis_fence_check(text, bigint), redis_fence_forget(text) TO bob');
$setup = $bob->query(<<'SQL');
CREATE TABLE bob.witness (who text);
GRANT INSERT ON bob.witness TO PUBLIC;
CREATE FUNCTION bob.tell() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO bob.witness VALUES (current_user);
	RETURN true;
END $$;
CREATE FUNCTION bob.trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bob.tell();
	RETURN coalesce(NEW, OLD);
END $$;
SELECT redis_fenced_xact_lock('k') > 0;
SQL
is($setup->{raw} . $setup->out, 't', 'a token is recorded');

foreach my $trigger (
	'TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON redis_fences FOR EACH ROW EXECUTE FUNCTION bob.trigger()',
	'TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON redis_fences EXECUTE FUNCTION bob.trigger()',
	'CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON redis_fences DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bob.trigger()',
	'TRIGGER t BEFORE UPDATE ON redis_fences FOR EACH ROW WHEN (bob.tell()) EXECUTE FUNCTION suppress_redundant_updates_trigger()')
{
	my ($name) = $trigger =~ /^(\S+ (?:TRIGGER t )?\S+(?: \S+)?)/;

	$bob->query_is("CREATE $trigger", '', "$name: made");
	$bob->query_fails($_, '42501', qr/trigger "t" of table "redis_fences".*HINT:.*TRIGGER/s, "$name: $_")
	  foreach q{SELECT redis_fenced_xact_lock('k')},
	  q{SELECT redis_try_fenced_xact_lock('new')},
	  q{SELECT redis_fence_check('k', 1000)},
	  q{SELECT redis_fence_forget('k')};
	$bob->query_is('SELECT count(*) FROM bob.witness', '0', "$name: has not run");
	$bob->query_is("SELECT redis_fenced_lock('k') > 0, redis_unlock('k')",
		't|t', "$name: what writes no row works");
	$node->safe_psql('postgres', 'DROP TRIGGER t ON redis_fences');
	$bob->query_is("SELECT redis_fenced_xact_lock('k') > 0",
		't', "$name: and all does without it");
}

# None is made while a token of a transaction is not committed.
$admin->query_is("BEGIN; SELECT redis_fenced_xact_lock('k') > 0", 't', 'recorded');
$bob->query_fails(
	"SET lock_timeout = '200ms'; CREATE TRIGGER t BEFORE INSERT ON redis_fences FOR EACH ROW EXECUTE FUNCTION bob.trigger()",
	'55P03', qr/lock timeout/, 'no trigger is made meanwhile');
$bob->query('RESET lock_timeout');
$admin->query_is("SELECT redis_fenced_xact_lock('k2') > 0; COMMIT", 't', 'and more is recorded');

# ----------
# Two keys with one channel
# ----------

# Both "job" and "{job}" have the channel redisson_lock__channel:{job}.
#
#   alice   awaits job: SUBSCRIBE, confirmed
#   bob     awaits {job}, and gives up; some ticks later it is unsubscribed
#   holder  of job releases, and tells the channel
#
# The key "later" is awaited after {job}: when its channel is unsubscribed, that
# of {job} would have been.
my $alice = $node->session(user => 'alice');
my $channel = 'redisson_lock__channel:{job}';

$redis->foreign_lock($_) foreach 'job', '{job}', 'later';
foreach my $case ([ 'job', '{job}' ], [ '{job}', 'job' ])
{
	my ($key, $same_channel) = @$case;

	$node->queue_up($key, $alice => "SELECT redis_lock('$key')");
	poll_until('the subscription', sub { $redis->subscribers($channel) == 1 });
	$bob->query_is("SELECT redis_try_lock('$same_channel', '1s')",
		'f', "$key is awaited, then $same_channel: busy");
	$bob->query_is("SELECT redis_try_lock('later', '1s')", 'f', 'then another');
	$redis->wait_for_subscribers('later', 0);
	is($redis->subscribers($channel), 1, "$key is awaited: still listened to");
	$redis->cmd('DEL', $key);
	$redis->cmd('PUBLISH', $channel, 0);
	is($alice->wait(60)->error, undef, "$key: woken by the message");
	$alice->query('SELECT redis_unlock_all()');
	$redis->foreign_lock($key);
}

$redis->cmd('DEL', 'job', '{job}', 'later');

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
