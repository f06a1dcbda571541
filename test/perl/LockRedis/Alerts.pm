# Copyright (c) 2026, lockredis contributors

=pod

=head1 NAME

LockRedis::Alerts - which alerts come of an incident, and what the runbook says of it

=head1 SYNOPSIS

  use LockRedis::Alerts qw(has all_are_one);
  my $alerts = LockRedis::Alerts->new($node, $redis);
  my $incident = $alerts->begin('Redis is killed',       # scrapes: before it,
      from => [ all_are_one('node_up') ],                # when that is there
      timed => qr/round_trip/);                          # how long these take counts, too
  $redis->kill9;
  $incident->seen(has('node_up{node="1"', 0));           # scrapes until that is there: in it
  $incident->is_seen(...);                               # the same, at this moment or not
  like($incident->look('LockRedisDown'), qr/refused/);   # the steps under See, as the runbook has them
  $incident->do('LockRedisCanEvict');                    # and those under Do
  $redis->start;
  $incident->over([ all_are_one('node_up') ],            # scrapes until these are there: after it, and
      'LockRedisDown', 'LockRedisNodeDown');             # Prometheus is to fire these, and only in it

=head1 DESCRIPTION

What Debian's postgres_exporter was asked before, in and after an incident is given to promtool,
with the rules as they are installed: an hour of what was before, 70 minutes of the incident and
130 of what was after.  So each alert has its real time: it fires in the incident, and nothing does
in the hour before, nor in one that begins an hour after.  Another instance of the same job, where
all stays as it was before, has no alert at all.  What grew in the incident as the clock did goes on so: a wait, a hold.  A series
that was not scraped is stale.

A step of the runbook is code that begins as SQL, C<redis-cli>, or a command of Redis.

=cut

package LockRedis::Alerts;

use LockRedis::Pragmas;

use Carp;
use Exporter 'import';
use IPC::Run;
use LockRedis::Exporter;
use LockRedis::Wait qw(now poll_until pause);
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT_OK = qw(has all_are_one);

# What a busy machine makes slow and late by itself: left out, but where it is the incident
my $by_machine = qr/^lockredis_(?:node_round_trip_seconds|node_renewal_lag_seconds|locks_late)\b/;

# Minutes: of each part, and between two samples
my %lasts = (before => 60, during => 70, after => 130);
my $step = 1;

sub new ($class, $node, $redis)
{
	return bless { node => $node, redis => $redis, exporter => LockRedis::Exporter->new($node),
		dir => PostgreSQL::Test::Utils::tempdir() }, $class;
}

# The pattern of a series with this value
sub has ($name, $value)
{
	my ($metric, $labels) = split /\{/, $name;

	$labels = quotemeta($labels // '');
	return qr/^lockredis_$metric\{[^\n]*$labels[^\n]*\} $value$/m;
}

# Every series of this metric is 1.
sub all_are_one ($metric)
{
	return qr/\A(?!.*^lockredis_$metric\{[^\n]* 0$).*^lockredis_$metric\{/ms;
}

sub exporter ($self) { return $self->{exporter}; }

sub begin ($self, $name, %opts)
{
	my $incident = bless { alerts => $self, name => $name,
		lasts => { %lasts, %{ $opts{lasts} || {} } }, step => $opts{step} || $step,
		timed => $opts{timed} || qr/(?!)/ }, 'LockRedis::Alerts::Incident';

	$incident->{before} = $incident->_scrape_until(@{ $opts{from} || [ all_are_one('node_up') ] });
	return $incident;
}

# All that the exporter says, and that it does: the series, by name.
sub scrape ($self)
{
	my $metrics = $self->{exporter}->metrics;
	my %series = (up => defined $metrics ? 1 : 0, %{ $metrics || {} });

	delete $series{$_} foreach grep { $series{$_} eq 'NaN' } keys %series;
	return { at => now(), series => \%series };
}

sub as_text ($scrape)
{
	my $series = $scrape->{series};

	return join "\n", map { "$_ $series->{$_}" } sort keys %$series;
}

# ----------
# The runbook
# ----------

# The steps under See, or Do.
sub steps ($self, $alert, $part)
{
	my $runbook = slurp_file("$LockRedis::Exporter::directory/../docs/runbook.md");
	my ($section) = $runbook =~ /^### $alert\n(.*?)(?=^##|\z)/ms or croak "no $alert in the runbook";
	my ($text) = $section =~ /\*\*$part:\*\*(.*?)(?=^\*\*|\z)/ms;

	return map { s/\s+/ /gr } $text =~ /`((?:SELECT |redis-cli |ACL |CONFIG |INFO |SLOWLOG |pg_terminate_)[^`]+)`/g;
}

# What it prints; $redis: the server that redis-cli is for.
sub run_steps ($self, $alert, $part, $redis, %words)
{
	my @steps = $self->steps($alert, $part);
	my $said = '';

	croak "no step under $part of $alert" unless @steps;
	foreach my $command (@steps)
	{
		$command =~ s/\b$_\b/$words{$_}/g foreach keys %words;
		$command =~ s/^pg_/SELECT pg_/;
		if ($command =~ /^SELECT/)
		{
			my $session = $self->{node}->session;
			my $result = $session->query($command);

			is($result->error, undef, "$alert: $command");
			$said .= $result->out . "\n";
			$session->quit;
			next;
		}
		my @cli = ($redis || $self->{redis})->cli_command;
		my ($shell) = $command =~ s/^redis-cli //r =~ s/-h HOST //r;

		IPC::Run::run([ 'sh', '-c', join ' ', @cli, $shell ], '<', \undef, '>&', \my $output, IPC::Run::timeout(60));
		unlike($output, qr/^\(?error\)? ?ERR|unknown (?:command|subcommand)/i, "$alert: $command");
		$said .= $output;
	}
	return $said;
}

package LockRedis::Alerts::Incident;

use LockRedis::Wait qw(poll_until pause);
use PostgreSQL::Test::Utils;
use Test::More;

# A second scrape shows what grows.
sub seen ($self, @patterns)
{
	$self->{during} = $self->_scrape_until(@patterns);
	pause(1.5);
	$self->{later} = $self->{alerts}->scrape;
	return $self;
}

# Only at this moment; so nothing of it grows.
sub is_seen ($self, $pattern)
{
	$self->{during} = $self->{later} = $self->{alerts}->scrape;
	return LockRedis::Alerts::as_text($self->{during}) =~ $pattern;
}

sub _scrape_until ($self, @patterns)
{
	my $scrape;

	my $text;

	eval {
		poll_until(
			"$self->{name}: @patterns",
			sub {
				$scrape = $self->{alerts}->scrape;
				$text = LockRedis::Alerts::as_text($scrape);
				!grep { $text !~ $_ } @patterns;
			});
		1;
	} or die "$@$text\n";
	return $scrape;
}

sub look ($self, $alert, $redis = undef, %words)
{
	return $self->{alerts}->run_steps($alert, 'See', $redis, %words);
}

sub do ($self, $alert, $redis = undef, %words)
{
	return $self->{alerts}->run_steps($alert, 'Do', $redis, %words);
}

sub over ($self, $patterns, @expected)
{
	$self->{after} = $self->_scrape_until(@$patterns);
	$self->_judge(@expected);
	return;
}

# ----------
# What Prometheus makes of it
# ----------

sub _samples ($self, $part) { return $self->{lasts}{$part} / $self->{step}; }

# The time begins with 0 there.
sub _value ($self, $part, $name)
{
	my $value = $self->{$part}{series}{$name};

	return $name =~ /^\w+_timestamp_seconds\{/ ? $value - $self->{before}{at_epoch} : $value;
}

sub _series ($name, $instance, $values)
{
	my $labels = qq{instance="$instance",job="lockredis"\}};
	my $full = $name =~ /\}$/ ? $name =~ s/\}$/,$labels/r : "$name\{$labels";

	return "      - {series: '" . $full =~ s/'/''/gr . "', values: '$values'}\n";
}

# A series of promtool's: see its documentation.
sub _values ($self, $name)
{
	my @values;

	foreach my $part ('before', 'during', 'after')
	{
		my $value = $self->{$part}{series}{$name};
		my $more = $self->_samples($part) - 1;
		my $by = $part eq 'during' ? $self->_grows($name) : 0;

		if (!defined $value)
		{
			push @values, 'stale', "_x$more";
			next;
		}
		push @values, $self->_value($part, $name) . "+${by}x$more";
	}
	return join ' ', @values;
}

# By how much a step makes it more
sub _grows ($self, $name)
{
	my ($first, $second) = map { $_->{series}{$name} } $self->{during}, $self->{later};

	return 0 unless $name =~ /^lockredis_key_\w+_seconds\{/ && defined $first && defined $second;
	return $second - $first >= 1 ? 60 * $self->{step} : 0;
}

# Whichever fired in so many minutes up to this one
sub _alerts_until ($minute, $minutes, @expected)
{
	my $samples = join '', map {
		my ($alert, $more) = /^(\w+)(?:\{(.*)\})?$/;
		my $labels = join ', ', qq{alertname="$alert"}, $more || ();

		"          - {labels: '{$labels}', value: 1}\n";
	} @expected;

	return <<"END";
      - expr: 'count by (alertname, key) (count_over_time(ALERTS{alertstate="firing"}[${minutes}m])) > bool 0'
        eval_time: ${minute}m
        exp_samples:@{[ @expected ? "\n$samples" : " []\n" ]}
END
}

sub _judge ($self, @expected)
{
	my $directory = $self->{alerts}{dir};
	my ($file) = map { "$directory/$_.yml" } $self->{name} =~ s/\W+/_/gr;
	my %names = map { %{ $_->{series} } } $self->{before}, $self->{during}, $self->{after};

	delete @names{ grep { /$by_machine/ && !/$self->{timed}/ } keys %names };
	my $series = '';
	my ($begin, $end) = ($self->{lasts}{before}, $self->{lasts}{before} + $self->{lasts}{during});

	$self->{before}{at_epoch} = time;
	foreach my $name (sort keys %names)
	{
		$series .= _series($name, 'db1', $self->_values($name));
		$series .= _series($name, 'db2', $self->_value('before', $name) . 'x' . ($end + $self->{lasts}{after}))
		  if defined $self->{before}{series}{$name};
	}
	append_to_file($file, <<"END");
rule_files: ['$LockRedis::Exporter::directory/alerts.yml']
evaluation_interval: $self->{step}m
tests:
  - interval: $self->{step}m
    input_series:
$series    promql_expr_test:
END
	append_to_file($file, _alerts_until($begin - $self->{step}, 60));
	append_to_file($file, _alerts_until($end - $self->{step}, $self->{lasts}{during}, @expected));
	append_to_file($file, _alerts_until($end + 125, 60));
	append_to_file($file, <<"END");
      - expr: 'count_over_time(ALERTS{instance="db2"}[@{[ $end + 125 ]}m])'
        eval_time: @{[ $end + 125 ]}m
        exp_samples: []
END
	my $ran = IPC::Run::run([ 'promtool', 'test', 'rules', $file ], '>&', \my $said);
	ok($ran, "$self->{name}: @expected, and nothing before or after") || diag $said;
	return;
}

1;
