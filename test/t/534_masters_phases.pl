# Copyright (c) 2026, lockredis contributors

# Five independent masters, sets of which are gone, stand still, or were started again
# with nothing: what a lock that is to be had, given back, or renewed comes to then, and
# that no other server gets one that is held.
# Proves G47.

use LockRedis::Test;
use LockRedis::Topic::Masks;

start_servers();
try_masks($_) foreach qw(empty gone frozen);
end();
done_testing();
