//! What a script sees and controls during the run: response, delay, stop, address.

mod script_test;

use script_test::{ScriptTest, response, tcp};

#[test]
fn response_gets_status_headers_and_a_binary_body() {
    let test = ScriptTest::script(
        r#"
        function response(status, headers, body)
          assert(status == 207 and type(status) == "number")
          assert(headers["Content-Type"] == "a/b" and headers["content-type"] == nil)
          assert(headers.Empty == "")
          assert(headers["Set-Cookie"] == "second", headers["Set-Cookie"])
          assert(body == "a\0b\xff" and #body == 4)
          wrk.thread:stop()
        end
        "#,
    );
    let (_script, mut source) = test.one();
    assert!(source.wants_responses());
    // A script without request() still has a fixed batch. Its `response` is called nevertheless.
    assert!(source.fixed().is_some());
    let headers = [
        ("Content-Type", "a/b"),
        ("Empty", ""),
        ("Set-Cookie", "first"),
        ("Set-Cookie", "second"),
    ];
    source
        .response(&response(207, &headers, b"a\0b\xff"))
        .unwrap();
    assert!(source.stopped());
}

#[test]
fn response_is_called_for_responses_without_headers_or_body() {
    let test = ScriptTest::script(
        "function response(status, headers, body)
           assert(status == 204 and next(headers) == nil and body == '')
           seen = true wrk.thread:stop()
         end",
    );
    let (_script, mut source) = test.one();
    source.response(&response(204, &[], b"")).unwrap();
    assert!(source.stopped());
}

#[test]
fn a_removed_response_function_is_no_longer_called() {
    let test = ScriptTest::script("function response() response = nil error('once') end");
    let (_script, mut source) = test.one();
    let answer = response(200, &[("A", "b")], b"");
    assert!(source.response(&answer).is_err());
    source.response(&answer).unwrap();
}

#[test]
fn a_large_body_and_many_headers_are_passed_to_response() {
    let test = ScriptTest::script(
        "function response(status, headers, body)
           assert(#body == 16 * 1024 * 1024)
           local n = 0 for _ in pairs(headers) do n = n + 1 end
           assert(n == 10000, n)
         end",
    );
    let names: Vec<String> = (0..10_000).map(|n| format!("X-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let answer = response(200, &headers, &vec![b'x'; 16 << 20]);
    test.one().1.response(&answer).unwrap();
}

#[test]
fn delay_is_in_milliseconds_as_number_or_numeric_string() {
    for (value, expected_ns) in [
        ("10", 10_000_000),
        ("0.25", 250_000),
        ("'20'", 20_000_000),
        ("' 1.5 '", 1_500_000),
        ("'soon'", 0),
        ("nil", 0),
        ("{}", 0),
        ("-5", 0),
        ("0/0", 0),
        ("1/0", 365 * 86_400 * 1_000_000_000),
    ] {
        let (_script, mut source) =
            ScriptTest::script(&format!("function delay() return {value} end")).one();
        assert!(source.wants_delay());
        assert_eq!(source.delay_ns().unwrap(), expected_ns, "{value}");
    }
}

#[test]
fn a_removed_delay_function_means_no_delay() {
    let test = ScriptTest::script("function delay() delay = nil return 5 end");
    let (_script, mut source) = test.one();
    assert_eq!(source.delay_ns().unwrap(), 5_000_000);
    assert_eq!(source.delay_ns().unwrap(), 0);
}

#[test]
fn a_stop_before_the_run_has_no_effect() {
    let test = ScriptTest::script(
        "function setup(thread) thread:stop() end
         function init() wrk.thread:stop() end",
    );
    assert!(!test.one().1.stopped());
}

#[test]
fn stop_affects_only_its_own_thread() {
    let test = ScriptTest::script("function response() wrk.thread:stop() end").threads(2);
    let (_script, mut sources) = test.start().unwrap();
    sources[0]
        .response(&response(200, &[("A", "b")], b""))
        .unwrap();
    assert!(sources[0].stopped());
    assert!(!sources[1].stopped());
}

#[test]
fn an_address_set_in_setup_or_at_run_time_reaches_the_worker_once() {
    let mut test = ScriptTest::script(
        r#"
        local number = 0
        function setup(thread)
          number = number + 1
          assert(tostring(thread.addr) == "127.0.0.1:8080", tostring(thread.addr))
          if number == 2 then thread.addr = wrk.lookup("two.test", 9000)[2] end
        end
        function init() assert(wrk.thread.addr ~= nil) shown = tostring(wrk.thread.addr) end
        function response()
          wrk.thread.addr = wrk.lookup("one.test", "9001")[1]
          assert(tostring(wrk.thread.addr) == "127.0.0.1:9001")
        end
        local threads = {}
        "#,
    );
    test.threads = 2;
    let (_script, mut sources) = test.start().unwrap();
    assert_eq!(sources[0].take_address(), None);
    assert_eq!(sources[1].take_address(), Some(tcp("[::1]:9000")));
    assert_eq!(sources[1].take_address(), None);
    sources[0]
        .response(&response(200, &[("A", "b")], b""))
        .unwrap();
    assert_eq!(sources[0].take_address(), Some(tcp("127.0.0.1:9001")));
    assert_eq!(sources[0].take_address(), None);
}
