-- Prints the body of the first response: the server writes into it what the TLS handshake agreed on.
local printed = false

function response(status, headers, body)
  if not printed then
    printed = true
    print("body: " .. body)
  end
end
