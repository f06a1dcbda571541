# Copyright (c) 2026, lockredis contributors

# The cases that script/fuzz --guided has kept (corpus), and those that it has found something
# by (found), under the address and undefined-behaviour
# sanitizers: replies and addresses of nodes, maps of a cluster, URLs, names.
#
# Proves G19, G32.

use File::Basename qw(basename dirname);
use LockRedis::Test;
use PostgreSQL::Test::Utils;

my $fuzz = dirname(dirname(dirname(__FILE__))) . '/test/fuzz';
my $program = PostgreSQL::Test::Utils::tempdir() . '/guided';

command_ok([ "$fuzz/guided/build", $program ], 'the targets are built');
foreach my $corpus (glob "$fuzz/corpus/* $fuzz/found/*")
{
	my $cases = () = slurp_file($corpus) =~ /\n/g;

	command_like([ $program, basename($corpus), $corpus ],
		qr/: $cases cases$/, "$cases cases of " . basename($corpus));
}

done_testing();
