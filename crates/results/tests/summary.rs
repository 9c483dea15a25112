//! The summary compared with figures computed by hand.

mod fixture;

use std::time::Duration;

use plan::{Arrivals, Pacing, Stage};
use results::{Counters, Distribution, Recording, RunResult, Summary};

/// 100 requests due in two seconds: 80 answered, 6 timed out, 4 in flight, 10 never sent. Every
/// histogram has different samples.
fn with_a_rate() -> RunResult {
    let mut recording = Recording::new();
    recording.service_time.record_n(1_000, 80);
    recording.timed_out.record_n(2_000, 6);
    recording.response_time.record_n(3_000, 80);
    recording.unanswered.record_n(4_000, 20);
    recording.lags.send.record_n(5_000, 90);
    recording.lags.own.record_n(6_000, 91);
    recording.lags.wakeup.record_n(7_000, 92);
    recording.lags.receive.record_n(8_000, 93);
    recording.phases.connect.record_n(9_000, 94);
    recording.phases.tls.record_n(10_000, 95);
    recording.phases.first_byte.record_n(11_000, 96);
    recording.phases.last_byte.record_n(12_000, 97);
    recording.counters = Counters {
        sent: 90,
        answered: 80,
        due: 100,
        unsent: 10,
        in_flight: 4,
        in_flight_time_ns: 5_000_000_000,
        ..Counters::default()
    };
    let mut result = fixture::result(recording);
    result.window.duration_ns = 2_000_000_000;
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 50.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    result
}

/// The figures that identify a distribution here.
fn seen(distribution: &Distribution) -> (u64, Option<u64>, Option<u64>) {
    (distribution.count, distribution.min_ns, distribution.max_ns)
}

#[test]
fn the_rate_counts_what_was_complete_in_the_window_and_the_latency_requests_of_the_window() {
    let mut result = with_a_rate();
    result.recording.counters.answered_of_warmup = 20;
    let summary = Summary::of(&result, &[]);
    assert!((summary.requests_per_sec - 50.0).abs() < 1e-12);
    assert_eq!(summary.latency.count, 100);
    let metric = |name| {
        let measured = results::metric::Metric::named(name).of(&result);
        measured.map(|measured| measured.value)
    };
    assert_eq!(metric("requests"), Some(100.0));
    assert_eq!(metric("requests_per_sec"), Some(50.0));
    assert_eq!(metric("answered_percent"), Some(80.0));
}

#[test]
fn every_distribution_has_its_own_samples() {
    let summary = Summary::of(&with_a_rate(), &[]);
    let same = |count, value_ns| (count, Some(value_ns), Some(value_ns));
    assert_eq!(seen(&summary.latency), (100, Some(3_000), Some(4_000)));
    assert_eq!(seen(&summary.service_time), (86, Some(1_000), Some(2_000)));
    assert_eq!(seen(&summary.lags.send), same(90, 5_000));
    assert_eq!(seen(&summary.lags.own), same(91, 6_000));
    assert_eq!(seen(&summary.lags.wakeup), same(92, 7_000));
    assert_eq!(seen(&summary.lags.receive), same(93, 8_000));
    assert_eq!(seen(&summary.phases.connect), same(94, 9_000));
    assert_eq!(seen(&summary.phases.tls), same(95, 10_000));
    assert_eq!(seen(&summary.phases.first_byte), same(96, 11_000));
    assert_eq!(seen(&summary.phases.last_byte), same(97, 12_000));
}

#[test]
fn the_achieved_rate_is_reported_with_the_one_asked_for() {
    let mut result = with_a_rate();
    let summary = Summary::of(&result, &[]);
    assert_eq!(summary.mean_in_flight, Some(2.5));
    assert_eq!(summary.requests_per_sec, 40.0);
    let rate = summary.achieved_rate.unwrap();
    assert_eq!(rate.asked_per_sec, 50.0);
    assert_eq!(rate.due_per_sec, 50.0);
    assert_eq!(rate.sent_per_sec, 45.0);
    assert_eq!(rate.sent_percent, Some(90.0));

    let ramp = Stage {
        from_per_sec: 0.0,
        to_per_sec: 100.0,
        duration: Duration::from_secs(4),
    };
    result.plan.pacing = Pacing::Stages {
        stages: vec![ramp],
        arrivals: Arrivals::Poisson,
        seed: 1,
    };
    // Half of the ramp: from 0 to 50.
    let rate = Summary::of(&result, &[]).achieved_rate.unwrap();
    assert_eq!(rate.asked_per_sec, 25.0);
}

#[test]
fn unknown_values_are_absent() {
    let mut result = with_a_rate();
    result.recording.counters = Counters::default();
    let rate = Summary::of(&result, &[]).achieved_rate.unwrap();
    assert_eq!(rate.sent_percent, None);

    result.window.duration_ns = 0;
    let summary = Summary::of(&result, &[]);
    assert_eq!(
        (summary.achieved_rate, summary.mean_in_flight),
        (None, None)
    );

    let closed = Summary::of(&fixture::result(fixture::recording(10)), &[]);
    assert_eq!(closed.achieved_rate, None);
    assert_eq!(closed.latency, closed.service_time);
}
