-- HTTP pipelining: several requests in one write, before the first response arrives.
--
--   wrkbench -s examples/scripts/pipeline.lua http://localhost/ -- 16
--
-- The argument is the depth, 8 by default. A string with several requests is one batch. (To repeat
-- a single request, the option --pipeline does this without Lua.)

function init(args)
  local depth = tonumber(args[1] or 8)
  if not depth or depth < 1 then
    error("the depth must be a number from 1 on, not " .. args[1])
  end
  local all = {}
  for i = 1, depth do
    local separator = wrk.path:find("?", 1, true) and "&" or "?"
    all[i] = wrk.format(nil, wrk.path .. separator .. "n=" .. i)
  end
  batch = table.concat(all)
end

function request()
  return batch
end
