-- PUT to a numbered resource, with a body of a given size.
--
--   wrkbench -s examples/scripts/put.lua http://localhost/files -- 4096
--
-- The argument is the size of the body in bytes, 1024 by default. Every thread writes to its own
-- paths (/files/1-1, /files/1-2, ..., /files/2-1, ...).

local thread_count = 0

function setup(thread)
  thread_count = thread_count + 1
  thread:set("thread_number", thread_count)
end

function init(args)
  local size = tonumber(args[1] or 1024)
  if not size or size < 0 then
    error("the size must be a number of bytes, not " .. args[1])
  end
  content = string.rep("x", size)
  base = wrk.path:gsub("/$", "")
  resource = 0
end

function request()
  resource = resource + 1
  return wrk.format("PUT", base .. "/" .. thread_number .. "-" .. resource, nil, content)
end
