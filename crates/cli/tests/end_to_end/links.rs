//! Differences when the program is called through a link with the name of one of the three tools.
//! tools.

use std::os::unix::fs::symlink;
use std::process::Command;

use testkit::{Output, Process};

use crate::harness::{Call, Site, io_arguments, site};

/// The program by this name.
fn link(name: &str) -> Command {
    let mut command = Command::new(name);
    command.args(io_arguments());
    command
}

/// A run with too few samples for its percentiles, which prints a note.
fn thin_run(mut command: Command, site: &Site, options: &[&str]) -> Output {
    command.args(["-t1", "-c2", "-n20", "-L"]).args(options);
    let output = Call::of(command.arg(site.url("/"))).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

#[test]
fn notes_stay_out_of_output_for_other_programs() {
    let site = site();
    for name in ["wrk", "wrk2", "wrk-cmm"] {
        for options in [&["-R2k"][..], &["-R2k", "-v"]] {
            let silent = thin_run(link(name), &site, options);
            assert_eq!(silent.stderr, "", "{name} {options:?}");
        }
        let mut command = link(name);
        command.env("WRKBENCH_NOTES", "1");
        let told = thin_run(command, &site, &["-R2k"]);
        assert!(
            told.stderr.starts_with(&format!("{name}: note: ")),
            "{told:?}"
        );
    }
}

#[test]
fn errors_are_printed_in_any_case() {
    let site = site();
    let link = site.folder.file("wrk");
    symlink(env!("CARGO_BIN_EXE_wrkbench"), &link).unwrap();
    let mut command = Command::new(link);
    command.args(["-d1s", "-s", "/nonexistent.lua", &site.url("/")]);
    let output = Process::start(command).finish();
    assert!(
        output
            .only_line()
            .starts_with("wrk: cannot open /nonexistent.lua: No such file")
    );
}

#[test]
fn the_version_before_a_run_is_that_of_the_tool_in_use() {
    let site = site();
    for (options, begin) in [
        (&["-v"][..], "wrk 4.2.0 ["),
        (&["--version", "-R2k"], "wrk 4.0.0 ["),
        (&["-v", "--breakout"], "wrk 4.1.0-42 ["),
    ] {
        let output = thin_run(link("wrk"), &site, options);
        assert!(output.stdout.starts_with(begin), "{output:?}");
        assert!(
            output.stdout.contains("\nRunning 20 requests test @ "),
            "{output:?}"
        );
    }
}

#[test]
fn a_script_can_be_read_from_a_pipe() {
    let site = site();
    let mut command = Command::new("bash");
    let program = env!("CARGO_BIN_EXE_wrkbench");
    let script =
        "wrk.path = \"/?status=404\" function done(s) print(\"done \" .. s.errors.status) end";
    let io = io_arguments().join(" ");
    command.arg("-c").arg(format!(
        "{program} {io} -t2 -c4 -n20 -s <(echo '{script}') {url} && echo '{script}' | {program} \
         {io} -t2 -c4 -n20 -s /dev/stdin {url}",
        url = site.url("/")
    ));
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        output.stdout.matches("\ndone 20\n").count(),
        2,
        "{output:?}"
    );
}

#[test]
fn without_a_response_the_table_is_empty_and_wrkbench_adds_a_line() {
    let site = site();
    let url = site.url("/?stall=head");
    let line = "\n  No request succeeded, so there is no latency to show\n  0 requests in ";
    for (mut command, is_ours) in [(link("wrk"), false), (Command::new("wrkbench"), true)] {
        command.args([
            "-t1",
            "-c1",
            "-d200ms",
            "-L",
            &url.replace("http://", "https://"),
        ]);
        let output = Call::of(&command).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_eq!(output.stdout.contains(line), is_ours, "{output:?}");
        assert_eq!(output.stdout.contains("-nan%"), !is_ours, "{output:?}");
        assert!(output.stderr.contains("http://"), "{output:?}");
    }
}

#[test]
fn without_a_url_a_link_prints_the_usage_of_its_tool_and_nothing_else() {
    for (name, lines) in [("wrk", 14), ("wrk2", 22), ("wrk-cmm", 18)] {
        let output = Call::of(&link(name)).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_eq!(output.stdout.lines().count(), lines, "{output:?}");
        let last = output.stdout.lines().last().unwrap_or_default();
        assert!(last.starts_with("  Time arguments may"), "{output:?}");
    }
}
