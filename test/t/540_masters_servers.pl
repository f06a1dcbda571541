# Copyright (c) 2026, lockredis contributors

# Three names, which are links to sockets, and the servers that they lead to: whoever
# connects finds another one behind a name when its link is changed, and who is connected
# stays where he is.
#
# - two names lead to one server, by mistake, and one of them is then pointed to a spare:
#   old connections and new ones together make no majority of that one
# - a spare that has run for long has no vote, while a lock may be held that the server
#   before it has granted; nor has it when the background worker was started again meanwhile
# - nor by a reload that changes the URLs, but not where they lead to
# - the control: of a server of PostgreSQL that was started since it has one
# - two names that change places are good again, whether the old connections stay or not
# - a lock that is renewed stays had, and the spare gets it
#
# Proves G47.

use File::Temp qw(tempdir);
use LockRedis::Masters;
use LockRedis::Test;

# No lease is longer, and nobody has to be as fast.
use constant LEASE => '12 s';

my $masters = LockRedis::Masters->new(n => 4);
my ($a, $b, $c, $spare) = $masters->nodes;
my $dir = tempdir('lrXXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $dir;

sub point
{
	my ($name, $to) = @_;

	symlink $to ? $to->socket_path : "$dir/nobody", "$dir/new" or die "could not link: $!";
	rename "$dir/new", "$dir/$name" or die "could not rename: $!";
	return;
}

sub server
{
	my ($name, $max) = @_;

	return LockRedis::Node->create(
		$name,
		url => join(' ', map { "unix://$dir/$_" } qw(r1 r2 r3)),
		settings => {
			'lockredis.max_lease' => $max // LEASE,
			'lockredis.lease' => '9 s',
			'lockredis.connect_timeout' => '20 s',
			'lockredis.command_timeout' => '20 s'
		});
}

sub rows
{
	my ($node) = @_;

	return $node->value(q{SELECT string_agg(format('%s %s', state, in_use), ', ' ORDER BY node)
		FROM redis_lock_status});
}

sub wait_for_rows
{
	my ($node, $rows) = @_;

	poll_until("$rows", sub { rows($node) eq $rows }, 120);
	return;
}

sub cut
{
	$_->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes') foreach @_;
	return;
}

sub tries
{
	my ($session, $key, $lease) = @_;

	return $session->query("SELECT redis_try_lock('$key'" . ($lease ? ", lease => '$lease'" : '') . ')')
	  ->value // '';
}

sub both_hold
{
	my ($one, $two, $key) = @_;

	return 2 == grep { ($_->query("SELECT redis_is_held('$key')")->value // '') eq 't' } $one, $two;
}

sub put_back
{
	$_->cmd('FLUSHALL') foreach $masters->nodes;
	return;
}

my $all = 'up t, up t, up t';

# ---- two names lead to one server

{
	point(r1 => $a);
	point(r2 => undef);
	point(r3 => $c);
	my $near = server('near');
	wait_for_rows($near, 'up t, down f, up t');
	my $old = $near->session;
	is(tries($old, 'w'), 't', 'two of three are enough');
	$old->query('SELECT redis_unlock_all()');

	point(r2 => $a);
	poll_until('the second name to be refused',
		sub { $near->value('SELECT last_error FROM redis_lock_status WHERE node = 2') =~
			  /It is the same server as that of another URL/ });
	wait_for_rows($near, 'up t, down f, up t');

	# Taken at the first and the third; the third forgets it, when that votes again.
	is(tries($old, 'k', LEASE), 't', 'taken by two of them');
	my $watchdog = $near->watchdog_pid;
	kill STOP => $watchdog;
	point(r1 => $spare);
	my $new = $near->session;
	poll_until('the second name to be good',
		sub { tries($new, 'x'); keys %{ $spare->hash('x') } && keys %{ $a->hash('x') } });
	$new->query('SELECT redis_unlock_all()');
	poll_until('the former connections to have had their time',
		sub { tries($old, 'y') eq 't' && keys %{ $a->hash('y') } });
	$c->cmd('DEL', 'k');
	my $extended = $old->query("SELECT redis_extend('k', '@{[LEASE]}')")->value // '';

	my $far = server('far');
	wait_for_rows($far, $all);
	my $other = $far->session;
	tries($other, 'k', LEASE);
	ok(!both_hold($old, $other, 'k'), 'one server has one vote, by whichever connections');
	isnt($extended, 't', 'one server is no majority');
	kill CONT => $watchdog;
	$_->quit foreach $old, $new, $other;
	$_->stop foreach $near, $far;
	put_back();
}

# ---- a spare

point(r1 => $a);
point(r2 => $b);
point(r3 => $c);
my ($near, $far) = map { server($_) } qw(holder asker);
wait_for_rows($_, $all) foreach $near, $far;
my ($one, $two) = map { $_->session } $near, $far;

foreach my $how ('known', 'watchdog')
{
	my $watchdog = $near->watchdog_pid;

	tries($two, 'warm');
	$two->query('SELECT redis_unlock_all()');
	kill STOP => $watchdog;
	$b->foreign_lock('k', owner => 'somebody', ms => 600_000);
	is(tries($one, 'k', LEASE), 't', "$how: had by the first and the third");
	$b->foreign_unlock('k');
	point(r1 => $spare);
	$far->replace_watchdog if $how eq 'watchdog';
	cut($a);
	poll_until('the spare to be asked',
		sub { tries($two, 'k'); grep { $_->{name} =~ /^lockredis-session/ } $spare->clients });
	tries($two, 'k');
	ok(!both_hold($one, $two, 'k'), "$how: a spare has no vote, however long it has run");
	# When the background worker has connected to it, too
	like(poll_until('a reason', sub { $far->value('SELECT reason FROM redis_lock_status WHERE node = 1') }),
		qr/^restarted \d+ s ago, votes in \d+ s$/, 'and shown');
	kill CONT => $watchdog;
	$_->query('SELECT redis_unlock_all()') foreach $one, $two;
	put_back();
	point(r1 => $a);
	cut($spare);
	wait_for_rows($_, $all) foreach $near, $far;
}

# ---- renewed

{
	$one->query("SELECT redis_lock('renewed')");
	$masters->wait_for_owners('renewed', 3);
	point(r1 => $spare);
	cut($a);
	poll_until('the spare to have it', sub { keys %{ $spare->hash('renewed') } });
	$one->query_is("SELECT redis_is_held('renewed')", 't', 'a lock that is renewed is kept');
	$c->cmd('CONFIG', 'SET', 'maxmemory', 1);
	$two->query_fails("SELECT redis_try_lock('new')", '58030',
		qr/Master 1: It has no vote, since another server was there until lately/,
		'the spare has no vote, and that is told');
	$c->cmd('CONFIG', 'SET', 'maxmemory', 0);
	$one->query_is("SELECT redis_unlock('renewed')", 't', 'and given back');
	poll_until('nobody to have it', sub { !grep { keys %{ $_->hash('renewed') } } $b, $c, $spare });
	put_back();
	point(r1 => $a);
	cut($spare);
	wait_for_rows($_, $all) foreach $near, $far;
}

# ---- two names change places

foreach my $how ('the old connections stay', 'there are none')
{
	my @now = $how eq 'there are none' ? ($a, $b) : ($b, $a);

	$one->query("SELECT redis_lock('swap')");
	$masters->wait_for_owners('swap', 3);
	point(r1 => $now[0]);
	point(r2 => $now[1]);
	cut(@now) if $how eq 'there are none';
	my $new = $far->session;
	poll_until("$how: a new session to have a lock", sub { tries($new, 'swapped') eq 't' }, 120);
	wait_for_rows($_, $all) foreach $near, $far;
	$one->query_is("SELECT redis_is_held('swap'), redis_unlock('swap')", 't|t', "$how: what was held is kept");
	$new->query('SELECT redis_unlock_all()');
	$new->quit;
	poll_until('nothing to be left', sub { !$masters->all_keys });
}

$_->quit foreach $one, $two;
nothing_left([ $near, $far ], $masters);

# ---- a reload

{
	my $node = server('reloaded', '1 h');

	wait_for_rows($node, $all);
	point(r1 => $spare);
	cut($a);
	wait_for_rows($node, 'up f, up t, up t');
	$node->set('lockredis.url' => join ' ', map { "unix://$dir/$_" } qw(r2 r1 r3));
	poll_until('other settings',
		sub { $node->value(q{SELECT string_agg(address || ' ' || state, ', ' ORDER BY node)
			FROM redis_lock_status}) eq "$dir/r2 up, $dir/r1 up, $dir/r3 up" });
	is(rows($node), 'up t, up f, up t', 'a spare has no vote by a reload');
	$node->stop;
	point(r1 => $a);
}

# ---- the control

{
	point(r1 => $spare);
	my $late = server('late');

	wait_for_rows($late, $all);
}

done_testing();
