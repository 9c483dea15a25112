//! The verdict on the load generator: each symptom is found where it matters, and not reported
//! where it does not.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use judging::sentences::{Sentence, verdict_lines};
use judging::{verdict, warnings};
use plan::{Arrivals, Pacing};
use results::{
    ErrorKind, Generator, Histogram, MachineUsage, RunResult, Symptom, ThreadUsage, Verdict,
    Warning, WorkerUsage,
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
    result.recording.lags.wakeup = of(&[(30 * US, 1_000)]);
    result.recording.lags.receive = of(&[(25 * US, 300)]);
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
        verdict: Verdict::Unknown,
    };
    result
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
    result.recording.lags.send = of(&[(20 * US, 20_000)]);
    result.recording.lags.own = of(&[(20 * US, 20_000)]);
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

fn machine(result: &mut RunResult) -> &mut MachineUsage {
    result
        .generator
        .machine
        .as_mut()
        .expect("the fixture has one")
}

/// The lines after the first one, without their common prefix.
fn symptoms(result: &RunResult) -> Vec<String> {
    let lines = match verdict(result) {
        Verdict::Saturated { .. } => verdict_lines(&verdict(result)),
        Verdict::NotSaturated | Verdict::Unknown => Vec::new(),
    };
    lines
        .into_iter()
        .skip(1)
        .map(|line| {
            line.strip_prefix("load generator: ")
                .expect("every line has a prefix")
                .to_owned()
        })
        .collect()
}

type Change = fn(&mut RunResult);

#[test]
fn on_a_quiet_machine_the_numbers_are_the_servers() {
    assert_eq!(verdict(&quiet()), Verdict::NotSaturated);
    assert_eq!(verdict(&quiet_at_a_rate()), Verdict::NotSaturated);
}

#[test]
fn each_symptom_is_found_in_a_closed_loop() {
    let cases: [(Change, &str); 11] = [
        (
            |r| r.recording.lags.wakeup = of(&[(30 * US, 2), (2 * SECOND, 1)]),
            "it did not run for 2 s of 10 s: it was suspended, or the machine was; requests in \
             flight then count as late or timed out",
        ),
        (
            |r| r.generator.workers[1].usage.cpu_ns = 9_920 * MS,
            "thread 1 used 99 % of a CPU (1 of 2 threads were that busy)",
        ),
        (
            |r| {
                machine(r).cpus = 2;
                for worker in &mut r.generator.workers {
                    worker.usage.cpu_ns = 9_000 * MS;
                }
            },
            "thread 1 used 90 % of a CPU (2 of 2 threads were that busy)",
        ),
        (
            |r| r.generator.workers[0].usage.run_queue_wait_ns = Some(2_300 * MS),
            "thread 0 waited for a CPU 23 % of the time: another program ran there",
        ),
        (
            |r| {
                machine(r).cpus = 1;
                r.generator.workers[0].usage.run_queue_wait_ns = Some(SECOND);
            },
            "thread 0 waited for a CPU 10 % of the time: 2 threads share 1 CPU",
        ),
        (
            |r| {
                machine(r).throttled_periods = Some(40);
                machine(r).throttled_ns = Some(1_600 * MS);
                // The kernel counts it twice.
                r.generator.workers[0].usage.run_queue_wait_ns = Some(1_650 * MS);
            },
            "the CPU quota of the control group stopped wrkbench 40 times, for 1.6 s in total",
        ),
        (
            |r| machine(r).steal_ns = 4_824 * MS,
            "the hypervisor gave 12 % of this machine's CPU time to others",
        ),
        (
            |r| r.recording.lags.wakeup = of(&[(30 * US, 980), (3 * MS, 20)]),
            "1 % of timed waits ended 3 ms or more too late (latency 2 ms)",
        ),
        (
            |r| r.recording.lags.receive = of(&[(25 * US, 100), (500 * US, 200)]),
            "half of the responses waited 500 us or more in the kernel before wrkbench read them \
             (latency 2 ms)",
        ),
        (
            |r| r.recording.lags.receive = of(&[(25 * US, 280), (1_500 * US, 20)]),
            "4 % of responses waited 1.5 ms or more in the kernel before wrkbench read them \
             (latency 2 ms)",
        ),
        // Too few samples for the 99th percentile, which is shown and affected nevertheless.
        (
            |r| {
                r.recording.service_time = of(&[(10 * MS, 975), (33 * MS, 12)]);
                r.recording.lags.receive = of(&[(25 * US, 197), (23 * MS, 3)]);
            },
            "1 % of responses waited 23 ms or more in the kernel before wrkbench read them \
             (latency 33 ms)",
        ),
    ];
    for (change, said) in cases {
        let mut result = quiet();
        change(&mut result);
        assert_eq!(symptoms(&result), [said]);
    }
}

#[test]
fn connects_that_failed_on_this_machine_are_a_symptom() {
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
        assert_eq!(symptoms(&result), [said]);
        let headline = verdict_lines(&verdict(&result)).remove(0);
        assert!(headline.contains(remedy), "{headline}");
        // Requests that were not sent for lack of a connection are not the server's fault.
        result.recording.lags.send = of(&[(800 * MS, 15_000)]);
        send_only(&mut result, 15_000);
        let missed = "only 15,000 of 20,000 requests due were sent";
        assert_eq!(symptoms(&result), [said, missed]);
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
    assert_eq!(verdict(&result), Verdict::NotSaturated);
    assert!(warnings(&result).contains(&Warning::AddressesExhausted { events: 5 }));
}

#[test]
fn a_saturated_load_generator_gets_one_remedy_that_fits_the_cause() {
    let late: Change = |r| r.recording.lags.receive = of(&[(25 * US, 100), (500 * US, 200)]);
    let cases: [(&str, Change, &str); 8] = [
        (
            "a hog",
            |_| (),
            "keep other programs, the server too, off the load generator's cores (taskset), or \
             lower the load",
        ),
        (
            "a hog that the scheduler counts",
            |r| r.generator.workers[0].usage.run_queue_wait_ns = Some(2_300 * MS),
            "keep other programs, the server too, off the load generator's cores (taskset)",
        ),
        (
            "a busy thread",
            |r| r.generator.workers[0].usage.cpu_ns = 9_500 * MS,
            "use more threads (-t)",
        ),
        (
            "a thread that is nearly busy",
            |r| r.generator.workers[0].usage.cpu_ns = 7_500 * MS,
            "use more threads (-t)",
        ),
        (
            "busy threads on all CPUs",
            |r| {
                machine(r).cpus = 2;
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
            },
            "no CPU is left for more threads",
        ),
        (
            "too many threads",
            |r| {
                machine(r).cpus = 1;
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
                r.generator.workers[1].usage.run_queue_wait_ns = Some(2_300 * MS);
            },
            "use fewer threads (-t): 2 threads share 1 CPU",
        ),
        (
            "a quota",
            |r| {
                machine(r).throttled_periods = Some(40);
                machine(r).throttled_ns = Some(1_600 * MS);
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
            },
            "raise the CPU quota",
        ),
        (
            "a suspended process",
            |r| {
                r.recording.lags.wakeup = of(&[(2 * SECOND, 1)]);
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
            },
            "run again",
        ),
    ];
    for (name, change, remedy) in cases {
        let mut result = quiet();
        late(&mut result);
        change(&mut result);
        let lines = verdict_lines(&verdict(&result));
        let start =
            format!("load generator saturated: the server may be faster than shown; {remedy}");
        assert!(lines[0].starts_with(&start), "{name}: {lines:?}");
        let advice = lines.iter().filter(|line| line.contains("threads (-t)"));
        assert_eq!(
            advice.count(),
            usize::from(remedy.contains("-t")),
            "{name}: {lines:?}"
        );
    }
}

#[test]
fn each_symptom_is_found_at_a_rate() {
    let busy = "thread 0 used 95 % of a CPU (1 of 2 threads were that busy)";
    let late = "1 % of requests were sent 1.5 ms or more after they were due, although a \
                connection was free (latency 2.02 ms)";
    let missed = "only 15,000 of 20,000 requests due were sent";
    let cases: [(Change, &[&str]); 6] = [
        (
            |r| r.recording.lags.own = of(&[(20 * US, 19_000), (1_500 * US, 1_000)]),
            &[late],
        ),
        (
            |r| r.recording.lags.own = of(&[(300 * US, 20_000)]),
            &[
                "half of the requests were sent 300 us or more after they were due, although a \
                 connection was free (latency 2.02 ms)",
            ],
        ),
        // Too few samples for a 99th percentile: the highest reliable one is used.
        (
            |r| r.recording.lags.own = of(&[(20 * US, 80), (1_500 * US, 20)]),
            &[&late.replacen('1', "10", 1)],
        ),
        (
            |r| {
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
                r.recording.lags.own = of(&[(20 * US, 19_000), (1_500 * US, 1_000)]);
            },
            &[busy, late],
        ),
        // All connections wait for a thread that has no time to read, so requests wait for
        // connections, and half of them are late.
        (
            |r| {
                r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
                r.recording.lags.send = of(&[(800 * MS, 15_000)]);
                r.recording.lags.own = of(&[(2 * US, 15_000)]);
                send_only(r, 15_000);
            },
            &[busy, missed],
        ),
        (
            |r| {
                r.recording.lags.send = of(&[(100 * MS, 19_600)]);
                r.recording.lags.own = of(&[(90 * MS, 19_500), (110 * MS, 100)]);
                r.recording.response_time = of(&[(2 * SECOND, 19_600)]);
                send_only(r, 19_600);
            },
            &[&missed.replacen("15,000", "19,600", 1)],
        ),
    ];
    for (change, said) in cases {
        let mut result = quiet_at_a_rate();
        change(&mut result);
        assert_eq!(symptoms(&result), said);
    }
}

#[test]
fn small_delays_are_no_symptom_in_a_closed_loop() {
    let cases: [(&str, Change); 11] = [
        ("two late reads of 200", |r| {
            r.recording.lags.receive = of(&[(25 * US, 198), (23 * MS, 2)]);
        }),
        ("three late reads of 400", |r| {
            r.recording.lags.receive = of(&[(25 * US, 397), (23 * MS, 3)]);
        }),
        ("a thread at 89 %", |r| {
            r.generator.workers[0].usage.cpu_ns = 8_900 * MS;
        }),
        ("a wait of 9 %", |r| {
            r.generator.workers[0].usage.run_queue_wait_ns = Some(900 * MS);
        }),
        ("a group that was stopped for an instant", |r| {
            machine(r).throttled_periods = Some(1);
            machine(r).throttled_ns = Some(20 * MS);
        }),
        ("steal as every virtual machine has it", |r| {
            machine(r).steal_ns = 1_900 * MS;
        }),
        ("steal of a few ticks in a short run", |r| {
            machine(r).elapsed_ns = 200 * MS;
            machine(r).steal_ns = 40 * MS;
        }),
        ("late wake-ups with slow responses", |r| {
            r.recording.service_time = of(&[(200 * MS, 20_000)]);
            r.recording.lags.wakeup = of(&[(3 * MS, 1_000)]);
        }),
        ("a wake-up that takes as long as a fast response", |r| {
            r.recording.service_time = of(&[(60 * US, 20_000)]);
            r.recording.lags.receive = of(&[(40 * US, 300)]);
        }),
        ("nine late wake-ups", |r| {
            r.recording.lags.wakeup = of(&[(30 * US, 100), (50 * MS, 9)]);
        }),
        (
            "a tail of receive delays and the same tail of latency",
            |r| {
                r.recording.service_time = of(&[(2 * MS, 18_000), (90 * MS, 2_000)]);
                r.recording.lags.receive = of(&[(25 * US, 280), (1_500 * US, 20)]);
            },
        ),
    ];
    for (name, change) in cases {
        let mut result = quiet();
        change(&mut result);
        assert_eq!(verdict(&result), Verdict::NotSaturated, "{name}");
    }
}

#[test]
fn small_delays_are_no_symptom_at_a_rate() {
    let cases: [(&str, Change); 7] = [
        ("connections that hang, and none late that was sent", |r| {
            r.recording.lags.send = of(&[(20 * US, 9_000)]);
            r.recording.lags.own = of(&[(20 * US, 9_000)]);
            send_only(r, 9_000);
        }),
        ("a thread that polls for the next moment", |r| {
            r.generator.workers[0].usage.cpu_ns = 9_990 * MS;
        }),
        ("a polling thread, and a stall of the server", |r| {
            r.generator.workers[0].usage.cpu_ns = 9_500 * MS;
            r.recording.lags.send = of(&[(20 * US, 19_000), (400 * MS, 1_000)]);
        }),
        ("a server slower than the rate", |r| {
            r.recording.lags.send = of(&[(800 * MS, 15_000)]);
            send_only(r, 15_000);
        }),
        ("a server that takes no connection", |r| {
            r.recording.lags = results::Lags::default();
            r.recording.response_time = Histogram::new();
            send_only(r, 0);
        }),
        ("a millisecond of send lag and a second of latency", |r| {
            r.recording.response_time = of(&[(SECOND, 20_000)]);
            r.recording.lags.own = of(&[(2 * MS, 20_000)]);
        }),
        ("one late request of nineteen", |r| {
            r.recording.lags.own = of(&[(20 * US, 18), (50 * MS, 1)]);
        }),
    ];
    for (name, change) in cases {
        let mut result = quiet_at_a_rate();
        change(&mut result);
        assert_eq!(verdict(&result), Verdict::NotSaturated, "{name}");
    }
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
            lines.len() == 1 && lines[0].contains("saturation unknown"),
            "{lines:?}"
        );
        result.recording.lags.wakeup = of(&[(3 * MS, 1_000)]);
        assert!(verdict(&result).is_saturated());
    }
}

#[test]
fn missing_wait_counts_and_a_missing_quota_are_no_symptom() {
    let mut result = quiet();
    result.generator.workers[0].usage.run_queue_wait_ns = None;
    machine(&mut result).throttled_periods = None;
    machine(&mut result).throttled_ns = None;
    assert_eq!(verdict(&result), Verdict::NotSaturated);
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
    assert!(symptoms(&result).len() >= 2);
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
    for plain in [Verdict::NotSaturated, Verdict::Unknown] {
        result.generator.verdict = plain;
        bytes.clear();
        results::file::save(&result, &[], &mut bytes).unwrap();
        assert_eq!(results::file::load(&bytes).unwrap(), result);
    }
}

#[test]
fn a_server_slower_than_the_rate_is_blamed_and_not_the_load_generator() {
    let cases: [(Change, Option<Warning>); 8] = [
        (|_| (), None),
        (
            |r| {
                r.recording.lags.send = of(&[(800 * MS, 15_000)]);
                send_only(r, 15_000);
                r.recording.counters.in_flight_time_ns = 30 * SECOND;
                r.recording.service_time = of(&[(2 * MS, 15_000)]);
            },
            Some(Warning::RateNotReached {
                due: 20_000,
                sent: 15_000,
            }),
        ),
        // All requests were sent in the end, but a stall made some wait.
        (
            |r| r.recording.lags.send = of(&[(20 * US, 19_000), (400 * MS, 1_000)]),
            Some(Warning::WaitedForConnection {
                percent: 99,
                waited_ms: 400,
            }),
        ),
        // The load generator caused at least half of the wait: the verdict reports it.
        (
            |r| {
                r.recording.lags.send = of(&[(20 * US, 19_000), (900 * US, 1_000)]);
                r.recording.lags.own = of(&[(20 * US, 19_000), (800 * US, 1_000)]);
            },
            None,
        ),
        // A wait that is short compared with the service time.
        (
            |r| {
                r.recording.service_time = of(&[(SECOND, 20_000)]);
                r.recording.counters.in_flight_time_ns = 20_000 * SECOND;
                r.recording.lags.send = of(&[(20 * MS, 20_000)]);
            },
            None,
        ),
        (
            |r| {
                r.recording.counters.answered = 10_000;
                r.recording.counters.in_flight = 10_000;
                r.recording.counters.oldest_in_flight_ns = 5 * SECOND;
                // Growing evenly from 0 to 10,000.
                r.recording.counters.in_flight_time_ns = 50_000 * SECOND;
            },
            Some(Warning::RateNotSustained {
                due: 20_000,
                answered: 10_000,
                in_flight: 10_000,
            }),
        ),
        // As many as on average.
        (
            |r| {
                r.recording.counters.answered = 15_000;
                r.recording.counters.in_flight = 5_000;
                r.recording.counters.in_flight_time_ns = 45_000 * SECOND;
            },
            None,
        ),
        // In an interrupted run, any number of requests may be in flight.
        (
            |r| {
                r.window.interrupted = true;
                r.recording.counters.in_flight = 10_000;
            },
            None,
        ),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let mut result = quiet_at_a_rate();
        change(&mut result);
        let found: Vec<Warning> = warnings(&result)
            .into_iter()
            .filter(|warning| {
                matches!(
                    warning,
                    Warning::RateNotReached { .. }
                        | Warning::WaitedForConnection { .. }
                        | Warning::RateNotSustained { .. }
                )
            })
            .collect();
        assert_eq!(found, Vec::from_iter(expected), "case {number}");
        assert!(
            found
                .iter()
                .all(|warning| warning.sentence().lines().count() == 1)
        );
    }
}

#[test]
fn if_the_load_generator_was_saturated_the_server_is_not_blamed() {
    let mut result = quiet_at_a_rate();
    result.generator.workers[0].usage.cpu_ns = 9_500 * MS;
    result.recording.lags.send = of(&[(800 * MS, 15_000)]);
    send_only(&mut result, 15_000);
    assert!(verdict(&result).is_saturated());
    let blamed = warnings(&result)
        .iter()
        .any(|warning| matches!(warning, Warning::RateNotReached { .. }));
    assert!(!blamed);
}
