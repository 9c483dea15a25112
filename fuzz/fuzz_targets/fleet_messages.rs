//! Any bytes as a message of a fleet: to an agent, to a coordinator, as a plan, to and from a host
//! that a sweep changes. An order may be signed by a trusted key, since signatures cannot be
//! guessed.

#![no_main]

#[path = "../given.rs"]
mod given;

use cluster::agent::{Agent, AgentSettings, AgentWorld};
use cluster::bus::Message;
use cluster::coordinator::{FleetRun, Member, OnLost, Present, RollCall, RunSettings, Wanted};
use cluster::generator::{Generator, GeneratorEvent, Work};
use cluster::host::{
    CallerSettings, DeputyEvent, HostCaller, HostDeputies, HostDeputy, HostServer,
};
use cluster::message::{
    Ask, Audience, Command, FromAgent, Hello, MAX_BEAT_BYTES, MAX_MESSAGE_BYTES, Order, Reply,
    Stage, ToAgent, decode, encode,
};
use cluster::names::Random;
use cluster::package::Package;
use cluster::session::Identity;
use cluster::signing::{SigningKey, TrustList};
use experiment::HostCall;
use libfuzzer_sys::fuzz_target;

const NOW_NS: u64 = 1_000_000_000_000;
const INBOX: &str = "_INBOX.c";

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    match how % 8 {
        0 => agent_gets("wrkbench.2.lab.ask.a", rest.to_vec()),
        1 => agent_gets("wrkbench.2.lab.all", rest.to_vec()),
        2 => {
            if let Ok(order) = decode::<Order>(rest, MAX_MESSAGE_BYTES) {
                let ask = Ask::Order(key().sign(&order));
                agent_gets("wrkbench.2.lab.ask.a", encode(&ToAgent { id: 1, ask }));
            }
        }
        3 => coordinator_gets(rest),
        4 => host_gets(vec![rest.to_vec()]),
        5 => {
            // The session is open.
            let orders = rest.split(|byte| *byte == b'\n');
            let orders = orders.filter_map(|text| decode(text, MAX_MESSAGE_BYTES).ok());
            let orders: Vec<Order> = std::iter::once(open_order()).chain(orders).collect();
            let signed = orders.iter().map(|order| {
                let ask = Ask::Order(key().sign(order));
                encode(&ToAgent { id: 1, ask })
            });
            host_gets(signed.collect());
        }
        6 => caller_gets(rest),
        _ => {
            if let Ok(package) = Package::decode(rest) {
                for file in &package.files {
                    let parts = file.name.as_path().components();
                    assert!(
                        parts
                            .into_iter()
                            .all(|part| { matches!(part, std::path::Component::Normal(_)) })
                    );
                }
                let again = package.encode().expect("it was small enough to arrive");
                assert_eq!(Package::decode(&again).ok(), Some(package));
            }
        }
    }
});

struct Nothing;

impl Generator for Nothing {
    fn prepare(&mut self, _: Work) {}
    fn start_at(&mut self, _: u64) {}
    fn stop(&mut self) {}
    fn discard(&mut self) {}
    fn next_event(&mut self) -> Option<GeneratorEvent> {
        None
    }
}

fn random() -> Random {
    Box::new(|bytes| bytes.fill(7))
}

fn key() -> SigningKey {
    SigningKey::generate(&mut random())
}

fn message(subject: &str, payload: Vec<u8>) -> Message {
    let reply = Some(INBOX.to_owned());
    Message::new(subject.to_owned(), reply, payload, NOW_NS)
}

fn identity(name: &str) -> Identity {
    Identity {
        fleet: "lab".parse().expect("a name"),
        agent: name.parse().expect("a name"),
        version: "1".into(),
        place: "p".into(),
        machine: "m".into(),
        cores: 1,
        kernel: "k".into(),
        trust: TrustList::new(vec![key().public()]),
    }
}

/// One line for each refusal that an agent replies with.
fn check_reply(payload: &[u8]) {
    let answer: FromAgent = decode(payload, MAX_MESSAGE_BYTES).expect("a reply can be read");
    if let Reply::Refused(refusal) = answer.reply {
        given::one_line(&refusal.to_string());
    }
}

fn agent_gets(subject: &str, payload: Vec<u8>) {
    let settings = AgentSettings {
        identity: identity("a"),
        scripts: true,
        targets: Default::default(),
        weight: Default::default(),
        limits: Default::default(),
        files: "/nowhere".into(),
    };
    let world = AgentWorld {
        generator: Nothing,
        random: random(),
        wall_clock: Box::new(|| None),
    };
    let mut agent = Agent::new(settings, world);
    agent.on_message(&message(subject, payload), NOW_NS);
    agent.on_tick(NOW_NS + 1);
    for sent in agent.take_outgoing() {
        assert!(sent.payload.len() <= MAX_BEAT_BYTES);
        if sent.subject == INBOX {
            check_reply(&sent.payload);
        }
    }
}

/// The session that a host begins with: all of its random bytes are 7.
const SESSION: &str = "07070707070707070707070707070707";

fn open_order() -> Order {
    Order {
        version: "1".into(),
        fleet: "lab".parse().expect("a name"),
        run: "r".parse().expect("a name"),
        audience: Audience::Agent {
            agent: "db1".parse().expect("a name"),
            session: SESSION.parse().expect("a name"),
            number: 1,
            expires_ns: NOW_NS + 1_000_000_000,
        },
        command: Command::Open,
    }
}

struct Deputies;

struct Deputy(Option<DeputyEvent>);

impl HostDeputies for Deputies {
    type Deputy = Deputy;

    fn start(&mut self) -> std::io::Result<Deputy> {
        Ok(Deputy(None))
    }
}

impl HostDeputy for Deputy {
    fn begin(&mut self, call: &[u8]) {
        assert_eq!(self.0, None, "the call before has its reply");
        if let Ok(call) = serde_json::from_slice::<HostCall>(call) {
            let again = serde_json::to_vec(&call).expect("a call can be written");
            assert_eq!(serde_json::from_slice(&again).ok(), Some(call));
        }
        self.0 = Some(DeputyEvent::Replied(call.to_vec()));
    }

    fn next_event(&mut self) -> Option<DeputyEvent> {
        self.0.take()
    }
}

fn host_gets(payloads: Vec<Vec<u8>>) {
    let mut server = HostServer::new(identity("db1"), Deputies, random());
    for payload in payloads {
        server.on_message(&message("wrkbench.2.lab.host.db1", payload), NOW_NS);
        server.on_tick(NOW_NS + 1);
        for sent in server.take_outgoing() {
            assert_eq!(sent.subject, INBOX);
            check_reply(&sent.payload);
        }
        for line in server.take_news() {
            given::one_line(&line);
        }
    }
}

/// A coordinator that looks for a host, has one, and waits for the reply to a call.
fn caller_gets(payload: &[u8]) {
    let settings = CallerSettings {
        fleet: "lab".parse().expect("a name"),
        version: "1".into(),
        run: "r".parse().expect("a name"),
        host: "db1".parse().expect("a name"),
        inbox: INBOX.to_owned(),
    };
    let mut caller = HostCaller::new(settings, key(), NOW_NS);
    let is_open = Reply::Stage {
        call: 0,
        stage: Stage::Open,
    };
    let mut now_ns = NOW_NS;
    for (id, good) in [(1, Reply::Hello(Box::new(hello(SESSION)))), (2, is_open)] {
        caller.on_tick(now_ns);
        caller.on_message(&message(INBOX, payload.to_vec()), now_ns);
        let answer = FromAgent {
            version: "1".into(),
            agent: "db1".parse().expect("a name"),
            id,
            now_ns,
            reply: good,
        };
        caller.on_message(&message(INBOX, encode(&answer)), now_ns);
        now_ns += 260_000_000;
    }
    caller.begin(vec![1; 100_000], now_ns);
    for part in payload.split(|byte| *byte == b'\n') {
        caller.on_message(&message(INBOX, part.to_vec()), now_ns);
        caller.on_tick(now_ns);
    }
    if let Some(Err(error)) = caller.take_reply() {
        given::one_line(&error.to_string());
    }
    for sent in caller.take_outgoing() {
        assert!(sent.payload.len() <= MAX_MESSAGE_BYTES);
    }
}

fn hello(session: &str) -> Hello {
    Hello {
        kept: Vec::new(),
        session: session.parse().expect("a name"),
        place: "p".into(),
        machine: "m".into(),
        cores: 1,
        kernel: "k".into(),
        busy: None,
        scripts: true,
        weight: plan::Weight::default(),
        targets: Vec::new(),
        limits: Vec::new(),
        wall: None,
    }
}

fn coordinator_gets(payload: &[u8]) {
    let fleet = "lab".parse().expect("a name");
    let mut roll_call = RollCall::new(fleet, "1".into(), Wanted::default(), NOW_NS);
    let subject = "wrkbench.2.lab.hello.a1";
    roll_call.on_message(&message(subject, payload.to_vec()));
    if let Err(error) = roll_call.into_fleet() {
        given::one_line(&error.to_string());
    }
    let member = Member {
        present: Present {
            agent: "a".parse().expect("a name"),
            version: "1".into(),
            hello: hello("s"),
            now_ns: 1,
            heard_ns: NOW_NS,
        },
        package: vec![1; 10],
    };
    let settings = RunSettings {
        fleet: "lab".parse().expect("a name"),
        version: "1".into(),
        run: "r".parse().expect("a name"),
        on_lost: OnLost::Abort,
        inbox: INBOX.to_owned(),
        wall: None,
        length_ns: Some(1_000_000_000),
    };
    let mut run = FleetRun::new(settings, key(), vec![member], NOW_NS);
    for subject in [INBOX, "wrkbench.2.lab.beat.a"] {
        run.on_tick(NOW_NS);
        run.on_message(&message(subject, payload.to_vec()), NOW_NS);
    }
    run.on_tick(NOW_NS + 1);
}
