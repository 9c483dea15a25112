-- Requests the paths of a file in turn, one per line; empty lines and lines with # are ignored.
--
--   wrkbench -s examples/scripts/paths-from-file.lua http://localhost -- examples/scripts/paths.txt
--
-- All requests are made before the load begins. Each thread starts at another place in the list.

local thread_count = 0

function setup(thread)
  thread_count = thread_count + 1
  thread:set("thread_number", thread_count)
end

function init(args)
  local name = args[1] or "paths.txt"
  local file, reason = io.open(name)
  if not file then
    error("cannot read the list of paths: " .. reason)
  end
  requests = {}
  for line in file:lines() do
    local path = line:match("^%s*([^#%s]%S*)")
    if path then
      requests[#requests + 1] = wrk.format(nil, path)
    end
  end
  file:close()
  if #requests == 0 then
    error(name .. " has no paths")
  end
  position = (thread_number * 7919) % #requests
end

function request()
  position = position % #requests + 1
  return requests[position]
end
