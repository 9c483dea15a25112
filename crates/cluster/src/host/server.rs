//! The side of the host: checks orders, has calls carried out once each, keeps the lease.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::message::{
    FromHost, HostAsk, HostCommand, HostHello, HostOrder, HostReply, Sent, ToHost, Told,
};
use super::{LEASE_NS, MAX_CALL_BYTES};
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY, Message, Outgoing, is_inbox};
use crate::message::{MAX_MESSAGE_BYTES, MAX_MISSING, Piece, Subjects, decode, encode};
use crate::names::{AgentId, FleetName, Label, Random, Session};
use crate::pieces::{Assembly, piece};
use crate::refusal::Refusal;
use crate::signing::{MAX_VALIDITY_NS, PublicKey, TrustList};

const NS_PER_MS: u64 = 1_000_000;

/// Carries out the calls of one session. Dropped, it ends at once, and whatever it has changed and
/// not restored is restored by its guardian.
pub trait HostDeputy {
    /// Begins to carry out a call; never called before the call before has its reply.
    fn begin(&mut self, call: &[u8]);

    /// What has happened since the last call of this method.
    fn next_event(&mut self) -> Option<DeputyEvent>;
}

/// What a deputy reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeputyEvent {
    /// The call was carried out; the reply.
    Replied(Vec<u8>),
    /// It has died; why.
    Died(String),
}

/// Starts a deputy for each session.
pub trait HostDeputies {
    /// The deputies that it starts.
    type Deputy: HostDeputy;

    /// Starts a deputy.
    ///
    /// # Errors
    /// The system's error.
    fn start(&mut self) -> io::Result<Self::Deputy>;
}

/// What a host is started with.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// The fleet.
    pub fleet: FleetName,
    /// The name that experiments give to this machine.
    pub host: AgentId,
    /// The version of this program.
    pub version: Label,
    /// Where it is.
    pub place: Label,
    /// The name of the machine.
    pub machine: Label,
    /// Name and version of the kernel.
    pub kernel: Label,
    /// Whose orders it obeys.
    pub trust: TrustList,
}

/// A machine that can be changed from elsewhere.
pub struct HostServer<W: HostDeputies> {
    settings: HostSettings,
    deputies: W,
    random: Random,
    subjects: Subjects,
    /// What the order that begins the next session must name.
    next: Session,
    open: Option<OpenSession<W::Deputy>>,
    /// The session before, and why it ended.
    ended: Option<(Session, Label)>,
    outgoing: Vec<Outgoing>,
    news: Vec<String>,
}

struct OpenSession<W> {
    session: Session,
    /// The key that began it. No other one may give orders.
    key: PublicKey,
    /// The number of the latest order.
    number: u64,
    lease_ns: u64,
    deputy: W,
    /// The number of the latest call; 0 before the first.
    call: u64,
    content: Option<Sent>,
    progress: CallProgress,
    /// Where the reply to the current call goes as soon as it is there, and the number of the
    /// question.
    waiting: Option<(String, u64)>,
}

enum CallProgress {
    Receiving(Assembly),
    Working,
    Done(Vec<u8>),
}

impl<W: HostDeputies> HostServer<W> {
    /// A host without a session.
    pub fn new(settings: HostSettings, deputies: W, mut random: Random) -> Self {
        Self {
            subjects: Subjects::new(&settings.fleet),
            next: Session::random(&mut random),
            settings,
            deputies,
            random,
            open: None,
            ended: None,
            outgoing: Vec::new(),
            news: Vec::new(),
        }
    }

    /// The subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscriptions(&self) -> [String; 2] {
        [
            self.subjects.hosts(),
            self.subjects.host(&self.settings.host),
        ]
    }

    /// Takes a message of one of the [subscriptions](Self::subscriptions). `now_ns` is read after
    /// it was taken from the bus.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        // An order that waited here does not prolong a lease that has lapsed meanwhile.
        self.check_lease(now_ns);
        let is_for_all = message.subject == self.subjects.hosts();
        let was_working = self.is_working();
        let asked: ToHost = match decode(&message.payload, MAX_MESSAGE_BYTES) {
            Ok(asked) => asked,
            Err(error) => {
                let detail = Label::new(&error.to_string());
                let refused = HostReply::Refused(Refusal::Malformed { detail });
                return self.reply(message.reply.as_deref(), 0, now_ns, refused);
            }
        };
        let said = match asked.ask {
            HostAsk::RollCall => Ok(HostReply::Hello(self.hello())),
            // Orders are for one host.
            HostAsk::Piece { .. } | HostAsk::Order(_) if is_for_all => return,
            HostAsk::Piece {
                session,
                call,
                piece,
            } => self.on_piece(&session, call, piece),
            HostAsk::Order(signed) => self
                .settings
                .trust
                .open(&signed)
                .and_then(|(key, order)| self.on_order(&key, order, now_ns)),
        };
        // Each question has one reply: NATS may permit no more. A call that has just begun is
        // replied to when it is done, or the next time that it is asked about.
        if let (Ok(HostReply::Working { .. }), Some(open)) = (&said, &mut self.open) {
            let question = message.reply.clone().map(|inbox| (inbox, asked.id));
            open.waiting = question.filter(|_| !was_working);
            if !was_working {
                return;
            }
        }
        let said = said.unwrap_or_else(HostReply::Refused);
        self.reply(message.reply.as_deref(), asked.id, now_ns, said);
    }

    /// Passes on what the deputy says, and ends a session whose coordinator is gone. To be called
    /// every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        let Some(open) = &mut self.open else { return };
        match open.deputy.next_event() {
            Some(DeputyEvent::Replied(reply)) => {
                let said = HostReply::Done {
                    session: open.session.clone(),
                    call: open.call,
                    told: Told::of(&reply),
                };
                open.progress = CallProgress::Done(reply);
                // If it is lost, the coordinator asks again.
                if let Some((inbox, id)) = open.waiting.take() {
                    self.reply(Some(&inbox), id, now_ns, said);
                }
            }
            Some(DeputyEvent::Died(why)) => self.end(&format!(
                "the process that changed the machine has died ({why}), and its guardian restores \
                 what it changed"
            )),
            None => self.check_lease(now_ns),
        }
    }

    /// Whether a sweep uses it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a call is being carried out: its reply is waited for.
    #[must_use]
    pub fn is_working(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| matches!(open.progress, CallProgress::Working))
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// What its user should know, a line each.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn check_lease(&mut self, now_ns: u64) {
        let open = self.open.as_ref();
        if open.is_some_and(|open| now_ns >= open.lease_ns) {
            self.end(&format!(
                "nothing was heard from the coordinator for {} s, and the guardian restores what \
                 was changed",
                LEASE_NS / 1_000_000_000
            ));
        }
    }

    fn hello(&self) -> HostHello {
        let settings = &self.settings;
        HostHello {
            session: self.next.clone(),
            place: settings.place.clone(),
            machine: settings.machine.clone(),
            kernel: settings.kernel.clone(),
            is_busy: self.is_busy(),
        }
    }

    fn on_order(
        &mut self,
        key: &PublicKey,
        order: HostOrder,
        now_ns: u64,
    ) -> Result<HostReply, Refusal> {
        self.check_order(&order, now_ns)?;
        if order.host_command == HostCommand::Open && order.session == self.next {
            return self.begin_session(key, order.number, now_ns);
        }
        if let Some((session, reason)) = &self.ended
            && *session == order.session
        {
            let reason = reason.clone();
            return Err(Refusal::SessionEnded { reason });
        }
        let unknown = match order.host_command {
            HostCommand::Open if self.is_busy() => Refusal::HostBusy,
            _ => Refusal::Session,
        };
        let open = self.open.as_mut();
        let open = open
            .filter(|open| open.session == order.session)
            .ok_or(unknown)?;
        if open.key != *key {
            return Err(Refusal::OtherKey);
        }
        if order.number <= open.number {
            return Err(Refusal::Replayed);
        }
        open.number = order.number;
        open.lease_ns = now_ns.saturating_add(LEASE_NS);
        let session = open.session.clone();
        match order.host_command {
            HostCommand::Open | HostCommand::Lease => Ok(HostReply::Alive { session }),
            HostCommand::Call { call, content } => open.on_call(call, content),
            HostCommand::Fetch { call, index } => open.piece_of_reply(call, index),
            HostCommand::Close => {
                self.news.push("the sweep has ended".to_owned());
                self.ended = Some((session.clone(), "it was closed".into()));
                self.open = None;
                Ok(HostReply::Closed { session })
            }
        }
    }

    fn check_order(&self, order: &HostOrder, now_ns: u64) -> Result<(), Refusal> {
        let settings = &self.settings;
        if order.version != settings.version {
            return Err(Refusal::Version {
                agent: settings.version.clone(),
                coordinator: order.version.clone(),
            });
        }
        if order.fleet != settings.fleet {
            return Err(Refusal::Fleet {
                ordered: order.fleet.clone(),
                own: settings.fleet.clone(),
            });
        }
        if order.host != settings.host {
            return Err(Refusal::Session);
        }
        if order.expires_ns <= now_ns {
            return Err(Refusal::Expired {
                late_ms: (now_ns - order.expires_ns) / NS_PER_MS,
            });
        }
        let valid_ns = order.expires_ns - now_ns;
        if valid_ns > MAX_VALIDITY_NS {
            return Err(Refusal::ValidTooLong {
                valid_ms: valid_ns / NS_PER_MS,
                limit_ms: MAX_VALIDITY_NS / NS_PER_MS,
            });
        }
        Ok(())
    }

    fn begin_session(
        &mut self,
        key: &PublicKey,
        number: u64,
        now_ns: u64,
    ) -> Result<HostReply, Refusal> {
        if self.open.is_some() {
            return Err(Refusal::HostBusy);
        }
        let deputy = self.deputies.start().map_err(|error| Refusal::Deputy {
            reason: Label::new(&error.to_string()),
        })?;
        let next = Session::random(&mut self.random);
        let session = std::mem::replace(&mut self.next, next);
        self.news.push(format!("a sweep begins, by the key {key}"));
        self.open = Some(OpenSession {
            session: session.clone(),
            key: key.clone(),
            number,
            lease_ns: now_ns.saturating_add(LEASE_NS),
            deputy,
            call: 0,
            content: None,
            progress: CallProgress::Done(Vec::new()),
            waiting: None,
        });
        Ok(HostReply::Alive { session })
    }

    fn on_piece(
        &mut self,
        session: &Session,
        call: u64,
        piece: Piece,
    ) -> Result<HostReply, Refusal> {
        let open = self.open.as_mut().filter(|open| open.session == *session);
        let open = open.ok_or(Refusal::Session)?;
        if call != open.call {
            return Err(Refusal::CallOutOfOrder {
                call,
                latest: open.call,
            });
        }
        open.add_piece(piece)?;
        open.reply_to_call()
    }

    /// Kills the deputy; its guardian restores the machine.
    fn end(&mut self, reason: &str) {
        if let Some(open) = self.open.take() {
            self.news.push(format!("the sweep was ended: {reason}"));
            self.ended = Some((open.session, Label::new(reason)));
        }
    }

    fn reply(&mut self, inbox: Option<&str>, id: u64, now_ns: u64, reply: HostReply) {
        let Some(subject) = inbox.filter(|subject| is_inbox(subject)) else {
            return;
        };
        let said = FromHost {
            version: self.settings.version.clone(),
            host: self.settings.host.clone(),
            id,
            now_ns,
            reply,
        };
        self.outgoing.push(Outgoing {
            subject: subject.to_owned(),
            reply: None,
            payload: encode(&said),
        });
    }
}

impl<W: HostDeputy> OpenSession<W> {
    fn on_call(&mut self, call: u64, content: Sent) -> Result<HostReply, Refusal> {
        let is_repeated = call == self.call && self.content.as_ref() == Some(&content);
        let is_next =
            call == self.call.saturating_add(1) && matches!(self.progress, CallProgress::Done(_));
        if is_next {
            self.begin_call(call, content)?;
        } else if !is_repeated {
            return Err(Refusal::CallOutOfOrder {
                call,
                latest: self.call,
            });
        }
        self.reply_to_call()
    }

    fn begin_call(&mut self, call: u64, content: Sent) -> Result<(), Refusal> {
        match &content {
            Sent::Whole(bytes) => {
                self.deputy.begin(bytes);
                self.progress = CallProgress::Working;
            }
            Sent::Pieces {
                content: whole,
                pieces,
            } => {
                let too_large = || Refusal::TooLarge {
                    what: "the call".into(),
                    bytes: whole.bytes,
                    limit: MAX_CALL_BYTES,
                };
                let assembly = Assembly::of_pieces(*whole, pieces, MAX_CALL_BYTES);
                let assembly = assembly.ok_or_else(too_large)?;
                // Content without a piece would be waited for forever.
                if assembly.missing().next().is_none() {
                    return Err(too_large());
                }
                self.progress = CallProgress::Receiving(assembly);
            }
        }
        self.call = call;
        self.content = Some(content);
        self.waiting = None;
        Ok(())
    }

    fn add_piece(&mut self, piece: Piece) -> Result<(), Refusal> {
        let CallProgress::Receiving(assembly) = &mut self.progress else {
            return Ok(());
        };
        let index = piece.index;
        assembly.add(piece).map_err(|_| Refusal::Piece { index })?;
        if assembly.missing().next().is_none()
            && let Some(bytes) = assembly.take()
        {
            self.deputy.begin(&bytes);
            self.progress = CallProgress::Working;
        }
        Ok(())
    }

    fn reply_to_call(&self) -> Result<HostReply, Refusal> {
        let (session, call) = (self.session.clone(), self.call);
        Ok(match &self.progress {
            CallProgress::Receiving(assembly) => HostReply::Receiving {
                session,
                call,
                missing: assembly.missing().take(MAX_MISSING).collect(),
            },
            CallProgress::Working => HostReply::Working { session, call },
            CallProgress::Done(reply) => HostReply::Done {
                session,
                call,
                told: Told::of(reply),
            },
        })
    }

    fn piece_of_reply(&self, call: u64, index: u32) -> Result<HostReply, Refusal> {
        let found = match &self.progress {
            CallProgress::Done(reply) if call == self.call => piece(reply, index),
            _ => None,
        };
        let piece = found.ok_or_else(|| Refusal::Malformed {
            detail: Label::new(&format!("the reply to call {call} has no piece {index}")),
        })?;
        let session = self.session.clone();
        Ok(HostReply::Piece {
            session,
            call,
            piece,
        })
    }
}

/// How long the loop waits for a message without a session.
const IDLE_TURN: Duration = Duration::from_millis(500);
/// The same with one, while nothing is being carried out.
const OPEN_TURN: Duration = Duration::from_millis(50);
/// The same while a reply of the deputy is expected.
const BUSY_TURN: Duration = Duration::from_millis(2);

/// Serves coordinators until `stopped` is set; then a session is ended as when its coordinator is
/// gone. `tell` gets lines for the user.
///
/// # Errors
/// If the bus is closed.
pub fn serve_host<W: HostDeputies>(
    server: &mut HostServer<W>,
    bus: &dyn Bus,
    clock: &Clock,
    stopped: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    for subject in server.subscriptions() {
        bus.subscribe(&subject, &sender)?;
    }
    let mut served = Ok(());
    while served.is_ok() && !stopped.load(Ordering::Relaxed) {
        let turn = match (server.is_busy(), server.is_working()) {
            (false, _) => IDLE_TURN,
            (true, false) => OPEN_TURN,
            (true, true) => BUSY_TURN,
        };
        match inbox.recv_timeout(turn) {
            Ok(message) => server.on_message(&message, clock()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        server.on_tick(clock());
        for message in server.take_outgoing() {
            served = served.and_then(|()| bus.publish(message));
        }
        for line in server.take_news() {
            tell(&line);
        }
    }
    server.end("the agent was stopped, and the guardian restores what was changed");
    for line in server.take_news() {
        tell(&line);
    }
    served
}
