# Copyright (c) 2026, lockredis contributors

# The map of a Redis Cluster as its nodes tell it: as large as that of a thousand nodes and
# of slots that are dealt out one by one is, and the log says so if it cannot be used; one
# that has a slot twice is none.  And a number of a claim that rose by mistake, once, does not keep
# a slot at a node that is gone: what most masters say of that counts.

use LockRedis::FakeNode;
use LockRedis::Test;

# Nodes that say of the cluster what they are told to say.
sub answer
{
	my ($now, $command, $what) = map { ref ? $_ : uc($_ // q()) } @_[ 0 .. 2 ];

	if ($command eq 'HELLO')
	{
		my @fields = (server => 'redis', version => '7.0.15', mode => 'cluster', role => 'master');
		return '*' . @fields . "\r\n" . join '', map { bulk($_) } @fields;
	}
	return bulk($now->{map}) if $command eq 'CLUSTER' && $what eq 'NODES';
	return bulk($now->{id}) if $command eq 'CLUSTER';
	return '*2' . "\r\n" . bulk(time) . bulk(0) if $command eq 'TIME';
	return bulk('') if $command eq 'INFO';
	return "+OK\r\n";
}
sub bulk ($text) { return '$' . length($text) . "\r\n$text\r\n"; }

my @fakes = map { LockRedis::FakeNode->new(node => { answer => \&answer }) } 1 .. 4;
my @ids = map { $_ x 40 } 'a' .. 'd';
my $node = LockRedis::Node->create('main', start => 0,
	url => 'redis-cluster://' . join ',', map { $_->address } @fakes[ 0 .. 2 ]);

# id address flags master ping pong number link slots...
sub line ($number, %of)
{
	return join(' ', $of{id} // $ids[$number], ($of{at} // $fakes[$number]->address) . '@1',
		$of{flags} // 'master', $of{of} // '-', 0, 0, $of{epoch} // $number + 1, 'connected',
		$of{slots} // ()) . "\n";
}

# What the one with this number tells of all of them; it says "myself" of itself.
sub says ($number, @lines)
{
	my $map = join '', map {
		my %of = %{ $lines[$_] };
		line($_, %of, flags => ($_ == $number ? 'myself,' : '') . ($of{flags} // 'master'))
	} 0 .. $#lines;

	return $fakes[$number]->behave('node', map => $map, id => $ids[$number]);
}

sub all_say (@lines) { says($_, @lines) foreach 0 .. 2; return; }

sub is_heard ($number)
{
	my $before = $fakes[$number]->answered('CLUSTER');

	return poll_until("number $number to have been heard",
		sub { $fakes[$number]->answered('CLUSTER') > $before + 3 });
}

# ---- a thousand nodes, 64 of them masters, which have each 64th slot

my @slots;
push @{ $slots[ $_ % 64 ] }, $_ foreach 0 .. 16383;
my @large = map { { slots => join ' ', @{ $slots[$_] } } } 0 .. 63;
foreach my $number (3 .. 999)
{
	$large[$number] = { %{ $large[$number] || {} },
		id => sprintf('%040x', $number), epoch => $number % 64 + 1, at => "127.0.0.1:$number",
		$number < 64 ? () : (flags => 'slave', of => $number % 64 < 3 ? $ids[ $number % 64 ] :
			sprintf('%040x', $number % 64)) };
}
all_say(@large);
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lockredis');
$node->wait_until_logged(qr/the cluster has 64 masters, which have 16384 slots/);
my $masters = q{SELECT count(*) FROM redis_lock_status WHERE role = 'master'};
is($node->value($masters), 64, 'they are shown');
cmp_ok($node->value(q{SELECT count(*) FROM redis_lock_status WHERE role = 'replica'}), '>=', 64,
	'and replicas');

# ---- what is no map changes nothing, and is logged

sub is_no_map ($name, $reason, @lines)
{
	$node->stop;
	$node->log_since_here;
	all_say(@lines);
	$node->start;
	$node->wait_until_logged(qr/the map of the cluster cannot be used\n.*DETAIL: .*(?:$reason)/);
	ok(!$node->logged(qr/the cluster has/), "$name: it is no map");
	return;
}

is_no_map('each slot many times', 'makes no sense', { slots => '0-16383 ' x 2000 }, {}, {});
is_no_map('a slot of two masters', 'makes no sense', { slots => '0-16383' }, { slots => '7' }, {});
is_no_map('a slot that is none', 'makes no sense', { slots => '0-16384' }, {}, {});
is_no_map('ten thousand nodes', 'makes no sense', { slots => '0-16383' }, {}, {},
	map { { id => sprintf('%040x', $_), at => "127.0.0.1:$_" } } 3 .. 3000);
is_no_map('more than a megabyte', q{larger than|not in Redis's protocol}, { slots => '0-16383' }, {},
	{ slots => "[1->-$ids[0]] " x 40_000 });

# ---- a number that rose by mistake

my @thirds = ('0-4999', '5000-9999', '10000-16383');
my @lines = map { { slots => $_ } } @thirds;

$node->stop;
$node->log_since_here;
all_say(@lines);
$node->start;
$node->wait_until_logged(qr/the cluster has 3 masters, which/);
$fakes[0]->stop;
$lines[0]{epoch} = 9_000_000;
says(2, @lines);
is_heard(2);

# B says that it is lower, longer than others have to learn of a new number.
pause(11);
is_heard(1);
$fakes[1]->stop;

# D takes the place of B, and says nothing yet.
$lines[1] = { flags => 'slave', of => $ids[3] };
$lines[3] = { epoch => 10, slots => $thirds[1] };
says(2, @lines);
$node->wait_until_logged(qr/the cluster has 3 masters now, 5000 slots moved/);

# C says that it is lower: one of three masters.
$lines[0] = { epoch => 1, flags => 'master,fail' };
$lines[2] = { epoch => 12, slots => "$thirds[0] $thirds[2]" };
says(2, @lines);
is_heard(2);
is($node->value($masters), 3, 'what a former master said does not count');

# D, too: two of three.
says(3, @lines);
$node->wait_until_logged(qr/the cluster has 2 masters now, 5000 slots moved/);

$node->stop;
$_->stop foreach @fakes;
done_testing();
