# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Twins::Side - one of the two servers: its sessions, and what can be seen of them

=head1 DESCRIPTION

Sessions s0 to s2 are lockredis's on both sides.  f1 and f2 are threads of Redisson where there
is a Redis, and further sessions where there is none, which no answer of the others speaks of.
Whatever has another name on the other side (owners, process ids, ids of permits, the names of
keys) is named here as the test names it.

=cut

package LockRedis::Twins::Side;

use strict;
use warnings FATAL => 'all';

use Carp;
use JSON::PP;
use LockRedis::Wait qw(limit now pause);
use LockRedis::Twins::Differences qw(forgive_key forgive_row);

my @sessions = qw(s0 s1 s2);
my @foreign = qw(f1 f2);

# Functions of the test in each of the servers: what there is at a key, asked of the store;
# what a session has of it; and all that goes on.
my $functions = <<'SQL';
CREATE TABLE written (i int);
CREATE FUNCTION answer(question text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text;
BEGIN
	EXECUTE question INTO a;
	RETURN coalesce(a, 'NULL');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION at_key(name text, k text) RETURNS json LANGUAGE sql AS $$
	SELECT json_object_agg(what, answer(format(call, k))) FROM (VALUES
		('locked', 'SELECT redis_is_locked(%L)'),
		('owner', 'SELECT redis_lock_owner(%L)'),
		('ttl', 'SELECT round(extract(epoch FROM redis_lock_ttl(%L)) / 600)'),
		('first', 'SELECT redis_token_is_held(%L, ''first'')'),
		('permits', 'SELECT redis_permit_total(%L)'),
		('permits free', 'SELECT redis_permit_available(%1$L)'),
		('semaphore', 'SELECT redis_semaphore_available(%L)'),
		('latch', 'SELECT redis_latch_count(%L)'),
		('recorded', 'SELECT token FROM redis_fences WHERE key = %L')) AS q(what, call)
	WHERE what = ANY (CASE name
		WHEN 'p' THEN '{permits,permits free,locked,owner}'::text[]
		WHEN 's' THEN '{semaphore}' WHEN 'l' THEN '{latch}'
		ELSE '{locked,owner,ttl,first,recorded}' END)
$$;
CREATE FUNCTION held(k text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', redis_is_held(k), redis_hold_count(k), redis_fence(k),
		(SELECT string_agg(kind || redis_hold_count(k, kind) || coalesce('#' || redis_fence(k, kind), ''), ' ' ORDER BY kind)
		   FROM unnest('{reentrant,fair,read,write,permit}'::text[]) AS kind
		  WHERE redis_is_held(k, kind)))
$$;
CREATE FUNCTION going_on(prefix text, names text[]) RETURNS json LANGUAGE sql AS $$
	SELECT json_build_object(
		'keys', (SELECT json_object_agg(name, at_key(name, prefix || name)) FROM unnest(names) AS name),
		'locks', (SELECT coalesce(json_agg(json_build_object(
				'pid', pid, 'key', substr(key, length(prefix) + 1), 'kind', kind, 'scope', scope,
				'granted', granted, 'count', hold_count, 'fence', fence, 'lease', lease,
				'renewed', renewed, 'lost', lost_reason, 'owner', owner, 'blocked', blocked_by,
				'waits', waiting_since IS NOT NULL, 'ends', expires_in_seconds)
				ORDER BY waiting_since, key, pid, kind, scope), '[]')
			FROM redis_locks WHERE starts_with(key, prefix)),
		'active', (SELECT json_object_agg(pid, state || CASE WHEN state = 'active' THEN pg_blocking_pids(pid)::text ELSE '' END)
			FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()))
$$;
SQL

sub new
{
	my ($class, %opts) = @_;
	my $self = bless { json => JSON::PP->new, owners => {}, %opts }, $class;

	$self->{node}->wait_for_up;
	$self->{node}->safe_psql('postgres', $functions);
	$self->{observer} = $self->{node}->session(quiet => 1);
	$self->open_session($_) foreach $self->names_of_sessions;
	if ($self->{java})
	{
		$self->{owners}{ $self->{java}->value("f.$_", 'owner', '-') } = $_ foreach @foreign;
	}
	return $self;
}

# Of those who are sessions here
sub names_of_sessions
{
	my ($self) = @_;

	return 'admin', @sessions, $self->{java} || !$self->{foreign} ? () : @foreign;
}

sub open_session
{
	my ($self, $who) = @_;

	$self->{session}{$who} = $self->{node}->session(quiet => 1);
	return;
}

# All that stays of a sequence that has gone wrong goes.
sub begin_anew
{
	my ($self) = @_;

	foreach my $who ($self->names_of_sessions)
	{
		my $session = $self->{session}{$who};

		$session->terminate unless $session->is_gone;
		$session->quit;
		$self->open_session($who);
	}
	delete $self->{running};
	return;
}

# Another sequence, with keys of its own
sub use_prefix
{
	my ($self, $prefix, @keys) = @_;

	$self->{prefix} = $prefix;
	$self->{keys} = \@keys;
	$self->{ids} = [];
	$self->{awaited} = [];
	$self->{next_id} = 0;
	return;
}

# ----------
# What is done
# ----------

# The statement or command with the names of this side
sub _named
{
	my ($self, $text, $is_command) = @_;
	my @ids = @{ $self->{ids} };
	my $id = @ids ? $ids[ $self->{next_id}++ % @ids ] : '0' x 32;

	$text =~ s/\{id\}/$is_command ? $id : "'$id'"/ge;
	$text =~ s/\{=(\w)\}/$self->{prefix}$1/g;
	$text =~ s/\{(\w)\}/$is_command ? "$self->{prefix}$1" : "'$self->{prefix}$1'"/ge;
	return $text;
}

sub start
{
	my ($self, $op) = @_;
	my $who = $op->{who};

	$self->{began}{$who} = ++$self->{number};
	if ($op->{redisson} && $self->{java})
	{
		my ($command, $key, @args) = split / /, $self->_named($op->{redisson}, 1);

		$self->{running}{$who} =
		  { op => $op, command => $self->{java}->send("f.$who", $command, $key, @args) };
		return;
	}
	my $session = $self->{session}{$who};

	$self->{running}{$who} = { op => $op, session => $session };
	if ($op->{sql} eq 'quit' || $op->{sql} eq 'terminate')
	{
		# Not while it waits: see LockRedis::Twins.
		$session->terminate if $op->{sql} eq 'terminate';
		$session->quit;
		$self->open_session($who);
		delete $self->{running}{$who};
		return;
	}
	my ($verb, $condition) = _condition($op->{sql});
	push @{ $self->{awaited} }, { who => $who, condition => $condition }
	  if $verb && $verb eq 'wait';
	$session->start($self->_named($op->{sql}));
	return;
}

sub cancel
{
	my ($self, $who) = @_;

	$self->{session}{$who}->cancel;
	return;
}

sub is_running
{
	my ($self, $who) = @_;

	return exists $self->{running}{$who};
}

# Who has ended since, and how: a hash of texts
sub outcomes
{
	my ($self) = @_;
	my %outcome;

	foreach my $who (sort keys %{ $self->{running} })
	{
		my $running = $self->{running}{$who};

		if (exists $running->{command})
		{
			next unless $self->{java}->is_done($running->{command});
			$outcome{$who} = $self->_foreign_outcome($self->{java}->wait($running->{command}));
		}
		else
		{
			next if $running->{session}->is_running;
			$outcome{$who} = $self->_outcome($running, $running->{session}->wait);
		}
		delete $self->{running}{$who};
	}
	return %outcome;
}

sub _outcome
{
	my ($self, $running, $result) = @_;
	my $op = $running->{op};
	my $out = $result->out;

	$self->_note_conditions($op->{who}, $op, $result);
	push @{ $self->{ids} }, $out if $op->{sql} =~ /permit_acquire/ && $out =~ /^[0-9a-f]{32}$/;
	if ($op->{redisson})
	{
		return $self->_plain_answer($result->error ? $result->sqlstate : $out);
	}
	my @said = map { join ' ', $_->{severity}, $_->{sqlstate}, $_->{message} }
	  @{ $result->{messages} };
	return $self->named(join "\n", $out, @said, $result->dead ? 'connection lost' : ());
}

sub _foreign_outcome
{
	my ($self, $result) = @_;
	my $answer =
		!$result->error ? $result->value // 'yes'
	  : $result->error =~ /IllegalMonitorState/ ? 'no'
	  : $result->error . ' ' . $result->message;

	push @{ $self->{ids} }, $answer if $answer =~ /^[0-9a-f]{32}$/;
	return $self->_plain_answer($answer);
}

# What Redisson and a session that stands in for it both say: had or not, or a number.  Where
# there are no permits of that name Redisson says that none is free, and a reader who wants to
# write waits for himself there.
sub _plain_answer
{
	my ($self, $answer) = @_;

	return 'yes' if $answer =~ /^(?:t|true|yes|[0-9a-f]{32}|)$/;
	return 'no' if $answer =~ /^(?:f|false|no|null|NULL|42704|55000)$/;
	return $answer;
}

# Owners and keys as the test names them
sub named
{
	my ($self, $text) = @_;

	$text =~ s/\Q$self->{prefix}\E//g;
	$text =~ s/\S+\/kept\b/kept/g;
	$text =~ s/\b([0-9a-f]{8}-[0-9a-f-]{27}:\d+)/$self->{owners}{$1} \/\/ 'somebody'/ge;
	$text =~ s/^[0-9a-f]{32}$/id/mg;
	$text =~ s/process \d+/process/g;
	return $text;
}

# ----------
# What can be seen
# ----------

# Asks for all that goes on; the answer is what look() reads.
sub ask
{
	my ($self) = @_;

	$self->{observer}->start(sprintf q{SELECT going_on('%s', '{%s}')},
		$self->{prefix}, join ',', @{ $self->{keys} });
	return;
}

# Rows of redis_locks with their sessions by name, who runs what, and what there is at
# each key
sub look
{
	my ($self) = @_;
	my $result = $self->{observer}->wait;

	croak $result->{raw} if $result->{raw} ne '';
	my $seen = $self->{json}->decode($result->out);
	my %name = map { $self->{session}{$_}->pid => $_ } $self->names_of_sessions;

	foreach my $row (@{ $seen->{locks} })
	{
		$row->{who} = defined $row->{pid} ? $name{ $row->{pid} } // 'nobody' : 'orphan';
		$self->{owners}{ $row->{owner} } = $row->{who} if defined $row->{owner};
		$row->{blocked} = [ sort grep { !/^f/ } map { $name{$_} // 'nobody' } @{ $row->{blocked} } ]
		  if $row->{blocked};
	}
	foreach my $there (grep { defined $_->{owner} } values %{ $seen->{keys} })
	{
		$there->{owner} = $self->named($there->{owner});
	}
	$seen->{state} = { map { $name{$_} => $seen->{active}{$_} } grep { $name{$_} } keys %{ $seen->{active} } };
	return $self->{seen} = $seen;
}

# Does somebody wait for a session that has begun its statement later?  That may be one that
# came behind it and passed it: who does not run for a second when it is its turn is passed
# over, by right.
sub may_be_out_of_turn
{
	my ($self) = @_;
	my $began = $self->{began};

	foreach my $row (grep { $_->{waits} && $_->{blocked} } @{ $self->{seen}{locks} })
	{
		my $since = $began->{ $row->{who} } // next;

		return 1 if grep { ($began->{$_} // 0) > $since } @{ $row->{blocked} };
	}
	return 0;
}

# Why not all has come to rest, or undef.  Whoever waits must have somebody to wait for.
sub unrest
{
	my ($self) = @_;
	my $seen = $self->{seen};
	my (%waits, %at);

	foreach my $row (@{ $seen->{locks} })
	{
		return 'an orphan' if $row->{who} eq 'orphan';
		$waits{ $row->{who} } = 1 if $row->{waits};
	}
	foreach my $who (sort keys %{ $self->{running} })
	{
		return "$who runs" unless $waits{$who} || ($seen->{state}{$who} // '') =~ /\{\d/;
	}
	foreach my $row (grep { $_->{waits} } @{ $seen->{locks} })
	{
		my $key = $row->{key};

		next if $at{$key} && $row->{kind} ne 'latch';
		if ($row->{kind} eq 'condition')
		{
			return "$row->{who} was told" if $self->_is_told($row->{who});
			next;
		}
		$at{$key} = 1;
		return "$row->{who} could have $key" unless $self->_has_reason($row);
	}
	return;
}

sub _amount
{
	my ($self, $who) = @_;
	my $sql = $self->{running}{$who}{op}{sql};

	return $sql =~ /semaphore_acquire\(\{s\}, (\d+)/ ? $1 : 1;
}

# Somebody has what this one waits for.
sub _has_reason
{
	my ($self, $row) = @_;
	my $key = $row->{key};
	my $there = $self->{seen}{keys}{$key};
	my @have = grep { $_->{key} eq $key && $_->{granted} && $_->{who} ne $row->{who} }
	  @{ $self->{seen}{locks} };

	return $there->{semaphore} < $self->_amount($row->{who}) if $row->{kind} eq 'semaphore';
	return $there->{latch} > 0 if $row->{kind} eq 'latch';
	return $there->{'permits free'} =~ /^(?:0|-\d+)$/ if $row->{kind} eq 'permit';
	return grep { $_->{kind} ne 'read' } @have if $row->{kind} eq 'read' && @have;
	return 1 if @have;
	return 0 if $there->{owner} eq 'NULL' || $row->{kind} eq 'read' && $there->{owner} =~ /read/;
	return $there->{owner} ne $row->{who};
}

# ----------
# Conditions: who was told has to leave the condition
# ----------

sub _condition
{
	my ($sql) = @_;

	return unless $sql =~ /redis_condition_(\w+)\(\{(\w)\}(?:, [^',]+|, '10 min'|, '0')?, ('\w*')\)/;
	return ($1, "$2 $3");
}

# A call has ended: it may have told others, or passed on what it was told.
sub _note_conditions
{
	my ($self, $who, $op, $result) = @_;
	my ($verb, $condition) = _condition($op->{sql});
	my $tell = 0;

	return unless $verb;
	if ($verb eq 'wait')
	{
		my ($wait) = grep { $_->{who} eq $who } @{ $self->{awaited} };

		$self->{awaited} = [ grep { $_->{who} ne $who } @{ $self->{awaited} } ];
		$tell = 1 if $wait && $wait->{told} && $result->error;
	}
	elsif ($result->out =~ /^(\d+)$/)
	{
		$tell = $1;
	}
	foreach my $wait (grep { $_->{condition} eq $condition && !$_->{told} } @{ $self->{awaited} })
	{
		last if $tell-- <= 0;
		$wait->{told} = 1;
	}
	return;
}

sub _is_told
{
	my ($self, $who) = @_;

	return grep { $_->{who} eq $who && $_->{told} } @{ $self->{awaited} };
}

# ----------
# What is left
# ----------

# What a session has of each key, asked of itself
sub ask_session
{
	my ($self, $who) = @_;
	my $session = $self->{session}{$who};

	return if $self->is_running($who) || ($self->{seen}{state}{$who} // '') =~ /aborted/;
	$session->start(join ' || ', "SELECT ''",
		map { "'; $_ ' || held('$self->{prefix}$_')" } @{ $self->{keys} });
	push @{ $self->{asked} }, $who;
	return;
}

# All that both sides must agree on, as text
sub state
{
	my ($self) = @_;
	my $seen = $self->{seen};
	my %line;

	foreach my $row (grep { $_->{who} !~ /^f/ } @{ $seen->{locks} })
	{
		forgive_row($row, $seen->{locks});
		my @words = map { defined $row->{$_} ? "$_ " . $self->named("$row->{$_}") : () }
		  qw(scope count fence lease lost owner);

		push @words, grep { $row->{$_} } qw(granted waits renewed);
		push @words, 'blocked by ' . join ',', @{ $row->{blocked} } if $row->{blocked};
		push @words, sprintf 'for %.0f', $row->{ends} / 600 if defined $row->{ends};
		$line{"redis_locks: $row->{who} $row->{kind} $row->{key}: @words"} = 1;
	}
	foreach my $who (@sessions)
	{
		$line{ "$who: " . ($self->is_running($who) ? 'waits' : $seen->{state}{$who} // 'gone') } = 1;
	}
	foreach my $who (@{ delete $self->{asked} // [] })
	{
		$line{ "$who has" . $self->{session}{$who}->wait->out } = 1;
	}
	foreach my $key (@{ $self->{keys} })
	{
		my $there = $seen->{keys}{$key};

		forgive_key($there, [ grep { $_->{key} eq $key } @{ $seen->{locks} } ]);
		$line{"$key $_: $there->{$_}"} = 1 foreach keys %$there;
	}
	return join "\n", sort keys %line;
}

1;
