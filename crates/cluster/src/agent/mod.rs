//! An agent: receives a plan, prepares it, makes its part of the load, keeps the result.
//!
//! [`Agent`] is a state machine: messages, events of the load generator and the time go in,
//! messages come out. [`serve`] connects it to a bus.

mod serve;

pub use serve::serve;

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::bus::{Message, Outgoing, is_inbox};
use crate::clock::WallClock;
use crate::folder::PrivateFolder;
use crate::generator::{Generator, GeneratorEvent, Work};
use crate::message::{
    Ask, Audience, Beat, Command, Ending, FromAgent, Hello, MAX_MESSAGE_BYTES, MAX_MISSING,
    MAX_NOTES, Order, Reply, Stage, Subjects, ToAgent, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, Random, RunId, Session};
use crate::package::{MAX_PACKAGE_BYTES, Package, PackageError};
use crate::pieces::{Assembly, Content, Digest, piece};
use crate::refusal::Refusal;
use crate::signing::{PublicKey, ReplayWindow, TrustList};
use crate::targets::Targets;

/// Time between two beats.
pub const BEAT_NS: u64 = 500_000_000;

/// An agent that hears nothing from its coordinator for so long ends the load by itself.
pub const LEASE_NS: u64 = 10_000_000_000;

/// How long a result is kept to be fetched.
pub const KEEP_NS: u64 = 300_000_000_000;

/// How many results are kept. Those of a sweep are fetched one by one.
const KEPT_RUNS: usize = 4;

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The fleet.
    pub fleet: FleetName,
    /// The name of this agent, which no other one has.
    pub agent: AgentId,
    /// The version of this program. Coordinators with another one are refused.
    pub version: Label,
    /// Where it is: `eu-vm/internal`.
    pub place: Label,
    /// The name of the machine.
    pub host: Label,
    /// Cores it may use.
    pub cores: u32,
    /// Name and version of the kernel.
    pub kernel: Label,
    /// Whose orders it obeys.
    pub trust: TrustList,
    /// Whether it runs scripts.
    pub scripts: bool,
    /// What it may send to.
    pub targets: Targets,
    /// Where the files of a run get their private folder.
    pub files: PathBuf,
}

/// What an agent needs from the world besides messages.
pub struct AgentWorld<G> {
    /// Makes the load of the agent.
    pub generator: G,
    /// Random bytes.
    pub random: Random,
    /// Reads the wall clock, if the kernel says that it is synchronized.
    pub wall_clock: Box<dyn FnMut() -> Option<WallClock> + Send>,
}

/// An agent.
pub struct Agent<G> {
    settings: AgentSettings,
    world: AgentWorld<G>,
    subjects: Subjects,
    /// What the order to prepare the next run must name.
    session: Session,
    run: Option<Run>,
    kept: VecDeque<Run>,
    outgoing: Vec<Outgoing>,
}

/// A run on this agent.
struct Run {
    id: RunId,
    /// The key that ordered it. No other one may give orders.
    key: PublicKey,
    session: Session,
    progress: Progress,
    /// Why the load ends, if it has been stopped.
    ending: Ending,
    /// The files of the plan.
    folder: Option<PrivateFolder>,
    /// Until when the coordinator is taken to be alive.
    lease_ns: u64,
    /// The numbers of its orders for this agent.
    accepted: ReplayWindow,
    /// The latest order for all agents of the run.
    sequence: u64,
    beat_due_ns: u64,
    beats: u64,
    snapshot: Option<serde_json::Value>,
}

/// How far a run is.
enum Progress {
    Receiving(Assembly),
    Preparing,
    Prepared {
        notes: Vec<Label>,
    },
    Running {
        start_ns: u64,
    },
    Finished {
        result: Vec<u8>,
        content: Content,
        ended_ns: u64,
    },
    Failed {
        reason: Label,
        ended_ns: u64,
    },
}

impl Progress {
    fn stage(&self, ending: Ending) -> Stage {
        match self {
            Self::Receiving(assembly) => Stage::Receiving {
                missing: assembly.missing().take(MAX_MISSING).collect(),
            },
            Self::Preparing => Stage::Preparing,
            Self::Prepared { notes } => Stage::Prepared {
                notes: notes.clone(),
            },
            Self::Running { .. } => Stage::Running,
            Self::Finished { content, .. } => Stage::Finished {
                content: *content,
                ending,
            },
            Self::Failed { reason, .. } => Stage::Failed {
                reason: reason.clone(),
            },
        }
    }

    fn ended_ns(&self) -> Option<u64> {
        match self {
            Self::Finished { ended_ns, .. } | Self::Failed { ended_ns, .. } => Some(*ended_ns),
            _ => None,
        }
    }
}

impl<G: Generator> Agent<G> {
    /// An agent without a run.
    pub fn new(settings: AgentSettings, mut world: AgentWorld<G>) -> Self {
        Self {
            subjects: Subjects::new(&settings.fleet),
            session: Session::random(&mut world.random),
            run: None,
            kept: VecDeque::new(),
            outgoing: Vec::new(),
            settings,
            world,
        }
    }

    /// The subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscriptions(&self) -> [String; 2] {
        [self.subjects.all(), self.subjects.ask(&self.settings.agent)]
    }

    /// Takes a message of one of the [subscriptions](Self::subscriptions). `now_ns` is read after
    /// it was taken from the bus.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        let is_for_all = message.subject == self.subjects.all();
        let asked: ToAgent = match decode(&message.payload, MAX_MESSAGE_BYTES) {
            Ok(asked) => asked,
            Err(error) => {
                let detail = Label::new(&error.to_string());
                let refused = Reply::Refused(Refusal::Malformed { detail });
                return self.reply(message, 0, refused, now_ns);
            }
        };
        let reply = match asked.ask {
            Ask::RollCall => Ok(Reply::Hello(self.hello())),
            Ask::Clock => Ok(Reply::Clock {
                received_ns: message.received_ns,
            }),
            Ask::Piece { run, piece } => self.on_piece(&run, piece, now_ns),
            Ask::Order(signed) => {
                let opened = self.settings.trust.open(&signed);
                opened.and_then(|(key, order)| self.on_order(&key, order, is_for_all, now_ns))
            }
        };
        // Nobody waits for hundreds of replies to an order for all.
        if !is_for_all || matches!(reply, Ok(Reply::Hello(_))) {
            let reply = reply.unwrap_or_else(Reply::Refused);
            self.reply(message, asked.id, reply, now_ns);
        }
    }

    /// Takes what the load generator reports, says that the agent is alive, and drops what is too
    /// old. To be called every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        while let Some(event) = self.world.generator.next_event() {
            self.on_generator(event, now_ns);
        }
        self.kept.retain(|run| run.is_kept(now_ns));
        if let Some(run) = self.run.as_ref().filter(|run| now_ns >= run.lease_ns) {
            match run.progress.ended_ns() {
                // The coordinator may come back for it.
                Some(_) => self.put_aside(),
                None => self.on_lease_lapsed(),
            }
        }
        self.beat(now_ns);
    }

    /// Ends the load and drops everything: the agent is being stopped.
    pub fn close(&mut self) {
        self.world.generator.discard();
        self.run = None;
        self.kept.clear();
    }

    /// Whether a run is being prepared or is going on.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_busy)
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    fn hello(&mut self) -> Hello {
        let settings = &self.settings;
        let busy = self.run.as_ref().filter(|run| run.is_busy());
        Hello {
            session: self.session.clone(),
            place: settings.place.clone(),
            machine: settings.host.clone(),
            cores: settings.cores,
            kernel: settings.kernel.clone(),
            busy: busy.map(|run| run.id.clone()),
            scripts: settings.scripts,
            targets: settings.targets.labels(),
            wall: (self.world.wall_clock)(),
        }
    }

    fn on_order(
        &mut self,
        key: &PublicKey,
        order: Order,
        is_for_all: bool,
        now_ns: u64,
    ) -> Result<Reply, Refusal> {
        let accepted = self.check_order(key, &order, is_for_all, now_ns)?;
        let Order { run, command, .. } = order;
        if let Command::Prepare { content, pieces } = command {
            return self.on_prepare(key, accepted, run, content, &pieces, now_ns);
        }
        if let Command::Release = command {
            return Ok(self.on_release(&run));
        }
        let known = self
            .known_mut(&run)
            .ok_or_else(|| Refusal::UnknownRun { run: run.clone() })?;
        known.lease_ns = now_ns.saturating_add(LEASE_NS);
        match command {
            Command::Lease => {}
            Command::Stop => self.stop(&run),
            Command::Start { start_ns } => self.on_start(&run, start_ns, now_ns)?,
            Command::Fetch { index } => return known.piece_of_result(index),
            Command::Prepare { .. } | Command::Release => {}
        }
        self.stage_of(&run)
    }

    /// Returns the numbers of the orders that were accepted, for a new run.
    fn check_order(
        &mut self,
        key: &PublicKey,
        order: &Order,
        is_for_all: bool,
        now_ns: u64,
    ) -> Result<ReplayWindow, Refusal> {
        if order.version != self.settings.version {
            return Err(Refusal::Version {
                agent: self.settings.version.clone(),
                coordinator: order.version.clone(),
            });
        }
        if order.fleet != self.settings.fleet {
            return Err(Refusal::Fleet {
                ordered: order.fleet.clone(),
                own: self.settings.fleet.clone(),
            });
        }
        let own_session = self.session.clone();
        let known = self.known_mut(&order.run);
        if known.as_ref().is_some_and(|run| run.key != *key) {
            return Err(Refusal::OtherKey);
        }
        let mut first = ReplayWindow::default();
        match (&order.audience, known) {
            (
                Audience::Agent {
                    session,
                    number,
                    expires_ns,
                },
                known,
            ) if !is_for_all => {
                let (wanted, accepted) = match known {
                    Some(run) => (&run.session, &mut run.accepted),
                    None => (&own_session, &mut first),
                };
                if session != wanted {
                    return Err(Refusal::Session);
                }
                accepted.accept(*number, *expires_ns, now_ns)?;
            }
            (Audience::Run { sequence }, Some(run)) if is_for_all => {
                if *sequence <= run.sequence {
                    return Err(Refusal::Replayed);
                }
                run.sequence = *sequence;
            }
            (Audience::Run { .. }, None) if is_for_all => {
                let run = order.run.clone();
                return Err(Refusal::UnknownRun { run });
            }
            // An order for one is not obeyed if all hear it, and the reverse.
            _ => return Err(Refusal::Session),
        }
        Ok(first)
    }

    fn on_prepare(
        &mut self,
        key: &PublicKey,
        accepted: ReplayWindow,
        id: RunId,
        content: Content,
        pieces: &[Digest],
        now_ns: u64,
    ) -> Result<Reply, Refusal> {
        if let Some(run) = self.known_mut(&id) {
            run.lease_ns = now_ns.saturating_add(LEASE_NS);
            return self.stage_of(&id);
        }
        if let Some(run) = self.run.as_ref().filter(|run| run.is_busy()) {
            return Err(Refusal::Busy {
                run: run.id.clone(),
            });
        }
        if content.bytes > MAX_PACKAGE_BYTES {
            return Err(Refusal::TooLarge {
                what: "the plan".into(),
                bytes: content.bytes,
                limit: MAX_PACKAGE_BYTES,
            });
        }
        let assembly = Assembly::of_pieces(content, pieces, MAX_PACKAGE_BYTES);
        let assembly = assembly.ok_or_else(|| Refusal::Package {
            reason: "the digests of the plan contradict each other".into(),
        })?;
        self.put_aside();
        let next = Session::random(&mut self.world.random);
        self.run = Some(Run {
            id: id.clone(),
            key: key.clone(),
            session: std::mem::replace(&mut self.session, next),
            progress: Progress::Receiving(assembly),
            ending: Ending::Completed,
            folder: None,
            lease_ns: now_ns.saturating_add(LEASE_NS),
            accepted,
            sequence: 0,
            beat_due_ns: now_ns,
            beats: 0,
            snapshot: None,
        });
        self.stage_of(&id)
    }

    fn on_piece(
        &mut self,
        id: &RunId,
        piece: crate::message::Piece,
        now_ns: u64,
    ) -> Result<Reply, Refusal> {
        let run = self.current_mut(id)?;
        if let Progress::Receiving(assembly) = &mut run.progress {
            let index = piece.index;
            let is_missing = assembly.missing().any(|missing| missing == index);
            assembly.add(piece).map_err(|_| Refusal::Piece { index })?;
            if is_missing {
                // Nobody else has it.
                run.lease_ns = now_ns.saturating_add(LEASE_NS);
            }
            if assembly.missing().next().is_none()
                && let Some(bytes) = assembly.take()
                && let Err(refusal) = self.begin_to_prepare(&bytes)
            {
                self.run = None;
                return Err(refusal);
            }
        }
        // A piece that comes again, after the last one, changes nothing.
        self.stage_of(id)
    }

    /// The plan is complete: checks it, writes its files, and hands it to the load generator.
    fn begin_to_prepare(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let unusable = |error: PackageError| Refusal::Package {
            reason: Label::new(&error.to_string()),
        };
        let mut package = Package::decode(bytes).map_err(unusable)?;
        let AgentSettings {
            scripts, targets, ..
        } = &self.settings;
        let plan = &package.share.plan;
        if plan.request.script.is_some() && !scripts {
            return Err(Refusal::Scripts);
        }
        targets.check_unresolved(&plan.target.host)?;
        let unwritable = |error: std::io::Error| Refusal::Files {
            reason: Label::new(&error.to_string()),
        };
        let folder =
            PrivateFolder::new(&self.settings.files, &mut self.world.random).map_err(unwritable)?;
        for file in &package.files {
            folder.write(file).map_err(unwritable)?;
        }
        package.place(folder.path()).map_err(unusable)?;
        // They are on the disk now.
        package.files.clear();
        self.world.generator.prepare(Work {
            package,
            folder: folder.path().to_owned(),
            targets: targets.clone(),
        });
        if let Some(run) = &mut self.run {
            run.folder = Some(folder);
            run.progress = Progress::Preparing;
        }
        Ok(())
    }

    fn on_start(&mut self, id: &RunId, start_ns: u64, now_ns: u64) -> Result<(), Refusal> {
        let run = self.current_mut(id)?;
        match &run.progress {
            Progress::Prepared { .. } if start_ns <= now_ns => Err(Refusal::Late {
                late_ms: (now_ns - start_ns) / 1_000_000,
            }),
            Progress::Prepared { .. } => {
                run.progress = Progress::Running { start_ns };
                self.world.generator.start_at(start_ns);
                Ok(())
            }
            // The reply to the first order was lost.
            Progress::Running { start_ns: agreed } if *agreed == start_ns => Ok(()),
            progress => Err(Refusal::OutOfOrder {
                wanted: "start".into(),
                stage: progress.stage(run.ending).name().into(),
            }),
        }
    }

    fn on_release(&mut self, id: &RunId) -> Reply {
        if self.run.as_ref().is_some_and(|run| run.id == *id) {
            self.world.generator.discard();
            self.run = None;
        }
        self.kept.retain(|run| run.id != *id);
        Reply::Released
    }

    /// Ends the load, or the preparations.
    fn stop(&mut self, id: &RunId) {
        let Some(run) = self.run.as_mut().filter(|run| run.id == *id) else {
            return;
        };
        match run.progress {
            Progress::Running { .. } if run.ending == Ending::Completed => {
                run.ending = Ending::Stopped;
                self.world.generator.stop();
            }
            Progress::Receiving(_) | Progress::Preparing | Progress::Prepared { .. } => {
                self.world.generator.discard();
                self.run = None;
            }
            _ => {}
        }
    }

    /// Nothing was heard from the coordinator: it is dead, or cannot be reached.
    fn on_lease_lapsed(&mut self) {
        let Some(run) = &mut self.run else { return };
        match run.progress {
            Progress::Running { .. } if run.ending == Ending::Completed => {
                run.ending = Ending::LeaseLapsed;
                self.world.generator.stop();
            }
            Progress::Running { .. } => {}
            _ => {
                self.world.generator.discard();
                self.run = None;
            }
        }
    }

    fn on_generator(&mut self, event: GeneratorEvent, now_ns: u64) {
        let Some(run) = &mut self.run else { return };
        if run.progress.ended_ns().is_some() {
            return;
        }
        let failed = |reason: &str| Progress::Failed {
            reason: Label::new(reason),
            ended_ns: now_ns,
        };
        match event {
            GeneratorEvent::Progress(snapshot) => {
                run.snapshot = Some(snapshot);
                return;
            }
            GeneratorEvent::Prepared(mut notes) => {
                notes.truncate(MAX_NOTES);
                run.progress = Progress::Prepared { notes };
            }
            GeneratorEvent::Refused(refusal) => run.progress = failed(&refusal.to_string()),
            GeneratorEvent::Failed(reason) => run.progress = failed(&reason),
            GeneratorEvent::Finished(result) => {
                run.progress = Progress::Finished {
                    content: Content::of(&result),
                    result,
                    ended_ns: now_ns,
                };
            }
        }
        if run.progress.ended_ns().is_some() {
            // The files are not needed any more.
            run.folder = None;
            run.snapshot = None;
        }
        run.beat_due_ns = now_ns;
    }

    /// Says how far the runs are whose coordinators are alive. One that was cut off for a while
    /// hears of its result again.
    fn beat(&mut self, now_ns: u64) {
        let mut beats = Vec::new();
        for run in self.run.iter_mut().chain(&mut self.kept) {
            let is_busy = run.is_busy();
            if run.beat_due_ns > now_ns || !is_busy && now_ns >= run.lease_ns {
                continue;
            }
            run.beat_due_ns = now_ns.saturating_add(BEAT_NS);
            run.beats += 1;
            beats.push(Beat {
                agent: self.settings.agent.clone(),
                run: run.id.clone(),
                sequence: run.beats,
                now_ns,
                stage: run.progress.stage(run.ending),
                progress: run.snapshot.take(),
            });
        }
        let subject = self.subjects.beat(&self.settings.agent);
        for beat in beats {
            self.send(subject.clone(), &beat);
        }
    }

    /// Makes room for the next run. The result of this one can still be fetched.
    fn put_aside(&mut self) {
        if let Some(run) = self.run.take() {
            self.kept.push_back(run);
        }
        while self.kept.len() > KEPT_RUNS {
            self.kept.pop_front();
        }
    }

    /// The run in progress, not one that is kept.
    fn current_mut(&mut self, id: &RunId) -> Result<&mut Run, Refusal> {
        let current = self.run.as_mut().filter(|run| run.id == *id);
        current.ok_or_else(|| Refusal::UnknownRun { run: id.clone() })
    }

    fn known_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.run
            .iter_mut()
            .chain(&mut self.kept)
            .find(|run| run.id == *id)
    }

    fn stage_of(&self, id: &RunId) -> Result<Reply, Refusal> {
        let run = self.run.iter().chain(&self.kept).find(|run| run.id == *id);
        let run = run.ok_or_else(|| Refusal::UnknownRun { run: id.clone() })?;
        Ok(Reply::Stage {
            stage: run.progress.stage(run.ending),
        })
    }

    fn reply(&mut self, to: &Message, id: u64, reply: Reply, now_ns: u64) {
        let Some(subject) = to.reply.as_ref().filter(|subject| is_inbox(subject)) else {
            return;
        };
        let content = FromAgent {
            version: self.settings.version.clone(),
            agent: self.settings.agent.clone(),
            id,
            now_ns,
            reply,
        };
        self.send(subject.clone(), &content);
    }

    fn send<T: serde::Serialize>(&mut self, subject: String, content: &T) {
        self.outgoing.push(Outgoing {
            subject,
            reply: None,
            payload: encode(content),
        });
    }
}

impl Run {
    /// Whether it keeps the agent from another run.
    fn is_busy(&self) -> bool {
        self.progress.ended_ns().is_none()
    }

    fn is_kept(&self, now_ns: u64) -> bool {
        let ended_ns = self.progress.ended_ns();
        ended_ns.is_some_and(|ended_ns| now_ns < ended_ns.saturating_add(KEEP_NS))
    }

    fn piece_of_result(&self, index: u32) -> Result<Reply, Refusal> {
        let Progress::Finished { result, .. } = &self.progress else {
            return Err(Refusal::OutOfOrder {
                wanted: "be fetched".into(),
                stage: self.progress.stage(self.ending).name().into(),
            });
        };
        piece(result, index)
            .map(Reply::Piece)
            .ok_or_else(|| Refusal::Malformed {
                detail: Label::new(&format!("the result has no piece {index}")),
            })
    }
}
