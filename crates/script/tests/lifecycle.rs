//! The order in which the phases of a script run, and in which state.

mod script_test;

use results::Recording;
use script_test::{ScriptTest, file, next, response, run_result};

/// A script that writes each phase to the file named by the header X-Log.
const RECORDER: &str = r#"
    local log = wrk.headers["X-Log"]
    local function note(text)
      local out = io.open(log, "a")
      out:write(text, "\n")
      out:close()
    end
    local where = "?"
    note("top thread=" .. tostring(wrk.thread))
    local resolve, number = wrk.resolve, 0
    function wrk.resolve(...)
      note("resolve " .. table.concat({...}, " "))
      resolve(...)
    end
    function setup(thread)
      number = number + 1
      thread:set("where", number)
      note("setup " .. number .. " addr=" .. tostring(thread.addr)
        .. " addrs=" .. #wrk.addrs .. " thread=" .. tostring(wrk.thread)
        .. " request=" .. tostring(wrk.request))
    end
    function init(args)
      note("init " .. where_am_i() .. " " .. args[0] .. " #" .. #args
        .. " host=" .. wrk.headers.Host .. " request=" .. tostring(wrk.request)
        .. " thread=" .. type(wrk.thread))
    end
    function where_am_i() return _G.where end
    function request()
      note("request " .. where_am_i() .. " static=" .. type(wrk.request()))
      return wrk.request()
    end
    function delay() note("delay " .. where_am_i()) return 0 end
    function response() note("response " .. where_am_i()) end
    function done()
      note("done thread=" .. tostring(wrk.thread) .. " request=" .. tostring(wrk.request))
    end
"#;

#[test]
fn every_phase_runs_in_the_same_order_and_state_as_in_wrk() {
    let log = file("log", "");
    let test = ScriptTest::script(RECORDER)
        .threads(2)
        .header("X-Log", log.to_str().unwrap())
        .args(&["a"]);
    let (mut script, mut sources) = test.start().unwrap();
    let second = &mut sources[1];
    assert!(second.wants_delay() && second.wants_responses() && second.fixed().is_none());
    second.delay_ns().unwrap();
    next(second);
    second.response(&response(200, &[("A", "b")], b"")).unwrap();
    assert!(script.has_done());
    script.done(&run_result(Recording::new())).unwrap();

    let url = &test.url;
    let expected = format!(
        "top thread=nil
resolve one.test 8080
top thread=nil
setup 1 addr=127.0.0.1:8080 addrs=1 thread=nil request=nil
init 1 {url} #1 host=one.test:8080 request=nil thread=userdata
request 1 static=string
top thread=nil
setup 2 addr=127.0.0.1:8080 addrs=1 thread=nil request=nil
init 2 {url} #1 host=one.test:8080 request=nil thread=userdata
delay 2
request 2 static=string
response 2
done thread=nil request=nil
"
    );
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
}

#[test]
fn there_is_one_more_state_than_threads() {
    for threads in [1, 2, 7] {
        let log = file("log", "");
        let script = r#"
            local out = io.open(wrk.headers["X-Log"], "a")
            out:write("state\n")
            out:close()
        "#;
        ScriptTest::script(script)
            .threads(threads)
            .header("X-Log", log.to_str().unwrap())
            .start()
            .unwrap();
        let lines = std::fs::read_to_string(log).unwrap().lines().count();
        assert_eq!(lines, threads as usize + 1);
    }
}

#[test]
fn sources_run_on_their_own_threads_and_done_sees_their_variables() {
    let test = ScriptTest::script(
        r#"
        local threads = {}
        function setup(thread)
          table.insert(threads, thread)
          thread:set("id", #threads)
        end
        function init() sent = 0 end
        function request()
          sent = sent + 1
          return wrk.format("GET", "/" .. id .. "/" .. sent)
        end
        function done()
          assert(threads[1]:get("sent") == 1001, threads[1]:get("sent"))
          assert(threads[2]:get("sent") == 1000, threads[2]:get("sent"))
        end
        "#,
    )
    .threads(2);
    let (mut script, sources) = test.start().unwrap();
    let workers: Vec<_> = sources
        .into_iter()
        .map(|mut source| {
            std::thread::spawn(move || (0..1000).map(|_| next(&mut source)).last().unwrap())
        })
        .collect();
    let last: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect();
    // The first thread made one more request: the one that is checked before the run.
    assert!(
        last[0].starts_with("GET /1/1001 HTTP/1.1\r\n"),
        "{}",
        last[0]
    );
    assert!(
        last[1].starts_with("GET /2/1000 HTTP/1.1\r\n"),
        "{}",
        last[1]
    );
    script.done(&run_result(Recording::new())).unwrap();
}

#[test]
fn args_has_the_url_at_zero_and_the_arguments_from_one() {
    ScriptTest::script(
        r#"
        function init(args)
          assert(args[0] == "http://one.test:8080/path?q=1", args[0])
          assert(#args == 2 and args[1] == "first" and args[2] == "--second=x")
          assert(args[3] == nil)
        end
        "#,
    )
    .args(&["first", "--second=x"])
    .check();
}

#[test]
fn the_wrk_table_matches_the_command_line() {
    let mut test = ScriptTest::script(
        r#"
        assert(wrk.scheme == "http" and wrk.host == "::1" and wrk.port == "81")
        assert(type(wrk.port) == "string")
        assert(wrk.method == "PUT" and wrk.path == "/p" and wrk.body == "a\0b")
        assert(wrk.headers["X-A"] == "1" and wrk.headers.Host == nil)
        assert(require("wrk") == wrk)
        function init() assert(wrk.headers.Host == "[::1]:81", wrk.headers.Host) end
        "#,
    )
    .header("X-A", "1");
    test.host = "::1".to_owned();
    test.port = Some("81".to_owned());
    test.method = "PUT".to_owned();
    test.request_path = "/p".to_owned();
    test.body = Some(b"a\0b".to_vec());
    test.check();
}

#[test]
fn without_a_port_in_the_url_the_table_has_none_and_the_scheme_is_resolved() {
    let mut test = ScriptTest::script(
        "assert(wrk.port == nil) function init() assert(wrk.headers.Host == 'one.test') end",
    );
    test.port = None;
    test.check();
    assert_eq!(
        test.network.calls.lock().unwrap()[0],
        "lookup one.test:http"
    );
}

#[test]
fn setup_and_init_of_the_wrk_table_may_be_replaced() {
    let test = ScriptTest::script(
        r#"
        function wrk.setup(thread)
          thread:set("replaced", true)
        end
        local old = wrk.init
        function wrk.init(args)
          wrk.path = replaced and "/replaced" or "/kept"
          old(args)
        end
        "#,
    );
    let (_script, mut source) = test.one();
    assert!(next(&mut source).starts_with("GET /replaced HTTP/1.1"));
}

#[test]
fn without_a_done_function_done_does_nothing() {
    let (mut script, _source) = ScriptTest::script("").one();
    assert!(!script.has_done());
    script.done(&run_result(Recording::new())).unwrap();
}

#[test]
fn a_script_from_a_pipe_is_read_once_and_runs_in_every_state() {
    let folder = testkit::Folder::new();
    let path = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || {
            std::fs::write(
                path,
                "wrk.path = '/piped'\nfunction setup(t) t:set('n', 1) end",
            )
        })
    };
    let test = ScriptTest::script_at(&path).threads(3);
    let mut script = test.load().unwrap();
    writer.join().unwrap().unwrap();
    let sources = script.start().unwrap();
    assert_eq!(sources.len(), 3);
    for source in sources {
        let batch = source.fixed().unwrap();
        assert!(batch.starts_with(b"GET /piped HTTP/1.1\r\n"));
    }
}
