-- Every response is shown to the script, with headers and body.
local answered, bytes = 0, 0

function response(status, headers, body)
  if status == 200 and headers["Content-Length"] then
    answered = answered + 1
    bytes = bytes + #body
  end
end
