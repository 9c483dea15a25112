-- Appends the result to a file as the one line that wrk-cmm's report-csv.lua writes: no header;
-- min,max,mean,stdev,p50,p90,p99,p99.999 of the latency in microseconds, then the duration in
-- microseconds, requests and bytes.
--
--   wrkbench -s examples/scripts/csv.lua http://localhost/ [-- result.csv]
--
-- Use it to continue files written with wrk-cmm; csv-output.lua names its columns and counts errors.

local first_thread

function setup(thread)
  first_thread = first_thread or thread
end

-- Only init gets the arguments, in the threads' states; done runs in the main state and asks.
function init(args)
  file_name = args[1] or "result.csv"
end

function done(summary, latency)
  local values = { latency.min, latency.max, latency.mean, latency.stdev }
  for _, p in ipairs({ 50, 90, 99, 99.999 }) do
    values[#values + 1] = latency:percentile(p)
  end
  for i, value in ipairs(values) do
    values[i] = string.format("%f", value)
  end
  for _, count in ipairs({ summary.duration, summary.requests, summary.bytes }) do
    values[#values + 1] = string.format("%d", count)
  end
  local file = assert(io.open(first_thread:get("file_name"), "a"))
  file:write(table.concat(values, ","), "\n")
  file:close()
end
