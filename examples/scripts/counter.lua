-- Every request has another path: /0, /1, /2, ... The number is also in a header.
--
--   wrkbench -t1 -s examples/scripts/counter.lua http://localhost
--
-- Each thread has its own count. The first thread begins with 1, because one request is made only
-- to check it before the load begins.

local number = -1

function request()
  number = number + 1
  wrk.headers["X-Counter"] = number
  return wrk.format(nil, "/" .. number)
end
