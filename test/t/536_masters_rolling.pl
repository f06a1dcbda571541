# Copyright (c) 2026, lockredis contributors

# Five independent masters that are started again one after the other, with nothing,
# under locks that are held: what one has forgotten it is given again before the next
# one goes, so none is lost, and no other server gets one at any time, although in the
# end each of them has forgotten all.  New locks are to be had as soon as three have a
# vote, and not before.
#
# The control: when nobody renews meanwhile the locks are lost with the third one, and
# all who hold them are told.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my %settings = (
	'lockredis.lease' => '5min',
	'lockredis.connect_timeout' => '3s',
	'lockredis.command_timeout' => '3s');
my ($near, $far) =
  map { LockRedis::Node->create($_, redis => $masters, settings => \%settings) } qw(near far);
my ($one, $two) = map { $_->session } $near, $far;
my $writer = $near->session;

# Renewed all the time, so that the watchdog finds out at once whom it does not reach.
my $ticker = $near->session(settings => { 'lockredis.lease' => '500ms' });
my @keys = map { "kept $_" } 1 .. 20;

sub up
{
	my ($server, $where, $n) = @_;

	return $server->value("SELECT count(*) FROM redis_lock_status WHERE $where") == $n;
}

sub wait_for_masters
{
	foreach my $server ($near, $far)
	{
		poll_until('all to be up', sub { up($server, q{state = 'up'}, 5) });
	}
	return;
}

sub have
{
	my ($node) = @_;

	return grep { $node->cmd('EXISTS', $_) } @keys;
}

# All that is held is renewed when the watchdog has made a connection again.  Whom it does
# not reach at that moment is asked again the next time.
sub wait_for_repair
{
	my ($restarted) = @_;

	poll_until(
		'what it has forgotten to be there again',
		sub {
			my $until = now() + 6;

			$ticker->query("SELECT redis_unlock_all(); SELECT redis_lock('tick')");
			$_->kill_clients('watchdog') foreach grep { $_ != $restarted } @nodes;
			pause(0.05) while have($restarted) != @keys && now() < $until;
			return have($restarted) == @keys;
		},
		120);
	return;
}

sub held
{
	return $one->value('SELECT count(*) FROM redis_locks
		WHERE pid = pg_backend_pid() AND granted AND lost_at IS NULL AND redis_is_held(key)');
}

# What is given back reaches those to which there is a connection.
sub connect_to_all
{
	my ($session) = @_;
	my $name = 'lockredis-session-' . $session->pid;

	poll_until('a connection to each',
		sub {
			$session->query("SELECT redis_is_locked('any')");
			return !grep { !grep { $_->{name} eq $name } $_->clients } @nodes;
		});
	return;
}

wait_for_masters();
connect_to_all($_) foreach $one, $writer;
$one->query("SELECT redis_lock('$_')") foreach @keys;
$writer->query("CREATE TABLE t (a int); BEGIN; SELECT redis_xact_lock('written'); INSERT INTO t VALUES (1)");
push @keys, 'written';
wait_for_repair($_) foreach grep { have($_) != @keys } @nodes;

# ---- one after the other

foreach my $n (0 .. 4)
{
	$masters->restart_empty($n);
	my $result;
	poll_until(
		'an answer',
		sub {
			$result = $two->query("SELECT count(*)
				FROM unnest(ARRAY['@{[ join q{','}, @keys ]}']) k WHERE redis_try_lock(k)");
			return !$result->error;
		});
	is($result->value, 0, "master $n forgot: no other server gets one");
	wait_for_repair($nodes[$n]);
	is(held(), 20, "master $n was given them again, and all are held");
}
wait_for_masters();
connect_to_all($_) foreach $one, $writer;
is($writer->query('COMMIT')->error, undef, 'a transaction that lasted all the time commits');
pop @keys;
$ticker->quit;

# ---- new ones

ok(up($near, 'in_use', 0), 'all were started lately: none has a vote');
$one->query_fails("SELECT redis_try_lock('new')", '58030', qr/no vote, since it was started lately/,
	'so nothing is granted');
$one->query_is('SELECT redis_unlock_all()', 20, 'but what was held is given back');

# A session that is idle sends nothing: what goes to a node whose connection was being made
# for too long goes there with what it does next.
poll_until('nothing to be left',
	sub {
		$_->query("SELECT redis_is_locked('any')") foreach $one, $two, $writer;
		return !$masters->all_keys;
	});

$_->quit foreach $one, $two, $writer;

# With leases as long as that, and no longer ones
sub restart_with
{
	my ($lease, $do) = @_;

	$_->quit foreach $one, $two;
	$_->stop foreach $near, $far;
	$do->() if $do;
	foreach my $server ($near, $far)
	{
		$server->append_conf('postgresql.conf',
			"lockredis.lease = '$lease'\nlockredis.max_lease = '$lease'");
		$server->start;
	}
	($one, $two) = map { $_->session } $near, $far;
	return;
}

restart_with('1s');
wait_for_masters();
poll_until('their votes', sub { up($near, 'in_use', 5) });
poll_until('the session to know',
	sub {
		return ($one->query("SELECT redis_try_lock('new')")->value // '') eq 't'
		  && ($one->query("SELECT redis_unlock('new')")->value // '') eq 't';
	});

# ---- nobody renews

restart_with('5min', sub { $masters->reset });
wait_for_masters();
foreach my $key (@keys)
{
	poll_until("$key to be had", sub { !$one->query("SELECT redis_lock('$key')")->error });
}
poll_until('most to have them', sub { 3 <= grep { have($_) == @keys } @nodes });
{
	my $watchdog = $near->watchdog_pid;

	kill STOP => $watchdog;
	$masters->restart_empty($_) foreach 0 .. 4;
	kill CONT => $watchdog;
}
poll_until('all to be lost', sub { held() == 0 });
$one->query_fails("SELECT redis_assert_held('$keys[3]')", '55000', qr/lost/, 'and who holds one is told');
$one->query('SELECT redis_unlock_all()');

end_test([ $near, $far ], $masters);
