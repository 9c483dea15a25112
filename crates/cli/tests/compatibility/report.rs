//! The text report of both, numbers masked: same lines, same columns.

use origin::{Options, Server};

use crate::folder::Folder;
use crate::mask::masked;
use crate::tool::{Ended, Pair};

/// Runs both on the built-in server and compares what they print.
fn same_report(test: &str, defaults: &str, arguments: &[&str], path: &str) {
    let Some(pair) = Pair::find(test) else { return };
    let options = Options::default().with_defaults(defaults);
    let server = Server::start(options.expect("options are right")).expect("the server starts");
    let url = server.url().trim_end_matches('/').to_owned() + path;
    let line: Vec<&str> = arguments.iter().copied().chain([url.as_str()]).collect();
    let (wrk, ours) = pair.run(&line);
    assert_same(&wrk, &ours);
}

fn assert_same(wrk: &Ended, ours: &Ended) {
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
    same_report("plain", "", &["-d1s"], "/");
}

#[test]
fn a_run_with_the_latency_distribution() {
    same_report(
        "latency",
        "",
        &["-t2", "-c10", "-d1s", "--latency"],
        "/a?b=c",
    );
}

#[test]
fn a_slow_server_whose_cells_have_other_units() {
    same_report("slow", "delay=25ms", &["-t1", "-c1", "-d1", "-L"], "/slow");
}

#[test]
fn a_server_slower_than_a_second() {
    let arguments = ["-t1", "-c1", "-d2", "-L", "--timeout", "5s"];
    same_report("slower", "delay=1010ms", &arguments, "/slow");
}

#[test]
fn answers_above_399_have_a_line_of_their_own() {
    same_report("404", "status=404", &["-t1", "-c2", "-d1s"], "/nothing");
}

#[test]
fn redirects_have_no_line() {
    same_report("302", "status=302", &["-t1", "-c2", "-d1s"], "/");
}

#[test]
fn connections_that_threads_do_not_divide_stand_in_the_banner_as_given() {
    same_report("odd", "", &["-t3", "-c10", "-d1s"], "/");
}

#[test]
fn big_answers() {
    same_report("big", "size=1M", &["-t1", "-c2", "-d1s", "-L"], "/");
}

#[test]
fn requests_that_fail_now_and_then_have_the_line_of_socket_errors() {
    let Some(pair) = Pair::find("resets") else {
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

/// What a run prints when its server goes away after some answers.
fn report_of_a_dying_server(run: impl FnOnce(&str) -> Ended + Send) -> Ended {
    const ANSWERS: u64 = 500;
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&url));
        while server.counts().responses < ANSWERS && !run.is_finished() {
            std::thread::yield_now();
        }
        let _truth = server.stop();
        run.join().expect("the run does not panic")
    })
}

#[test]
fn a_server_that_dies_during_the_run() {
    let Some(pair) = Pair::find("dying") else {
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
fn a_server_that_never_answers_gives_the_same_empty_cells_and_another_exit_code() {
    let Some(pair) = Pair::find("silent") else {
        return;
    };
    let options = Options::default().with_defaults("fault=hang");
    let server = Server::start(options.expect("options are right")).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t2", "-c4", "-d1s", "-L", &server.url()]);
    assert!(wrk.stdout.contains("-nan%"), "{wrk:?}");
    assert_eq!(masked(&ours.stdout), masked(&wrk.stdout), "{ours:?}");
    // On purpose: a run in which nothing at all was answered (docs/compatibility.md).
    assert_eq!((wrk.code, ours.code), (Some(0), Some(1)));
}

#[test]
fn what_a_script_prints_when_it_is_done_comes_after_the_report() {
    let Some(pair) = Pair::find("done") else {
        return;
    };
    let folder = Folder::new("done-script");
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
