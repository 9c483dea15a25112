-- Each connection waits 20 ms before each of its requests.
function delay()
   return 20
end
