//! `serve`, `demo`, `completions`, `man`.

use std::process::Command;

use testkit::{Folder, Process};

use crate::harness::{call, io_arguments, program};
use crate::judge;

#[test]
fn a_server_on_a_unix_socket_counts_what_the_run_counts() {
    let folder = Folder::new();
    let (socket, json, log) = (
        folder.file("s"),
        folder.file("r.json"),
        folder.file("log.csv"),
    );
    let listen = format!("unix:{socket}");
    let mut server = Process::start(program(&[
        "serve",
        "--listen",
        &listen,
        "--answer",
        "size=1k",
        "--log",
        &log,
        "--threads",
        "2",
    ]));
    let line = server.next_line().unwrap();
    assert_eq!(
        line,
        format!("serving http://localhost/ on unix:{socket}\n")
    );
    let mut run = program(&["-n300", "--unix-socket", &socket, "--json", &json]);
    run.args(io_arguments()).arg("http://localhost/");
    let output = Process::start(run).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    server.signal("TERM");
    let output = server.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let counts: serde_json::Value =
        serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let result = judge::document(&std::fs::read(json).unwrap());
    assert_eq!(result.recording.counters.answered, 300);
    assert_eq!(counts["responses"], 300);
    assert_eq!(counts["bytes_out"], result.recording.counters.bytes);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 301);
    assert!(
        !std::path::Path::new(&socket).exists(),
        "the socket stays behind"
    );
}

/// What may be true on a machine where server and generator compete for the CPUs.
fn is_about_the_machine(line: &&str) -> bool {
    line.contains(": note: load generator")
}

fn demo(folder: &Folder, duration: &str) -> Command {
    let mut demo = program(&["demo", duration]);
    demo.args(io_arguments()).current_dir(folder.path());
    demo
}

#[test]
fn the_demo_prints_a_report_and_writes_the_same_result_and_its_page() {
    let folder = Folder::new();
    // Long enough for a stall of a second, which the page names.
    let output = Process::start(demo(&folder, "-d8s")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    let lines: Vec<&str> = lines
        .into_iter()
        .filter(|line| !is_about_the_machine(line))
        .collect();
    let [server, stalls @ .., page, next] = &lines[..] else {
        panic!("{output:?}");
    };
    assert!(server.ends_with("after 5 s it stalls for 1 s"), "{server}");
    assert!(
        page.starts_with("wrkbench: demo-result.html: 1 run, "),
        "{page}"
    );
    assert!(
        next.starts_with("wrkbench: open demo-result.html in a browser"),
        "{next}"
    );
    assert_eq!(folder.names(), ["demo-result.html", "demo-result.json"]);
    let result = judge::document(&std::fs::read(folder.join("demo-result.json")).unwrap());
    judge::report(&result, &output.stdout);
    assert_eq!(result.recording.errors.events(), 0);
    assert_eq!(result.recording.counters.connections_opened, 128);
    // Requests that were in flight when the stall began waited for its end. On a busy machine their
    // latency alone shows it: the series of responses has other gaps.
    let longest_ns = result.recording.latency().max_ns();
    assert!(longest_ns >= Some(900_000_000), "{longest_ns:?}");
    let shown = judging::episodes::stalls_of(&result);
    let page = std::fs::read_to_string(folder.join("demo-result.html")).unwrap();
    assert_eq!(
        page.contains("Stalled from "),
        !shown.is_empty(),
        "the page names a stall if the series shows one"
    );
    assert_eq!(stalls.len(), usize::from(!shown.is_empty()), "{output:?}");
    assert!(
        stalls
            .iter()
            .all(|it| it.starts_with("wrkbench: warning: the server stalled at ")),
        "{output:?}"
    );
}

#[test]
fn the_demo_of_a_language_model_shows_tokens_and_good_requests_and_names_the_next_command() {
    let folder = Folder::new();
    let mut demo = demo(&folder, "-d3s");
    demo.arg("--llm");
    let output = Process::start(demo).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let (first, last) = (output.stderr.lines().next(), output.stderr.lines().last());
    assert_eq!(
        first,
        Some(
            "wrkbench: the server streams 8 to 32 tokens, slower the more streams there are and \
             the more of a prompt is new, and after 1.88 s it stalls for 375 ms"
        )
    );
    let hint = "wrkbench llm http://localhost:8000 -c16 -d60s --turns 5 --think exp:5s";
    assert!(last.unwrap().ends_with(hint), "{output:?}");
    assert_eq!(folder.names(), ["demo-result.html", "demo-result.json"]);
    let result = judge::document(&std::fs::read(folder.join("demo-result.json")).unwrap());
    judge::report(&result, &output.stdout);
    assert_eq!(result.recording.errors.events(), 0);
    let llm = result.recording.parts.llm.as_ref().unwrap();
    assert!(llm.responses >= 32 && llm.counted_as_events == 0, "{llm:?}");
    let of_response = &llm.output_per_response;
    assert!(of_response.min_ns() >= Some(8) && of_response.max_ns() <= Some(32));
    // Others that are in progress make the gap longer than the 5 ms of a single stream.
    assert!(llm.time_per_token.max_ns() >= Some(6_000_000), "{llm:?}");
    let conversations = result.recording.parts.conversations.as_ref().unwrap();
    let [first, second, ..] = conversations.by_turn.as_slice() else {
        panic!("{conversations:?}");
    };
    // The server has read what was said before.
    assert!(
        second.cached_share() > first.cached_share(),
        "{conversations:?}"
    );
    assert_eq!(conversations.failed, 0);
    // A request that came during the stall waited for its end.
    assert!(llm.first_token.max_ns() >= Some(300_000_000), "{llm:?}");
    let good = result.recording.parts.good.unwrap();
    assert!(good.good > 0 && good.bad > 0, "{good:?}");
    for wanted in [
        "\n  First token ",
        "\nTokens/sec: ",
        "\nGood:  ",
        "\n  Turn ",
    ] {
        assert!(output.stdout.contains(wanted), "{wanted}: {output:?}");
    }
    let page = std::fs::read_to_string(folder.join("demo-result.html")).unwrap();
    for wanted in [
        "Output tokens/s",
        "p99 first token",
        "Goodput",
        "Users over time",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn ctrl_c_ends_the_demo_with_its_report_and_its_page() {
    let folder = Folder::new();
    let mut demo = Process::start(demo(&folder, "-d1h"));
    demo.await_line(|line| line.starts_with("Running "));
    demo.signal("INT");
    let output = demo.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(folder.names(), ["demo-result.html", "demo-result.json"]);
    let result = judge::document(&std::fs::read(folder.join("demo-result.json")).unwrap());
    assert!(result.window.interrupted);
}

#[test]
fn the_demo_replaces_its_own_page_but_no_other_file() {
    let folder = Folder::new();
    let page = folder.join("demo-result.html");
    std::fs::write(&page, "mine").unwrap();
    let output = Process::start(demo(&folder, "-d1h")).finish();
    assert_eq!(
        output.only_line(),
        "wrkbench: \"demo-result.html\" exists and was not written by wrkbench (move it, or give \
         another -o FILE)"
    );
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
    assert_eq!(folder.names(), ["demo-result.html"]);
    std::fs::write(
        &page,
        "<meta name=\"generator\" content=\"wrkbench 0.1.0\">",
    )
    .unwrap();
    let output = Process::start(demo(&folder, "-d300ms")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
}

#[test]
fn each_command_has_help_and_a_manual_page() {
    for command in ["run", "serve", "demo", "sockets", "completions", "man"] {
        let help = call(&[command, "--help"]).finish();
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{help:?}");
        assert!(help.stdout.contains("Usage: "), "{help:?}");
        let page = call(&["man", command]).finish();
        assert_eq!(page.code, Some(0), "{page:?}");
        assert!(
            page.stdout.contains(".TH ") && page.stdout.contains(command),
            "{page:?}"
        );
    }
}
