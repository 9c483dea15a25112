-- Every thread stops after a number of responses.
--
--   wrkbench -t2 -s examples/scripts/stop-after.lua http://localhost/ -- 1000
--
-- The argument is the number per thread, 100 by default. (The option -n limits the requests of all
-- threads together.)

function init(args)
  limit = tonumber(args[1] or 100)
  if not limit or limit < 1 then
    error("the number of answers must be from 1 on, not " .. args[1])
  end
  answers = 0
end

function response()
  answers = answers + 1
  if answers == limit then
    wrk.thread:stop()
  end
end
