-- Sixteen requests in one write; the batch is made once, so that the script costs nothing per request.
local batch

function init(args)
  local requests = {}
  for i = 1, 16 do
    requests[i] = wrk.format("GET", wrk.path)
  end
  batch = table.concat(requests)
end

function request()
  return batch
end
