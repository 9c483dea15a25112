//! The text reports of both with masked numbers: same lines, same columns.

use origin::{Options, Server};

use crate::mask::masked;
use crate::tool::{Pair, ProgramOutput};
use testkit::Folder;

/// Runs both on the built-in server and compares what they print.
fn same_report(defaults: &str, arguments: &[&str], path: &str) {
    let Some(pair) = Pair::find() else { return };
    let options = Options::default().with_defaults(defaults);
    let server = Server::start(options.expect("options are right")).expect("the server starts");
    let url = server.url().trim_end_matches('/').to_owned() + path;
    let line: Vec<&str> = arguments.iter().copied().chain([url.as_str()]).collect();
    let (wrk, ours) = pair.run(&line);
    assert_same(&wrk, &ours);
}

fn assert_same(wrk: &ProgramOutput, ours: &ProgramOutput) {
    assert!(wrk.stdout.lines().count() >= 7, "{wrk:?}");
    assert_eq!(
        masked(&ours.stdout),
        masked(&wrk.stdout),
        "ours (left):\n{}wrk:\n{}",
        ours.stdout,
        wrk.stdout
    );
    assert_eq!((ours.code, wrk.code), (Some(0), Some(0)), "{ours:?}");
}

#[test]
fn a_plain_run() {
    same_report("", &["-d1s"], "/");
}

#[test]
fn a_run_with_the_latency_distribution() {
    same_report("", &["-t2", "-c10", "-d1s", "--latency"], "/a?b=c");
}

#[test]
fn a_slow_server_has_cells_with_other_units() {
    same_report("delay=25ms", &["-t1", "-c1", "-d1", "-L"], "/slow");
}

#[test]
fn a_server_slower_than_a_second() {
    let arguments = ["-t1", "-c1", "-d2", "-L", "--timeout", "5s"];
    same_report("delay=1010ms", &arguments, "/slow");
}

#[test]
fn responses_above_399_have_a_line_of_their_own() {
    same_report("status=404", &["-t1", "-c2", "-d1s"], "/nothing");
}

#[test]
fn redirects_have_no_line() {
    same_report("status=302", &["-t1", "-c2", "-d1s"], "/");
}

#[test]
fn the_banner_has_the_connections_as_given_even_if_threads_do_not_divide_them() {
    same_report("", &["-t3", "-c10", "-d1s"], "/");
}

#[test]
fn large_responses() {
    same_report("size=1M", &["-t1", "-c2", "-d1s", "-L"], "/");
}

#[test]
fn failed_requests_are_in_the_line_of_socket_errors() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let options = Options::default().with_defaults("mix=5%:reset");
    let server = Server::start(options.expect("options are right")).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t1", "-c4", "-d1s", &server.url()]);
    assert_same(&wrk, &ours);
    assert_eq!(
        ours.stdout.matches("\n  Socket errors: connect ").count(),
        1
    );
}

/// The report of a run whose server stops after a few responses.
fn report_of_a_dying_server(run: impl FnOnce(&str) -> ProgramOutput + Send) -> ProgramOutput {
    // Few, so that a busy machine reaches them within the second that the run takes.
    const RESPONSES: u64 = 20;
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&url));
        while server.counts().responses < RESPONSES && !run.is_finished() {
            std::thread::yield_now();
        }
        let _truth = server.stop();
        run.join().expect("the run does not panic")
    })
}

#[test]
fn a_server_that_dies_during_the_run() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let wrk = report_of_a_dying_server(|url| pair.run_wrk(&["-t2", "-c4", "-d1s", url]));
    let ours = report_of_a_dying_server(|url| pair.run_ours(&["-t2", "-c4", "-d1s", url]));
    assert_same(&wrk, &ours);
    assert_eq!(
        ours.stdout.matches("\n  Socket errors: connect ").count(),
        1
    );
}

#[test]
fn a_server_that_never_responds_gives_the_same_empty_cells_and_another_exit_code() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let options = Options::default().with_defaults("fault=hang");
    let server = Server::start(options.expect("options are right")).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t2", "-c4", "-d1s", "-L", &server.url()]);
    assert!(wrk.stdout.contains("-nan%"), "{wrk:?}");
    assert_eq!(masked(&ours.stdout), masked(&wrk.stdout), "{ours:?}");
    // Intended: a run without any response fails (docs/compatibility.md).
    assert_eq!((wrk.code, ours.code), (Some(0), Some(1)));
}

#[test]
fn output_of_done_comes_after_the_report() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let script = folder.file_with(
        "s.lua",
        "function done(summary, latency, requests)\n\
           print('-----')\n\
           io.write(string.format('%s %d\\n', 'answers', summary.requests))\n\
           for _, p in pairs({ 50, 90, 99, 99.999 }) do\n\
             print(string.format('%g%% in %.2fms', p, latency:percentile(p) / 1000))\n\
           end\n\
         end\n",
    );
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t2", "-c4", "-d1s", "-s", &script, &server.url()]);
    assert_same(&wrk, &ours);
    assert_eq!(ours.stdout.matches("\n-----\nanswers ").count(), 1);
}
