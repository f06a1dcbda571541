# Copyright (c) 2026, lockredis contributors

# The simulator's Redis (test/simulation/redis) answers as a real one does, byte by byte, and
# has the same afterwards: each command that a script of src/kinds uses, on random arguments,
# and each of these scripts, on the same random keys.  The clock of the real one stands still
# but where the test sets it, and it removes what has ended only when a command looks for it.
# LOCKREDIS_TEST_SEED repeats a run.

use LockRedis::Test;

use Digest::SHA qw(sha1_hex);
use FindBin;
use Socket;

use constant ROUNDS => 120;
use constant BATCH => 40;

my $seed = $ENV{LOCKREDIS_TEST_SEED} || 350;
srand $seed;
note "LOCKREDIS_TEST_SEED=$seed";

# ---- both ----

package RawResp
{
	use parent -norequire, 'LockRedis::Resp';

	# A reply as it came
	sub _value
	{
		my ($self, $until) = @_;
		my $line = $self->_line($until);
		my ($type, $n) = $line =~ /^(.)(-?\d*)/;

		return $line if $type !~ /[\$*]/ || $n < 0;
		return join "\n", $line, map { $self->_value($until) } 1 .. $n if $type eq '*';
		$self->_fill($until) while length $self->{buffer} < $n + 2;
		return "$line " . substr substr($self->{buffer}, 0, $n + 2, ''), 0, $n;
	}

	sub ask
	{
		my ($self, @commands) = @_;

		return map { $self->send_command(@$_); $self->read_reply } @commands;
	}
}

package StillRedis
{
	use parent -norequire, 'LockRedis::Redis';

	sub _program
	{
		my ($self) = @_;

		return ('env', "LD_PRELOAD=$self->{config}{library}", "STILL_CLOCK=$self->{dir}/clock",
			$self->SUPER::_program);
	}

	sub _config
	{
		my ($self) = @_;
		my %config = $self->SUPER::_config;

		delete $config{library};
		# Versions before 7 have no such setting, and allow DEBUG to everybody.
		my $version = join ' ', $self->SUPER::_program, '--version';
		$config{'enable-debug-command'} = 'local' if `$version` !~ /v=[0-6]\./;
		return %config;
	}

	# The process has it mapped, so it is written in place.
	sub set_clock
	{
		my ($self, $us) = @_;

		open my $file, -e "$self->{dir}/clock" ? '+<' : '>', "$self->{dir}/clock" or die $!;
		syswrite $file, pack 'q', $us;
		close $file or die $!;
		return;
	}
}

need_tool('cc');
my $top = "$FindBin::RealBin/../..";
my $dir = PostgreSQL::Test::Utils::tempdir();
my ($library, $program) = ("$dir/still_clock.so", "$dir/check");
PostgreSQL::Test::Utils::system_or_bail('cc', '-shared', '-fPIC', '-o', $library, "$top/test/fault/still_clock.c", '-ldl');
PostgreSQL::Test::Utils::system_or_bail('cc', '-O1', '-g', '-std=gnu11', '-I/usr/include/lua5.1', '-o', $program,
	glob("$top/test/simulation/redis/*.c"), '-llua5.1', '-lcrypto', '-lm');

my $now = 1_764_000_000_123_456;
my $redis = StillRedis->new(
	start => 0,
	config => {
		library => $library,
		# Fields stay in the order in which they were set.
		'hash-max-listpack-value' => 65536,
		'hash-max-listpack-entries' => 65536
	});
$redis->set_clock($now);
$redis->start;
my $real = bless $redis->connection, 'RawResp';
my $listener = bless $redis->connection, 'RawResp';
my $version = ($redis->cmd('INFO', 'server') =~ /redis_version:(\d+)/)[0];
$listener->ask([ 'PSUBSCRIBE', '*' ]);

# Commands find a key in the last millisecond of its time.  Since Redis 8 the cycle that removes
# what nobody looks for may take it in that millisecond, so that the answer would be by chance.
$redis->cmd('DEBUG', 'SET-ACTIVE-EXPIRE', 0);

socketpair my $ours, my $its, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die $!;
my $pid = fork // die $!;
if ($pid == 0)
{
	open STDIN, '<&', $its or die $!;
	open STDOUT, '>&', $its or die $!;
	close $ours;
	exec $program or die $!;
}
close $its;
my $model = bless { socket => $ours, buffer => '', timeout => 30 }, 'RawResp';

# Before Redis 7 errors of scripts have other words.
sub comparable ($reply)
{
	$reply =~ s/^-([A-Z]+).*/-$1/mg if $version < 7;
	return $reply;
}

# ---- what is asked ----

my @keys = map { "k$_" } 1 .. 3;
my @owners = map { "6e3f:$_" } 1 .. 4;
my @ids = map { "\x00\x80id of 16 byte$_" } 1 .. 4;
my @tickets = map { "ticket $_" } 1 .. 9;
my @tokens = map { "token $_" } 1 .. 3;

# Versions of Redis differ in how they write numbers of Lua that are not exact, in what is a
# number of a sorted set, and in whether * is a pattern of the empty channel.  Nothing of this
# is sent by lockredis, so it is left out where Redis differs from the simulator.
my $as_7 = $redis->cmd('EVAL', "return redis.call('ECHO', 2 ^ 63)", 0) =~ /e/;
my $spaces = eval { $redis->cmd('ZCOUNT', 'nothing', ' 1', 2) + 1 };
my $heard = $redis->cmd('PUBLISH', '', 'x');
$listener->read_reply if $heard;
my @numbers = (0, 1, 1, 2, 3, -1, 7, 1000, '9007199254740993',
	$as_7 ? ('9223372036854775807', '-9223372036854775808') : ());
my @odd = ($heard ? '' : (), 'x', '007', '-0', '+1', $spaces ? ' 1' : (), '1 ', '1.5', 'inf', '(3',
	"\x00", '99999999999999999999', 'y' x 2000);

sub any { return $_[ rand @_ ]; }

sub chance { return rand() < $_[0]; }

sub lease { return any(1, 10, 500, 3000, 3000, 30000, 3600000); }

sub late { return int($now / 1000) + any(5000, 5000, 5000, 5000, -1, 0); }

# Names of what there is of a lock
my %name = (
	lock => '%s', counter => 'redisson_lock_token:{%s}', channel => 'redisson_lock__channel:{%s}',
	queue => 'redisson_lock_queue:{%s}', scores => 'redisson_lock_timeout:{%s}',
	places => 'lockredis_places:{%s}', writers => 'lockredis_writers:{%s}',
	rwchannel => 'redisson_rwlock:{%s}', permits => '{%s}:timeout', pchannel => 'redisson_sc:{%s}',
	tickets => 'lockredis_tickets:{%s}', topic => 'lockredis_topic:{%s}',
	waiting => 'lockredis_waiting:{%s}', alive => 'lockredis_alive:{%s}', told => 'lockredis_told:{%s}',
	begin => '{%s}');

sub all_names
{
	return map {
		my $key = $_;
		((map { sprintf $name{$_}, $key } sort keys %name), map { "{$key}:$_:rwlock_timeout:1" } @owners)
	} @keys;
}

# A word of a specification: a name, or an argument; "k" and "o": of this key and owner
sub word ($what, $k, $o)
{
	return sprintf $name{$what}, $k if $name{$what};
	return "{$k}:$o:rwlock_timeout:1" if $what eq 'timeout';
	return any('PUBLISH', 'PUBLISH', $version < 7 ? () : 'SPUBLISH') if $what eq 'publish';
	return any('', 'PUBLISH') if $what eq 'mute';
	return $o if $what eq 'owner';
	return any('', '', "$o:write") if $what eq 'beside';
	return any(@tokens) if $what eq 'token';
	return sha1_hex(any(@tokens)) if $what eq 'digest';
	return any(@ids) if $what eq 'id';
	return any(@tickets) if $what eq 'ticket';
	return lease() if $what eq 'lease';
	return any(0, lease()) if $what eq 'maybe';
	return any(0, int($now / 1000) - int rand 1000) if $what eq 'since';
	return late() if $what eq 'late';
	return any(0, 1, 1, 2, 3, 5) if $what eq 'n';
	return any(0, 5, 1000, 9007199254740990) if $what eq 'floor';
	return any(0, 1) if $what eq 'flag';
	return any(qw(init set add drain delete what)) if $what eq 'change';
	return any('', $o) if $what eq 'giver';
	return any('', @owners) if $what eq 'here';
	return any($o, digest_of($k)) if $what eq 'holder';
	return $what;
}

# As the last inspect.lua of the key has told
my %digest;

sub digest_of { return $digest{ $_[0] } || 'none'; }

# Keys; arguments.  In brackets: once for each lock, else once; with ? or not at all.
my %script = (
	'reentrant create' => [ 'lock counter?', 'lease owner late n?' ],
	'reentrant release' => [ '[lock]', '[owner channel] [mute maybe]?' ],
	'reentrant renew' => [ '[lock]', '[owner lease] [1]?' ],
	'reentrant mint' => [ 'lock counter', 'owner floor n' ],
	'reentrant force' => [ 'lock', 'publish 1 holder rwchannel begin pchannel channel' ],
	'reentrant inspect' => [ 'lock', 'begin' ],
	'reentrant together' => [ '[lock]', 'lease late [owner]' ],
	'read create' => [ 'lock timeout writers', 'lease owner late since beside' ],
	'read release' => [ '[lock rwchannel timeout]', 'publish [owner begin]' ],
	'read renew' => [ '[lock timeout]', '[owner maybe] [1]?' ],
	'write create' => [ 'lock writers counter?', 'lease owner late maybe since n?' ],
	'write release' => [ '[lock rwchannel writers]', 'publish [owner begin]' ],
	'write renew' => [ '[lock]', '[owner maybe] [1]?' ],
	'write mint' => [ 'lock counter', 'owner floor n' ],
	'fair create' => [ 'lock channel queue scores places', 'publish 1 lease owner late maybe here' ],
	'fair release' => [ '[lock channel queue scores places]', 'publish 1 [owner maybe]' ],
	'token create' => [ 'lock', 'lease token late' ],
	'token set' => [ 'lock', 'digest maybe 1?' ],
	'token release' => [ '[lock]', 'mute 1 [digest channel]' ],
	'permit create' => [ 'lock permits pchannel', 'publish lease id late' ],
	'permit renew' => [ '[lock permits pchannel]', 'publish [id maybe] [1]?' ],
	'permit release' => [ '[lock permits pchannel]', 'publish [id]' ],
	'permit define' => [ 'lock permits pchannel', 'publish late change n' ],
	'semaphore create' => [ 'lock tickets', 'late n ticket' ],
	'semaphore release' => [ '[lock tickets pchannel]', 'publish [n ticket]' ],
	'semaphore define' => [ 'lock pchannel', 'publish late change n maybe' ],
	'semaphore value' => [ 'lock', '' ],
	'semaphore count' => [ 'lock tickets pchannel', 'publish n ticket' ],
	'latch create' => [ 'lock', '' ],
	'latch define' => [ 'lock pchannel', 'publish late change n' ],
	'latch value' => [ 'lock', '' ],
	'latch count' => [ 'lock tickets pchannel', 'publish n ticket' ],
	'condition create' => [ 'lock channel topic waiting alive told', 'publish 1 owner late lease maybe giver' ],
	'condition renew' => [ '[topic waiting alive told]', 'publish 1 [owner lease]' ],
	'condition release' => [ '[topic waiting alive told]', 'publish 1 [owner flag]' ],
	'condition notify' => [ 'lock topic waiting alive told', 'publish 1 owner n' ]);

my %text = map {
	my ($kind, $verb) = m{([^/]+)/([^/]+)\.lua$};
	my ($text) = PostgreSQL::Test::Utils::run_command([ "$top/script/embed-lua", 'text', $_ ]);

	"$kind $verb" => $text
} grep { !m{/prelude/} } glob "$top/src/kinds/*/*.lua";
is(join("\n", sort keys %script), join("\n", sort keys %text), 'each script is tried');

# What is in brackets, for each lock
sub words ($spec, @locks)
{
	my @words;

	$spec =~ s/(\w+|\[[^]]*\])\?/chance(0.3) ? $1 : ''/ge;
	while ($spec =~ /\[(.*?)\]|(\w+)/g)
	{
		my ($each, $one) = ($1, $2);

		push @words, word($one, @{ $locks[0] }) if defined $one;
		next unless defined $each;
		foreach my $lock (@locks)
		{
			push @words, map { word($_, @$lock) } split ' ', $each;
		}
	}
	return @words;
}

sub random_script ($which)
{
	my ($keys, $args) = @{ $script{$which} };
	my $n = $keys =~ m{\[} ? 1 + int rand 3 : 1;
	my @locks = map { [ any(@keys), any(@owners) ] } 1 .. $n;
	my @keys_given = words($keys, @locks);
	my @args_given = words($args, @locks);

	$args_given[ rand @args_given ] = any(@odd, @numbers) if @args_given && chance(0.04);
	return [ 'EVAL', $text{$which}, scalar @keys_given, @keys_given, @args_given ];
}

# Of each command the words that it may have; "|": or these
my %command = (
	TYPE => [ 'name' ], EXISTS => [ 'name', 'name name', 'name name name' ], DEL => [ 'name', 'name name' ],
	PTTL => [ 'name' ], PEXPIRE => [ 'name ms', 'name ms', 'name ms GT' ], TIME => [ '' ],
	PUBLISH => [ 'name member' ], SPUBLISH => [ 'name member' ], GET => [ 'name' ], STRLEN => [ 'name' ],
	SET => [ 'name value', 'name value PX ms', 'name value NX PX ms', 'name value KEEPTTL', 'name value NX',
		'name value KEEPTTL PX ms', 'name value PX' ],
	INCR => [ 'name' ], INCRBY => [ 'name int' ], DECRBY => [ 'name int' ],
	HSET => [ 'name member value', 'name member value mode read', 'name member value mode' ],
	HDEL => [ 'name member', 'name member member' ], HGET => [ 'name member' ], HEXISTS => [ 'name member' ],
	HSTRLEN => [ 'name member' ], HLEN => [ 'name' ], HKEYS => [ 'name' ],
	RPUSH => [ 'name member', 'name member member' ], LPOP => [ 'name' ], LINDEX => [ 'name int' ],
	LPOS => [ 'name member' ], LRANGE => [ 'name int int' ], LREM => [ 'name int member' ],
	ZADD => [ 'name score member' ], ZREM => [ 'name member', 'name member member' ],
	ZSCORE => [ 'name member' ], ZCARD => [ 'name' ], ZCOUNT => [ 'name bound bound' ],
	ZRANGE => [ 'name int int', 'name int int WITHSCORES' ],
	ZRANGEBYSCORE => [ 'name bound bound', 'name bound bound WITHSCORES LIMIT int int', 'name bound bound LIMIT int int' ],
	ZREMRANGEBYSCORE => [ 'name bound bound' ]);
delete $command{SPUBLISH} if $version < 7;

my %used = map { $_ => 1 } map { /call\('([A-Z]+)'/g } values %text;
is(join(' ', grep { !$command{$_} } sort keys %used), '', 'each command of a script is tried');

my @names = all_names();

sub argument ($what)
{
	return any(@odd) if $what =~ /^[a-z]/ && $what ne 'name' && chance(0.03);
	return any(any(@names), any(@keys), any(map { "s$_" } 1 .. 6)) if $what eq 'name';
	return any(@owners, "$owners[0]:write", 'mode', any(@odd), any(@tickets), any(@ids)) if $what eq 'member';
	return any(any(@numbers), any(@owners), any(@tokens), any(@odd)) if $what eq 'value';
	return any(@numbers) if $what eq 'int';
	return any(lease(), lease(), 0, -5, any(@numbers)) if $what eq 'ms';
	return any(any(1 .. 9), int($now / 1000) + int rand 5000, '-inf', 'inf', '1e3') if $what eq 'score';
	return any('-inf', '+inf', any('', '(') . any(1 .. 9, int($now / 1000) + int rand 5000)) if $what eq 'bound';
	return $what;
}

sub random_command ($which)
{
	my @words = ($which, map { argument($_) } split ' ', any(@{ $command{$which} }));

	pop @words if @words > 1 && chance(0.01);
	return \@words if chance(0.5) || $words[0] =~ /^S?PUBLISH/;
	return [ 'EVAL', any('return redis.call(unpack(ARGV))', 'return {redis.pcall(unpack(ARGV)), 1}',
			'local a = redis.pcall(unpack(ARGV)) return {type(a), a}',
			'return tonumber(redis.call(unpack(ARGV))) + 1'), 0, @words ];
}

# ---- what is there ----

my $listing = <<'LUA';
local all = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local what = {}
  if kind == 'string' then
    what = redis.call('GET', key)
  elseif kind == 'hash' then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      what[#what + 1] = field
      what[#what + 1] = redis.call('HGET', key, field)
    end
  elseif kind == 'list' then
    what = redis.call('LRANGE', key, 0, -1)
  else
    what = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  end
  all[i] = {key, kind, redis.call('PTTL', key), what}
end
return all
LUA

# Lists are alike even if one has elements in another order: what is there by name
sub names_of ($conn)
{
	my ($reply) = $conn->ask([ 'KEYS', '*' ]);

	return sort map { /^\$\d+ (.*)/s ? $1 : () } split /\n(?=\$)/, $reply;
}

sub state_of ($conn)
{
	my @there = names_of($conn);

	return join "\n", $conn->ask([ 'EVAL', $listing, scalar @there, @there ]);
}

# ---- the run ----

my (%tried, %worked);

sub batch
{
	my @asked;

	foreach (1 .. BATCH)
	{
		my $which = chance(0.55) ? any(sort keys %script) : any(sort keys %command);
		my $command = $script{$which} ? random_script($which) : random_command($which);

		push @asked, [ $which, $command ];
	}
	return @asked;
}

sub shown
{
	my ($which, @words) = ($_[0][0], @{ $_[0][1] });

	$words[1] = "<$which>" if $script{$which};
	return join ' ', map { s/[^ -~]/?/gr } @words;
}

sub set_clock
{
	$now += any(0, 1000, 1_000_000, int rand 5_000_000);
	$redis->set_clock($now);
	$model->ask([ 'CLOCK', $now ]);
	return;
}

# The first answer that differs, if any
sub differs
{
	my @asked = batch();
	my @expected = map { comparable($_) } $real->ask(map { $_->[1] } @asked);
	my @got = map { comparable($_) } $model->ask(map { $_->[1] } @asked);

	foreach my $i (0 .. $#asked)
	{
		my $which = $asked[$i][0];

		$tried{$which}++;
		$worked{$which}++ if $expected[$i] !~ /^-/m;
		$digest{ $asked[$i][1][3] } = $1
		  if $which eq 'reentrant inspect' && $expected[$i] =~ /\n\$40 ([0-9a-f]{40})/;
		$digest{ $asked[$i][1][3] } = $1
		  if $which eq 'reentrant inspect' && $expected[$i] =~ /^\*4\n.*\n.*\n\$\d+ (.+)\n/;
		return shown($asked[$i]) . "\nreal: $expected[$i]\nsimulated: $got[$i]"
		  if $expected[$i] ne $got[$i];
	}
	return;
}

sub told_differs
{
	my ($told) = $model->ask([ 'TOLD' ]);
	my (undef, @simulated) = split /\n(?=\$)/, $told;
	my @heard = map { (split /\n(?=\$)/, $listener->read_reply)[ 3, 4 ] } 1 .. @simulated / 2;

	return if join('|', @heard) eq join('|', @simulated);
	return 'told: ' . join('|', @heard) . "\nsimulated: " . join('|', @simulated);
}

my $difference;
foreach my $round (1 .. ROUNDS)
{
	set_clock();
	my $full = chance(0.1);
	$redis->cmd('CONFIG', 'SET', 'maxmemory', $full ? 1 : 0);
	$model->ask([ 'MEMORY', $full ? 0 : 1 ]);
	$difference = differs() // told_differs();
	if (!defined $difference)
	{
		my ($expected, $got) = map { state_of($_) } $real, $model;

		$difference = "what is there\nreal: $expected\nsimulated: $got" if $expected ne $got;
	}
	last if defined $difference;

	# Else most is of a type that is wrong for what comes next.
	if (chance(0.3))
	{
		my @gone = grep { chance(0.5) } @names;

		$_->ask([ 'DEL', 'nothing', @gone ]) foreach $real, $model;
	}
}
$difference =~ s/[^ -~\n]/?/g if defined $difference;
is($difference, undef, 'both answer alike, tell alike and have the same');
diag "LOCKREDIS_TEST_SEED=$seed" if defined $difference;
is(join(', ', grep { !$worked{$_} } sort keys %script, keys %command),
	'', 'each was tried and has worked');
note map { "$_: $tried{$_}, @{[ $worked{$_} || 0 ]} without an error\n" } sort keys %tried;

close $ours;
waitpid $pid, 0;
is($?, 0, 'the simulated one has ended well');

done_testing();
