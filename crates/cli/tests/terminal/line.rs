//! The line that is rewritten.

use std::process::Command;

use testkit::{Process, eventually, send_signal};

use crate::harness::{Site, io_arguments, program, site};
use crate::pty::{Terminal, TerminalOutput, drawn, rows};

const CTRL_C: &[u8] = b"\x03";

/// A run of the site with these options: one thread, four connections.
fn run(site: &Site, options: &[&str]) -> Command {
    let mut command = program(&["-t1", "-c4"]);
    command
        .args(io_arguments())
        .args(options)
        .arg(site.url("/"));
    command
}

/// A line of a run was drawn.
fn has_line(text: &str) -> bool {
    drawn(text).iter().any(|line| is_line(line))
}

fn is_line(line: &str) -> bool {
    line.contains("p99 ") && line.contains("/s")
}

/// The text left on the screen, without the lines that were drawn.
fn left(ended: &TerminalOutput, columns: usize) -> Vec<String> {
    let rows = rows(&ended.text, columns);
    for row in &rows {
        assert!(!row.contains('█') && !is_line(row), "{rows:#?}");
    }
    rows
}

/// The report begins right below the banner.
fn assert_report(rows: &[String]) {
    assert!(rows[0].starts_with("Running "), "{rows:#?}");
    assert_eq!(rows[1], "  1 threads and 4 connections");
    assert_eq!(
        rows[2],
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev"
    );
    assert!(
        rows.iter().any(|row| row.starts_with("Requests/sec:")),
        "{rows:#?}"
    );
}

#[test]
fn a_line_shows_progress_and_does_not_change_the_report() {
    let site = site();
    let mut terminal = Terminal::start(120, 40, &run(&site, &["-d60s"]));
    terminal.await_text("the line", has_line);
    terminal.press(CTRL_C);
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(0));
    let lines = drawn(&ended.text);
    let line = lines.iter().find(|line| is_line(line)).unwrap();
    for part in [
        "[",
        "] 59 s left, ",
        " requests/s, p50 ",
        ", p99 ",
        ", generator CPU ",
    ] {
        assert!(line.contains(part), "{part:?} in {line:?}");
    }
    assert!(
        ended.text.contains("\x1b[1;94m"),
        "colours: {:?}",
        ended.text
    );
    assert_report(&left(&ended, 120));
}

#[test]
fn a_line_is_never_wider_than_the_terminal() {
    let site = site();
    for columns in [40_u16, 60] {
        let mut terminal = Terminal::start(columns, 24, &run(&site, &["-d60s"]));
        terminal.await_text("the line", has_line);
        terminal.press(CTRL_C);
        let ended = terminal.finish();
        for line in drawn(&ended.text) {
            assert!(line.chars().count() < usize::from(columns), "{line:?}");
        }
        assert!(has_line(&ended.text));
    }
}

#[test]
fn ctrl_c_clears_the_line_although_the_terminal_echoes_it() {
    let site = site();
    // The line is cut to the width, so echoed characters after it go to the next row.
    for columns in [60, 80] {
        let mut terminal = Terminal::start(columns, 40, &run(&site, &["-d60s"]));
        terminal.await_text("the line", has_line);
        terminal.press(CTRL_C);
        let ended = terminal.finish();
        assert!(
            ended.text.contains("^C"),
            "the terminal echoes: {:?}",
            ended.text
        );
        assert_report(&left(&ended, usize::from(columns)));
    }
}

#[test]
fn a_window_that_gets_smaller_gets_a_shorter_line() {
    let site = site();
    let mut terminal = Terminal::start(120, 24, &run(&site, &["-d60s"]));
    let before = terminal.await_text("the line", has_line);
    terminal.resize(50, 24);
    let count = drawn(&before).len();
    // One may be written while the size changes.
    let after = terminal.await_text("two lines more", |text| drawn(text).len() >= count + 2);
    assert!(drawn(&after)[count + 1].chars().count() < 50, "{after:?}");
    terminal.press(CTRL_C);
    assert_eq!(terminal.finish().code, Some(0));
}

#[test]
fn no_colour_means_none() {
    let site = site();
    let environment = [("NO_COLOR", "1"), ("LANG", "C")];
    let command = run(&site, &["-d60s"]);
    let mut terminal = Terminal::start_with(100, 24, &command, &environment);
    terminal.await_text("the line", has_line);
    terminal.press(CTRL_C);
    let ended = terminal.finish();
    assert_eq!(ended.text.replace("\x1b[K", "").find('\x1b'), None);
    // The locale has only ASCII.
    assert!(ended.text.is_ascii(), "{:?}", ended.text);
}

#[test]
fn nothing_is_drawn_when_disabled_or_called_as_wrk() {
    let site = site();
    let link = site.folder.file("wrk");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wrkbench"), &link).unwrap();
    let mut wrk = Command::new(link);
    wrk.args(run(&site, &["-d1500ms"]).get_args());
    let runs = [
        (run(&site, &["-d1500ms", "-q"]), "xterm"),
        (run(&site, &["-d1500ms"]), "dumb"),
        (wrk, "xterm"),
    ];
    for (command, kind) in runs {
        let terminal = Terminal::start_with(100, 40, &command, &[("TERM", kind)]);
        let ended = terminal.finish();
        assert_eq!(ended.code, Some(0));
        assert_eq!(ended.text.find('\x1b'), None, "{:?}", ended.text);
        assert_eq!(ended.text.replace("\r\n", "").find('\r'), None);
        assert_report(&left(&ended, 100));
    }
}

#[test]
fn sigterm_leaves_a_clean_line_too() {
    let site = site();
    let terminal = Terminal::start(100, 24, &run(&site, &["-d60s"]));
    terminal.await_text("the line", has_line);
    let id = terminal.id().to_string();
    assert!(send_signal("TERM", &id));
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(143));
    assert_report(&left(&ended, 100));
}

#[test]
fn a_thread_in_an_endless_loop_does_not_stop_the_line() {
    let site = site();
    // The first thread is lost after its first requests, the other after some seconds.
    let script = "local number = 0\n\
        function setup(thread) number = number + 1; thread:set('number', number) end\n\
        local count, begun = 0, os.time()\n\
        function request()\n  count = count + 1\n\
        while number == 1 and count > 20 or os.time() > begun + 2 do end\n\
        return wrk.format()\nend\n";
    let script = site.folder.file_with("endless.lua", script);
    let mut terminal = Terminal::start(100, 24, &run(&site, &["-t2", "-d60s", "-s", &script]));
    terminal.await_text("the line", has_line);
    terminal.await_text("what is said then", |text| text.contains("no update for "));
    terminal.press(CTRL_C);
    let ended = terminal.finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(
        left(&ended, 100)
            .iter()
            .any(|row| row.starts_with("Requests/sec:"))
    );
}

#[test]
fn in_the_background_nothing_is_drawn_and_the_run_goes_on() {
    let site = site();
    let [json, pid] = ["result.json", "pid"].map(|name| site.folder.file(name));
    let command = run(&site, &["-d1500ms", "--json", &json]);
    // Makes the kernel stop background processes that write to the terminal.
    let mut shell = Command::new("bash");
    let line = "set -m; stty tostop; \"$@\" > /dev/null & echo $! > \"$0\"; wait";
    shell.args(["-c", line, &pid]).arg(command.get_program());
    shell.args(command.get_args());
    let terminal = Terminal::start(100, 24, &shell);
    let document = eventually(|| std::fs::read(&json).map_err(|error| error.to_string()));
    let result = results::file::load(&document).unwrap();
    assert_eq!(result.window.duration_ns, 1_500_000_000);
    // Writing a note at the end may have stopped it.
    let pid = std::fs::read_to_string(pid).unwrap();
    let _ = send_signal("KILL", pid.trim());
    let ended = terminal.finish();
    assert!(!has_line(&ended.text), "{:?}", ended.text);
}

#[test]
fn without_a_terminal_a_long_run_has_a_line_every_ten_seconds() {
    let site = site();
    let mut command = Command::new("sh");
    // stderr goes to the pipe that is read line by line.
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1 > /dev/null"]);
    let program = run(&site, &["-d60s"]);
    command.arg(program.get_program()).args(program.get_args());
    let mut process = Process::start(command);
    let line = process.next_line().unwrap();
    assert!(line.starts_with("wrkbench: 50 s left, "), "{line:?}");
    assert!(line.contains(" requests/s, p50 "), "{line:?}");
    process.signal("INT");
    let ended = process.finish();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stdout.contains(['\r', '\x1b']), "{ended:?}");
}

#[test]
fn the_line_of_a_trial_begins_with_its_number() {
    let site = site();
    let plan = format!(
        "name = 'try'\nseed = 1\nrounds = 1\nresults = 'results'\n\
         [load]\nthreads = 1\nduration = '1500ms'\n\
         [[target]]\nname = 'origin'\nurl = '{}'\n\
         [[factor]]\nconnections = [2, 4]\n",
        site.url("/")
    );
    let plan = site.folder.file_with("plan.toml", plan);
    let journal = site.folder.file("journal");
    let command = program(&["sweep", &plan, "--journal", &journal]);
    let ended = Terminal::start(140, 60, &command).finish();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let lines = drawn(&ended.text);
    let rows = rows(&ended.text, 140);
    for trial in 1..=2 {
        let place = format!("[{trial}/2] round 1/1, connections ");
        let of_trial: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix(&*place))
            .collect();
        // The level has one digit.
        assert!(
            of_trial[0][1..].starts_with(", origin: running"),
            "{of_trial:#?}"
        );
        let is_run =
            |line: &&str| is_line(line) && line[1..].starts_with(", origin") && line.contains('█');
        assert!(of_trial.iter().any(is_run), "{of_trial:#?}");
        let is_kept = |row: &String| {
            row.starts_with(&place) && row.contains(" requests/s, p50 ") && !row.contains('█')
        };
        assert!(rows.iter().any(is_kept), "{rows:#?}");
    }
    assert!(!rows.iter().any(|row| row.contains('█')), "{rows:#?}");
}
