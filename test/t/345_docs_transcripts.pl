# Copyright (c) 2026, lockredis contributors

# What the documentation shows of sessions is what they do: each transcript is run
# again, statement by statement, in sessions of its names, and answers as is
# printed.  Times may differ, and process ids, if they do so everywhere.
#
#   A=> SQL              psql -qAt; "      -- waits": no answer yet
#   admin=> SQL          psql
#   $ COMMAND            a shell; redis-cli asks the Redis of the test
#   -- B goes on         the answer of what waited
#   -- 1.2 seconds later
#
# And the examples that are pure SQL run without an error, or with that which is
# shown.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

use constant END_OF_ANSWER => '== end of answer ==';

my $docs = dirname(abs_path(__FILE__)) . '/../../docs';
my ($node, $redis) = servers(
	settings => {
		'lockredis.lease' => '18s',    # a deletion is noticed a third of it later
		wal_level => 'replica',
		max_wal_senders => 5
	});
my $database = 'page';
my (%psql, %pid_shown);

# ----------
# Pages
# ----------

# The blocks of a page: [language, text]
sub blocks ($page)
{
	my $text = slurp_file("$docs/$page");
	my @blocks;

	push @blocks, [ $1, $2 ] while $text =~ /^```(\w*)\n(.*?)^```$/msg;
	return @blocks;
}

# Does a statement go on in the next line?
sub is_cut_off ($sql)
{
	my $dollars = () = $sql =~ /\$\$/g;

	return $dollars % 2 || $sql !~ /(?:;|\\\w+)(?: +--.*)?$/;
}

# The steps of a transcript: [who, what, expected answer].  An answer is all up to
# the next step.
sub steps ($text)
{
	my @steps;

	foreach my $line (split /\n/, $text)
	{
		if ($line =~ /^(\w+)=> (.*)$/)
		{
			push @steps, [ $1, $2, '' ];
		}
		elsif ($line =~ /^\$ (.*)$/)
		{
			push @steps, [ '$', $1, '' ];
		}
		elsif ($line =~ /^-- (.*)$/)
		{
			push @steps, [ '--', $1, '' ];
		}
		elsif ($steps[-1][0] =~ /\w/ && $steps[-1][2] eq '' && is_cut_off($steps[-1][1]))
		{
			$steps[-1][1] .= "\n$line";
		}
		else
		{
			$steps[-1][2] .= "$line\n";
		}
	}
	return @steps;
}

# ----------
# Sessions
# ----------

sub open_psql ($name)
{
	my @command = ('psql', '-X', '-d', $node->connstr($database));
	my %session = (in => '', out => '');

	push @command, $name eq 'admin' ? ('-P', 'pager=off') : '-qAt';
	$session{harness} = IPC::Run::start(\@command, '<', \$session{in}, '>&', \$session{out});
	$psql{$name} = \%session;
	send_to($name, 'SELECT pg_backend_pid() AS pid \gset');
	send_to($name, '\echo :pid');
	$session{pid} = answer_of($name) =~ s/\s//gr;
	return;
}

sub send_to ($name, $sql)
{
	$psql{$name}{in} .= "$sql\n";
	return;
}

# Has it answered what it was sent?
sub has_answered ($name)
{
	my $session = $psql{$name};

	$session->{harness}->pump_nb;
	return $session->{out} =~ /^\Q${\END_OF_ANSWER}\E\n/m;
}

sub answer_of ($name)
{
	my $session = $psql{$name};

	send_to($name, '\echo ' . END_OF_ANSWER) unless $session->{waits};
	$session->{waits} = 0;
	poll_until("an answer of $name", sub { has_answered($name) });
	$session->{out} =~ s/\A(.*?)^\Q${\END_OF_ANSWER}\E\n//ms;
	return $1;
}

sub close_psql ($name)
{
	my $session = delete $psql{$name};

	$session->{in} .= "\\q\n";
	$session->{harness}->finish;
	return;
}

# ----------
# Comparing
# ----------

# What differs from run to run and has no meaning
sub without_times ($text)
{
	$text =~ s/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00/<time>/g;
	$text =~ s/\b\d\d:\d\d:\d\d\.\d+/<interval>/g;
	$text =~ s/-{2,}/-/g;
	$text =~ s/^ +| +(?=$|\|)|(?<=\|) +//mg;
	$text =~ s/ +/ /g;
	$text =~ s/^\n//mg;
	return $text;
}

# The same but for times, and for process ids, which are to be shown as before
sub same_answer ($is, $shown)
{
	my %name_of = map { $psql{$_}{pid} => $_ } grep { defined $psql{$_}{pid} } keys %psql;
	my @parts = split /\b(\d+)\b/, without_times($is);
	my ($pattern, @names) = ('');

	foreach my $part (@parts)
	{
		my $name = $name_of{$part};

		if (!defined $name)
		{
			$pattern .= quotemeta $part;
		}
		elsif (defined $pid_shown{$name})
		{
			$pattern .= $pid_shown{$name};
		}
		else
		{
			$pattern .= '(\d+)';
			push @names, $name;
		}
	}
	my @found = without_times($shown) =~ /\A$pattern\z/ or return 0;
	@pid_shown{@names} = @found if @names;
	return 1;
}

sub shell ($command)
{
	my @words = split ' ', $command;

	foreach my $word (@words)
	{
		my ($name) = grep { $pid_shown{$_} eq $word } keys %pid_shown;

		$word = $psql{$name}{pid} if defined $name;
	}
	splice @words, 0, 1, $redis->cli_command if $words[0] eq 'redis-cli';
	IPC::Run::run(\@words, '>&', \my $out);
	return $out;
}

# ----------
# Running
# ----------

# Whether commits wait for a standby is told all others by the checkpointer, when it has
# read the settings, which it does before a checkpoint that is asked for later.
sub answer_to_reload ($who, $what)
{
	my $load_time = sub { $node->safe_psql('postgres', 'SELECT pg_conf_load_time()') };
	my $before = $load_time->();

	send_to($who, $what);
	my $answer = answer_of($who);
	poll_until('the new settings', sub { $load_time->() ne $before });
	$node->safe_psql('postgres', 'CHECKPOINT');
	return $answer;
}

# What is not answered within a tenth of a second at the end of a transaction is released by the
# watchdog, and busy until then.
sub wait_for_releases
{
	return poll_until('what a transaction had to be released',
		sub { $node->safe_psql('postgres', 'SELECT count(*) FROM redis_locks WHERE pid IS NULL') eq '0' });
}

# One step; its answer, or undef if there is none yet
sub answer_to ($who, $what)
{
	return shell($what) if $who eq '$';
	if ($who eq '--')
	{
		return answer_of($1) if $what =~ /^(\w+) goes on$/;
		$what =~ /^([\d.]+) seconds later$/ or die "what is \"$what\"?";
		LockRedis::Wait::pause($1);
		return '';
	}
	if ($what eq '\q')
	{
		delete $pid_shown{$who};
		close_psql($who);
		return '';
	}
	open_psql($who) unless $psql{$who};
	return answer_to_reload($who, $what) if $what =~ /pg_reload_conf/;
	send_to($who, $what =~ s/ +-- [^\n]*\z//r);
	if ($what !~ / -- waits$/)
	{
		my $answer = answer_of($who);

		wait_for_releases() if $what =~ /COMMIT|ROLLBACK|xact/ || $answer =~ /^ERROR/m;
		return $answer;
	}

	send_to($who, '\echo ' . END_OF_ANSWER);
	$psql{$who}{waits} = 1;
	poll_until(
		"$who to have begun",
		sub {
			has_answered($who)
			  || $node->safe_psql('postgres',
				"SELECT count(*) FROM pg_stat_activity WHERE pid = $psql{$who}{pid} AND state = 'active'
				    AND wait_event_type IN ('Extension', 'IPC', 'Lock', 'Timeout')"
			  );
		});
	foreach (1 .. 10)
	{
		return '(does not wait)' if has_answered($who);
		LockRedis::Wait::pause(0.05);
	}
	return;
}

sub run_transcript ($page, $text)
{
	foreach my $step (steps($text))
	{
		my ($who, $what, $shown) = @$step;
		my $is = answer_to($who, $what);
		my $name = "$page: $who" . ($who =~ /\w/ ? '=>' : '') . ' ' . ($what =~ s/\s+/ /gr);

		if (defined $is)
		{
			ok(same_answer($is, $shown), $name) || diag "is:\n$is\nshown:\n$shown";
		}
		else
		{
			is($shown, '', $name);
		}
	}
	return;
}

# A database, a Redis and sessions that know of nothing; what a page needs and
# does not show
sub begin_page (@sql)
{
	$redis->cmd('FLUSHALL');
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, $_) foreach 'CREATE EXTENSION lockredis', @sql;
	return;
}

sub end_page ($page)
{
	close_psql($_) foreach keys %psql;
	%pid_shown = ();
	poll_until(
		'sessions to be gone',
		sub {
			$node->safe_psql('postgres',
				"SELECT count(*) FROM pg_stat_activity WHERE datname = '$database'") eq '0';
		});
	# What is not answered at once when a session ends is given back by the watchdog.
	poll_until("$page: nothing to be left",
		sub { $node->safe_psql($database, 'SELECT count(*) FROM redis_locks') eq '0' });
	$node->safe_psql('postgres', "DROP DATABASE $database");
	return;
}

# Tables and procedures that the page makes for its transcripts
sub run_preparation ($page, $sql)
{
	# A job that is still running when another session has been started and has asked
	$sql =~ s/pg_sleep\(3\)/pg_sleep(6)/;

	# Another server with a table to write to: this one
	if ($sql =~ s/^(CREATE EXTENSION postgres_fdw;)//)
	{
		$node->safe_psql($database, $_)
		  foreach $1, 'CREATE SCHEMA other', 'CREATE TABLE other.booking (amount int)',
		  "CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw
		   OPTIONS (host '" . $node->host . "', port '" . $node->port . "', dbname '$database')",
		  'CREATE USER MAPPING FOR CURRENT_USER SERVER other';
		$sql =~ s/SERVER other/SERVER other OPTIONS (schema_name 'other')/;
	}
	$node->safe_psql($database, $sql);
	return;
}

my @account = (
	'CREATE TABLE account (id int PRIMARY KEY, balance int)',
	'INSERT INTO account VALUES (42, 100)');
foreach my $page (
	'../README.md',
	map { "$_.md" }
	qw(commit-guard fencing from-advisory-locks from-lock-table from-redisson from-shedlock jobs snapshots which-lock))
{
	begin_page();
	foreach my $block (blocks($page))
	{
		my ($language, $text) = @$block;

		run_preparation($page, $text) if $language eq 'sql' && $text =~ /^CREATE (?:TABLE|EXTENSION postgres_fdw)/;
		run_transcript($page, $text) if $language eq '' && $text =~ /^\w+=> /;
	}
	end_page($page);
}

# ----------
# Examples without sessions
# ----------

# Each block of SQL, in a session of its own; what is behind it is an error or no
# concern
foreach my $page ('../README.md', 'usage.md', 'operation.md', 'fallback.md')
{
	my @blocks = blocks($page);

	# README makes itself what it needs.
	begin_page(
		$page eq '../README.md'
		? ()
		: (@account,
			'CREATE TABLE sale (amount int)',
			'CREATE TABLE report (day date, total bigint)',
			'CREATE PROCEDURE build_report() LANGUAGE sql AS $$ SELECT 1 $$'));
	while (my $block = shift @blocks)
	{
		my ($language, $sql) = @$block;
		my ($error) = @blocks && $blocks[0][0] eq '' ? $blocks[0][1] =~ /^(ERROR: .*)$/m : ();
		my $session;
		my $other;

		next if $language ne 'sql' || $sql =~ /EXTENSION/;
		$session = $node->session(dbname => $database);
		if (defined $error)
		{
			$other = $node->session(dbname => $database);
			$other->query("SELECT redis_lock('nightly-report')");
		}
		my $result = $session->query($sql);
		my $name = "$page: " . ($sql =~ s/\s+/ /gr);

		if (defined $error)
		{
			is('ERROR:  ' . ($result->error || 'none'), $error, $name);
			$other->quit;
		}
		else
		{
			is($result->error, undef, $name);
		}
		$session->quit;
	}
	end_page("SQL of $page");
}

end_test($node, $redis, keys => qr/^redisson_lock_token:/);
