# Copyright (c) 2026, lockredis contributors

# Token locks and the real redis-py, redsync and node-redlock on the same keys: each
# excludes ours and is excluded by ours, whoever knows the token may extend and release
# what another one took, waiters of each side get what the other side gives back, and a
# lock of another kind is in the way of all.
# Proves G1, G25.

use LockRedis::Test;
use LockRedis::TokenClient;

LockRedis::TokenClient->need;

my ($node, $redis, $one, $two) = servers(sessions => 2);

foreach my $library ('redis-py', 'redsync', 'node-redlock')
{
	subtest $library => sub {
		my $other = LockRedis::TokenClient->new($library, $redis);

		# ----------
		# Theirs
		# ----------

		my $theirs = $other->take('k', 60_000);
		ok(defined $theirs, 'taken by the other side');
		$one->query_is("SELECT redis_try_token_lock('k', '0', '1min')", 'NULL', 'busy for us');
		$one->query_is("SELECT redis_try_lock('k')", 'f', 'also as a reentrant lock');
		$one->query_is("SELECT redis_token_is_held('k', '$theirs')", 't', 'we know its token');
		$one->query_is("SELECT redis_token_extend('k', '$theirs', '10min')", 't',
			'and may extend it');
		ok($redis->cmd('PTTL', 'k') > 300_000, 'for longer');
		ok($other->extend('k', $theirs, 30_000), 'as its holder, to less');
		my $ttl = $redis->cmd('PTTL', 'k');
		ok($ttl > 0 && $ttl <= 30_000, 'as it does');
		$one->query_is("SELECT redis_token_unlock('k', 'other')", 'f', 'not with another token');
		ok($redis->cmd('EXISTS', 'k'), 'it is still there');
		$one->query_is("SELECT redis_token_unlock('k', '$theirs')", 't', 'we give it back');
		is($other->release('k', $theirs), undef, 'which its holder finds out');

		# ----------
		# Ours
		# ----------

		my $ours = $one->value("SELECT redis_token_lock('k', '1min')");
		is($other->take('k', 60_000), undef, 'busy for the other side');
		is($other->release('k', 'other'), undef, 'which cannot release it without the token');
		ok($other->extend('k', $ours, 600_000), 'with it it can extend');
		ok($redis->cmd('PTTL', 'k') > 300_000, 'for longer');
		is($other->ask('owned', 'k', $ours), 'yes', 'and knows it') if $library eq 'redis-py';
		$one->query_is("SELECT redis_token_is_held('k', '$ours')", 't', 'we still have it');
		ok($other->release('k', $ours), 'and release');
		$one->query_is("SELECT redis_token_unlock('k', '$ours')", 'f', 'which we find out');

		if ($library ne 'node-redlock')
		{
			is($other->take('k', 60_000, token => 'agreed'), 'agreed', 'a token of our choice');
			$one->query_is("SELECT redis_try_token_lock('k', '0', '1min', 'agreed')", 'NULL',
				'is busy for whoever has the same');
			$one->query_is("SELECT redis_token_unlock('k', 'agreed')", 't');
		}

		# ----------
		# Who waits
		# ----------

		$theirs = $other->take('k', 3_600_000);
		$node->queue_up('k', $one => "SELECT redis_token_lock('k', '1h', 'waited')", $two => "SELECT redis_lock('k')");
		ok($other->release('k', $theirs), 'the other side gives it back');
		is($one->wait->value, 'waited', 'who waits here gets it');
		$one->query_is("SELECT redis_token_unlock('k', 'waited')", 't');
		is($two->wait->error, undef, 'then the next one');
		$two->query_is("SELECT redis_unlock('k')", 't');

		$one->query_is("SELECT redis_token_lock('k', '1h', 'ours')", 'ours');
		$other->start('take', 'k', '-', 60_000, 50_000);
		$one->query_is("SELECT redis_token_unlock('k', 'ours')", 't');
		$theirs = $other->answer;
		ok(defined $theirs, 'who waits there gets ours');

		# Its lease ends, and nobody tells.
		ok($other->extend('k', $theirs, 4_000), 'a short lease');
		$one->query_is("SELECT redis_token_lock('k', '1min', 'after')", 'after', 'waited for');
		is($other->release('k', $theirs), undef, 'not theirs any more');
		$one->query_is("SELECT redis_token_unlock('k', 'after')", 't');

		# ----------
		# Other locks
		# ----------

		$one->query_is("SELECT redis_lock('k')", '');
		is($other->take('k', 60_000), undef, 'a reentrant lock is busy there');
		$one->query_is("SELECT redis_unlock('k')", 't');
		$theirs = $other->take('k', 60_000);
		ok(defined $theirs, 'until it is given back');
		ok($other->release('k', $theirs), 'and that is theirs');
		$other->stop;
	};
}

end_test($node, $redis);
