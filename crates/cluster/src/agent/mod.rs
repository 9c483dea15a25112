//! An agent: receives a plan, prepares it, makes its part of the load, keeps the result.
//!
//! [`Agent`] is a state machine: messages, events of the load generator and the time go in,
//! messages come out. [`serve`] connects it to a bus.

mod serve;

pub use serve::serve;

use std::collections::VecDeque;
use std::path::PathBuf;

use plan::Weight;

use crate::bus::{Message, Outgoing};
use crate::clock::WallClock;
use crate::folder::PrivateFolder;
use crate::generator::{Generator, GeneratorEvent, Work};
use crate::limits::Limits;
use crate::message::{
    Ask, Beat, Command, Ending, Hello, MAX_MISSING, MAX_NOTES, Order, Piece, Reply, Signed, Stage,
    Subjects,
};
use crate::names::{Label, Random, RunId, Session};
use crate::occupation::{KeptResult, Occupation};
use crate::package::{MAX_PACKAGE_BYTES, Package, PackageError};
use crate::pieces::{Assembly, CallBody, Content, Incoming, piece_of_reply};
use crate::refusal::Refusal;
use crate::session::{Endpoint, Identity, OpenSession};
use crate::signing::PublicKey;
use crate::targets::Targets;

/// Time between two beats.
pub const BEAT_NS: u64 = 500_000_000;

/// How long a result is kept to be fetched.
pub const KEEP_NS: u64 = 300_000_000_000;

/// How many results are kept for coordinators that were cut off.
const KEPT_RUNS: usize = 4;

/// The number of the call of a run. Its content is the plan, its reply the result.
pub(crate) const CALL: u64 = 1;

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Who it is, and whom it obeys.
    pub identity: Identity,
    /// Whether it runs scripts.
    pub scripts: bool,
    /// What it may send to.
    pub targets: Targets,
    /// How much load each of its threads carries, compared with those of other agents.
    pub weight: Weight,
    /// How much load it makes at most.
    pub limits: Limits,
    /// Where the files of a run get their private folder.
    pub files: PathBuf,
}

/// What an agent needs from the world besides messages.
pub struct AgentWorld<G> {
    /// Makes the load of the agent.
    pub generator: G,
    /// Makes the names of sessions and folders.
    pub random: Random,
    /// Reads the wall clock, if the kernel says that it is synchronized.
    pub wall_clock: Box<dyn FnMut() -> Option<WallClock> + Send>,
}

/// An agent that makes load.
pub struct Agent<G> {
    endpoint: Endpoint,
    scripts: bool,
    targets: Targets,
    weight: Weight,
    limits: Limits,
    files: PathBuf,
    generator: G,
    wall_clock: Box<dyn FnMut() -> Option<WallClock> + Send>,
    subjects: Subjects,
    run: Option<Run>,
    kept: VecDeque<Run>,
}

/// A run on this agent.
struct Run {
    session: OpenSession,
    /// The second session, of whoever fetches the result in place of the coordinator, or has ended
    /// the load.
    guest: Option<OpenSession>,
    progress: Progress,
    /// Why the load ends, if it has been stopped.
    ending: Ending,
    /// The files of the plan.
    folder: Option<PrivateFolder>,
    title: Label,
    /// As [`Package::length_ns`].
    length_ns: Option<u64>,
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
            Self::Preparing => Stage::Working,
            Self::Prepared { notes } => Stage::Prepared {
                notes: notes.clone(),
            },
            Self::Running { .. } => Stage::Running,
            // However small, it is fetched: beats repeat this.
            Self::Finished { content, .. } => Stage::Finished {
                body: CallBody::fetched(*content),
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
    pub fn new(settings: AgentSettings, world: AgentWorld<G>) -> Self {
        Self {
            subjects: Subjects::new(&settings.identity.fleet),
            endpoint: Endpoint::new(settings.identity, world.random),
            scripts: settings.scripts,
            targets: settings.targets,
            weight: settings.weight,
            limits: settings.limits,
            files: settings.files,
            generator: world.generator,
            wall_clock: world.wall_clock,
            run: None,
            kept: VecDeque::new(),
        }
    }

    /// The subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscriptions(&self) -> [String; 2] {
        let own = self.subjects.ask(&self.endpoint.identity.agent);
        [self.subjects.all(), own]
    }

    /// Takes a message of one of the [subscriptions](Self::subscriptions). `now_ns` is read after
    /// it was taken from the bus.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        let is_for_all = message.subject == self.subjects.all();
        let Some(asked) = self.endpoint.read(message, now_ns) else {
            return;
        };
        let reply = match asked.ask {
            Ask::RollCall => Ok(Reply::Hello(Box::new(self.hello(now_ns)))),
            Ask::Clock => Ok(Reply::Clock {
                received_ns: message.received_ns,
            }),
            Ask::Piece { session, piece, .. } => self.on_piece(&session, piece, now_ns),
            Ask::Order(signed) => self.on_order(&signed, is_for_all, now_ns),
        };
        match (is_for_all, &reply) {
            (false, _) => {
                let inbox = message.reply.as_deref();
                self.endpoint.reply(inbox, asked.id, reply, now_ns);
            }
            (true, Ok(Reply::Hello(_))) => {
                let subject = self.subjects.hello(&self.endpoint.identity.agent);
                self.endpoint.reply_on(&subject, asked.id, reply, now_ns);
            }
            // Nobody waits for hundreds of replies to an order for all.
            (true, _) => {}
        }
    }

    /// Takes what the load generator reports, says that the agent is alive, and drops what is too
    /// old. To be called every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        while let Some(event) = self.generator.next_event() {
            self.on_generator(event, now_ns);
        }
        self.kept.retain(|run| run.is_kept(now_ns));
        if let Some(run) = self
            .run
            .as_ref()
            .filter(|run| run.session.has_lapsed(now_ns))
        {
            match run.progress.ended_ns() {
                // The coordinator may come back for the result.
                Some(_) => self.put_aside(),
                None => self.on_lease_lapsed(),
            }
        }
        self.beat(now_ns);
    }

    /// Ends the load and drops everything: the agent is being stopped.
    pub fn close(&mut self) {
        self.generator.discard();
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
        self.endpoint.take_outgoing()
    }

    fn hello(&mut self, now_ns: u64) -> Hello {
        let busy = self.run.as_ref().filter(|run| run.is_busy());
        let occupation = busy.map(|run| run.occupation(now_ns));
        let known = self.run.iter().chain(&self.kept);
        Hello {
            kept: known.filter_map(|run| run.kept_result(now_ns)).collect(),
            scripts: self.scripts,
            weight: self.weight,
            targets: self.targets.labels(),
            limits: self.limits.labels(),
            wall: (self.wall_clock)(),
            ..self.endpoint.hello(occupation)
        }
    }

    fn on_order(
        &mut self,
        signed: &Signed,
        is_for_all: bool,
        now_ns: u64,
    ) -> Result<Reply, Refusal> {
        let (key, order) = self.endpoint.open(signed, is_for_all)?;
        let id = order.run.clone();
        let Some(run) = self.known_mut(&id) else {
            return self.on_new(key, order, now_ns);
        };
        if order.command == Command::Open {
            return self.on_guest(key, &order, now_ns);
        }
        run.accept(&key, &order, now_ns)?;
        match order.command {
            Command::Open | Command::Call { .. } | Command::Lease => {}
            Command::Stop => self.stop(&id),
            Command::Start { start_ns } => self.on_start(&id, start_ns, now_ns)?,
            Command::Fetch { index, .. } => return run.piece_of_result(index),
            Command::Close => return Ok(self.on_close(&id)),
        }
        self.stage_of(&id)
    }

    /// An order for a run that is not known here: its plan is about to come.
    fn on_new(&mut self, key: PublicKey, order: Order, now_ns: u64) -> Result<Reply, Refusal> {
        let accepted = self.endpoint.check_new(&order.audience, now_ns)?;
        let Order { run, command, .. } = order;
        let Command::Call { body, .. } = command else {
            return Err(Refusal::UnknownRun { run });
        };
        if let Some(busy) = self.run.as_ref().filter(|run| run.is_busy()) {
            let occupation = busy.occupation(now_ns);
            return Err(Refusal::Busy { occupation });
        }
        let incoming = body.receive("the plan", MAX_PACKAGE_BYTES)?;
        self.put_aside();
        let (progress, complete) = match incoming {
            Incoming::Pieces(assembly) => (Progress::Receiving(assembly), None),
            Incoming::Complete(bytes) => (Progress::Preparing, Some(bytes)),
        };
        self.run = Some(Run {
            session: self.endpoint.begin(key, run.clone(), accepted, now_ns),
            guest: None,
            progress,
            ending: Ending::Completed,
            folder: None,
            title: Label::default(),
            length_ns: None,
            beat_due_ns: now_ns,
            beats: 0,
            snapshot: None,
        });
        complete.map_or(Ok(()), |bytes| self.prepare(&bytes))?;
        self.stage_of(&run)
    }

    /// An order for a second session of a run that is known here.
    fn on_guest(&mut self, key: PublicKey, order: &Order, now_ns: u64) -> Result<Reply, Refusal> {
        let Order {
            run: id, audience, ..
        } = order;
        let unknown = || Refusal::UnknownRun { run: id.clone() };
        let run = self.known_mut(id).ok_or_else(unknown)?;
        run.session.check_key(&key)?;
        match run
            .guest
            .as_mut()
            .filter(|guest| guest.is_named_by(audience))
        {
            Some(guest) => guest.accept(&key, audience, now_ns)?,
            None => {
                let new = self.endpoint.check_new(audience, now_ns)?;
                let guest = self.endpoint.begin(key, id.clone(), new, now_ns);
                self.endpoint.admit_guest(&guest);
                self.known_mut(id).ok_or_else(unknown)?.guest = Some(guest);
            }
        }
        self.stage_of(id)
    }

    fn on_piece(&mut self, session: &Session, piece: Piece, now_ns: u64) -> Result<Reply, Refusal> {
        let run = self.run.as_mut().filter(|run| run.session.id == *session);
        let run = run.ok_or(Refusal::Session)?;
        let id = run.session.run.clone();
        if let Progress::Receiving(assembly) = &mut run.progress {
            let is_missing = assembly.missing().any(|missing| missing == piece.index);
            let complete = assembly.accept(piece)?;
            if is_missing {
                // Only the coordinator has the plan, so it is alive.
                run.session.prolong(now_ns);
            }
            complete.map_or(Ok(()), |bytes| self.prepare(&bytes))?;
        }
        // A piece that comes again, after the last one, changes nothing.
        self.stage_of(&id)
    }

    /// The plan is complete. A run that cannot be prepared is dropped.
    fn prepare(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let begun = self.begin_to_prepare(bytes);
        if begun.is_err() {
            self.run = None;
        }
        begun
    }

    /// Checks the plan, writes its files, and hands it to the load generator.
    fn begin_to_prepare(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let unusable = |error: PackageError| Refusal::Package {
            reason: Label::new(&error.to_string()),
        };
        let mut package = Package::decode(bytes).map_err(unusable)?;
        let plan = &package.share.plan;
        if plan.request.script.is_some() && !self.scripts {
            return Err(Refusal::Scripts);
        }
        self.targets.check_unresolved(&plan.target.host)?;
        self.limits.check(&package.share)?;
        let unwritable = |error: std::io::Error| Refusal::Files {
            reason: Label::new(&error.to_string()),
        };
        let folder =
            PrivateFolder::new(&self.files, &mut self.endpoint.random).map_err(unwritable)?;
        for file in &package.files {
            folder.write(file).map_err(unwritable)?;
        }
        package.place(folder.path()).map_err(unusable)?;
        // The files are on the disk now.
        package.files.clear();
        if let Some(run) = &mut self.run {
            run.length_ns = package.length_ns();
            run.title = package.title.clone();
        }
        self.generator.prepare(Work {
            package,
            folder: folder.path().to_owned(),
            targets: self.targets.clone(),
        });
        if let Some(run) = &mut self.run {
            run.folder = Some(folder);
            run.progress = Progress::Preparing;
        }
        Ok(())
    }

    fn on_start(&mut self, id: &RunId, start_ns: u64, now_ns: u64) -> Result<(), Refusal> {
        let run = self.run.as_mut().filter(|run| run.session.run == *id);
        let run = run.ok_or_else(|| Refusal::UnknownRun { run: id.clone() })?;
        match &run.progress {
            Progress::Prepared { .. } if start_ns <= now_ns => Err(Refusal::Late {
                late_ms: (now_ns - start_ns) / 1_000_000,
            }),
            Progress::Prepared { .. } => {
                run.progress = Progress::Running { start_ns };
                self.generator.start_at(start_ns);
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

    fn on_close(&mut self, id: &RunId) -> Reply {
        if self.run.as_ref().is_some_and(|run| run.session.run == *id) {
            self.generator.discard();
            self.run = None;
        }
        self.kept.retain(|run| run.session.run != *id);
        Reply::Closed
    }

    /// Ends the load, or the preparations.
    fn stop(&mut self, id: &RunId) {
        let Some(run) = self.run.as_mut().filter(|run| run.session.run == *id) else {
            return;
        };
        match run.progress {
            Progress::Running { .. } if run.ending == Ending::Completed => {
                run.ending = Ending::Stopped;
                self.generator.stop();
            }
            Progress::Receiving(_) | Progress::Preparing | Progress::Prepared { .. } => {
                self.generator.discard();
                self.run = None;
            }
            _ => {}
        }
    }

    /// The coordinator is dead or cannot be reached: ends the load, or drops a run that has not
    /// started.
    fn on_lease_lapsed(&mut self) {
        let Some(run) = &mut self.run else { return };
        match run.progress {
            Progress::Running { .. } if run.ending == Ending::Completed => {
                run.ending = Ending::LeaseLapsed;
                self.generator.stop();
            }
            Progress::Running { .. } => {}
            _ => {
                self.generator.discard();
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

    /// Reports each run whose coordinator is alive, also one whose result is only kept: a
    /// coordinator that was cut off for a while hears of its result again.
    fn beat(&mut self, now_ns: u64) {
        let mut beats = Vec::new();
        for run in self.run.iter_mut().chain(&mut self.kept) {
            let is_busy = run.is_busy();
            if run.beat_due_ns > now_ns || !is_busy && run.session.has_lapsed(now_ns) {
                continue;
            }
            run.beat_due_ns = now_ns.saturating_add(BEAT_NS);
            run.beats += 1;
            beats.push(Beat {
                agent: self.endpoint.identity.agent.clone(),
                run: run.session.run.clone(),
                sequence: run.beats,
                now_ns,
                stage: run.progress.stage(run.ending),
                progress: run.snapshot.take(),
            });
        }
        let subject = self.subjects.beat(&self.endpoint.identity.agent);
        for beat in beats {
            self.endpoint.send(subject.clone(), &beat);
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

    /// A run in progress, or one whose result is kept.
    fn known_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.run
            .iter_mut()
            .chain(&mut self.kept)
            .find(|run| run.session.run == *id)
    }

    fn stage_of(&self, id: &RunId) -> Result<Reply, Refusal> {
        let mut known = self.run.iter().chain(&self.kept);
        let run = known.find(|run| run.session.run == *id);
        let run = run.ok_or_else(|| Refusal::UnknownRun { run: id.clone() })?;
        Ok(Reply::Stage {
            call: CALL,
            stage: run.progress.stage(run.ending),
        })
    }
}

impl Run {
    /// Whether the agent cannot begin another run.
    fn is_busy(&self) -> bool {
        self.progress.ended_ns().is_none()
    }

    /// For others who would like to use the agent.
    fn occupation(&self, now_ns: u64) -> Occupation {
        let start_ns = match self.progress {
            Progress::Running { start_ns } => Some(start_ns),
            _ => None,
        };
        let end_ns = start_ns.zip(self.length_ns);
        let end_ns = end_ns.map(|(start_ns, length_ns)| start_ns.saturating_add(length_ns));
        Occupation::of(&self.session, now_ns).until(self.title.clone(), end_ns, now_ns)
    }

    /// Checks an order and accepts it once. A guest may fetch the result and end the load.
    fn accept(&mut self, key: &PublicKey, order: &Order, now_ns: u64) -> Result<(), Refusal> {
        let audience = &order.audience;
        let is_for_guest = matches!(order.command, Command::Fetch { .. } | Command::Stop);
        let guest = self
            .guest
            .as_mut()
            .filter(|guest| guest.is_named_by(audience));
        match guest.filter(|_| is_for_guest) {
            Some(guest) => guest.accept(key, audience, now_ns),
            None => self.session.accept(key, audience, now_ns),
        }
    }

    /// What others are told of its result; `None` without one.
    fn kept_result(&self, now_ns: u64) -> Option<KeptResult> {
        let Progress::Finished { ended_ns, .. } = self.progress else {
            return None;
        };
        let end_ns = ended_ns.saturating_add(KEEP_NS);
        Some(KeptResult {
            run: self.session.run.clone(),
            title: self.title.clone(),
            ended_ms: now_ns.saturating_sub(ended_ns) / 1_000_000,
            left_ms: end_ns.saturating_sub(now_ns) / 1_000_000,
        })
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
        piece_of_reply(result, CALL, index)
    }
}
