-- Prints the result as one JSON object, after the report.
--
--   wrkbench -q -s examples/scripts/json-output.lua http://localhost/ | tail -n 1 | jq .
--
-- The option --json FILE saves much more; this script shows how to print your own object.

local function number(value)
  -- JSON has neither infinity nor NaN.
  if value ~= value or value == math.huge or value == -math.huge then
    return "null"
  end
  return string.format("%.15g", value)
end

local function object(pairs_in_order)
  local members = {}
  for i, pair in ipairs(pairs_in_order) do
    members[i] = string.format('"%s":%s', pair[1], pair[2])
  end
  return "{" .. table.concat(members, ",") .. "}"
end

function done(summary, latency, requests)
  local percentiles = {}
  for i, p in ipairs({ 50, 75, 90, 99, 99.9, 100 }) do
    percentiles[i] = { tostring(p), number(latency:percentile(p)) }
  end
  local errors = {}
  for i, kind in ipairs({ "connect", "read", "write", "status", "timeout" }) do
    errors[i] = { kind, number(summary.errors[kind]) }
  end
  local seconds = summary.duration / 1e6
  print(object({
    { "duration_us", number(summary.duration) },
    { "requests", number(summary.requests) },
    { "bytes", number(summary.bytes) },
    { "requests_per_sec", number(seconds > 0 and summary.requests / seconds or 0) },
    { "latency_mean_us", number(latency.mean) },
    { "latency_stdev_us", number(latency.stdev) },
    { "latency_percentiles_us", object(percentiles) },
    { "requests_per_sec_and_thread_mean", number(requests.mean) },
    { "errors", object(errors) },
  }))
end
