//! The load of four agents is that of one machine, and their numbers are the server's.

use results::RunResult;

use crate::harness::{FOUR, Lab};

const MS: u64 = 1_000_000;

fn sent(result: &RunResult) -> u64 {
    result.recording.counters.sent
}

/// How much later than by a constant rate each request arrived, nanoseconds; the first one is 0.
fn lateness_ns(arrivals: &[u64], interval_ns: u64) -> Vec<i64> {
    let due = (0..).map(|number: u64| arrivals[0] + number * interval_ns);
    let pairs = arrivals.iter().zip(due);
    pairs
        .map(|(arrival, due)| *arrival as i64 - due as i64)
        .collect()
}

fn percentile(mut values: Vec<i64>, percent: usize) -> i64 {
    values.sort_unstable();
    values[(values.len() - 1) * percent / 100]
}

#[test]
#[ignore = "needs root; make fleet"]
fn four_agents_with_clocks_hours_apart_start_together_and_share_one_schedule() {
    let Some(lab) = Lab::new(&FOUR) else { return };
    let (output, slow) = lab.run(&["-t1", "-c4", "-R100", "-d4s"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let at_first = lab.target.arrived();
    assert_eq!(sent(&slow), at_first, "{output:?}");
    let (output, fast) = lab.run(&["-t1", "-c8", "-R2000", "-d5s", "--latency"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        sent(&slow) + sent(&fast),
        lab.target.arrived(),
        "{output:?}"
    );
    let counters = &slow.recording.counters;
    // The last one of each agent may be due at the very end.
    assert!(counters.in_flight <= 4, "{counters:?}");
    assert_eq!(counters.answered + counters.in_flight, sent(&slow));
    // 100 and 2,000 a second, not four times as many. The last one may be due at the very end.
    assert!((398..=400).contains(&sent(&slow)), "{}", sent(&slow));
    assert!((9_990..=10_000).contains(&sent(&fast)), "{}", sent(&fast));
    let ids: Vec<&str> = fast.agents.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["a0", "a1", "a2", "a3"]);
    let places = fast
        .places
        .iter()
        .map(|place| (place.place.as_str(), place.agents.len()));
    assert_eq!(places.collect::<Vec<_>>(), [("east", 2), ("west", 2)]);
    lab.expect_nothing_left();

    let arrivals = lab.target.stop();
    let (first, second) = arrivals.split_at(usize::try_from(at_first).unwrap());
    // Each fourth request is of the same agent, so its lateness is that of its agent's start.
    let late = lateness_ns(first, 10 * MS);
    let of_agent =
        |agent: usize| percentile(late.iter().skip(agent).step_by(4).copied().collect(), 50);
    let starts: Vec<i64> = (0..4).map(of_agent).collect();
    let spread_ns = starts.iter().max().unwrap() - starts.iter().min().unwrap();
    println!(
        "the starts are {} us apart: {starts:?} ns",
        spread_ns / 1_000
    );
    for agent in &fast.agents {
        println!(
            "{}: bound of the clock {:?} ns, start late by {:?} ns",
            agent.id, agent.clock_bound_ns, agent.start_late_ns
        );
    }
    assert!(spread_ns <= 5 * MS as i64, "{starts:?}");
    let late = lateness_ns(second, MS / 2);
    let at = |percent| percentile(late.clone(), percent);
    println!(
        "2,000 requests/s: lateness p1 {} us, p50 {} us, p99 {} us",
        at(1) / 1_000,
        at(50) / 1_000,
        at(99) / 1_000
    );
    assert!(
        at(90) - at(10) <= 5 * MS as i64,
        "p10 {} p90 {}",
        at(10),
        at(90)
    );
}

#[test]
#[ignore = "needs root; make fleet"]
fn connections_requests_and_threads_are_dealt_out_and_never_multiplied() {
    let Some(lab) = Lab::new(&FOUR) else { return };
    let (output, result) = lab.run(&["-t1", "-c10", "-n1003"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(lab.target.arrived(), 1_003);
    assert_eq!(
        (sent(&result), result.recording.counters.answered),
        (1_003, 1_003)
    );
    assert_eq!(result.recording.counters.connections_opened, 10);
    let shares: Vec<u64> = result
        .agents
        .iter()
        .map(|agent| agent.result().unwrap().recording.counters.sent)
        .collect();
    assert_eq!(shares.iter().sum::<u64>(), 1_003);
    assert!(
        shares.iter().all(|share| (200..=301).contains(share)),
        "{shares:?}"
    );
    lab.expect_nothing_left();
}

#[test]
#[ignore = "needs root; make fleet"]
fn a_script_and_its_modules_travel_and_done_is_called_once_with_the_numbers_of_all() {
    let Some(lab) = Lab::new(&FOUR) else { return };
    let folder = &lab.network.folder;
    folder.file_with("path.lua", "return { path = '/from-a-module' }");
    let script = folder.file_with(
        "script.lua",
        "package.path = '{folder}/?.lua;' .. package.path
local m = require 'path'
request = function() return wrk.format('GET', m.path) end
done = function(summary) print('done with ' .. summary.requests) end
"
        .replace("{folder}", &folder.file("")),
    );
    let (output, result) = lab.run(&["-t1", "-c4", "-n400", "-s", &script]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let done = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("done with"));
    assert_eq!(done.collect::<Vec<_>>(), ["done with 400"], "{output:?}");
    assert_eq!(sent(&result), 400);
    lab.expect_nothing_left();
}
