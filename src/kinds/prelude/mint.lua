-- mint: a new token from the counter at the second key, above the floor, and as many more
-- after it as are asked for; the reply is the first one.

local counter = KEYS[2]
local floor, more, token = ARGV[2], ARGV[3], nil
-- needs: token
do return token end
