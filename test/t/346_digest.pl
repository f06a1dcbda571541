# Copyright (c) 2026, lockredis contributors

# What script/test says at its end of a test that has failed: the assertions with what
# they got and wanted, and what the test died of, in a few lines.

use strict;
use warnings FATAL => 'all';

use LockRedis::Harness;
use Test::More;

# As PostgreSQL::Test::Utils writes it
my $log = <<'END';
# Checking port 12345
[16:53:28.512](0.093s) ok 1 - fine
session 1: not ok 7 of a row
[16:53:28.512](0.000s) not ok 2 - one is two
[16:53:28.512](0.000s) 
[16:53:28.512](0.000s) #   Failed test 'one is two'
#   at t/900_fail.pl line 4.
[16:53:28.512](0.000s) #          got: '1'
#     expected: '2'
[16:53:28.512](0.000s) # session 3: SELECT 1
[16:53:28.513](0.001s) ok 3 - fine again
# a note
[16:53:28.513](0.000s) # Subtest: sub
[16:53:28.513](0.000s)     not ok 1 - inner
[16:53:28.513](0.000s)     #   Failed test 'inner'
    #   at t/900_fail.pl line 7.
[16:53:28.513](0.000s)     #          got: 'a'
    #     expected: 'b'
[16:53:28.514](0.000s) not ok 4 - sub
[16:53:28.514](0.000s) #   Failed test 'sub'
#   at t/900_fail.pl line 7.
gave up waiting for something at t/900_fail.pl line 8.
[16:53:28.515](0.263s) # Tests were run but no plan was declared and done_testing() was not seen.
### Stopping node "main" using mode immediate
END

is_deeply(
	[ LockRedis::Harness::digest($log) ],
	[
		'not ok 2 - one is two',
		"#          got: '1'",
		"#     expected: '2'",
		'# session 3: SELECT 1',
		'    not ok 1 - inner',
		"    #          got: 'a'",
		"    #     expected: 'b'",
		'not ok 4 - sub',
		'gave up waiting for something at t/900_fail.pl line 8.'
	],
	'what failed, and what it died of');
is_deeply([ LockRedis::Harness::digest('') ], [], 'nothing of nothing');

my @many = LockRedis::Harness::digest(
	join '', map({ "not ok $_ - " . 'x' x 500 . "\n" } 1 .. 40), "gone at t/x.pl line 1.\n");
is(scalar @many, 11, 'no more than there is room for');
is($many[9], '... 31 lines more', 'what was left out');
is($many[10], 'gone at t/x.pl line 1.', 'what it died of is always there');
is(length $many[0], 160, 'cut');

done_testing();
