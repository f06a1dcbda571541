# Copyright (c) 2026, lockredis contributors

# Several keys at once in a table: one after the other, all or none; what waits, is
# limited, cancelled, or had before.
# Proves G1, G25.

use LockRedis::Test;

my $table = LockRedis::Table->new;
my $node = LockRedis::Node->create('main', redis => $table);
my ($one, $two) = map { $node->session } 1 .. 2;

$one->query_is("SELECT redis_multi_lock('{c,a,b,a}', '1h')", '', 'three keys');
is(join(' ', sort $table->all_keys), 'a b c', 'in the table');
$two->query_is("SELECT redis_try_multi_lock('{d,b}')", 'f', 'one is busy');
$two->query_is("SELECT redis_try_multi_lock('{0,b}', '50ms')", 'f', 'for a while');
poll_until('the other one to be given back', sub { join(' ', $table->all_keys) eq 'a b c' });
$node->queue_up('b', $two => "SELECT redis_multi_lock('{d,b,0}')");
is($table->cmd('EXISTS', '0'), 1, 'had before it waits');
$two->cancel;
$two->wait->fails('57014', qr/cancel/, 'cancelled');
poll_until('it to be given back', sub { !$table->cmd('EXISTS', '0') });

# A row of another instance, which outlives it, is waited for, too.
ok($table->take('m', 'program', '1 hour'), 'somebody else');
$node->queue_up('m', $two => "SELECT redis_multi_xact_lock('{n,m,l}')");
$table->give_back('m', 'program');
is($two->wait->error, undef, 'until it is given back');
poll_until('the transaction to end', sub { join(' ', $table->all_keys) eq 'a b c' });

# What the session has already is as it was.
$one->query_is("SELECT redis_multi_lock('{b,d}'), redis_try_multi_lock('{a,x}'), redis_try_multi_lock('{a,x}')",
	'|t|t', 'again');
$one->query_is("SELECT redis_hold_count('a'), redis_hold_count('b'), redis_hold_count('x')",
	'3|2|2', 'counted');
$two->query_is("SELECT redis_lock('y')", '');
$one->query_is("SELECT redis_try_multi_lock('{a,q,y}', '50ms')", 'f');
$one->query_is("SELECT redis_hold_count('a'), redis_hold_count('q')", '3|0', 'as it was');
$one->query_is("SELECT redis_multi_unlock('{a,b,c,d,x}')", 't', 'given back');
poll_until('the last ones', sub { join(' ', $table->all_keys) eq 'a b x y' });
is($one->value('SELECT redis_unlock_all()'), 3);
$two->query_is("SELECT redis_unlock('y')", 't');

end_test($node, $table);
