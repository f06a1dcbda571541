# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Session - one psql, one backend, driven step by step

=head1 SYNOPSIS

  my $s = $node->session;                      # database postgres
  my $s = $node->session(dbname => 'latin1', user => 'bob',
      settings => { 'lockredis.lease' => '2s' });

  my $r = $s->query("SELECT redis_try_lock('k')");   # waits for the end
  $r->value; $r->out; $r->rows;                # 't', "t", [['t']]; NULL: 'NULL'
  $r->error; $r->sqlstate; $r->detail; $r->hint;     # of the first error
  $r->warnings; $r->notices;                   # lists of LockRedis::Message
  $r->ms;                                      # as psql's \timing measured it

  $s->start("SELECT redis_lock('k')");         # does not wait
  $s->is_running;                              # reads what has come
  my $r = $s->wait;  $s->wait(5);              # its result; dies when too late

  $s->value($sql);                             # query, die on error, the value
  $s->in_time($sql);                           # takes a lock for a short lease
  $s->query_is($sql, $expected, $name);        # TAP: output, and no message
  $s->query_warns($sql, $expected, $sqlstate, qr/text/, $name);
  $s->query_fails($sql, $sqlstate, qr/message/, $name);

  $s->is_lost($redis, 'k', $reason, qr/detail/, $name);  # TAP: all it is told
  $s->take_away('a', 'b');                     # by force, from whoever has them

  $s->wait_until_read;                         # the backend has read what came
  $s->pid;                                     # of the backend
  $s->cancel; $s->terminate; $s->kill9; $s->freeze; $s->thaw;   # signals
  $s->quit;                                    # orderly, backend is gone after
  $s->vanish;                                  # kill -9 of psql: client gone

=head1 DESCRIPTION

Plain pipes instead of background_psql: warnings, errors and their SQLSTATEs
come apart from the rows, a lost connection is a result and no exception, and
many sessions can wait at the same time.  While any test code waits with
LockRedis::Wait, the output of all sessions is read.

=cut

package LockRedis::Session;

use LockRedis::Pragmas;

use Carp;
use IPC::Open3 qw(open3);
use IO::Poll qw(POLLIN POLLHUP POLLERR);
use LockRedis::Result;
use LockRedis::Wait qw(limit now poll_until pause);
use POSIX ();
use PostgreSQL::Test::Utils ();
use Symbol qw(gensym);
use Test::More;

my %sessions;    # by number, those with open output
my $poll = IO::Poll->new;
my $count = 0;

LockRedis::Wait::on_pause(\&_read_all);

# To be called by LockRedis::Node only.
sub new ($class, $node, %opts)
{
	my %settings = %{ $opts{settings} || {} };
	my $connstr = $node->connstr($opts{dbname} // 'postgres');

	$connstr .= " user=$opts{user}" if defined $opts{user};
	local $ENV{PGCLIENTENCODING} = 'UTF8';
	local $ENV{PGAPPNAME} = delete $settings{application_name} // $ENV{PGAPPNAME} // '';
	local $ENV{PGOPTIONS} =
	  join(' ', map { "-c $_=" . $settings{$_} =~ s/([\\ ])/\\$1/gr } sort keys %settings)
	  || $ENV{PGOPTIONS}
	  || '';
	my $self = bless {
		number => ++$count,
		node => $node,
		out => '',
		err => '',
		open => 2,
		serial => 0,
		quiet => $opts{quiet},
		owner => $$
	}, $class;

	my $pid = open3(my $in, my $out, my $err = gensym, 'psql', '-X', '-A', '-t', '-q', '-P', 'null=NULL', '-v',
		'VERBOSITY=verbose', '-d', $connstr);
	foreach my $fh ($in, $out, $err)
	{
		binmode $fh;
		$fh->blocking(0) unless $fh == $in;
	}
	@$self{qw(psql in fh_out fh_err)} = ($pid, $in, $out, $err);
	$sessions{ $self->{number} } = $self;
	$poll->mask($_ => POLLIN) foreach $out, $err;

	$self->{timing} = 0;
	my $hello = $self->query('SELECT pg_backend_pid();');
	if ($hello->{dead} || $hello->error)
	{
		croak 'could not connect: ' . $hello->{raw} unless $opts{may_fail};
		$self->{hello} = $hello;
		return $self;
	}
	$self->{pid} = $hello->value;
	$self->query('\timing on');
	$self->{timing} = 1;
	return $self;
}

sub pid ($self) { return $self->{pid}; }

# Why a session with may_fail did not connect: psql's words, else undef.
sub connect_error ($self) { return $self->{hello} ? $self->{hello}{raw} : undef; }

# Send without waiting.  psql sends statement by statement; use "\;" for one
# request with several.
sub start ($self, $sql)
{
	croak 'the session is busy' if $self->{running};
	my $serial = ++$self->{serial};
	my $mark = "==== end of query $serial ====";

	$sql = "$sql;" unless $sql =~ /;\s*\z/ || $sql =~ /^\s*\\/;
	utf8::encode($sql) if utf8::is_utf8($sql);
	$self->{running} = { sql => $sql, mark => $mark };
	note sprintf 'session %d: %s', $self->{number},
	  length $sql > 500 ? substr($sql, 0, 500) . '...' : $sql
	  unless $self->{quiet};

	# A psql that has gone shows as the end of its output.  Nothing stays in a buffer, which
	# could not be closed then.
	my $text = "$sql\n\\echo '$mark'\n\\warn '$mark'\n";
	local $SIG{PIPE} = 'IGNORE';
	while (length $text)
	{
		my $written = syswrite $self->{in}, $text;
		last unless defined $written || $!{EINTR};
		substr $text, 0, $written // 0, '';
	}
	return;
}

sub is_running ($self)
{
	return 0 unless $self->{running};
	_read_all(0);
	return !$self->_complete;
}

sub wait ($self, $seconds = undef)
{
	my $running = $self->{running} or croak 'nothing to wait for';
	my $until = now() + limit(defined $seconds ? $seconds : 120);

	until ($self->_complete)
	{
		my $left = $until - now();
		croak "session $self->{number} did not end: $running->{sql}"
		  if $left <= 0;
		_read_all($left);
	}
	my $result = $self->_take_result;
	note sprintf 'session %d: %s%s', $self->{number}, $result->out,
	  $result->{raw} eq '' ? '' : "\n$result->{raw}"
	  unless $self->{quiet};
	return $result;
}

sub query ($self, $sql, $seconds = undef)
{
	$self->start($sql);
	return $self->wait($seconds);
}

sub value ($self, $sql)
{
	my $result = $self->query($sql);

	croak "$sql: $result->{raw}" if $result->{dead} || $result->error;
	return $result->value;
}

# Takes a lock whose lease ends soon: once more when the answer came later than that, as
# it does on a machine that has much to do.
sub in_time ($self, $sql)
{
	return poll_until(
		"an answer before the lease has ended: $sql",
		sub {
			my $result = $self->query($sql);

			return $result if !$result->dead && !defined $result->error;
			croak "$sql: $result->{raw}" unless $result->{raw} =~ /after the lease had ended/;
			return;
		});
}

# The query gives exactly this output and no warning, notice or error.
sub query_is ($self, $sql, $expected, $name = undef)
{
	my $result = $self->query($sql);

	return is(
		$result->out . $result->{raw} . ($result->dead ? '(connection lost)' : ''),
		$expected,
		defined $name ? $name : $sql);
}

# The query gives this output and exactly one warning.
sub query_warns ($self, $sql, $expected, $sqlstate, $pattern, $name = undef)
{
	my $result = $self->query($sql);
	my @warnings = $result->warnings;

	$name = $sql unless defined $name;
	return ok( !$result->error
		  && !$result->{dead}
		  && $result->out eq $expected
		  && @warnings == 1
		  && $warnings[0]->sqlstate eq $sqlstate
		  && $warnings[0]{raw} =~ $pattern,
		$name)
	  || diag "wanted $expected with one $sqlstate $pattern, got: "
	  . $result->out
	  . "\n$result->{raw}";
}

# The query fails with this SQLSTATE; $pattern is looked for in the whole
# message, DETAIL and HINT included.
sub query_fails ($self, $sql, $sqlstate, $pattern, $name = undef)
{
	return $self->query($sql)
	  ->fails($sqlstate, $pattern, defined $name ? $name : $sql);
}

# Everything that the holder of a lost lock is told, up to the unlock that
# acknowledges the loss.  None of it may touch what is at the key by now.
sub is_lost ($s, $store, $key, $reason, $detail, $name)
{
	subtest $name => sub {
		my $there = $store->cmd('EXISTS', $key);
		my $ttl = $store->cmd('PTTL', $key);

		like(
			$s->{node}->value(
				"SELECT granted, expires_in IS NULL, pid = "
				  . $s->pid
				  . ", lost_at BETWEEN acquired_at AND clock_timestamp(), lost_reason FROM redis_locks WHERE key = '$key'"
			),
			qr/^f\|t\|t\|t\|$reason\z/,
			'the row in redis_locks');
		$s->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
			'f|0', 'not held, count 0');
		$s->query_fails("SELECT $_", '55000', $detail, "$_ fails")
		  foreach "redis_assert_held('$key')", "redis_lock('$key')", "redis_lock('$key', '1 minute')",
		  "redis_try_lock('$key')";
		$s->query_is("SELECT $_", 'f', "$_ says no")
		  foreach "redis_extend('$key', '1 hour')", "redis_extend('$key', NULL)";
		$s->query_is("SELECT redis_is_held('$key'), redis_hold_count('$key')",
			'f|0', 'still not held');
		$s->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/the lock "$key" was lost\n.*$detail/s,
			'redis_unlock says no, and why');
		$s->query_warns("SELECT redis_unlock('$key')",
			'f', '01000', qr/don't own/, 'all holds were dropped with it');
		$s->query_fails("SELECT redis_assert_held('$key')",
			'55000', qr/don't own/, 'and the loss is over');

		# What was there is there, and not for longer than before.
		is($store->cmd('EXISTS', $key), $there, 'Redis has what it had');
		cmp_ok($store->cmd('PTTL', $key), '<=', $ttl, 'for no longer');
	};
	return;
}

# Takes locks away from whoever has them; in this server all know when it
# returns, and a signal of lockredis.on_lost has been sent.
sub take_away ($self, @keys)
{
	foreach my $key (@keys)
	{
		$self->value("SELECT redis_force_unlock('$key')") eq 't'
		  or croak "nobody had $key";
	}
	return;
}

sub signal ($self, $signal)
{
	kill($signal, $self->{pid})
	  or croak "could not signal backend $self->{pid}: $!";
	return;
}

sub cancel ($self) { return $self->signal('INT'); }
sub terminate ($self) { return $self->signal('TERM'); }

# When this returns the postmaster knows, too: it connects nobody before it has ended
# what is left.
sub kill9 ($self)
{
	$self->signal('KILL');
	return poll_until("backend $self->{pid} to be reaped", sub { $self->is_gone });
}

sub freeze ($self)
{
	$self->{frozen} = 1;
	return $self->signal('STOP');
}

sub thaw ($self)
{
	delete $self->{frozen};
	return $self->signal('CONT');
}

# True once the backend process is gone.
sub is_gone ($self) { return !kill(0, $self->{pid}); }

# Open descriptors of a process of the server, but for its files: those of tables and WAL
# come and go.
sub descriptors_of ($pid)
{
	opendir my $dir, "/proc/$pid/fd" or croak "cannot look at $pid: $!";
	return scalar grep {
		/^\d+$/ && (readlink("/proc/$pid/fd/$_") // '') !~ m{/(?:base|global|pg_\w+)/}
	} readdir $dir;
}

# All that has come to it so far, over TCP, has been read by the backend.
sub wait_until_read ($self)
{
	return poll_until(
		'the replies to be read',
		sub {
			my %inode;
			foreach my $fd (glob "/proc/$self->{pid}/fd/*")
			{
				my $to = readlink $fd;
				$inode{$1} = 1 if defined $to && $to =~ /^socket:\[(\d+)\]/;
			}
			my @unread = grep {
				my @field = split;
				$inode{ $field[9] } && $field[4] !~ /:0+\z/;
			} split /\n/, PostgreSQL::Test::Utils::slurp_file('/proc/net/tcp');
			return !@unread;
		});
}

# Ends psql and waits until its backend has gone too.
sub quit ($self)
{
	return unless $self->{psql};
	close $self->{in};
	$self->_end;
	return;
}

# All that this process has begun, and not ended
sub quit_all
{
	$_->quit foreach grep { $_->{owner} == $$ } values %sessions;
	return;
}

# The client disappears without a word.
sub vanish ($self)
{
	kill 'KILL', $self->{psql};
	$self->_end(no_backend => 1);
	return;
}

sub _end ($self, %opts)
{
	poll_until("session $self->{number} to end",
		sub { waitpid($self->{psql}, POSIX::WNOHANG()) != 0 }, 60);
	delete $self->{psql};
	delete $self->{running};
	$self->_close($_) foreach qw(fh_out fh_err);
	poll_until("backend $self->{pid} to end", sub { $self->is_gone }, 60)
	  if $self->{pid} && !$opts{no_backend};
	return;
}

sub _close ($self, $which)
{
	my $fh = delete $self->{$which} or return;

	$poll->remove($fh);
	close $fh;
	delete $sessions{ $self->{number} } if --$self->{open} == 0;
	return;
}

# Read the output of all sessions; waits for some at most $seconds.
sub _read_all ($seconds)
{
	if (!%sessions)
	{
		select(undef, undef, undef, $seconds);
		return;
	}
	return if $poll->poll($seconds) <= 0;
	foreach my $self (values %sessions)
	{
		foreach my $which (qw(fh_out fh_err))
		{
			my $fh = $self->{$which} or next;
			next unless $poll->events($fh) & (POLLIN | POLLHUP | POLLERR);
			my $buffer = $which eq 'fh_out' ? \$self->{out} : \$self->{err};
			my $got = sysread $fh, $$buffer, 65536, length $$buffer;
			$self->_close($which) if defined $got && $got == 0;
		}
	}
	return;
}

sub _complete ($self)
{
	my $mark = $self->{running}{mark};

	return 1 unless $self->{fh_out} || $self->{fh_err};
	return $self->{out} =~ /^\Q$mark\E\n/m && $self->{err} =~ /^\Q$mark\E\n/m;
}

sub _take_result ($self)
{
	my $mark = delete($self->{running})->{mark};
	my %result = (dead => 0, ms => 0);

	foreach my $which (qw(out err))
	{
		if ($self->{$which} =~ s/\A(.*?)^\Q$mark\E\n//ms)
		{
			$result{$which} = $1;
		}
		else
		{
			@result{ $which, 'dead' } = ($self->{$which}, 1);
			$self->{$which} = '';
		}
	}
	if ($self->{timing})
	{
		$result{ms} += $1
		  while $result{out} =~ s/^Time: ([\d.]+) ms(?: \(.*\))?\n//m;
	}
	$result{out} =~ s/\n\z//;
	$result{raw} = delete $result{err};
	return LockRedis::Result->new(%result);
}

END
{
	my $exit_code = $?;

	foreach my $self (values %sessions)
	{
		next unless $self->{owner} == $$ && $self->{psql};
		kill 'CONT', $self->{pid} if $self->{frozen};
		kill 'KILL', $self->{psql};
		waitpid $self->{psql}, 0;
	}
	$? = $exit_code;
}

1;
