//! A run by a fleet is judged by the verdicts of its agents.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use judging::sentences::{finding, verdict_lines};
use judging::{judge, verdict};
use plan::{AgentThreads, Arrivals, Pacing};
use results::fleet::merge;
use results::{
    AgentOutcome, AgentResult, Environment, LostShare, RunResult, Symptom, Verdict, Warning,
};

fn saturated() -> Verdict {
    let symptom = Symptom::SlowScript {
        script_ns: 600_000_000,
        elapsed_ns: 3_000_000_000,
        calls: 0,
    };
    Verdict::Saturated {
        percentiles: Vec::new(),
        symptoms: vec![finding(symptom)],
        remedy: "run again".to_owned(),
    }
}

/// The run of agents with these verdicts, two at the first place and the others at the second.
fn judged(verdicts: &[Option<Verdict>]) -> RunResult {
    changed(verdicts, |_| ())
}

fn changed(verdicts: &[Option<Verdict>], change: impl Fn(&mut RunResult)) -> RunResult {
    let mut plan = fixture::plan();
    plan.load.connections = 4 * verdicts.len() as u32;
    let shares = plan.deal(&vec![2; verdicts.len()]).expect("enough for all");
    let agents = (0..)
        .zip(shares)
        .zip(verdicts)
        .map(|((number, share), verdict)| {
            let outcome = match verdict {
                None => AgentOutcome::Lost(Box::new(LostShare {
                    plan: share.plan,
                    after_ms: 12_000 + number,
                    sent: 100,
                    answered: 90,
                    reason: "no sign of life for 3 s".to_owned(),
                })),
                Some(verdict) => {
                    let mut result = fixture::result(fixture::recording(2000));
                    result.plan = share.plan;
                    result.warnings.clear();
                    result.generator.verdict = verdict.clone();
                    change(&mut result);
                    AgentOutcome::Delivered(Box::new(result))
                }
            };
            AgentResult {
                id: format!("agent-{number}"),
                place: if number < 2 { "here" } else { "there" }.to_owned(),
                worker_base: share.schedule.worker_base,
                weight: share.weight,
                clock_bound_ns: None,
                start_late_ns: None,
                early: None,
                outcome,
            }
        });
    let mut merged = merge(&plan, Environment::default(), agents.collect());
    judge(&mut merged);
    merged
}

#[test]
fn one_saturated_agent_marks_the_whole_and_its_place() {
    let fine = || Some(Verdict::Undisturbed);
    let merged = judged(&[fine(), fine(), Some(saturated()), fine()]);
    assert_eq!(
        verdict_lines(&merged.generator.verdict),
        [
            "load generator saturated: the server may be faster than shown; 1 of 4 agents was \
             saturated; on agent-2: run again",
            "load generator: agent agent-2: the script took 20 % of the time of its threads",
        ]
    );
    let of_place = |index: usize| {
        let result = merged.places[index].result.as_deref();
        result.expect("it delivered").generator.verdict.clone()
    };
    assert_eq!(of_place(0), Verdict::Undisturbed);
    assert!(of_place(1).is_saturated());
    assert_eq!(verdict(&merged, &[]), merged.generator.verdict);
}

/// A run by agents with the weights 1 and 3 at places of their own, 250 and 750 requests/s. `due`
/// is how many requests were due in 3 s on each of them, `saturated` the agent that was.
fn with_weights(due: [u64; 2], saturated_agent: Option<usize>) -> RunResult {
    let mut plan = fixture::plan();
    plan.load.connections = 40;
    plan.pacing = Pacing::Constant {
        rate_per_sec: 1_000.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let threads = [1_u32, 3].map(|weight| AgentThreads {
        threads: 1,
        weight: weight.try_into().expect("it is a weight"),
    });
    let shares = plan.deal(&threads).expect("enough for all");
    let agents = shares.into_iter().enumerate().map(|(number, share)| {
        let mut result = fixture::result(fixture::recording(due[number] - 3));
        result.window.duration_ns = 3_000_000_000;
        result.recording.response_time = result.recording.service_time.clone();
        result.recording.counters.due = due[number];
        result.recording.counters.connections_opened = share.plan.load.connections.into();
        result.plan = share.plan;
        result.warnings.clear();
        judge(&mut result);
        result.generator.verdict = if saturated_agent == Some(number) {
            saturated()
        } else {
            Verdict::Undisturbed
        };
        AgentResult {
            id: format!("agent-{number}"),
            place: format!("place-{number}"),
            worker_base: share.schedule.worker_base,
            weight: share.weight,
            clock_bound_ns: None,
            start_late_ns: None,
            early: None,
            outcome: AgentOutcome::Delivered(Box::new(result)),
        }
    });
    let mut merged = merge(&plan, Environment::default(), agents.collect());
    judge(&mut merged);
    merged
}

/// Whether each agent has the warning that its schedule was not that of its plan.
fn are_off_schedule(result: &RunResult) -> Vec<bool> {
    let is_off = |agent: &AgentResult| {
        let warnings = &agent.result().expect("it delivered").warnings;
        let mut data = warnings.iter().map(|warning| &warning.data);
        data.any(|it| matches!(it, Warning::InconsistentSchedule { .. }))
    };
    result.agents.iter().map(is_off).collect()
}

#[test]
fn an_agent_is_judged_by_the_part_of_the_rate_that_belongs_to_its_weight() {
    assert_eq!(
        are_off_schedule(&with_weights([750, 2_250], None)),
        [false, false]
    );
    // Uneven weights cannot be spread more evenly.
    assert_eq!(
        are_off_schedule(&with_weights([753, 2_247], None)),
        [false, false]
    );
    assert_eq!(
        are_off_schedule(&with_weights([760, 2_250], None)),
        [true, false]
    );
    // As if both had the same weight.
    assert_eq!(
        are_off_schedule(&with_weights([1_500, 1_500], None)),
        [true, true]
    );
}

#[test]
fn one_saturated_agent_marks_the_whole_whatever_its_weight() {
    let due = [750, 2_250];
    assert_eq!(
        with_weights(due, None).generator.verdict,
        Verdict::Undisturbed
    );
    for saturated in 0..2 {
        let merged = with_weights(due, Some(saturated));
        let lines = verdict_lines(&merged.generator.verdict);
        let expected = format!("1 of 2 agents was saturated; on agent-{saturated}: run again");
        assert!(lines[0].ends_with(&expected), "{lines:?}");
        let of_places = merged.places.iter().map(|place| {
            let result = place.result.as_deref().expect("it delivered");
            result.generator.verdict.is_saturated()
        });
        assert_eq!(
            of_places.collect::<Vec<_>>(),
            [saturated == 0, saturated == 1]
        );
    }
}

#[test]
fn a_fleet_is_fine_only_if_all_of_its_agents_are() {
    let fine = || Some(Verdict::Undisturbed);
    let of = |verdicts: &[Option<Verdict>]| judged(verdicts).generator.verdict;
    assert_eq!(of(&[fine(), fine()]), Verdict::Undisturbed);
    assert_eq!(of(&[fine(), Some(Verdict::Unknown)]), Verdict::Unknown);
    // What a lost agent did is not in the numbers.
    assert_eq!(of(&[fine(), None]), Verdict::Undisturbed);
    assert_eq!(of(&[None, None]), Verdict::Unknown);
}

#[test]
fn a_fleet_is_disturbed_if_the_percentiles_of_all_its_agents_together_are() {
    let disturbed = |share: u64| {
        let own_ns = 50_000_000;
        let change = |result: &mut RunResult| {
            let delayed = result.recording.latency().count() / share;
            let recording = &mut result.recording;
            recording.service_time.record_n(own_ns + 1, delayed);
            recording.attribution.delayed(delayed, own_ns + 1, own_ns);
            result.generator.verdict = verdict(result, &[]);
        };
        changed(
            &[Some(Verdict::Undisturbed), Some(Verdict::Undisturbed)],
            change,
        )
    };
    let merged = disturbed(10);
    assert!(merged.generator.verdict.is_disturbed());
    let (symptoms, remedy) = merged.generator.verdict.evidence();
    assert!(
        remedy.starts_with("2 of 2 agents were disturbed; on agent-0: "),
        "{remedy}"
    );
    assert_eq!(symptoms, []);
    assert!(!disturbed(1_000).generator.verdict.is_disturbed());
}

#[test]
fn a_fleet_is_not_fine_if_it_is_not_known_what_one_of_its_agents_caused() {
    let fine = || Some(Verdict::Undisturbed);
    let symptom = Symptom::RunQueueWait {
        worker: 0,
        run_queue_wait_ns: 480,
        elapsed_ns: 1_000,
        threads: 2,
        cpus: Some(2),
    };
    let held_up = Verdict::Disturbed {
        percentiles: Vec::new(),
        symptoms: vec![finding(symptom)],
        remedy: "make room".to_owned(),
    };
    let merged = judged(&[fine(), fine(), Some(held_up.clone()), fine()]);
    assert_eq!(
        verdict_lines(&merged.generator.verdict),
        [
            "load generator disturbed: it did not always run when it should have, and how much of \
             the latency that caused is not known; 1 of 4 agents was disturbed; on agent-2: make \
             room",
            "load generator: agent agent-2: thread 0 waited for a CPU 48 % of the time: another \
             program ran there",
        ]
    );
    let of_place = |index: usize| {
        let result = merged.places[index].result.as_deref();
        result.expect("it delivered").generator.verdict.clone()
    };
    assert_eq!(of_place(0), Verdict::Undisturbed);
    assert!(of_place(1).is_partly_known());
    assert!(
        judged(&[Some(saturated()), Some(held_up)])
            .generator
            .verdict
            .is_saturated()
    );
}

#[test]
fn a_fleet_of_one_has_the_verdict_of_its_agent() {
    assert_eq!(judged(&[Some(saturated())]).generator.verdict, saturated());
}

#[test]
fn of_many_saturated_agents_only_some_are_described() {
    let Verdict::Saturated {
        symptoms, remedy, ..
    } = judged(&vec![Some(saturated()); 100]).generator.verdict
    else {
        panic!("all of them are saturated");
    };
    assert_eq!(symptoms.len(), 4);
    assert_eq!(
        remedy,
        "100 of 100 agents were saturated; on agent-0: run again"
    );
}

#[test]
fn a_lost_agent_makes_the_result_partial() {
    let fine = || Some(Verdict::Undisturbed);
    let merged = judged(&[fine(), None, fine(), fine()]);
    let first = &merged.warnings[merged
        .warnings
        .iter()
        .position(|warning| warning.data.is_headline())
        .expect("there is one")];
    assert_eq!(
        first.text,
        "partial result: agent agent-1 (1 of 4) was lost after 12 s: no sign of life for 3 s; \
         its share of the load (4 connections) was not sent by others, and what it measured is \
         missing"
    );
    let two = judged(&[fine(), None, fine(), None]);
    let text = two.warnings.iter().map(ToString::to_string);
    let text: Vec<String> = text.filter(|text| text.starts_with("partial")).collect();
    assert_eq!(text.len(), 1);
    assert!(
        text[0].contains("2 of 4 agents were lost, agent-1 first, after 12"),
        "{text:?}"
    );
    // The place that lost no agent is complete.
    let of_place = |index: usize| {
        let result = merged.places[index]
            .result
            .as_deref()
            .expect("it delivered");
        let partial =
            |warning: &&results::Finding<Warning>| matches!(warning.data, Warning::Partial { .. });
        result.warnings.iter().find(partial).is_some()
    };
    assert!(of_place(0) && !of_place(1));
}

#[test]
fn what_only_agents_can_know_is_in_the_warnings_of_the_whole() {
    let fine = || Some(Verdict::Undisturbed);
    let merged = changed(&[fine(), fine()], |result| {
        result.warnings = vec![
            finding(Warning::GaveUp {
                sent: 1,
                wanted: 2,
                is_refused: false,
            }),
            finding(Warning::ScriptStuck {
                worker: 3,
                agent: None,
            }),
        ];
    });
    let found: Vec<&Warning> = merged.warnings.iter().map(|it| &it.data).collect();
    let gave_up = Warning::GaveUp {
        sent: merged.recording.counters.sent,
        wanted: 0,
        is_refused: false,
    };
    assert!(found.contains(&&gave_up), "{found:?}");
    let texts: Vec<&str> = merged.warnings.iter().map(|it| it.text.as_str()).collect();
    for agent in ["agent-0", "agent-1"] {
        let stuck = format!("the script of thread 3 of agent {agent} did not return before ");
        let named = texts.iter().filter(|text| text.starts_with(&stuck));
        assert_eq!(named.count(), 1, "{texts:?}");
    }
}

#[test]
fn the_connections_of_lost_agents_are_missing_with_them_and_not_unestablished() {
    let fine = || Some(Verdict::Undisturbed);
    let missing = |merged: &RunResult| {
        let of_places = merged.places.iter().filter_map(|it| it.result.as_deref());
        let of_all = std::iter::once(merged).chain(of_places);
        let warnings = of_all.flat_map(|result| &result.warnings);
        let is_missing = |warning: &&results::Finding<Warning>| {
            matches!(warning.data, Warning::ConnectionsMissing { .. })
        };
        let missing = warnings.filter(is_missing);
        missing.map(|it| it.text.clone()).collect::<Vec<_>>()
    };
    let opened = |connections: u64| {
        move |result: &mut RunResult| {
            let counters = &mut result.recording.counters;
            counters.connections_opened = connections;
            counters.connections_at_start = 0;
        }
    };
    let merged = changed(&[fine(), None, fine()], opened(4));
    assert_eq!(missing(&merged), [""; 0]);
    let share = "; its share of the load (4 connections) was not sent by others, and";
    let is_partial =
        |it: &results::Finding<Warning>| it.data.is_partial() && it.text.contains(share);
    assert!(
        merged.warnings.iter().any(is_partial),
        "{:?}",
        merged.warnings
    );
    // One that an agent could not establish is still reported, for all and for each place.
    let merged = changed(&[fine(), None, fine()], opened(3));
    assert_eq!(
        missing(&merged),
        [
            "only 6 of 8 connections were established: the load was lighter than asked for",
            "only 3 of 4 connections were established: the load was lighter than asked for",
            "only 3 of 4 connections were established: the load was lighter than asked for",
        ]
    );
}

#[test]
fn the_agents_contradictions_are_not_looked_for_in_the_whole() {
    let fine = || Some(Verdict::Undisturbed);
    let merged = changed(&[fine(), fine()], |result| {
        // An agent that stopped earlier than the others.
        result.window.duration_ns /= 2;
    });
    let is_contradiction = |warning: &results::Finding<Warning>| {
        matches!(
            warning.data,
            Warning::InconsistentConcurrency { .. } | Warning::InconsistentSchedule { .. }
        )
    };
    assert!(!merged.warnings.iter().any(is_contradiction));
}
