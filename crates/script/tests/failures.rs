//! Scripts that fail: in every phase the message has file, line and phase, on one line. Nothing
//! panics or hangs.

mod script_test;

use std::process::Command;

use results::Recording;
use script_test::{ScriptTest, next_failure, one_line, response, run_result};

const RESPONSE: (&str, &str) = ("A", "b");

/// The message from the file's name on.
fn tail(message: &str) -> &str {
    &message[message.find("script.lua").unwrap_or(0)..]
}

#[test]
fn a_missing_file_is_an_error() {
    let message = ScriptTest::script_at("no/such/file.lua").failure();
    assert!(message.contains("no/such/file.lua"), "{message}");
    assert!(message.contains("No such file or directory"), "{message}");
}

#[test]
fn a_directory_is_not_a_script() {
    let message = ScriptTest::script_at(env!("CARGO_TARGET_TMPDIR")).failure();
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn a_syntax_error_has_its_line() {
    let message = ScriptTest::script("\n\nfunction (").failure();
    assert_eq!(
        tail(&message),
        "script.lua:3: '<name>' expected near '(' (while loading)"
    );
}

#[test]
fn files_that_are_not_lua_are_rejected() {
    for (text, said) in [
        (&b"\x1bLJ\x02broken"[..], "cannot load"),
        (&b"\x1bLua"[..], "cannot load"),
        (&b"\x7fELF\x00\x01"[..], "script.lua:1:"),
        (&[0xff; 4096][..], "script.lua:1:"),
    ] {
        let message = ScriptTest::script_at(script_test::file("script.lua", text)).failure();
        assert!(
            message.contains(said) || message.contains("script.lua"),
            "{message}"
        );
        assert!(message.ends_with("(while loading)"), "{message}");
    }
}

#[test]
fn an_error_has_file_line_and_phase_in_every_phase_before_the_run() {
    for (script, expected) in [
        (
            "\nlocal x = nil + 1",
            "script.lua:2: attempt to perform arithmetic on a nil value (while loading)",
        ),
        (
            "function wrk.resolve()\nerror('no') end",
            "script.lua:2: no (in resolve)",
        ),
        (
            "function setup()\nlocal t = nil; t.x = 1 end",
            "script.lua:2: attempt to index local 't' (a nil value) (in setup)",
        ),
        (
            "function init()\nerror('no') end",
            "script.lua:2: no (in init)",
        ),
        (
            "function request()\nerror('no') end",
            "script.lua:2: no (in request)",
        ),
    ] {
        assert_eq!(tail(&ScriptTest::script(script).failure()), expected);
    }
}

#[test]
fn an_error_has_file_line_and_phase_during_the_run() {
    let test = ScriptTest::script(
        "local n = 0
         function request()
           n = n + 1 if n > 1 then n.x = 1 end
           return wrk.request()
         end
         function response()
           nothing()
         end
         function delay()
           return {} + 1
         end
         function done() error('end') end",
    );
    let (mut script, mut source) = test.one();
    assert_eq!(
        tail(&next_failure(&mut source)),
        "script.lua:3: attempt to index upvalue 'n' (a number value) (in request)"
    );
    let answer = response(200, &[RESPONSE], b"");
    let message = one_line(source.response(&answer).unwrap_err().message);
    let expected = "script.lua:7: attempt to call global 'nothing' (a nil value) (in response)";
    assert_eq!(tail(&message), expected);
    let message = one_line(source.delay_ns().unwrap_err().message);
    let expected = "script.lua:10: attempt to perform arithmetic on a table value (in delay)";
    assert_eq!(tail(&message), expected);
    let message = script
        .done(&run_result(Recording::new()))
        .unwrap_err()
        .to_string();
    assert_eq!(tail(&message), "script.lua:12: end (in done)");
}

#[test]
fn error_values_of_any_type_get_a_position() {
    for (value, said) in [
        ("nil", "error value nil"),
        ("{ code = 1 }", "(error object is a table value)"),
        ("42", "42"),
        ("true", "error value true"),
        ("print", "(error object is a function value)"),
        (
            "setmetatable({}, { __tostring = function() return 'mine' end })",
            "mine",
        ),
        (
            "setmetatable({}, { __tostring = function() error('x') end })",
            "(error object is a table",
        ),
        (
            "setmetatable({}, { __tostring = function() return 5 end })",
            "(error object is a table",
        ),
        ("'plain', 0", "plain"),
        ("('two\\nlines'), 0", "two; lines"),
    ] {
        let message =
            ScriptTest::script(&format!("function init()\nerror({value})\nend")).failure();
        assert!(
            tail(&message).starts_with("script.lua:2: "),
            "{value}: {message}"
        );
        assert!(message.contains(said), "{value}: {message}");
    }
}

#[test]
fn the_message_about_a_missing_module_is_one_line() {
    let message = ScriptTest::script("\nrequire('no.such.module')").failure();
    assert!(tail(&message).starts_with("script.lua:2: module 'no.such.module' not found"));
    assert!(message.len() < 2000);
}

#[test]
fn an_endless_message_is_truncated() {
    let message = ScriptTest::script("error(('x'):rep(1e8))").failure();
    assert!(message.len() < 1100, "{}", message.len());
    assert!(message.contains("xxx..."));
}

#[test]
fn endless_recursion_is_an_error() {
    for script in [
        "local function f() return 1 + f() end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end
         print(t.x)",
        "local function f() pcall(f) error('again') end f()",
    ] {
        let message = ScriptTest::script(script).failure();
        assert!(message.ends_with("(while loading)"), "{message}");
    }
}

#[test]
fn running_out_of_memory_is_an_error_and_not_a_crash() {
    let message = ScriptTest::script("local s = ('x'):rep(1e6):rep(1e6)").failure();
    assert!(message.contains("not enough memory"), "{message}");
}

#[test]
fn a_state_is_usable_after_errors() {
    let test = ScriptTest::script(
        "local n = 0
         function request()
           n = n + 1
           if n % 2 == 0 then error({}) end
           return wrk.format('GET', '/' .. n)
         end",
    );
    let (_script, mut source) = test.one();
    for n in 1..500 {
        next_failure(&mut source);
        let batch = script_test::next(&mut source);
        assert!(
            batch.starts_with(&format!("GET /{} ", 2 * n + 1)),
            "{batch}"
        );
    }
}

#[test]
fn a_script_that_overwrites_globals_does_not_break_the_host() {
    let test = ScriptTest::script(
        r#"
        function init() init_ran = true end
        string, table, pairs, type, error, tostring, rawget, debug = nil
        wrk_kept, wrk, package.loaded = wrk, nil, {}
        "#,
    );
    let (_script, source) = test.one();
    assert!(source.fixed().is_some());

    let test = ScriptTest::script(
        "local globals = _G for name in next, globals do globals[name] = nil end",
    );
    assert!(test.one().1.fixed().is_some());
}

#[test]
fn broken_fields_of_the_wrk_table_are_errors() {
    for (script, said) in [
        ("wrk.headers = nil", "headers must be a table, not a nil"),
        ("wrk.headers = 5", "headers must be a table, not a number"),
        ("wrk.init = nil", "attempt to call field 'init'"),
        ("wrk.setup = nil", "attempt to call field 'setup'"),
        ("wrk.init = function() end", "request() returned nil"),
        ("function setup() wrk.addrs = nil end wrk.addrs = 5", ""),
        ("wrk.body = {}", "the body must be a string"),
    ] {
        match ScriptTest::script(script).start() {
            Ok(_) => assert_eq!(said, "", "{script}"),
            Err(error) => assert!(error.to_string().contains(said), "{script}: {error}"),
        }
    }
}

#[test]
fn a_strict_mode_for_globals_does_no_harm() {
    ScriptTest::script(
        r#"
        setmetatable(_G, {
          __index = function(_, name) error("undefined variable " .. name) end,
          __newindex = function(t, name, value)
            if type(value) ~= "function" then error("assignment to " .. name) end
            rawset(t, name, value)
          end,
        })
        function setup(thread) thread:set("number", 1) assert(thread:get("other") == nil) end
        function init() assert(number == 1) end
        "#,
    )
    .check();
}

#[test]
fn coroutines_and_yields_outside_of_them_are_safe() {
    let message = ScriptTest::script("function init() coroutine.yield() end").failure();
    assert!(message.contains("yield"), "{message}");
    let test = ScriptTest::script(
        "local make = coroutine.wrap(function()
           while true do coroutine.yield(wrk.format('GET', '/co')) end
         end)
         function request() return make() end",
    );
    assert!(script_test::next(&mut test.one().1).starts_with("GET /co "));
}

#[test]
fn finalizers_may_call_natives_while_a_state_is_closed() {
    let test = ScriptTest::script(
        "local object = newproxy(true)
         getmetatable(object).__gc = function() wrk.time_us() error('in a finalizer') end
         keep = object",
    );
    drop(test.one());
}

#[test]
fn os_exit_in_a_callback_ends_the_process_with_its_code() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_that_calls_os_exit"])
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(7));
}

#[test]
#[ignore = "the child process of os_exit_in_a_callback_ends_the_process_with_its_code"]
fn child_that_calls_os_exit() {
    let (_script, mut source) = ScriptTest::script(
        "local n = 0 function request() n = n + 1 \
         if n == 2 then os.exit(7) end return wrk.request() end",
    )
    .one();
    script_test::next(&mut source);
}
