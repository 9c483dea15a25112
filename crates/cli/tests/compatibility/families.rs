//! Scripts as people write them, under both: their output and the exit code.

use origin::{Options, Server};

use crate::tool::{Pair, ProgramOutput};
use testkit::Folder;

/// The lines of stdout with every number replaced by `N`, so that measured values do not matter.
fn shape(ended: &ProgramOutput) -> String {
    let mut shape = String::new();
    for character in ended.stdout.chars() {
        match character {
            '0'..='9' if shape.ends_with('N') => {}
            '0'..='9' => shape.push('N'),
            other => shape.push(other),
        }
    }
    shape
}

/// The output after the report, which comes from `done` of the script.
fn behind_report(shape: &str) -> &str {
    let at = shape
        .find("\nTransfer/sec:")
        .unwrap_or_else(|| panic!("no report: {shape}"));
    let rest = &shape[at + 1..];
    rest.split_once('\n').map_or("", |(_, behind)| behind)
}

/// Runs a script under both: the output before and after the report must be equal, and so must the
/// exit code.
fn same(name: &str, text: &str) -> Option<(ProgramOutput, ProgramOutput)> {
    let pair = Pair::find()?;
    let folder = Folder::new();
    let script = folder.file_with("script.lua", text);
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t2", "-c4", "-d1s", "-s", &script, &server.url()]);
    let (in_wrk, in_ours) = (shape(&wrk), shape(&ours));
    assert_eq!(
        behind_report(&in_ours),
        behind_report(&in_wrk),
        "{name}: {ours:?}"
    );
    let before = |shape: &str| shape.split("Running ").next().map(str::to_owned);
    assert_eq!(before(&in_ours), before(&in_wrk), "{name}: {ours:?}");
    assert_eq!(ours.code, wrk.code, "{name}: {ours:?}");
    Some((wrk, ours))
}

/// The same, and nothing is on stderr: scripts that read both streams must find no notes.
fn silent(name: &str, text: &str) {
    if let Some((wrk, ours)) = same(name, text) {
        assert_eq!(
            (ours.stderr.as_str(), wrk.stderr.as_str()),
            ("", ""),
            "{name}"
        );
    }
}

#[test]
fn missing_fields_are_printed_alike_by_both() {
    for (name, field) in [
        ("requests-total", "requests.total"),
        ("latency-p99", "latency.p99"),
        ("latency-3", "latency[3]"),
    ] {
        let text = format!(
            "function done(summary, latency, requests)\n  io.write('value: ' .. {field} .. \
             '\\n')\n  print(type({field}))\nend\n"
        );
        silent(name, &text);
    }
    silent(
        "thread-name",
        "function setup(thread) print(thread.name, thread.id) end\n",
    );
}

#[test]
fn latencies_are_printed_as_whole_numbers_by_both() {
    silent(
        "whole",
        "function done(s, l, r)\n\
           for _, v in ipairs({ l.min, l.max, l:percentile(50), l:percentile(99.9), r.min, r.max, \
           (l(1)) }) do\n\
             print(tostring(v):find('[.e]') == nil)\n  end\n\
           io.write(string.format('{\"p50\": %d, \"mean\": %.2f}\\n', l:percentile(50), \
           l.mean))\nend\n",
    );
}

#[test]
fn a_counter_a_header_and_a_login_print_the_same() {
    silent(
        "counted",
        "local threads, number = {}, 0\n\
         function setup(thread)\n  number = number + 1\n  thread:set('id', number)\n  \
         threads[number] = thread\nend\n\
         function init()\n  sent, got = 0, 0\n  print('thread ' .. id)\nend\n\
         function request()\n  sent = sent + 1\n  wrk.headers['X-Count'] = sent\n  return \
         wrk.format(nil, '/?n=' .. sent)\nend\n\
         function response(status)\n  got = got + 1\nend\n\
         function done()\n  for i, thread in ipairs(threads) do\n\
             print(i, thread:get('sent') >= thread:get('got'), thread:get('got') > 0)\n  \
             end\nend\n",
    );
    silent(
        "login",
        "local token\n\
         function request()\n  if token then wrk.headers['X-Token'] = token end\n  return \
         wrk.format('GET', token and '/in' or '/login')\nend\n\
         function response(status, headers)\n  if not token and status == 200 then token = \
         headers['Content-Length'] end\nend\n\
         function done(s) print(s.errors.status, s.requests > 0) end\n",
    );
}

#[test]
fn both_send_batches_of_the_depth_in_the_arguments() {
    silent(
        "depth",
        "function init(args)\n  local batch = {}\n  for i = 1, tonumber(args[1]) or 16 do batch[i] \
         = wrk.format() end\n\
           all = table.concat(batch)\nend\n\
         function request() return all end\n\
         function done(s) print('pipelined', s.requests > 0, s.errors.read) end\n",
    );
}

#[test]
fn both_send_an_empty_path() {
    let text = "local n = 0\nfunction request()\n  n = n + 1\n  return wrk.format('GET', n % 10 == \
        0 and '' or '/')\nend\n\
         function done(s) print('refused by the server', s.errors.status > 0) end\n";
    silent("empty-path", text);
}

#[test]
fn a_report_of_a_script_is_alone_on_stderr() {
    let text = "function done(s) io.stderr:write('{\"requests\": ' .. s.requests .. '}\\n') end\n";
    let Some((wrk, ours)) = same("on-stderr", text) else {
        return;
    };
    for ended in [wrk, ours] {
        let value: serde_json::Value =
            serde_json::from_str(&ended.stderr).expect("it is one document");
        assert!(value["requests"].as_u64() > Some(0), "{value}");
    }
}

#[test]
fn an_error_in_done_keeps_its_earlier_output_and_the_report() {
    let text = "function done(s, l)\n  print('before')\n  print(l.nothing + 1)\nend\n";
    if let Some((_, ours)) = same("broken-done", text) {
        assert_eq!(ours.code, Some(1));
        assert!(ours.stderr.contains("script.lua:3: "), "{ours:?}");
    }
}

#[test]
fn tables_of_statuses_are_collected_by_both() {
    silent(
        "statuses",
        "local threads = {}\nfunction setup(thread) threads[#threads + 1] = thread end\n\
         function init() codes = {} end\n\
         function response(status)\n  local key = tostring(status)\n  codes[key] = (codes[key] or \
         0) + 1\nend\n\
         function done()\n  local all = {}\n  for _, thread in ipairs(threads) do\n\
             for key, count in pairs(thread:get('codes')) do all[key] = (all[key] or 0) + count \
             end\n  end\n\
           for key, count in pairs(all) do print(key, count > 0) end\nend\n",
    );
}
