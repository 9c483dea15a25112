//! Requests of scripts: wrk.format, wrk.request, fixed and dynamic requests.

mod script_test;

use script_test::{ScriptTest, next, next_failure};

#[test]
fn without_a_script_the_request_is_fixed() {
    let (_script, source) = ScriptTest::bare().one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert_eq!(
        batch,
        "GET /path?q=1 HTTP/1.1\r\nHost: one.test:8080\r\n\r\n"
    );
    assert!(!source.wants_delay() && !source.wants_responses() && !source.stopped());
}

#[test]
fn the_host_header_is_first_and_others_keep_the_order_of_the_command_line() {
    let mut test = ScriptTest::bare();
    for name in ["X-D", "X-A", "X-C", "X-B", "Accept"] {
        test = test.header(name, "v");
    }
    let (_script, source) = test.one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert_eq!(
        batch,
        "GET /path?q=1 HTTP/1.1\r\nHost: one.test:8080\r\nX-D: v\r\nX-A: v\r\nX-C: v\r\nX-B: v\r\n\
         Accept: v\r\n\r\n"
    );
}

#[test]
fn the_last_of_repeated_headers_wins_and_host_is_replaced_in_any_spelling() {
    let test = ScriptTest::bare()
        .header("X-A", "1")
        .header("X-A", "2")
        .header("hOST", "other");
    let (_script, source) = test.one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert_eq!(
        batch,
        "GET /path?q=1 HTTP/1.1\r\nHost: other\r\nX-A: 2\r\n\r\n"
    );
}

#[test]
fn content_length_is_always_computed() {
    let mut test = ScriptTest::bare().header("content-length", "7");
    let (_script, source) = test.one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert!(!batch.to_lowercase().contains("content-length"), "{batch}");

    test.method = "POST".to_owned();
    test.body = Some(b"four".to_vec());
    let (_script, source) = test.one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert!(
        batch.ends_with("\r\nContent-Length: 4\r\n\r\nfour"),
        "{batch}"
    );
}

#[test]
fn a_body_may_contain_any_bytes() {
    let mut test = ScriptTest::bare();
    test.method = "POST".to_owned();
    test.body = Some((0..=255).collect());
    let (_script, source) = test.one();
    let batch = source.fixed().unwrap();
    assert!(batch.ends_with(&(0..=255).collect::<Vec<u8>>()));

    let test = ScriptTest::script(r"wrk.method = 'POST' wrk.body = ('\0\r\n\xff'):rep(3)");
    let batch = test.one().1.fixed().unwrap();
    assert!(batch.ends_with(b"Content-Length: 12\r\n\r\n\0\r\n\xff\0\r\n\xff\0\r\n\xff"));
}

#[test]
fn fields_of_the_wrk_table_change_the_fixed_request_until_init_returns() {
    let test = ScriptTest::script(
        r#"
        wrk.method = "PUT"
        wrk.headers["Content-Type"] = "text/plain"
        function init() wrk.path, wrk.body = "/init", "x" end
        "#,
    );
    let batch = String::from_utf8(test.one().1.fixed().unwrap()).unwrap();
    assert_eq!(
        batch,
        "PUT /init HTTP/1.1\r\nHost: one.test:8080\r\nContent-Type: text/plain\r\n\
         Content-Length: 1\r\n\r\nx"
    );
}

#[test]
fn each_argument_of_format_has_its_own_default() {
    ScriptTest::script(
        r#"
        function init()
          local tail = " HTTP/1.1\r\nHost: one.test:8080\r\n\r\n"
          assert(wrk.format() == "GET /path?q=1" .. tail)
          assert(wrk.format("HEAD") == "HEAD /path?q=1" .. tail)
          assert(wrk.format(nil, "/x") == "GET /x" .. tail)
          assert(wrk.format(nil, nil, {}) == "GET /path?q=1" .. tail)
          assert(wrk.format(nil, nil, {Host = "h"}) == "GET /path?q=1 HTTP/1.1\r\nHost: h\r\n\r\n")
          assert(wrk.format("POST", "/", {}, "b") ==
            "POST / HTTP/1.1\r\nHost: one.test:8080\r\nContent-Length: 1\r\n\r\nb")
          assert(wrk.format("POST", "/", {}, "") ==
            "POST / HTTP/1.1\r\nHost: one.test:8080\r\nContent-Length: 0\r\n\r\n")
          assert(wrk.format("POST", "/", {}, 12.5):find("Content-Length: 4\r\n\r\n12.5", 1, true))
          wrk.body = "default"
          assert(wrk.format():find("Content-Length: 7\r\n\r\ndefault", 1, true))
        end
        "#,
    )
    .check();
}

#[test]
fn format_changes_the_header_table_it_is_given() {
    ScriptTest::script(
        r#"
        function init()
          local headers = { ["Content-Length"] = "99" }
          wrk.format("GET", "/", headers)
          assert(headers.Host == "one.test:8080" and headers["Content-Length"] == nil)
          wrk.format("POST", "/", headers, "abc")
          assert(headers["Content-Length"] == 3)
          local own = { host = "mine" }
          local text = wrk.format("GET", "/", own)
          assert(own.Host == nil and text:find("\r\nhost: mine\r\n", 1, true), text)
          wrk.headers["X-Later"] = 1
          assert(wrk.format():find("\r\nX-Later: 1\r\n", 1, true))
          wrk.headers["X-Later"] = nil
          assert(not wrk.format():find("X-Later", 1, true))
        end
        "#,
    )
    .check();
}

#[test]
fn there_is_no_host_header_at_top_level_and_in_the_main_state() {
    ScriptTest::script(
        r#"
        local text = "GET /path?q=1 HTTP/1.1\r\n\r\n"
        assert(wrk.format() == text, wrk.format())
        function setup() assert(wrk.format() == text) end
        function done() assert(wrk.format() == text) end
        "#,
    )
    .check();
}

#[test]
fn header_values_of_any_type_are_converted_by_tostring() {
    ScriptTest::script(
        r#"
        local shown = setmetatable({}, { __tostring = function() return "from __tostring" end })
        local nested = setmetatable({}, { __tostring = function()
          return tostring(#wrk.format("GET", "/", {Host = "x"}))
        end })
        function init()
          local function has(value, text)
            local request = wrk.format("GET", "/", { ["X-A"] = value })
            assert(request:find("\r\nX-A: " .. text .. "\r\n", 1, true), request)
          end
          has(1, "1") has(1.5, "1.5") has(true, "true") has(false, "false")
          has("", "") has(shown, "from __tostring") has(nested, "27")
          has(1e15, "1e+15")
        end
        "#,
    )
    .check();
}

#[test]
fn format_reports_the_wrong_argument_with_the_line_of_the_script() {
    let message = ScriptTest::script("\nfunction init()\n  wrk.format(1, 2, 'x')\nend").failure();
    assert!(
        message
            .ends_with("script.lua:3: wrk.format: headers must be a table, not a string (in init)"),
        "{message}"
    );
    let message = ScriptTest::script("wrk.format('GET', '/', {}, {})").failure();
    assert!(message.contains("script.lua:1: wrk.format: the body must be a string, not a table"));
}

#[test]
fn a_missing_part_of_a_request_is_reported_by_name() {
    for (script, said) in [
        (
            "wrk.path = nil",
            "wrk.format: the path must be a string, not nil (in init)",
        ),
        (
            "wrk.path = true",
            "wrk.format: the path must be a string, not a boolean",
        ),
        (
            "wrk.method = nil",
            "wrk.format: the method must be a string, not nil",
        ),
        ("wrk.host = nil", "wrk.host must be a string, not nil"),
        (
            "function request() wrk.path = nil local text = wrk.format() return text end",
            "script.lua:1: wrk.format: the path must be a string, not nil (in request)",
        ),
    ] {
        let message = ScriptTest::script(script).failure();
        assert!(message.contains(said), "{script}: {message}");
        assert!(!message.contains("wrk.lua:"), "{script}: {message}");
    }
    ScriptTest::script("wrk.path = 5 wrk.method = 1").check();
}

#[test]
fn a_failed_format_does_not_affect_the_next_one() {
    ScriptTest::script(
        r#"
        local bad = setmetatable({}, { __tostring = function() error("no text") end })
        function init()
          for _ = 1, 3 do
            assert(not pcall(wrk.format, "GET", "/", { A = bad, Host = "x" }))
            assert(wrk.format("GET", "/", { Host = "x" }) == "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
          end
        end
        "#,
    )
    .check();
}

#[test]
fn a_counter_has_already_counted_the_request_checked_before_the_run() {
    let test = ScriptTest::script(
        "local n = -1
         function request() n = n + 1 return wrk.format(nil, '/' .. n) end",
    );
    let (_script, mut source) = test.one();
    assert!(source.fixed().is_none());
    assert!(next(&mut source).starts_with("GET /1 "));
    assert!(next(&mut source).starts_with("GET /2 "));
}

#[test]
fn request_may_return_the_prebuilt_request_unchanged() {
    let test = ScriptTest::script("function request() return wrk.request() end");
    let (_script, mut source) = test.one();
    let expected = "GET /path?q=1 HTTP/1.1\r\nHost: one.test:8080\r\n\r\n";
    assert_eq!(next(&mut source), expected);
    assert_eq!(next(&mut source), expected);
}

#[test]
fn several_requests_in_one_string_are_one_batch() {
    let test = ScriptTest::script(
        r#"
        function init()
          local all = {}
          for i = 1, 3 do all[i] = wrk.format("GET", "/" .. i) end
          batch = table.concat(all)
        end
        function request() return batch end
        "#,
    );
    let batch = next(&mut test.one().1);
    assert_eq!(batch.matches("HTTP/1.1\r\n").count(), 3);
}

#[test]
fn a_number_is_a_request_after_the_first_one() {
    let test = ScriptTest::script(
        "local n = 0
         function request() n = n + 1 if n == 1 then return wrk.request() end return n + 0.5 end",
    );
    let (_script, mut source) = test.one();
    assert_eq!(next(&mut source), "2.5");
    assert_eq!(next(&mut source), "3.5");
}

#[test]
fn request_may_be_replaced_or_removed_while_running() {
    let test = ScriptTest::script(
        r#"
        local n = 0
        local function other() n = n + 1 request = nil return wrk.format("GET", "/other") end
        function request()
          n = n + 1
          if n == 2 then request = other end
          return wrk.format("GET", "/first")
        end
        "#,
    );
    let (_script, mut source) = test.one();
    assert!(next(&mut source).starts_with("GET /first "));
    assert!(next(&mut source).starts_with("GET /other "));
    assert!(next(&mut source).starts_with("GET /path?q=1 "));
    assert!(next(&mut source).starts_with("GET /path?q=1 "));
}

#[test]
fn the_first_request_must_be_http() {
    for (script, reason) in [
        (
            "function request() return 'GET / HTTP/1.1\\r\\nHost: x\\r\\n' end",
            "incomplete request",
        ),
        (
            "function request() return 'G@T / HTTP/1.1\\r\\n\\r\\n' end",
            "invalid HTTP method",
        ),
        ("function request() return 5 end", "at 1:"),
        ("wrk.method = 'a b'", "at 1:"),
        ("wrk.headers['A'] = 'b\\r\\nno colon'", "at "),
    ] {
        let message = ScriptTest::script(script).failure();
        assert!(message.contains(reason), "{script}: {message}");
        assert!(message.ends_with(" (in request)"), "{message}");
    }
}

#[test]
fn nil_is_an_error_before_the_run_and_then_the_end_of_the_requests() {
    let message = ScriptTest::script("\nfunction request() end").failure();
    assert!(
        message.contains("script.lua:2: request() returned nil, expected a string"),
        "{message}"
    );
    let (_script, mut source) = ScriptTest::script(
        "local n = 0 function request() n = n + 1 if n == 1 then return wrk.request() end end",
    )
    .one();
    for _ in 0..3 {
        let mut output = Vec::new();
        source.next(0, &mut output).expect("nil is no error");
        assert_eq!(output, b"");
    }
}

#[test]
fn an_empty_request_is_an_error_before_and_during_the_run() {
    for (value, said) in [
        ("''", "returned an empty string, expected a string"),
        ("{}", "returned a table, expected a string"),
        ("false", "returned a boolean, expected a string"),
        ("print", "returned a function, expected a string"),
    ] {
        let message =
            ScriptTest::script(&format!("\nfunction request() return {value} end")).failure();
        assert!(message.contains("script.lua:2: request() "), "{message}");
        assert!(message.contains(said), "{message}");

        let late = format!(
            "local n = 0 function request() n = n + 1
             if n == 1 then return wrk.request() end
             return {value} end"
        );
        let (_script, mut source) = ScriptTest::script(&late).one();
        for _ in 0..3 {
            let message = next_failure(&mut source);
            assert!(message.contains("script.lua:1: request() "), "{message}");
            assert!(message.contains(said), "{message}");
        }
    }
}

#[test]
fn a_huge_request_is_accepted() {
    let test = ScriptTest::script(
        "wrk.method = 'POST' wrk.body = ('x'):rep(32 * 1024 * 1024)
         function request() return wrk.request() end",
    );
    assert_eq!(next(&mut test.one().1).len() >> 20, 32);
}
