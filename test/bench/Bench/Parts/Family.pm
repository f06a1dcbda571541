# Copyright (c) 2026, lockredis contributors

# Kinds of locks: what a pair of each sends and how fast it is, readers of one key, a
# fenced and a fair lock that many want, what it costs to renew all; and the bars for that.

package Bench::Parts::Family;

use strict;
use warnings FATAL => 'all';

use Bench::Backends;
use Bench::Meter;
use Bench::Parts::Held;
use Bench::Run qw(median);
use LockRedis::Test;

# Each kind: how it is taken and given back, with the key; what has to be there; what
# Redisson's is called in RedissonPeer.java, or who else has the same; and the bar for its
# rate, in pairs of the reentrant lock.
my @kinds = (
	{
		name => 'reentrant', redisson => 'lock',
		take => 'redis_lock(%s)', give_back => 'redis_unlock(%s)'
	},
	{
		name => 'fair', redisson => 'fair', must => 0.8,
		take => 'redis_fair_lock(%s)', give_back => 'redis_unlock(%s)'
	},
	{
		name => 'read', redisson => 'read', must => 0.8,
		take => 'redis_read_lock(%s)', give_back => 'redis_read_unlock(%s)'
	},
	{
		name => 'write', redisson => 'write', must => 0.8,
		take => 'redis_write_lock(%s)', give_back => 'redis_write_unlock(%s)'
	},
	{
		name => 'permit', redisson => 'permit', must => 0.8,
		prepare => 'redis_permit_init(%s, 1)',
		take => 'redis_permit_lock(%s)', give_back => 'redis_permit_unlock(%s)'
	},
	{
		name => 'token', beside => 'redis_py',
		take => "redis_token_lock(%s, '30s', 'bench')",
		give_back => "redis_token_unlock(%s, 'bench')"
	},
	{
		name => 'semaphore', redisson => 'semaphore',
		prepare => 'redis_semaphore_init(%s, 1)',
		take => 'redis_semaphore_acquire(%s)', give_back => 'redis_semaphore_release(%s)'
	},
	{
		name => 'latch', redisson => 'latch',
		take => 'redis_latch_init(%s, 1)', give_back => 'redis_latch_count_down(%s)'
	});

sub parts { return qw(pairs multi conditions readers fenced fair places renewal); }

sub new
{
	my ($class, $run, $against) = @_;
	my $self = bless { run => $run, bars => [], redisson => $run->contender('redisson') },
	  $class;

	$self->{here} = [ grep { $self->_has($_) } @kinds ];
	$self->{before} = $self->_server_before($against) if defined $against;
	return $self;
}

# Has this lockredis such a kind?
sub _has
{
	my ($self, $kind) = @_;
	my ($function) = $kind->{take} =~ /^(\w+)/;

	return $self->{run}{near}
	  ->value("SELECT count(*) FROM pg_proc WHERE proname = '$function'");
}

sub _server_before
{
	my ($self, $install_path) = @_;
	my $run = $self->{run};
	my $node = LockRedis::Node->create(
		'before',
		redis => $run->{redis},
		install_path => $install_path,
		settings => { log_statement => 'none' });

	Bench::Backends->create_functions($node, "$run->{programs}/probe.so");
	$node->wait_for_up;
	return $node;
}

sub bars { my ($self) = @_; return @{ $self->{bars} }; }

# A bar: is it reached, and by how much?
sub _bar
{
	my ($self, $met, $format, @args) = @_;

	push @{ $self->{bars} }, sprintf '%-6s  ' . $format, $met ? 'met' : 'missed', @args;
	return;
}

# Sessions that take and give back one lock by turns.
sub _sessions
{
	my ($self, $kind, %more) = @_;

	return Bench::Backends->new(
		kind => $kind->{name},
		node => $self->{run}{near},
		board => $self->{run}{board},
		loop => [ map { s{%s}{bench_key()}r } @$kind{qw(take give_back)} ],
		%more);
}

# What one contender does in a slice
sub _slice
{
	my ($self, $seconds, $contender, %work) = @_;
	my ($done) = $self->{run}->slice($seconds, [ [ $contender, clients => 1, mode => 'own', %work ] ]);

	return $done;
}

# Rates of each round by name.  The list has names and code that gives the result of a
# slice; another goes first each time.
sub _rounds
{
	my ($self, @turns) = @_;
	my @seen;

	$_->[1]->() foreach @turns;
	foreach my $round (1 .. $self->{run}->size('rounds'))
	{
		push @turns, shift @turns;
		push @seen, { map { $_->[0] => $_->[1]->()->{rate} } @turns };
	}
	return \@seen;
}

# How often one does what the other does once: the median over the rounds
sub _ratio
{
	my ($seen, $one, $other) = @_;

	return median(map { $_->{$other} ? $_->{$one} / $_->{$other} : 0 } @$seen);
}

sub _rate
{
	my ($seen, $name) = @_;

	return median(map { $_->{$name} } @$seen);
}

# ---- a pair of each kind ----

sub pairs
{
	my ($self) = @_;
	my $run = $self->{run};
	my @turns;

	$run->warm_up;
	foreach my $kind (@{ $self->{here} })
	{
		my $sessions = $self->_sessions($kind);
		my $prefix = "family:$kind->{name}";

		$run->{near}->value('SELECT ' . sprintf $kind->{prepare}, "'$prefix:0'")
		  if $kind->{prepare};
		$kind->{slice} =
		  sub { return $self->_slice($_[0] // $run->size('slice'), $sessions, prefix => $prefix) };
		$kind->{sessions} = $sessions;
		push @turns, [ $kind->{name} => $kind->{slice} ];
		my $other = $run->contender($kind->{beside} // 'redisson');
		next unless $other && ($kind->{beside} || $kind->{redisson});
		push @turns, [ "beside $kind->{name}" => sub {
				return $self->_slice($run->size('slice'), $other,
					prefix => "beside:$kind->{name}",
					$kind->{redisson} ? (kind => $kind->{redisson}) : ());
			} ];
	}
	if ($self->{before})
	{
		my $sessions = $self->_sessions($kinds[0], node => $self->{before});

		push @turns, [ before => sub {
				return $self->_slice($run->size('slice'), $sessions, prefix => 'before');
			} ];
	}
	my $seen = $self->_rounds(@turns);
	foreach my $kind (@{ $self->{here} })
	{
		$self->_say_pair($kind, $seen);
	}
	if ($self->{before})
	{
		my $ratio = _ratio($seen, 'reentrant', 'before');

		$self->_bar($ratio >= 0.97, 'reentrant pair, before and after: %.3f times the rate'
			  . ' (must 0.97; medians %.0f and %.0f a second)',
			$ratio, map { _rate($seen, $_) } qw(before reentrant));
	}
	return;
}

sub _say_pair
{
	my ($self, $kind, $seen) = @_;
	my $run = $self->{run};
	my $name = $kind->{name};
	my $done;

	$kind->{sessions}->choose(1);
	my $calls = Bench::Meter::system_calls([ $kind->{sessions}->pids ],
		sub { $done = $kind->{slice}->($run->size('trace_slice')) });
	my $system = 0;
	if ($calls && $done->{steps})
	{
		$system += $_ / $done->{steps} foreach values %$calls;
	}
	my $per_pair = $self->_commands_of($kind) / 20;
	my $ratio = _ratio($seen, $name, 'reentrant');

	$run->say('%-12s %-10s %8.0f pairs/s, %.2f times reentrant; %.2f commands,'
		  . ' %.2f system calls a pair%s',
		'pairs', $name, _rate($seen, $name), $ratio, $per_pair, $system,
		exists $seen->[0]{"beside $name"}
		? sprintf('; %s %.0f pairs/s, %.2f times its', $kind->{beside} // 'Redisson',
			_rate($seen, "beside $name"), _ratio($seen, $name, "beside $name"))
		: '');
	$self->_bar($per_pair == 2, 'a pair, %s: %.2f commands (must 2), %.2f system calls',
		$name, $per_pair, $system);
	$self->_bar($ratio >= $kind->{must}, 'a pair, %s: %.2f times the rate of reentrant (must %.1f)',
		$name, $ratio, $kind->{must})
	  if $kind->{must};
	return;
}

# Client commands of twenty pairs
sub _commands_of
{
	my ($self, $kind) = @_;
	my ($session) = Bench::Backends->sessions($self->{run}{near}, 1);
	my ($take, $give_back) = map { s{%s}{'family:$kind->{name}:0'}r } @$kind{qw(take give_back)};
	my $sum = 0;
	my $sent = Bench::Meter::commands($self->{run}{redis}, sub {
			my $done = $session->query("DO \$\$ BEGIN FOR i IN 1..20 LOOP PERFORM $take;"
				  . " PERFORM $give_back; END LOOP; END \$\$");

			die "$kind->{name}: $done->{raw}\n" if $done->{raw} ne '';
		});

	$sum += $_ foreach values %$sent;
	return $sum;
}

# ---- several keys at once ----

sub multi
{
	my ($self) = @_;
	my $run = $self->{run};
	my $keys = "'{" . join(',', map { "multi:$_" } 0 .. 9) . "}'::text[]";
	my $together = $self->_sessions({
			name => 'multi',
			take => "redis_multi_lock($keys)",
			give_back => "redis_multi_unlock($keys)"
		});
	my $single = $self->_sessions({ name => 'ten', take => '', give_back => '' },
		statement => 'DO $$ BEGIN WHILE bench_next() LOOP PERFORM bench_locked();'
		  . " FOR i IN 0 .. 9 LOOP PERFORM redis_lock('multi:' || i);"
		  . " PERFORM redis_unlock('multi:' || i); END LOOP;"
		  . ' PERFORM bench_unlocking(); END LOOP; END $$');
	my @turns = ([ multi => sub {
				return $self->_slice($run->size('slice'), $together, prefix => 'multi') } ],
		[ ten => sub {
				return $self->_slice($run->size('slice'), $single, prefix => 'multi') } ]);
	push @turns, [ Redisson => sub {
				return $self->_slice($run->size('slice'), $self->{redisson},
					prefix => 'redisson:multi', kind => 'multi') } ]
	  if $self->{redisson};
	my $seen = $self->_rounds(@turns);
	my ($session) = Bench::Backends->sessions($run->{near}, 1);
	my $sent = Bench::Meter::commands($run->{redis}, sub {
			$session->query("SELECT redis_multi_lock($keys); SELECT redis_multi_unlock($keys)");
		});
	my $commands = 0;
	$commands += $_ foreach values %$sent;
	my $ratio = _ratio($seen, 'multi', 'ten');

	$run->say('%-12s %s', 'multi', join ', ', map { sprintf '%s %.0f/s', $_, _rate($seen, $_) }
		  sort keys %{ $seen->[0] });
	$self->_bar($commands == 2, 'ten keys at once: %d commands (must 2)', $commands);
	$self->_bar($ratio >= 4, 'ten keys at once: %.1f times the rate of ten pairs (must 4)', $ratio);
	return;
}

# ---- a monitor ----

# Two sessions of two servers that wait for each other by turns.  Redisson has none.
sub conditions
{
	my ($self) = @_;
	my $run = $self->{run};
	my $turns = $run->size('turns');
	my @sessions =
	  map { my ($session) = Bench::Backends->sessions($_, 1); $session } @$run{qw(near other)};
	my $turn = q{DO $$ BEGIN PERFORM redis_lock('monitor'); FOR i IN 1..%d LOOP}
	  . q{ PERFORM redis_condition_notify('monitor');}
	  . q{ PERFORM redis_condition_wait('monitor', '1s'); END LOOP;}
	  . q{ PERFORM redis_condition_notify('monitor'); PERFORM redis_unlock('monitor'); END $$};
	my $seconds;
	my $sent = Bench::Meter::commands($run->{redis}, sub {
			$_->start(sprintf $turn, $turns) foreach @sessions;
			foreach my $session (@sessions)
			{
				my $done = $session->wait(600);

				die "conditions: $done->{raw}\n" if $done->{raw} ne '';
				$seconds = $done->ms / 1000;
			}
		});
	my $commands = 0;

	$commands += $_ foreach values %$sent;
	$run->say('%-12s two sessions of two servers by turns: %.0f waits/s, %.2f commands a wait',
		'conditions', 2 * $turns / $seconds, $commands / 2 / $turns);
	return;
}

# ---- readers of one key ----

sub readers
{
	my ($self) = @_;
	my $run = $self->{run};
	my ($kind) = grep { $_->{name} eq 'read' } @{ $self->{here} };
	my $sessions = $self->_sessions($kind);
	my $questions = 0;
	my $one = sub {
		my $before = $run->{redis}->calls('pttl');
		my $done = $self->_slice($run->size('slice'), $sessions, clients => 16,
			prefix => 'readers', mode => 'hot');
		$questions = ($run->{redis}->calls('pttl') - $before) / ($done->{steps} || 1);
		return $done;
	};
	my $seen = $self->_rounds([ one => $one ],
		[ own => sub {
				return $self->_slice($run->size('slice'), $sessions, clients => 16,
					prefix => 'readers');
			} ]);
	my $ratio = _ratio($seen, 'one', 'own');

	$run->say('%-12s of one key %.0f pairs/s, of keys of their own %.0f; %.1f PTTL a pair',
		'readers', _rate($seen, 'one'), _rate($seen, 'own'), $questions);
	$self->_bar($ratio >= 0.9,
		'16 readers of one key: %.2f times the rate of 16 with keys of their own (must 0.9)', $ratio);
	return;
}

# ---- a lock that all want, beside the plain one ----

sub fenced
{
	my ($self) = @_;

	$self->_beside_plain('fenced', rate => 0.8, scripts => 0.2);
	return;
}

# At three distances from Redis
sub _beside_plain
{
	my ($self, $kind, %must) = @_;
	my $run = $self->{run};
	my $port = $run->{redis}->port;
	my $lock = "${kind}_lock";
	my %sessions = map {
		$_ => $self->_sessions({ name => $_, take => "redis_$_(%s)", give_back => 'redis_unlock(%s)' })
	} 'lock', $lock;

	foreach my $way ([ 0, $port ], [ 1, $run->{proxy_port} ], [ 10, $run->start_proxy($port, 5000) ])
	{
		my ($ms, $at) = @$way;
		my %sum = (commands => 0, steps => 0, lost_updates => 0);
		my @turns = map {
			my $name = $_;

			[ $name => sub {
				my $done = $self->_slice($run->size('slice'), $sessions{$name},
					prefix => "hot:$name", mode => 'hot', clients => 16);

				$sum{$_} += $name eq 'lock' ? 0 : $done->{$_} foreach keys %sum;
				return $done;
			} ]
		} sort keys %sessions;

		push @turns, [ Redisson => sub {
				return $self->_slice($run->size('slice'), $self->{redisson},
					prefix => "redisson:$kind", mode => 'hot', clients => 16,
					kind => $kind, port => $at);
			} ]
		  if $must{redisson} && $self->{redisson};
		$run->move_servers($at);
		my $seen = $self->_rounds(@turns);
		my $ratio = _ratio($seen, $lock, 'lock');
		my $scripts = $sum{commands} / ($sum{steps} || 1);

		$run->say('%-12s 16 sessions, %d ms away: %s; %.3f scripts a pair',
			$kind, $ms, join(', ', map { sprintf '%s %.0f pairs/s', $_->[0], _rate($seen, $_->[0]) } @turns),
			$scripts);
		$self->_bar(
			$sum{steps} > 0 && $scripts <= $must{scripts} && $ratio >= $must{rate}
			  && $sum{lost_updates} == 0,
			'a %s lock that 16 want, %d ms away: %.2f times the rate of a plain one (must %.1f),'
			  . ' %.3f scripts a pair (must %.1f), %d lost updates',
			$kind, $ms, $ratio, $must{rate}, $scripts, $must{scripts}, $sum{lost_updates});
		next unless exists $seen->[0]{Redisson};
		my $times = _ratio($seen, $lock, 'Redisson');
		$self->_bar($times >= $must{redisson},
			'a %s lock that 16 want, %d ms away: %.1f times the rate of Redisson\'s (must %d)',
			$kind, $ms, $times, $must{redisson});
	}
	$run->move_servers($port);
	return;
}

# ---- a fair lock that all want ----

sub fair
{
	my ($self) = @_;

	$self->_beside_plain('fair', rate => 0.5, scripts => 2, redisson => 3);
	$self->_among_servers;
	return;
}

sub _among_servers
{
	my ($self) = @_;
	my $run = $self->{run};
	my ($kind) = grep { $_->{name} eq 'fair' } @{ $self->{here} };
	my %work = (prefix => 'fair', mode => 'hot', clients => 8);

	$run->warm_up;
	my @entries = (
		[ $self->_sessions($kind), %work ],
		[ $self->_sessions($kind, node => $run->{other}), %work, base => 8 ]);

	push @entries, [ $self->{redisson}, %work, base => 16, kind => 'fair' ]
	  if $self->{redisson};
	# Without the texts of scripts
	$run->slice($run->size('slice'), \@entries);
	my $monitor = $run->{redis}->monitor;
	my @done = $run->slice($run->size('fair_slice'), \@entries);
	my @lines = $monitor->stop;
	my %ours = map { $_->{addr} => 1 } grep { $_->{name} =~ /^lockredis-/ } $run->{redis}->clients;
	my %scripts = (ours => 0, others => 0);
	foreach my $line (grep { /^[\d.]+ \[[^\]]+\] "eval/i } @lines)
	{
		my ($address) = $line =~ /\[\d+ (.+?)\]/;
		$scripts{ $ours{$address} ? 'ours' : 'others' }++;
	}
	my $pairs = $done[0]{steps} + $done[1]{steps};
	my $scripts = $pairs ? $scripts{ours} / $pairs : 0;

	# Redisson asks again and again while nobody has the lock and it is another one's turn.
	$run->say('%-12s 16 sessions on 2 servers: %d pairs, %.2f scripts a pair%s; lost updates: %d',
		'fair', $pairs, $scripts,
		$self->{redisson} && $done[2]{steps}
		? sprintf('; 8 threads of Redisson: %d pairs, %.2f scripts a pair', $done[2]{steps},
			$scripts{others} / $done[2]{steps})
		: '',
		$done[0]{lost_updates});
	$self->_bar($pairs > 0 && sprintf('%.2f', $scripts) <= 4 && $done[0]{lost_updates} == 0,
		'a fair lock that %d want: %.2f scripts a pair of ours (must 4), %d lost updates',
		8 * @entries, $scripts, $done[0]{lost_updates});
	return;
}

# A thousand places of a server elsewhere, and one that asks for its own behind them
sub places
{
	my ($self) = @_;
	my $run = $self->{run};
	my $redis = $run->{redis};
	my $ask = q{DO $$ BEGIN FOR i IN 1..100 LOOP PERFORM redis_try_fair_lock('places', '1ms');}
	  . ' END LOOP; END $$';
	my ($session) = Bench::Backends->sessions($run->{near}, 1);

	$redis->cmd('HSET', 'places', 'somebody:1', 1);
	$redis->cmd('PEXPIRE', 'places', 600_000);
	$redis->cmd('EVAL', q{
		local now = tonumber(redis.call('TIME')[1]) * 1000
		for i = 1, 1000 do
			local owner = 'elsewhere:' .. i
			redis.call('RPUSH', KEYS[1], owner)
			redis.call('ZADD', KEYS[2], now + 600000, owner)
			redis.call('ZADD', KEYS[3], now + 600000, owner)
		end}, 3, 'redisson_lock_queue:{places}', 'redisson_lock_timeout:{places}',
		'lockredis_places:{places}');
	$session->query($ask);
	my @limit = @{ $redis->cmd('CONFIG', 'GET', 'slowlog-log-slower-than') };
	$redis->cmd('CONFIG', 'SET', 'slowlog-log-slower-than', 2000);
	$redis->cmd('SLOWLOG', 'RESET');
	my $before = $redis->info('commandstats')->{cmdstat_evalsha};
	my $done = $session->query($ask);
	my $after = $redis->info('commandstats')->{cmdstat_evalsha};
	my $slow = $redis->cmd('SLOWLOG', 'LEN');
	$redis->cmd('CONFIG', 'SET', @limit);
	$redis->cmd('FLUSHALL');
	die "places: $done->{raw}\n" if $done->{raw} ne '';

	my ($calls, $us) = map { my $what = $_;
		my ($then, $now) = map { /\b$what=(\d+)/ ? $1 : 0 } $before, $after;
		$now - $then } qw(calls usec);
	$run->say('%-12s 1,000 of one key: %d scripts, %.0f us of Redis each, %d slower than 2 ms',
		'places', $calls, $us / ($calls || 1), $slow);
	$self->_bar($slow == 0, '1,000 places of one key: %.0f us of Redis a script, %d of %d above 2 ms',
		$us / ($calls || 1), $slow, $calls);
	return;
}

# ---- what it costs to renew all ----

sub renewal
{
	my ($self) = @_;
	my $run = $self->{run};
	my $lease = $run->size('held_lease');
	my $n = $run->size('held')->[0];
	my $holder =
	  $run->{near}->session(settings => { 'lockredis.lease' => "${lease}s" });
	my @mixed = grep { $_->{name} =~ /^(?:reentrant|fair|read|write|permit)$/ } @{ $self->{here} };
	my $each = int($n / @mixed);
	my @calls;

	foreach my $kind (@mixed)
	{
		# All permits are of one semaphore.
		my $key = $kind->{prepare} ? "'held:$kind->{name}'" : "'held:$kind->{name}:' || i";

		$run->{near}->value("SELECT redis_permit_init($key, $each)") if $kind->{prepare};
		push @calls, sprintf "count($kind->{take})", $key;
	}
	my $taken = $holder->query('SELECT ' . join(', ', @calls) . " FROM generate_series(1, $each) i",
		600);
	die "renewal: $taken->{raw}\n" if $taken->{raw} ne '';
	my $renewal = Bench::Parts::Held::renewal($run, $each * @mixed);

	$holder->query('SELECT redis_unlock_all()', 600);
	$holder->quit;
	Bench::Parts::Held::say_renewal($run, $each * @mixed, { %$renewal, burst_seconds => 0 });
	Bench::Parts::Held::memory($run);
	my $share = $renewal->{cpu_seconds} / $renewal->{round_seconds};
	$self->_bar($share <= 0.1, 'renewal of %d holds of %d kinds: %.1f %% of a core (must 10)',
		$each * @mixed, scalar @mixed, 100 * $share);
	$self->_bar($renewal->{redis_cpu_seconds} <= 1,
		'renewal of %d holds of %d kinds: %.2f s of Redis a round (must 1), in %d commands',
		$each * @mixed, scalar @mixed, @$renewal{qw(redis_cpu_seconds commands)});
	return;
}

1;
