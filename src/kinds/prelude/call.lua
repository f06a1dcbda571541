-- call: run a command; its error ends the function that try() runs, and nothing else.

local function call(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error(answer)
  end
  return answer
end

local function try(...)
  local done, answer = pcall(...)
  -- Since Redis 7 pcall() returns the text of the error, which would look like an answer.
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  return answer
end
