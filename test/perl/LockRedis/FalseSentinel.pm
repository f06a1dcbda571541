# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::FalseSentinel - a server that says what a Sentinel would, and lies

=head1 SYNOPSIS

  my $liar = LockRedis::FalseSentinel->new;
  $liar->names($redis, epoch => 99);     # as master of any service
  $liar->names($redis, flags => 'master,s_down');
  $liar->names($redis, state => 'wait_promotion');    # of a failover
  $liar->names(undef);                   # knows no service
  LockRedis::FalseSentinel->naming($a => 5, $a => 5, $b => 9);    # three, by these epochs
  LockRedis::FalseSentinel::wait_until_heard($liar, ...)     # by one watchdog
  $liar->address; $liar->port;
  LockRedis::FalseSentinel::url_of($liar, ...)    # for lockredis.url, service "svc"

=head1 DESCRIPTION

A LockRedis::FakeNode that knows HELLO, PING, INFO, SENTINEL MASTER, SENTINEL
GET-MASTER-ADDR-BY-NAME and SUBSCRIBE.  It publishes nothing; its connections are closed when what it says changes.  What it names is anything with a
host, a port, or only the latter (a LockRedis::Proxy).  Each has a run id of its own.

=cut

package LockRedis::FalseSentinel;

use LockRedis::Pragmas;

use parent 'LockRedis::FakeNode';

use LockRedis::Wait qw(poll_until);

sub port ($self) { return $self->{port}; }

sub url_of { return 'redis-sentinel://' . join(',', map { $_->address } @_) . '/svc'; }

sub new ($class)
{
	my $self = $class->SUPER::new(sentinel => { answer => \&_answer });

	$self->names(undef);
	return $self;
}

sub names ($self, $redis, %opts)
{
	$self->behave(
		'sentinel',
		epoch => 0,
		run_id => sprintf('%040x', $self->port),
		flags => 'master',
		%opts,
		host => $redis && ($redis->can('host') ? $redis->host : '127.0.0.1'),
		port => $redis && $redis->port);
	return;
}

sub naming ($class, @named)
{
	my @sentinels;

	while (my ($redis, $epoch) = splice @named, 0, 2)
	{
		push @sentinels, $class->new;
		$sentinels[-1]->names($redis, epoch => $epoch);
	}
	return @sentinels;
}

# What they say now has been judged: a question (of two commands) is asked when the one
# before has been answered, perhaps just before that answer is judged.
sub wait_until_heard (@sentinels)
{
	foreach my $sentinel (@sentinels)
	{
		poll_until('a Sentinel to be heard', sub { $sentinel->answered('SENTINEL') >= 6 });
	}
	return;
}

sub _bulk ($text) { return '$' . length($text) . "\r\n$text\r\n"; }

sub _array (@words) { return join '', '*' . @words . "\r\n", map { _bulk($_) } @words; }

sub _confirmation ($channel, $count)
{
	return "*3\r\n" . _bulk('subscribe') . _bulk($channel) . ":$count\r\n";
}

sub _answer ($now, @words)
{
	my $command = uc shift @words;

	return "+PONG\r\n" if $command eq 'PING';

	# With a module that has arguments, as any Redis may have
	return "*14\r\n"
	  . join('', map { _bulk($_) } qw(server redis version 7.0.15 proto 2 id 1 mode sentinel),
		qw(role sentinel modules))
	  . "*1\r\n*8\r\n"
	  . join('', map { _bulk($_) } qw(name m ver 1 path /m.so args))
	  . _array(qw(a b))
	  if $command eq 'HELLO';
	return _bulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:sentinel\r\nrun_id:$now->{run_id}\r\n")
	  if $command eq 'INFO';
	return join '', map { _confirmation($words[$_], $_ + 1) } 0 .. $#words
	  if $command eq 'SUBSCRIBE';
	return "+OK\r\n" if $command ne 'SENTINEL';

	my ($question, $service) = (uc $words[0], $words[1]);
	if ($question eq 'GET-MASTER-ADDR-BY-NAME')
	{
		return defined $now->{port} ? _array($now->{host}, $now->{port}) : "*-1\r\n";
	}
	return "-ERR Unknown sentinel subcommand\r\n" if $question ne 'MASTER';
	return "-ERR No such master with that name\r\n" unless defined $now->{port};
	return _array(
		name => $service,
		ip => $now->{host},
		port => $now->{port},
		runid => $now->{runid} || 'f' x 40,
		flags => $now->{flags},
		'role-reported' => 'master',
		'config-epoch' => $now->{epoch},
		'num-slaves' => 2,
		'num-other-sentinels' => 2,
		quorum => 2,
		defined $now->{state} ? ('failover-state' => $now->{state}) : ());
}

1;
