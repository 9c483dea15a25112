//! Invariants and warnings: each contradiction and each warning is found, and no others.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use judging::sentences::{Sentence, finding, settled, shared_connections};
use judging::warnings;
use plan::{Arrivals, Pacing, Protocol};
use results::{ErrorKind, RunResult, Settling, Warning, check};

/// A consistent result of 2,000 responses, modified by `change`.
fn changed(change: impl FnOnce(&mut RunResult)) -> RunResult {
    let mut result = fixture::result(fixture::recording(2000));
    change(&mut result);
    result
}

#[test]
fn consistent_results_have_no_contradiction() {
    assert_eq!(check(&changed(|_| ())), Ok(()));
    assert_eq!(check(&fixture::result(results::Recording::new())), Ok(()));
    assert_eq!(
        check(&changed(|result| result.window.duration_ns = 0)),
        Ok(())
    );
}

#[test]
fn each_contradiction_is_named() {
    type Change = fn(&mut RunResult);
    let cases: [(Change, &str); 20] = [
        (|r| r.recording.counters.sent += 1, "sent is 2004"),
        (|r| r.recording.counters.in_flight = 0, "sent is 2003"),
        (
            |r| r.recording.errors.add(ErrorKind::BadChunk, 1),
            "sent is 2003",
        ),
        (
            |r| r.recording.statuses.add(200),
            "responses by status is 2001",
        ),
        (
            |r| r.recording.service_time.record(5),
            "service_time samples is 2001",
        ),
        (
            |r| r.recording.timed_out.record(5),
            "timed_out samples is 2",
        ),
        (
            |r| r.recording.phases.first_byte.record(5),
            "first_byte has 2001",
        ),
        (
            |r| {
                r.plan.load.batch_latency = true;
                r.recording.service_time.record(5);
            },
            "service_time has 2001 samples, answered is 2000",
        ),
        (
            |r| r.recording.intervals = results::Intervals::default(),
            "samples in the intervals and in the drain is 0",
        ),
        (
            |r| {
                r.window.drained_ns = Some(1);
                r.recording.counters.answered_in_drain = 3;
            },
            "responses is 1997",
        ),
        (
            |r| r.recording.counters.answered_in_drain = 1,
            "answered_in_drain is 1",
        ),
        (
            |r| {
                r.window.drained_ns = Some(1);
                r.recording.counters.answered_in_drain = 2_001;
            },
            "answered_in_drain is 2001",
        ),
        (|r| r.recording.counters.due = 1, "due is 1"),
        (|r| r.recording.counters.unsent = 1, "unsent is 1"),
        (
            |r| r.recording.response_time.record(5),
            "response_time samples is 1",
        ),
        (
            |r| r.recording.unanswered.record(5),
            "unanswered samples is 1",
        ),
        (
            |r| r.recording.lags.send.record(5),
            "lags.send samples is 1",
        ),
        (|r| r.recording.lags.own.record(5), "lags.own samples is 1"),
        (
            |r| r.recording.series.add(1, 1, 0, 0),
            "answered in the series is 2001",
        ),
        (
            |r| {
                r.recording.counters.in_flight = 0;
                r.recording.counters.sent -= 1;
            },
            "oldest_in_flight_ns",
        ),
    ];
    for (change, said) in cases {
        let message = check(&changed(change)).unwrap_err().to_string();
        assert!(message.contains(said), "{said}: {message}");
    }
}

/// The same at a rate, with ten requests that were due and never sent.
fn at_a_rate() -> RunResult {
    changed(|r| {
        r.plan.pacing = Pacing::Constant {
            rate_per_sec: 2013.0 / 3.01,
            arrivals: Arrivals::Even,
            seed: 1,
        };
        let recording = &mut r.recording;
        recording.counters.due = 2013;
        recording.counters.unsent = 10;
        recording.response_time = recording.service_time.clone();
        recording.unanswered.record_n(2_000_000_000, 12);
        recording.lags.send.record_n(5_000, 2003);
        recording.lags.own.record_n(5_000, 2003);
    })
}

#[test]
fn each_contradiction_of_a_schedule_is_named() {
    assert_eq!(check(&at_a_rate()), Ok(()));
    type Change = fn(&mut RunResult);
    let cases: [(Change, &str); 5] = [
        (
            |r| r.recording.counters.due -= 1,
            "due is 2012, but sent + unsent is 2013",
        ),
        (
            |r| r.recording.response_time.record(5),
            "response_time samples is 2001, but service_time samples is 2000",
        ),
        (
            |r| r.recording.unanswered.record(5),
            "unanswered samples is 13, but timed out + in flight + unsent is 12",
        ),
        (
            |r| r.recording.lags.send.record(5),
            "lags.send samples is 2004, but sent is 2003",
        ),
        (
            |r| r.recording.lags.own.record(5),
            "lags.own samples is 2004, but sent is 2003",
        ),
    ];
    for (change, said) in cases {
        let mut result = at_a_rate();
        change(&mut result);
        assert_eq!(check(&result).unwrap_err().to_string(), said);
    }
}

#[test]
fn batches_that_are_timed_as_one_have_fewer_samples_than_responses() {
    let result = changed(|r| {
        r.plan.load.batch_latency = true;
        r.recording.counters.answered += 5;
        r.recording.counters.sent += 5;
        (0..5).for_each(|_| r.recording.statuses.add(200));
        r.recording.series.add(1, 5, 0, 0);
    });
    assert_eq!(check(&result), Ok(()));
}

/// Ten seconds of four connections that always wait for a response, except for the 1 ms that each
/// took to connect; responses take 20 ms.
fn always_busy() -> RunResult {
    let mut result = changed(|_| ());
    let recording = &mut result.recording;
    *recording = results::Recording::new();
    recording.service_time.record_n(20_000_000, 1996);
    recording.phases.connect.record_n(1_000_000, 4);
    recording.counters.answered = 1996;
    recording.counters.sent = 2000;
    recording.counters.in_flight = 4;
    recording.counters.oldest_in_flight_ns = 19_000_000;
    recording.counters.connections_opened = 4;
    recording.counters.opening_ns = 4_000_000;
    recording.counters.in_flight_time_ns = 4 * 9_999_000_000;
    result.window.duration_ns = 10_000_000_000;
    result
}

fn is_inconsistent(result: &RunResult) -> bool {
    warnings(result)
        .iter()
        .any(|warning| matches!(warning, Warning::InconsistentConcurrency { .. }))
}

/// A worker that started late in a window of ten seconds, and later waited for a CPU.
fn late_by(late_ns: u64, run_queue_wait_ns: u64) -> results::WorkerUsage {
    results::WorkerUsage {
        worker: 0,
        elapsed_ns: 10_000_000_000 - late_ns,
        usage: results::ThreadUsage {
            run_queue_wait_ns: Some(run_queue_wait_ns),
            ..results::ThreadUsage::default()
        },
    }
}

#[test]
fn littles_law_is_checked_for_every_run() {
    type Change = fn(&mut RunResult);
    let cases: [(&str, bool, Change); 18] = [
        ("nothing wrong", false, |_| ()),
        ("samples lost", true, |r| {
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1900);
        }),
        ("samples doubled", true, |r| {
            r.recording.service_time.record_n(20_000_000, 1996);
        }),
        ("a connection that did nothing", true, |r| {
            r.recording.counters.in_flight_time_ns = 3 * 9_999_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1497);
        }),
        (
            "the same over HTTP/2: the server allows no stream",
            false,
            |r| {
                r.plan.load.protocol = Protocol::Http2;
                r.recording.counters.in_flight_time_ns = 3 * 9_999_000_000;
                r.recording.service_time = results::Histogram::new();
                r.recording.service_time.record_n(20_000_000, 1497);
            },
        ),
        ("the same, but it had been lost", false, |r| {
            r.recording.counters.in_flight_time_ns = 3 * 9_999_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1497);
            r.recording.errors.add(ErrorKind::Reset, 1);
        }),
        ("more in flight than there are connections", true, |r| {
            r.recording.counters.in_flight_time_ns = 5 * 10_000_000_000;
            r.recording.service_time.record_n(20_000_000, 500);
        }),
        ("slow to connect", false, |r| {
            r.recording.counters.opening_ns = 2_000_000_000;
            r.recording.counters.in_flight_time_ns -= 2_000_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1896);
        }),
        ("the same lost, and it was opened at once", true, |r| {
            r.recording.counters.in_flight_time_ns -= 2_000_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1896);
        }),
        (
            "a script that did not return: ages are not known",
            false,
            |r| {
                let counters = &mut r.recording.counters;
                r.plan.request.script = Some("busy.lua".into());
                (counters.in_flight, counters.oldest_in_flight_ns) = (4, 1_000_000);
                counters.in_flight_time_ns = 4 * 9_999_000_000;
                r.recording.service_time = results::Histogram::new();
            },
        ),
        ("the same, and it returned", true, |r| {
            let counters = &mut r.recording.counters;
            r.plan.request.script = Some("busy.lua".into());
            (counters.in_flight, counters.oldest_in_flight_ns) = (4, 1_000_000);
            counters.in_flight_time_ns = 4 * 9_999_000_000;
            r.recording.service_time = results::Histogram::new();
            r.generator.workers = vec![late_by(0, 0); 2];
        }),
        ("a thread that had no CPU for a second", false, |r| {
            r.generator.workers = vec![late_by(300_000_000, 700_000_000)];
            r.recording.counters.in_flight_time_ns -= 4 * 1_000_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1796);
        }),
        ("the same lost, and it had its CPU", true, |r| {
            r.generator.workers = vec![late_by(0, 0)];
            r.recording.counters.in_flight_time_ns -= 4 * 1_000_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1796);
        }),
        ("requests from before the window", false, |r| {
            r.window.warmup_ns = 5_000_000_000;
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1600);
        }),
        ("errors at any age up to the timeout", false, |r| {
            for _ in 0..100 {
                r.recording.errors.add(ErrorKind::Reset, 1);
            }
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 1896);
        }),
        (
            "a thousand short requests with grains of time lost",
            false,
            |r| {
                r.plan.stop.requests = Some(1000);
                r.window.duration_ns = 10_000_000;
                r.recording = results::Recording::new();
                r.recording.service_time.record_n(10_000, 1000);
                r.recording.counters.sent = 1000;
                r.recording.counters.answered = 1000;
                r.recording.counters.in_flight_time_ns = 9_100_000;
            },
        ),
        ("batches that are timed as one", false, |r| {
            r.plan.load.batch_latency = true;
            r.plan.load.pipeline = 4;
            r.recording.counters.answered *= 4;
            r.recording.counters.sent *= 4;
            r.recording.counters.in_flight_time_ns = 12 * 9_999_000_000;
            r.plan.request.script = Some("batches.lua".into());
        }),
        ("idle connections at a rate", false, |r| {
            r.plan.pacing = Pacing::Constant {
                rate_per_sec: 1.0,
                arrivals: Arrivals::Even,
                seed: 1,
            };
            r.recording.service_time = results::Histogram::new();
            r.recording.service_time.record_n(20_000_000, 10);
            r.recording.counters.in_flight_time_ns = 200_000_000;
        }),
    ];
    for (name, inconsistent, change) in cases {
        let mut result = always_busy();
        change(&mut result);
        assert_eq!(is_inconsistent(&result), inconsistent, "{name}");
    }
}

#[test]
fn a_violation_of_littles_law_is_reported_with_its_numbers() {
    let mut result = always_busy();
    result.recording.service_time.record_n(20_000_000, 1996);
    let text = warnings(&result)
        .iter()
        .find(|warning| matches!(warning, Warning::InconsistentConcurrency { .. }))
        .unwrap()
        .sentence();
    assert!(
        text.starts_with(
            "4.000 requests were in flight on average where Little's law expects 7.984 to 7.992: "
        ),
        "{text}"
    );
}

#[test]
fn a_schedule_with_another_rate_than_requested_is_a_bug() {
    type Change = fn(&mut RunResult);
    let even: Change = |_| ();
    let poisson: Change = |r| {
        if let Pacing::Constant { arrivals, .. } = &mut r.plan.pacing {
            *arrivals = Arrivals::Poisson;
        }
    };
    let cases: [(&str, Change, u64, bool); 8] = [
        ("as asked for", even, 2013, false),
        ("a request of each worker more", even, 2015, false),
        ("one in a hundred too many", even, 2033, true),
        ("one in a hundred too few", even, 1993, true),
        ("random arrivals scatter", poisson, 2190, false),
        ("but not so far", poisson, 2350, true),
        (
            "an end by requests",
            |r| r.plan.stop.requests = Some(500),
            500,
            false,
        ),
        (
            "a script",
            |r| r.plan.request.script = Some("x.lua".into()),
            500,
            false,
        ),
    ];
    for (name, change, due, inconsistent) in cases {
        let mut result = at_a_rate();
        result.recording.counters.due = due;
        change(&mut result);
        let expected = Warning::InconsistentSchedule {
            due,
            expected: 2013,
        };
        let found = warnings(&result).contains(&expected);
        assert_eq!(found, inconsistent, "{name}");
    }
}

#[test]
fn users_of_conversations_have_no_rate_that_a_warning_could_blame() {
    let said = |pacing: Option<Pacing>| {
        let mut result = at_a_rate();
        result.recording.counters.due += 1_000;
        result.recording.counters.unsent += 1_000;
        result.plan.pacing = pacing.unwrap_or(result.plan.pacing);
        let found = warnings(&result).into_iter();
        let sentences: Vec<String> = found.map(|warning| warning.sentence()).collect();
        sentences.join("; ")
    };
    assert!(said(None).contains("rate"), "{}", said(None));
    let of_users = said(Some(Pacing::Users));
    assert!(!of_users.contains("rate"), "{of_users}");
}

#[test]
fn a_good_run_with_one_timeout_warns_of_the_timeout_only() {
    let expected = [Warning::TimedOutRequests {
        requests: 1,
        timeout_ms: 2000,
    }];
    assert_eq!(warnings(&changed(|_| ())), expected);
}

#[test]
fn connect_rate_is_the_cause_only_if_it_was_used_up() {
    let said = |per_sec: Option<u32>, opened| {
        let result = changed(|r| {
            r.window.duration_ns = 1_000_000_000;
            r.plan.load.connections = 1_000;
            r.plan.load.connect_rate_per_sec = per_sec;
            r.recording.counters.connections_at_start = 0;
            r.recording.counters.connections_opened = opened;
        });
        let missing = |it: &Warning| matches!(it, Warning::ConnectionsMissing { .. });
        let found = warnings(&result).into_iter().find(missing);
        found.map(|warning| warning.sentence()).unwrap_or_default()
    };
    assert_eq!(
        said(Some(100), 100),
        "only 100 of 1,000 connections were established, as many as --connect-rate 100 allows: the \
         load was lighter than asked for"
    );
    let without = |count| {
        format!(
            "only {count} of 1,000 connections were established: the load was lighter than asked \
             for"
        )
    };
    assert_eq!(said(Some(100), 50), without(50));
    assert_eq!(said(Some(100), 0), without(0));
    assert_eq!(said(None, 100), without(100));
}

#[test]
fn each_warning_is_given_for_its_cause() {
    type Change = fn(&mut RunResult);
    let cases: [(Change, Warning); 8] = [
        (
            |r| r.recording.counters.answered_of_warmup = 2001,
            Warning::AnswersOfWarmup {
                of_warmup: 2001,
                answered: 2000,
            },
        ),
        (
            |r| r.recording.counters.connections_opened = 3,
            Warning::ConnectionsMissing {
                opened: 3,
                wanted: 4,
                connect_rate_per_sec: None,
            },
        ),
        (
            |r| {
                r.recording.counters.connections_opened = 500;
                r.recording.errors.add(ErrorKind::FileLimit, 0);
            },
            Warning::FileLimit { events: 1 },
        ),
        (
            |r| {
                r.recording.counters.connections_opened = 500;
                r.recording.errors.add(ErrorKind::AddressUnavailable, 0);
            },
            Warning::AddressesExhausted { events: 1 },
        ),
        (
            |r| (0..21).for_each(|_| r.recording.errors.add(ErrorKind::Stale, 1)),
            Warning::ManyStaleConnections {
                events: 21,
                answered: 2000,
            },
        ),
        (
            |r| r.recording.counters.oldest_in_flight_ns = 2_500_000_000,
            Warning::OverdueInFlight {
                requests: 1,
                oldest_ms: 2500,
                timeout_ms: 2000,
            },
        ),
        (
            |r| {
                r.recording.timed_out = results::Histogram::new();
                r.recording.counters.oldest_in_flight_ns = 1_900_000_000;
            },
            Warning::LongInFlight {
                requests: 1,
                oldest_ms: 1900,
                slowest_ms: 2,
            },
        ),
        (
            |r| r.recording = fixture::recording(998),
            Warning::FewSamples {
                samples: 999,
                needed: 1000,
            },
        ),
    ];
    for (change, expected) in cases {
        let found = warnings(&changed(change));
        assert!(
            found.contains(&expected),
            "{expected:?} is not in {found:?}"
        );
        assert!(found.len() <= 2, "{found:?}");
        assert_eq!(expected.sentence().lines().count(), 1);
    }
}

#[test]
fn with_a_rate_latency_includes_requests_in_flight_so_there_is_no_warning() {
    let mut result = at_a_rate();
    result.recording.timed_out = results::Histogram::new();
    result.recording.counters.oldest_in_flight_ns = 1_900_000_000;
    let is_long = |warning: &Warning| matches!(warning, Warning::LongInFlight { .. });
    assert!(!warnings(&result).iter().any(is_long));
    result.plan.pacing = Pacing::Closed;
    assert!(warnings(&result).iter().any(is_long));
}

#[test]
fn batches_that_are_timed_as_one_are_one_sample_each() {
    let result = changed(|r| {
        r.plan.load.batch_latency = true;
        r.recording.service_time = results::Histogram::new();
        r.recording.service_time.record_n(4_000_000, 500);
    });
    let expected = Warning::FewSamples {
        samples: 501,
        needed: 1000,
    };
    assert!(warnings(&result).contains(&expected));
}

#[test]
fn a_server_that_ends_nearly_every_connection_is_a_warning_and_one_that_rarely_does_is_none() {
    let found = |reconnects: u64, answered: u64| {
        let result = changed(|r| {
            let counters = &mut r.recording.counters;
            (counters.reconnects, counters.answered) = (reconnects, answered);
            r.window.duration_ns = 10_000_000_000;
        });
        let is_it = |it: &Warning| matches!(it, Warning::ManyReconnects { .. });
        let sentence = |it: Warning| Sentence::sentence(&it);
        warnings(&result).into_iter().find(is_it).map(sentence)
    };
    for (reconnects, answered, expected) in [
        (
            530,
            0,
            Some("the server ended 530 connections (53 a second) without a response"),
        ),
        (
            25,
            50,
            Some(
                "the server ended 25 connections (2.5 a second) after 50 responses: much of the \
                 load was connecting",
            ),
        ),
        (25, 51, None),
        (9, 0, None),
        (20, 2000, None),
    ] {
        let found = found(reconnects, answered);
        assert_eq!(found.as_deref(), expected, "{reconnects} {answered}");
    }
}

#[test]
fn a_few_stale_connections_are_no_warning() {
    let result = changed(|r| (0..20).for_each(|_| r.recording.errors.add(ErrorKind::Stale, 1)));
    assert!(
        !warnings(&result)
            .iter()
            .any(|w| matches!(w, Warning::ManyStaleConnections { .. }))
    );
}

#[test]
fn requests_in_flight_at_the_start_of_a_window_are_no_warning_unless_it_is_too_short() {
    let is_it = |warning: &Warning| matches!(warning, Warning::AnswersOfWarmup { .. });
    let result = changed(|r| r.recording.counters.answered_of_warmup = 2000);
    assert!(!warnings(&result).iter().any(is_it));
    // With a rate, requests without a response are in the latency.
    let mut result = at_a_rate();
    result.recording.counters.answered_of_warmup = 5000;
    assert!(!warnings(&result).iter().any(is_it));
    result.recording.counters.answered = 0;
    assert!(warnings(&result).iter().any(is_it));
}

#[test]
fn many_requests_in_flight_at_the_end_are_a_warning_unless_they_were_awaited() {
    for answered in [1, 30, 200, 1_000] {
        for (in_flight, is_warned) in [(answered / 10, false), (answered / 10 + 1, true)] {
            let open = |result: &mut RunResult| {
                result.recording.counters.answered = answered;
                result.recording.counters.in_flight = in_flight;
            };
            let warning = Warning::Outlasted {
                in_flight,
                answered,
            };
            let is_said = |result: &RunResult| warnings(result).contains(&warning);
            let mut result = changed(open);
            assert_eq!(is_said(&result), is_warned, "{in_flight} {answered}");
            result.window.drained_ns = Some(1);
            assert!(!is_said(&result));
            (result.window.drained_ns, result.window.interrupted) = (None, true);
            assert!(!is_said(&result));
            let mut at_a_rate = at_a_rate();
            open(&mut at_a_rate);
            assert_eq!(is_said(&at_a_rate), is_warned, "{in_flight} {answered}");
        }
    }
    let warning = Warning::Outlasted {
        in_flight: 8,
        answered: 20,
    };
    assert_eq!(
        warning.sentence(),
        "8 requests were in flight at the end, beside 20 responses: latency is that of the \
         responses that were faster than the run was long (--drain 30s waits for the others)"
    );
}

#[test]
fn what_a_drain_has_read_is_neither_unknown_nor_a_defect() {
    // Little's law holds over window and drain together.
    let little = |result: &RunResult| {
        let is_it = |warning: &Warning| matches!(warning, Warning::InconsistentConcurrency { .. });
        warnings(result).iter().any(is_it)
    };
    let mut result = changed(in_flight_all_the_time);
    let recording = &mut result.recording;
    for _ in 0..4 {
        recording.service_time.record(2_500_000_000);
        recording.statuses.add(200);
    }
    let counters = &mut recording.counters;
    (counters.answered, counters.in_flight) = (4, 0);
    (counters.answered_in_drain, counters.oldest_in_flight_ns) = (4, 0);
    counters.drained_time_ns = 4_000_000_000;
    result.window.drained_ns = Some(1_000_000_000);
    assert!(!little(&result), "{:?}", warnings(&result));
    result.recording.counters.drained_time_ns = 0;
    assert!(little(&result));
    // Slow responses are in the latency.
    let is_it = |warning: &Warning| matches!(warning, Warning::AnswersOfWarmup { .. });
    let mut result = changed(|r| r.recording.counters.answered_of_warmup = 2_001);
    assert!(warnings(&result).iter().any(is_it));
    result.window.drained_ns = Some(1);
    assert!(!warnings(&result).iter().any(is_it));
}

#[test]
fn a_warning_of_responses_to_requests_of_the_warm_up_says_what_is_not_known() {
    let said = |of_warmup, answered| {
        let warning = Warning::AnswersOfWarmup {
            of_warmup,
            answered,
        };
        warning.sentence()
    };
    assert_eq!(
        said(600, 400),
        "600 of 1,000 responses in the window were to requests of the warm-up: the latency is \
         that of the other 400, and slow responses are missing; run longer"
    );
    assert_eq!(
        said(1, 0),
        "no request of the window was answered within it, and 1 response was to requests of the \
         warm-up: latency is not known; run longer"
    );
}

/// A run of 1.5 s whose four requests were sent at its start and have no response.
fn in_flight_all_the_time(result: &mut RunResult) {
    result.recording = results::Recording::new();
    let counters = &mut result.recording.counters;
    counters.sent = 4;
    counters.connections_opened = 4;
    counters.in_flight = 4;
    counters.oldest_in_flight_ns = 1_500_000_000;
    counters.in_flight_time_ns = 6_000_000_000;
    result.window.duration_ns = 1_500_000_000;
}

#[test]
fn a_run_without_a_response_says_so() {
    let result = changed(in_flight_all_the_time);
    assert_eq!(warnings(&result), [Warning::NothingAnswered { sent: 4 }]);
}

/// Streams without an end: a gap of 5 ms between events, and silence of `silent_ms` in one of two
/// streams at the end.
fn endless(gaps: u64, silent_ms: u64) -> RunResult {
    changed(|r| {
        in_flight_all_the_time(r);
        let mut events = results::EventRecording {
            arrived: gaps + 4,
            ..results::EventRecording::default()
        };
        events.first_event.record_n(5_000_000, 4);
        events.gap.record_n(5_000_000, gaps);
        events.since_last_event.record(3_000_000);
        events.since_last_event.record(silent_ms * 1_000_000);
        r.recording.parts.events = Some(events);
        r.plan.events = Some(plan::EventsSpec {
            format: plan::EventsFormat::Sse,
            end_marker: None,
            dialect: None,
        });
    })
}

#[test]
fn streams_that_never_end_have_no_warning_while_events_come() {
    assert_eq!(warnings(&endless(1000, 4)), []);
    // Much longer than a gap, and still short.
    assert_eq!(warnings(&endless(1000, 90)), []);
}

#[test]
fn a_stream_that_stalls_is_warned_about() {
    let found = warnings(&endless(1000, 1400));
    let expected = Warning::SilentStreams {
        streams: 1,
        longest_ms: 1400,
        largest_gap_ms: 5,
    };
    assert_eq!(found, [expected]);
    assert_eq!(
        found[0].sentence(),
        "1 open stream had no event for up to 1.4 s until the end of the run or the timeout, but \
         the largest gap between two events was 5 ms: the server stopped sending \
         (time_since_last_event)"
    );
}

#[test]
fn without_two_events_of_a_stream_it_is_not_known_how_long_is_long() {
    assert_eq!(warnings(&endless(0, 1400)), []);
}

/// A run of a language model with as many complete responses as the usual run. `without` of them
/// have no token, and `cut_off` have no end.
fn model(without: u64, cut_off: u64, malformed_events: u64) -> RunResult {
    changed(|r| {
        let streams = r.recording.counters.answered;
        let mut llm = results::LlmRecording {
            responses: streams,
            without_tokens: without,
            malformed_events,
            ..results::LlmRecording::default()
        };
        llm.finish.stop = streams;
        llm.output_per_response.record_n(5, streams);
        llm.first_token.record_n(5_000_000, streams - without);
        let mut events = results::EventRecording {
            arrived: 6 * streams,
            streams,
            unfinished: cut_off,
            ..results::EventRecording::default()
        };
        events.first_event.record_n(1_000_000, streams);
        events.per_response.record_n(6, streams);
        r.recording.parts.events = Some(events);
        r.recording.parts.llm = Some(llm);
        r.plan.events = Some(plan::EventsSpec {
            format: plan::EventsFormat::Llm,
            end_marker: None,
            dialect: None,
        });
    })
}

#[test]
fn responses_of_a_model_with_tokens_and_an_end_have_no_warning() {
    let usual = warnings(&changed(|_| {}));
    assert_eq!(warnings(&model(0, 0, 0)), usual);
    // What is no JSON between tokens is no reason to doubt them.
    assert_eq!(warnings(&model(0, 0, 3)), usual);
}

#[test]
fn without_any_token_the_run_asks_whether_there_was_a_stream() {
    let all = model(0, 0, 0).recording.counters.answered;
    let sentence = |result: &RunResult| {
        let found = warnings(result);
        let about_tokens = |it: &&Warning| matches!(it, Warning::NoTokens { .. });
        found
            .iter()
            .find(about_tokens)
            .expect("it is one")
            .sentence()
    };
    // Whether they were cut off is not known, either.
    let found = sentence(&model(all, all, 0));
    let expected = "had a token: does the request ask for a stream (\"stream\": true)?";
    assert!(
        found.starts_with("none of ") && found.ends_with(expected),
        "{found}"
    );
    let found = sentence(&model(all, 0, 7));
    let expected = "had a token: 7 events were not JSON; is it a language model's stream?";
    assert!(found.ends_with(expected), "{found}");
    let cut_off = |it: &Warning| matches!(it, Warning::CutOffStreams { .. });
    assert!(!warnings(&model(all, all, 0)).iter().any(cut_off));
}

#[test]
fn compressed_streams_are_the_only_reason_that_is_given_for_missing_tokens() {
    let mut result = model(0, 0, 0);
    let streams = result.recording.counters.answered;
    let parts = &mut result.recording.parts;
    parts.llm.as_mut().expect("it is a model").without_tokens = streams;
    let events = parts.events.as_mut().expect("there are events");
    (events.compressed, events.arrived) = (streams, 0);
    let mut expected = warnings(&model(0, 0, 0));
    let mut found = warnings(&result);
    let is_new = |it: &Warning| matches!(it, Warning::CompressedStreams { .. });
    assert!(found.contains(&Warning::CompressedStreams {
        compressed: streams,
        streams
    }));
    found.retain(|it| !is_new(it));
    expected.retain(|it| !is_new(it));
    assert_eq!(found, expected);
}

#[test]
fn some_responses_without_tokens_or_without_an_end_are_warned_about() {
    let streams = model(0, 0, 0).recording.counters.answered;
    let found = warnings(&model(1, 2, 0));
    assert!(found.contains(&Warning::WithoutTokens {
        without: 1,
        streams
    }));
    assert!(found.contains(&Warning::CutOffStreams {
        cut_off: 2,
        streams
    }));
}

/// A run of a language model that was asked for 128 tokens. Responses that stopped had 40 of them.
fn asked(stop: u64, length: u64, ignore_eos: Option<bool>) -> RunResult {
    let mut result = model(0, 0, 0);
    let llm = result.recording.parts.llm.as_mut().expect("it is a model");
    llm.finish.stop = stop;
    llm.finish.length = length;
    llm.output_per_response.record_n(40, stop);
    llm.output_per_response.record_n(128, length);
    result.plan.request.file = Some(plan::RequestFile {
        asked: Some(plan::AskedTokens {
            output_tokens: Some("128".to_owned()),
            ignore_eos,
            ..plan::AskedTokens::default()
        }),
        ..plan::RequestFile::new("llm-0".into())
    });
    result
}

fn ended_early(result: &RunResult) -> Option<String> {
    let is_it = |it: &&Warning| matches!(it, Warning::FewerTokens { .. });
    warnings(result).iter().find(is_it).map(Sentence::sentence)
}

#[test]
fn responses_that_end_before_the_limit_that_was_asked_for_are_warned_about() {
    let lengths = "the lengths depend on what the model says";
    assert_eq!(
        ended_early(&asked(43, 57, Some(false))).as_deref(),
        Some(
            format!(
                "43 % of 100 responses ended before --output-tokens 128: {lengths} (--ignore-eos \
                 makes servers that have it go on)"
            )
            .as_str()
        )
    );
    assert_eq!(
        ended_early(&asked(2000, 0, None)),
        Some(format!(
            "100 % of 2,000 responses ended before --output-tokens 128: {lengths}"
        ))
    );
    let ignored = ended_early(&asked(10, 90, Some(true))).expect("one in ten");
    assert_eq!(
        ignored,
        "10 % of 100 responses ended before --output-tokens 128: the server does not heed \
         ignore_eos"
    );
}

#[test]
fn responses_of_a_fixed_length_are_not_early_whatever_the_server_says() {
    let mut result = asked(100, 0, None);
    let llm = result.recording.parts.llm.as_mut().expect("it is a model");
    llm.output_per_response.clear();
    llm.output_per_response.record_n(128, 95);
    llm.output_per_response.record_n(127, 5);
    assert_eq!(ended_early(&result), None);
    let llm = result.recording.parts.llm.as_mut().expect("it is a model");
    llm.output_per_response.record_n(127, 5);
    let sentence = ended_early(&result).expect("one in ten");
    assert!(sentence.starts_with("10 % of 100 responses"), "{sentence}");
    // The limits of the requests differ, and it is not known which response had which.
    let file = result.plan.request.file.as_mut().expect("it has one");
    file.asked.as_mut().expect("it is known").output_tokens = Some("uniform:100,128".to_owned());
    let sentence = ended_early(&result).expect("all of them");
    assert!(sentence.starts_with("100 % of 100 responses"), "{sentence}");
}

#[test]
fn few_early_ends_and_too_few_responses_are_not_warned_about() {
    assert_eq!(ended_early(&asked(0, 100, Some(false))), None);
    assert_eq!(ended_early(&asked(9, 91, Some(false))), None);
    assert_eq!(ended_early(&asked(4, 0, Some(false))), None);
    assert!(ended_early(&asked(5, 0, Some(false))).is_some());
    // Servers that do not say why responses end, and runs that do not know what was asked.
    assert_eq!(ended_early(&asked(0, 0, Some(false))), None);
    let mut unknown = asked(100, 0, Some(false));
    unknown
        .plan
        .request
        .file
        .as_mut()
        .expect("it has one")
        .asked = None;
    assert_eq!(ended_early(&unknown), None);
}

fn with_statuses(counts: &[(u16, u64)]) -> RunResult {
    changed(|r| {
        let mut statuses = results::Statuses::default();
        for &(status, count) in counts {
            (0..count).for_each(|_| statuses.add(status));
        }
        r.recording.statuses = statuses;
        r.recording.redirect_location = Some("https://site/".to_owned());
    })
}

#[test]
fn a_run_without_a_success_says_so_first() {
    let answered = 2000;
    for (counts, expected, said) in [
        (
            &[(404, 2000)][..],
            Warning::OnlyBadStatuses {
                answered,
                statuses: vec![404],
            },
            "none of 2,000 responses was a success (status 404): check the URL and the server",
        ),
        (
            &[(301, 600), (404, 400), (500, 300), (502, 700)],
            Warning::OnlyBadStatuses {
                answered,
                statuses: vec![502, 301, 404, 500],
            },
            "none of 2,000 responses was a success (status 502, 301, 404, ...): check the URL and \
             the server",
        ),
        (
            &[(301, 100), (308, 1900)],
            Warning::OnlyRedirects {
                answered,
                statuses: vec![308, 301],
                location: Some("https://site/".to_owned()),
            },
            "all 2,000 responses were redirects (status 308, 301) to https://site/: measure that \
             URL",
        ),
    ] {
        let found = warnings(&with_statuses(counts));
        assert_eq!(found[0], expected);
        assert!(found[0].is_headline());
        assert_eq!(found[0].sentence(), said);
    }
    for counts in [&[(404, 1999), (200, 1)][..], &[(304, 2000)]] {
        let found = warnings(&with_statuses(counts));
        assert!(!found.iter().any(Warning::is_headline), "{found:?}");
    }
}

#[test]
fn after_an_early_interrupt_there_is_no_advice_to_check_the_url() {
    let interrupted = |duration_ns| {
        changed(|r| {
            r.recording = results::Recording::new();
            r.recording.counters.sent = 4;
            r.window.interrupted = true;
            r.window.duration_ns = duration_ns;
        })
    };
    let said = |result: &RunResult| {
        let lines: Vec<String> = warnings(result).iter().map(Warning::sentence).collect();
        lines
    };
    // No connections are reported as missing, since they are not counted before the window.
    assert_eq!(
        said(&interrupted(0)),
        ["interrupted during the warm-up: nothing was measured"]
    );
    assert_eq!(
        said(&interrupted(1_000_000))[0],
        "interrupted before the first response (4 requests sent): nothing was measured"
    );
}

#[test]
fn a_window_in_which_only_the_warm_up_was_answered_is_not_one_without_responses() {
    let result = changed(|r| {
        r.recording = results::Recording::new();
        r.recording.counters.sent = 4;
        r.recording.counters.in_flight = 4;
        r.recording.counters.answered_of_warmup = 400;
    });
    let found = warnings(&result);
    assert!(!found.iter().any(Warning::is_headline), "{found:?}");
    let of_warmup = Warning::AnswersOfWarmup {
        of_warmup: 400,
        answered: 0,
    };
    assert!(found.contains(&of_warmup), "{found:?}");
}

#[test]
fn saved_warnings_have_their_numbers_and_their_text() {
    let mut result = changed(|_| ());
    result.warnings = vec![finding(Warning::ScriptStuck {
        worker: 1,
        agent: None,
    })];
    let mut bytes = Vec::new();
    results::file::save(&result, &[], &mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(document["warnings"][0]["kind"], "script_stuck");
    assert_eq!(document["warnings"][0]["worker"], 1);
    assert_eq!(
        document["warnings"][0]["text"],
        result.warnings[0].to_string()
    );
    assert_eq!(
        results::file::load(&bytes).unwrap().warnings,
        result.warnings
    );
}

#[test]
fn connections_of_the_warm_up_are_not_missing() {
    let result = changed(|r| {
        r.recording.counters.connections_opened = 1;
        r.recording.counters.connections_at_start = 3;
    });
    assert!(
        !warnings(&result)
            .iter()
            .any(|w| matches!(w, Warning::ConnectionsMissing { .. }))
    );
}

#[test]
fn a_warm_up_until_the_server_has_settled_says_when_it_ended_or_that_it_was_too_short() {
    let said = |settling| {
        let result = changed(|result| {
            result.window.warmup_ns = 30_000_000_000;
            result.window.settling = settling;
        });
        let warnings = warnings(&result).into_iter();
        let mut limits = warnings.filter(|it| matches!(it, Warning::WarmupLimit { .. }));
        (settled(&result), limits.next().map(|it| it.sentence()))
    };
    let warning = |text: &str| (None, Some(text.to_owned()));
    assert_eq!(said(None), (None, None));
    assert_eq!(
        said(Some(Settling::Settled)),
        (Some("warm-up: settled after 30.0 s".to_owned()), None)
    );
    assert_eq!(
        said(Some(Settling::NotSettled)),
        warning(
            "the server did not settle within 30.0 s (--warmup-limit): rate or latency still \
             changed when the window began"
        )
    );
    assert_eq!(
        said(Some(Settling::Unknown)),
        warning(
            "responses were too few to tell within 30.0 s (--warmup-limit) whether the server had \
             settled: give the warm-up a time"
        )
    );
}

#[test]
fn latency_with_several_streams_has_a_note() {
    let with = |protocol, streams, limit| {
        shared_connections(&changed(|result| {
            let load = &mut result.plan.load;
            (load.protocol, load.streams, load.connections) = (protocol, streams, 10);
            result.recording.streams_limit = limit;
        }))
    };
    assert_eq!(
        with(Protocol::Http2, 32, None).as_deref(),
        Some(
            "with 32 streams per connection, latency includes waiting behind other responses of \
             the connection; -c320 -m1 has as many requests in flight without it"
        )
    );
    let limited = with(Protocol::Grpc, 32, Some(8));
    assert!(limited.is_some_and(|note| note.contains("8 streams") && note.contains("-c80 -m1")));
    assert_eq!(with(Protocol::Http2, 1, None), None);
    assert_eq!(with(Protocol::Http2, 32, Some(1)), None);
    assert_eq!(with(Protocol::Http1, 1, None), None);
}

/// What happened in a run of [`run_of`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    Healthy,
    OnlyErrorPages,
    NothingAnswered,
    Interrupted,
}

/// A run over 4 connections for 10 s, or 3 s if it was interrupted, with responses after 20 ms: in
/// a closed loop, or at 100/s.
fn run_of(is_open: bool, course: Course) -> RunResult {
    const SECOND_NS: u64 = 1_000_000_000;
    const SERVICE_NS: u64 = 20_000_000;
    let mut result = always_busy();
    result.plan.timeout = std::time::Duration::from_secs(60);
    result.window.interrupted = course == Course::Interrupted;
    let seconds = if result.window.interrupted { 3 } else { 10 };
    let window_ns = seconds * SECOND_NS;
    result.window.duration_ns = window_ns;
    let per_sec = if is_open { 100 } else { 200 };
    let (answered, in_flight) = match course {
        Course::NothingAnswered => (0, 4),
        _ if is_open => (seconds * per_sec - 2, 2),
        _ => (seconds * per_sec - 4, 4),
    };
    let oldest_ns = match course {
        Course::NothingAnswered => window_ns - 1_000_000,
        _ => SERVICE_NS - 1_000_000,
    };
    let recording = &mut result.recording;
    *recording = results::Recording::new();
    let counters = &mut recording.counters;
    (counters.answered, counters.in_flight) = (answered, in_flight);
    counters.sent = answered + in_flight;
    counters.oldest_in_flight_ns = oldest_ns;
    counters.in_flight_time_ns = answered * SERVICE_NS + in_flight * oldest_ns;
    counters.connections_opened = 4;
    let status = if course == Course::OnlyErrorPages {
        500
    } else {
        200
    };
    (0..answered).for_each(|_| recording.statuses.add(status));
    recording.service_time.record_n(SERVICE_NS, answered);
    recording.intervals.add(0, &recording.service_time);
    for number in 0..answered {
        let at_ms = number * window_ns / 1_000_000 / answered;
        recording.series.add(at_ms, 1, 0, 0);
    }
    if is_open {
        result.plan.pacing = Pacing::Constant {
            rate_per_sec: per_sec as f64,
            arrivals: Arrivals::Even,
            seed: 1,
        };
        let counters = &mut recording.counters;
        counters.due = seconds * per_sec;
        counters.unsent = counters.due - counters.sent;
        recording.response_time = recording.service_time.clone();
        let (sent, unsent) = (counters.sent, counters.unsent);
        recording.unanswered.record_n(oldest_ns, in_flight);
        recording.unanswered.record_n(window_ns / 2, unsent);
        recording.lags.send.record_n(5_000, sent);
        recording.lags.own.record_n(5_000, sent);
    }
    result
}

#[test]
fn each_course_of_a_run_has_its_warnings_and_none_says_that_wrkbench_has_a_bug() {
    use Course::{Healthy, Interrupted, NothingAnswered, OnlyErrorPages};
    let cases: [(bool, Course, &[&str]); 8] = [
        (false, Healthy, &[]),
        (false, OnlyErrorPages, &["only_bad_statuses"]),
        (false, NothingAnswered, &["nothing_answered"]),
        (false, Interrupted, &["few_samples"]),
        (true, Healthy, &[]),
        (true, OnlyErrorPages, &["only_bad_statuses"]),
        (
            true,
            NothingAnswered,
            &["nothing_answered", "rate_not_reached"],
        ),
        (true, Interrupted, &["few_samples"]),
    ];
    for (is_open, course, expected) in cases {
        let case = format!("{course:?}, {}", if is_open { "rate" } else { "closed" });
        let result = run_of(is_open, course);
        assert_eq!(check(&result), Ok(()), "{case}");
        let found = warnings(&result);
        let kinds: Vec<String> = found
            .iter()
            .map(|warning| serde_json::to_value(warning).unwrap()["kind"].to_string())
            .map(|kind| kind.trim_matches('"').to_owned())
            .collect();
        assert_eq!(kinds, expected, "{case}");
        let says_bug = |warning: &Warning| warning.sentence().contains("a bug in wrkbench");
        assert!(!found.iter().any(says_bug), "{case}: {found:?}");
        // A request that is counted twice is found in every one of them.
        let mut wrong = result;
        wrong.recording.counters.in_flight_time_ns *= 2;
        assert!(warnings(&wrong).iter().any(says_bug), "{case}");
    }
}
