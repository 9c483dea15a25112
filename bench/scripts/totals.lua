-- Prints what the tool knows, exactly: its own text rounds to three digits.
done = function(summary, latency, requests)
   local line = function(name, value)
      io.write(string.format("total %s %.3f\n", name, value))
   end
   line("requests", summary.requests)
   line("bytes", summary.bytes)
   line("timeouts", summary.errors.timeout)
   line("mean_us", latency.mean)
   for _, percent in ipairs({ 50, 90, 95, 99, 99.5, 99.9 }) do
      line("p" .. percent .. "_us", latency:percentile(percent))
   end
end
