-- The `wrk` table and the objects that scripts see. Runs once in every Lua state, before the
-- script.
--
-- `native` contains functions of the host. They never raise: on failure they return nil and a
-- message, and the functions here raise it with the line of the script.
-- `given` contains the settings of the command line.
-- The host calls a state through the table returned at the end; scripts cannot access it.
local native, given = ...

-- Locals, so that a script that replaces a global of the same name does not break this file.
local error, getmetatable, newproxy, pairs = error, getmetatable, newproxy, pairs
local pcall, rawget, rawset, setmetatable = pcall, rawget, rawset, setmetatable
local tonumber, tostring, type = tonumber, tostring, type
local getinfo, find, format, gsub = debug.getinfo, string.find, string.format, string.gsub
local lower, new_buffer = string.lower, require("string.buffer").new
local globals = _G

local wrk = {
  scheme = given.scheme,
  host = given.host,
  port = given.port,
  method = given.method,
  path = given.path,
  headers = given.headers,
  body = given.body,
}
globals.wrk = wrk
package.loaded.wrk = wrk

-- Modules. LuaJIT itself searches /usr/local. Distributions install modules for Lua 5.1 in /usr,
-- which the LuaJIT of a distribution searches too. A LUA_PATH or LUA_CPATH without LuaJIT's own
-- places also excludes these.

local function add_search_places(variable, own, places)
  if find(package[variable], own, 1, true) then
    package[variable] = package[variable] .. ";" .. table.concat(places, ";")
  end
end

local processors = { x64 = "x86_64", x86 = "i386", arm64 = "aarch64", arm = "arm" }
local processor = processors[jit.arch] or jit.arch
local abi = jit.arch == "arm" and "gnueabihf" or "gnu"

add_search_places("path", "/usr/local/share/lua/5.1/?.lua", {
  "/usr/share/lua/5.1/?.lua",
  "/usr/share/lua/5.1/?/init.lua",
})
add_search_places("cpath", "/usr/local/lib/lua/5.1/?.so", {
  "/usr/lib/" .. processor .. "-linux-" .. abi .. "/lua/5.1/?.so",
  "/usr/lib64/lua/5.1/?.so",
  "/usr/lib/lua/5.1/?.so",
})

-- Modules that came with the script.
if given.modules then
  package.path = given.modules .. "/?.lua;" .. given.modules .. "/?/init.lua;" .. package.path
end

-- In front, because a long list of places that were searched is cut off.
if given.static then
  table.insert(package.loaders, 1, function()
    return "\n\tthe static build of wrkbench loads only modules written in Lua"
  end)
end

local function defined(name)
  return type(rawget(globals, name)) == "function"
end

-- Addresses: opaque values that print as `ip:port`.

local address_text = setmetatable({}, { __mode = "k" })
local address_kind = newproxy(true)
local address_meta = getmetatable(address_kind)

function address_meta.__tostring(address)
  return (gsub(address_text[address] or "address", "[%[%]]", ""))
end

function address_meta.__eq(a, b)
  return address_text[a] == address_text[b]
end

local function new_address(text)
  local address = newproxy(address_kind)
  address_text[address] = text
  return address
end

local function address_list(texts)
  local list = {}
  for i = 1, #texts do
    list[i] = new_address(texts[i])
  end
  return list
end

-- Name resolution. A script may replace `wrk.resolve`, which must set `wrk.addrs`.

local function host_and_service(host, service, name)
  if type(host) ~= "string" then
    error("wrk." .. name .. ": the host must be a string, not a " .. type(host), 3)
  end
  if type(service) ~= "string" and type(service) ~= "number" then
    error("wrk." .. name .. ": the service must be a port or a name, not a " .. type(service), 3)
  end
  return host, tostring(service)
end

function wrk.lookup(host, service)
  local texts, problem = native.lookup(host_and_service(host, service, "lookup"))
  if problem then
    error(problem, 2)
  end
  return address_list(texts)
end

function wrk.connect(address)
  local text = address_text[address or false]
  if not text then
    error("wrk.connect: expected an address from wrk.lookup, not a " .. type(address), 2)
  end
  return (native.connect(text))
end

function wrk.resolve(host, service)
  local texts, problem = native.lookup(host_and_service(host, service, "resolve"))
  if problem then
    error(problem, 0)
  end
  local reachable = {}
  for i = 1, #texts do
    if native.connect(texts[i]) then
      reachable[#reachable + 1] = texts[i]
    end
  end
  wrk.addrs = address_list(reachable)
end

function wrk.time_us()
  return (native.time_us())
end

-- Requests.

local header_order, order_of = given.header_order, {}
for i = 1, #header_order do
  order_of[header_order[i]] = i
end

-- Whether a header name is `Host` in another spelling.
local function find_host(headers)
  for name in pairs(headers) do
    if type(name) == "string" and #name == 4 and lower(name) == "host" then
      return name
    end
  end
end

local function put_header(out, name, value)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" then
    value = tostring(value)
  end
  out:put(name, ": ", value, "\r\n")
end

local function put_headers(out, headers)
  local host = headers.Host
  if host ~= nil then
    put_header(out, "Host", host)
  end
  for i = 1, #header_order do
    local name = header_order[i]
    local value = headers[name]
    if value ~= nil then
      put_header(out, name, value)
    end
  end
  for name, value in pairs(headers) do
    if name ~= "Host" and name ~= "Content-Length" and not order_of[name] then
      if type(name) ~= "string" then
        name = tostring(name)
      end
      put_header(out, name, value)
    end
  end
  local length = headers["Content-Length"]
  if length then
    put_header(out, "Content-Length", length)
  end
end

-- `tostring` would turn a field that a script has set to nil into the word "nil".
local function check_word(word, name)
  local kind = type(word)
  if kind ~= "string" and kind ~= "number" then
    kind = kind == "nil" and kind or "a " .. kind
    error(name .. " must be a string, not " .. kind, 3)
  end
end

-- One buffer serves all calls. It is removed while in use, because a header's __tostring may call
-- wrk.format again, and an error may leave the buffer half filled.
local spare = new_buffer()

function wrk.format(method, path, headers, body)
  method = method or wrk.method
  path = path or wrk.path
  headers = headers or wrk.headers
  body = body or wrk.body
  check_word(method, "wrk.format: the method")
  check_word(path, "wrk.format: the path")
  if type(headers) ~= "table" then
    error("wrk.format: headers must be a table, not a " .. type(headers), 2)
  end
  if type(body) == "number" then
    body = tostring(body)
  elseif body and type(body) ~= "string" then
    error("wrk.format: the body must be a string, not a " .. type(body), 2)
  end
  if headers.Host == nil and not find_host(headers) then
    local default = wrk.headers
    headers.Host = type(default) == "table" and default.Host or nil
  end
  headers["Content-Length"] = body and #body or nil

  local out = spare or new_buffer()
  spare = nil
  out:reset()
  out:put(tostring(method), " ", tostring(path), " HTTP/1.1\r\n")
  put_headers(out, headers)
  out:put("\r\n", body or "")
  local text = out:get()
  spare = out
  return text
end

-- Threads: the main state has a handle of every thread, and each thread has one of itself.

local thread_index = setmetatable({}, { __mode = "k" })
local thread_kind = newproxy(true)
local thread_meta = getmetatable(thread_kind)
local thread_methods = {}

local function index_of(thread, method)
  local index = thread_index[thread or false]
  if not index then
    error("call it as thread:" .. method .. "(...), with a colon", 3)
  end
  return index
end

local function check_name(name, method)
  if type(name) ~= "string" then
    error("thread:" .. method .. ": the name must be a string, not a " .. type(name), 3)
  end
end

function thread_methods.get(thread, name)
  local index = index_of(thread, "get")
  check_name(name, "get")
  local value, problem = native.get(index, name)
  if problem then
    error(problem, 2)
  end
  return value
end

function thread_methods.set(thread, name, value)
  local index = index_of(thread, "set")
  check_name(name, "set")
  local _, problem = native.set(index, name, value)
  if problem then
    error(problem, 2)
  end
end

function thread_methods.stop(thread)
  native.stop(index_of(thread, "stop"))
end

-- wrk returns the name of a field that does not exist. Scripts print it.
local function name_of(key)
  if type(key) == "string" or type(key) == "number" then
    return tostring(key)
  end
end

local worker_base = given.worker_base

function thread_meta.__index(thread, key)
  if key == "number" then
    return worker_base + thread_index[thread]
  elseif key == "addr" then
    local text = native.address(thread_index[thread])
    return text and new_address(text)
  end
  return thread_methods[key] or name_of(key)
end

function thread_meta.__newindex(thread, key, value)
  if key ~= "addr" then
    error("cannot set '" .. tostring(key) .. "' on thread, use thread:set", 2)
  end
  local text = address_text[value or false]
  if not text then
    error("thread.addr must be an address from wrk.lookup, not a " .. type(value), 2)
  end
  native.set_address(thread_index[thread], text)
end

local function new_thread(index)
  local thread = newproxy(thread_kind)
  thread_index[thread] = index
  return thread
end

-- A thread needs no host function to access its own globals. They are copied nevertheless, so that
-- get and set behave the same everywhere.
if not native.get then
  function native.get(_, name)
    return native.copy(rawget(globals, name))
  end

  function native.set(_, name, value)
    local copy, problem = native.copy(value)
    if problem then
      return nil, problem
    end
    rawset(globals, name, copy)
  end
end

-- The phases that a script may override.

function wrk.setup(thread)
  thread.addr = wrk.addrs[1]
  if defined("setup") then
    rawget(globals, "setup")(thread)
  end
end

function wrk.init(args)
  local headers = wrk.headers
  if type(headers) == "table" and not find_host(headers) then
    check_word(wrk.host, "wrk.host")
    local host = tostring(wrk.host)
    if find(host, ":", 1, true) then
      host = "[" .. host .. "]"
    end
    headers.Host = wrk.port and host .. ":" .. tostring(wrk.port) or host
  end
  if defined("init") then
    rawget(globals, "init")(args)
  end
  local text = wrk.format()
  function wrk.request()
    return text
  end
end

-- The arguments of `done`.

-- At a fixed rate, numeric keys of `latency` are ranks (wrk2); otherwise they are unknown (wrk).
local function new_statistics(which, given)
  local fields, length, ranked = given.fields, given.length, given.ranked
  local object = newproxy(true)
  local meta = getmetatable(object)
  local function percentile(_, p)
    local number = tonumber(p)
    if not number then
      error("percentile: expected a number from 0 to 100, not a " .. type(p), 2)
    end
    return (native.percentile(which, number))
  end
  function meta.__index(_, key)
    if key == "percentile" then
      return percentile
    end
    if ranked and type(key) == "number" then
      return (native.sample(which, key))
    end
    return fields[key] or name_of(key)
  end
  function meta.__len()
    return length
  end
  function meta.__call(_, i)
    local number = tonumber(i)
    if not number then
      error(which .. "(i): expected a number, not a " .. type(i), 2)
    end
    return native.bucket(which, number)
  end
  return object
end

-- Errors: the error value of every failed call by the host is processed here.

local own_source = getinfo(1, "S").source

local function error_text(problem)
  if type(problem) == "string" then
    return problem
  end
  local meta = type(problem) == "table" and getmetatable(problem)
  if type(meta) == "table" and rawget(meta, "__tostring") then
    local fine, text = pcall(tostring, problem)
    if fine and type(text) == "string" then
      return text
    end
  end
  if type(problem) == "number" or type(problem) == "boolean" or problem == nil then
    return "error value " .. tostring(problem)
  end
  return "(error object is a " .. type(problem) .. " value)"
end

-- Prefixes a message without a position with `file:line:`, the innermost line of the script.
local function explain(problem)
  -- A line of this file does not help the author of the script.
  local text = gsub(error_text(problem), "^wrk%.lua:%d+: ", "")
  if find(text, "^[^\n]-:%d+: ") then
    return text
  end
  for level = 2, 60 do
    local frame = getinfo(level, "Sl")
    if not frame then
      break
    end
    if frame.currentline > 0 and frame.source ~= own_source then
      return format("%s:%d: %s", frame.short_src, frame.currentline, text)
    end
  end
  return text
end

local host = { explain = explain, defined = defined }

-- Position of a global function, for messages about what it returned.
function host.place(name)
  local value = rawget(globals, name)
  if type(value) ~= "function" then
    return "wrk.request"
  end
  local source = getinfo(value, "S")
  return source.short_src .. ":" .. source.linedefined
end

function host.resolve(name, service)
  wrk.resolve(name, service)
  local list, texts = wrk.addrs, {}
  if type(list) ~= "table" then
    error("wrk.resolve has not set wrk.addrs to a table of addresses", 0)
  end
  for i = 1, #list do
    local text = address_text[list[i] or false]
    if not text then
      error("wrk.addrs[" .. i .. "] is not an address from wrk.lookup", 0)
    end
    texts[i] = text
  end
  return texts
end

function host.attach(index)
  wrk.thread = new_thread(index)
end

function host.setup(index)
  wrk.setup(new_thread(index))
end

function host.module_path()
  return package.path
end

function host.init(args)
  wrk.init(args)
end

function host.default_request()
  local make = wrk.request
  return make and make()
end

function host.done(summary, latency, requests)
  local finish = rawget(globals, "done")
  if type(finish) == "function" then
    finish(
      summary,
      new_statistics("latency", latency),
      new_statistics("requests", requests)
    )
  end
end

-- The two directions of thread:get and thread:set, on the thread's side.
function host.read(name)
  return rawget(globals, name)
end

function host.write(name, value)
  rawset(globals, name, value)
end

return host
