# Copyright (c) 2026, lockredis contributors

# Logical replication of the tables of the extension, from one server in table
# mode to another one, by a publication FOR ALL TABLES.  The rows are about the
# locks of the server that wrote them:
#
#	 subscriber: redis_lock('k')	 its row
#	 publisher: redis_lock('k')		 INSERT: there is such a row, for ever
#	 publisher: redis_unlock('k')	 DELETE: of the subscriber's row
#
# - rows of locks are ignored, by the initial copy too
# - tokens are raised, and never lowered or deleted
# - TRUNCATE is refused, and can be skipped; locks work on both sides
# - what the server writes itself is not touched, in whatever role
# - the update that brings this does not keep the table worker waiting
#
# Proves G35.

use LockRedis::Test;

my ($pub_table, $sub_table) = map { LockRedis::Table->new } 1 .. 2;
my $pub = LockRedis::Node->create('publisher',
	redis => $pub_table,
	settings => { wal_level => 'logical', max_wal_senders => 10, max_replication_slots => 10 });
my $sub = LockRedis::Node->create(
	'subscriber',
	redis => $sub_table,
	extension => 0,
	settings => { max_replication_slots => 10, wal_retrieve_retry_interval => '100ms' });

sub fence { return $_[0]->value("SELECT token FROM redis_fences WHERE key = '$_[1]'"); }
sub counter { return $_[0]->value("SELECT token FROM redis_lock_counters WHERE key = '$_[1]'"); }

sub owner { return $_[0]->value("SELECT owner FROM redis_lock_rows WHERE key = '$_[1]'"); }

# A server hands out and records this many tokens for the key.
sub record ($node, $key, $n)
{
	$node->value("SET lock_timeout = '60s'; SELECT redis_fenced_xact_lock('$key')") for 1 .. $n;
	return;
}

# ----------
# The update from a version without this
# ----------

# It waits for who has recorded a token, and must not have the rows of locks
# locked by then: the table worker could not renew.
$sub->value(q{CREATE EXTENSION lockredis VERSION '1.0'});
my ($here, $recorder, $admin) = map { $sub->session } 1 .. 3;
$recorder->query("BEGIN; SELECT redis_fenced_xact_lock('recorded')");
$admin->start('ALTER EXTENSION lockredis UPDATE');
poll_until(
	'the update to wait',
	sub {
		$sub->value('SELECT ' . $recorder->pid . ' = ANY (pg_blocking_pids(' . $admin->pid . '))') eq 't';
	});
$here->query_is("SET lock_timeout = '5s'; SELECT redis_lock('held'), redis_lock('meanwhile'), redis_unlock('meanwhile')",
	'||t', 'locks work while the update waits');
$here->query('RESET lock_timeout');
$recorder->query_is("SELECT redis_xact_lock('more'); COMMIT", '', 'also for who is waited for');
is($admin->wait->error, undef, 'then it is updated');
$admin->query_is("SELECT redis_try_lock('held')", 'f', 'what was taken before stays');
$here->query_is("SELECT redis_extend('held', '1 min'), redis_unlock('held')", 't|t', 'and works');
$sub->value("SELECT redis_fence_forget('recorded')");
$_->quit foreach $recorder, $admin;

my $triggers = q{SELECT string_agg(concat_ws(' ', tgrelid::regclass, tgname, tgenabled), ', ' ORDER BY 1, tgname) FROM pg_trigger WHERE tgfoid = 'lockredis_replicated'::regproc};
is($sub->value($triggers), $pub->value($triggers), 'and has the triggers');
is(scalar(() = $sub->value($triggers) =~ / R\b/g), 10, 'which fire for replicas only');

# ----------
# Initial copy
# ----------

$_->value('CREATE TABLE marker (n int PRIMARY KEY)') foreach $pub, $sub;
my $there = $pub->session;
$there->query("SELECT redis_lock('both'), redis_lock('there')");
$here->query("SELECT redis_lock('both'), redis_lock('here')");
my $own = owner($sub, 'both');
record($pub, 'higher there', 5);
record($sub, 'higher there', 2);
record($pub, 'higher here', 2);
record($sub, 'higher here', 5);
record($pub, 'only there', 3);
record($sub, 'only here', 3);

$pub->value('CREATE PUBLICATION everything FOR ALL TABLES');
$sub->value(sprintf q{CREATE SUBSCRIPTION everything CONNECTION '%s' PUBLICATION everything},
	$pub->connstr('postgres') =~ s/'/''/gr);
poll_until(
	'the initial copy',
	sub {
		$sub->value(q{SELECT count(*) = 6 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}) eq 't';
	});

my $marker = 0;

# All that was done at the publisher has arrived.
sub arrived ($why)
{
	$marker++;
	$pub->value("INSERT INTO marker VALUES ($marker)");
	return poll_until("the subscriber: $why",
		sub { $sub->value("SELECT count(*) FROM marker WHERE n = $marker") == 1 });
}

arrived('after the copy');
is(owner($sub, 'both'), $own, 'copy: a row of a lock that both have is the own one');
is(owner($sub, 'there'), '', 'a lock of there is not copied');
foreach my $read (\&fence, \&counter)
{
	is($read->($sub, 'higher there'), 5, 'copy: a higher token raises');
	is($read->($sub, 'higher here'), 5, 'a lower one does not');
	is($read->($sub, 'only there'), 3, 'one of there only is copied');
	is($read->($sub, 'only here'), 3, 'one of here only stays');
}
my $recorded_at = q{SELECT recorded_at FROM redis_fences WHERE key = 'higher there'};
is($sub->value($recorded_at), $pub->value($recorded_at), 'with the time at which it was recorded');

# ----------
# Locks
# ----------

foreach my $case (
	[ 'UPDATE', "SELECT redis_lock('both'), redis_extend('both', '1 min')", '|t' ],
	[ 'DELETE', "SELECT redis_unlock('both'), redis_unlock('both')", 't|t' ],
	[ 'INSERT', "SELECT redis_lock('both'), redis_lock('here')", '|' ])
{
	my ($name, $sql, $output) = @$case;

	$there->query_is($sql, $output, "$name of the row of both");
	is(owner($pub, 'both'), '', 'indeed') if $name eq 'DELETE';
	arrived($name);
	is(owner($sub, 'both'), $own, "$name: the own row");
}
$here->query_is("SELECT redis_extend('both', '1 min'), redis_is_held('both'), redis_is_held('here')",
	't|t|t', 'the holder here has them');
$here->query_is("SELECT redis_lock('there'), redis_unlock('there')", '|t', 'a lock of there is free here');
$here->query_is("SELECT redis_unlock('both'), redis_unlock('here')", 't|t', 'given back here');
is(owner($pub, 'both') ne '', 1, 'which the publisher does not notice');
$there->query_is("SELECT redis_unlock_all()", '3', 'given back there');

# ----------
# Tokens
# ----------

record($pub, 'only there', 1);
record($pub, 'higher here', 1);
record($pub, 'new', 2);
$pub->value("SELECT redis_fence_forget('higher there')");
$pub->value("UPDATE redis_fences SET key = 'renamed', token = 100 WHERE key = 'higher here'");
arrived('tokens');
is(fence($sub, 'only there'), 4, 'UPDATE: a higher token raises');
is(fence($sub, 'higher here'), 5, 'a lower one does not, nor another key');
is(fence($sub, 'renamed'), '', 'which is not made either');
is(fence($sub, 'new'), 2, 'INSERT: a new key');
is(counter($sub, 'new'), 2, 'and its counter');
is(fence($sub, 'higher there'), 5, 'DELETE: the row stays');
$pub->value("SELECT redis_fence_check('higher there', 3)");
arrived('a token that is recorded anew');
is(fence($sub, 'higher there'), 5, 'nor is it lowered by one that is recorded anew');
$pub->value("SELECT redis_fence_forget('higher there')");
record($pub, 'only here', 2);
$pub->value("INSERT INTO redis_fences VALUES ('higher there', 9, now())");
arrived('INSERT of keys that are here');
is(fence($sub, 'only here'), 3, 'INSERT: a lower token does not raise');
is(fence($sub, 'higher there'), 9, 'a higher one does');
$here->query_is("SELECT redis_fenced_xact_lock('new'), redis_fenced_xact_lock('higher there')",
	'3|10', 'the subscriber goes on above');
$pub->value('UPDATE redis_lock_counters SET token = 1; DELETE FROM redis_lock_counters');
arrived('counters');
is(counter($sub, 'new'), 3, 'counters stay');

# ----------
# What the server writes itself
# ----------

# In the role of a replica.
$here->query_is("SET session_replication_role = replica; SELECT redis_fenced_xact_lock('own')",
	'1', 'a token in the role of a replica');
is(fence($sub, 'own'), 1, 'is recorded');
$here->query_is("SELECT redis_fenced_xact_lock('own')", '2', 'the next one');
is(fence($sub, 'own'), 2, 'too');
$here->query_is("DELETE FROM redis_fences; UPDATE redis_fences SET token = 1 WHERE key = 'own'", '',
	'statements are not the server\'s own');
is(fence($sub, 'own'), 2, 'and change nothing');
$here->query_is("SELECT redis_lock('own'), redis_unlock('own')", '|t', 'locks in this role');
$here->query_fails('TRUNCATE redis_fences', '55000', qr/cannot apply TRUNCATE/, 'TRUNCATE is refused');

# From a trigger of a user in the apply worker.
$sub->value(q{
	CREATE FUNCTION public.on_marker() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.redis_fenced_xact_lock('in apply');
		RETURN NEW;
	END $$;
	CREATE TRIGGER on_marker BEFORE INSERT ON marker FOR EACH ROW EXECUTE FUNCTION on_marker();
	ALTER TABLE marker ENABLE ALWAYS TRIGGER on_marker});
arrived('with a trigger');
is(fence($sub, 'in apply'), 1, 'a token that is recorded in the apply worker');
$sub->value('DROP TRIGGER on_marker ON marker');

# By whoever the update was run.
$sub->value('CREATE ROLE other SUPERUSER; ALTER FUNCTION lockredis_replicated() OWNER TO other');
$here->query_is("SELECT redis_fenced_xact_lock('own')", '3', 'the function is of another superuser');
is(fence($sub, 'own'), 3, 'recorded');
$here->query_is("RESET session_replication_role; SELECT redis_fenced_xact_lock('own')", '4', 'also in the usual role');
is(fence($sub, 'own'), 4, 'recorded');
$sub->value('ALTER FUNCTION lockredis_replicated() OWNER TO CURRENT_USER');
$here->query_is("SET session_replication_role = replica; SELECT redis_fence_forget('own')",
	't', 'forgotten in the role of a replica');
is(fence($sub, 'own'), '', 'indeed');
$here->query('RESET session_replication_role');

# Triggers that fire for everybody do nothing then.
my @tables = qw(redis_fences redis_lock_rows redis_lock_counters);
$sub->value("ALTER TABLE $_ ENABLE TRIGGER ALL") foreach @tables;
record($sub, 'own', 1);
is(fence($sub, 'own'), 5, 'ENABLE TRIGGER ALL: recorded');
$sub->value("UPDATE redis_fences SET token = 1 WHERE key = 'own'; DELETE FROM redis_lock_counters WHERE key = 'own'");
is(fence($sub, 'own') . counter($sub, 'own'), 1, 'UPDATE and DELETE by its owner');
$sub->value("DELETE FROM redis_fences WHERE key = 'own'; TRUNCATE redis_lock_rows");
is(fence($sub, 'own'), '', 'DELETE');
$sub->value("ALTER TABLE $_ ENABLE REPLICA TRIGGER lockredis_replicated; ALTER TABLE $_ ENABLE REPLICA TRIGGER lockredis_replicated_truncate")
  foreach @tables;

# ----------
# The function by itself
# ----------

$sub->value('CREATE TABLE elsewhere (key text, token bigint)');
$here->query('SET session_replication_role = replica');
foreach my $when ('BEFORE INSERT', 'AFTER INSERT', 'AFTER TRUNCATE')
{
	my $do = $when =~ /TRUNCATE/ ? 'TRUNCATE elsewhere' : "INSERT INTO elsewhere VALUES ('k', 1)";

	$sub->value("CREATE TRIGGER t $when ON elsewhere EXECUTE FUNCTION lockredis_replicated(); ALTER TABLE elsewhere ENABLE ALWAYS TRIGGER t");
	$here->query_fails($do, '39P01', qr/must be called by a trigger/, "$when for each statement");
	$sub->value('DROP TRIGGER t ON elsewhere');
}
$here->query('RESET session_replication_role');
$sub->value('DROP TABLE elsewhere');

# ----------
# TRUNCATE
# ----------

foreach my $table (qw(redis_fences redis_lock_rows))
{
	# A renewal would change its row.
	$here->query("SELECT redis_lock('truncated', '1h')");
	my $before = $sub->value("SELECT string_agg(r::text, ',' ORDER BY key) FROM $table r");

	$sub->log_since_here;
	$pub->value("TRUNCATE $table");
	poll_until('the apply worker to refuse',
		sub { $sub->logged(qr/cannot apply TRUNCATE of another server to table "$table".*finished at/s) });
	like($sub->log_text, qr/HINT:  Skip the transaction with ALTER SUBSCRIPTION/, "TRUNCATE $table: refused, with a hint");
	$there->query_is("SELECT redis_lock('k'), redis_unlock('k')", '|t', 'locks work there');
	$here->query_is("SELECT redis_lock('k'), redis_unlock('k'), redis_is_held('truncated')", '|t|t', 'and here');
	my ($lsn) = $sub->log_text =~ m{finished at ([0-9A-F]+/[0-9A-F]+)};
	$sub->value("ALTER SUBSCRIPTION everything SKIP (lsn = '$lsn')");
	arrived("after TRUNCATE $table was skipped");
	is($sub->value("SELECT string_agg(r::text, ',' ORDER BY key) FROM $table r"), $before, 'it goes on, with what it had');
	$here->query("SELECT redis_unlock('truncated')");
}
$pub->value(q{ALTER PUBLICATION everything SET (publish = 'insert, update, delete')});
$pub->value('TRUNCATE redis_fences');
arrived('after TRUNCATE that is not published');
is(fence($sub, 'only there') > 0, 1, 'a publication without TRUNCATE');

$sub->value('DROP SUBSCRIPTION everything');
is($sub->value('SELECT count(*) FROM redis_lock_rows'), 0, 'no row is left');
$_->quit foreach $here, $there;
nothing_left($pub, $pub_table);
end_test($sub, $sub_table);
