-- Prints the result as wrk-cmm's json.lua does, with the same field names, order and format, so that
-- programs that read that output (from the first line that begins with "{") keep working.
--
--   wrkbench -s examples/scripts/json.lua http://localhost/
--
-- It has no errors, statuses or phases; the option --json FILE has them.

local percentiles = { 50, 75, 90, 99, 99.999 }

-- A run of no length has a rate of 0, because JSON has no NaN.
local function per_second(count, duration_us)
  return duration_us > 0 and count / duration_us * 1e6 or 0
end

local function rounded(value)
  return math.floor(value + 0.5)
end

function done(summary, latency)
  local entries = {}
  for i, p in ipairs(percentiles) do
    entries[i] = string.format(
      '\t\t{\n\t\t\t"percentile": %g,\n\t\t\t"latency_in_microseconds": %d\n\t\t}',
      p,
      rounded(latency:percentile(p))
    )
  end
  local lines = {
    "",
    "JSON Output",
    "-----------",
    "",
    "{",
    string.format('\t"requests": %d,', summary.requests),
    string.format('\t"duration_in_microseconds": %0.2f,', summary.duration),
    string.format('\t"bytes": %d,', summary.bytes),
    string.format('\t"requests_per_sec": %0.2f,', per_second(summary.requests, summary.duration)),
    string.format('\t"bytes_transfer_per_sec": %0.2f,', per_second(summary.bytes, summary.duration)),
    '\t"latency_distribution": [',
    table.concat(entries, ",\n"),
    "\t]",
    "}",
  }
  print(table.concat(lines, "\n"))
end
