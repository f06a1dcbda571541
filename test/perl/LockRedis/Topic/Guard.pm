# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Topic::Guard - commits that the guard lets pass or refuses

=head1 DESCRIPTION

What the tests 140_guard and 141_guard_settings have in common.
start_servers sets the exported variables.

=cut

package LockRedis::Topic::Guard;

use LockRedis::Pragmas;

use Exporter 'import';
use LockRedis::Test qw(:DEFAULT run);
use LockRedis::Wait qw(limit);

our @EXPORT = qw($redis $node $one $two $quick $short $when
  $by_force start_servers refusal commit_fails commit_works);

our ($redis, $node, $one, $two, $quick, $short, $when, $by_force);

sub start_servers
{
	($node, $redis, $one, $two) = servers(
		sessions => 2,
		settings => {
			wal_level => 'replica',
			max_wal_senders => 1,
			max_prepared_transactions => 1,
			'lockredis.lease' => '10min'
		});

	# Only quick has its locks renewed while a test looks.
	$quick = $node->session(settings => { 'lockredis.lease' => limit(6) . 's' });

	# A given lease that is to end soon, though not before the reply is read.
	$short = "'" . limit(0.2) * 1000 . " ms'";

	run($one, 'CREATE TABLE t (a int)');

	# What an error says of a lock, in whole: which, when, how, what to do.
	$when = qr{\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*( \S+)?};

	$by_force = qr/It was released by force at/;
	return;
}

sub refusal ($key, $how)
{
	return qr/could not commit because the lock "\Q$key\E" was lost\nDETAIL:  $how $when\.\nHINT:  .*[Ss]tart the transaction again\./;
}

# The commit fails, and that is the end of it for a transaction-level lock: only
# that is told by 40001.
sub commit_fails ($s, $key, $how, $name, $sqlstate = undef)
{
	my ($rows, $refused) = ($node->count_rows('t'), $node->lock_stat('commits_refused'));

	return $s->query_fails('COMMIT', $sqlstate || '40001', refusal($key, $how), $name)
	  && is_deeply(
		[ $node->count_rows('t') - $rows, $node->lock_stat('commits_refused') - $refused ],
		[ 0, 1 ],
		"$name: nothing is committed, and it is counted");
}

sub commit_works ($s, $written, $name)
{
	my ($rows, $refused) = ($node->count_rows('t'), $node->lock_stat('commits_refused'));

	return $s->query_is('COMMIT', '', $name) && is_deeply(
		[ $node->count_rows('t') - $rows, $node->lock_stat('commits_refused') - $refused ],
		[ $written, 0 ],
		"$name: it is committed");
}

1;
