# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::CommitFaults - a server whose Redis fails at the end of transactions

=head1 DESCRIPTION

What the tests 104_commit_faults and 106_commit_ends have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::CommitFaults;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

our @EXPORT = qw($connect $command $budget $slack $redis $proxy $node $one
  %fault @ends @many %hiccup start_servers recovered);

our ($connect, $command, $budget, $slack, $redis, $proxy, $node, $one, %fault,
	@ends, @many, %hiccup);

sub start_servers
{
	# Budget of a call, and what may be added on a busy machine.
	$connect = limit(0.5);
	$command = limit(1);
	$budget = ($connect + $command) * 1000;
	$slack = limit(2) * 1000;

	$redis = LockRedis::Redis->new;
	$proxy = LockRedis::Proxy->new($redis);
	$node = LockRedis::Node->create(
		'main',
		url => $proxy->url,
		settings => {
			'lockredis.lease' => '10min',
			'lockredis.connect_timeout' => "${connect}s",
			'lockredis.command_timeout' => "${command}s"
		});
	$one = $node->session;

	$node->wait_for_up;

	# Afterwards Redis has every script: a fault is to hit the first attempt.
	run($one,
		q{CREATE TABLE t (a int);
		  BEGIN; SELECT redis_lock('warm'), redis_lock('warm'), redis_xact_lock('warm');
		  SELECT redis_unlock_all(); COMMIT;
		  SET lockredis.commit_guard = 'verify'; SELECT redis_xact_lock('warm');
		  RESET lockredis.commit_guard});

	# A release is the only request that publishes.
	%fault = (
		'stopped' => {
			do => sub { $redis->stop(keep => 1) },
			undo => sub { $redis->start }
		},
		'stopped, its data lost' => {
			do => sub { $redis->stop },
			undo => sub { $redis->start }
		},
		'frozen' => {
			do => sub { $redis->freeze },
			undo => sub { $redis->thaw }
		},
		'unreachable' => {
			do => sub { $proxy->mode('hang'); $proxy->reset_all },
			undo => sub { $proxy->mode('pass') }
		},
		'refusing connections' => {
			do => sub { $proxy->mode('refuse'); $proxy->reset_all },
			undo => sub { $proxy->mode('pass') }
		},
		'resetting connections' => {
			do => sub { $proxy->mode('reset'); $proxy->reset_all },
			undo => sub { $proxy->mode('pass') }
		},
		'dropping the reply' => {
			do => sub {
				$proxy->rule(on => 'reply', match => 'PUBLISH', action => 'drop', times => 0);
			},
			undo => sub { $proxy->clear }
		},
		'sending half of the reply' => {
			do => sub {
				$proxy->rule(
					on => 'reply',
					match => 'PUBLISH',
					action => 'truncate',
					bytes => 3,
					times => 0,
					then => 'hold');
			},
			undo => sub { $proxy->clear; $proxy->release }
		},
		'answering with an error' => {
			do => sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 1) },
			undo => sub { $redis->cmd('CONFIG', 'SET', 'min-replicas-to-write', 0) }
		});

	# [name, before the fault, the end under the fault, rows that are written,
	# whether the transaction goes on].
	@ends = (
		[ 'COMMIT', 'BEGIN; INSERT INTO t VALUES (1)', 'COMMIT', 1 ],
		[ 'COMMIT of a reader', 'BEGIN', 'COMMIT', 0 ],
		[ 'ROLLBACK', 'BEGIN; INSERT INTO t VALUES (1)', 'ROLLBACK', 0 ],
		[
			'ROLLBACK TO', 'BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s',
			'ROLLBACK TO s', 1, 1
		]);

	# A session for each end; all of them end under the same fault at the same time.
	# None asks the store for a permission, so none fails.
	@many = map { $node->session } @ends;

	foreach my $fault (sort keys %fault)
	{
		subtest "Redis $fault" => sub {
			my $before = $node->count_rows('t');
			my $rows = 0;

			foreach my $i (0 .. $#ends)
			{
				my ($name, $begin) = @{ $ends[$i] };
				run($many[$i], "$begin; SELECT redis_xact_lock('a $i'), redis_xact_lock('b $i')");
			}
			$fault{$fault}{do}->();
			$many[$_]->start($ends[$_][2]) foreach 0 .. $#ends;
			foreach my $i (0 .. $#ends)
			{
				my ($name, $begin, $sql, $written, $goes_on) = @{ $ends[$i] };
				my $s = $many[$i];
				my $result = $s->wait;
				is($result->{raw}, '', "$name: works without a word");
				cmp_ok($result->ms, '<', $budget + $slack, 'within its budget');
				$s->query_is('SELECT 1', 1, 'the next statement works');
				$rows += $written;
				next unless $goes_on;
				$result = $s->query('INSERT INTO t SELECT 2 WHERE false; COMMIT');
				is($result->{raw}, '', 'the transaction goes on, and commits');
				cmp_ok($result->ms, '<', $budget + $slack, 'in time');
			}
			is($node->count_rows('t') - $before, $rows, 'the outcomes are right');
			$fault{$fault}{undo}->();
			recovered($_, "Redis $fault") foreach $many[0], $many[-1];
		};
	}
	$_->quit foreach @many;

	# What a fault does not stop: the release is repeated, and all keys are free
	# when COMMIT returns, or soon after if that takes long.
	%hiccup = (
		'scripts were flushed' => sub { $redis->cmd('SCRIPT', 'FLUSH') },
		'the connection was closed' => sub { $proxy->reset_all },
		'the connection was killed' =>
		  sub { $redis->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') },
		'the request resets the connection' =>
		  sub { $proxy->rule(match => 'PUBLISH', action => 'reset') },
		'the reply resets the connection' =>
		  sub { $proxy->rule(match => 'PUBLISH', action => 'cut') },
		'Redis was restarted' => sub { $redis->restart(keep => 1) });

	foreach my $hiccup (sort keys %hiccup)
	{
		foreach my $end (@ends[ 0, 3 ])
		{
			my ($name, $begin, $sql, $rows, $goes_on) = @$end;

			subtest "$hiccup, $name" => sub {
				my $before = $node->count_rows('t');

				# More than one command of the batch.
				run($one,
					"$begin;
					 SELECT count(redis_xact_lock('k ' || i)) FROM generate_series(1, 120) i");
				$hiccup{$hiccup}->();
				my $result = $one->query($sql);
				is($result->{raw}, '', 'works');
				poll_until('all locks to be given back', sub { !$redis->all_keys });
				run($one, 'COMMIT') if $goes_on;
				is($node->count_rows('t') - $before, $rows, 'with the right outcome');
				$proxy->clear;
				recovered($one, $name);
			};
		}
	}
	return;
}

# All is well again, and nothing has been forgotten.
sub recovered
{
	my ($s, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	poll_until('all locks to be given back',
		sub { !$redis->all_keys && $node->count_locks == 0 });
	$node->wait_until_asked($s);
	return $s->query_is(
		"BEGIN; SELECT redis_xact_lock('a'), redis_xact_lock('b'); COMMIT",
		'|', "$name: locks work again, and all were given back");
}

1;
