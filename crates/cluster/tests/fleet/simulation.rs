//! A coordinator and agents on a simulated bus. Each machine has its own clock; messages take time,
//! and a test may lose, double, delay and change them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use cluster::agent::{Agent, AgentSettings, AgentWorld};
use cluster::bus::{Message, Outgoing};
use cluster::coordinator::{
    AgentPart, Chosen, Event, FleetOutcome, FleetRun, Member, Number, OnLost, Present, RollCall,
    RollCallError, RunSettings, RunVisit, VisitOutcome, VisitPurpose, VisitSettings, Wanted,
};
use cluster::limits::Limits;
use cluster::names::{AgentId, FleetName, Label, Random, RunId};
use cluster::package::{BundledFile, Package};
use cluster::session::Identity;
use cluster::signing::{PublicKey, SigningKey, TrustList};
use cluster::targets::Targets;
use plan::{RunPlan, Target, Weight};
use testkit::Folder;

use crate::fake::{Fake, Script};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * S;

/// Time on the way.
const LATENCY_NS: u64 = 100_000;
/// Between two turns of a machine that gets no message.
const TURN_NS: u64 = 10 * MS;

const INBOX: &str = "_INBOX.coordinator";
const INBOX_OF_VISIT: &str = "_INBOX.visit";

/// Random bytes that differ from call to call and from seed to seed.
pub(crate) fn random(seed: u64) -> Random {
    let mut generator = numbers(seed);
    Box::new(move |bytes| {
        bytes
            .iter_mut()
            .for_each(|byte| *byte = (generator() >> 32) as u8)
    })
}

/// Random numbers by SplitMix64.
pub(crate) fn numbers(mut state: u64) -> impl FnMut() -> u64 + Send {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

pub(crate) fn key(seed: u64) -> SigningKey {
    SigningKey::generate(&mut random(seed))
}

pub(crate) fn fleet() -> FleetName {
    "lab".parse().expect("a name")
}

pub(crate) fn identity(name: &str, place: &str, trusted: &PublicKey) -> Identity {
    Identity {
        fleet: fleet(),
        agent: name.parse().expect("a name"),
        version: "wrkbench 1".into(),
        place: place.into(),
        machine: "beta".into(),
        cores: 2,
        kernel: "Linux 6.1".into(),
        trust: TrustList::new(vec![trusted.clone()]),
    }
}

pub(crate) fn agent_settings(number: usize, trusted: PublicKey, files: &Folder) -> AgentSettings {
    let name = format!("a{number}");
    let place = if number.is_multiple_of(2) {
        "east"
    } else {
        "west"
    };
    AgentSettings {
        identity: identity(&name, place, &trusted),
        scripts: true,
        targets: Targets::default(),
        weight: Weight::default(),
        limits: Limits::default(),
        files: files.path().to_owned(),
    }
}

/// A package with a script and a module.
pub(crate) fn package() -> Package {
    let mut plan = RunPlan::new(Target::parse("http://target.lab/").expect("a URL"));
    plan.request.script = Some("s/script.lua".into());
    let file = |name: &str, data: &[u8]| BundledFile {
        name: name.to_owned().try_into().expect("a file name"),
        data: data.to_vec(),
    };
    Package {
        share: plan
            .deal(&[2])
            .expect("it has connections for all")
            .remove(0),
        title: "laptop, http://target.lab:80".into(),
        details: serde_json::Value::Null,
        files: vec![
            file("s/script.lua", b"require 'm'"),
            file("modules/m.lua", b"return 1"),
        ],
    }
}

pub(crate) struct Machine {
    pub(crate) agent: Agent<Fake>,
    pub(crate) id: AgentId,
    pub(crate) fake: Fake,
    /// How far its clock is ahead.
    pub(crate) ahead_ns: i64,
    /// How much faster its clock runs, in millionths.
    pub(crate) drift_ppm: i64,
    /// SIGKILL and SIGSTOP look the same from outside.
    pub(crate) is_frozen: bool,
    pub(crate) is_cut_off: bool,
    /// What came while it was stopped.
    backlog: Vec<Message>,
}

impl Machine {
    pub(crate) fn clock_ns(&self, now_ns: u64) -> u64 {
        let drifted = (i128::from(now_ns) * i128::from(self.drift_ppm) / 1_000_000) as i64;
        now_ns.saturating_add_signed(self.ahead_ns + drifted)
    }
}

/// What a visit has brought.
#[derive(Debug)]
pub(crate) struct Visits {
    /// By name.
    pub(crate) parts: Vec<AgentPart>,
    pub(crate) others: Vec<(AgentId, VisitOutcome)>,
}

/// Whom a message goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Receiver {
    Coordinator,
    Agent(usize),
}

/// What becomes of a message: the copies that arrive, each with its additional delay.
pub(crate) type Fate = Vec<(u64, Vec<u8>)>;

type Rule = Box<dyn FnMut(Receiver, &str, &[u8]) -> Fate>;

pub(crate) struct Simulation {
    pub(crate) now_ns: u64,
    pub(crate) machines: Vec<Machine>,
    pub(crate) key_seed: u64,
    pub(crate) version: Label,
    pub(crate) on_lost: OnLost,
    pub(crate) package: Package,
    /// The length of the load as the coordinator knows it.
    pub(crate) length_ns: Option<u64>,
    pub(crate) events: Vec<(u64, Event)>,
    /// All messages that were sent.
    pub(crate) sent: Vec<Outgoing>,
    pub(crate) files: Folder,
    pub(crate) run: Option<FleetRun>,
    /// The name of the latest run.
    pub(crate) id: RunId,
    pub(crate) is_hub_down: bool,
    /// The machines that hear a subject.
    hears: BTreeMap<String, Vec<usize>>,
    rule: Rule,
    queue: BinaryHeap<Reverse<(u64, u64, Receiver)>>,
    on_the_way: BTreeMap<u64, Outgoing>,
    number: u64,
}

impl Simulation {
    pub(crate) fn new(agents: usize) -> Self {
        Self::with_scripts((0..agents).map(|_| Script::default()))
    }

    pub(crate) fn with_scripts(scripts: impl IntoIterator<Item = Script>) -> Self {
        let files = Folder::new();
        let machines = scripts.into_iter().enumerate().map(|(number, script)| {
            let settings = agent_settings(number, key(1).public(), &files);
            let fake = Fake::new(script);
            Machine {
                id: settings.identity.agent.clone(),
                agent: Agent::new(settings, world(number as u64, fake.clone())),
                fake,
                ahead_ns: (number as i64 - 1) * (3 * HOUR) as i64,
                drift_ppm: 0,
                is_frozen: false,
                is_cut_off: false,
                backlog: Vec::new(),
            }
        });
        let mut simulation = Self {
            now_ns: 100 * HOUR,
            machines: machines.collect(),
            key_seed: 1,
            version: "wrkbench 1".into(),
            on_lost: OnLost::Continue,
            package: package(),
            length_ns: None,
            events: Vec::new(),
            sent: Vec::new(),
            files,
            run: None,
            id: "none".parse().expect("a name"),
            is_hub_down: false,
            hears: BTreeMap::new(),
            rule: Box::new(|_, _, payload| vec![(0, payload.to_vec())]),
            queue: BinaryHeap::new(),
            on_the_way: BTreeMap::new(),
            number: 0,
        };
        simulation.subscribe();
        simulation
    }

    fn subscribe(&mut self) {
        self.hears.clear();
        for (number, machine) in self.machines.iter().enumerate() {
            for subject in machine.agent.subscriptions() {
                self.hears.entry(subject).or_default().push(number);
            }
        }
    }

    /// Decides about each message.
    pub(crate) fn set_rule(&mut self, rule: impl FnMut(Receiver, &str, &[u8]) -> Fate + 'static) {
        self.rule = Box::new(rule);
    }

    pub(crate) fn replace_agent(&mut self, number: usize, settings: AgentSettings) {
        let machine = &mut self.machines[number];
        let seed = 1_000 + self.number;
        machine.id = settings.identity.agent.clone();
        machine.agent = Agent::new(settings, world(seed, machine.fake.clone()));
        self.subscribe();
    }

    pub(crate) fn call_roll(
        &mut self,
        wanted: impl Into<Wanted>,
    ) -> Result<Vec<Present>, RollCallError> {
        self.choose(wanted).map(|chosen| chosen.agents)
    }

    pub(crate) fn choose(&mut self, wanted: impl Into<Wanted>) -> Result<Chosen, RollCallError> {
        let mut roll_call = RollCall::new(fleet(), self.version.clone(), wanted, self.now_ns);
        while !roll_call.has_ended(self.now_ns) {
            for message in self.step() {
                roll_call.on_message(&message);
            }
            roll_call.on_tick(self.now_ns);
            for message in roll_call.take_outgoing() {
                self.publish(None, message);
            }
        }
        roll_call.into_fleet()
    }

    /// Calls the roll and begins a run with everybody.
    pub(crate) fn begin(&mut self) {
        let present = self.call_roll(Number::All).expect("they can be used");
        self.begin_with(present);
    }

    pub(crate) fn begin_with(&mut self, present: Vec<Present>) {
        let package = self.package.encode().expect("it is small");
        let members = present.into_iter().map(|present| Member {
            present,
            package: package.clone(),
        });
        self.id = format!("run{}", self.number).parse().expect("a name");
        let settings = RunSettings {
            fleet: fleet(),
            version: self.version.clone(),
            run: self.id.clone(),
            on_lost: self.on_lost,
            inbox: INBOX.to_owned(),
            wall: None,
            length_ns: self.length_ns,
        };
        self.run = Some(FleetRun::new(
            settings,
            key(self.key_seed),
            members.collect(),
            self.now_ns,
        ));
    }

    /// Visits the agents of a run that are there, while its coordinator goes on, if there is one.
    pub(crate) fn visit(&mut self, run: &RunId, errand: VisitPurpose) -> Visits {
        let present = self.present();
        self.visit_these(present, run, errand)
    }

    /// The agents that are there, whether they are busy or not.
    pub(crate) fn present(&mut self) -> Vec<Present> {
        let version = self.version.clone();
        let mut roll_call = RollCall::new(fleet(), version, Number::All, self.now_ns);
        self.go_on_with(|simulation, messages| {
            messages.iter().for_each(|it| roll_call.on_message(it));
            roll_call.on_tick(simulation.now_ns);
            for message in roll_call.take_outgoing() {
                simulation.publish(None, message);
            }
            roll_call.has_ended(simulation.now_ns)
        });
        roll_call.into_present()
    }

    pub(crate) fn visit_these(
        &mut self,
        present: Vec<Present>,
        run: &RunId,
        errand: VisitPurpose,
    ) -> Visits {
        let settings = VisitSettings {
            fleet: fleet(),
            version: self.version.clone(),
            run: run.clone(),
            errand,
            inbox: INBOX_OF_VISIT.to_owned(),
        };
        let mut visit = RunVisit::new(settings, key(self.key_seed), present, self.now_ns);
        let (mut parts, began_ns) = (Vec::new(), self.now_ns);
        self.go_on_with(|simulation, messages| {
            assert!(simulation.now_ns < began_ns + 300 * S, "it hangs");
            for message in messages {
                if message.subject == INBOX_OF_VISIT {
                    visit.on_message(message, simulation.now_ns);
                }
            }
            visit.on_tick(simulation.now_ns);
            for message in visit.take_outgoing() {
                simulation.publish(None, message);
            }
            parts.extend(visit.take_parts());
            visit.has_ended(simulation.now_ns)
        });
        let (left, others) = visit.into_outcome();
        parts.extend(left);
        parts.sort_by(|a, b| a.agent.cmp(&b.agent));
        Visits { parts, others }
    }

    /// Goes on until somebody else who takes part has ended.
    pub(crate) fn go_on_with(&mut self, mut turn: impl FnMut(&mut Self, &[Message]) -> bool) {
        loop {
            let messages = self.step();
            let now_ns = self.now_ns;
            for message in &messages {
                if let Some(run) = &mut self.run {
                    run.on_message(message, now_ns);
                }
            }
            self.turn_of_coordinator();
            if turn(self, &messages) {
                return;
            }
        }
    }

    /// Goes on until the run is over, but not for more than ten minutes.
    pub(crate) fn finish(&mut self) -> FleetOutcome {
        let limit_ns = self.now_ns + 600 * S;
        self.go_on_until(|simulation| {
            assert!(
                simulation.now_ns < limit_ns,
                "it hangs: {:?}",
                simulation.events
            );
            simulation.run.as_ref().is_none_or(FleetRun::has_ended)
        });
        self.run.take().expect("it was begun").into_outcome()
    }

    /// A run from the roll call to its end.
    pub(crate) fn whole(&mut self) -> FleetOutcome {
        self.begin();
        self.finish()
    }

    pub(crate) fn go_on_until(&mut self, mut is_enough: impl FnMut(&mut Self) -> bool) {
        while !is_enough(self) {
            for message in self.step() {
                let now_ns = self.now_ns;
                if let Some(run) = &mut self.run {
                    run.on_message(&message, now_ns);
                }
            }
            self.turn_of_coordinator();
        }
    }

    pub(crate) fn go_on_for(&mut self, time_ns: u64) {
        let end_ns = self.now_ns + time_ns;
        self.go_on_until(|simulation| simulation.now_ns >= end_ns);
    }

    pub(crate) fn go_on_until_event(&mut self, is_it: impl Fn(&Event) -> bool) {
        let limit_ns = self.now_ns + 100 * S;
        self.go_on_until(|simulation| {
            assert!(
                simulation.now_ns < limit_ns,
                "it did not come: {:?}",
                simulation.events
            );
            simulation.events.iter().any(|(_, event)| is_it(event))
        });
    }

    pub(crate) fn has_event(&self, is_it: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(|(_, event)| is_it(event))
    }

    pub(crate) fn time_of(&self, is_it: impl Fn(&Event) -> bool) -> u64 {
        let event = self.events.iter().find(|(_, event)| is_it(event));
        event
            .unwrap_or_else(|| panic!("it did not happen: {:?}", self.events))
            .0
    }

    fn turn_of_coordinator(&mut self) {
        let now_ns = self.now_ns;
        let Some(run) = &mut self.run else { return };
        run.on_tick(now_ns);
        let outgoing = run.take_outgoing();
        let events = run.take_events();
        self.events
            .extend(events.into_iter().map(|event| (now_ns, event)));
        for message in outgoing {
            self.publish(None, message);
        }
    }

    /// Goes on to the next moment at which something happens. Returns what the coordinator gets.
    fn step(&mut self) -> Vec<Message> {
        let turn_ns = (self.now_ns / TURN_NS + 1) * TURN_NS;
        let due_ns = self
            .queue
            .peek()
            .map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns);
        self.now_ns = turn_ns.min(due_ns).max(self.now_ns);
        let mut for_coordinator = Vec::new();
        while let Some(Reverse((due_ns, number, receiver))) = self.queue.peek().copied() {
            if due_ns > self.now_ns {
                break;
            }
            self.queue.pop();
            let Some(message) = self.on_the_way.remove(&number) else {
                continue;
            };
            let Outgoing {
                subject,
                reply,
                payload,
            } = message;
            let mut message = Message::new(subject, reply, payload, self.now_ns);
            match receiver {
                Receiver::Coordinator => for_coordinator.push(message),
                Receiver::Agent(number) => {
                    message.received_ns = self.machines[number].clock_ns(self.now_ns);
                    self.machines[number].backlog.push(message);
                    self.turn_of_agent(number);
                }
            }
        }
        if self.now_ns == turn_ns {
            (0..self.machines.len()).for_each(|number| self.turn_of_agent(number));
        }
        for_coordinator
    }

    fn turn_of_agent(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        if machine.is_frozen {
            return;
        }
        let clock_ns = machine.clock_ns(self.now_ns);
        machine.fake.script().now_ns = clock_ns;
        for message in std::mem::take(&mut machine.backlog) {
            machine.agent.on_message(&message, clock_ns);
        }
        machine.agent.on_tick(clock_ns);
        for message in machine.agent.take_outgoing() {
            self.publish(Some(number), message);
        }
    }

    /// Somebody sends a message; `None` is the coordinator, or somebody else.
    pub(crate) fn publish(&mut self, from: Option<usize>, message: Outgoing) {
        self.sent.push(message.clone());
        let is_cut_off = |number: usize| self.machines[number].is_cut_off;
        if self.is_hub_down || from.is_some_and(is_cut_off) {
            return;
        }
        let subject = message.subject.as_str();
        let hears = self.hears.get(subject).into_iter().flatten().copied();
        let mut receivers: Vec<Receiver> = hears
            .filter(|number| !is_cut_off(*number))
            .map(Receiver::Agent)
            .collect();
        if [INBOX, INBOX_OF_VISIT].contains(&subject)
            || subject.contains(".beat.")
            || subject.contains(".hello.")
        {
            receivers.push(Receiver::Coordinator);
        }
        for receiver in receivers {
            for (delay_ns, payload) in (self.rule)(receiver, subject, &message.payload) {
                self.number += 1;
                let due_ns = self.now_ns + LATENCY_NS + delay_ns;
                self.queue.push(Reverse((due_ns, self.number, receiver)));
                let copy = Outgoing {
                    payload,
                    ..message.clone()
                };
                self.on_the_way.insert(self.number, copy);
            }
        }
    }
}

fn world(seed: u64, fake: Fake) -> AgentWorld<Fake> {
    AgentWorld {
        generator: fake,
        random: random(seed + 500),
        wall_clock: Box::new(|| None),
    }
}
