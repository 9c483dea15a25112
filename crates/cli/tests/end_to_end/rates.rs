//! Runs with a rate: what is due, what is sent, what is left out; warm-up; seeds.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use origin::Options;
use plan::{Arrivals, Pacing};
use results::Warning;
use testkit::{Folder, Process, TestServer, one_line};

use crate::harness::{Run, Site, io_arguments, load, program, site, site_with};
use crate::judge;

/// This number of requests was due, and all are accounted for.
fn expect_due(run: &Run<'_>, due: u64) {
    let counters = &run.result.recording.counters;
    assert_eq!(counters.due, due, "{}", run.story());
    assert_eq!(counters.sent + counters.unsent, due, "{}", run.story());
}

#[test]
fn rate_and_duration_determine_the_requests_that_are_due() {
    for (threads, rate, due) in [
        (1, "500", 200),
        (3, "500", 200),
        (2, "0.25k", 100),
        (1, "24k/m", 160),
        (1, "36000/h", 4),
    ] {
        let site = site();
        let run = load(&site).threads(threads).for_ms(400).with(&["-R", rate]);
        let run = run.run().expect_answered_only();
        expect_due(&run, due);
        assert!(run.result.plan.pacing.is_open());
        let achieved = &run.document["summary"]["achieved_rate"];
        assert!(achieved.is_object(), "{achieved}");
    }
}

#[test]
fn stages_run_in_order_and_determine_the_duration() {
    for (stages, duration_ms, due) in [
        ("100:200ms,0:100ms,500:200ms", 500, 20 + 100),
        ("0-1k:400ms", 400, 200),
        ("1k-0:200ms,6k/m:100ms", 300, 100 + 10),
    ] {
        let site = site();
        let run = load(&site).threads(2).with(&["--stages", stages]).run();
        let run = run.expect_answered_only();
        assert_eq!(run.result.window.duration_ns, duration_ms * 1_000_000);
        expect_due(&run, due);
    }
    let site = site();
    let run = load(&site)
        .for_ms(100)
        .with(&["--stages", "100:200ms,9k:1h"]);
    expect_due(&run.run(), 10);
}

/// A server that never answers on the connection with the first request.
fn first_request_hangs() -> TestServer {
    let is_first = AtomicBool::new(true);
    TestServer::start(move |mut connection| {
        let mut bytes = [0; 4096];
        while connection.read(&mut bytes)? > 0 {
            if is_first.swap(false, Ordering::SeqCst) {
                return connection.read(&mut bytes).map(drop);
            }
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    })
}

#[test]
fn due_requests_move_to_another_thread_when_a_connection_hangs() {
    for more in [&[][..], &["-n100"]] {
        let folder = Folder::new();
        let json = folder.file("r.json");
        let server = first_request_hangs();
        let url = format!("http://{}/", server.address());
        let mut command = program(&["-t2", "-c2", "-R100", "-d1s", "-T60s"]);
        command.args(more).args(io_arguments());
        command.args(["--json", &json, &url]);
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let result = judge::document(&std::fs::read(&json).unwrap());
        let counters = &result.recording.counters;
        assert_eq!(counters.due, 100, "{output:?}");
        // The one that hangs, and on a busy machine one that was sent at the very end.
        assert!((1..=2).contains(&counters.in_flight), "{output:?}");
        // Half of them were due in the thread whose only connection hangs.
        assert!(counters.answered > 60, "{output:?}");
    }
}

#[test]
fn a_number_of_requests_ends_a_run_with_a_rate() {
    let site = site();
    let run = load(&site).requests(50).with(&["-R1k"]).run();
    let run = run.expect_answers(50);
    assert!(run.result.window.duration_ns < 1_000_000_000_000);
}

/// The seed in the note.
fn told_seed(stderr: &str) -> u64 {
    let begin = "wrkbench: note: random arrivals; repeat them with --seed ";
    let line = stderr.lines().find(|line| line.starts_with(begin)).unwrap();
    line[begin.len()..].parse().unwrap()
}

#[test]
fn random_arrivals_print_their_seed_which_repeats_them() {
    let site = site();
    let due_of = |more: &[&str]| {
        let run = load(&site).threads(2).for_ms(100);
        let run = run.with(&["-R3k", "--arrivals=poisson"]).with(more).run();
        let told = told_seed(&run.stderr);
        let Pacing::Constant { arrivals, seed, .. } = run.result.plan.pacing else {
            panic!("no rate: {}", run.story());
        };
        assert_eq!((arrivals, seed), (Arrivals::Poisson, told));
        (told, run.result.recording.counters.due)
    };
    let (seed, due) = due_of(&[]);
    assert_eq!(due_of(&["--seed", &seed.to_string()]), (seed, due));
    // With 300 expected requests the standard deviation is 17: eight seeds do not agree by chance.
    let dues: Vec<u64> = (0..8)
        .map(|seed: u64| due_of(&["--seed", &seed.to_string()]).1)
        .collect();
    assert!(dues.iter().any(|due| *due != dues[0]), "{dues:?}");
}

/// The variation of gaps is their interquartile range divided by their median, since a pause of a
/// busy machine, which is a few very long gaps, does not change it. In 6,000 samples of 250 gaps it
/// was within these ranges; with Poisson arrivals (shape 1) it would be between 1.1 and 2.4.
#[test]
fn gamma_arrivals_have_the_variation_of_their_shape_in_the_log_of_the_server() {
    let ranges = [2.4..16.0, 0.32..0.58];
    let sites: Vec<(f64, Site)> = [0.25, 10.0]
        .map(|shape| {
            let options = Options {
                log_requests: 10_000,
                ..Options::default()
            };
            (shape, site_with(options))
        })
        .into();
    let runs: Vec<_> = sites
        .iter()
        .map(|(shape, site)| {
            let arrivals = format!("--arrivals=gamma:{shape}");
            let load = load(site).threads(2).connections(40).for_ms(5_000);
            load.with(&["-R50", "--seed=3", &arrivals]).start()
        })
        .collect();
    for (run, (shape, _)) in runs.into_iter().zip(&sites) {
        let run = run.finish();
        let story = run.story();
        let is_wrong = |it: &Warning| {
            matches!(
                it,
                Warning::InconsistentSchedule { .. } | Warning::RateNotSustained { .. }
            )
        };
        assert!(
            !run.result.warnings.iter().any(|it| is_wrong(&it.data)),
            "{story}"
        );
        let due = run.result.recording.counters.due as f64;
        let chance = 4.0 * (250.0 / shape).sqrt() + 1.0;
        assert!((due - 250.0).abs() < chance, "{shape}: {story}");
    }
    for ((shape, site), range) in sites.into_iter().zip(ranges) {
        let log = site.stop().requests;
        let mut arrivals: Vec<u64> = log.iter().map(|request| request.arrival_ns).collect();
        arrivals.sort_unstable();
        let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
        let mut gaps: Vec<u64> = gaps.collect();
        gaps.sort_unstable();
        let [first, median, third] = [1, 2, 3].map(|part| gaps[gaps.len() * part / 4] as f64);
        let variation = (third - first) / median;
        assert!(
            range.contains(&variation),
            "{shape}: {variation}, {} gaps",
            gaps.len()
        );
    }
}

#[test]
fn drawn_seeds_differ() {
    let site = site();
    let seeds: Vec<u64> = (0..3)
        .map(|_| {
            let run = load(&site)
                .requests(1)
                .with(&["-R1k", "--arrivals", "poisson"]);
            told_seed(&run.run().stderr)
        })
        .collect();
    assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
}

#[test]
fn even_arrivals_have_no_seed() {
    let site = site();
    let run = load(&site).requests(5).with(&["-R1k", "--seed", "7"]).run();
    assert!(!run.stderr.contains("--seed"), "{}", run.stderr);
}

/// Only responses of the warm-up are long and have another status.
const MARKED: &str = "
    local sent = 0
    function request()
        sent = sent + 1
        if sent <= 30 then
            return wrk.format('GET', '/?status=404&size=10k')
        end
        return wrk.format('GET', '/?size=100')
    end";

#[test]
fn the_stats_delay_of_wrk_cmm_is_not_measured() {
    let site = site();
    // 100 requests are due before the window, the marked ones long before it, and 100 in it.
    let run = load(&site).connections(8).for_ms(1000).script(MARKED);
    let run = run.with(&["-R100", "-D1s"]).run().expect_answered_only();
    let run = run.expect_status(200);
    expect_due(&run, 100);
    assert_eq!(run.result.window.warmup_ns, 1_000_000_000);
    assert_eq!(run.result.window.duration_ns, 1_000_000_000);
    let recording = &run.result.recording;
    assert_eq!(recording.service_time.count(), run.answered());
    // One response of the warm-up would have more bytes than all of these.
    assert!(
        recording.counters.bytes < 300 * run.answered(),
        "{}",
        run.story()
    );
    let sent_before = site.counts().requests - run.sent();
    assert!((50..=100).contains(&sent_before), "{}", run.story());
}

#[test]
fn no_warning_about_connections_during_the_warm_up() {
    let site = site();
    let run = load(&site).for_ms(100).with(&["-D500ms"]).run();
    assert_eq!(run.opened(), 0);
    assert!(
        !run.stderr.contains("connections were established"),
        "{}",
        run.stderr
    );
}

#[test]
fn only_the_last_response_of_a_batch_is_measured_on_request() {
    let site = site();
    let all = load(&site).requests(80).with(&["--pipeline", "8"]).run();
    assert_eq!(all.result.recording.service_time.count(), 80);
    let last = load(&site).requests(80).with(&["--pipeline", "8", "-B"]);
    let last = last.run().expect_answers(80);
    assert_eq!(last.result.recording.service_time.count(), 10);
    assert!(last.result.plan.load.batch_latency);
}

#[test]
fn wrk2_without_a_rate_is_refused_in_its_words() {
    let site = site();
    let link = site.folder.file("wrk2");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_wrkbench"), &link).unwrap();
    let mut command = std::process::Command::new(&link);
    command.args(["-t2", "-c4", "-d1", &site.url("/")]);
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(1));
    assert!(
        output.stdout.starts_with("Usage: wrk <options> <url>  "),
        "{output:?}"
    );
    assert_eq!(
        one_line(&output.stderr),
        "wrk2: Throughput MUST be specified with the --rate or -R option"
    );
    assert_eq!(site.counts().connections, 0);
}
