-- owner: replaces an owner too long to be shown by its beginning and a digest.

if #owner > 95 or string.find(owner, '%z') then
  owner = string.gsub(string.sub(owner, 1, 40), '%z', '?') .. '...'
    .. redis.sha1hex(string.sub(owner, 1, 32768) .. string.sub(owner, -32768) .. #owner)
end
