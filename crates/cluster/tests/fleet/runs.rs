//! What a run does when nothing goes wrong.

use cluster::bus::Outgoing;
use cluster::clock::ClockSource;
use cluster::coordinator::{Event, Number, PartResult, Present, RollCall, RollCallError, Wanted};
use cluster::names::AgentId;
use cluster::pieces::PIECE_BYTES;

use crate::fake::Script;
use crate::simulation::{MS, Receiver, S, Simulation, agent_settings, fleet, key};

#[test]
fn all_agents_start_at_one_moment_though_their_clocks_are_hours_apart() {
    let mut simulation = Simulation::new(4);
    simulation.machines[2].drift_ppm = 40;
    let outcome = simulation.whole();
    assert_eq!(outcome.failure, None);
    assert!(!outcome.is_partial());
    let start_ns = outcome.start_ns.expect("there was a load");
    for machine in &simulation.machines {
        let started_ns = machine.fake.script().start_ns.expect("it was started");
        let right_ns = machine.clock_ns(start_ns);
        assert!(
            started_ns.abs_diff(right_ns) < 200_000,
            "{}: {started_ns} {right_ns}",
            machine.id
        );
    }
    for part in &outcome.parts {
        assert_eq!(part.result, PartResult::Complete(b"a result".to_vec()));
        let clock = part.clock.expect("it was read");
        assert_eq!(clock.offset.source, ClockSource::Exchanges);
        assert_eq!(clock.offset.bound_ns, 100_000);
    }
    let places: Vec<&str> = outcome
        .parts
        .iter()
        .map(|part| part.place.as_str())
        .collect();
    assert_eq!(places, ["east", "west", "east", "west"]);
}

#[test]
fn clocks_are_read_again_during_the_load_and_their_drift_is_reported() {
    let mut simulation = Simulation::with_scripts((0..2).map(|_| Script {
        lasts_ns: 21 * S,
        ..Script::default()
    }));
    simulation.machines[1].drift_ppm = -30;
    let outcome = simulation.whole();
    let drifts = outcome.parts.iter().map(|part| {
        let drift = part
            .clock
            .and_then(|clock| clock.drift)
            .expect("20 s lie between");
        assert!(drift.bound_ns_per_sec < 20_000, "{drift:?}");
        drift.ns_per_sec
    });
    let drifts: Vec<i64> = drifts.collect();
    assert!(drifts[0].abs() < 1_000, "{drifts:?}");
    assert!((drifts[1] + 30_000).abs() < 1_000, "{drifts:?}");
}

#[test]
fn the_start_is_two_seconds_ahead_and_farther_on_a_slow_link() {
    let lead_ns = |delay_ns: u64| {
        let mut simulation = Simulation::new(1);
        simulation.set_rule(move |_, _, payload| vec![(delay_ns, payload.to_vec())]);
        let outcome = simulation.whole();
        assert_eq!(outcome.failure, None);
        simulation.events.iter().find_map(|(_, event)| match event {
            Event::Starting { in_ns } => Some(*in_ns),
            _ => None,
        })
    };
    assert_eq!(lead_ns(0), Some(2 * S));
    let slow = lead_ns(150 * MS).expect("it started");
    assert!(slow >= 3 * S, "{slow}");
}

#[test]
fn the_files_of_the_plan_are_private_while_it_runs_and_gone_afterwards() {
    let mut simulation = Simulation::new(2);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let names = simulation.files.names();
    assert_eq!(names.len(), 2, "{names:?}");
    for machine in &simulation.machines {
        let script = machine.fake.script();
        let files = [
            ("modules/m.lua".to_owned(), b"return 1".to_vec()),
            ("s/script.lua".to_owned(), b"require 'm'".to_vec()),
        ];
        assert_eq!(script.files, files);
        let work = script.work.as_ref().expect("it was prepared");
        let path = work
            .package
            .share
            .plan
            .request
            .script
            .as_ref()
            .expect("it has one");
        assert_eq!(std::fs::read(path).expect("it is there"), b"require 'm'");
    }
    let outcome = simulation.finish();
    assert_eq!(outcome.failure, None);
    assert_eq!(simulation.files.names(), [""; 0]);
    assert!(
        simulation
            .machines
            .iter()
            .all(|machine| !machine.agent.is_busy())
    );
}

#[test]
fn a_large_plan_and_large_results_arrive_in_pieces() {
    let result: Vec<u8> = (0..9 * PIECE_BYTES + 17).map(|at| (at / 7) as u8).collect();
    let mut simulation = Simulation::with_scripts((0..3).map(|_| Script {
        result: result.clone(),
        ..Script::default()
    }));
    simulation.package.files[1].data = result.clone();
    let outcome = simulation.whole();
    assert_eq!(outcome.failure, None);
    for part in outcome.parts {
        assert!(part.result == PartResult::Complete(result.clone()));
    }
    for machine in &simulation.machines {
        assert!(machine.fake.script().files[0].1 == result);
    }
    let largest = simulation
        .sent
        .iter()
        .map(|message| message.payload.len())
        .max();
    assert!(largest.is_some_and(|bytes| bytes < 400_000), "{largest:?}");
}

#[test]
fn snapshots_of_each_agent_arrive_during_the_load() {
    let mut simulation = Simulation::new(3);
    simulation.whole();
    for machine in &simulation.machines {
        let is_its =
            |event: &Event| matches!(event, Event::Progress { agent, .. } if *agent == machine.id);
        assert!(simulation.has_event(is_its), "{}", machine.id);
    }
}

#[test]
fn one_run_follows_the_other() {
    let mut simulation = Simulation::new(2);
    for _ in 0..6 {
        let outcome = simulation.whole();
        assert_eq!(outcome.failure, None);
        assert!(!outcome.is_partial());
    }
}

#[test]
fn an_interrupt_ends_the_load_and_keeps_the_results_of_the_time_until_then() {
    let mut simulation = Simulation::with_scripts((0..3).map(|_| Script {
        lasts_ns: 60 * S,
        ..Script::default()
    }));
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    simulation.go_on_for(3 * S);
    let interrupted_ns = simulation.now_ns;
    simulation
        .run
        .as_mut()
        .expect("it runs")
        .interrupt(interrupted_ns);
    let outcome = simulation.finish();
    assert!(simulation.now_ns - interrupted_ns < 2 * S);
    assert!(!outcome.is_partial(), "the user wanted it");
    for part in &outcome.parts {
        let PartResult::Early { bytes, .. } = &part.result else {
            panic!("{:?}", part.result);
        };
        assert_eq!(bytes, b"until it was stopped");
    }
    for machine in &simulation.machines {
        let ended_ns = machine.fake.script().ended_ns.expect("it ended");
        assert!(ended_ns - machine.clock_ns(interrupted_ns) < S);
    }
}

#[test]
fn an_interrupt_before_the_start_leaves_nothing_behind() {
    let mut simulation = Simulation::with_scripts((0..2).map(|_| Script {
        prepares_ns: 5 * S,
        ..Script::default()
    }));
    simulation.begin();
    simulation.go_on_for(2 * S);
    let now_ns = simulation.now_ns;
    simulation.run.as_mut().expect("it runs").interrupt(now_ns);
    let outcome = simulation.finish();
    assert_eq!(
        outcome
            .failure
            .map(|failure| failure.to_string())
            .as_deref(),
        Some("interrupted before the start")
    );
    assert_eq!(outcome.start_ns, None);
    simulation.go_on_for(10 * S);
    assert_eq!(simulation.files.names(), [""; 0]);
    for machine in &simulation.machines {
        assert!(!machine.agent.is_busy());
        assert_eq!(machine.fake.script().start_ns, None);
    }
}

#[test]
fn five_hundred_agents_join_and_run_within_ten_seconds() {
    let mut simulation = Simulation::new(500);
    let began_ns = simulation.now_ns;
    let present = simulation
        .call_roll(Number::Total(500))
        .expect("all are there");
    let joined_ns = simulation.now_ns - began_ns;
    // After the last one it waits for a second whether more come.
    assert!(joined_ns < 2 * S, "{joined_ns}");
    simulation.begin_with(present);
    simulation.go_on_until_event(|event| *event == Event::Started);
    let started_ns = simulation.now_ns - began_ns;
    assert!(started_ns < 10 * S, "{started_ns}");
    let outcome = simulation.finish();
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.parts.len(), 500);
    assert!(!outcome.is_partial());
}

#[test]
fn a_roll_call_of_certain_agents_waits_until_they_are_free() {
    let long = || Script {
        lasts_ns: 4 * S,
        ..Script::default()
    };
    let mut simulation = Simulation::with_scripts([long(), long(), long()]);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    drop(simulation.run.take());
    let [first, second] = [0, 1].map(|number| simulation.machines[number].id.clone());
    simulation.machines[2].is_frozen = true;
    let began_ns = simulation.now_ns;
    let these = named([&first, &second]);
    let present = simulation.call_roll(these.clone()).expect("they are free");
    let names: Vec<_> = present
        .iter()
        .map(|present| present.agent.clone())
        .collect();
    assert_eq!(names, [first, second]);
    let waited_ns = simulation.now_ns - began_ns;
    assert!((3 * S..5 * S).contains(&waited_ns), "{waited_ns}");
    simulation.machines[1].is_frozen = true;
    let absent = simulation.call_roll(these).unwrap_err().to_string();
    assert_eq!(absent, "no response from agent a1 of the fleet lab");
}

fn named<'a>(agents: impl IntoIterator<Item = &'a AgentId>) -> Wanted {
    Wanted {
        names: agents.into_iter().cloned().collect(),
        ..Wanted::default()
    }
}

/// Agents a0 to a5, those with even numbers in the east and the others in the west, of which a5
/// and a0 respond last.
fn six() -> Simulation {
    let mut simulation = Simulation::new(6);
    simulation.set_rule(|receiver, _, payload| {
        let delay_ns = match receiver {
            Receiver::Agent(5) => 400 * MS,
            Receiver::Agent(0) => 350 * MS,
            _ => 0,
        };
        vec![(delay_ns, payload.to_vec())]
    });
    simulation
}

fn at(place: &str, number: Number) -> Wanted {
    Wanted {
        places: vec![place.into()],
        number,
        ..Wanted::default()
    }
}

fn names(present: &[Present]) -> Vec<&str> {
    present.iter().map(|it| it.agent.as_str()).collect()
}

#[test]
fn the_agents_of_a_run_do_not_depend_on_who_responds_first() {
    for (wanted, expected) in [
        (Number::Total(1).into(), &["a0"][..]),
        (Number::Total(4).into(), &["a0", "a1", "a2", "a3"]),
        (Number::PerPlace(1).into(), &["a0", "a1"]),
        (Number::PerPlace(2).into(), &["a0", "a1", "a2", "a3"]),
        (at("west", Number::Total(1)), &["a1"]),
        (at("west", Number::All), &["a1", "a3", "a5"]),
        (at("west", Number::PerPlace(3)), &["a1", "a3", "a5"]),
        (Number::All.into(), &["a0", "a1", "a2", "a3", "a4", "a5"]),
    ] {
        let wanted: Wanted = wanted;
        let present = six().call_roll(wanted.clone()).expect("they are there");
        assert_eq!(names(&present), expected, "{wanted:?}");
    }
}

#[test]
fn agents_that_take_no_part_are_named_with_the_reason() {
    let note = |wanted: Wanted| six().choose(wanted).expect("they are there").note();
    assert_eq!(note(Number::All.into()), None);
    assert_eq!(
        note(at("west", Number::Total(2))).as_deref(),
        Some("4 agents take no part: a0 (at east), a2 (at east), a4 (at east), a5")
    );
    assert_eq!(
        note(Number::Total(5).into()).as_deref(),
        Some("1 agent takes no part: a5")
    );
    let [a1] = ["a1".parse().expect("a name")];
    assert_eq!(note(named([&a1])), None, "the user has chosen");
}

#[test]
fn too_few_agents_at_a_place_are_refused_with_those_that_are_there() {
    let refused = |wanted: Wanted| six().call_roll(wanted).unwrap_err().to_string();
    assert_eq!(
        refused(at("west", Number::Total(4))),
        "3 of 4 agents of the fleet lab at the place west respond: a1, a3, a5"
    );
    assert_eq!(
        refused(Number::PerPlace(4).into()),
        "3 of 4 agents of the fleet lab at the place east respond: a0, a2, a4"
    );
    assert_eq!(
        refused(at("moon", Number::All)),
        "no agent is at the place \"moon\"; there are agents at east, west"
    );
}

#[test]
fn an_agent_of_another_version_prevents_only_runs_that_need_it() {
    let of_another_version = || {
        let mut simulation = Simulation::new(3);
        let mut settings = agent_settings(1, key(1).public(), &simulation.files);
        settings.identity.version = "wrkbench 0".into();
        simulation.replace_agent(1, settings);
        simulation
    };
    for number in [Number::All, Number::Total(2)] {
        let chosen = of_another_version().choose(number).expect("two are left");
        assert_eq!(names(&chosen.agents), ["a0", "a2"]);
        assert_eq!(
            chosen.note().as_deref(),
            Some("1 agent takes no part: a1 (another version: wrkbench 0)")
        );
    }
    let refused = |wanted: Wanted| of_another_version().call_roll(wanted).unwrap_err();
    assert_eq!(
        refused(Number::Total(3).into()).to_string(),
        "2 of 3 agents of the fleet lab respond: a0, a2 (not usable: a1 is wrkbench 0; this is \
         wrkbench 1)"
    );
    let [a1] = ["a1".parse().expect("a name")];
    assert_eq!(
        refused(named([&a1])).to_string(),
        "agent a1 is wrkbench 0, this is wrkbench 1; install the same version on all machines"
    );
}

#[test]
fn two_agents_with_one_name_prevent_only_runs_that_need_it() {
    let doubled = || {
        let mut simulation = Simulation::new(4);
        let settings = agent_settings(2, key(1).public(), &simulation.files);
        simulation.replace_agent(3, settings);
        simulation
    };
    let present = doubled()
        .call_roll(Number::Total(2))
        .expect("two are usable");
    assert_eq!(names(&present), ["a0", "a1"]);
    let error = doubled().call_roll(Number::Total(3)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two agents are called a2; give them different names"
    );
}

#[test]
fn a_run_that_begins_during_a_roll_call_does_not_make_two_agents_of_one() {
    let mut simulation = Simulation::new(2);
    let present = simulation.call_roll(Number::All).expect("all are there");
    let version = simulation.version.clone();
    let mut roll_call = RollCall::new(fleet(), version, Number::All, simulation.now_ns);
    let begins_ns = simulation.now_ns + 300 * MS;
    let mut present = Some(present);
    while !roll_call.has_ended(simulation.now_ns) {
        if simulation.now_ns >= begins_ns
            && let Some(present) = present.take()
        {
            simulation.begin_with(present);
        }
        simulation.go_on_with(|simulation, messages| {
            messages.iter().for_each(|it| roll_call.on_message(it));
            roll_call.on_tick(simulation.now_ns);
            for message in roll_call.take_outgoing() {
                simulation.publish(None, message);
            }
            true
        });
    }
    assert_eq!(roll_call.problem(), None);
    let present = roll_call.into_present();
    assert_eq!(names(&present), ["a0", "a1"]);
    let are_busy = present.iter().all(|it| it.hello.busy.is_some());
    assert!(are_busy, "the run began before the last question");
}

#[test]
fn the_clocks_of_many_far_agents_are_read_at_the_same_time() {
    let mut simulation = Simulation::new(200);
    simulation.set_rule(|_, _, payload| vec![(50 * MS, payload.to_vec())]);
    let present = simulation
        .call_roll(Number::Total(200))
        .expect("all are there");
    let began_ns = simulation.now_ns;
    simulation.begin_with(present);
    simulation.go_on_until_event(|event| matches!(event, Event::Starting { .. }));
    let took_ns = simulation.now_ns - began_ns;
    assert!(took_ns < 5 * S, "{took_ns}");
}

#[test]
fn a_fleet_that_cannot_be_used_says_why() {
    let mut simulation = Simulation::new(0);
    let nobody = simulation.call_roll(Number::All).unwrap_err().to_string();
    assert!(
        nobody.starts_with("no agent of the fleet lab responds"),
        "{nobody}"
    );

    let mut simulation = Simulation::new(3);
    let missing = simulation
        .call_roll(Number::Total(4))
        .unwrap_err()
        .to_string();
    assert_eq!(
        missing,
        "3 of 4 agents of the fleet lab respond: a0, a1, a2"
    );

    let mut simulation = Simulation::new(2);
    simulation.version = "wrkbench 2".into();
    let version = simulation.call_roll(Number::All).unwrap_err();
    assert!(matches!(version, RollCallError::Version { .. }));
    assert!(
        version
            .to_string()
            .contains("is wrkbench 1, this is wrkbench 2"),
        "{version}"
    );

    let mut simulation = Simulation::new(2);
    let settings = agent_settings(0, key(1).public(), &simulation.files);
    simulation.replace_agent(1, settings);
    let same = simulation.call_roll(Number::All).unwrap_err().to_string();
    assert_eq!(same, "two agents are called a0; give them different names");
}

#[test]
fn a_second_coordinator_is_told_who_uses_the_agents_and_until_when() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 100 * S,
        ..Script::default()
    }]);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let run = simulation.run.take();
    let busy = simulation.call_roll(Number::All).unwrap_err();
    let text = busy.to_string();
    let RollCallError::Busy { agent, occupation } = busy else {
        panic!("{text}");
    };
    assert_eq!(agent.as_str(), "a0");
    assert_eq!(occupation.title.as_str(), "laptop, http://target.lab:80");
    // The roll call takes a second of the ten of the plan; the preparations are over.
    let left_ms = occupation.left_ms.expect("it has started");
    assert!((8_000..9_500).contains(&left_ms), "{occupation}");
    assert!(
        (3_000..5_000).contains(&occupation.since_ms),
        "{occupation}"
    );
    assert_eq!(
        text,
        format!(
            "agent a0 is busy with {occupation}; wait for its end or choose other agents \
             (wrkbench fleet status --nats ... lists them)"
        )
    );
    drop(run);
}

#[test]
fn an_introduction_counts_only_on_the_subject_of_the_agent_that_it_names() {
    let mut simulation = Simulation::new(2);
    simulation.call_roll(Number::All).expect("both are there");
    let is_hello = |message: &&Outgoing| message.subject == "wrkbench.2.lab.hello.a1";
    let hello = simulation.sent.iter().find(is_hello).cloned();
    let hello = hello.expect("it introduces itself");
    // Agent a0 says that it is another one. The hub lets it publish on its own subject only.
    let text = String::from_utf8(hello.payload).expect("it is JSON");
    for name in ["a1", "invented"] {
        let payload = text.replace("\"a1\"", &format!("\"{name}\"")).into_bytes();
        let message = Outgoing {
            subject: "wrkbench.2.lab.hello.a0".to_owned(),
            reply: None,
            payload,
        };
        simulation.publish(None, message);
        let present = simulation.call_roll(Number::All).expect("both are there");
        let names: Vec<_> = present.iter().map(|it| it.agent.to_string()).collect();
        assert_eq!(names, ["a0", "a1"]);
    }
}
