-- Prints what a script can observe, one line each: `phase name: value`. Run under two programs, the
-- lines are compared. Nothing here may depend on time, on speed, or on the order of a table.

local phase = "top"
local seen = {}

local function shown(value)
  if type(value) == "string" then
    return (string.format("%q", value):gsub("\n", "n"))
  elseif type(value) == "table" then
    local keys = {}
    for key, item in pairs(value) do
      keys[#keys + 1] = tostring(key) .. "=" .. type(item)
    end
    table.sort(keys)
    return "{" .. table.concat(keys, " ") .. "}"
  elseif type(value) == "function" or type(value) == "userdata" or type(value) == "thread" then
    return type(value)
  end
  return tostring(value)
end

-- A name is shown once per phase and state; later calls with it are silent.
local function show(name, ...)
  local values = {}
  for i = 1, select("#", ...) do
    values[i] = shown((select(i, ...)))
  end
  local line = phase .. " " .. name
  if not seen[line] then
    seen[line] = true
    print(line .. ": " .. table.concat(values, ", "))
  end
end

-- What a call gives, or that it fails and with which words (without the place in this file).
local function try(name, call)
  local results = { pcall(call) }
  if results[1] then
    show(name, unpack(results, 1, table.maxn(results)))
  else
    show(name, "fails")
    show(name .. " says", (tostring(results[2]):gsub("^.*probe%.lua:%d+: ", "")))
  end
end

local function show_wrk_table()
  local names = {}
  for name, value in pairs(wrk) do
    names[#names + 1] = tostring(name)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    show("wrk." .. name, type(wrk[name]), type(wrk[name]) ~= "table" and wrk[name] or nil)
  end
  for _, name in ipairs({ "scheme", "host", "port", "method", "path", "body", "thread" }) do
    show("field " .. name, wrk[name])
  end
  local headers = {}
  for name, value in pairs(wrk.headers) do
    headers[#headers + 1] = name .. "=" .. shown(value)
  end
  table.sort(headers)
  show("headers", table.concat(headers, " "))
  show("require", require("wrk") == wrk, package.loaded.wrk == wrk)
end

local function show_language()
  show("version", _VERSION, type(jit), type(bit), type(require("ffi")), type(ffi))
  show("globals", type(unpack), type(loadstring), type(setfenv), type(table.getn), type(math.pow))
  show("numbers", 10 / 2, 1e15, 1e16, 0.1, -0.0, 2 ^ 53, 7 % -3, string.format("%d", 3.7))
  show("formats", string.format("%g|%5.2f|%q|%s|%x|%c", 1e20, 1.005, "a\0\n\"", "s", 255, 65))
  show("source", debug.getinfo(1, "S").source:match("^@.*/([^/]*)$"))
  show("path", package.path:sub(1, 8))
  show("escape", "\x41\z
    B", #"\0\0")
  do
    goto over
    ::over::
  end
end

local function show_format()
  -- Without headers of its own, so that there is one line and no order.
  try("format one header", function()
    return wrk.format("GET", "/p", { Host = "h" })
  end)
  try("format mutates", function()
    local headers = { Host = "h", ["Content-Length"] = 9 }
    wrk.format("GET", "/", headers)
    return headers["Content-Length"], headers.Host
  end)
  try("format sets length", function()
    local headers = { Host = "h" }
    wrk.format("GET", "/", headers, "four")
    return headers["Content-Length"], type(headers["Content-Length"])
  end)
  try("format fills host", function()
    local headers = {}
    wrk.format("GET", "/", headers)
    return headers.Host
  end)
  try("format number body", function()
    local text = wrk.format("GET", "/", { Host = "h" }, 12)
    return text:sub(-6)
  end)
  try("format of a wrong header table", function()
    return wrk.format("GET", "/", 5)
  end)
  try("format of a table as body", function()
    return wrk.format("GET", "/", {}, {})
  end)
end

local function show_lookup()
  local found = wrk.lookup(wrk.host, wrk.port)
  show("lookup", type(found), #found, tostring(found[1]) == wrk.host .. ":" .. wrk.port)
  show("lookup kind", found[1], getmetatable(found[1]) ~= nil)
  show("connect", wrk.connect(found[1]))
  show("lookup v6", tostring(wrk.lookup("::1", "80")[1]))
  show("lookup service", tostring(wrk.lookup("127.0.0.1", "http")[1]))
  show("lookup closed port", wrk.connect(wrk.lookup("127.0.0.1", "1")[1]))
  try("connect nil", function()
    return wrk.connect(nil)
  end)
  try("connect string", function()
    return wrk.connect("127.0.0.1:80")
  end)
end

local function show_thread(thread)
  show("thread", thread)
  show("thread methods", type(thread.get), type(thread.set), type(thread.stop))
  show("thread.addr", tostring(thread.addr) == wrk.host .. ":" .. wrk.port, type(thread.addr))
  for name, value in pairs({ s = "text", n = 1.5, t = true, f = false, e = "", i = 2 ^ 53 }) do
    thread:set("value_" .. name, value)
    show("get " .. name, thread:get("value_" .. name))
  end
  thread:set("value_nil", nil)
  show("get nil", thread:get("value_nil"), thread:get("never_set"))
  try("set function", function()
    thread:set("x", print)
  end)
  try("set thread", function()
    thread:set("x", coroutine.create(print))
  end)
  try("set userdata", function()
    thread:set("x", thread)
  end)
  try("set field", function()
    thread.x = 1
  end)
  try("addr string", function()
    thread.addr = "127.0.0.1:80"
  end)
  try("addr nil", function()
    thread.addr = nil
  end)
  show("unknown field", thread.foo)
  thread:set("value_zero", "a\0b")
  show("get zero", thread:get("value_zero"))
  thread.addr = thread.addr
  show("addr after", tostring(thread.addr) == wrk.host .. ":" .. wrk.port)
end

local threads = {}

show_language()
show_wrk_table()
show_format()
wrk.headers["X-Top"] = "t"

function setup(thread)
  phase = "setup"
  threads[#threads + 1] = thread
  show_wrk_table()
  show("addrs", type(wrk.addrs), #wrk.addrs, tostring(wrk.addrs[1]) == wrk.host .. ":" .. wrk.port)
  show_lookup()
  show_thread(thread)
  show("request", type(wrk.request))
  thread:set("from_setup", "given")
end

function init(args)
  phase = "init"
  show_wrk_table()
  show_format()
  show("args", #args, args[1], args[2], args[3], args[-1])
  show("args[0]", args[0]:match("^http://127.0.0.1:%d+(/.*)$"))
  show("from setup", from_setup)
  show_lookup()
  show_thread(wrk.thread)
  show("request", type(wrk.request))
  requests, responses, delays = 0, 0, 0
end

function request()
  phase = "request"
  requests = requests + 1
  show_wrk_table()
  show("request", type(wrk.request), wrk.request():match("^[^\r]*"), #wrk.request() > 40)
  show_thread(wrk.thread)
  return wrk.format("POST", "/header=X-One:1/header=X-Two:a%20b/header=X-One:2/size=5?" .. "q", nil, "body")
end

function delay()
  phase = "delay"
  delays = delays + 1
  show("first", type(wrk.thread), responses)
  return "1"
end

function response(status, headers, body)
  phase = "response"
  responses = responses + 1
  show("status", status, type(status))
  show("headers", headers["X-One"], headers["X-Two"], headers["x-one"], headers["Content-Length"])
  show("body", #body, type(body))
  show("more", select("#", status, headers, body))
  last_status = status
end

function done(summary, latency, requests)
  phase = "done"
  show_wrk_table()
  show("request", type(wrk.request))
  show("arguments", type(summary), type(latency), type(requests))
  show("summary", summary)
  show("errors", summary.errors)
  for _, name in ipairs({ "connect", "read", "write", "status", "timeout" }) do
    show("errors." .. name, summary.errors[name])
  end
  show("plausible", summary.requests > 10, summary.bytes > 1000, summary.duration > 9e5)
  for name, object in pairs({ latency = latency, requests = requests }) do
    for _, field in ipairs({ "min", "max", "mean", "stdev" }) do
      show(name .. "." .. field, type(object[field]), object[field] >= 0)
    end
    show(name .. ":percentile", type(object.percentile), type(object:percentile(50)))
    show(name .. " order", object.min <= object.mean, object.mean <= object.max)
    local lowest, rises = 0, true
    for p = 1, 99 do
      rises = rises and object:percentile(p) >= lowest
      lowest = object:percentile(p)
    end
    show(name .. " percentiles", rises, object:percentile(99.9) <= object.max)
    show(name .. " p as text", object:percentile("50") == object:percentile(50))
    show(name .. " p0", type(object:percentile(0)))
    show(name .. " p100", object:percentile(100) == object.max)
    show(name .. " distinct", type(#object), #object > 0)
    local total, ascends, last = 0, true, -1
    for i = 1, #object do
      local value, count = object(i)
      total, ascends, last = total + count, ascends and value > last, value
    end
    show(name .. " counts", total > 0, ascends)
    -- Ours keeps three significant digits of each value, and the extremes exactly.
    local least, most = (object(1)), (object(#object))
    show(name .. " ends", math.abs(least / object.min - 1) < 1e-3, math.abs(most / object.max - 1) < 1e-3)
    show(name .. " outside", (object(0)), select(2, object(0)) == #object, (object(#object + 1)))
    show(name .. " unknown", object.foo)
    show(name .. " index", object[1])
    try(name .. " p nil", function()
      return type(object:percentile(nil))
    end)
    try(name .. " p word", function()
      return type(object:percentile("x"))
    end)
    try(name .. " i word", function()
      return type((object("x")))
    end)
    try(name .. " assigned", function()
      object.min = 1
    end)
  end
  for i, thread in ipairs(threads) do
    show("thread " .. i, thread)
    show("responses " .. i, thread:get("responses") == summary.requests, thread:get("last_status"))
    show("one call more " .. i, thread:get("requests") - thread:get("responses") <= 2)
    show("delays " .. i, thread:get("delays") - thread:get("responses") <= 2, thread:get("from_setup"))
    thread:set("late", "x")
    show("set late " .. i, thread:get("late"))
    local ok = pcall(thread.stop, thread)
    show("stop " .. i, ok)
  end
end
