//! Who may order what.

use cluster::bus::Outgoing;
use cluster::coordinator::{Event, FleetError, Number};
use cluster::message::{
    Ask, Audience, Command, FromAgent, MAX_MESSAGE_BYTES, Order, Reply, ToAgent, decode, encode,
};
use cluster::names::{AgentId, RunId, Session};
use cluster::refusal::Refusal;

use crate::fake::Script;
use crate::simulation::{S, Simulation, agent_settings, fleet, key};

/// Why a run with these agents does not begin.
fn refusal(simulation: &mut Simulation) -> (AgentId, Refusal) {
    let outcome = simulation.whole();
    let Some(FleetError::Refused(by)) = outcome.failure else {
        panic!("{:?}", outcome.failure);
    };
    for machine in &simulation.machines {
        assert_eq!(machine.fake.script().start_ns, None);
        assert!(!machine.agent.is_busy());
    }
    assert_eq!(simulation.files.names(), [""; 0]);
    (by.agent, by.refusal)
}

#[test]
fn only_a_trusted_key_may_order() {
    let mut simulation = Simulation::new(2);
    simulation.key_seed = 2;
    let (_, refusal) = refusal(&mut simulation);
    let public = key(2).public().to_string();
    assert_eq!(
        refusal.to_string(),
        format!("the key {public} is not trusted; start the agent with --trust {public}")
    );
    assert!(
        simulation
            .machines
            .iter()
            .all(|machine| machine.fake.script().work.is_none())
    );
}

#[test]
fn an_agent_without_scripts_refuses_a_plan_with_one() {
    let mut simulation = Simulation::new(2);
    let mut settings = agent_settings(1, key(1).public(), &simulation.files);
    settings.scripts = false;
    simulation.replace_agent(1, settings);
    let (agent, refusal) = refusal(&mut simulation);
    assert_eq!((agent.as_str(), refusal), ("a1", Refusal::Scripts));
}

#[test]
fn an_agent_refuses_targets_that_are_not_on_its_list() {
    let mut simulation = Simulation::new(1);
    let mut settings = agent_settings(0, key(1).public(), &simulation.files);
    settings.targets = "other.lab".parse().expect("a list");
    simulation.replace_agent(0, settings);
    let (_, refused) = refusal(&mut simulation);
    assert_eq!(
        refused.to_string(),
        "the target target.lab is not one that the agent may send to (--targets other.lab)"
    );
}

#[test]
fn a_run_above_the_limit_of_one_agent_starts_nowhere() {
    let mut simulation = Simulation::new(3);
    let mut settings = agent_settings(2, key(1).public(), &simulation.files);
    settings.limits.connections = Some(1);
    simulation.replace_agent(2, settings);
    let present = simulation.call_roll(Number::All).expect("they are there");
    assert_eq!(present[2].hello.limits, ["more than 1 connections".into()]);
    let (agent, refusal) = refusal(&mut simulation);
    assert_eq!(agent.as_str(), "a2");
    assert_eq!(
        refusal.to_string(),
        "the plan has 10 connections for this agent, which permits at most 1 connections \
         (--max-connections)"
    );
}

#[test]
fn an_agent_of_another_version_refuses_even_if_its_hello_was_overlooked() {
    let mut simulation = Simulation::new(1);
    let present = simulation.call_roll(Number::All).expect("it is there");
    simulation.version = "wrkbench 2".into();
    simulation.begin_with(present);
    let failure = simulation
        .finish()
        .failure
        .expect("it did not start")
        .to_string();
    assert!(
        failure.contains("the agent is wrkbench 1, the coordinator wrkbench 2"),
        "{failure}"
    );
}

/// Sends a message to the agent a0 and returns what it says.
fn say(simulation: &mut Simulation, subject: &str, payload: Vec<u8>) -> Option<Reply> {
    let seen = simulation.sent.len();
    let message = Outgoing {
        subject: subject.to_owned(),
        reply: Some("_INBOX.somebody".to_owned()),
        payload,
    };
    simulation.publish(None, message);
    simulation.go_on_for(S / 10);
    let replies = simulation.sent[seen..].iter();
    replies
        .filter(|message| message.subject == "_INBOX.somebody")
        .find_map(|message| decode::<FromAgent>(&message.payload, MAX_MESSAGE_BYTES).ok())
        .map(|reply| reply.reply)
}

const ASK: &str = "wrkbench.2.lab.ask.a0";
const ALL: &str = "wrkbench.2.lab.all";

#[test]
fn recorded_messages_are_worth_nothing_when_they_are_sent_again() {
    let mut simulation = Simulation::new(1);
    simulation.whole();
    let recorded: Vec<Outgoing> = simulation
        .sent
        .iter()
        .filter(|message| [ASK, ALL].contains(&message.subject.as_str()))
        .cloned()
        .collect();
    assert!(recorded.len() > 10);
    let is_order = |message: &Outgoing| {
        let asked = decode::<ToAgent>(&message.payload, MAX_MESSAGE_BYTES);
        matches!(
            asked,
            Ok(ToAgent {
                ask: Ask::Order(_),
                ..
            })
        )
    };
    simulation.machines[0].fake.script().work = None;
    for delay_ns in [0, 40 * S] {
        simulation.go_on_for(delay_ns);
        for message in recorded.iter().filter(|message| is_order(message)) {
            let reply = say(&mut simulation, &message.subject, message.payload.clone());
            assert!(matches!(reply, None | Some(Reply::Refused(_))), "{reply:?}");
            if message.subject == ASK {
                assert_eq!(reply, Some(Reply::Refused(Refusal::Session)));
            }
        }
    }
    assert!(simulation.machines[0].fake.script().work.is_none());
}

#[test]
fn an_order_within_the_run_cannot_be_repeated_or_kept_for_later() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 100 * S,
        ..Script::default()
    }]);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let is_start = |message: &&Outgoing| {
        String::from_utf8_lossy(&message.payload).contains(r#"\"command\":\"start\""#)
    };
    let start = simulation
        .sent
        .iter()
        .find(is_start)
        .cloned()
        .expect("it was sent");
    let again = say(&mut simulation, ASK, start.payload.clone());
    assert_eq!(again, Some(Reply::Refused(Refusal::Replayed)));
    simulation.go_on_for(40 * S);
    let later = say(&mut simulation, ASK, start.payload);
    assert!(
        matches!(later, Some(Reply::Refused(Refusal::Expired { .. }))),
        "{later:?}"
    );
}

fn order(audience: Audience, run: &str, command: Command) -> Order {
    Order {
        version: "wrkbench 1".into(),
        fleet: fleet(),
        run: run.parse().expect("a name"),
        audience,
        command,
    }
}

fn signed(by: u64, order: &Order) -> Vec<u8> {
    encode(&ToAgent {
        id: 9,
        ask: Ask::Order(key(by).sign(order)),
    })
}

#[test]
fn an_order_must_name_the_fleet_the_session_and_the_run() {
    let mut simulation = Simulation::new(1);
    let present = simulation.call_roll(Number::All).expect("it is there");
    let own = present[0].hello.session.clone();
    let audience = |session: &Session, number: u64| Audience::Agent {
        agent: present[0].agent.clone(),
        session: session.clone(),
        number,
        expires_ns: present[0].now_ns + 20 * S,
    };
    let mut refused = |order: Order| match say(&mut simulation, ASK, signed(1, &order)) {
        Some(Reply::Refused(refusal)) => refusal,
        reply => panic!("{reply:?}"),
    };
    let good = order(audience(&own, 1), "r", Command::Stop);
    let run: RunId = "r".parse().expect("a name");
    assert_eq!(refused(good.clone()), Refusal::UnknownRun { run });
    let mut other_fleet = good.clone();
    other_fleet.fleet = "other".parse().expect("a name");
    assert!(matches!(refused(other_fleet), Refusal::Fleet { .. }));
    let other: Session = "other".parse().expect("a name");
    let other_session = order(audience(&other, 2), "r", Command::Stop);
    assert_eq!(refused(other_session), Refusal::Session);
    let for_all = order(Audience::Run { sequence: 1 }, "r", Command::Stop);
    assert_eq!(refused(for_all), Refusal::Session);
}

#[test]
fn only_the_key_that_prepared_a_run_may_stop_it() {
    let mut simulation = Simulation::with_scripts([Script {
        lasts_ns: 20 * S,
        ..Script::default()
    }]);
    let mut settings = agent_settings(0, key(1).public(), &simulation.files);
    settings.identity.trust =
        cluster::signing::TrustList::new(vec![key(1).public(), key(2).public()]);
    simulation.replace_agent(0, settings);
    simulation.begin();
    simulation.go_on_until_event(|event| *event == Event::Started);
    let run = simulation.machines[0].fake.script().work.is_some();
    assert!(run);
    let lease = simulation
        .sent
        .iter()
        .rev()
        .find_map(
            |message| match decode::<ToAgent>(&message.payload, MAX_MESSAGE_BYTES) {
                Ok(ToAgent {
                    ask: Ask::Order(signed),
                    ..
                }) if message.subject == ALL => Some(signed),
                _ => None,
            },
        )
        .expect("a lease was sent");
    let lease: Order = serde_json::from_str(&lease.text).expect("an order");
    let stop = order(
        Audience::Run { sequence: 1_000 },
        lease.run.as_str(),
        Command::Stop,
    );
    assert_eq!(say(&mut simulation, ALL, signed(2, &stop)), None);
    assert_eq!(say(&mut simulation, ALL, signed(3, &stop)), None);
    assert_eq!(simulation.machines[0].fake.script().ended_ns, None);
    say(&mut simulation, ALL, signed(1, &stop));
    assert!(simulation.machines[0].fake.script().ended_ns.is_some());
}

#[test]
fn an_agent_replies_to_nobody_but_inboxes() {
    let mut simulation = Simulation::new(1);
    let seen = simulation.sent.len();
    let message = Outgoing {
        subject: ASK.to_owned(),
        reply: Some(ALL.to_owned()),
        payload: encode(&ToAgent {
            id: 1,
            ask: Ask::Clock,
        }),
    };
    simulation.publish(None, message);
    simulation.go_on_for(S);
    assert_eq!(simulation.sent.len(), seen + 1);
}
