# Copyright (c) 2026, lockredis contributors

# Independent masters: those who want the same lock at the same time, what a session
# leaves that goes in the middle, several keys at once, and token locks.
#
# Forced here, each with nodes that stand still while something is under way:
# - a create that a minority has not read when the lock is given back: it is read, and
#   so is the release behind it;
# - a session that ends while answers are owed;
# - a call that is canceled while a majority does not answer.
# Proves G47.

use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new;
my @nodes = $masters->nodes;
my %settings = ('lockredis.lease' => '30s', 'lockredis.connect_timeout' => '2s',
	'lockredis.command_timeout' => '30s');
my @servers = map { $masters->server($_, %settings) } qw(main other);
my $one = $servers[0]->session;
my $two = $servers[1]->session;

# ---- at the same time, on two servers

{
	my @sessions = map { $_->session, $_->session } @servers;
	my $rounds = 25;

	$_->query('CREATE TABLE held (token bigint, since timestamptz, until timestamptz)')
	  foreach $one, $two;
	$_->query(qq{
		CREATE PROCEDURE rounds() LANGUAGE plpgsql AS \$\$
		DECLARE token bigint; since timestamptz;
		BEGIN
			FOR i IN 1 .. $rounds LOOP
				token := redis_fenced_lock('c');
				since := clock_timestamp();
				PERFORM pg_sleep(0.001);
				INSERT INTO held VALUES (token, since, clock_timestamp());
				PERFORM redis_unlock('c');
			END LOOP;
		END \$\$}) foreach $one, $two;
	$_->start('CALL rounds()') foreach @sessions;
	foreach my $s (@sessions)
	{
		my $result = $s->wait;
		ok(!$result->error, 'all rounds') or diag($result->{raw});
	}
	my @held = sort { $a->[1] <=> $b->[1] } map {
		map { [ split /\|/ ] } split /\n/, $_->query(
			'SELECT token, extract(epoch FROM since), extract(epoch FROM until) FROM held')->out
	} $one, $two;

	is(scalar @held, 4 * $rounds, 'each of them had it');
	is(scalar(grep { $held[$_][1] < $held[ $_ - 1 ][2] } 1 .. $#held), 0, 'one after the other');
	is(scalar(grep { $held[$_][0] <= $held[ $_ - 1 ][0] } 1 .. $#held), 0, 'with tokens that rise');
	$masters->wait_for_owners('c', 0);
}

# ---- what a minority has not read

{
	$_->freeze foreach @nodes[ 1, 3 ];
	$one->query_is("SELECT redis_lock('u'), redis_unlock('u')", '|t', 'taken and given back');
	$two->query_is("SELECT redis_try_lock('u')", 't', 'another server has it');
	$_->thaw foreach @nodes[ 1, 3 ];
	$two->query_is("SELECT redis_is_held('u')", 't', 'and keeps it');
	$two->query_is("SELECT redis_unlock('u')", 't', 'until it gives it back');
	$masters->wait_for_owners('u', 0);
}

# ---- who goes

{
	my $s = $servers[0]->session;

	$s->query_is("SELECT redis_try_lock('g')", 't', 'taken');
	$_->freeze foreach @nodes[ 0, 4 ];
	$s->query_is("SELECT redis_try_lock('h')", 't', 'taken while two stand still');
	$s->terminate;
	poll_until('the session to be gone', sub { $s->is_gone });
	$two->query_is("SELECT redis_try_lock('g', '60s')", 't', 'another server has it');
	$_->thaw foreach @nodes[ 0, 4 ];
	$two->query_is("SELECT redis_unlock('g')", 't', 'and gives it back');
	$masters->wait_for_owners('g', 0);
	$masters->wait_for_owners('h', 0);
}

{
	my $s = $servers[0]->session;

	$s->query("SELECT redis_lock('x'), redis_unlock('x')");
	$_->freeze foreach @nodes[ 0, 1, 2 ];
	$s->start("SELECT redis_try_lock('y')");
	poll_until('two to have it', sub { (grep { $_->cmd('EXISTS', 'y') } @nodes[ 3, 4 ]) == 2 });
	$s->cancel;
	like($s->wait->{raw}, qr/57014/, 'canceled while a majority does not answer');
	$_->thaw foreach @nodes[ 0, 1, 2 ];
	$masters->wait_for_owners('y', 0);
	poll_until('it can be had', sub { $two->value("SELECT redis_try_lock('y')") eq 't' });
	$two->query_is("SELECT redis_unlock('y')", 't', 'by others');
}

# ---- several keys at once

{
	$one->query("SELECT redis_multi_lock(ARRAY['a', 'b', 'd'])");
	cmp_ok($masters->have($_), '>=', 3, "$_ is had by a majority") foreach qw(a b d);
	$two->query_is("SELECT redis_try_multi_lock(ARRAY['d', 'e'])", 'f', 'all or none');
	$masters->wait_for_owners('e', 0);
	$one->query("SELECT redis_multi_unlock(ARRAY['a', 'b', 'd'])");
	$masters->wait_for_owners($_, 0) foreach qw(a b d);
}

# ---- token locks

{
	my $token = $one->value("SELECT redis_token_lock('t', '60s')");

	cmp_ok((grep { ($_->cmd('GET', 't') || '') eq $token } @nodes), '>=', 3,
		'a majority has the token');
	$two->query_is("SELECT redis_try_token_lock('t', '0', '60s') IS NULL", 't', 'others are kept out');
	$two->query_is("SELECT redis_token_unlock('t', '$token')", 't', 'who knows it gives it back');
	$masters->wait_for_owners('t', 0);

	# As redsync does it
	$masters->connect_to_all($one);
	$_->cmd('SET', 'q', 'other', 'PX', 600_000) foreach @nodes[ 0, 1, 3 ];
	$one->query_is("SELECT redis_try_token_lock('q', '0', '60s') IS NULL", 't',
		'another program has a majority');
	$nodes[1]->cmd('DEL', 'q');
	$token = $one->value("SELECT redis_try_token_lock('q', '0', '60s')");
	is((grep { ($_->cmd('GET', 'q') || '') eq $token } @nodes), 3, 'a minority is no obstacle');
	$one->query_is("SELECT redis_token_unlock('q', '$token')", 't', 'given back');
	is((grep { ($_->cmd('GET', 'q') || '') eq 'other' } @nodes), 2, 'theirs stays');
}

done_testing();
