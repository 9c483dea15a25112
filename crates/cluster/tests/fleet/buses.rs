//! Each bus passes the same suite, in real time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cluster::agent::{Agent, AgentWorld, serve};
use cluster::bus::{Bus, Clock, Hub, Login, Message, Nats, NatsOptions, Outgoing};
use cluster::coordinator::{
    ConnectedRun, Event, FleetOutcome, FleetRun, Member, Number, OnLost, PartResult, RunSettings,
    call_roll,
};
use cluster::generator::{Generator, GeneratorEvent, Work};
use cluster::pieces::PIECE_BYTES;
use cluster::signing::SigningKey;
use testkit::{Folder, Process, WAIT_MAX, eventually, require};

use crate::fake::{Fake, Script};
use crate::simulation::{MS, agent_settings, fleet, key, package, random};

fn clock() -> Clock {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let began = *BEGAN.get_or_init(Instant::now);
    // As if the machine had been on for a while.
    Arc::new(move || (Duration::from_secs(100) + began.elapsed()).as_nanos() as u64)
}

/// Connects an agent by its number, or a coordinator.
type Connect<'a> = &'a (dyn Fn(Option<usize>) -> Box<dyn Bus> + Sync);

fn next(inbox: &Receiver<Message>) -> Message {
    inbox.recv_timeout(WAIT_MAX).expect("a message comes")
}

fn outgoing(subject: &str, reply: Option<String>, payload: &[u8]) -> Outgoing {
    Outgoing {
        subject: subject.to_owned(),
        reply,
        payload: payload.to_vec(),
    }
}

/// Waits for a state.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(|| is_so().then_some(()).ok_or_else(|| what.to_owned()));
}

/// Asks until somebody listens, and returns the reply.
fn asked(bus: &dyn Bus, subject: &str, payload: &[u8]) -> Message {
    let (sender, inbox) = sync_channel(100);
    let reply_to = bus.new_inbox();
    bus.subscribe(&reply_to, &sender).expect("it is open");
    loop {
        let question = outgoing(subject, Some(reply_to.clone()), payload);
        bus.publish(question).expect("it is open");
        if let Ok(reply) = inbox.recv_timeout(Duration::from_millis(200)) {
            return reply;
        }
    }
}

fn messages_reach_everybody_who_listens(connect: Connect<'_>) {
    let (one, other) = (connect(None), connect(None));
    let (sender, inbox) = sync_channel(100);
    let (wild_sender, wild) = sync_channel(100);
    // Before the others, so that it hears whatever they hear.
    one.subscribe("t.*", &wild_sender).expect("it is open");
    one.subscribe("t.a", &sender).expect("it is open");
    one.subscribe("t.b", &sender).expect("it is open");
    let replier = &one;
    let inbox = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let question = next(&inbox);
            let reply_to = question.reply.expect("it wants a reply");
            replier
                .publish(outgoing(&reply_to, None, b"reply"))
                .expect("it is open");
            inbox
        });
        let reply = asked(&*other, "t.a", b"question");
        assert_eq!(reply.payload, b"reply");
        thread.join().expect("it does not panic")
    });
    other
        .publish(outgoing("t.a.b", None, b"deeper"))
        .expect("it is open");
    let large = vec![7; 400_000];
    other
        .publish(outgoing("t.b", None, &large))
        .expect("it is open");
    let arrived = std::iter::repeat_with(|| next(&inbox)).find(|message| message.subject == "t.b");
    let arrived = arrived.expect("it comes");
    assert!(arrived.payload == large && arrived.reply.is_none());
    assert!(arrived.received_ns > Duration::from_secs(100).as_nanos() as u64);
    let subjects: Vec<String> = std::iter::repeat_with(|| next(&wild).subject)
        .take_while(|subject| subject != "t.b")
        .collect();
    assert!(
        !subjects.is_empty() && subjects.iter().all(|subject| subject == "t.a"),
        "{subjects:?}"
    );
    assert_ne!(one.new_inbox(), other.new_inbox());
}

/// A generator whose clock is the real one.
struct InRealTime(Fake, Clock);

impl Generator for InRealTime {
    fn prepare(&mut self, work: Work) {
        self.0.prepare(work);
    }

    fn start_at(&mut self, start_ns: u64) {
        self.0.start_at(start_ns);
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn discard(&mut self) {
        self.0.discard();
    }

    fn next_event(&mut self) -> Option<GeneratorEvent> {
        self.0.script().now_ns = (self.1)();
        self.0.next_event()
    }
}

/// A run with as many agents as there are generators, each in a thread of its own.
fn run(connect: Connect<'_>, fakes: &[Fake], observer: &mut dyn FnMut(&Event)) -> FleetOutcome {
    let files = Folder::new();
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, fake) in fakes.iter().enumerate() {
            let settings = agent_settings(number, key(1).public(), &files);
            let (fake, stopped) = (fake.clone(), &stopped);
            scope.spawn(move || {
                let bus = connect(Some(number));
                let world = AgentWorld {
                    generator: InRealTime(fake, clock()),
                    random: random(number as u64 + 100),
                    wall_clock: Box::new(|| None),
                };
                let mut agent = Agent::new(settings, world);
                serve(&mut agent, &*bus, &clock(), stopped).expect("the bus is open");
            });
        }
        let bus = connect(None);
        let present = call_roll(
            &*bus,
            &clock(),
            fleet(),
            "wrkbench 1".into(),
            Number::Total(fakes.len()),
        );
        // The roll call waits for 10 s.
        let chosen = present.expect("the bus is open").expect("all are there");
        let present = chosen.agents;
        let package = package().encode().expect("it is small");
        let members = present.into_iter().map(|present| Member {
            present,
            package: package.clone(),
        });
        let settings = RunSettings {
            fleet: fleet(),
            version: "wrkbench 1".into(),
            run: "r".parse().expect("a name"),
            on_lost: OnLost::Continue,
            inbox: bus.new_inbox(),
            wall: None,
            length_ns: None,
        };
        let members = members.collect();
        let run = FleetRun::new(settings, key(1), members, clock()());
        let watcher = &mut |event: &Event| observer(event);
        let connected = ConnectedRun::new(run, &*bus, clock());
        let connected = connected.expect("the bus is open");
        let outcome = connected.carry_out(&AtomicBool::new(false), watcher);
        stopped.store(true, Ordering::Relaxed);
        outcome.expect("the bus is open")
    })
}

fn fakes(count: usize, lasts_ns: u64) -> Vec<Fake> {
    let script = |number: usize| Script {
        lasts_ns,
        result: vec![number as u8; 2 * PIECE_BYTES + number],
        ..Script::default()
    };
    (0..count).map(|number| Fake::new(script(number))).collect()
}

fn a_fleet_runs_from_roll_call_to_result(connect: Connect<'_>) {
    a_fleet_of(4, connect);
}

fn a_fleet_of(agents: usize, connect: Connect<'_>) {
    let fakes = fakes(agents, 300 * MS);
    let outcome = run(connect, &fakes, &mut |_| {});
    assert_eq!(outcome.failure, None);
    let start_ns = outcome.start_ns.expect("there was a load");
    for (number, part) in outcome.parts.iter().enumerate() {
        let result = vec![number as u8; 2 * PIECE_BYTES + number];
        assert!(
            part.result == PartResult::Complete(result),
            "{:?}",
            part.agent
        );
        // All clocks are the same one here.
        let clock = part.clock.expect("it was read").offset;
        assert!(
            clock.offset_ns.unsigned_abs() <= clock.bound_ns,
            "{clock:?}"
        );
        let started_ns = fakes[number].script().start_ns.expect("it was started");
        assert!(started_ns.abs_diff(start_ns) <= clock.bound_ns);
    }
}

fn hub() -> impl Fn(Option<usize>) -> Box<dyn Bus> {
    let hub = Hub::new(clock());
    move |_| Box::new(hub.clone())
}

#[test]
fn messages_reach_everybody_who_listens_to_the_hub() {
    messages_reach_everybody_who_listens(&hub());
}

#[test]
fn a_fleet_runs_over_the_hub() {
    a_fleet_runs_from_roll_call_to_result(&hub());
}

/// A NATS server and its address.
struct Server {
    process: Process,
    folder: Folder,
    port: String,
}

impl Server {
    /// Starts a server with more lines of configuration. `None`: it is not installed.
    fn start(configuration: &str) -> Option<Self> {
        let program = require("nats-server")?;
        let folder = Folder::new();
        let process = Self::process(&program, &folder, configuration, "-1");
        let ports = || {
            let names = folder.names();
            let name = names.iter().find(|name| name.ends_with(".ports"))?;
            let ports: serde_json::Value = serde_json::from_str(&folder.read(name)).ok()?;
            let address = ports["nats"][0].as_str()?;
            Some(address.rsplit(':').next()?.to_owned())
        };
        let port = eventually(|| ports().ok_or_else(|| "the server listens".to_owned()));
        Some(Self {
            process,
            folder,
            port,
        })
    }

    fn process(program: &Path, folder: &Folder, configuration: &str, port: &str) -> Process {
        let listen = format!("listen: \"127.0.0.1:{port}\"\n{configuration}\n");
        let file = folder.file_with("nats.conf", listen);
        let mut command = Command::new(program);
        command.args(["--config", &file]);
        command.args(["--ports_file_dir", &folder.file("")]);
        Process::start(command)
    }

    /// Kills the server and starts another one at the same address.
    fn restart(&mut self) {
        let program = require("nats-server").expect("it was there");
        self.kill();
        self.process = Self::process(&program, &self.folder, "", &self.port);
    }

    fn kill(&mut self) {
        if self.process.ended().is_none() {
            self.process.signal("KILL");
            until("it is dead", || self.process.ended().is_some());
        }
    }

    fn options(&self) -> NatsOptions {
        NatsOptions {
            servers: format!("nats://127.0.0.1:{}", self.port),
            name: "test".to_owned(),
            ..NatsOptions::default()
        }
    }

    fn connect(&self) -> Box<dyn Bus> {
        self.connector()(None)
    }

    fn connector(&self) -> impl Fn(Option<usize>) -> Box<dyn Bus> + Sync + use<> {
        let options = self.options();
        move |_| Box::new(Nats::connect(options.clone(), clock()).expect("it listens"))
    }
}

#[test]
fn messages_reach_everybody_who_listens_to_nats() {
    let Some(server) = Server::start("") else {
        return;
    };
    messages_reach_everybody_who_listens(&server.connector());
}

#[test]
fn a_fleet_runs_over_nats() {
    let Some(server) = Server::start("") else {
        return;
    };
    a_fleet_runs_from_roll_call_to_result(&server.connector());
}

#[test]
#[ignore = "has a thousand threads, and needs a machine that does nothing else"]
fn five_hundred_agents_join_and_run_over_nats() {
    let Some(server) = Server::start("") else {
        return;
    };
    let fakes: Vec<Fake> = std::iter::repeat_with(|| Fake::new(Script::default()))
        .take(500)
        .collect();
    let mut began = None;
    let mut widest_ns = 0;
    let outcome = run(&server.connector(), &fakes, &mut |event| {
        let began = began.get_or_insert_with(Instant::now);
        match event {
            Event::Clock { offset, .. } => widest_ns = widest_ns.max(offset.bound_ns),
            Event::Starting { .. } => println!("clocks read after {:?}", began.elapsed()),
            Event::Started => println!("started after {:?}", began.elapsed()),
            _ => {}
        }
    });
    println!("the widest bound of a clock: {widest_ns} ns");
    assert_eq!(outcome.failure, None);
    let complete = outcome
        .parts
        .iter()
        .filter(|part| matches!(part.result, PartResult::Complete(_)))
        .count();
    assert_eq!(complete, 500);
}

#[test]
fn a_fleet_survives_a_restart_of_the_server_in_mid_run() {
    let Some(server) = Server::start("") else {
        return;
    };
    let connect = server.connector();
    let mut server = server;
    let fakes = fakes(3, 2_000 * MS);
    let outcome = run(&connect, &fakes, &mut |event| {
        if *event == Event::Started {
            server.restart();
        }
    });
    assert_eq!(outcome.failure, None);
    for part in &outcome.parts {
        assert!(
            matches!(part.result, PartResult::Complete(_)),
            "{:?}",
            part.result
        );
    }
}

#[test]
fn an_agent_may_wait_for_a_server_that_is_not_there_yet() {
    let Some(mut server) = Server::start("") else {
        return;
    };
    server.kill();
    let error = Nats::connect(server.options(), clock())
        .err()
        .expect("nobody listens");
    let expected = format!("cannot connect to nats://127.0.0.1:{}: ", server.port);
    assert!(error.to_string().starts_with(&expected), "{error}");
    let waiting = NatsOptions {
        listener: Some(Arc::new(|_| {})),
        ..server.options()
    };
    let bus = Nats::connect(waiting, clock()).expect("it waits");
    let (sender, inbox) = sync_channel(10);
    bus.subscribe("t", &sender).expect("it is open");
    assert_eq!(bus.connections(), 0);
    server.restart();
    until("it is connected", || bus.connections() == 1);
    let other = server.connect();
    while inbox.try_recv().is_err() {
        other
            .publish(outgoing("t", None, b"here"))
            .expect("it is open");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_with_tls_and_keys_admits_only_its_users() {
    let folder = Folder::new();
    let authority = certificate_files(&folder);
    let (user, other) = (key(11), key(12));
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n\
         authorization {{ users: [ {{ nkey: \"{}\" }} ] }}",
        folder.file("cert.pem"),
        folder.file("key.pem"),
        user.public()
    );
    let Some(server) = Server::start(&configuration) else {
        return;
    };
    let options = |seed: String| NatsOptions {
        servers: format!("tls://localhost:{}", server.port),
        login: Login::Seed(seed),
        cacert: Some(authority.clone().into()),
        ..server.options()
    };
    let admitted = options(user.seed());
    let connect =
        |_| Box::new(Nats::connect(admitted.clone(), clock()).expect("it may")) as Box<dyn Bus>;
    messages_reach_everybody_who_listens(&connect);
    let refused = |options: NatsOptions| {
        let error = Nats::connect(options, clock()).err().expect("it may not");
        error.to_string()
    };
    let unknown = refused(options(other.seed()));
    assert!(
        unknown.ends_with(
            "the server does not admit this user; check --nats-seed or --nats-creds, and that the \
             server's configuration has the user"
        ),
        "{unknown}"
    );
    let no_seed = refused(options("SU".to_owned()));
    assert!(
        no_seed.contains("this is not the seed of a key"),
        "{no_seed}"
    );
    let untrusted = refused(NatsOptions {
        cacert: None,
        ..options(user.seed())
    });
    assert!(
        untrusted.starts_with("cannot connect to tls://localhost:"),
        "{untrusted}"
    );
}

fn example_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet/nats.conf")
}

/// The example with other keys, names of agents, and files.
fn example(folder: &Folder, users: &[SigningKey; 4]) -> String {
    let text = std::fs::read_to_string(example_file()).expect("it is there");
    let mut users = users.iter();
    let lines = text.lines().map(|line| match line.trim().split_once(": ") {
        Some(("listen", _)) => String::new(),
        Some(("nkey", _)) => {
            let user = users.next().expect("the example has four users");
            format!("nkey: \"{}\"", user.public())
        }
        _ => line.to_owned(),
    });
    let text: Vec<String> = lines.collect();
    assert!(users.next().is_none(), "the example has four users");
    text.join("\n")
        .replace("wrkbench.2.default.", "wrkbench.2.lab.")
        .replace("eu1", "a0")
        .replace("us1", "a1")
        .replace("hub.pem", &folder.file("cert.pem"))
        .replace("hub-key.pem", &folder.file("key.pem"))
}

#[test]
fn the_example_is_valid_as_it_stands() {
    let Some(program) = require("nats-server") else {
        return;
    };
    let folder = Folder::new();
    certificate_files(&folder);
    folder.file_with("hub.pem", folder.read("cert.pem"));
    folder.file_with("hub-key.pem", folder.read("key.pem"));
    let mut command = Command::new(program);
    command.current_dir(folder.path());
    command.arg("-t").arg("-c").arg(example_file());
    let checked = Process::start(command).finish();
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn the_example_admits_coordinator_and_agents_and_nobody_speaks_for_another() {
    let folder = Folder::new();
    let authority = certificate_files(&folder);
    let users = [key(21), key(22), key(23), key(24)];
    let Some(server) = Server::start(&example(&folder, &users)) else {
        return;
    };
    let options = |user: &SigningKey| NatsOptions {
        servers: format!("tls://localhost:{}", server.port),
        login: Login::Seed(user.seed()),
        cacert: Some(authority.clone().into()),
        ..server.options()
    };
    let [coordinator, first, second, host] = users.each_ref().map(options);
    let agents = [first.clone(), second];
    a_fleet_of(2, &|number| {
        let options = number.map_or(&coordinator, |number| &agents[number]);
        Box::new(Nats::connect(options.clone(), clock()).expect("it may"))
    });

    let (sender, heard) = sync_channel(10);
    let bus = Nats::connect(coordinator, clock()).expect("it may");
    bus.subscribe("wrkbench.2.lab.beat.*", &sender)
        .expect("it is open");
    let agent = Nats::connect(first, clock()).expect("it may");
    let subject = |of: &str| outgoing(&format!("wrkbench.2.lab.beat.{of}"), None, b"beat");
    until("its own beat arrives", || {
        for of in ["a1", "a0"] {
            agent.publish(subject(of)).expect("it is open");
        }
        heard
            .try_recv()
            .is_ok_and(|message| message.subject.ends_with("a0"))
    });
    assert!(
        heard
            .try_iter()
            .all(|message| message.subject.ends_with("a0"))
    );

    let (sender, calls) = sync_channel(10);
    let host = Nats::connect(host, clock()).expect("it may");
    host.subscribe("wrkbench.2.lab.host.db1", &sender)
        .expect("it is open");
    std::thread::scope(|scope| {
        let host = &host;
        scope.spawn(move || {
            let inbox = next(&calls).reply.expect("it wants a reply");
            host.publish(outgoing(&inbox, None, b"reply"))
                .expect("it is open");
        });
        let reply = asked(&bus, "wrkbench.2.lab.host.db1", b"call");
        assert_eq!(reply.payload, b"reply");
    });
}

/// Tokens of NATS in operator mode: an account and a user of it, as `nsc` makes them.
fn token(claims: &serde_json::Value, issuer: &nkeys::KeyPair) -> String {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let header = serde_json::json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let text = format!(
        "{}.{}",
        encode(header.to_string().as_bytes()),
        encode(claims.to_string().as_bytes())
    );
    let signature = issuer.sign(text.as_bytes()).expect("it has a seed");
    format!("{text}.{}", encode(&signature))
}

#[test]
fn a_server_in_operator_mode_admits_those_with_credentials_of_an_account() {
    let new = |kind, seed| nkeys::KeyPair::new_from_raw(kind, [seed; 32]).expect("any bytes are");
    let operator = new(nkeys::KeyPairType::Operator, 1);
    let account = new(nkeys::KeyPairType::Account, 2);
    let unlimited = serde_json::json!({"subs": -1, "data": -1, "payload": -1, "imports": -1,
        "exports": -1, "wildcards": true, "conn": -1, "leaf": -1});
    let claims = |issuer: &nkeys::KeyPair, subject: &nkeys::KeyPair, nats: serde_json::Value| {
        let id = subject.public_key();
        serde_json::json!({"jti": id, "iat": 1_700_000_000, "name": "lab", "sub": id,
            "iss": issuer.public_key(), "nats": nats})
    };
    let of_operator = serde_json::json!({"type": "operator", "version": 2});
    let of_account = serde_json::json!({"type": "account", "version": 2, "limits": unlimited});
    let of_user = serde_json::json!({"type": "user", "version": 2, "pub": {}, "sub": {},
        "subs": -1, "data": -1, "payload": -1});
    let configuration = format!(
        "operator: \"{}\"\nresolver: MEMORY\nresolver_preload: {{ {}: \"{}\" }}",
        token(&claims(&operator, &operator, of_operator), &operator),
        account.public_key(),
        token(&claims(&operator, &account, of_account), &operator),
    );
    let Some(server) = Server::start(&configuration) else {
        return;
    };
    let credentials = |issuer: &nkeys::KeyPair| {
        let user = new(nkeys::KeyPairType::User, 3);
        let jwt = token(&claims(issuer, &user, of_user.clone()), issuer);
        let seed = user.seed().expect("it has one");
        let block = |name: &str, text: &str| {
            format!("-----BEGIN {name}-----\n{text}\n------END {name}------\n")
        };
        block("NATS USER JWT", &jwt) + &block("USER NKEY SEED", &seed)
    };
    let options = |text: String| NatsOptions {
        login: Login::Credentials(text),
        ..server.options()
    };
    let admitted = options(credentials(&account));
    a_fleet_of(2, &|_| {
        Box::new(Nats::connect(admitted.clone(), clock()).expect("it may"))
    });
    let foreign = new(nkeys::KeyPairType::Account, 4);
    for (text, why) in [
        (credentials(&foreign), "the server does not admit this user"),
        ("-----BEGIN".to_owned(), "the credentials have no user JWT"),
    ] {
        let refused = Nats::connect(options(text), clock())
            .err()
            .expect("it may not");
        let line = refused.to_string();
        assert!(line.contains(why) && !line.contains('\n'), "{line}");
    }
}

/// Writes a certificate for localhost with its key, and returns the file of its authority.
fn certificate_files(folder: &Folder) -> String {
    let mut authority = rcgen::CertificateParams::new([]).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let authority_file = folder.file_with(
        "ca.pem",
        authority.self_signed(&authority_key).expect("valid").pem(),
    );
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let server_key = rcgen::KeyPair::generate().expect("a key");
    let server = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let server = server.signed_by(&server_key, &issuer).expect("valid");
    folder.file_with("cert.pem", server.pem());
    folder.file_with("key.pem", server_key.serialize_pem());
    authority_file
}

#[test]
fn a_server_that_accepts_only_small_messages_is_refused() {
    let Some(server) = Server::start("max_payload: 100000") else {
        return;
    };
    let error = Nats::connect(server.options(), clock())
        .err()
        .expect("it is too small");
    assert!(
        error.to_string().ends_with(
            "the server accepts messages of 100000 bytes; set its max_payload to at least 524288"
        ),
        "{error}"
    );
}
