# Copyright (c) 2026, lockredis contributors

# Rows that the owner of the tables has written.  Whatever is in them costs at most the lock
# whose row it was: the table worker does not end, a row without a lease or another value keeps
# nobody from the key and goes, and one that says that it counts for ever ends with its lease.
# Proves G25, G29.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my ($node, $one, $two, $admin) = LockRedis::Node->create('main', sessions => 3, redis => $table);

my $worker = $node->table_worker_pid;
$one->query("SELECT redis_lock('k')");
my $instance = $one->value("SELECT split_part(redis_lock_owner('k'), ':', 1)");
$one->query("SELECT redis_unlock('k')");
my $stranger = $table->somebody('somebody');

# Nothing is too bad for an owner of tables.
$admin->query(
	q{ALTER TABLE redis_lock_rows ALTER owner DROP NOT NULL, ALTER hold_count DROP NOT NULL,
		ALTER expires_at DROP NOT NULL;
	  ALTER TABLE redis_lock_shares ALTER lease DROP NOT NULL, ALTER expires_at DROP NOT NULL;
	  ALTER TABLE redis_lock_values ALTER value DROP NOT NULL;
	  ALTER TABLE redis_lock_counters ALTER token DROP NOT NULL});

# ----------
# Rows of locks
# ----------

my %sound = (
	owner => "'$stranger'", hold_count => 1, lease => "'1 hour'",
	expires_at => q{clock_timestamp() + '1 hour'}, instance => 'NULL');
my @bad = (
	{ owner => 'NULL' },
	{ owner => "'$instance:5'", instance => "'$instance'", lease => 'NULL' },
	{ hold_count => 'NULL' },
	{ lease => 'NULL' },
	{ lease => "'-1 s'" },
	{ lease => "'0'" },
	{ lease => "'1 month'" },
	{ lease => "'178000000 years'" });

# They count.
my @strange = (
	{ owner => "''" },
	{ owner => "repeat('x', 100000)" },
	{ owner => "'readers'" },
	{ owner => "'token:abc'" },
	{ owner => "'readers'", instance => "'$instance'", hold_count => 2147483647 },
	{ owner => "'readers'", instance => "'$instance'", hold_count => -1 },
	{ hold_count => 0 },
	{ lease => "'2562047788 hours'" },
	{ expires_at => 'NULL' });

sub write_row ($change)
{
	my %row = (%sound, %$change);
	my @columns = sort keys %row;

	$admin->query(sprintf q{INSERT INTO redis_lock_rows (key, %s) VALUES ('k', %s)},
		join(', ', @columns), join(', ', @row{@columns}));
	return join ', ', map { "$_ " . substr $change->{$_}, 0, 40 } sort keys %$change;
}

foreach my $change (@bad)
{
	my $name = write_row($change);
	$one->query_is("SELECT redis_is_locked('k'), redis_lock_owner('k'), redis_lock_ttl('k')",
		'f|NULL|NULL', "$name: no lock");
	$table->cmd('DEL', 'k');
	write_row($change);
	$one->query_is("SELECT redis_try_lock('k'), redis_unlock('k')", 't|t', "$name: free");
	write_row($change);
	$one->query_is("SELECT redis_force_unlock('k')", 'f', "$name: nothing to be taken away");
	$table->cmd('DEL', 'k');
	write_row($change);
	$one->query_is("SELECT redis_try_read_lock('k'), redis_read_unlock('k')", 't|t', "$name: for a reader");
	write_row($change);
	$one->query_is("SELECT redis_try_token_lock('k', '0', '1h', 't'), redis_token_unlock('k', 't')", 't|t',
		"$name: for a token");
}

foreach my $change (@strange)
{
	my $name = write_row($change);

	$one->query_is("SELECT redis_try_lock('k'), redis_is_locked('k')", 'f|t', "$name: somebody's");
	is($one->query("SELECT redis_try_read_lock('k') AND redis_read_unlock('k')")->error, undef,
		"$name: beside it or not");
	$one->query_is("SELECT redis_force_unlock('k')", 't', "$name: taken away");
}

# Under somebody who has the key: it is lost, or not; others can take it then.
foreach my $change (@bad, @strange, { owner => "'$stranger'" }, { instance => "'$instance'" },
	{ instance => 'gen_random_uuid()' }, { expires_at => q{'infinity'} }, { fence => -1 },
	{ lease => q{'1 s'} })
{
	my $name = join ', ', map { "$_ " . substr $change->{$_}, 0, 40 } sort keys %$change;

	$one->query("SELECT redis_lock('h', '1 h')");
	$admin->query("UPDATE redis_lock_rows SET "
		  . join(', ', map { "$_ = $change->{$_}" } keys %$change)
		  . " WHERE key = 'h'");
	is($one->query("SELECT redis_extend('h', '2 h')")->error, undef, "$name: renewed or lost");
	is($one->query("SELECT redis_unlock('h')")->error, undef, "$name: given back");
	$two->query("SELECT redis_force_unlock('h')");
	$two->query_is("SELECT redis_try_lock('h'), redis_unlock('h')", 't|t', "$name: free");
}

# ----------
# Who has a share
# ----------

my @bad_shares = (
	"('s', 'read', '$instance:7', NULL, now(), now(), '$instance')",
	"('s', 'permit', '$instance:7', NULL, now(), NULL, '$instance')",
	"('s', 'permit', '$instance:7', '-1 h', now(), 'infinity', '$instance')",
	"('s', 'permit', 'somebody', '0', now(), 'infinity', NULL)",
	"('s', 'whatever', '$instance:7', '1 h', now(), now(), NULL)",
	"('s', repeat('x', 2000), '$instance:7', '1 h', now(), now(), NULL)",
	"('s', 'permit', repeat('y', 2000), '1 h', now(), '-infinity', NULL)");
foreach my $share (@bad_shares)
{
	$admin->query("INSERT INTO redis_lock_shares VALUES $share");
	$one->query_is("SELECT redis_permit_set('s', 1)", '', 'one permit');
	$one->query_is("SELECT redis_permit_available('s'), redis_is_locked('s')", '1|f', "$share: which is free");
	$admin->query("INSERT INTO redis_lock_shares VALUES $share ON CONFLICT DO NOTHING");
	$one->query_is("SELECT redis_try_permit_lock('s')", 't', "$share: and is held");
	$one->query_is("SELECT redis_permit_unlock('s')", 't', "$share: and given back");
	$admin->query("INSERT INTO redis_lock_shares VALUES $share ON CONFLICT DO NOTHING");
	$one->query_is("SELECT redis_try_write_lock('r'), redis_write_unlock('r')", 't|t', "$share: a writer elsewhere");
}

# Permits of a key are none of the business of its other locks.
$one->query("SELECT redis_permit_set('p', 2)");
my $id = $one->value("SELECT redis_permit_acquire('p', '1 h')");
$two->query_is("SELECT redis_try_write_lock('p'), redis_write_unlock('p')", 't|t', 'a writer');
$one->query_is("SELECT redis_permit_release('p', '$id')", 't', 'the permit was not touched');

# ----------
# Numbers
# ----------

$one->query("SELECT redis_permit_set('v', 3)");
$admin->query("UPDATE redis_lock_values SET value = NULL WHERE key = 'v'");
$one->query_fails("SELECT redis_try_permit_lock('v')", '42704', qr/number of permits of/, 'no number');
foreach my $value ('-9223372036854775808', '9223372036854775807')
{
	$one->query("SELECT redis_permit_set('v', 3)");
	$admin->query("UPDATE redis_lock_values SET value = $value WHERE key = 'v'");
	$one->query($_) foreach "SELECT redis_try_permit_lock('v')", "SELECT redis_permit_unlock('v')",
	  "SELECT redis_permit_available('v')", "SELECT redis_permit_add('v', 5)";
}
$one->query_is("SELECT redis_fenced_lock('f'), redis_unlock('f')", '1|t', 'a token');
foreach my $token ('9223372036854775807', '9007199254740991')
{
	$admin->query("UPDATE redis_lock_counters SET token = $token WHERE key = 'f'");
	$one->query_fails("SELECT redis_fenced_lock('f')", '22003', qr/used up/, "no token above $token");
}
foreach my $token ('-9223372036854775808', 'NULL')
{
	$admin->query("UPDATE redis_lock_counters SET token = $token WHERE key = 'f'");
	$one->query_is("SELECT redis_fenced_lock('f'), redis_unlock('f')", '1|t',
		"$token: from the beginning");
}

# One that cannot be changed for a COMMIT is no outage: the others are served.
$one->query("SELECT redis_semaphore_set('n', 1)");
$admin->query("UPDATE redis_lock_values SET value = 9223372036854775807 WHERE key = 'n'");
$node->log_since_here;
$one->query("BEGIN; SELECT redis_semaphore_xact_release('n'); COMMIT");
$two->query("SET lockredis.lease = '3s'; SELECT redis_lock('h'); RESET lockredis.lease");
poll_until('renewals', sub { $node->count_locks("key = 'h' AND renewals >= 2") });
is($node->lock_status('state'), 'up', 'a number that cannot be changed: the table is up');
ok(!$node->logged(qr/lock store is down/), 'and has been all the time');
$two->query_is("SELECT redis_unlock('h')", 't', 'held all the time');
$admin->query("UPDATE redis_lock_values SET value = 1 WHERE key = 'n'");
poll_until('it to be counted', sub { $node->count_locks == 0 });
$one->query_is("SELECT redis_semaphore_available('n')", '2', 'counted when it can be');

# ----------
# For ever
# ----------

write_row({ lease => "'4 s'", expires_at => "'infinity'" });
$admin->query(
	"INSERT INTO redis_lock_shares VALUES ('t', 'permit', 'permit:' || repeat('ab', 32), '4 s', now(), 'infinity', NULL)");
$one->query("SELECT redis_permit_set('t', 1)");
$one->query_is("SELECT redis_try_lock('k')", 'f', 'a row that ends never');
$one->query_is("SELECT redis_lock_ttl('k') <= '4 s'", 't', 'at the end of its lease');
is($one->query("SELECT redis_lock('k')")->error, undef, 'is acquired in the end');
is($one->query("SELECT redis_permit_lock('t')")->error, undef, 'a permit, too');
$one->query('SELECT redis_unlock_all()');

# What nobody asks for goes, too, and what nobody can ask for: it has no key.
write_row({ lease => 'NULL' });
$admin->query(
	q{ALTER TABLE redis_lock_rows DROP CONSTRAINT redis_lock_rows_pkey;
	  ALTER TABLE redis_lock_rows ALTER key DROP NOT NULL;
	  CREATE UNIQUE INDEX ON redis_lock_rows (key)});
$admin->query(
	"INSERT INTO redis_lock_rows (owner, lease, expires_at, instance)
	 VALUES ('readers', '1 h', now(), '$instance'), ('$stranger', '1 h', 'infinity', NULL)");
$admin->query("INSERT INTO redis_lock_shares VALUES $bad_shares[3]");
poll_until('them to be swept away', sub { !$table->all_keys });

is($node->table_worker_pid, $worker, 'the worker is the same one');
end_test($node, $table);
