-- Every request asks for another path: /0, /1, /2, ... The number also stands in a header.
--
--   wrkbench -t1 -s examples/scripts/counter.lua http://localhost
--
-- Each thread counts for itself. The first thread begins with 1, since its first request is made
-- once more than it is sent, to look at it before the load begins.

local number = -1

function request()
  number = number + 1
  wrk.headers["X-Counter"] = number
  return wrk.format(nil, "/" .. number)
end
