//! Lua from end to end: the examples, errors, endless loops, order of output.

use std::path::{Path, PathBuf};

use origin::Options;
use results::{ErrorKind, Finding, Warning};
use serde_json::Value;

use crate::harness::{load, site, site_with};

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts");
    folder.join(name).to_str().unwrap().to_owned()
}

fn recording() -> Options {
    Options {
        record_requests: 1000,
        log_requests: 10_000,
        ..Options::default()
    }
}

/// Runs an example with these arguments. Returns the requests that the server got.
fn requests_of(name: &str, target: &str, arguments: &[&str]) -> Vec<String> {
    let site = site_with(recording());
    let run = load(&site).at(target).threads(2).requests(60);
    let run = run
        .with(&["-s", &example(name)])
        .script_arguments(arguments)
        .run();
    run.expect_answered_only();
    let recorded = site.stop().recorded;
    let requests = recorded.into_iter().map(String::from_utf8);
    requests.map(Result::unwrap).collect()
}

/// A script that sends `first` requests in thread 1 and `second` in thread 2.
fn lists(first: u32, second: u32) -> String {
    format!(
        "local threads = 0\n\
         function setup(thread)\n\
           threads = threads + 1\n\
           thread:set('left', threads == 1 and {first} or {second})\n\
         end\n\
         function request()\n\
           if left == 0 then return nil end\n\
           left = left - 1\n\
           return wrk.format()\n\
         end\n"
    )
}

#[test]
fn a_thread_without_further_requests_ends_after_its_responses_and_others_go_on() {
    let site = site();
    let run = load(&site)
        .threads(2)
        .for_ms(60_000)
        // Thread 1 makes one before the run, to check it, as in wrk.
        .script(&lists(6, 400))
        .run()
        .expect_answered_only();
    assert_eq!(site.counts().requests, 405);
    // The run ended with its last thread.
    assert!(
        run.result.window.duration_ns < 60_000_000_000,
        "{}",
        run.story()
    );
}

#[test]
fn a_schedule_needs_a_request_for_each_of_its_moments() {
    let site = site();
    let run = load(&site)
        .threads(2)
        .for_ms(60_000)
        .with(&["-R100"])
        .script(&lists(5, 400))
        .run_to_failure();
    assert!(
        run.stderr
            .contains("with a rate, every request must be made"),
        "{}",
        run.stderr
    );
}

fn request_line(request: &str) -> &str {
    request.lines().next().unwrap()
}

/// Whether a Lua module written in C is installed where distributions put those for Lua 5.1.
fn has_c_module(file: &str) -> bool {
    let multiarch = std::fs::read_dir("/usr/lib").into_iter().flatten();
    let folders = multiarch.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths = folders
        .chain(["/usr/lib64", "/usr/lib"].map(PathBuf::from))
        .map(|folder| folder.join("lua/5.1").join(file));
    let found = paths.find(|path| path.exists());
    let found = found.ok_or("not installed; `make test-packages` does it");
    testkit::require_ok(file, found).is_some()
}

#[test]
fn modules_written_in_c_work_in_every_phase() {
    if !has_c_module("socket/core.so") || !has_c_module("cjson.so") {
        return;
    }
    let site = site_with(recording());
    let script = "local socket, cjson = require 'socket', require 'cjson'\n\
         local url, began = require 'socket.url', socket.gettime()\n\
         local n = 0\n\
         function request()\n  n = n + 1\n\
           local body = cjson.encode({ at = socket.gettime(), n = n })\n\
           assert(cjson.decode(body).n == n)\n\
           return wrk.format('POST', '/', nil, body)\nend\n\
         function response(status, headers, body)\n\
           local fine, message = pcall(cjson.decode, '{broken')\n\
           assert(not fine and message:find('Expected object key'), message)\nend\n\
         function done(summary)\n\
           assert(socket.gettime() > began)\n\
           print('done: ' .. url.parse('http://h:1/p').path .. ' ' .. summary.requests)\nend\n";
    let run = load(&site).threads(2).connections(4).requests(40);
    let run = run.script(script).run();
    assert!(run.stdout.ends_with("done: /p 40\n"), "{}", run.stdout);
    let bodies = site.stop().recorded.into_iter().map(|request| {
        let request = String::from_utf8(request).unwrap();
        request.split_once("\r\n\r\n").unwrap().1.to_owned()
    });
    let numbers = bodies.filter(|body| !body.is_empty()).map(|body| {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(body["at"].as_f64().unwrap() > 1e9, "{body}");
        body["n"].as_u64().unwrap()
    });
    assert_eq!(numbers.count(), 40);
}

#[test]
fn a_module_that_is_compiled_here_finds_the_interface_of_lua_in_the_program() {
    let Some(compiler) = testkit::require("cc") else {
        return;
    };
    let site = site();
    let source = "typedef struct lua_State lua_State;\n\
         extern double luaL_checknumber(lua_State *, int);\n\
         extern void lua_pushnumber(lua_State *, double);\n\
         extern void lua_pushcclosure(lua_State *, int (*)(lua_State *), int);\n\
         extern int luaL_error(lua_State *, const char *, ...);\n\
         static int half(lua_State *L) {\n\
           double n = luaL_checknumber(L, 1);\n\
           if (n < 0) return luaL_error(L, \"negative: %d\", (int)n);\n\
           lua_pushnumber(L, n / 2);\n  return 1;\n}\n\
         int luaopen_half(lua_State *L) {\n  lua_pushcclosure(L, half, 0);\n  return 1;\n}\n";
    let source = site.folder.file_with("half.c", source);
    let module = site.folder.file("half.so");
    let compiled = std::process::Command::new(compiler)
        .args(["-shared", "-fPIC", "-o", &module, &source])
        .status();
    assert!(compiled.expect("the compiler starts").success());
    let script = format!(
        "package.cpath = '{}/?.so'\nlocal half, n = require 'half', 0\n\
         function request()\n  n = n + 1\n\
           local fine, message = pcall(half, -n)\n\
           assert(not fine and message:find('negative: -', 1, true), message)\n\
           return wrk.format('GET', '/?n=' .. half(2 * n))\nend\n\
         function done(summary)\n  print('half: ' .. half(summary.requests))\nend\n",
        site.folder.path().display()
    );
    // Enough for LuaJIT to compile request().
    let run = load(&site).threads(2).connections(4).requests(2000);
    let run = run.script(&script).run();
    assert!(run.stdout.ends_with("half: 1000\n"), "{}", run.stdout);
}

#[test]
fn an_invalid_request_is_sent_as_is_unless_it_is_the_first() {
    let site = site();
    let run = load(&site).threads(1).connections(1).requests(30);
    let run = run.script(
        "local n = 0\nfunction request()\n  n = n + 1\n\
           return wrk.format('GET', n % 3 == 0 and '' or '/')\nend\n",
    );
    let ended = run.output();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = "  Non-2xx or 3xx responses: 10\n";
    assert!(ended.stdout.contains(told), "{ended:?}");
    let refused = load(&site).script("wrk.path = ''").output();
    assert!(refused.only_line().contains(" at 1:"), "{refused:?}");
}

#[test]
fn every_example_has_a_test() {
    let tests = include_str!("scripts.rs");
    let folder = Path::new(&example("")).to_owned();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(tests.contains(&format!("\"{name}\"")), "{name} is not run");
    }
}

#[test]
fn the_examples_that_make_requests_send_the_documented_ones() {
    for request in requests_of("post-json.lua", "/", &[]) {
        assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
        assert!(
            request.contains("\r\nContent-Type: application/json\r\n"),
            "{request}"
        );
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(serde_json::from_str::<Value>(body).is_ok(), "{body}");
    }
    for request in requests_of("put.lua", "/files", &["100"]) {
        assert!(request.starts_with("PUT /files/"), "{request}");
        assert!(request.ends_with(&"x".repeat(100)), "{request}");
    }
    let lines = requests_of("counter.lua", "/", &[]);
    let mut numbers: Vec<u64> = lines
        .iter()
        .map(|request| {
            let path = request_line(request).split(' ').nth(1).unwrap();
            path.trim_start_matches('/').parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    // Each of two threads counts separately; the first repeated its first request.
    assert_eq!((numbers[0], numbers.len()), (0, 60));
    let paths = requests_of("paths-from-file.lua", "/", &[&example("paths.txt")]);
    let mut lines: Vec<&str> = paths.iter().map(|request| request_line(request)).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn the_pipeline_example_sends_batches() {
    let site = site_with(recording());
    let run = load(&site).at("/?delay=10ms").connections(2).requests(64);
    let run = run
        .with(&["-s", &example("pipeline.lua")])
        .script_arguments(&["16"]);
    run.run().expect_answers(64);
    let requests = site.stop().requests;
    let first = requests
        .iter()
        .filter(|one| one.connection == requests[0].connection);
    let end = requests[0].departure_ns.unwrap();
    assert_eq!(first.filter(|one| one.arrival_ns < end).count(), 16);
}

#[test]
fn the_token_example_logs_in_and_sends_its_token() {
    let site = site_with(recording());
    let run = load(&site).at("/private").connections(1).requests(20);
    let run = run.with(&["-s", &example("auth-token.lua")]);
    let run = run.script_arguments(&["/?header=X-Token:abc"]).run();
    run.expect_answers(20);
    let recorded = site.stop().recorded;
    let requests: Vec<&str> = recorded
        .iter()
        .map(|one| std::str::from_utf8(one).unwrap())
        .collect();
    assert!(request_line(requests[0]).starts_with("GET /?header=X-Token:abc "));
    for request in &requests[1..] {
        assert!(request.starts_with("GET /private "), "{request}");
        assert!(
            request.contains("\r\nAuthorization: Bearer abc\r\n"),
            "{request}"
        );
    }
}

#[test]
fn the_examples_that_print_agree_with_the_document() {
    let site = site();
    let run = load(&site)
        .requests(50)
        .with(&["-s", &example("json-output.lua")])
        .run();
    let line = run.stdout.lines().last().unwrap();
    let printed: Value = serde_json::from_str(line).unwrap();
    assert_eq!(printed["requests"], 50);
    assert_eq!(printed["bytes"], run.document["counters"]["bytes"]);
    let p50 = |value: &Value| value.as_f64().unwrap();
    let rows = run.document["summary"]["latency"]["percentiles"]
        .as_array()
        .unwrap();
    let row = rows
        .iter()
        .find(|row| p50(&row["percent"]) == 50.0)
        .unwrap();
    let (ours, theirs) = (
        p50(&row["value_ns"]) / 1e3,
        p50(&printed["latency_percentiles_us"]["50"]),
    );
    assert!((ours - theirs).abs() <= 1.0, "{ours} {theirs}");

    let csv = site.folder.file("r.csv");
    for _ in 0..2 {
        let run = load(&site)
            .requests(50)
            .with(&["-s", &example("csv-output.lua")]);
        run.script_arguments(&[&csv]).run().expect_answers(50);
    }
    let text = std::fs::read_to_string(csv).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].starts_with("duration_us,requests,bytes,"),
        "{text}"
    );
    assert_eq!(lines[1].split(',').nth(1), Some("50"));
}

#[test]
fn the_examples_in_formats_of_wrk_cmm_agree_with_the_document() {
    let site = site();
    let run = load(&site)
        .requests(50)
        .with(&["-s", &example("json.lua")])
        .run();
    let begin = run.stdout.find("\n{\n").unwrap();
    let printed: Value = serde_json::from_str(&run.stdout[begin..]).unwrap();
    assert_eq!(printed["requests"], 50);
    assert_eq!(printed["bytes"], run.document["counters"]["bytes"]);
    let duration_us = printed["duration_in_microseconds"].as_f64().unwrap();
    let per_sec = printed["requests_per_sec"].as_f64().unwrap();
    assert!(
        (per_sec - 50.0 / duration_us * 1e6).abs() < 0.01,
        "{printed}"
    );
    let percentiles = printed["latency_distribution"].as_array().unwrap();
    assert_eq!(percentiles.len(), 5);
    assert_eq!(percentiles[4]["percentile"], 99.999);

    let csv = site.folder.file("result.csv");
    let run = load(&site).requests(50).with(&["-s", &example("csv.lua")]);
    let run = run.script_arguments(&[&csv]).run().expect_answers(50);
    let text = std::fs::read_to_string(csv).unwrap();
    let fields: Vec<&str> = text.trim_end().split(',').collect();
    assert_eq!((fields.len(), fields[9]), (11, "50"), "{text}");
    let bytes = run.document["counters"]["bytes"].to_string();
    assert_eq!(fields[10], bytes);
}

#[test]
fn with_a_rate_a_script_for_wrk2_reads_every_response_time() {
    const SCRIPT: &str = r#"
        function init()
          begun = wrk.time_us()
        end
        function delay()
          return 0.5
        end
        function request()
          assert(wrk.time_us() >= begun and wrk.time_us() > 1.7e15)
          return wrk.format()
        end
        function done(summary, latency)
          local distinct, i = 0, 1
          while latency(i) > 0 do
            distinct, i = distinct + select(2, latency(i)), i + 1
          end
          for rank = 2, #latency do
            assert(latency[rank] >= latency[rank - 1])
          end
          local half = math.ceil(#latency / 2)
          print("figures", #latency, distinct, latency[half], latency[#latency])
        end
    "#;
    let site = site();
    let run = load(&site)
        .requests(200)
        .with(&["-R1k"])
        .script(SCRIPT)
        .run();
    let line = run.stdout.lines().last().unwrap();
    let figures: Vec<f64> = line
        .strip_prefix("figures\t")
        .unwrap()
        .split('\t')
        .map(|figure| figure.parse().unwrap())
        .collect();
    let latency = &run.document["summary"]["latency"];
    let count = latency["count"].as_f64().unwrap();
    assert_eq!(figures[..2], [count, count]);
    let median = latency["percentiles"].as_array().unwrap();
    let median = median.iter().find(|row| row["percent"] == 50.0).unwrap();
    for (ours, document_ns) in [
        (figures[2], &median["value_ns"]),
        (figures[3], &latency["max_ns"]),
    ] {
        let document_us = (document_ns.as_f64().unwrap() / 1000.0).round();
        assert_eq!(ours, document_us);
    }
}

#[test]
fn the_multi_host_example_gives_each_thread_an_address() {
    let site = site();
    let run = load(&site)
        .threads(2)
        .requests(40)
        .with(&["-s", &example("multi-host.lua")]);
    let run = run.run().expect_answers(40);
    let said = format!("a thread loads {}\n", site.authority());
    assert_eq!(run.stderr.matches(&said).count(), 2, "{}", run.stderr);
}

#[test]
fn the_stop_example_ends_each_thread_after_its_requests() {
    let site = site();
    let run = load(&site)
        .threads(2)
        .with(&["-d1h", "-s", &example("stop-after.lua")]);
    let run = run.script_arguments(&["70"]).run();
    assert_eq!(run.answered(), 140, "{}", run.story());
    assert!(!run.result.window.interrupted);
    assert_eq!(run.kinds(), []);
}

#[test]
fn the_think_time_example_pauses() {
    let site = site();
    let run = load(&site)
        .requests(20)
        .with(&["-s", &example("think-time.lua")]);
    run.script_arguments(&["5"]).run().expect_answers(20);
}

#[test]
fn a_delay_is_not_part_of_the_latency() {
    let site = site_with(recording());
    let run = load(&site).connections(1).requests(6);
    let run = run
        .script("function delay() return 50 end")
        .run()
        .expect_answers(6);
    // The program waits before the first one, too.
    assert!(
        run.result.window.duration_ns >= 6 * 50_000_000,
        "{}",
        run.story()
    );
    let total = run.result.recording.service_time.sum_ns();
    assert!(total <= u128::from(run.result.window.duration_ns) - 6 * 50_000_000);
    for pair in site.stop().requests.windows(2) {
        let pause_ns = pair[1].arrival_ns - pair[0].departure_ns.unwrap();
        assert!(pause_ns >= 50_000_000, "{pair:?}");
    }
}

#[test]
fn response_gets_status_headers_and_body() {
    for target in [
        "/?status=404&size=5&header=X-One:two",
        "/?status=404&size=5&header=X-One:two&chunked=2",
        "/?status=404&size=5&header=X-One:two&until-close",
    ] {
        let site = site();
        let run = load(&site).at(target).requests(40);
        let run = run.script(
            "local threads = {}
             function setup(thread) threads[#threads + 1] = thread end
             function init() seen = 0 end
             function response(status, headers, body)
               assert(status == 404 and headers['X-One'] == 'two' and body == 'abcde')
               seen = seen + 1
             end
             function done()
               print('seen ' .. threads[1]:get('seen'))
             end",
        );
        let run = run.run().expect_answers(40).expect_status(404);
        assert!(run.stdout.ends_with("\nseen 40\n"), "{}", run.stdout);
    }
}

#[test]
fn response_gets_an_empty_body_if_there_is_none() {
    for (options, status) in [(&["-X", "HEAD"][..], 200), (&[], 204)] {
        let site = site();
        let run = load(&site)
            .at(&format!("/?status={status}"))
            .requests(20)
            .with(options);
        let run = run.script(&format!(
            "function response(status, headers, body) assert(status == {status} and body == '') end"
        ));
        run.run().expect_answers(20);
    }
}

#[test]
fn done_gets_the_numbers_of_the_document() {
    let site = site();
    let run = load(&site)
        .at("/?mix=20%:hang&status=500")
        .requests(60)
        .timeout_ms(100);
    let run = run.script(
        "function done(summary, latency, requests)
           local e = summary.errors
           print(string.format('%d %d %d %d %d %d %d %d', summary.duration, summary.requests,
             summary.bytes, e.connect, e.read, e.write, e.timeout, e.status))
           local samples = 0
           for i = 1, #latency do
             local _, count = latency(i)
             samples = samples + count
           end
           print(samples, latency:percentile(100) >= latency:percentile(50), requests.max > 0)
         end",
    );
    let run = run.run().expect_only(ErrorKind::Timeout);
    let lines: Vec<&str> = run.stdout.lines().rev().take(2).collect();
    let counters = &run.result.recording.counters;
    let expected = format!(
        "{} {} {} 0 0 0 {} {}",
        run.result.window.duration_ns / 1000,
        counters.answered,
        counters.bytes,
        run.events(ErrorKind::Timeout),
        counters.answered
    );
    assert_eq!(lines, ["60\ttrue\ttrue", &expected]);
}

#[test]
fn output_of_the_script_is_in_order_with_the_report() {
    let site = site();
    let run = load(&site).requests(30);
    let run = run.script(
        "print('at load')
         function setup() io.write('in setup\\n') end
         function init(args) print('in init', #args, args[1], args[2], args[3]) end
         function response()
           if not once then once = true; io.write('in response\\n') end
         end
         function done() io.write('in '); print('done') end",
    );
    let run = run
        .script_arguments(&["one", "-c", "two words"])
        .run()
        .expect_answers(30);
    let marks = [
        "at load\n",
        "in setup\n",
        "in init\t3\tone\t-c\ttwo words\n",
        "Running 30 requests test @ ",
        "in response\n",
        "  Thread Stats ",
        "Transfer/sec: ",
        "in done\n",
    ];
    let places: Vec<Option<usize>> = marks.iter().map(|mark| run.stdout.find(mark)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}\n{}",
        run.stdout
    );
    // Once in the main state, once in the thread's.
    assert_eq!(run.stdout.matches("at load\n").count(), 2);
    assert!(run.stdout.ends_with("in done\n"));
}

#[test]
fn an_error_before_the_load_names_its_position_and_starts_nothing() {
    for (script, expected) in [
        (
            "\n\nfunction (",
            "s.lua:3: '<name>' expected near '(' (while loading)",
        ),
        (
            "\nlocal x = nil + 1",
            "s.lua:2: attempt to perform arithmetic on a nil value (while loading)",
        ),
        (
            "function setup()\nerror('no') end",
            "s.lua:2: no (in setup)",
        ),
        ("function init()\nerror('no') end", "s.lua:2: no (in init)"),
        (
            "function request()\nerror('no') end",
            "s.lua:2: no (in request)",
        ),
    ] {
        let site = site();
        let output = load(&site).requests(5).script(script).output();
        let line = output.only_line();
        assert!(
            line.starts_with("wrkbench: ") && line.ends_with(expected),
            "{line}"
        );
        assert_eq!(site.counts().requests, 0);
    }
}

#[test]
fn request_options_are_defaults_for_the_script() {
    let site = site_with(recording());
    let run = load(&site).at("/there").connections(1).requests(10);
    let run = run.with(&["-H", "X-One: two", "--body", "abc"]);
    let run = run.script("wrk.method = 'PUT'\nfunction request() return wrk.format() end");
    run.run().expect_answers(10);
    let recorded = site.stop().recorded;
    let request = String::from_utf8(recorded[0].clone()).unwrap();
    assert!(
        request.starts_with("PUT /there HTTP/1.1\r\nHost: 127.0.0.1:"),
        "{request}"
    );
    assert!(request.contains("\r\nX-One: two\r\n"), "{request}");
    assert!(
        request.ends_with("\r\nContent-Length: 3\r\n\r\nabc"),
        "{request}"
    );
}

#[test]
fn a_script_that_is_still_running_at_the_end_contradicts_nothing() {
    // The first call is to see what the script returns. The first response comes half a second into
    // the run, the others never. The request after it is never made, and how long the others have
    // been in flight is then only known in part.
    let script = "local calls = 0
        function request()
            calls = calls + 1
            while calls > 5 do end
            return wrk.format('GET', calls == 2 and '/?delay=500ms' or '/?delay=1m')
        end";
    let site = site();
    let run = load(&site).threads(1).connections(4).for_ms(1000);
    let run = run.timeout_ms(60_000).script(script).run();
    let is_stuck = |warning: &Finding<Warning>| matches!(warning.data, Warning::ScriptStuck { .. });
    assert!(run.result.warnings.iter().any(is_stuck), "{}", run.story());
    assert_eq!((run.sent(), run.answered()), (4, 1), "{}", run.story());
}

#[test]
fn a_script_that_does_not_return_is_not_the_servers_delay() {
    let script = "local calls = 0
        function request()
            calls = calls + 1
            while calls > 20 do end
            return wrk.format('GET', '/')
        end";
    let site = site();
    let run = load(&site).threads(1).connections(4).for_ms(1500);
    let run = run.with(&["-R100"]).script(script).run();
    let of_server = |warning: &&Finding<Warning>| {
        matches!(
            warning.data,
            Warning::RateNotReached { .. }
                | Warning::RateNotSustained { .. }
                | Warning::ServerStalled { .. }
                | Warning::WaitedForConnection { .. }
        )
    };
    let is_stuck = |warning: &Finding<Warning>| matches!(warning.data, Warning::ScriptStuck { .. });
    assert!(run.result.warnings.iter().any(is_stuck), "{}", run.story());
    let blame = run.result.warnings.iter().find(of_server);
    assert!(blame.is_none(), "{}", run.story());
}
