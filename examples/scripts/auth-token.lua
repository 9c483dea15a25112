-- Log in once, then send the token that came back.
--
--   wrkbench -s examples/scripts/auth-token.lua http://localhost/private -- /login
--
-- The first argument is the path that gives the token, /login without one. Until the first answer
-- with a header X-Token arrives, every connection asks for it; from then on all use it. Each thread
-- has a token of its own.

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
    return -- not logged in: the next request asks again
  end
  token = headers["X-Token"]
  wrk.headers["Authorization"] = "Bearer " .. token
  -- Nothing more to learn: without a response function, answers are not copied into Lua.
  response = nil
end
