//! The parts of a run by a fleet, merged into one result.

mod fixture;

use plan::{AgentThreads, Arrivals, Pacing, Protocol, RunPlan};
use proptest::prelude::*;
use results::file::{load, save};
use results::fleet::{AGENTS_OVER_TIME_MAX, merge};
use results::{
    AgentOutcome, AgentResult, Environment, LostShare, Recording, RunResult, WorkerUsage, check,
};

const PLACES: [&str; 3] = ["driver", "vm/internal", "vm/external"];

/// The plan of the fixture for a fleet of this size: its agents have two threads each.
fn plan(agents: usize) -> RunPlan {
    let mut plan = fixture::plan();
    plan.load.connections = 4 * agents as u32 + 1;
    plan
}

/// The results of the agents, each with other numbers. Their places alternate.
fn agents(count: usize) -> Vec<AgentResult> {
    let shares = plan(count).deal(&vec![2; count]).expect("enough for all");
    let agents = (0_u64..).zip(shares).map(|(number, share)| {
        let mut result = fixture::result(fixture::recording(100 + 37 * number));
        result.plan = share.plan;
        result.window.duration_ns += number;
        result.environment.hostname = Some(format!("host-{number}"));
        result.generator.workers = vec![WorkerUsage {
            worker: share.schedule.worker_base,
            ..WorkerUsage::default()
        }];
        if number == 1 {
            // A run of many hours has longer intervals.
            result.recording.series.add(9_000_000, 0, 0, 0);
        }
        AgentResult {
            id: format!("agent-{number}"),
            place: PLACES[number as usize % PLACES.len()].to_owned(),
            worker_base: share.schedule.worker_base,
            weight: share.weight,
            clock_bound_ns: Some(40_000),
            start_late_ns: Some(1_000 * number),
            early: None,
            outcome: AgentOutcome::Delivered(Box::new(result)),
        }
    });
    agents.collect()
}

fn merged(agents: Vec<AgentResult>) -> RunResult {
    merge(&plan(agents.len()), Environment::default(), agents)
}

fn recordings(agents: &[AgentResult]) -> Vec<&Recording> {
    let results = agents.iter().filter_map(AgentResult::result);
    results.map(|result| &result.recording).collect()
}

#[test]
fn a_fleet_of_one_has_the_result_of_its_agent() {
    let agents = agents(1);
    let alone = agents[0].result().expect("it delivered").clone();
    let merged = merge(&plan(1), alone.environment.clone(), agents);
    assert_eq!(merged.recording, alone.recording);
    assert_eq!(merged.window, alone.window);
    assert_eq!(merged.plan, alone.plan);
    assert_eq!(merged.backend, alone.backend);
    assert_eq!(merged.generator, alone.generator);
    let place = merged.places[0].result.as_deref().expect("there is one");
    assert_eq!(place.recording, alone.recording);
    assert_eq!(check(&merged), Ok(()));
}

#[test]
fn the_recording_of_a_fleet_is_that_of_its_agents_bit_for_bit() {
    let parts = agents(4);
    let mut expected = Recording::new();
    for recording in recordings(&parts) {
        expected.merge(recording);
    }
    let merged = merged(parts);
    assert_eq!(merged.recording, expected);
    assert_eq!(check(&merged), Ok(()));
    let numbers: Vec<u32> = merged
        .generator
        .workers
        .iter()
        .map(|it| it.worker)
        .collect();
    assert_eq!(numbers, [0, 2, 4, 6]);
    // As for the workers of one machine, the last one to end ends the window.
    assert_eq!(merged.window.duration_ns, 3_010_000_003);
    let load = &merged.plan.load;
    assert_eq!((load.threads, load.connections), (8, 17));
}

#[test]
fn a_place_has_the_results_of_its_agents() {
    let mut parts = agents(5);
    if let AgentOutcome::Delivered(result) = &mut parts[1].outcome {
        result.plan.target = plan::Target::parse("http://10.0.0.1/").expect("it is a URL");
    }
    let mut expected = Recording::new();
    for index in [1, 4] {
        expected.merge(recordings(&parts)[index]);
    }
    let merged = merged(parts);
    let places: Vec<&str> = merged.places.iter().map(|it| it.place.as_str()).collect();
    assert_eq!(places, PLACES);
    let place = &merged.places[1];
    assert_eq!(place.agents, ["agent-1", "agent-4"]);
    let result = place.result.as_deref().expect("two delivered");
    assert_eq!(result.recording, expected);
    assert_eq!(result.plan.load.threads, 4);
    assert_eq!(result.plan.target.url, "http://10.0.0.1/");
    assert_eq!(merged.plan.target.url, fixture::plan().target.url);
}

#[test]
fn a_place_has_its_part_of_the_rate() {
    let pacing = |rate_per_sec| Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let mut whole = plan(4);
    whole.pacing = pacing(8_000.0);
    let shares = whole.deal(&[2; 4]).expect("enough for all");
    let mut parts = agents(4);
    for (part, share) in parts.iter_mut().zip(shares) {
        if let AgentOutcome::Delivered(result) = &mut part.outcome {
            result.plan = share.plan;
        }
    }
    let merged = merge(&whole, Environment::default(), parts);
    assert_eq!(merged.plan.pacing, pacing(8_000.0));
    let rates = merged.places.iter().map(|place| {
        let result = place.result.as_deref().expect("all delivered");
        result.plan.pacing.clone()
    });
    let rates: Vec<Pacing> = rates.collect();
    assert_eq!(rates, [4_000.0, 2_000.0, 2_000.0].map(pacing));
}

#[test]
fn the_rate_of_a_place_is_in_proportion_to_the_weights_of_its_agents() {
    let pacing = |rate_per_sec| Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let mut whole = plan(4);
    whole.load.connections = 160;
    whole.pacing = pacing(8_000.0);
    let weights: [u32; 4] = [1, 3, 2, 10];
    let threads = weights.map(|weight| AgentThreads {
        threads: 2,
        weight: weight.try_into().expect("it is a weight"),
    });
    let shares = whole.deal(&threads).expect("enough for all");
    let mut parts = agents(4);
    for (part, share) in parts.iter_mut().zip(shares) {
        part.weight = share.weight;
        part.outcome = match &part.outcome {
            // Also of an agent that was lost.
            AgentOutcome::Delivered(_) if share.weight == threads[3].weight => {
                AgentOutcome::Lost(Box::new(LostShare {
                    plan: share.plan,
                    after_ms: 1_200,
                    sent: 50,
                    answered: 49,
                    reason: "no sign of life for 3 s".to_owned(),
                }))
            }
            outcome => {
                let AgentOutcome::Delivered(mut result) = outcome.clone() else {
                    panic!("it delivered");
                };
                result.plan = share.plan;
                AgentOutcome::Delivered(result)
            }
        };
    }
    let merged = merge(&whole, Environment::default(), parts);
    assert_eq!(merged.plan.pacing, pacing(8_000.0));
    assert_eq!(merged.plan.load.connections, 160);
    // Agents 0 and 3 are at the first place.
    let of_places = merged.places.iter().map(|place| {
        let plan = &place.result.as_deref().expect("one of them delivered").plan;
        (plan.pacing.clone(), plan.load.connections)
    });
    let of_places: Vec<(Pacing, u32)> = of_places.collect();
    let expected = [(5_500.0, 110), (1_500.0, 30), (1_000.0, 20)];
    assert_eq!(
        of_places,
        expected.map(|(rate, connections)| (pacing(rate), connections))
    );
    let saved = saved(&merged);
    assert_eq!(load(&saved).expect("it is a result"), merged);
}

fn saved(result: &RunResult) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(result, &[], &mut bytes).expect("writing to memory cannot fail");
    bytes
}

#[test]
fn a_result_of_a_version_without_weights_is_one_of_equal_agents() {
    let merged = merged(agents(2));
    let saved = saved(&merged);
    let mut document: serde_json::Value = serde_json::from_slice(&saved).expect("it is JSON");
    let agents = document["agents"].as_array_mut().expect("it has agents");
    for agent in agents {
        let agent = agent.as_object_mut().expect("it is an object");
        assert_eq!(agent.remove("weight"), Some(1.into()));
    }
    let of_old = serde_json::to_vec(&document).expect("it is JSON");
    assert_eq!(load(&of_old).expect("it is a result"), merged);
    document["agents"][0]["weight"] = 0.into();
    let damaged = serde_json::to_vec(&document).expect("it is JSON");
    assert!(load(&damaged).is_err());
}

#[test]
fn the_protocol_of_the_result_is_the_one_that_the_server_chose() {
    let mut agents = agents(2);
    assert_eq!(plan(2).load.protocol, Protocol::Http1);
    for agent in &mut agents {
        if let AgentOutcome::Delivered(result) = &mut agent.outcome {
            result.plan.load.protocol = Protocol::Http2;
        }
    }
    let merged = merged(agents);
    assert_eq!(merged.plan.load.protocol, Protocol::Http2);
    let place = merged.places[0].result.as_deref().expect("there is one");
    assert_eq!(place.plan.load.protocol, Protocol::Http2);
}

#[test]
fn a_lost_agent_is_in_the_result_but_in_none_of_its_numbers() {
    let mut parts = agents(3);
    let lost_plan = parts[1].plan().clone();
    parts[1].outcome = AgentOutcome::Lost(Box::new(LostShare {
        plan: lost_plan,
        after_ms: 1_200,
        sent: 50,
        answered: 49,
        reason: "no sign of life for 3 s".to_owned(),
    }));
    let mut expected = Recording::new();
    for recording in recordings(&parts) {
        expected.merge(recording);
    }
    let merged = merged(parts);
    assert!(merged.is_partial());
    assert_eq!(merged.recording, expected);
    // The plan is what should have been done.
    assert_eq!(merged.plan.load.connections, 13);
    assert_eq!(merged.places[1].result, None);
    assert_eq!(check(&merged), Ok(()));
    assert!(!self::merged(agents(3)).is_partial());
}

#[test]
fn a_fleet_without_any_result_has_an_empty_recording() {
    let mut parts = agents(2);
    for part in &mut parts {
        part.outcome = AgentOutcome::Lost(Box::new(LostShare {
            plan: part.plan().clone(),
            after_ms: 0,
            sent: 0,
            answered: 0,
            reason: "the connection was refused".to_owned(),
        }));
    }
    let merged = merged(parts);
    assert_eq!(merged.recording, Recording::new());
    assert_eq!(merged.window.duration_ns, 0);
    assert_eq!(check(&merged), Ok(()));
}

#[test]
fn agents_with_different_backends_are_told_apart() {
    let mut parts = agents(2);
    if let AgentOutcome::Delivered(result) = &mut parts[1].outcome {
        result.backend.name = "io_uring".to_owned();
    }
    assert_eq!(merged(parts).backend.name, "epoll, io_uring");
}

#[test]
fn the_file_of_a_fleet_is_read_back_as_it_was_saved_and_has_a_summary_of_each_part() {
    let merged = merged(agents(3));
    let bytes = saved(&merged);
    assert_eq!(load(&bytes).expect("it was saved"), merged);
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
    for path in [
        "/summary/latency/p99_ms",
        "/agents/2/outcome/delivered/summary/latency/p99_ms",
        "/agents/2/outcome/delivered/generator/verdict/kind",
        "/places/1/result/summary/requests_per_sec",
        "/places/1/result/environment/hostname",
    ] {
        assert!(document.pointer(path).is_some(), "{path}");
    }
}

#[test]
fn a_single_machine_has_neither_agents_nor_places_in_its_file() {
    let bytes = saved(&fixture::result(fixture::recording(100)));
    let document: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
    assert!(document.get("agents").is_none() && document.get("places").is_none());
}

#[test]
fn the_agents_of_a_large_fleet_keep_their_totals_but_not_their_course_over_time() {
    let parts = agents(AGENTS_OVER_TIME_MAX + 1);
    let before = recordings(&parts)[3].clone();
    let merged = merged(parts);
    let after = recordings(&merged.agents)[3];
    assert_eq!(after.service_time, before.service_time);
    assert_eq!(after.counters, before.counters);
    assert_eq!(after.series.rows().len(), 1);
    assert_eq!(after.intervals.rows().len(), 1);
    assert!(merged.recording.series.rows().len() > 1);
    assert!(
        merged.places[0]
            .result
            .as_deref()
            .is_some_and(|it| it.recording.series.rows().len() > 1)
    );
    assert_eq!(check(&merged), Ok(()));
}

#[test]
fn a_file_whose_parts_do_not_add_up_is_found() {
    let mut damaged = merged(agents(3));
    damaged.agents.pop();
    let problem = check(&damaged).expect_err("a part is missing").to_string();
    assert!(
        problem.contains("not that of the agents together"),
        "{problem}"
    );
    let mut damaged = merged(agents(3));
    if let AgentOutcome::Delivered(result) = &mut damaged.agents[0].outcome {
        result.recording.counters.sent += 1;
    }
    let problem = check(&damaged).expect_err("a counter is wrong").to_string();
    assert!(problem.starts_with("agent agent-0: "), "{problem}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_in_which_results_arrive_does_not_matter(
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle()
    ) {
        let parts = agents(6);
        let shuffled = order.iter().map(|index| parts[*index].clone()).collect();
        prop_assert_eq!(merged(shuffled), merged(parts));
    }
}
