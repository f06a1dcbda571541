# Copyright (c) 2026, lockredis contributors

# Three names, which are links to sockets, and the servers that they lead to: whoever
# connects finds another one behind a name when its link is changed.
#
# - a spare that has run for long has no vote, and why is told; nor has it by a reload that
#   changes the URLs, but not where they lead to; a lock that is renewed is kept, and the
#   spare gets it
#
# What names that change in the middle of a request, or lead to one server, come to is forced by
# the simulator (its mutants masters_two_rows, masters_former_life, masters_spare, masters_swap).
#
# Proves G47.

use File::Temp qw(tempdir);
use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 4);
my ($a, $b, $c, $spare) = $masters->nodes;
my $dir = tempdir('lrXXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $dir;

sub point ($name, $to)
{
	symlink $to->socket_path, "$dir/new" or die "could not link: $!";
	rename "$dir/new", "$dir/$name" or die "could not rename: $!";
	return;
}

sub url { return join ' ', map { "unix://$dir/$_" } @_; }

point(r1 => $a);
point(r2 => $b);
point(r3 => $c);
my $node = LockRedis::Node->create(
	'main',
	url => url(qw(r1 r2 r3)),
	settings => {
		'lockredis.max_lease' => '1 h',
		'lockredis.lease' => '9 s',
		'lockredis.connect_timeout' => '6 s',
		'lockredis.command_timeout' => '6 s'
	});

sub rows
{
	return $node->value(q{SELECT string_agg(format('%s %s %s', address, state, in_use), ', ' ORDER BY node)
		FROM redis_lock_status}) =~ s{\Q$dir\E/}{}gr;
}

sub wait_for_rows ($rows)
{
	poll_until($rows, sub { rows() eq $rows }, 120);
	return;
}

wait_for_rows('r1 up t, r2 up t, r3 up t');
my $one = $node->session;
$one->query("SELECT redis_lock('renewed')");
$masters->wait_for_owners('renewed', 3);
point(r1 => $spare);
$a->cmd('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
poll_until('the spare to have it', sub { keys %{ $spare->hash('renewed') } });
$one->query_is("SELECT redis_is_held('renewed')", 't', 'a lock that is renewed is kept');
wait_for_rows('r1 up f, r2 up t, r3 up t');
like($node->value('SELECT reason FROM redis_lock_status WHERE node = 1'),
	qr/^restarted \d+ s ago, votes in 3[56]\d\d s$/, 'a spare has no vote, and why is shown');
$c->cmd('CONFIG', 'SET', 'maxmemory', 1);
$one->query_fails("SELECT redis_try_lock('new')", '58030',
	qr/Master 1: It has no vote, since another server was there until lately/, 'and told');
$c->cmd('CONFIG', 'SET', 'maxmemory', 0);
$one->query_is("SELECT redis_unlock('renewed')", 't', 'given back');

$node->set('lockredis.url' => url(qw(r2 r1 r3)));
wait_for_rows('r2 up t, r1 up f, r3 up t');
pass('a spare has no vote by a reload');
end_test($node, $masters);
