-- Every request is made anew, with another path.
local number = 0

function request()
  number = number + 1
  return wrk.format("GET", "/item/" .. number % 1000)
end
