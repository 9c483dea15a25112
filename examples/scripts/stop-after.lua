-- Every thread stops after a number of responses.
--
--   wrkbench -t2 -s examples/scripts/stop-after.lua http://localhost/ -- 1000
--
-- The argument is the number per thread, 100 by default. (The option -n limits the requests of all
-- threads together.)

function init(args)
  limit = tonumber(args[1] or 100)
  if not limit or limit < 1 then
    error("the number of responses must be at least 1, not " .. args[1])
  end
  responses = 0
end

function response()
  responses = responses + 1
  if responses == limit then
    wrk.thread:stop()
  end
end
