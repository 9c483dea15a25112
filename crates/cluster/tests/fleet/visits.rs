//! Runs whose coordinator is gone: somebody else fetches the results, or ends the load.

use cluster::agent::KEEP_NS;
use cluster::coordinator::{Event, FleetError, Number, PartResult, VisitOutcome, VisitPurpose};
use cluster::message::Ending;
use cluster::pieces::PIECE_BYTES;
use cluster::refusal::Refusal;
use cluster::signing::TrustList;

use crate::fake::Script;
use crate::simulation::{MS, Receiver, S, Simulation, Visits, agent_settings, key, numbers};

/// Agents whose load goes on for so long, after their coordinator has died in the middle of it.
fn orphaned(seconds: u64, agents: usize) -> Simulation {
    let mut simulation = Simulation::with_scripts((0..agents).map(|number| Script {
        lasts_ns: seconds * S,
        // In several pieces.
        result: vec![number as u8; 3 * PIECE_BYTES + number],
        ..Script::default()
    }));
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation.go_on_for(2 * S);
    simulation.run = None;
    simulation
}

fn fetch(simulation: &mut Simulation) -> Visits {
    let id = simulation.id.clone();
    simulation.visit(&id, VisitPurpose::Fetch)
}

fn stop(simulation: &mut Simulation) -> Visits {
    let id = simulation.id.clone();
    simulation.visit(&id, VisitPurpose::Stop)
}

fn others(visits: &Visits) -> Vec<&VisitOutcome> {
    visits.others.iter().map(|(_, what)| what).collect()
}

/// Whether each agent has delivered the result of its whole part.
fn are_whole(visits: &Visits) -> Vec<bool> {
    let parts = visits.parts.iter().enumerate();
    parts
        .map(|(number, part)| match &part.result {
            PartResult::Complete(bytes) => *bytes == vec![number as u8; 3 * PIECE_BYTES + number],
            PartResult::Early { .. } | PartResult::Missing(_) => false,
        })
        .collect()
}

#[test]
fn the_results_of_a_run_whose_coordinator_died_are_fetched_again_and_again() {
    let mut simulation = orphaned(5, 3);
    simulation.go_on_for(30 * S);
    for _ in 0..3 {
        let visits = fetch(&mut simulation);
        assert_eq!(are_whole(&visits), [true; 3]);
        assert_eq!(others(&visits), [&VisitOutcome::Unknown; 0]);
    }
}

#[test]
fn agents_that_ended_without_their_coordinator_say_so() {
    let mut simulation = orphaned(60, 2);
    simulation.go_on_for(12 * S);
    let visits = fetch(&mut simulation);
    assert_eq!(visits.parts.len(), 2);
    for part in visits.parts {
        let PartResult::Early { ending, bytes } = part.result else {
            panic!("{:?}", part.result);
        };
        assert_eq!(ending, Ending::LeaseLapsed);
        assert_eq!(bytes, b"until it was stopped");
    }
}

#[test]
fn a_result_is_offered_until_it_is_dropped() {
    let mut simulation = orphaned(5, 1);
    simulation.go_on_for(20 * S);
    let present = simulation.present();
    let [kept] = present[0].hello.kept.as_slice() else {
        panic!("{:?}", present[0].hello.kept);
    };
    assert_eq!(kept.run, simulation.id);
    assert_eq!(kept.title, simulation.package.title);
    assert!((15_000..20_000).contains(&kept.ended_ms), "{kept:?}");
    // Both are rounded down.
    assert_eq!(kept.ended_ms + kept.left_ms + 1, KEEP_NS / MS);
    simulation.go_on_for(KEEP_NS);
    assert!(simulation.present()[0].hello.kept.is_empty());
    let visits = fetch(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::Unknown]);
    assert!(visits.parts.is_empty());
}

#[test]
fn other_runs_go_on_while_a_result_is_kept_and_fetched() {
    let mut simulation = orphaned(5, 2);
    let first = simulation.id.clone();
    simulation.go_on_for(20 * S);
    // It has called the roll before the results are fetched, which begins sessions.
    let present = simulation.call_roll(Number::All).expect("they are free");
    let visits = simulation.visit(&first, VisitPurpose::Fetch);
    assert_eq!(are_whole(&visits), [true; 2]);
    simulation.begin_with(present);
    simulation.go_on_until_event(|event| *event == Event::Started);
    let visits = simulation.visit(&first, VisitPurpose::Fetch);
    assert_eq!(are_whole(&visits), [true; 2]);
    let outcome = simulation.finish();
    assert!(!outcome.is_partial(), "{outcome:?}");
}

#[test]
fn a_run_that_goes_on_is_not_fetched_and_not_disturbed() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 20 * S,
        ..Script::default()
    }]);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let visits = fetch(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::GoesOn("running")]);
    let outcome = simulation.finish();
    assert!(!outcome.is_partial(), "{outcome:?}");
}

#[test]
fn a_result_that_is_fetched_twice_at_the_same_time_arrives_twice() {
    let mut simulation = orphaned(5, 2);
    simulation.go_on_for(20 * S);
    // Both have read the same session.
    let present = simulation.present();
    let id = simulation.id.clone();
    for _ in 0..2 {
        let visits = simulation.visit_these(present.clone(), &id, VisitPurpose::Fetch);
        assert_eq!(are_whole(&visits), [true; 2]);
    }
}

#[test]
fn results_are_fetched_through_a_network_that_loses_doubles_and_damages_messages() {
    for seed in 0..6 {
        let mut simulation = orphaned(5, 3);
        simulation.go_on_for(20 * S);
        let mut random = numbers(seed);
        simulation.set_rule(move |_, _, payload| match random() % 10 {
            0 => Vec::new(),
            1 => vec![(0, payload.to_vec()), (50 * MS, payload.to_vec())],
            2 => {
                let mut damaged = payload.to_vec();
                let at = random() as usize % damaged.len();
                damaged[at] ^= 1 << (random() % 8);
                vec![(0, damaged)]
            }
            _ => vec![(random() % (100 * MS), payload.to_vec())],
        });
        let present = simulation.present();
        if present.len() < 3 {
            // An introduction was lost or damaged.
            continue;
        }
        let id = simulation.id.clone();
        let visits = simulation.visit_these(present, &id, VisitPurpose::Fetch);
        assert_eq!(
            are_whole(&visits),
            [true; 3],
            "seed {seed}: {:?}",
            visits.others
        );
    }
}

#[test]
fn another_key_gets_no_result_and_ends_no_load() {
    let mut simulation = orphaned(60, 1);
    let id = simulation.id.clone();
    simulation.key_seed = 2;
    for errand in [VisitPurpose::Fetch, VisitPurpose::Stop] {
        let visits = simulation.visit(&id, errand);
        assert!(visits.parts.is_empty());
        let [VisitOutcome::Refused(Refusal::UntrustedKey { .. })] = others(&visits)[..] else {
            panic!("{:?}", visits.others);
        };
    }
    assert!(simulation.machines[0].agent.is_busy());
}

#[test]
fn a_trusted_key_that_did_not_make_the_run_gets_no_result_and_ends_no_load() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 60 * S,
        ..Script::default()
    }]);
    let mut settings = agent_settings(0, key(1).public(), &simulation.files);
    settings.identity.trust = TrustList::new(vec![key(1).public(), key(2).public()]);
    simulation.replace_agent(0, settings);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let id = simulation.id.clone();
    simulation.key_seed = 2;
    for errand in [VisitPurpose::Fetch, VisitPurpose::Stop] {
        let visits = simulation.visit(&id, errand);
        assert_eq!(others(&visits), [&VisitOutcome::Refused(Refusal::OtherKey)]);
    }
    assert!(!simulation.finish().is_partial());
}

#[test]
fn a_recorded_order_brings_no_result_again() {
    let mut simulation = orphaned(5, 1);
    simulation.go_on_for(20 * S);
    let before = simulation.sent.len();
    fetch(&mut simulation);
    let ask = format!(".ask.{}", simulation.machines[0].id);
    let recorded = simulation.sent.split_off(before);
    let orders = recorded.into_iter().filter(|it| it.subject.ends_with(&ask));
    for order in orders {
        let count = simulation.sent.len();
        simulation.publish(None, order);
        simulation.go_on_for(S);
        let replies = &simulation.sent[count + 1..];
        assert!(!replies.is_empty());
        for reply in replies {
            let text = String::from_utf8_lossy(&reply.payload);
            assert!(text.contains(r#""kind":"replayed""#), "{text}");
        }
    }
}

#[test]
fn a_load_is_ended_without_its_coordinator_and_its_results_are_kept() {
    let mut simulation = orphaned(60, 3);
    simulation.go_on_for(S);
    let visits = stop(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::Stopped; 3]);
    assert!(simulation.machines.iter().all(|it| !it.agent.is_busy()));
    let visits = fetch(&mut simulation);
    assert_eq!(visits.parts.len(), 3);
    for part in visits.parts {
        assert!(matches!(
            part.result,
            PartResult::Early {
                ending: Ending::Stopped,
                ..
            }
        ));
    }
    let visits = stop(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::Ended; 3]);
}

#[test]
fn a_coordinator_whose_run_somebody_else_ends_gets_what_was_measured() {
    let mut simulation = Simulation::with_scripts((0..2).map(|_| Script {
        lasts_ns: 60 * S,
        ..Script::default()
    }));
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation.go_on_for(2 * S);
    let visits = stop(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::Stopped; 2]);
    let outcome = simulation.finish();
    assert_eq!(outcome.stop, None);
    assert!(outcome.is_partial());
    for part in outcome.parts {
        assert!(matches!(
            part.result,
            PartResult::Early {
                ending: Ending::Stopped,
                ..
            }
        ));
    }
}

#[test]
fn a_run_that_was_not_started_is_dropped_when_it_is_stopped() {
    let mut simulation = Simulation::with_scripts([Script {
        prepares_ns: 60 * S,
        ..Script::default()
    }]);
    simulation.begin();
    simulation.go_on_for(2 * S);
    let visits = stop(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::Stopped]);
    assert!(!simulation.machines[0].agent.is_busy());
    let failure = simulation.finish().failure;
    assert!(
        matches!(
            failure,
            Some(FleetError::Refused(_) | FleetError::Silent(_))
        ),
        "{failure:?}"
    );
}

#[test]
fn a_load_that_does_not_end_is_reported() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 1_000 * S,
        never_stops: true,
        ..Script::default()
    }]);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation.run = None;
    let began_ns = simulation.now_ns;
    let visits = stop(&mut simulation);
    assert_eq!(others(&visits), [&VisitOutcome::GoesOn("running")]);
    let took_s = (simulation.now_ns - began_ns) / S;
    assert!((10..15).contains(&took_s), "{took_s}");
}

#[test]
fn an_agent_that_dies_before_or_during_the_visit_costs_only_its_own_result() {
    let mut simulation = orphaned(5, 3);
    simulation.go_on_for(20 * S);
    let present = simulation.present();
    let id = simulation.id.clone();
    simulation.machines[0].is_frozen = true;
    // The last one says what it has, and is not heard any more.
    let mut pieces = 0;
    simulation.set_rule(move |receiver, _, payload| {
        let is_piece = receiver == Receiver::Coordinator
            && payload.windows(5).any(|window| window == b"\"a2\",")
            && payload.len() > PIECE_BYTES;
        pieces += usize::from(is_piece);
        if is_piece && pieces > 1 {
            Vec::new()
        } else {
            vec![(0, payload.to_vec())]
        }
    });
    let visits = simulation.visit_these(present, &id, VisitPurpose::Fetch);
    assert_eq!(others(&visits), [&VisitOutcome::Silent]);
    assert_eq!(visits.parts.len(), 2);
    assert!(matches!(visits.parts[0].result, PartResult::Complete(_)));
    assert!(matches!(visits.parts[1].result, PartResult::Missing(_)));
}
