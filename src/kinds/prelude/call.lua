-- call: a command whose error ends what try() was asked to do, and only that.

local function call(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error(answer)
  end
  return answer
end

local function try(...)
  local done, answer = pcall(...)
  -- Since Redis 7 the text of the error, which would be taken for an answer.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  return answer
end
