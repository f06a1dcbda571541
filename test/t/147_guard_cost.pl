# Copyright (c) 2026, lockredis contributors

# A commit looks at each of the locks that a session has only when the lease of one of
# them is near its end, by what that lease wants: counted, not timed.
#
# For bars of speed, not for a guarantee.

use LockRedis::Debugger;
use LockRedis::Test qw(:DEFAULT run);

LockRedis::Debugger->need;

my ($locks, $commits) = (20, 40);
my ($node, $redis, $one) = servers(
	sessions => 1, settings => { 'lockredis.lease' => '600s', 'lockredis.command_timeout' => '60s' });
my $commit_often = "DO \$\$ BEGIN FOR i IN 1..$commits LOOP PERFORM pg_current_xact_id(); COMMIT; "
  . 'END LOOP; END $$';

# How often the session looks at a hold while it commits, and for how long it does so;
# nothing if the machine was too busy for so short a lease.
sub looks
{
	run($one, $_)
	  foreach 'SELECT redis_unlock_all()',
	  "SET lockredis.lease = '600s'",
	  "SELECT count(redis_lock('n' || i)) FROM generate_series(1, $locks) i",
	  "SET lockredis.lease = '1s'", "SELECT redis_lock('short')";
	my $gdb = LockRedis::Debugger->new($one->pid);
	my $number = $gdb->tell('break lt_look') =~ /Breakpoint (\d+)/ ? $1 : die 'no breakpoint';

	$gdb->tell("ignore $number 1000000");
	$gdb->run_to('lt_end_release');
	my $begun = now();
	my $error = $one->query($commit_often)->error;
	my $seconds = now() - $begun;
	$one->start("SELECT redis_unlock('n1')");
	$gdb->wait_for_stop;
	my $n =
	  $gdb->tell("info breakpoints $number") =~ /already hit (\d+) time/ ? $1 : 0;
	$gdb->let_go;
	my $lost = $one->wait->error || !$one->value("SELECT redis_is_held('short')");
	return if $error || $lost;
	return ($n, $seconds);
}

my ($n, $seconds);
for (my $try = 1; !defined $n; $try++)
{
	die 'a lease of 1 s never lasts' if $try > 20;
	($n, $seconds) = looks();
}

# It is renewed when two thirds of it are left, and a tenth is wanted.
my $walks = 2 + int($seconds / 0.5);
cmp_ok($n, '<', ($walks + 1) * ($locks + 1), "$commits commits in $seconds s look at $n holds");

run($one, 'SELECT redis_unlock_all()');
end_test($node, $redis);
