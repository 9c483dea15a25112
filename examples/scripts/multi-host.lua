-- Loads several servers at once: the threads take them in turn.
--
--   wrkbench -t4 -s examples/scripts/multi-host.lua http://localhost/
--
-- Thread 1 connects to the first address of the host, thread 2 to the second, and so on. Add other
-- hosts to the list below as { host, port }. Use as many threads as there are addresses, or a
-- multiple. The Host header stays that of the URL.

local more_hosts = {
  -- { "other.example.com", "80" },
}

local addresses, next_number

local function collect()
  local found = {}
  for _, address in ipairs(wrk.addrs) do
    found[#found + 1] = address
  end
  for _, host in ipairs(more_hosts) do
    for _, address in ipairs(wrk.lookup(host[1], host[2])) do
      if wrk.connect(address) then
        found[#found + 1] = address
      end
    end
  end
  return found
end

function setup(thread)
  if not addresses then
    addresses, next_number = collect(), 1
  end
  thread.addr = addresses[next_number]
  next_number = next_number % #addresses + 1
end

function init()
  io.stderr:write("a thread loads ", tostring(wrk.thread.addr), "\n")
end
