//! F75: scripts that fail, hang, or ask for too much.

use testkit::one_line;

use crate::harness::{Load, Run, load, site};
use crate::row::FaultRow;

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::told(
            "F75",
            "a script fails during the load, or returns no request",
            "exit 1, one line with file and line; report and document stay",
            an_error_during_the_load_names_its_position_and_keeps_the_result,
        ),
        FaultRow::told(
            "F75",
            "request() returns something without the end of a request",
            "exit 1, one line; report and document stay",
            garbage_instead_of_a_request_ends_the_run,
        ),
        FaultRow::told(
            "F75",
            "an endless loop in request(), response() or delay()",
            "the run ends in time with a warning",
            an_endless_loop_ends_with_the_run_and_is_reported,
        ),
        FaultRow::told(
            "F75",
            "an endless loop in one thread of two",
            "the other goes on",
            a_thread_in_an_endless_loop_does_not_hold_up_the_others,
        ),
        FaultRow::told(
            "F75",
            "a script asks for a terabyte at once",
            "exit 1, one line: not enough memory",
            a_string_larger_than_any_memory_is_an_error_of_the_script,
        ),
        FaultRow::told(
            "F75",
            "a script eats memory up to the limit of the process",
            "exit 1, one line: not enough memory",
            memory_that_a_script_uses_up_is_an_error_of_the_script,
        ),
        FaultRow::told(
            "F75",
            "a script reads a file that is missing",
            "exit 1, one line that names it",
            a_file_missing_for_a_script_is_named,
        ),
        FaultRow::told(
            "F75",
            "wrk.thread:stop() in the middle of everything",
            "the run ends, exit 0",
            a_script_that_stops_its_thread_ends_the_run,
        ),
    ]
}

/// An endless run of a script that fails during the load: report and document exist, exit code 1.
fn failing<'a>(load: Load<'a>, script: &str) -> Run<'a> {
    load.with(&["-d1h"]).script(script).run_to_failure()
}

fn an_error_during_the_load_names_its_position_and_keeps_the_result() {
    for (script, expected) in [
        (
            "n = 0\nfunction request()\nn = n + 1; if n > 9 then error('no') end; return \
             wrk.request() end",
            "s.lua:3: no (in request)",
        ),
        (
            "n = 0\nfunction response()\nn = n + 1; if n > 9 then error('no') end end",
            "s.lua:3: no (in response)",
        ),
        (
            "n = 0\nfunction delay()\nn = n + 1; if n > 9 then error('no') end; return 0 end",
            "s.lua:3: no (in delay)",
        ),
        (
            "n = 0\nfunction request()\nn = n + 1; if n < 9 then return wrk.request() end; return \
             {} end",
            "(in request)",
        ),
    ] {
        let site = site();
        let run = failing(load(&site), script);
        let line = one_line(&run.stderr);
        assert!(
            line.starts_with("wrkbench: ") && line.ends_with(expected),
            "{line}"
        );
        assert!(run.answered() > 0, "{}", run.story());
        assert!(run.stdout.contains("\nRequests/sec: "));
    }
}

fn garbage_instead_of_a_request_ends_the_run() {
    let site = site();
    let run = failing(
        load(&site),
        "n = 0
         function request()
           n = n + 1
           if n > 9 then return 'no request at all' end
           return wrk.request()
         end",
    );
    let line = one_line(&run.stderr);
    assert!(line.contains("request()"), "{line}");
}

/// Functions that do not return after twenty calls, in a script with `n = 0`.
pub(crate) const ENDLESS: [&str; 3] = [
    "function request() n = n + 1; while n > 20 do end; return wrk.format() end",
    "function response() n = n + 1; while n > 20 do end end",
    "function delay() n = n + 1; while n > 20 do end; return 0 end",
];

fn an_endless_loop_ends_with_the_run_and_is_reported() {
    for function in ENDLESS {
        let site = site();
        let run = load(&site)
            .for_ms(300)
            .script(&format!("n = 0\n{function}"))
            .run();
        assert!(run.answered() > 0, "{}", run.story());
        assert_eq!(run.result.window.duration_ns, 300_000_000);
        let warnings = run.document["warnings"].to_string();
        assert!(warnings.contains("\"script_stuck\""), "{warnings}");
        assert!(run.stderr.contains("wrkbench: warning: "), "{}", run.stderr);
    }
}

fn a_thread_in_an_endless_loop_does_not_hold_up_the_others() {
    let site = site();
    let run = load(&site).threads(2).connections(2).for_ms(400);
    let run = run.script(
        "local number = 0
         local threads = {}
         function setup(thread)
           number = number + 1
           thread:set('id', number)
           threads[number] = thread
         end
         function init() n = 0 end
         function response() n = n + 1; while id == 2 and n == 5 do end end
         function done()
           print('first', threads[1]:get('n') > 5, 'second', threads[2]:get('n'))
         end",
    );
    let run = run.run();
    assert!(
        run.stdout.ends_with("first\ttrue\tsecond\tnil\n"),
        "{}",
        run.story()
    );
    let sent_by_stuck = 5;
    assert!(run.answered() > sent_by_stuck, "{}", run.story());
}

/// The line of a script that fails before the load.
fn failing_at_start(script: &str, shell: Option<&str>) -> String {
    let site = site();
    let mut run = load(&site).requests(50).script(script);
    if let Some(command) = shell {
        run = run.in_shell_after(command);
    }
    let output = run.output();
    output.only_line().to_owned()
}

fn a_string_larger_than_any_memory_is_an_error_of_the_script() {
    let line = failing_at_start("local x = string.rep(string.rep('x', 1e6), 1e6)", None);
    assert!(line.contains("not enough memory"), "{line}");
}

fn memory_that_a_script_uses_up_is_an_error_of_the_script() {
    // Far more than the program itself needs, and little enough for any machine.
    let limit = "ulimit -v 2000000";
    let script = "local t = {}\nfor i = 1, 1e9 do t[i] = string.rep('x', 1e6) .. i end";
    let line = failing_at_start(script, Some(limit));
    assert!(line.contains("not enough memory"), "{line}");
}

fn a_file_missing_for_a_script_is_named() {
    let line = failing_at_start("for l in io.lines('/no/such/paths.txt') do end", None);
    assert!(
        line.contains("s.lua:1: ") && line.contains("/no/such/paths.txt"),
        "{line}"
    );
}

fn a_script_that_stops_its_thread_ends_the_run() {
    for function in ["request", "response", "delay"] {
        let site = site();
        let run = load(&site).connections(4).with(&["-d1h"]).script(&format!(
            "n = 0
             function {function}()
               n = n + 1
               if n == 20 then wrk.thread:stop() end
               return {value}
             end",
            value = if function == "delay" {
                "0"
            } else {
                "wrk.request and wrk.request()"
            },
        ));
        let run = run.run();
        assert_eq!(run.kinds(), [], "{function}\n{}", run.story());
        assert!(run.answered() > 0, "{function}\n{}", run.story());
    }
}
