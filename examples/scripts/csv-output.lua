-- Appends one line of results to a CSV file, and writes the header line if the file is new.
--
--   wrkbench -s examples/scripts/csv-output.lua http://localhost/ -- results.csv
--
-- Only init gets the arguments, and it runs in the threads' states; done runs in the main state.
-- So done gets the name from the first thread.

local columns = {
  "duration_us", "requests", "bytes", "latency_min_us", "latency_mean_us", "latency_p50_us",
  "latency_p90_us", "latency_p99_us", "latency_max_us", "errors",
}
local first_thread

function setup(thread)
  first_thread = first_thread or thread
end

function init(args)
  file_name = args[1] or "results.csv"
end

local function is_new(name)
  local file = io.open(name)
  if file then
    file:close()
  end
  return not file
end

function done(summary, latency)
  local errors = summary.errors
  local values = {
    summary.duration, summary.requests, summary.bytes, latency.min, latency.mean,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
  }
  local name = first_thread:get("file_name")
  local header = is_new(name) and table.concat(columns, ",") .. "\n" or ""
  local file = assert(io.open(name, "a"))
  for i, value in ipairs(values) do
    values[i] = string.format("%.15g", value)
  end
  file:write(header, table.concat(values, ","), "\n")
  file:close()
end
