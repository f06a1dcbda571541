# Copyright (c) 2026, lockredis contributors

# Five independent masters, sets of which are slow, or have clocks that jump: what a lock
# that is to be had, given back, or renewed comes to then, and that no other server gets
# one that is held, but where the clocks of most of them were set forward.
# Proves G47.  Shows what is not guaranteed: N19.

use LockRedis::Test;
use LockRedis::Topic::Masks;

start_servers(proxies => 1);
try_masks($_) foreach qw(slow forward back);
end();
done_testing();
