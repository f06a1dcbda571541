# Copyright (c) 2026, lockredis contributors

# Of several who have a key the table of shares says who they are, and of permits that of
# numbers how many there are.  While one of these is locked nobody is told that there is
# nobody, or that they have been taken away.  And what the watchdog is to count, and was
# blocked, has not run: it is not given up after a time as what may have.
# Proves G6, G25, G29.

use LockRedis::Debugger;
use LockRedis::Test;

LockRedis::Debugger->need;

my $table = LockRedis::Table->new;
my ($node, $one, $two, $force, $admin) = LockRedis::Node->create(
	'main', sessions => 4,
	redis => $table,
	settings => {
		'lockredis.connect_timeout' => '500ms',
		'lockredis.command_timeout' => '1s'
	});

# What the worker says; asked once more if it did not come to say so in time.
sub answer_to
{
	my ($session, $sql) = @_;

	return poll_until(
		"an answer to $sql",
		sub {
			my $result = $session->query($sql);

			return ($result->sqlstate // '') ne '58030' && $result;
		});
}

# ----------
# Who has it
# ----------

my %ways = (
	permit => [
		'LOCK TABLE redis_lock_shares', 'LOCK TABLE redis_lock_values',
		"SELECT FROM redis_lock_shares WHERE key = 'permit' FOR UPDATE" ],
	read => ['LOCK TABLE redis_lock_shares']);

$force->query("SELECT redis_permit_init('permit', 2)");
foreach my $kind (sort keys %ways)
{
	$_->query("SELECT redis_${kind}_lock('$kind')") foreach $one, $two;
	foreach my $way (@{ $ways{$kind} })
	{
		$admin->query("BEGIN; $way");
		my $looked = answer_to($force, "SELECT redis_is_locked('$kind')");
		if ($way =~ /^LOCK/)
		{
			is($looked->sqlstate, '55P03', "$kind: $way: whether there is anybody is not known")
			  if $kind eq 'permit';
		}
		else
		{
			is($looked->value, 't', "$kind: $way: a row can be looked at");
		}
		answer_to($force, "SELECT redis_force_unlock('$kind')")
		  ->fails('55P03', qr/blocked/, "$kind: $way: nothing was taken away");
		$admin->query('ROLLBACK');
		$_->query_is("SELECT redis_is_held('$kind', '$kind')", 't', "$kind: $way: still held")
		  foreach $one, $two;
	}
	$force->query_is("SELECT redis_force_unlock('$kind')", 't', "$kind: taken away");
	$_->query_is("SELECT redis_is_held('$kind')", 'f', "$kind: lost") foreach $one, $two;
	$_->query('SELECT redis_unlock_all()') foreach $one, $two;
}
$force->query_is("SELECT redis_permit_available('permit')", '2', 'permits are free');

# ----------
# What is to be counted
# ----------

$force->query("SELECT redis_semaphore_init('s', 1)");
$admin->query("BEGIN; SELECT FROM redis_lock_values WHERE key = 's' FOR UPDATE");
my $stop = LockRedis::Debugger->new($node->watchdog_pid);
$stop->run_to('lt_not_counted');
$one->query('BEGIN');
$one->query("SELECT redis_semaphore_xact_release('s', 2)");
$one->query('COMMIT');
$stop->wait_for_stop;
$stop->let_go;
$admin->query('ROLLBACK');
poll_until('it to be counted', sub { $force->value("SELECT redis_semaphore_available('s')") == 3 });

end_test($node, $table);
