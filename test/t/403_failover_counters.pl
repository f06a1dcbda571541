# Copyright (c) 2026, lockredis contributors

# Counters that are read and written one higher, with nothing but a fenced lock
# around it: by twelve sessions in transactions, by four sessions of another
# server that hand their tokens to a writer, and by Redisson in sentinel mode
# (with its own WAIT), while the master is killed, replaced by command, stands
# still and comes back.  Locks may be lost in that; no update is.
# Proves G16.

use strict;
use warnings FATAL => 'all';

use LockRedis::Redisson;
use LockRedis::Sentinels;
use LockRedis::Test;
use POSIX ();

LockRedis::Redisson->need;

my $ha = LockRedis::Sentinels->new;
my %short = ('lockredis.lease' => '3s', 'lockredis.connect_timeout' => '1s',
	'lockredis.command_timeout' => '1s');
my $node = LockRedis::Node->create('main', redis => $ha, settings => {%short});
my $other = LockRedis::Node->create('other', redis => $ha, settings => {%short});
my $java = LockRedis::Redisson->new;
my $keys = 3;
my %pids;
my $stop = PostgreSQL::Test::Utils::tempdir_short() . '/stop';

$java->connect('a', $ha, watchdog => 3000);
$_->wait_for_up foreach $node, $other;
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE counter (key text PRIMARY KEY, v bigint NOT NULL);
INSERT INTO counter SELECT 'counter ' || k, 0 FROM generate_series(1, $keys) k;
CREATE TABLE step (key text, v bigint, worker text, at timestamptz DEFAULT clock_timestamp());
SQL

# Reads, thinks, writes one more; what the session has begun ends with it.  True if
# it was committed: PostgreSQL is not hurt, so that is always known.
sub count_up
{
	my ($s, $key, $worker) = @_;
	my $result = $s->query("SELECT v FROM counter WHERE key = '$key'");

	if (!$result->error)
	{
		my $next = $result->value + 1;
		$result = $s->query(
			"SELECT pg_sleep(random() * 0.01);
			 UPDATE counter SET v = $next WHERE key = '$key';
			 INSERT INTO step (key, v, worker) VALUES ('$key', $next, '$worker');
			 COMMIT");
	}
	return !$result->error;
}

# What may end an attempt: no store, a lock that was lost or taken, a token that is
# too old, a lock that somebody has for too long.
sub expected
{
	my ($result, $worker) = @_;

	$result = $result->error ? $result : undef;
	return 1 if !$result || $result->sqlstate =~ /^(?:58...|40001|23000|55000|55P03)$/;
	print STDERR "$worker: $result->{raw}\n";
	return 0;
}

# Until the file is there: $attempt->($key) is 1 for a commit, 0 for none, undef for
# what must not be.
sub work
{
	my ($worker, $attempt) = @_;
	my $pid = fork();

	die "could not fork: $!" unless defined $pid;
	if ($pid)
	{
		$pids{$pid} = $worker;
		return;
	}
	my $status = 1;
	eval {
		my $do = $attempt->();
		my ($n, $commits, $bad) = (0, 0, 0);
		until (-e $stop)
		{
			my $done = $do->('counter ' . (1 + $n++ % $keys));
			$commits += $done // 0;
			$bad++ unless defined $done;
		}
		open my $file, '>', "$stop.$worker" or die $!;
		print $file $commits;
		close $file or die $!;
		$status = 0 unless $bad;
		1;
	} or print STDERR "$worker: $@";
	POSIX::_exit($status);
}

sub in_transactions
{
	my ($worker) = @_;
	my $s = $node->session(settings => { lock_timeout => '5s' });

	return sub {
		my ($key) = @_;
		my $result = $s->query("BEGIN; SELECT redis_fenced_xact_lock('$key')");
		my $done = !$result->error && count_up($s, $key, $worker);

		$s->query('ROLLBACK') unless $done;
		return expected($result, $worker) ? $done || 0 : undef;
	};
}

# The token of whoever has the lock, in a transaction of a writer
sub with_token
{
	my ($writer, $key, $token, $worker) = @_;
	my $result = $writer->query("BEGIN; SELECT redis_fence_check('$key', $token)");
	my $done = !$result->error && count_up($writer, $key, $worker);

	$writer->query('ROLLBACK') unless $done;
	return expected($result, $worker) ? $done || 0 : undef;
}

sub with_a_writer
{
	my ($worker) = @_;
	my $s = $other->session(settings => { lock_timeout => '5s' });
	my $writer = $node->session;

	return sub {
		my ($key) = @_;
		my $token = $s->query("SELECT redis_fenced_lock('$key')");
		my $done = 0;

		return expected($token, $worker) ? 0 : undef if $token->error;
		$done = with_token($writer, $key, $token->value, $worker);
		my $unlocked = $s->query("SELECT redis_unlock('$key')");
		return expected($unlocked, $worker) ? $done : undef;
	};
}

# It may wait for an answer of a master that stands still, or for a message of it, and try
# again as often as it is used to.
my $patience = 240;

sub of_redisson
{
	my ($worker) = @_;
	my $writer = $node->session;
	my $ask = sub { return $java->wait($java->send('a.1', @_), $patience) };

	return sub {
		my ($key) = @_;
		my $token = $ask->('fencedLock', $key);
		my $done = 0;

		$done = with_token($writer, $key, $token->value, $worker) unless $token->error;

		# It may have it even after an exception, and more than once.
		foreach (1 .. 10)
		{
			my $held = $ask->('isHeld', $key);
			last if !$held->error && $held->value eq 'false';
			$ask->('unlock', $key);
		}
		return $done;
	};
}

work("xact$_", sub { in_transactions("xact$_") }) foreach 1 .. 12;
work("service$_", sub { with_a_writer("service$_") }) foreach 1 .. 4;
work('redisson', sub { of_redisson('redisson') });

# Every kind of worker goes on.
sub progress
{
	my ($when) = @_;
	my $from = $node->value('SELECT clock_timestamp()');

	foreach my $kind ('xact', 'service', 'redisson')
	{
		ok(
			poll_until(
				"a commit by $kind, $when",
				sub {
					$node->value(
						"SELECT count(*) FROM step WHERE worker LIKE '$kind%' AND at > '$from'") > 0;
				},
				$patience),
			"$kind goes on $when");
	}
	return;
}

progress('before anything happens');
foreach my $fault ('killed', 'replaced by command', 'frozen')
{
	my $old = $ha->master;

	if ($fault eq 'killed') { $old->kill9; }
	elsif ($fault eq 'frozen') { $old->freeze; }
	else { $ha->order_failover; }
	$ha->wait_for_master_but($old);
	progress("after the master was $fault");
	$old->start if $fault eq 'killed';
	$old->thaw if $fault eq 'frozen';
	$ha->wait_until_steady;
	progress("after the return of the master that was $fault");
}

open my $file, '>', $stop or die $!;
close $file;
my %commits;
while (%pids)
{
	my $pid = waitpid -1, 0;
	my $worker = delete $pids{$pid} or next;
	is($?, 0, "$worker met with nothing that must not be");
	$commits{$worker} = PostgreSQL::Test::Utils::slurp_file("$stop.$worker");
}
$java->stop;

my $acknowledged = 0;
$acknowledged += $_ foreach values %commits;
note "$acknowledged commits";
is($node->value('SELECT sum(v) FROM counter'), $acknowledged,
	'the counters are as high as what was committed');
is($node->value('SELECT count(*) FROM step'), $acknowledged, 'so many steps');
is($node->value('SELECT count(*) FROM (SELECT key, v FROM step GROUP BY key, v HAVING count(*) > 1) d'),
	0, 'no value was written twice');
cmp_ok($node->lock_stat('failovers'), '>=', 3, 'the server followed');

nothing_left([ $node, $other ], $ha, keys => qr/^redisson_(?:lock_token|unlock_latch):/);
done_testing();
