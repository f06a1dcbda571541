# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Twins::Operations - what sessions and Redisson do, drawn from a seed

=head1 SYNOPSIS

  my @operations = draw($seed, $length, foreign => 1);

=head1 DESCRIPTION

Each operation is a hash: who does it (a session s0 to s2, a thread of Redisson f1 or f2, or
admin, who has no locks), and the statement, in which {a} is a key.  The keys say what they are
for: a and b are locks, p has permits, s is a semaphore, l a latch.

What threads of Redisson do is said twice: as a command of test/interop/redisson, and as the
statement of a session that stands in for it where there is no Redis.

=cut

package LockRedis::Twins::Operations;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';

our @EXPORT_OK = qw(draw is_waiting_form);

# Each group is used by some of the sequences only, so that its operations meet often.  In
# front of a statement stands how often it comes, as it stands there if not said otherwise.
# %k: a lock, %o: the other one, %l: a lease, %n: a small number, %c: a condition
my %groups = (
	plain => <<'LIST',
3 SELECT redis_lock(%k)
1 SELECT redis_lock(%k, %l)
2 SELECT redis_try_lock(%k)
1 SELECT redis_try_lock(%k, '0', %l)
1 SELECT redis_try_lock(%k, '10 min')
4 SELECT redis_unlock(%k)
1 SELECT redis_unlock_all()
1 SELECT redis_extend(%k, %l)
1 SELECT redis_extend(%k, NULL)
1 SELECT redis_assert_held(%k)
LIST
	transaction => <<'LIST',
6 BEGIN
1 BEGIN ISOLATION LEVEL REPEATABLE READ
5 COMMIT
2 ROLLBACK
2 SAVEPOINT x
2 ROLLBACK TO x
1 RELEASE x
3 SELECT redis_xact_lock(%k)
1 SELECT redis_xact_lock(%k, %l)
3 SELECT redis_try_xact_lock(%k)
1 SELECT redis_try_xact_lock(%k, '10 min', %l)
1 INSERT INTO written VALUES (1)
1 PREPARE TRANSACTION 'x'
1 SET lockredis.commit_guard = verify
1 SET lockredis.commit_guard = off
1 RESET lockredis.commit_guard
LIST
	fair => <<'LIST',
3 SELECT redis_fair_lock(%k)
1 SELECT redis_fair_lock(%k, %l)
2 SELECT redis_try_fair_lock(%k)
1 SELECT redis_try_fair_lock(%k, '10 min', %l)
1 SELECT redis_fair_xact_lock(%k)
1 SELECT redis_try_fair_xact_lock(%k)
4 SELECT redis_unlock(%k)
1 SELECT redis_extend(%k, %l, 'fair')
1 SELECT redis_assert_held(%k, 'fair')
LIST
	read_write => <<'LIST',
4 SELECT redis_read_lock(%k)
1 SELECT redis_read_lock(%k, %l)
2 SELECT redis_try_read_lock(%k)
1 SELECT redis_try_read_lock(%k, '0', %l)
1 SELECT redis_read_xact_lock(%k)
1 SELECT redis_try_read_xact_lock(%k)
3 SELECT redis_write_lock(%k)
1 SELECT redis_write_lock(%k, %l)
2 SELECT redis_try_write_lock(%k)
1 SELECT redis_try_write_lock(%k, '10 min', %l)
1 SELECT redis_write_xact_lock(%k)
1 SELECT redis_try_write_xact_lock(%k)
4 SELECT redis_read_unlock(%k)
4 SELECT redis_write_unlock(%k)
1 SELECT redis_extend(%k, %l)
1 SELECT redis_extend(%k, %l, 'read')
1 SELECT redis_extend(%k, NULL, 'write')
1 SELECT redis_assert_held(%k, 'read')
1 SELECT redis_fenced_write_lock(%k)
1 SELECT redis_try_fenced_write_lock(%k)
1 SELECT redis_fenced_write_xact_lock(%k)
1 SELECT redis_try_fenced_write_xact_lock(%k)
LIST
	fenced => <<'LIST',
2 SELECT redis_fenced_lock(%k)
2 SELECT redis_try_fenced_lock(%k)
1 SELECT redis_try_fenced_lock(%k, '0', %l)
2 SELECT redis_fenced_xact_lock(%k)
2 SELECT redis_try_fenced_xact_lock(%k)
3 SELECT redis_unlock(%k)
1 SELECT redis_fence_check(%k, %n)
1 SELECT redis_fence_forget(%k)
LIST
	multi => <<'LIST',
2 SELECT redis_multi_lock(ARRAY[%k, %o])
1 SELECT redis_multi_lock(ARRAY[%k, %o, %k], %l)
2 SELECT redis_try_multi_lock(ARRAY[%k, %o])
1 SELECT redis_multi_xact_lock(ARRAY[%k, %o])
1 SELECT redis_try_multi_xact_lock(ARRAY[%k, %o], '0', %l)
3 SELECT redis_multi_unlock(ARRAY[%k, %o])
1 SELECT redis_unlock(%k)
LIST
	token => <<'LIST',
1 SELECT redis_token_lock(%k, %l, 'first')
2 SELECT redis_try_token_lock(%k, '0', %l, 'first')
1 SELECT redis_try_token_lock(%k, '0', %l, 'second')
1 SELECT redis_token_lock(%k, %l) IS NULL
3 SELECT redis_token_unlock(%k, 'first')
2 SELECT redis_token_unlock(%k, 'second')
1 SELECT redis_token_extend(%k, 'first', %l)
1 SELECT redis_token_is_held(%k, 'second')
LIST
	condition => <<'LIST',
3 SELECT redis_lock(%k)
3 SELECT redis_condition_wait(%k, %w, %c)
2 SELECT redis_condition_notify(%k, %c)
1 SELECT redis_condition_notify_all(%k, %c)
2 SELECT redis_unlock(%k)
LIST
	job => <<'LIST',
1 CALL redis_with_lock(%k, 'SELECT 1')
1 CALL redis_await_lock(%k)
1 CALL redis_with_lock(%k, 'INSERT INTO written VALUES (2)', '10 min')
1 CALL redis_with_lock(%k, 'SELECT redis_try_lock(''%K'')')
1 CALL redis_with_lock(%k, 'SELECT redis_try_lock(''%O'')')
1 CALL redis_with_lock(%k, 'SELECT redis_unlock(''%K'')')
1 CALL redis_with_lock(%k, 'SELECT redis_force_unlock(''%K'')')
1 CALL redis_with_lock(%k, 'SELECT 1/0', '0', %l)
1 CALL redis_with_lock(%k, 'SELECT 1', '0', NULL, %l)
1 CALL redis_with_lock(%k, 'SELECT 1/0', '0', NULL, %l)
LIST
	permit => <<'LIST',
2 SELECT redis_permit_init({p}, %n)
1 SELECT redis_permit_set({p}, %n)
3 SELECT redis_permit_lock({p})
1 SELECT redis_permit_lock({p}, %l)
3 SELECT redis_try_permit_lock({p})
1 SELECT redis_try_permit_lock({p}, '10 min')
1 SELECT redis_permit_xact_lock({p})
1 SELECT redis_try_permit_xact_lock({p}, '0', %l)
4 SELECT redis_permit_unlock({p})
1 SELECT redis_unlock({p})
1 SELECT redis_extend({p}, %l)
1 SELECT redis_assert_held({p}, 'permit')
2 SELECT redis_try_permit_acquire({p}, '0', %l)
1 SELECT redis_permit_acquire({p}, %l)
2 SELECT redis_permit_release({p}, {id})
1 SELECT redis_permit_extend({p}, {id}, %l)
1 CALL redis_with_permit({p}, 'SELECT 1')
1 CALL redis_with_permit({p}, 'SELECT 1/0')
LIST
	semaphore => <<'LIST',
2 SELECT redis_semaphore_init({s}, %n)
1 SELECT redis_semaphore_init({s}, %n, %l)
1 SELECT redis_semaphore_set({s}, %n)
1 SELECT redis_semaphore_set({s}, %n, %l)
2 SELECT redis_semaphore_acquire({s}, %n)
3 SELECT redis_try_semaphore_acquire({s}, %n)
1 SELECT redis_try_semaphore_acquire({s}, %n, '10 min')
3 SELECT redis_semaphore_release({s}, %n)
2 SELECT redis_semaphore_xact_release({s}, %n)
1 SELECT redis_semaphore_add({s}, %n)
1 SELECT redis_semaphore_add({s}, -%n)
1 SELECT redis_semaphore_drain({s})
LIST
	latch => <<'LIST',
3 SELECT redis_latch_init({l}, %n)
1 SELECT redis_latch_set({l}, %n)
3 SELECT redis_latch_count_down({l})
2 SELECT redis_latch_xact_count_down({l})
2 SELECT redis_latch_wait({l})
1 SELECT redis_latch_wait({l}, '0')
1 SELECT redis_latch_wait({l}, '10 min')
1 SELECT redis_latch_delete({l})
LIST
	ends => <<'LIST',
2 cancel
1 quit
1 terminate
1 DISCARD ALL
1 lapse SELECT redis_try_lock(%k, '0', '400ms')
1 lapse SELECT redis_try_write_lock(%k, '0', '400ms')
1 lapse SELECT redis_try_permit_lock({p}, '0', '400ms')
3 admin SELECT redis_force_unlock(%k)
1 admin SELECT redis_force_unlock({p})
LIST
);

# Of a thread of Redisson, and of the session that stands in for it.
my %foreign = (
	plain => <<'LIST',
4 tryLock %k 0 3600000 | SELECT redis_try_lock(%k, '0', '1h')
4 unlock %k | SELECT redis_unlock(%k)
1 isLocked %k | SELECT redis_is_locked(%k)
1 holdCount %k | SELECT redis_hold_count(%k)
LIST
	fair => <<'LIST',
3 fair.tryLock %k 0 3600000 | SELECT redis_try_fair_lock(%k, '0', '1h')
3 fair.unlock %k | SELECT redis_unlock(%k)
LIST
	read_write => <<'LIST',
4 read.tryLock %k 0 3600000 | SELECT redis_try_read_lock(%k, '0', '1h')
4 read.unlock %k | SELECT redis_read_unlock(%k)
3 write.tryLock %k 0 3600000 | SELECT redis_try_write_lock(%k, '0', '1h')
3 write.unlock %k | SELECT redis_write_unlock(%k)
LIST
	permit => <<'LIST',
1 permit.init {p} %n | SELECT redis_permit_init({p}, %n)
1 permit.set {p} %n | SELECT redis_permit_set({p}, %n)
3 permit.tryAcquire {p} 0 3600000 | SELECT redis_try_permit_acquire({p}, '0', '1h')
3 permit.release {p} {id} | SELECT redis_permit_release({p}, {id})
1 permit.available {p} | SELECT coalesce(redis_permit_available({p}), 0)
LIST
	semaphore => <<'LIST',
1 semaphore.init {s} %n | SELECT redis_semaphore_init({s}, %n)
3 semaphore.tryAcquire {s} %n 0 | SELECT redis_try_semaphore_acquire({s}, %n)
3 semaphore.release {s} %n | SELECT redis_semaphore_release({s}, %n)
1 semaphore.available {s} | SELECT redis_semaphore_available({s})
1 semaphore.drain {s} | SELECT redis_semaphore_drain({s})
LIST
	latch => <<'LIST',
2 latch.set {l} %n | SELECT redis_latch_init({l}, %n)
3 latch.countDown {l} | SELECT redis_latch_count_down({l}) IS NOT NULL
1 latch.count {l} | SELECT redis_latch_count({l})
1 latch.delete {l} | SELECT redis_latch_delete({l})
LIST
);

# Redisson's scripts take a key for what they expect there, so a key is of one kind where its
# clients are: a plain locks, b those of readers and writers.
my %key_of_foreign = (plain => 'a', fair => 'a', read_write => 'b');
my @leases = ("'20 min'", "'40 min'", "'1h'");

# One of these, at random
sub _one { return $_[ int rand @_ ]; }

sub _lines
{
	my ($list) = @_;

	return map {
		my ($times, $text) = /^(\d+) (.*)/;
		($text) x $times;
	} split /\n/, $list;
}

sub _filled
{
	my ($text, $key) = @_;
	my $number = _one(1, 1, 2, 3);
	my $lease = _one(@leases);
	my $condition = _one("''", "''", "'full'");
	my $wait = _one('NULL', 'NULL', "'10 min'", "'0'");
	my $other = $key eq 'a' ? 'b' : 'a';

	$text =~ s/%k/{$key}/g;
	$text =~ s/%o/{$other}/g;
	$text =~ s/%K/{=$key}/g;
	$text =~ s/%O/{=$other}/g;
	$text =~ s/%n/$number/g;
	$text =~ s/%l/$lease/g;
	$text =~ s/%c/$condition/g;
	$text =~ s/%w/$wait/g;
	return $text;
}

sub _session_operation
{
	my ($group, $with_foreign) = @_;
	my $text = _one(_lines($groups{$group}));
	my $key = _one('a', 'a', 'b');
	my %op = (who => 's' . int rand 3);

	if ($with_foreign)
	{
		$key = $group eq 'read_write' ? 'b' : 'a';
		$key = $text =~ /write/ ? 'b' : 'a' if $group eq 'ends';
	}
	$op{who} = 'admin' if $text =~ s/^admin //;
	$op{lapse} = 1 if $text =~ s/^lapse //;
	$op{sql} = _filled($text, $key);
	return \%op;
}

sub _foreign_operation
{
	my ($group) = @_;
	my ($words, $sql) = split / \| /, _one(_lines($foreign{$group}));
	my $both = _filled("$words | $sql", $key_of_foreign{$group} // 'a');

	($words, $sql) = split / \| /, $both;
	return { who => _one('f1', 'f2'), redisson => $words, sql => $sql };
}

# What a seed says that is to be done
sub draw
{
	my ($seed, $length, %opts) = @_;
	my @usual = qw(plain transaction fair read_write fenced multi token condition job permit
	  semaphore latch);

	srand $seed;

	# Several keys are one of each kind there.
	@usual = grep { $_ ne 'multi' } @usual if $opts{foreign};
	my @groups = map { _one(@usual) } 1 .. 2 + int rand 3;
	push @groups, 'transaction' if rand() < 0.5;
	my @foreign = grep { $foreign{$_} } @groups;
	@foreign = _one(sort keys %foreign) if $opts{foreign} && !@foreign;

	return map {
		my $is_end = rand() < 0.12;

		$opts{foreign} && rand() < 0.35
		  ? _foreign_operation(_one(@foreign))
		  : _session_operation($is_end ? 'ends' : _one(@groups), $opts{foreign});
	} 1 .. $length;
}

# What kind of queue a call stands in if it cannot have what it wants at once, or undef.
sub is_waiting_form
{
	my ($sql) = @_;

	return if $sql =~ /_(?:try|with)_(?!\w*\(.*'10 min')/ || $sql =~ /unlock/;
	return 'fair' if $sql =~ /_fair_/;
	return 'condition' if $sql =~ /condition_wait/;
	return 'queue' if $sql =~ /_lock\(|_acquire\(|latch_wait/;
	return;
}

1;
