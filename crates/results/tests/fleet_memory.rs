//! The memory that the coordinator of a large fleet needs.
//!
//! In a file of its own: a process has one peak.

mod fixture;

use plan::RunPlan;
use results::file::{load, save};
use results::fleet::Merged;
use results::{AgentOutcome, AgentResult, Environment, Histogram, Recording};

const AGENTS: usize = 300;

/// Responses of each agent.
const RESPONSES: u64 = 25_000;

/// The most memory of the whole process, kB.
const PEAK_MAX_KB: u64 = 100_000;

fn plan() -> RunPlan {
    let mut plan = fixture::plan();
    plan.load.connections = 4 * AGENTS as u32;
    plan
}

/// The recording of 5 s at 5,000 requests/s. The times have a long tail (a Pareto distribution from
/// 500 us on), also those of each second.
fn recording() -> Recording {
    let mut recording = fixture::recording(RESPONSES);
    let mut times = Histogram::new();
    for number in 0..RESPONSES {
        let beyond = 1.0 - number as f64 / RESPONSES as f64;
        times.record((500_000.0 * beyond.powf(-0.7)) as u64);
    }
    for second in 1..5 {
        recording.intervals.add(1_000 * second, &times);
    }
    let Recording {
        response_time,
        phases,
        lags,
        attribution,
        ..
    } = &mut recording;
    // All that a run with a rate measures for each request.
    for histogram in [
        response_time,
        &mut phases.last_byte,
        &mut lags.send,
        &mut lags.own,
        &mut lags.wakeup,
        &mut lags.receive,
        &mut attribution.shown,
        &mut attribution.corrected,
        &mut attribution.service_shown,
        &mut attribution.service_corrected,
    ] {
        histogram.merge(&times);
    }
    recording
}

/// The peak of this process (proc(5)), kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|kb| kb.parse().ok())
        .expect("the kernel has it")
}

#[test]
fn three_hundred_agents_need_less_than_a_hundred_megabytes() {
    let shares = plan().deal(&[2; AGENTS]).expect("enough for all");
    let mut saved = Vec::new();
    save(&fixture::result(recording()), &[], &mut saved).expect("it can be saved");
    let before_kb = peak_kb();
    let mut merged = Merged::of(AGENTS);
    for (number, share) in shares.into_iter().enumerate() {
        let mut result = load(saved.as_slice()).expect("it was saved");
        result.plan = share.plan;
        merged.add(AgentResult {
            id: format!("agent-{number}"),
            place: format!("place-{}", number % 3),
            worker_base: share.schedule.worker_base,
            weight: share.weight,
            clock_bound_ns: Some(40_000),
            start_late_ns: Some(1_000),
            early: None,
            outcome: AgentOutcome::Delivered(Box::new(result)),
        });
    }
    let result = merged.finish(&plan(), Environment::default());
    let peak_kb = peak_kb();
    println!("{AGENTS} agents: {peak_kb} kB, {before_kb} kB before the first one");
    assert_eq!(
        result.recording.counters.answered,
        RESPONSES * AGENTS as u64
    );
    assert!(peak_kb < PEAK_MAX_KB, "{peak_kb} kB");
}
