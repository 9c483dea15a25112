//! The verdict on the load generator and the warnings about the server: each is given where it
//! holds, whatever holds of the other.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use judging::sentences::{Sentence, verdict_lines};
use judging::warnings;
use plan::{Arrivals, Pacing};
use results::{
    ErrorKind, Generator, Histogram, LocalServer, MachineUsage, OwnShare, QuicRecording, RunResult,
    Standstill, Symptom, ThreadUsage, Verdict, Warning, WorkerUsage,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Ten seconds of a closed loop on a quiet machine of four CPUs: two threads, each 40 % on a CPU,
/// responses after 2 ms.
fn quiet() -> RunResult {
    let mut result = fixture::result(fixture::recording(0));
    result.recording = results::Recording::new();
    result.window.duration_ns = 10 * SECOND;
    result.recording.service_time = of(&[(2 * MS, 20_000)]);
    result.recording.counters.answered = 20_000;
    result.recording.counters.sent = 20_000;
    result.generator = Generator {
        lags: Vec::new(),
        workers: (0..2)
            .map(|worker| used(worker, 4 * SECOND, 50 * MS))
            .collect(),
        machine: Some(MachineUsage {
            elapsed_ns: 10_050 * MS,
            cpus: 4,
            busy_ns: 9 * SECOND,
            steal_ns: 10 * MS,
            throttled_periods: Some(0),
            throttled_ns: Some(0),
            cpu_pressure_ns: Some(200 * MS),
        }),
        ..Generator::default()
    };
    result
}

fn verdict(result: &RunResult) -> Verdict {
    judging::verdict(result, &[])
}

/// The same with 2,000 requests/s, each sent 20 us after it was due.
fn quiet_at_a_rate() -> RunResult {
    let mut result = quiet();
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 2_000.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    result.recording.counters.due = 20_000;
    result.recording.counters.in_flight_time_ns = 40 * SECOND;
    result.recording.response_time = of(&[(2 * MS + 20 * US, 20_000)]);
    result
}

fn used(worker: u32, cpu_ns: u64, run_queue_wait_ns: u64) -> WorkerUsage {
    WorkerUsage {
        worker,
        elapsed_ns: 10 * SECOND,
        usage: ThreadUsage {
            cpu_ns,
            run_queue_wait_ns: Some(run_queue_wait_ns),
            timeslices: Some(1_000),
        },
    }
}

fn of(samples: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::new();
    for (value_ns, count) in samples {
        histogram.record_n(*value_ns, *count);
    }
    histogram
}

/// Not all requests that were due were sent.
fn send_only(result: &mut RunResult, sent: u64) {
    let recording = &mut result.recording;
    recording.counters.sent = sent;
    recording.counters.answered = sent;
    recording.counters.unsent = recording.counters.due - sent;
}

/// Of the last `requests` requests, `own_ns` are the load generator's, and the server needed 2 ms.
fn delay(result: &mut RunResult, requests: u64, own_ns: u64) {
    let recording = &mut result.recording;
    let others = recording.latency().count() - requests;
    let shown_ns = 2 * MS + own_ns;
    if recording.counters.due > 0 {
        recording.response_time = of(&[(2 * MS, others), (shown_ns, requests)]);
    } else {
        recording.service_time = of(&[(2 * MS, others), (shown_ns, requests)]);
    }
    recording.attribution.delayed(requests, shown_ns, own_ns);
}

/// The connections of the closed loop were not used for this share of the time, because of the load
/// generator.
fn leave_idle(result: &mut RunResult, percent: u64) {
    let connections = u64::from(result.plan.load.connections);
    result.recording.attribution.idle_ns = connections * result.window.duration_ns * percent / 100;
}

fn machine(result: &mut RunResult) -> &mut MachineUsage {
    result
        .generator
        .machine
        .as_mut()
        .expect("the fixture has one")
}

/// The lines after the first one, without their common prefix.
fn details(result: &RunResult) -> Vec<String> {
    let lines = verdict_lines(&verdict(result)).into_iter().skip(1);
    lines
        .map(|line| {
            line.strip_prefix("load generator: ")
                .expect("every line has a prefix")
                .to_owned()
        })
        .collect()
}

fn headline(result: &RunResult) -> String {
    verdict_lines(&verdict(result)).remove(0)
}

type Change = fn(&mut RunResult);

#[test]
fn on_a_quiet_machine_the_numbers_are_the_servers() {
    assert_eq!(verdict(&quiet()), Verdict::Undisturbed);
    assert_eq!(verdict(&quiet_at_a_rate()), Verdict::Undisturbed);
}

#[test]
fn a_pause_that_moved_a_percentile_is_a_disturbance_with_its_moment() {
    let mut result = quiet_at_a_rate();
    delay(&mut result, 900, 413 * MS);
    result.recording.attribution.add_standstill(Standstill {
        start_ns: 1_500 * MS,
        length_ns: 450 * MS,
    });
    assert_eq!(
        verdict_lines(&verdict(&result)),
        [
            "load generator disturbed: it caused 413 ms of the p99 of 415 ms; run again; if it is \
             paused again, another program or the machine stops it",
            "load generator: it was paused at 1.50-1.95 s",
        ]
    );
    assert!(!verdict(&result).is_saturated());
    let told = warnings(&result);
    let blames = |it: &Warning| it.sentence().contains("server");
    assert!(!told.iter().any(blames), "{told:?}");
}

#[test]
fn all_pauses_are_counted_and_the_longest_are_named() {
    let paused = |pauses: u64| {
        let mut result = quiet_at_a_rate();
        delay(&mut result, 2_000, 40 * MS);
        // Of both workers at once.
        for number in (0..pauses).chain(0..pauses) {
            result.recording.attribution.add_standstill(Standstill {
                start_ns: number * 8 * MS * 1_000 / pauses,
                length_ns: if number % 20 == 7 { 30 * MS } else { 20 * MS } / (pauses / 50).max(1),
            });
        }
        details(&result).remove(0)
    };
    assert_eq!(
        paused(3),
        "it was paused at 0.00-0.02 s, 2.67-2.69 s and 5.33-5.35 s"
    );
    assert_eq!(
        paused(50),
        "it was paused 50 times, for 1.03 s in total, the longest at 1.12-1.15 s, 4.32-4.35 s and \
         7.52-7.55 s"
    );
    assert!(
        paused(1_001).starts_with("it was paused at least 1,000 times, for 1.0"),
        "{}",
        paused(1_001)
    );
}

#[test]
fn the_share_of_each_percentile_is_given() {
    let mut result = quiet_at_a_rate();
    delay(&mut result, 4_000, 6 * MS);
    let share = |percent| OwnShare {
        percent,
        shown_ns: result.recording.latency().value_at_percentile(percent),
        own_ns: result.recording.latency_parts_at(&[percent])[0].own_ns,
        is_lower_bound: false,
    };
    let judged = verdict(&result);
    assert_eq!(judged.percentiles(), [share(90.0), share(99.0)]);
    assert!(
        headline(&result).starts_with(
            "load generator disturbed: it caused 6 ms of the p90 of 8 ms and 6 ms of the p99 of \
             8 ms"
        ),
        "{}",
        headline(&result)
    );
    // A percentile that a condition names is judged beside the usual ones, if it has the samples.
    let mut result = quiet_at_a_rate();
    delay(&mut result, 100, 6 * MS);
    assert_eq!(verdict(&result), Verdict::Undisturbed);
    let percents = |more: &[f64]| {
        let judged = judging::verdict(&result, more);
        let shares = judged.percentiles().iter();
        shares.map(|share| share.percent).collect::<Vec<_>>()
    };
    assert_eq!(percents(&[99.9, 99.999, 100.0]), [99.9]);
}

#[test]
fn what_limited_a_closed_loop_is_named() {
    let cases: [(Change, &str); 3] = [
        (
            |r| r.generator.workers[1].usage.cpu_ns = 9_920 * MS,
            "thread 1 used 99 % of a CPU (1 of 2 threads were that busy)",
        ),
        (
            |r| {
                machine(r).cpus = 2;
                for worker in &mut r.generator.workers {
                    worker.usage.cpu_ns = 9_600 * MS;
                }
            },
            "thread 1 used 96 % of a CPU (2 of 2 threads were that busy)",
        ),
        (
            |r| leave_idle(r, 20),
            "connections waited for it 20 % of the time: without that, requests/s could be up to \
             25 % higher",
        ),
    ];
    for (change, said) in cases {
        let mut result = quiet();
        change(&mut result);
        assert!(verdict(&result).is_saturated(), "{said}");
        assert_eq!(details(&result), [said]);
    }
}

#[test]
fn the_cause_of_a_disturbance_is_named_and_has_a_remedy() {
    let cases: [(&str, Change, &str, &str); 10] = [
        (
            "nothing known",
            |_| (),
            "",
            "keep other programs, the server too, off the load generator's cores (taskset), or \
             lower the load",
        ),
        (
            "another program",
            |r| r.generator.workers[0].usage.run_queue_wait_ns = Some(390 * MS),
            "thread 0 waited for a CPU 4 % of the time: another program ran there",
            "keep other programs",
        ),
        (
            "the server on the same CPUs",
            |r| {
                machine(r).busy_ns = 39 * SECOND;
                r.generator.server = Some(LocalServer {
                    processes: 3,
                    cpu_ns: Some(20 * SECOND),
                    shares_cpus: true,
                });
            },
            "it shared 4 CPUs with the server and other programs, busy 97 % of the time, by the \
             server 1.99 CPUs, other programs 1.09 CPUs and the load generator 0.80 CPUs \
             (processes behind the server are other programs here)",
            "keep the server and the load generator on different CPUs",
        ),
        (
            "the server alone on the same CPUs",
            |r| {
                machine(r).busy_ns = 39 * SECOND;
                r.generator.server = Some(LocalServer {
                    processes: 3,
                    cpu_ns: Some(30_800 * MS),
                    shares_cpus: true,
                });
            },
            "it shared 4 CPUs with the server, busy 97 % of the time, by the server 3.06 CPUs and \
             the load generator 0.80 CPUs",
            "keep the server and the load generator on different CPUs",
        ),
        (
            "a slow script",
            |r| r.recording.attribution.script_ns = 12 * SECOND,
            "the script took 60 % of the time of its threads, 600 us a request",
            "make the script's functions faster, or use more threads (-t)",
        ),
        (
            "too many threads",
            |r| {
                machine(r).cpus = 1;
                r.generator.workers[0].usage.run_queue_wait_ns = Some(400 * MS);
            },
            "thread 0 waited for a CPU 4 % of the time: 2 threads share 1 CPU",
            "use fewer threads (-t): 2 threads share 1 CPU",
        ),
        (
            "a quota",
            |r| {
                machine(r).throttled_periods = Some(40);
                machine(r).throttled_ns = Some(700 * MS);
                // The kernel counts it twice.
                r.generator.workers[0].usage.run_queue_wait_ns = Some(750 * MS);
            },
            "the CPU quota of the control group stopped wrkbench 40 times, for 700 ms in total",
            "raise the CPU quota",
        ),
        (
            "a hypervisor",
            |r| machine(r).steal_ns = 4_824 * MS,
            "the hypervisor gave 12 % of this machine's CPU time to others",
            "measure on a machine with CPUs of its own",
        ),
        (
            "a busy thread",
            |r| r.generator.workers[0].usage.cpu_ns = 9_600 * MS,
            "thread 0 used 96 % of a CPU (1 of 2 threads were that busy)",
            "use more threads (-t)",
        ),
        (
            "a thread that is nearly busy",
            |r| r.generator.workers[0].usage.cpu_ns = 7_500 * MS,
            "",
            "use more threads (-t)",
        ),
    ];
    for (name, cause, said, remedy) in cases {
        let mut result = quiet_at_a_rate();
        cause(&mut result);
        assert_eq!(
            verdict(&result),
            Verdict::Undisturbed,
            "only a cause: {name}"
        );
        delay(&mut result, 1_000, 20 * MS);
        let expected: Vec<String> = [said]
            .iter()
            .filter(|it| !it.is_empty())
            .map(|it| (*it).to_owned())
            .collect();
        assert_eq!(details(&result), expected, "{name}");
        let start =
            format!("load generator disturbed: it caused 20 ms of the p99 of 22 ms; {remedy}");
        assert!(
            headline(&result).starts_with(&start),
            "{name}: {}",
            headline(&result)
        );
    }
}

/// What is said of a run whose own shares are known to be small, whatever its load.
const NOT_KNOWN: &str = "load generator disturbed: it did not always run when it should have, and \
                         how much of the latency that caused is not known; ";

#[test]
fn a_worker_that_did_not_run_for_a_twentieth_of_the_time_is_never_fine() {
    let waited: Change = |r| r.generator.workers[1].usage.run_queue_wait_ns = Some(4_800 * MS);
    let cases: [(Change, &str, &str); 3] = [
        (
            waited,
            "thread 1 waited for a CPU 48 % of the time: another program ran there",
            "keep other programs, the server too, off",
        ),
        (
            |r| {
                // Of both workers at once.
                for start_ms in [1_000, 1_000, 5_000, 5_000] {
                    r.recording.attribution.add_standstill(Standstill {
                        start_ns: start_ms * MS,
                        length_ns: 260 * MS,
                    });
                }
            },
            "it was paused at 1.00-1.26 s and 5.00-5.26 s",
            "run again",
        ),
        (
            |r| {
                machine(r).throttled_periods = Some(90);
                // The kernel sums it over the CPUs of the two workers.
                machine(r).throttled_ns = Some(1_200 * MS);
                r.generator.workers[0].usage.run_queue_wait_ns = Some(600 * MS);
            },
            "the CPU quota of the control group stopped wrkbench 90 times, for 1.2 s in total",
            "raise the CPU quota",
        ),
    ];
    for connections in [1, 30, 200, 1_000] {
        for is_open in [false, true] {
            for (change, said, remedy) in &cases {
                let mut result = if is_open { quiet_at_a_rate() } else { quiet() };
                result.plan.load.connections = connections;
                change(&mut result);
                // A good server, a bad one, and one whose queue the pauses made longer.
                let servers: [(&str, Change); 3] = [
                    ("good", |_| ()),
                    ("bad", |r| slow_server(r, 900)),
                    ("queue", |r| {
                        slow_server(r, 6);
                        r.recording.attribution.delayed(2_000, 8 * MS, 400 * US);
                    }),
                ];
                for (server, make_it) in servers {
                    let mut result = result.clone();
                    make_it(&mut result);
                    let judged = verdict(&result);
                    assert!(
                        judged.is_disturbed() && judged.is_partly_known(),
                        "{server}"
                    );
                    assert!(!judged.is_saturated(), "{server}");
                    let start = format!("{NOT_KNOWN}{remedy}");
                    assert!(
                        headline(&result).starts_with(&start),
                        "{}",
                        headline(&result)
                    );
                    assert_eq!(details(&result), [*said], "{server}");
                }
                // What is attributed is the least that it caused.
                delay(&mut result, 2_000, 40 * MS);
                let at_least = "load generator disturbed: it caused at least 40 ms of the p99 of";
                assert!(
                    headline(&result).starts_with(at_least),
                    "{}",
                    headline(&result)
                );
                assert!(verdict(&result).is_partly_known());
            }
        }
    }
    // Too few samples for any percentile.
    let mut short = quiet();
    short.recording.service_time = of(&[(2 * MS, 5)]);
    waited(&mut short);
    assert!(headline(&short).starts_with(NOT_KNOWN));
}

/// A tenth of the responses took this long, and the load generator had no part in it.
fn slow_server(result: &mut RunResult, ms: u64) {
    let times = of(&[(2 * MS, 18_000), (2 * MS + ms * MS, 2_000)]);
    match result.recording.counters.due {
        0 => result.recording.service_time = times,
        _ => result.recording.response_time = times,
    }
}

#[test]
fn up_to_4_percent_of_the_time_is_fine_if_no_percentile_was_moved() {
    let cases: [(&str, Change); 4] = [
        ("a wait", |r| {
            r.generator.workers[1].usage.run_queue_wait_ns = Some(400 * MS)
        }),
        ("a pause of both workers", |r| {
            for _ in 0..2 {
                r.recording.attribution.add_standstill(Standstill {
                    start_ns: SECOND,
                    length_ns: 390 * MS,
                });
            }
        }),
        ("a quota, which the kernel counts as a wait, too", |r| {
            machine(r).throttled_periods = Some(9);
            machine(r).throttled_ns = Some(700 * MS);
            r.generator.workers[0].usage.run_queue_wait_ns = Some(750 * MS);
        }),
        ("too short to tell", |r| {
            r.window.duration_ns = 50 * MS;
            for worker in &mut r.generator.workers {
                worker.elapsed_ns = 50 * MS;
            }
        }),
    ];
    for (name, change) in cases {
        for mut result in [quiet(), quiet_at_a_rate()] {
            change(&mut result);
            assert!(!verdict(&result).is_disturbed(), "{name}");
        }
    }
}

#[test]
fn requests_that_were_sent_in_bursts_may_have_waited_for_each_other() {
    // Of 20,000, so many were sent so late.
    let late = |requests: u64, late_ns: u64, service_ms: u64| {
        let mut result = quiet_at_a_rate();
        result.recording.service_time = of(&[(service_ms * MS, 20_000)]);
        result.recording.lags.own = of(&[(20 * US, 20_000 - requests), (late_ns, requests)]);
        result
    };
    for (requests, late_ns, service_ms) in [(500, 3 * MS, 2), (201, MS, 2), (10_000, 30 * MS, 40)] {
        let result = late(requests, late_ns, service_ms);
        let name = format!("{requests} {late_ns} {service_ms}");
        assert!(headline(&result).starts_with(NOT_KNOWN), "{name}");
        assert!(
            details(&result)[0].starts_with("1 % of the requests were sent "),
            "{name}"
        );
    }
    let result = late(500, 3 * MS, 2);
    assert_eq!(
        details(&result),
        [
            "1 % of the requests were sent at least 3 ms late, and then in bursts, which may have \
             queued at a server that takes 2 ms for one"
        ]
    );
    // Too few, hardly late, or a server that takes much longer.
    for (requests, late_ns, service_ms) in [(190, 3 * MS, 2), (500, 900 * US, 1), (500, 3 * MS, 7)]
    {
        let name = format!("{requests} {late_ns} {service_ms}");
        let result = late(requests, late_ns, service_ms);
        assert!(!verdict(&result).is_disturbed(), "{name}");
    }
    // It is known how much of a percentile is the load generator's.
    let mut result = late(500, 3 * MS, 2);
    delay(&mut result, 500, 3 * MS);
    assert_eq!(
        headline(&result),
        "load generator disturbed: it caused at least 3 ms of the p99 of 5 ms; keep other \
         programs, the server too, off the load generator's cores (taskset), or lower the load \
         (-R, -c)"
    );
    assert_eq!(details(&result), [""; 0]);
    // Too few to tell, and a closed loop, which has no bursts.
    let mut result = late(500, 3 * MS, 2);
    result.recording.lags.own = of(&[(20 * US, 900), (3 * MS, 90)]);
    assert!(!verdict(&result).is_disturbed());
    assert!(!verdict(&quiet()).is_disturbed());
}

#[test]
fn a_script_is_named_when_it_explains_the_delays_whatever_its_share_of_the_threads() {
    // 3 ms for each of 50 requests/s: 8 % of two threads.
    let script_ns = 500 * 3 * MS;
    let with_script = |others: Change, own_ns: u64| {
        let mut result = quiet_at_a_rate();
        result.recording.counters.sent = 500;
        result.recording.response_time = of(&[(2 * MS, 500)]);
        result.recording.attribution.script_ns = script_ns;
        delay(&mut result, 500, own_ns);
        others(&mut result);
        details(&result)
    };
    let said = "the script took 8 % of the time of its threads, 3 ms a request";
    let another = "thread 0 waited for a CPU 4 % of the time: another program ran there";
    assert_eq!(with_script(|_| (), 3 * MS), [said]);
    // Bursts of a closed loop: each waits for those before it. Nothing else is known.
    assert_eq!(with_script(|_| (), 60 * MS), [said]);
    let wait: Change = |r| r.generator.workers[0].usage.run_queue_wait_ns = Some(400 * MS);
    assert_eq!(with_script(wait, 3 * MS), [said, another]);
    // The script is not the reason for this.
    assert_eq!(with_script(wait, 60 * MS), [another]);
}

#[test]
fn whoever_fills_the_cpus_is_named_with_the_amount() {
    let server = |cpu_ns, shares_cpus| {
        Some(LocalServer {
            processes: 1,
            cpu_ns: Some(cpu_ns),
            shares_cpus,
        })
    };
    let judged = |server: Option<LocalServer>, wait_ms: u64| {
        let mut result = quiet();
        delay(&mut result, 1_000, 20 * MS);
        machine(&mut result).busy_ns = 40 * SECOND;
        result.generator.workers[0].usage.run_queue_wait_ns = Some(wait_ms * MS);
        result.generator.server = server;
        let line = details(&result)
            .into_iter()
            .find(|line| line.contains("shared"));
        (line, headline(&result))
    };
    let keep_others = "keep other programs, and processes behind the server, off the load \
                       generator's cores (taskset), or load the server from another machine";
    // Other programs, and a server that hardly does anything.
    let (line, remedy) = judged(server(300 * MS, true), 400);
    assert_eq!(
        line.as_deref(),
        Some(
            "it shared 4 CPUs with other programs, busy 100 % of the time, by other programs 3.15 \
             CPUs and the load generator 0.80 CPUs (processes behind the server are other \
             programs here)"
        )
    );
    assert!(remedy.ends_with(keep_others), "{remedy}");
    // nginx with php-fpm behind it.
    let (line, remedy) = judged(server(6 * SECOND, true), 400);
    assert_eq!(
        line.as_deref(),
        Some(
            "it shared 4 CPUs with the server and other programs, busy 100 % of the time, by the \
             server 0.60 CPUs, other programs 2.58 CPUs and the load generator 0.80 CPUs \
             (processes behind the server are other programs here)"
        )
    );
    assert!(remedy.ends_with(keep_others), "{remedy}");
    // A server that cannot be seen, or is elsewhere.
    let (line, remedy) = judged(None, 400);
    assert_eq!(
        line.as_deref(),
        Some(
            "it shared 4 CPUs with other programs, busy 100 % of the time, by other programs 3.18 \
             CPUs and the load generator 0.80 CPUs"
        )
    );
    assert!(remedy.ends_with(keep_others), "{remedy}");
    // The server has CPUs of its own, and so have others: no worker waited.
    assert_eq!(judged(server(30 * SECOND, false), 10).0, None);
    assert_eq!(judged(None, 10).0, None);
}

#[test]
fn no_share_of_a_thread_is_above_its_whole_time() {
    let mut result = quiet();
    result.generator.workers[0].usage.cpu_ns = 10_120 * MS;
    machine(&mut result).busy_ns = 41 * SECOND;
    result.generator.server = Some(LocalServer {
        processes: 1,
        cpu_ns: Some(20 * SECOND),
        shares_cpus: true,
    });
    let lines = details(&result);
    assert!(
        lines[0].starts_with("thread 0 used 100 % of a CPU"),
        "{lines:?}"
    );
    assert!(lines[1].contains("busy 100 % of the time"), "{lines:?}");
}

#[test]
fn small_delays_are_no_disturbance() {
    let cases: [(&str, Change); 5] = [
        ("less than a tenth of the percentile", |r| {
            r.recording.response_time = of(&[(20 * MS, 20_000)]);
            r.recording.attribution.delayed(1_000, 20 * MS, MS);
        }),
        ("the time of an interrupt", |r| {
            r.recording.response_time = of(&[(300 * US, 20_000)]);
            r.recording.service_time = of(&[(200 * US, 20_000)]);
            r.recording.attribution.delayed(20_000, 300 * US, 90 * US);
        }),
        ("two requests", |r| {
            r.recording.response_time = of(&[(2 * MS, 10)]);
            delay(r, 2, 50 * MS);
        }),
        ("requests above the 99th percentile only", |r| {
            delay(r, 150, 50 * MS)
        }),
        ("a stall of the server", |r| {
            r.recording.response_time = of(&[(2 * MS, 19_000), (SECOND, 1_000)]);
            r.recording.attribution.delayed(600, 3 * MS, MS);
        }),
    ];
    for (name, change) in cases {
        let mut result = quiet_at_a_rate();
        change(&mut result);
        assert_eq!(verdict(&result), Verdict::Undisturbed, "{name}");
    }
}

#[test]
fn what_does_not_limit_the_load_is_no_saturation() {
    let cases: [(&str, Change); 5] = [
        ("connections idle for 9 % of the time", |r| leave_idle(r, 9)),
        ("a thread at 94 %", |r| {
            r.generator.workers[0].usage.cpu_ns = 9_400 * MS
        }),
        ("a wait for a CPU", |r| {
            r.generator.workers[0].usage.run_queue_wait_ns = Some(400 * MS);
        }),
        ("a server on CPUs of its own that uses all of them", |r| {
            machine(r).busy_ns = 39 * SECOND;
            r.generator.server = Some(LocalServer {
                processes: 1,
                cpu_ns: Some(30 * SECOND),
                shares_cpus: false,
            });
        }),
        ("steal of a quarter", |r| machine(r).steal_ns = 10 * SECOND),
    ];
    for (name, change) in cases {
        let mut result = quiet();
        change(&mut result);
        assert_eq!(verdict(&result), Verdict::Undisturbed, "{name}");
    }
    let mut polling = quiet_at_a_rate();
    polling.generator.workers[0].usage.cpu_ns = 9_990 * MS;
    assert_eq!(verdict(&polling), Verdict::Undisturbed);
}

#[test]
fn a_rate_is_missed_by_whoever_let_its_requests_wait() {
    let missed = |own: u64| {
        let mut result = quiet_at_a_rate();
        send_only(&mut result, 15_000);
        result.recording.counters.in_flight_time_ns = 30 * SECOND;
        result.recording.response_time = of(&[(2 * MS, 15_000)]);
        result.recording.service_time = of(&[(2 * MS, 15_000)]);
        result.recording.attribution.unsent = own;
        result
    };
    let of_server = |unsent| Warning::RateNotReached {
        due: 20_000,
        unsent,
        connect_rate_per_sec: None,
    };
    let of_generator = |unsent| {
        format!("{unsent} of 20,000 requests due were not sent although connections were free")
    };
    let blamed = |result: &RunResult| -> Vec<Warning> {
        let all = warnings(result).into_iter();
        all.filter(|it| matches!(it, Warning::RateNotReached { .. }))
            .collect()
    };
    // The server alone.
    assert_eq!(verdict(&missed(0)), Verdict::Undisturbed);
    assert_eq!(blamed(&missed(0)), [of_server(5_000)]);
    // The load generator alone.
    assert_eq!(details(&missed(5_000)), [of_generator("5,000")]);
    assert_eq!(blamed(&missed(5_000)), []);
    // Both.
    assert_eq!(details(&missed(2_000)), [of_generator("2,000")]);
    assert_eq!(blamed(&missed(2_000)), [of_server(3_000)]);
    // A pause of the load generator that held up a few changes nothing of what the server did.
    assert_eq!(verdict(&missed(100)), Verdict::Undisturbed);
    assert_eq!(blamed(&missed(100)), [of_server(4_900)]);
}

#[test]
fn nothing_is_said_of_the_server_if_a_script_did_not_return() {
    let mut result = quiet_at_a_rate();
    send_only(&mut result, 15_000);
    judging::judge(&mut result);
    let said = |result: &RunResult, is_meant: fn(&Warning) -> bool| {
        let mut warnings = result.warnings.iter();
        warnings.any(|warning| is_meant(&warning.data))
    };
    let of_server: fn(&Warning) -> bool = |it| matches!(it, Warning::RateNotReached { .. });
    assert!(said(&result, of_server), "{:?}", result.warnings);
    judging::add_stuck_scripts(&mut result, vec![0]);
    assert!(!said(&result, of_server), "{:?}", result.warnings);
    let of_script: fn(&Warning) -> bool = |it| matches!(it, Warning::ScriptStuck { .. });
    assert!(said(&result, of_script), "{:?}", result.warnings);
}

#[test]
fn connects_that_failed_on_this_machine_limit_the_load() {
    for (kind, said, remedy) in [
        (
            ErrorKind::AddressUnavailable,
            "5 of 25 connects failed: no local port was free",
            "widen net.ipv4.ip_local_port_range",
        ),
        (
            ErrorKind::FileLimit,
            "5 of 25 connects failed: the limit of open files was reached",
            "raise the limit of open files (ulimit -n)",
        ),
    ] {
        let mut result = quiet_at_a_rate();
        result.recording.counters.connections_opened = 20;
        for _ in 0..5 {
            result.recording.errors.add(kind, 0);
        }
        assert_eq!(details(&result), [said]);
        assert!(headline(&result).contains(remedy), "{}", headline(&result));
        // Requests that were not sent for lack of a connection are not the server's fault.
        send_only(&mut result, 15_000);
        let missed = "5,000 of 20,000 requests due were not sent although connections were free";
        assert_eq!(details(&result), [said, missed]);
        let told = warnings(&result);
        assert!(
            !told
                .iter()
                .any(|it| it.sentence().contains("the server was slower")),
            "{told:?}"
        );
    }
}

#[test]
fn one_failed_connect_among_thousands_is_only_a_warning() {
    let mut result = quiet();
    result.recording.counters.connections_opened = 5_000;
    for _ in 0..5 {
        result
            .recording
            .errors
            .add(ErrorKind::AddressUnavailable, 0);
    }
    assert_eq!(verdict(&result), Verdict::Undisturbed);
    assert!(warnings(&result).contains(&Warning::AddressesExhausted { events: 5 }));
}

#[test]
fn datagrams_that_this_machine_dropped_limit_the_load_and_few_are_a_warning() {
    let with_drops = |dropped| {
        let mut result = quiet();
        result.recording.parts.quic = Some(QuicRecording {
            datagrams_received: 100_000 - dropped,
            datagrams_dropped: dropped,
            ..QuicRecording::default()
        });
        result
    };
    let drops = |warnings: &[Warning]| -> Vec<String> {
        let of_drops = |it: &&Warning| matches!(it, Warning::DatagramsDropped { .. });
        warnings
            .iter()
            .filter(of_drops)
            .map(Sentence::sentence)
            .collect()
    };
    let none = with_drops(0);
    assert_eq!(verdict(&none), Verdict::Undisturbed);
    assert_eq!(drops(&warnings(&none)), [""; 0]);
    let few = with_drops(99);
    assert_eq!(verdict(&few), Verdict::Undisturbed);
    assert_eq!(
        drops(&warnings(&few)),
        [
            "the load generator lost 99 of 100,000 datagrams, because the receive buffer of a \
             socket was full: raise net.core.rmem_max"
        ]
    );
    let many = with_drops(100);
    assert!(verdict(&many).is_saturated());
    assert_eq!(
        details(&many),
        [
            "the load generator lost 100 of 100,000 datagrams, because the receive buffer of a \
             socket was full"
        ]
    );
    let said = headline(&many);
    assert!(said.contains("raise net.core.rmem_max"), "{said}");
    assert_eq!(drops(&warnings(&many)), [""; 0]);
}

#[test]
fn a_server_slower_than_the_rate_is_named_whatever_the_load_generator_did() {
    let waited = |waited_ns| {
        let mut result = quiet_at_a_rate();
        result.recording.response_time = of(&[(2 * MS, 19_000), (2 * MS + waited_ns, 1_000)]);
        result.recording.lags.send = of(&[(0, 19_000), (waited_ns, 1_000)]);
        result
    };
    let waits = |waited_ms| Warning::WaitedForConnection {
        percent: 99,
        waited_ms,
        connect_rate_per_sec: None,
    };
    let with_connect_rate = |per_sec, opened| {
        let mut result = waited(400 * MS);
        result.plan.load.connect_rate_per_sec = Some(per_sec);
        result.recording.counters.connections_opened = opened;
        result
    };
    let by_connect_rate = Warning::WaitedForConnection {
        percent: 99,
        waited_ms: 400,
        connect_rate_per_sec: Some(50),
    };
    let cases: [(&str, RunResult, Option<Warning>); 9] = [
        ("healthy", quiet_at_a_rate(), None),
        (
            "as many connections as --connect-rate allows",
            with_connect_rate(50, 495),
            Some(by_connect_rate),
        ),
        (
            "fewer connections than it allows",
            with_connect_rate(50, 100),
            Some(waits(400)),
        ),
        (
            "none at all, whatever the reason",
            with_connect_rate(50, 0),
            Some(waits(400)),
        ),
        (
            "a stall that made some wait",
            waited(400 * MS),
            Some(waits(400)),
        ),
        (
            "the same with a pause of the load generator",
            {
                let mut result = waited(400 * MS);
                result.recording.attribution.delayed(100, 3 * MS, 2 * MS);
                result.recording.attribution.delayed(300, 402 * MS, 2 * MS);
                result
            },
            Some(waits(400)),
        ),
        (
            "a wait that is the load generator's",
            {
                let mut result = quiet_at_a_rate();
                delay(&mut result, 1_000, 400 * MS);
                result
            },
            None,
        ),
        (
            "a wait that is short compared with the service time",
            {
                let mut result = waited(20 * MS);
                result.recording.service_time = of(&[(SECOND, 20_000)]);
                result.recording.response_time = of(&[(SECOND + 20 * MS, 20_000)]);
                result.recording.counters.in_flight_time_ns = 20_000 * SECOND;
                result
            },
            None,
        ),
        (
            "more and more in flight",
            {
                let mut result = quiet_at_a_rate();
                result.recording.counters.answered = 10_000;
                result.recording.counters.in_flight = 10_000;
                result.recording.counters.oldest_in_flight_ns = 5 * SECOND;
                // Growing evenly from 0 to 10,000.
                result.recording.counters.in_flight_time_ns = 50_000 * SECOND;
                result
            },
            Some(Warning::RateNotSustained {
                due: 20_000,
                answered: 10_000,
                in_flight: 10_000,
            }),
        ),
    ];
    for (name, result, expected) in cases {
        let of_server = warnings(&result).into_iter().filter(|warning| {
            matches!(
                warning,
                Warning::RateNotReached { .. }
                    | Warning::WaitedForConnection { .. }
                    | Warning::RateNotSustained { .. }
            )
        });
        let found: Vec<Warning> = of_server.collect();
        assert_eq!(found, Vec::from_iter(expected), "{name}");
    }
}

#[test]
fn what_is_in_flight_when_a_pause_or_an_interrupt_ends_the_run_says_nothing_of_the_server() {
    let grown = || {
        let mut result = quiet_at_a_rate();
        result.recording.counters.in_flight = 10_000;
        result
    };
    let is_blamed = |result: &RunResult| {
        let all = warnings(result);
        all.iter()
            .any(|it| matches!(it, Warning::RateNotSustained { .. }))
    };
    assert!(is_blamed(&grown()));
    // One burst of arrivals may be all that is in flight.
    let bursty = |shape, in_flight| {
        let mut result = grown();
        result.recording.counters.in_flight = in_flight;
        if let Pacing::Constant { arrivals, .. } = &mut result.plan.pacing {
            *arrivals = Arrivals::Gamma { shape };
        }
        is_blamed(&result)
    };
    assert!(bursty(1.0, 1_000) && !bursty(0.01, 1_000) && bursty(0.01, 10_000));
    let mut interrupted = grown();
    interrupted.window.interrupted = true;
    assert!(!is_blamed(&interrupted));
    let mut paused = grown();
    paused.recording.attribution.add_standstill(Standstill {
        start_ns: 9_200 * MS,
        length_ns: 300 * MS,
    });
    assert!(!is_blamed(&paused));
}

#[test]
fn a_stall_of_the_server_has_its_moment_and_a_pause_of_the_load_generator_is_none() {
    let mut result = quiet();
    let series = &mut result.recording.series;
    for step in 0..100 {
        let answered = if (30..50).contains(&step) { 0 } else { 200 };
        series.add(step * 100, answered, 0, 0);
    }
    let stalls = |result: &RunResult| -> Vec<String> {
        let all = warnings(result).into_iter();
        all.filter(|it| matches!(it, Warning::ServerStalled { .. }))
            .map(|it| it.sentence())
            .collect()
    };
    assert_eq!(
        stalls(&result),
        ["the server stalled at 3.00-5.00 s: few or no responses arrived"]
    );
    // The load generator did not run in the second half of it.
    let half = Standstill {
        start_ns: 4_000 * MS,
        length_ns: SECOND,
    };
    result.recording.attribution.add_standstill(half);
    assert_eq!(
        stalls(&result),
        ["the server stalled at 3.00-4.00 s: few or no responses arrived"]
    );
    result.recording.attribution.add_standstill(Standstill {
        start_ns: 2_990 * MS,
        length_ns: 1_200 * MS,
    });
    assert_eq!(stalls(&result), [""; 0]);
}

/// A thread that waits for a CPU and a slow script leave times without responses that are no
/// standstills.
#[test]
fn a_time_without_responses_that_the_load_generator_may_have_caused_is_no_stall() {
    let says_stall = |length_ms: u64, change: fn(&mut RunResult)| {
        let mut result = quiet();
        for step in 0..100 {
            let is_silent = (30..30 + length_ms / 100).contains(&step);
            let answered = if is_silent { 0 } else { 200 };
            result.recording.series.add(step * 100, answered, 0, 0);
        }
        change(&mut result);
        let warnings = warnings(&result);
        warnings
            .iter()
            .any(|it| matches!(it, Warning::ServerStalled { .. }))
    };
    let waits: fn(&mut RunResult) = |result| {
        for worker in &mut result.generator.workers {
            worker.usage.run_queue_wait_ns = Some(worker.elapsed_ns / 10 * 9);
        }
    };
    let script: fn(&mut RunResult) = |result| {
        (result.plan.load.threads, result.plan.load.connections) = (1, 1_000);
        result.recording.counters.sent = 5_000;
        result.recording.attribution.script_ns = 5_000 * 14 * MS / 10;
    };
    for change in [waits, script] {
        assert!(!says_stall(1_300, change) && says_stall(3_000, change));
        assert!(says_stall(1_300, |_| {}));
    }
}

/// A response takes 1.5 s, and the connections are too few for the rate.
#[test]
fn responses_that_come_together_because_connections_ran_out_leave_no_stalls_between_them() {
    let says_stall = |unsent: u64| {
        let mut result = quiet();
        result.plan.pacing = Pacing::Constant {
            rate_per_sec: 400.0,
            arrivals: Arrivals::Even,
            seed: 0,
        };
        let recording = &mut result.recording;
        (recording.counters.due, recording.counters.unsent) = (4_000, unsent);
        recording.service_time = Histogram::new();
        for step in (15..100).step_by(15) {
            recording.series.add(step * 100, 200, 0, 0);
            recording.service_time.record(1_500 * MS);
        }
        let warnings = warnings(&result);
        let is_stall = |it: &Warning| matches!(it, Warning::ServerStalled { .. });
        warnings.iter().any(is_stall)
    };
    assert!(!says_stall(2_800));
    assert!(says_stall(0));
}

#[test]
fn without_figures_of_every_thread_the_verdict_is_unknown_unless_there_is_a_symptom() {
    let cases: [Change; 3] = [
        |r| r.generator = Generator::default(),
        |r| {
            r.generator.workers.pop();
        },
        |r| {
            for worker in &mut r.generator.workers {
                worker.elapsed_ns = 50 * MS;
                worker.usage.cpu_ns = 50 * MS;
            }
        },
    ];
    for change in cases {
        let mut result = quiet();
        change(&mut result);
        assert_eq!(verdict(&result), Verdict::Unknown);
        let lines = verdict_lines(&verdict(&result));
        assert!(
            lines.len() == 1 && lines[0].contains("not known whether it was saturated"),
            "{lines:?}"
        );
        leave_idle(&mut result, 50);
        assert!(verdict(&result).is_saturated());
    }
}

#[test]
fn missing_wait_counts_and_a_missing_quota_are_no_symptom() {
    let mut result = quiet();
    result.generator.workers[0].usage.run_queue_wait_ns = None;
    machine(&mut result).throttled_periods = None;
    machine(&mut result).throttled_ns = None;
    assert_eq!(verdict(&result), Verdict::Undisturbed);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut result = quiet_at_a_rate();
    for worker in &mut result.generator.workers {
        worker.elapsed_ns = u64::MAX;
        worker.usage = ThreadUsage {
            cpu_ns: u64::MAX,
            run_queue_wait_ns: Some(u64::MAX),
            timeslices: Some(u64::MAX),
        };
    }
    *machine(&mut result) = MachineUsage {
        elapsed_ns: u64::MAX,
        cpus: u32::MAX,
        busy_ns: u64::MAX,
        steal_ns: u64::MAX,
        throttled_periods: Some(u64::MAX),
        throttled_ns: Some(u64::MAX / 2),
        cpu_pressure_ns: Some(u64::MAX),
    };
    let counters = &mut result.recording.counters;
    (counters.due, counters.sent, counters.unsent) = (u64::MAX, u64::MAX, u64::MAX);
    counters.in_flight_time_ns = u64::MAX;
    let attribution = &mut result.recording.attribution;
    (attribution.unsent, attribution.idle_ns) = (u64::MAX, u64::MAX);
    attribution.script_ns = u64::MAX;
    attribution.add_standstill(Standstill {
        start_ns: u64::MAX,
        length_ns: u64::MAX,
    });
    assert!(details(&result).len() >= 2);
    for duration_ns in [u64::MAX, 0] {
        result.window.duration_ns = duration_ns;
        let mut lines = warnings(&result).into_iter().map(|w| w.sentence());
        assert!(lines.all(|line| line.lines().count() == 1));
    }
}

#[test]
fn a_saved_verdict_has_its_numbers_and_its_text() {
    let mut result = quiet();
    result.generator.workers[1].usage.cpu_ns = 9_920 * MS;
    result.generator.verdict = verdict(&result);
    let mut bytes = Vec::new();
    results::file::save(&result, &[], &mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let saved = &document["generator"]["verdict"];
    assert_eq!(saved["kind"], "generator_limited");
    assert_eq!(saved["evidence"][0]["kind"], "worker_busy");
    assert_eq!(saved["evidence"][0]["cpu_ns"], 9_920_000_000_u64);
    let Verdict::Saturated { symptoms, .. } = &result.generator.verdict else {
        panic!("{:?}", result.generator.verdict);
    };
    assert!(matches!(
        symptoms[0].data,
        Symptom::WorkerBusy { worker: 1, .. }
    ));
    assert_eq!(saved["evidence"][0]["text"], symptoms[0].data.sentence());
    assert_eq!(results::file::load(&bytes).unwrap(), result);
    let of_another_version: Verdict = serde_json::from_str(
        r#"{"kind": "generator_limited", "evidence": [{"kind": "cosmic_rays", "text": "flash"}]}"#,
    )
    .unwrap();
    assert_eq!(
        verdict_lines(&of_another_version),
        [
            "load generator saturated: the server may be faster than shown",
            "load generator: flash",
        ]
    );
    let mut disturbed = quiet_at_a_rate();
    delay(&mut disturbed, 1_000, 20 * MS);
    let disturbed = verdict(&disturbed);
    assert!(disturbed.is_disturbed());
    for plain in [Verdict::Undisturbed, Verdict::Unknown, disturbed] {
        result.generator.verdict = plain;
        bytes.clear();
        results::file::save(&result, &[], &mut bytes).unwrap();
        assert_eq!(results::file::load(&bytes).unwrap(), result);
    }
}
