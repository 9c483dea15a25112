//! Runs with a rate: what is due, what is sent, what is left out; warm-up; seeds.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plan::{Arrivals, Pacing};

use crate::harness::{Folder, Process, Run, io_arguments, load, one_line, program, site};
use crate::judge;

/// Everything that was due is accounted for, and of it so many.
fn expect_due(run: &Run<'_>, due: u64) {
    let counters = &run.result.recording.counters;
    assert_eq!(counters.due, due, "{}", run.story());
    assert_eq!(counters.sent + counters.unsent, due, "{}", run.story());
}

#[test]
fn as_many_requests_are_due_as_rate_and_duration_say_in_every_notation() {
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
fn stages_are_run_one_after_the_other_and_say_how_long_the_run_is() {
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

/// A server that never answers on the connection with the first request. Ends with the test's process.
fn first_request_hangs() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let is_first = Arc::new(AtomicBool::new(true));
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let is_first = Arc::clone(&is_first);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while connection.read(&mut bytes).is_ok_and(|read| read > 0) {
                    if is_first.swap(false, Ordering::SeqCst) {
                        let _ = connection.read(&mut bytes);
                        return;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    connection.write_all(answer).unwrap();
                }
            });
        }
    });
    url
}

#[test]
fn what_is_due_goes_to_a_connection_of_another_thread_when_ones_own_hangs() {
    for more in [&[][..], &["-n100"]] {
        let folder = Folder::new();
        let json = folder.file("r.json");
        let mut command = program(&["-t2", "-c2", "-R200", "-d500ms", "-T60s"]);
        command.args(more).args(io_arguments());
        command.args(["--json", &json, &first_request_hangs()]);
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let result = judge::document(&std::fs::read(&json).unwrap());
        let counters = &result.recording.counters;
        assert_eq!((counters.due, counters.in_flight), (100, 1), "{output:?}");
        // Half of them were due in the thread whose only connection hangs.
        assert!(counters.answered > 75, "{output:?}");
    }
}

#[test]
fn a_number_of_requests_ends_a_run_with_a_rate() {
    let site = site();
    let run = load(&site).requests(50).with(&["-R1k"]).run();
    let run = run.expect_answers(50);
    assert!(run.result.window.duration_ns < 1_000_000_000_000);
}

/// The seed that the note tells.
fn told_seed(stderr: &str) -> u64 {
    let begin = "wrkbench: note: random arrivals; repeat them with --seed ";
    let line = stderr.lines().find(|line| line.starts_with(begin)).unwrap();
    line[begin.len()..].parse().unwrap()
}

#[test]
fn random_arrivals_tell_their_seed_and_can_be_repeated_by_it() {
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
    // Of 300 expected requests the number scatters by 17: that eight seeds agree is no chance.
    let dues: Vec<u64> = (0..8)
        .map(|seed: u64| due_of(&["--seed", &seed.to_string()]).1)
        .collect();
    assert!(dues.iter().any(|due| *due != dues[0]), "{dues:?}");
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
fn even_arrivals_have_no_seed_to_tell() {
    let site = site();
    let run = load(&site).requests(5).with(&["-R1k", "--seed", "7"]).run();
    assert!(!run.stderr.contains("--seed"), "{}", run.stderr);
}

/// Answers of the warm-up, and only they, are long and have a status of their own.
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
fn the_stats_delay_of_wrk_cmm_is_in_no_number() {
    let site = site();
    // 50 requests are due before the window and 100 in it.
    let run = load(&site).connections(8).for_ms(400).script(MARKED);
    let run = run.with(&["-R250", "-D200ms"]).run().expect_answered_only();
    let run = run.expect_status(200);
    expect_due(&run, 100);
    assert_eq!(run.result.window.warmup_ns, 200_000_000);
    assert_eq!(run.result.window.duration_ns, 400_000_000);
    let recording = &run.result.recording;
    assert_eq!(recording.service_time.count(), run.answered());
    // Head and body of a marked answer would be more than all of them.
    assert!(
        recording.counters.bytes < 300 * run.answered(),
        "{}",
        run.story()
    );
    let sent_before = site.counts().requests - run.sent();
    assert!((40..=50).contains(&sent_before), "{}", run.story());
}

#[test]
fn a_run_that_warms_up_is_not_said_to_lack_connections() {
    let site = site();
    let run = load(&site).for_ms(100).with(&["-D100ms"]).run();
    assert_eq!(run.opened(), 0);
    assert!(
        !run.stderr.contains("connections were established"),
        "{}",
        run.stderr
    );
}

#[test]
fn of_batches_only_the_last_answer_is_measured_if_so_asked() {
    let site = site();
    let all = load(&site).requests(80).with(&["--pipeline", "8"]).run();
    assert_eq!(all.result.recording.service_time.count(), 80);
    let last = load(&site).requests(80).with(&["--pipeline", "8", "-B"]);
    let last = last.run().expect_answers(80);
    assert_eq!(last.result.recording.service_time.count(), 10);
    assert!(last.result.plan.load.batch_latency);
}

#[test]
fn called_as_wrk2_a_run_without_a_rate_is_refused_in_its_words() {
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
