# Copyright (c) 2026, lockredis contributors

# The models of docs/models: what they state holds within small bounds, and does not hold
# when one of their rules is left out.  script/models also checks larger bounds.  While neither
# a model nor what checks it is changed, that is so, and only read from docs/models/checked.

use LockRedis::Test;

open(my $models, '-|', 'script/models --small 2>&1') or die "cannot run script/models: $!";
while (my $line = <$models>)
{
	chomp $line;
	if ($line =~ /^(not )?ok (.*)/)
	{
		ok(!$1, $2);
	}
	else
	{
		diag($line);
	}
}
ok(close($models), 'all models were checked');
done_testing();
