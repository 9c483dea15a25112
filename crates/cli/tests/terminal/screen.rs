//! The whole terminal (`--tui`): taken over, used, and restored in every case.

use std::fs;
use std::process::{Command, Stdio};

use testkit::{Folder, send_signal};

use crate::harness::{Site, io_arguments, program, site};
use crate::pty::{Terminal, TerminalOutput, screen};

/// The alternate screen of xterm, on and off.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";

/// A run of the site with a screen: one thread, four connections.
fn run(site: &Site, options: &[&str]) -> Command {
    let mut command = program(&["-t1", "-c4", "--tui"]);
    command
        .args(io_arguments())
        .args(options)
        .arg(site.url("/"));
    command
}

/// The screen shows the first second of the window.
fn has_figures(text: &str) -> bool {
    let shown = screen(text);
    text.contains(ENTER) && shown.contains("measuring") && shown.contains("p99.9")
}

/// The text on the terminal before the alternate screen, and after it.
fn around(ended: &TerminalOutput) -> (&str, &str) {
    let (before, rest) = ended.text.split_once(ENTER).expect("the screen");
    let (_, after) = rest.rsplit_once(LEAVE).expect("the end of the screen");
    assert!(!after.contains("\x1b"), "{after:?}");
    (before, after)
}

/// The report is below its banner, and the terminal is restored.
fn assert_reported(ended: &TerminalOutput) {
    let (before, after) = around(ended);
    assert!(before.starts_with("Running "), "{before:?}");
    assert!(after.contains("Requests/sec:"), "{after:?}");
    assert!(ended.text.rfind("\x1b[?25h") > ended.text.rfind("\x1b[?25l"));
    assert_eq!(ended.settings[1], ended.settings[0]);
}

#[test]
fn a_run_takes_over_the_terminal_and_restores_it() {
    let site = site();
    let ended = Terminal::start(100, 30, &run(&site, &["-d1500ms"])).finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(has_figures(&ended.text), "{:?}", ended.text);
    assert_reported(&ended);
}

#[test]
fn the_demo_shows_its_run_and_names_its_page() {
    let folder = Folder::new();
    let (result, page) = (folder.file("demo.json"), folder.file("demo.html"));
    let mut demo = program(&["demo", "-d2s", "--json", &result]);
    demo.args(io_arguments());
    let ended = Terminal::start(100, 30, &demo).finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(has_figures(&ended.text), "{:?}", ended.text);
    let (before, after) = around(&ended);
    assert!(before.contains("it stalls for 250 ms"), "{before:?}");
    assert!(after.contains("Requests/sec:"), "{after:?}");
    let next = format!("open {page} in a browser");
    assert!(after.contains(&next), "{after:?}");
    assert_eq!(ended.settings[1], ended.settings[0]);
}

#[test]
fn q_and_ctrl_c_end_the_run_and_it_is_reported() {
    let site = site();
    for key in [b"q", CTRL_C] {
        let json = site.folder.file("result.json");
        let mut terminal = Terminal::start(100, 30, &run(&site, &["-d60s", "--json", &json]));
        terminal.await_text("the picture", has_figures);
        terminal.press(key);
        let ended = terminal.finish();
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        assert_reported(&ended);
        let result = results::file::load(&fs::read(&json).unwrap()).unwrap();
        assert!(result.window.interrupted);
        fs::remove_file(json).unwrap();
    }
}

#[test]
fn a_signal_restores_the_terminal_and_the_run_is_reported() {
    let site = site();
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 0)] {
        let terminal = Terminal::start(100, 30, &run(&site, &["-d60s"]));
        terminal.await_text("the picture", has_figures);
        send(signal, terminal.id());
        let ended = terminal.finish();
        assert_eq!(ended.code, Some(code), "{}", ended.text);
        assert_reported(&ended);
    }
}

#[test]
fn a_second_signal_waits_until_the_terminal_is_restored() {
    let site = site();
    let terminal = Terminal::start(100, 30, &run(&site, &["-d60s"]));
    terminal.await_text("the picture", has_figures);
    let mut both = Command::new("sh");
    let id = terminal.id().to_string();
    both.args(["-c", "kill -TERM $0; kill -INT $0", &id]);
    assert!(both.status().unwrap().success());
    let ended = terminal.finish();
    // Which of them ends it depends on which is faster.
    assert!(matches!(ended.code, Some(130 | 143)), "{:?}", ended.code);
    around(&ended);
    assert_eq!(ended.settings[1], ended.settings[0]);
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let site = site();
    let run = run(&site, &["-d60s"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    shell.arg(run.get_program()).args(run.get_args());
    let mut terminal = Terminal::start(100, 30, &shell);
    terminal.await_text("the picture", has_figures);
    send("HUP", terminal.id());
    terminal.press(b"q");
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert_reported(&ended);
}

fn send(signal: &str, id: u32) {
    assert!(send_signal(signal, &id.to_string()));
}

#[test]
fn keys_change_the_screen_and_nothing_else() {
    let site = site();
    let mut terminal = Terminal::start(100, 30, &run(&site, &["-d60s"]));
    terminal.await_text("the picture", has_figures);
    terminal.press(b"?");
    terminal.await_text("the help", |text| screen(text).contains("like Ctrl-C"));
    // The letters in the sequence of an arrow key are no keys.
    terminal.press(b"\x1b[1;5q");
    terminal.press(b"p");
    terminal.await_text("the pause", |text| screen(text).contains("FROZEN"));
    terminal.press(b"q");
    assert_reported(&terminal.finish());
}

#[test]
fn the_screen_is_redrawn_when_the_window_changes() {
    let site = site();
    let mut terminal = Terminal::start(100, 30, &run(&site, &["-d60s"]));
    terminal.await_text("the picture", has_figures);
    // Too small for the screen, so it shows the line.
    terminal.resize(40, 15);
    terminal.await_text("the line", |text| {
        let screen = screen(text);
        screen.contains("q: stop and report") && screen.contains("/s p50 ")
    });
    terminal.resize(90, 30);
    terminal.await_text("the picture again", has_figures);
    terminal.press(b"q");
    assert_reported(&terminal.finish());
}

#[test]
fn suspending_restores_the_terminal_and_resuming_redraws() {
    let site = site();
    let run = run(&site, &["-d60s"]);
    let mut shell = Command::new("bash");
    // A script starts it and stops with it.
    let script = "set -m; sh -c '\"$@\"; exit $?' sh \"$@\"; echo suspended; fg; exit $?";
    shell.args(["-c", script, "bash"]);
    shell.arg(run.get_program()).args(run.get_args());
    let mut terminal = Terminal::start(100, 30, &shell);
    terminal.await_text("the picture", has_figures);
    terminal.press(CTRL_Z);
    let text = terminal.await_text("the second screen", |text| text.matches(ENTER).count() == 2);
    let (first, second) = text.rsplit_once(ENTER).unwrap();
    assert!(
        first.contains("suspended") && first.contains(LEAVE),
        "{first:?}"
    );
    assert!(first.find("suspended") > first.find(LEAVE));
    assert!(!second.contains(LEAVE));
    terminal.await_text("the picture again", has_figures);
    terminal.press(b"q");
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert_reported(&ended);
}

#[test]
fn no_colour_and_only_ascii_on_request() {
    let site = site();
    let environment = [("NO_COLOR", "1"), ("LANG", "C")];
    let command = run(&site, &["-d1500ms"]);
    let ended = Terminal::start_with(100, 30, &command, &environment).finish();
    assert!(has_figures(&ended.text), "{:?}", ended.text);
    assert!(ended.text.is_ascii(), "{:?}", ended.text);
    // SGR parameters other than those of bold, dim, underlined and reversed select colours.
    for sequence in ended.text.split("\x1b[").skip(1) {
        let parameters = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let parameters = &sequence[..sequence.len() - parameters.len()];
        let is_style = sequence[parameters.len()..].starts_with('m');
        let mut parameters = parameters.split(';');
        assert!(
            !is_style || parameters.all(|it| ["", "0", "1", "2", "4", "7"].contains(&it)),
            "{sequence:?}"
        );
    }
    assert_reported(&ended);
}

#[test]
fn the_report_goes_where_stdout_goes() {
    let site = site();
    let file = site.folder.file("report.txt");
    let run = run(&site, &["-d1500ms"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "file=$0; exec \"$@\" > \"$file\"", &file]);
    shell.arg(run.get_program()).args(run.get_args());
    let ended = Terminal::start(100, 30, &shell).finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(has_figures(&ended.text), "{:?}", ended.text);
    assert!(!ended.text.contains("Requests/sec:"), "{:?}", ended.text);
    let report = fs::read_to_string(file).unwrap();
    assert!(
        report.starts_with("Running ") && !report.contains('\x1b'),
        "{report}"
    );
    assert!(report.contains("Requests/sec:"), "{report}");
}

#[test]
fn output_of_a_script_is_shown_after_the_screen() {
    let site = site();
    let script = "local n = 0\n\
        response = function()\n  n = n + 1\n  if n == 1 then print('from the script') end\nend\n\
        done = function() print('from its end') end\n";
    let script = site.folder.file_with("print.lua", script);
    let ended = Terminal::start(100, 30, &run(&site, &["-d1500ms", "-s", &script])).finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert_reported(&ended);
    let (_, after) = around(&ended);
    let printed = after.find("from the script").expect("what was printed");
    let report = after.find("Thread Stats").expect("the report");
    let last = after.find("from its end").expect("what was printed last");
    assert!(printed < report && report < last, "{after:?}");
    let (screen, _) = ended.text.rsplit_once(LEAVE).unwrap();
    assert!(!screen.contains("from the script"), "{screen:?}");
}

#[test]
fn a_script_that_prints_endlessly_does_not_block_the_screen() {
    let site = site();
    let script = "local much = string.rep('x', 1000000)\n\
        response = function() for _ = 1, 100 do io.write(much) end end\n";
    let script = site.folder.file_with("flood.lua", script);
    let mut terminal = Terminal::start(100, 30, &run(&site, &["-d60s", "-s", &script]));
    terminal.await_text("the screen", |text| text.contains(ENTER));
    terminal.press(b"q");
    // The further output of the script, and how long it is awaited, is as without a screen.
    terminal.await_text("the end of the screen", |text| text.contains(LEAVE));
}

#[test]
fn without_a_terminal_it_is_refused_before_the_load() {
    let site = site();
    let output = run(&site, &["-d60s"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.starts_with("wrkbench: --tui: stderr is not a terminal"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    assert!(output.stdout.is_empty());
    let command = run(&site, &["-d60s"]);
    let dumb = Terminal::start_with(100, 30, &command, &[("TERM", "dumb")]).finish();
    assert_eq!(dumb.code, Some(1));
    assert!(dumb.text.contains("--tui: "), "{}", dumb.text);
    assert!(
        !dumb.text.contains('\x1b') && !dumb.text.contains("Running"),
        "{}",
        dumb.text
    );
}

/// A sweep of one factor with two levels and one round.
fn sweep(site: &Site, more: &str) -> Command {
    let plan = format!(
        "name = 'try'\nrounds = 1\nresults = 'results'\norder = 'sequential'\n\
         [load]\nthreads = 1\nduration = '1500ms'\n\
         [[target]]\nname = 'origin'\nurl = '{}'\n\
         [[factor]]\nname = 'connections'\noption = 'connections'\nlevels = [2, 4]\n{more}",
        site.url("/")
    );
    let plan = site.folder.file_with("plan.toml", plan);
    let journal = site.folder.file("journal");
    program(&["sweep", &plan, "--journal", &journal, "--tui"])
}

#[test]
fn a_sweep_shows_its_grid_and_keeps_its_lines() {
    let site = site();
    let terminal = Terminal::start(100, 40, &sweep(&site, ""));
    let text = terminal.await_text("the second trial", |text| {
        let shown = screen(text);
        shown.contains("p99.9") && shown.contains("round 1, connections 4, origin")
    });
    let shown = screen(&text);
    for part in ["wrkbench sweep", "requests/s by round", "1 of 2 trials"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let (before, after) = around(&ended);
    assert!(before.contains("2 cells"), "{before}");
    for place in [
        "[1/2] round 1/1, connections 2",
        "[2/2] round 1/1, connections 4",
    ] {
        assert!(after.contains(place), "{after}");
    }
    assert_eq!(ended.settings[1], ended.settings[0]);
}

#[test]
fn q_ends_a_sweep_like_ctrl_c_even_during_a_command() {
    let site = site();
    let file = site.folder.file_with("server.conf", "as it was\n");
    let template = site.folder.file_with("template", "level {{level}}\n");
    let waiting = site.folder.file("waiting");
    let more = format!(
        "[[factor]]\nname = 'conf'\nfile = '{file}'\ntemplate = '{template}'\nlevels = ['a']\n\
         [hooks]\nbefore = 'touch {waiting}; sleep 3'\n"
    );
    let mut terminal = Terminal::start(100, 40, &sweep(&site, &more));
    testkit::eventually(|| fs::metadata(&waiting).map_err(|error| error.to_string()));
    terminal.await_text("the grid", |text| {
        screen(text).contains("requests/s by round")
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "level a\n");
    terminal.press(b"q");
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(130), "{}", ended.text);
    assert_eq!(ended.settings[1], ended.settings[0]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was\n");
    let (_, after) = around(&ended);
    assert!(after.contains("--resume"), "{after}");
}

#[test]
fn a_terminal_that_vanishes_loses_no_result() {
    let site = site();
    let json = site.folder.file("result.json");
    let run = run(&site, &["-d60s", "--json", &json]);
    // Kills the process that holds the other end of the terminal.
    let words = std::iter::once(run.get_program()).chain(run.get_args());
    let quoted: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut holder = Command::new("script");
    holder.args([
        "--quiet",
        "--flush",
        "--command",
        &quoted.join(" "),
        "/dev/null",
    ]);
    let terminal = Terminal::start(100, 30, &holder);
    terminal.await_text("the picture", has_figures);
    send("KILL", terminal.id());
    let document = testkit::eventually(|| fs::read(&json).map_err(|error| error.to_string()));
    let result = results::file::load(&document).unwrap();
    assert!(result.window.interrupted);
}
