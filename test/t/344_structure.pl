# The layers of src/ (src/layers): no file uses what is above it, no files use each
# other in a circle.

use strict;
use warnings FATAL => 'all';
use File::Basename qw(dirname);
use LockRedis::Test;

my $top = dirname(dirname(dirname(__FILE__)));

my $said = `$top/script/structure --check $top 2>&1`;
is($?, 0, 'no arrow upwards, no circle, each file in a layer') or diag($said);

# It can say no: the same, with the layers upside down.
my $layers = "$PostgreSQL::Test::Utils::tmp_check/layers";
open my $out, '>', $layers or die $!;
print $out "stats\nsettings store/* store/*/* kinds/* keyname instance wait_events report locktable/*\n",
	"session/* watchdog/* sql/* lockredis\n";
close $out;
$said = `$top/script/structure --check --layers $layers $top 2>&1`;
isnt($?, 0, 'upside down: fails');
like($said, qr/^upwards: session\/\S+ -> stats: /m, 'and says which');

done_testing();
