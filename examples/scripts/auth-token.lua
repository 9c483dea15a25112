-- Logs in once, then sends the token from the response.
--
--   wrkbench -s examples/scripts/auth-token.lua http://localhost/private -- /login
--
-- The first argument is the login path, /login by default. Until the first response with a header
-- X-Token arrives, every connection requests it; from then on all use it. Each thread has its own
-- token.

function init(args)
  login_path = args[1] or "/login"
  token = nil
end

function request()
  if token then
    return wrk.format() -- wrk.headers has the token by now
  end
  return wrk.format("GET", login_path)
end

function response(status, headers, body)
  if token then
    return
  end
  if status ~= 200 or not headers["X-Token"] then
    return -- not logged in: the next request tries again
  end
  token = headers["X-Token"]
  wrk.headers["Authorization"] = "Bearer " .. token
  -- The token is known: without a response function, responses are not copied into Lua.
  response = nil
end
