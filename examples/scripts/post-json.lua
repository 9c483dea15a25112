-- POST with a JSON body.
--
--   wrkbench -s examples/scripts/post-json.lua http://localhost/api/items
--
-- Set at top level, these fields define a fixed request: Lua does not run during the load.
-- Content-Length is added automatically.

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name": "example", "tags": ["a", "b"], "count": 3}'
