# Copyright (c) 2026, lockredis contributors

# What one server has answered in place of another is no vote any more when that server is
# found in its own place, although all of that happens while one request is under way.
#
#   S: extends its lock: A answers by r1 that it has done so, C that it has no such lock,
#      and the connection by r2 is still being made
#   r1 is pointed to a spare, which T connects to; r2 leads to A
#   S: is connected by r2, to A, which answers once more that it has done so
#
# Proves G47.

use File::Temp qw(tempdir);
use LockRedis::Masters;
use LockRedis::Test;

my $masters = LockRedis::Masters->new(n => 3);
my ($a, $c, $spare) = $masters->nodes;
my $proxy = LockRedis::Proxy->new($a);
my $dir = tempdir('lrXXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $dir;

sub point
{
	my ($to) = @_;

	symlink $to->socket_path, "$dir/new" or die "could not link: $!";
	rename "$dir/new", "$dir/r1" or die "could not rename: $!";
	return;
}

point($a);
$proxy->mode('refuse');
my $node = LockRedis::Node->create(
	'main',
	url => join(' ', "unix://$dir/r1", $proxy->url, $c->url),
	settings => {
		'lockredis.max_lease' => '1h',
		'lockredis.connect_timeout' => limit(60) . 's',
		'lockredis.command_timeout' => limit(60) . 's'
	});
poll_until('two of three', sub {
	$node->value(q{SELECT string_agg(format('%s %s', state, in_use), ', ' ORDER BY node)
		FROM redis_lock_status}) eq 'up t, down f, up t' });

my ($one, $two) = map { $node->session } 1 .. 2;
my $watchdog = $node->watchdog_pid;

$one->query_is("SELECT redis_try_lock('k', '0', '10 min')", 't', 'had by the first and the third');
kill STOP => $watchdog;
$c->cmd('DEL', 'k');
$proxy->rule(match => 'HELLO', action => 'hold');
$proxy->mode('pass');
$one->start("SELECT redis_extend('k', '1 h')");
poll_until('the first to have lengthened it', sub { $a->cmd('PTTL', 'k') > 600_000 });

# It is known who is there instead before the answer of the second can come.
point($spare);
$two->start("SELECT redis_try_lock('x')");
# What it grants is released again when the call fails, which may be before we look.
poll_until('the spare to be asked', sub { keys %{ $spare->hash('x') } || !$two->is_running });
ok($one->is_running, 'a connection is still being made');
$proxy->clear;
$proxy->release;
isnt($one->wait(limit(120))->value // '', 't', 'what one server has said twice is no majority');
$two->wait(limit(120));

kill CONT => $watchdog;
end_test($node, $masters);
