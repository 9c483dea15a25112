//! What a Lua script can observe under both.

use std::collections::{BTreeMap, BTreeSet};

use origin::{Options, Server};

use crate::tool::{Pair, ProgramOutput};
use testkit::Folder;

const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compatibility/probe.lua");
const SCRIPTING: &str = include_str!("../../../../docs/scripting.md");
const PHASES: [&str; 7] = [
    "top", "setup", "init", "request", "delay", "response", "done",
];

/// An intended difference in any phase; `None`: not printed.
struct Difference {
    name: &'static str,
    wrk: Option<&'static str>,
    ours: Option<&'static str>,
    /// The start of its row in docs/scripting.md.
    row: &'static str,
}

const fn difference(
    name: &'static str,
    wrk: Option<&'static str>,
    ours: Option<&'static str>,
    row: &'static str,
) -> Difference {
    Difference {
        name,
        wrk,
        ours,
        row,
    }
}

const NO_NUMBER: &str = "| `latency(i)` with something that is no number |";
const WORDS: &str = "| words of the library's own messages |";

const DIFFERENCES: &[Difference] = &[
    difference(
        "wrk.time_us",
        None,
        Some("\"function\", function"),
        "| `wrk.time_us` |",
    ),
    difference(
        "get zero",
        Some("\"a\""),
        Some("\"a\\0b\""),
        "| strings through `thread:set` |",
    ),
    difference(
        "latency p100",
        Some("false"),
        Some("true"),
        "| `percentile(100)` |",
    ),
    difference(
        "requests p100",
        Some("false"),
        Some("true"),
        "| `percentile(100)` |",
    ),
    difference(
        "latency i word",
        Some("true, \"number\""),
        Some("\"fails\""),
        NO_NUMBER,
    ),
    difference(
        "requests i word",
        Some("true, \"number\""),
        Some("\"fails\""),
        NO_NUMBER,
    ),
];

/// Messages that differ only in their words.
const OTHER_WORDS: [&str; 12] = [
    "format of a wrong header table says",
    "format of a table as body says",
    "connect nil says",
    "connect string says",
    "set field says",
    "addr string says",
    "addr nil says",
    "latency p nil says",
    "latency p word says",
    "requests p nil says",
    "requests p word says",
    // No error in wrk, see NO_NUMBER, so only wrkbench has a message.
    "latency i word says",
];

/// The lines of the probe by phase and name. Some come from two Lua states, hence lists.
fn observed(ended: &ProgramOutput) -> BTreeMap<(String, String), Vec<String>> {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in ended.stdout.lines() {
        let Some((phase, rest)) = line.split_once(' ') else {
            continue;
        };
        if PHASES.contains(&phase) {
            let (name, value) = rest.split_once(": ").expect("the probe's lines have both");
            let key = (phase.to_owned(), name.to_owned());
            all.entry(key).or_default().push(value.to_owned());
        }
    }
    all
}

/// Whether a list of values is absent or contains only this value, as listed.
fn is_as_said(values: Option<&Vec<String>>, said: Option<&str>) -> bool {
    match (values, said) {
        (None, None) => true,
        (Some(values), Some(said)) => values.iter().all(|value| value == said),
        _ => false,
    }
}

#[test]
fn a_script_sees_the_same_in_every_phase_except_for_listed_differences() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let server = Server::start(Options::default()).expect("the server starts");
    let url = format!("{}path?q=1", server.url());
    let line = [
        "-t1", "-c1", "-d1s", "-H", "X-Opt: o", "-s", PROBE, &url, "one", "--", "-two",
    ];
    let (wrk, ours) = pair.run(&line);
    let (wrk, ours) = (observed(&wrk), observed(&ours));
    let phases: BTreeSet<&str> = wrk.keys().map(|(phase, _)| phase.as_str()).collect();
    assert_eq!(phases, BTreeSet::from(PHASES), "the probe ran to its end");
    assert!(wrk.len() > 200, "{wrk:#?}");

    let mut unused: BTreeSet<&str> = DIFFERENCES.iter().map(|d| d.name).collect();
    unused.extend(OTHER_WORDS);
    for key in wrk.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        let (in_wrk, in_ours) = (wrk.get(key), ours.get(key));
        if in_wrk == in_ours {
            continue;
        }
        let name = key.1.as_str();
        let is_listed = DIFFERENCES.iter().any(|difference| {
            difference.name == name
                && is_as_said(in_wrk, difference.wrk)
                && is_as_said(in_ours, difference.ours)
        });
        let has_other_words = OTHER_WORDS.contains(&name) || name == "requests i word says";
        assert!(
            is_listed || (has_other_words && in_ours.is_some()),
            "{key:?} is {in_wrk:?} in wrk and {in_ours:?} in ours"
        );
        unused.remove(name);
    }
    assert_eq!(unused, BTreeSet::new(), "listed, but not different");
}

#[test]
fn every_listed_difference_is_documented() {
    for row in DIFFERENCES.iter().map(|d| d.row).chain([WORDS]) {
        assert!(
            SCRIPTING.contains(row),
            "docs/scripting.md has no row {row}"
        );
    }
}

/// The lines that a script marked with `> `.
fn marked(ended: &ProgramOutput) -> Vec<&str> {
    let lines = ended.stdout.lines();
    lines.filter(|line| line.starts_with("> ")).collect()
}

/// Runs a script under both with these options; the lines marked with `> ` must be equal.
fn same_marks(options: &[&str], text: &str) {
    let Some(pair) = Pair::find() else { return };
    let folder = Folder::new();
    let script = folder.file_with("script.lua", text);
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    let mut line = options.to_vec();
    line.extend(["-d1s", "-s", &script, &url, "a", "b"]);
    let (wrk, ours) = pair.run(&line);
    assert!(!marked(&wrk).is_empty(), "{wrk:?}");
    assert_eq!(marked(&ours), marked(&wrk), "{ours:?}");
    assert_eq!((wrk.code, ours.code), (Some(0), Some(0)), "{ours:?}");
}

#[test]
fn lua_states_are_created_and_called_in_the_same_order() {
    same_marks(
        &["-t3", "-c3"],
        "print('> top')\nlocal count = 0\n\
         function setup(thread)\n  count = count + 1\n  print('> setup ' .. count)\n\
           thread:set('id', count)\nend\n\
         function init(args)\n  print('> init ' .. id .. ' ' .. #args .. args[1] .. args[2])\nend\n\
         function done()\n  print('> done ' .. count .. ' ' .. tostring(id))\nend\n",
    );
}

#[test]
fn a_replaced_wrk_init_and_wrk_setup_are_called() {
    same_marks(
        &["-t1", "-c1"],
        "local library_init, library_setup = wrk.init, wrk.setup\n\
         wrk.init = function(args)\n  print('> before')\n  library_init(args)\n\
           print('> after ' .. type(wrk.request))\nend\n\
         wrk.setup = function(thread)\n  print('> setup')\n  library_setup(thread)\nend\n\
         function init(args) print('> the script') end\n",
    );
}

#[test]
fn flat_tables_are_returned_from_threads() {
    // wrk crashes for nested tables, and after many calls.
    same_marks(
        &["-t2", "-c2"],
        "local threads = {}\n\
         function setup(thread)\n  threads[#threads + 1] = thread\n  thread:set('id', #threads)\nend\n\
         function init() t = { a = id, b = 'text', c = true, [1] = 1.5 } end\n\
         function done()\n  for i, thread in ipairs(threads) do\n    local t = thread:get('t')\n\
             print('> ' .. t.a .. t.b .. tostring(t.c) .. t[1])\n  end\nend\n",
    );
}

#[test]
fn modules_and_files_are_found_from_the_working_directory() {
    same_marks(
        &["-t1", "-c1"],
        "print('> ' .. package.path:match('^[^;]*'))\n\
         print('> ' .. tostring(pcall(require, 'no.such.module')))\n\
         print('> ' .. tostring(io.open('no-such-file')))\n\
         print('> ' .. tostring(os.getenv('NO_SUCH_VARIABLE')))\n\
         print('> ' .. type(arg) .. type(os.time()) .. type(os.clock()))\n",
    );
}

#[test]
fn a_thread_stops_after_its_responses() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let script = folder.file_with(
        "s.lua",
        "local n = 0\nfunction response()\n  n = n + 1\n\
           if n == 20 then wrk.thread:stop() end\nend\n\
         function done(summary) print('> ' .. summary.requests) end\n",
    );
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t2", "-c2", "-d1s", "-s", &script, &server.url()]);
    assert_eq!(marked(&ours), ["> 40"]);
    assert_eq!(marked(&ours), marked(&wrk));
}

#[test]
fn both_end_with_the_exit_code_of_the_script() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let server = Server::start(Options::default()).expect("the server starts");
    for phase in ["init", "request", "response", "done"] {
        let text = format!("function {phase}()\n  os.exit(7)\nend\n");
        let script = folder.file_with(&format!("{phase}.lua"), &text);
        let (wrk, ours) = pair.run(&["-t1", "-c1", "-d1s", "-s", &script, &server.url()]);
        assert_eq!((wrk.code, ours.code), (Some(7), Some(7)), "{phase}");
    }
}

#[test]
fn looking_up_an_unknown_host_ends_both_with_the_same_words() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let text = "function init()\n  wrk.lookup('nonexistent.invalid', 'http')\nend\n";
    let script = folder.file_with("s.lua", text);
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t1", "-c1", "-d1s", "-s", &script, &server.url()]);
    assert_eq!((wrk.code, ours.code), (Some(1), Some(1)));
    assert!(
        wrk.stderr
            .starts_with("unable to resolve nonexistent.invalid:http ")
    );
    assert!(ours.stderr.contains(wrk.stderr.trim_end()), "{ours:?}");
}
