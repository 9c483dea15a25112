//! Agents, links and messages that get lost.

use std::ops::Range;

use cluster::agent::KEEP_NS;
use cluster::coordinator::{
    Event, FleetError, FleetOutcome, Number, OnLost, PartResult, StopReason,
};
use cluster::message::Ending;
use cluster::pieces::PIECE_BYTES;

use crate::fake::Script;
use crate::simulation::{MS, Receiver, S, Simulation, numbers};

fn lasting(seconds: u64, agents: usize) -> Simulation {
    Simulation::with_scripts((0..agents).map(|_| Script {
        lasts_ns: seconds * S,
        ..Script::default()
    }))
}

fn started(seconds: u64, agents: usize) -> Simulation {
    let mut simulation = lasting(seconds, agents);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation
}

fn completes(outcome: &FleetOutcome) -> Vec<bool> {
    let parts = outcome.parts.iter();
    parts
        .map(|part| matches!(part.result, PartResult::Complete(_)))
        .collect()
}

#[test]
fn the_others_go_on_when_an_agent_dies_and_the_result_is_partial() {
    let mut simulation = started(20, 3);
    simulation.go_on_for(5 * S);
    simulation.machines[1].is_frozen = true;
    let died_ns = simulation.now_ns;
    let outcome = simulation.finish();
    let lost_ns = simulation
        .time_of(|event| matches!(event, Event::Lost { agent } if agent.as_str() == "a1"));
    assert!(
        (3 * S..4 * S).contains(&(lost_ns - died_ns)),
        "{}",
        lost_ns - died_ns
    );
    assert_eq!(completes(&outcome), [true, false, true]);
    assert!(outcome.is_partial());
    assert!(outcome.parts[1].was_lost);
    assert_eq!(outcome.failure, None);
    let PartResult::Missing(reason) = &outcome.parts[1].result else {
        panic!("{:?}", outcome.parts[1].result);
    };
    assert!(
        reason.as_str().starts_with("it has not been heard"),
        "{reason}"
    );
}

#[test]
fn with_abort_all_end_within_a_second_after_an_agent_is_lost() {
    let mut simulation = lasting(60, 3);
    simulation.on_lost = OnLost::Abort;
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation.go_on_for(5 * S);
    simulation.machines[1].is_frozen = true;
    let outcome = simulation.finish();
    let lost_ns = simulation.time_of(|event| matches!(event, Event::Lost { .. }));
    for number in [0, 2] {
        let machine = &simulation.machines[number];
        let ended_ns = machine.fake.script().ended_ns.expect("it ended");
        assert!(ended_ns - machine.clock_ns(lost_ns) < S, "{}", machine.id);
        assert!(matches!(
            outcome.parts[number].result,
            PartResult::Early {
                ending: Ending::Stopped,
                ..
            }
        ));
    }
    assert_eq!(
        outcome.stop,
        Some(StopReason::Lost(simulation.machines[1].id.clone()))
    );
    assert!(outcome.is_partial());
    assert!(simulation.now_ns - lost_ns < 4 * S);
}

#[test]
fn an_agent_that_was_stopped_for_a_while_returns_with_its_result() {
    let mut simulation = started(20, 2);
    simulation.go_on_for(2 * S);
    simulation.machines[0].is_frozen = true;
    simulation.go_on_for(6 * S);
    simulation.machines[0].is_frozen = false;
    let outcome = simulation.finish();
    assert!(simulation.has_event(|event| matches!(event, Event::Lost { .. })));
    assert!(simulation.has_event(|event| matches!(event, Event::Returned { .. })));
    assert_eq!(completes(&outcome), [true, true]);
    assert!(outcome.parts[0].was_lost);
    assert!(!outcome.is_partial());
}

/// A run of 5 s in which the load of the second agent never ends by itself.
fn endless(second: Script) -> (Simulation, FleetOutcome) {
    let first = Script {
        lasts_ns: 5 * S,
        ..Script::default()
    };
    let second = Script {
        lasts_ns: 1_000_000 * S,
        ..second
    };
    let mut simulation = Simulation::with_scripts([first, second]);
    simulation.length_ns = Some(5 * S);
    let outcome = simulation.whole();
    (simulation, outcome)
}

/// Seconds from the planned end of [`endless`] until now.
fn seconds_late(simulation: &Simulation, outcome: &FleetOutcome) -> u64 {
    let start_ns = outcome.start_ns.expect("there was a load");
    (simulation.now_ns - start_ns - 5 * S) / S
}

#[test]
fn an_agent_that_goes_on_after_the_planned_end_is_stopped() {
    let (simulation, outcome) = endless(Script::default());
    let overdue = StopReason::Overdue(simulation.machines[1].id.clone());
    assert_eq!(outcome.stop, Some(overdue));
    assert_eq!(completes(&outcome), [true, false]);
    let PartResult::Early { ending, .. } = &outcome.parts[1].result else {
        panic!("{:?}", outcome.parts[1].result);
    };
    assert_eq!(*ending, Ending::Stopped);
    assert!(outcome.is_partial());
    let late_s = seconds_late(&simulation, &outcome);
    assert!((30..33).contains(&late_s), "{late_s}");
}

#[test]
fn an_agent_that_beats_and_never_ends_does_not_keep_the_coordinator() {
    let (simulation, outcome) = endless(Script {
        never_stops: true,
        ..Script::default()
    });
    assert_eq!(completes(&outcome), [true, false]);
    let PartResult::Missing(reason) = &outcome.parts[1].result else {
        panic!("{:?}", outcome.parts[1].result);
    };
    let expected = "it went on after the planned end, and did not stop when it was told to";
    assert_eq!(reason.as_str(), expected);
    assert!(outcome.is_partial());
    let is_its_failure = |event: &Event| match event {
        Event::Failed { agent, .. } => *agent == simulation.machines[1].id,
        _ => false,
    };
    assert!(simulation.has_event(is_its_failure));
    assert!(!simulation.has_event(|event| matches!(event, Event::Lost { .. })));
    let late_s = seconds_late(&simulation, &outcome);
    assert!((35..38).contains(&late_s), "{late_s}");
}

#[test]
fn a_run_that_a_number_of_requests_ends_has_no_planned_end() {
    let mut simulation = started(200, 1);
    simulation.go_on_for(190 * S);
    assert!(!simulation.has_event(|event| matches!(event, Event::Stopping(_))));
    assert_eq!(completes(&simulation.finish()), [true]);
}

#[test]
fn a_hub_that_is_restarted_in_mid_run_costs_nothing() {
    let mut simulation = started(20, 3);
    simulation.go_on_for(5 * S);
    simulation.is_hub_down = true;
    simulation.go_on_for(6 * S);
    simulation.is_hub_down = false;
    let outcome = simulation.finish();
    assert_eq!(completes(&outcome), [true, true, true]);
    assert!(!outcome.is_partial());
}

#[test]
fn an_agent_without_its_coordinator_ends_by_itself_and_keeps_its_result() {
    let mut simulation = started(60, 2);
    simulation.go_on_for(5 * S);
    simulation.machines[1].is_cut_off = true;
    let cut_ns = simulation.now_ns;
    simulation.go_on_for(14 * S);
    let ended_ns = simulation.machines[1]
        .fake
        .script()
        .ended_ns
        .expect("it ended by itself");
    let after_ns = ended_ns - simulation.machines[1].clock_ns(cut_ns);
    assert!((8 * S..11 * S).contains(&after_ns), "{after_ns}");
    // The link comes back, and what was measured is not lost.
    simulation.machines[1].is_cut_off = false;
    let outcome = simulation.finish();
    assert_eq!(completes(&outcome), [true, false]);
    assert!(outcome.is_partial());
    let PartResult::Early { ending, bytes } = &outcome.parts[1].result else {
        panic!("{:?}", outcome.parts[1].result);
    };
    assert_eq!(
        (*ending, bytes.as_slice()),
        (Ending::LeaseLapsed, &b"until it was stopped"[..])
    );
}

#[test]
fn agents_whose_coordinator_died_end_and_are_free_for_another_run() {
    let mut simulation = started(60, 2);
    simulation.go_on_for(5 * S);
    simulation.run = None;
    simulation.go_on_for(11 * S);
    for machine in &simulation.machines {
        assert!(machine.fake.script().ended_ns.is_some());
        assert!(!machine.agent.is_busy());
    }
    assert_eq!(simulation.files.names(), [""; 0]);
    simulation
        .machines
        .iter()
        .for_each(|machine| machine.fake.script().lasts_ns = 2 * S);
    assert_eq!(completes(&simulation.whole()), [true, true]);
    simulation.go_on_for(KEEP_NS);
    let before = simulation.sent.len();
    simulation.go_on_for(2 * S);
    assert_eq!(
        simulation.sent.len(),
        before,
        "agents without a run are silent"
    );
}

#[test]
fn a_coordinator_that_dies_before_the_start_leaves_nothing_behind() {
    let mut simulation = lasting(60, 2);
    simulation.begin();
    simulation.go_on_until_event(|event| matches!(event, Event::Prepared { .. }));
    simulation.run = None;
    simulation.go_on_for(12 * S);
    for machine in &simulation.machines {
        assert!(!machine.agent.is_busy());
        assert_eq!(machine.fake.script().start_ns, None);
    }
    assert_eq!(simulation.files.names(), [""; 0]);
}

/// A run in which two of six messages are lost, two are doubled, and one is late.
fn on_a_bad_link(seed: u64, result: &[u8]) -> (Simulation, FleetOutcome) {
    let mut simulation = Simulation::with_scripts((0..3).map(|_| Script {
        result: result.to_vec(),
        lasts_ns: 10 * S,
        ..Script::default()
    }));
    simulation.package.files[1].data = result.to_vec();
    let mut number = numbers(seed);
    let present = simulation
        .call_roll(Number::Total(3))
        .expect("they are there");
    simulation.set_rule(move |_, _, payload| match number() % 6 {
        0 | 3 => Vec::new(),
        1 | 4 => vec![(0, payload.to_vec()), (30 * MS, payload.to_vec())],
        2 => vec![(20 * MS, payload.to_vec())],
        _ => vec![(0, payload.to_vec())],
    });
    simulation.begin_with(present);
    let outcome = simulation.finish();
    (simulation, outcome)
}

#[test]
fn a_third_of_the_messages_lost_and_others_doubled_and_reordered_change_no_result() {
    expect_no_change(0..6);
}

#[test]
fn other_losses_change_no_result_either() {
    expect_no_change(6..12);
}

/// A run for each seed, on a bad link.
fn expect_no_change(seeds: Range<u64>) {
    let result: Vec<u8> = (0..5 * PIECE_BYTES).map(|at| (at / 3) as u8).collect();
    let mut unconfirmed = 0;
    for seed in seeds {
        let (simulation, outcome) = on_a_bad_link(seed, &result);
        match outcome.failure {
            None => {}
            // All orders to start were lost on their way to one agent. Then nobody starts.
            Some(FleetError::Unconfirmed(_)) => {
                let mut machines = simulation.machines.iter();
                assert!(machines.all(|machine| machine.fake.script().ended_ns.is_none()));
                unconfirmed += 1;
                continue;
            }
            Some(other) => panic!("seed {seed}: {other}"),
        }
        for part in outcome.parts {
            assert!(
                part.result == PartResult::Complete(result.clone()),
                "seed {seed}: {}",
                part.agent
            );
        }
        for machine in &simulation.machines {
            assert!(machine.fake.script().files[0].1 == result);
        }
    }
    assert!(unconfirmed <= 1, "{unconfirmed} of 6 runs did not start");
}

#[test]
fn cut_changed_and_oversized_messages_are_ignored_and_asked_for_again() {
    let result: Vec<u8> = (0..3 * PIECE_BYTES).map(|at| (at / 3) as u8).collect();
    let mut simulation = Simulation::with_scripts([Script {
        result: result.clone(),
        ..Script::default()
    }]);
    simulation.package.files[1].data = result.clone();
    let mut number = numbers(5);
    simulation.set_rule(move |_, _, payload| {
        let number = number();
        let mut bad = payload.to_vec();
        match number % 15 {
            0 => bad.truncate(bad.len() / 2),
            // Within the base64 of a piece, so that it stays a message.
            2 if bad.len() > 100_000 => bad[90_000] = if bad[90_000] == b'A' { b'B' } else { b'A' },
            3 => bad.resize(2_000_000, b' '),
            _ => {}
        }
        vec![(0, bad)]
    });
    let outcome = simulation.whole();
    assert_eq!(outcome.failure, None);
    assert!(outcome.parts[0].result == PartResult::Complete(result.clone()));
    assert!(simulation.machines[0].fake.script().files[0].1 == result);
}

#[test]
fn a_late_order_to_start_starts_nobody() {
    let mut simulation = Simulation::new(2);
    simulation.set_rule(|receiver, _, payload| {
        let is_start = String::from_utf8_lossy(payload).contains(r#"\"command\":\"start\""#);
        let delay_ns = if receiver == Receiver::Agent(1) && is_start {
            2_500 * MS
        } else {
            0
        };
        vec![(delay_ns, payload.to_vec())]
    });
    let outcome = simulation.whole();
    let failure = outcome.failure.expect("it did not start").to_string();
    assert_eq!(
        failure,
        "agent a1 did not confirm the start in time; nothing was started"
    );
    simulation.go_on_for(5 * S);
    for machine in &simulation.machines {
        assert!(machine.fake.script().ended_ns.is_none());
        assert!(!machine.agent.is_busy());
    }
    assert_eq!(simulation.machines[1].fake.script().start_ns, None);
}

#[test]
fn agents_whose_replies_come_after_they_are_asked_again_start_all_the_same() {
    let mut simulation = Simulation::new(2);
    simulation.set_rule(|receiver, _, payload| {
        let text = String::from_utf8_lossy(payload);
        let is_clock = text.contains(r#""type":"clock""#);
        let is_late = receiver == Receiver::Coordinator && !is_clock;
        vec![(if is_late { 1_200 * MS } else { 0 }, payload.to_vec())]
    });
    let present = simulation
        .call_roll(Number::Total(2))
        .expect("they are there");
    simulation.begin_with(present);
    let outcome = simulation.finish();
    assert_eq!(outcome.failure, None);
    assert_eq!(completes(&outcome), [true, true]);
}

#[test]
fn an_agent_that_cannot_prepare_ends_the_run_before_it_starts() {
    let mut simulation = Simulation::new(3);
    simulation.machines[1].fake.script().failure = Some("target.lab cannot be resolved");
    let outcome = simulation.whole();
    let failure = outcome.failure.expect("it did not start").to_string();
    assert_eq!(failure, "agent a1: target.lab cannot be resolved");
    for machine in &simulation.machines {
        assert_eq!(machine.fake.script().start_ns, None);
        assert!(!machine.agent.is_busy());
    }
    assert_eq!(simulation.files.names(), [""; 0]);
}

#[test]
fn an_agent_that_says_nothing_ends_the_run_before_it_starts() {
    let mut simulation = Simulation::new(2);
    let present = simulation.call_roll(Number::All).expect("they are there");
    simulation.machines[1].is_frozen = true;
    simulation.begin_with(present);
    let outcome = simulation.finish();
    let failure = outcome.failure.expect("it did not start").to_string();
    assert_eq!(
        failure,
        "agent a1 has not been heard for 10 s; nothing was started"
    );
}

#[test]
fn an_agent_that_fails_during_the_load_is_missing_in_the_result() {
    for (on_lost, others) in [(OnLost::Continue, true), (OnLost::Abort, false)] {
        let mut simulation = lasting(10, 2);
        simulation.on_lost = on_lost;
        {
            let mut script = simulation.machines[0].fake.script();
            script.fails_late = true;
            script.failure = Some("the script failed");
        }
        let outcome = simulation.whole();
        assert_eq!(outcome.failure, None);
        assert_eq!(
            outcome.parts[0].result,
            PartResult::Missing("the script failed".into())
        );
        assert_eq!(completes(&outcome), [false, others]);
        assert!(outcome.is_partial());
    }
}
