# Copyright (c) 2026, lockredis contributors

# Whoever is woken up finds what he needs: each alert of monitoring/ has its part of
# docs/runbook.md, and its test; each line that lockredis writes into the server log by
# itself has its example in docs/messages.md; and statements of the runbook, and of docs/find-the-holder.md, run.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Alerts;
use LockRedis::Test;
use PostgreSQL::Test::Utils qw(slurp_file);

my $top = abs_path(dirname(__FILE__) . '/../..');

# ----------
# Alerts
# ----------

my @alerts = slurp_file("$top/monitoring/alerts.yml") =~ /^ *- alert: (\w+)$/mg;
my $tests = join '', map { slurp_file($_) } glob "$top/test/t/62[12]_*.pl";
my $runbook = slurp_file("$top/docs/runbook.md");

cmp_ok(scalar @alerts, '>=', 20, 'there are alerts');
is(join(' ', grep { $tests !~ /->over\([^;]*'$_\b/ } @alerts), '', 'each is tested');
is(join(' ', $runbook =~ /^### (LockRedis\w+)$/mg),
	join(' ', @alerts), 'each is in the runbook, in this order');
is( join(' ', grep { !/\*\*Means:\*\*.*\*\*See:\*\*.*\*\*Do:\*\*/s } split /^### /m, $runbook =~ s/.*?(?=^### )//msr =~ s/^## .*//mgr),
	'', 'with what it means, how to see, and what to do');

foreach my $part ([ 'See', 'look' ], [ 'Do', 'do' ])
{
	my ($title, $call) = @$part;

	is( join(' ', grep { LockRedis::Alerts->steps($_, $title) && $tests !~ /->(?:$call\(|steps\()'$_'/ } @alerts),
		'', "the steps under $title are carried out in an incident");
}

# ----------
# Messages
# ----------

# The formats of what a report to the log says
sub formats ($report)
{
	$report =~ s/\berr(?:detail|hint|context)\w*\(.*//s;
	return grep { / / } $report =~ /"((?:[^"\\]|\\.)*)"/g;
}

# As it is found in the page: what differs may be anything.
sub pattern ($format)
{
	return join '.+?', map { quotemeta } split /%[\d.]*(?:l|ll|z)?[dsu]/, $format =~ s/\\"/"/gr, -1;
}

my $messages = slurp_file("$top/docs/messages.md");
my @formats;

foreach my $file (glob "$top/src/watchdog/*.c $top/src/store/*.c $top/src/store/*/*.c $top/src/settings.c $top/src/session/deadlock.c $top/src/lockredis.c")
{
	push @formats, formats($_)
	  foreach slurp_file($file) =~ /\bereport\((?:LOG|WARNING),(.*?)\);\n/sg;
}
cmp_ok(scalar @formats, '>', 25, 'there are messages');
is( join("\n", grep { my $pattern = pattern($_); $messages !~ /^(?:LOG|WARNING):  $pattern$/m } @formats),
	'', 'each has its example in docs/messages.md');

# ----------
# Statements
# ----------

my $redis = LockRedis::Redis->new;
my $node = LockRedis::Node->create('main', redis => $redis, patient => 1);
my $session = $node->session;

foreach my $sql (
	(map { s/;\s*\z//r } slurp_file("$top/docs/find-the-holder.md") =~ /^```sql\n(.*?)^```/msg),
	grep { /^SELECT .* FROM redis_/s } $runbook =~ /`([^`]+)`/g)
{
	is($session->query($sql)->error, undef, $sql =~ s/\s+/ /gr);
}
end_test($node, $redis);
