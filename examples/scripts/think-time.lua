-- Waits between the requests of a connection, as users do.
--
--   wrkbench -c 1000 -s examples/scripts/think-time.lua http://localhost/ -- 250
--
-- The argument is the mean in milliseconds, 100 by default. The times are exponentially
-- distributed: most are short, a few are long.

function init(args)
  mean_ms = tonumber(args[1] or 100)
  if not mean_ms or mean_ms < 0 then
    error("the think time must be a number of milliseconds, not " .. args[1])
  end
end

function delay()
  return -mean_ms * math.log(1 - math.random())
end
