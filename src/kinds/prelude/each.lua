-- each: run a function for each lock, with so many of KEYS and of ARGV; "first" arguments are
-- those of the call.  Returns the answers.  Needs try().

local function each(run, nkeys, nargs, first)
  local answers = {}
  for i = 1, #KEYS / nkeys do
    local values = {unpack(KEYS, (i - 1) * nkeys + 1, i * nkeys)}
    for j = 1, nargs do
      values[nkeys + j] = ARGV[first + (i - 1) * nargs + j]
    end
    answers[i] = try(run, unpack(values))
  end
  return answers
end
