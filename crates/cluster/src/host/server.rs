//! The side of the host: it checks orders, has each call carried out once, and watches the lease.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::MAX_CALL_BYTES;
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY, Message, Outgoing};
use crate::message::{
    Ask, Audience, Command, Ending, MAX_MISSING, Order, Piece, Reply, Signed, Stage, Subjects,
};
use crate::names::{Label, Random, Session};
use crate::occupation::Occupation;
use crate::pieces::{Assembly, CallBody, Incoming, piece_of_reply};
use crate::refusal::Refusal;
use crate::session::{Endpoint, Identity, LEASE_NS, OpenSession};
use crate::signing::PublicKey;

/// Carries out the calls of one session. Dropped, it ends at once, and whatever it has changed and
/// not restored is restored by its guardian.
pub trait HostDeputy {
    /// Begins to carry out a call. The previous call has its reply by then.
    fn begin(&mut self, call: &[u8]);

    /// What has happened since the last call of this method.
    fn next_event(&mut self) -> Option<DeputyEvent>;
}

/// What a deputy reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeputyEvent {
    /// The call was carried out; the reply.
    Replied(Vec<u8>),
    /// The deputy has died; why.
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

/// A machine that can be changed from elsewhere.
pub struct HostServer<W: HostDeputies> {
    endpoint: Endpoint,
    deputies: W,
    subjects: Subjects,
    open: Option<HostedSession<W::Deputy>>,
    /// The session before, and why it ended.
    ended: Option<(Session, Label)>,
    news: Vec<String>,
}

struct HostedSession<W> {
    session: OpenSession,
    deputy: W,
    /// The number of the latest call; 0 before the first.
    call: u64,
    body: Option<CallBody>,
    progress: CallProgress,
    /// Where the reply to the current call goes as soon as it is there, and the number of the
    /// question.
    waiting: Option<(String, u64)>,
}

enum CallProgress {
    /// There was no call yet.
    Open,
    Receiving(Assembly),
    Working,
    Done(Vec<u8>),
}

impl<W: HostDeputies> HostServer<W> {
    /// A host without a session.
    pub fn new(identity: Identity, deputies: W, random: Random) -> Self {
        Self {
            subjects: Subjects::new(&identity.fleet),
            endpoint: Endpoint::new(identity, random),
            deputies,
            open: None,
            ended: None,
            news: Vec::new(),
        }
    }

    /// The subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscriptions(&self) -> [String; 2] {
        let own = self.subjects.host(&self.endpoint.identity.agent);
        [self.subjects.hosts(), own]
    }

    /// Takes a message of one of the [subscriptions](Self::subscriptions). `now_ns` is read after
    /// it was taken from the bus.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        // An order that waited in a queue does not prolong a lease that has lapsed meanwhile.
        self.check_lease(now_ns);
        let is_for_all = message.subject == self.subjects.hosts();
        let was_working = self.is_working();
        let Some(asked) = self.endpoint.read(message, now_ns) else {
            return;
        };
        let inbox = message.reply.as_deref();
        let reply = match asked.ask {
            Ask::RollCall => {
                let open = self.open.as_ref();
                let busy = open.map(|open| Occupation::of(&open.session, now_ns));
                let hello = Ok(Reply::Hello(Box::new(self.endpoint.hello(busy))));
                if is_for_all {
                    let subject = self.subjects.host_hello(&self.endpoint.identity.agent);
                    self.endpoint.reply_on(&subject, asked.id, hello, now_ns);
                    return;
                }
                hello
            }
            Ask::Clock => Ok(Reply::Clock {
                received_ns: message.received_ns,
            }),
            // Orders are for one host.
            Ask::Piece { .. } | Ask::Order(_) if is_for_all => return,
            Ask::Piece {
                session,
                call,
                piece,
            } => self.on_piece(&session, call, piece),
            Ask::Order(signed) => self.on_order(&signed, now_ns),
        };
        // Each question has one reply: NATS may permit no more. A call that has just begun is
        // replied to when it is done.
        if let Some(open) = self.open.as_mut().filter(|open| open.is_working())
            && !was_working
        {
            open.waiting = inbox.map(|inbox| (inbox.to_owned(), asked.id));
            return;
        }
        self.endpoint.reply(inbox, asked.id, reply, now_ns);
    }

    /// Passes on what the deputy reports, and ends a session whose coordinator is gone. To be
    /// called every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        let Some(open) = &mut self.open else { return };
        match open.deputy.next_event() {
            Some(DeputyEvent::Replied(reply)) => {
                open.progress = CallProgress::Done(reply);
                // If it is lost, the coordinator asks again.
                if let Some((inbox, id)) = open.waiting.take() {
                    let reply = Ok(open.stage());
                    self.endpoint.reply(Some(&inbox), id, reply, now_ns);
                }
            }
            Some(DeputyEvent::Died(why)) => self.end(&format!(
                "the process that changed the machine has died ({why}), and its guardian restores \
                 what it changed"
            )),
            None => self.check_lease(now_ns),
        }
    }

    /// Whether a coordinator uses it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a call is being carried out, so that its reply is waited for.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.open.as_ref().is_some_and(HostedSession::is_working)
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        self.endpoint.take_outgoing()
    }

    /// News for the user of the host, a line each.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn check_lease(&mut self, now_ns: u64) {
        let open = self.open.as_ref();
        if open.is_some_and(|open| open.session.has_lapsed(now_ns)) {
            self.end(&format!(
                "nothing was heard from the coordinator for {} s, and the guardian restores what \
                 was changed",
                LEASE_NS / 1_000_000_000
            ));
        }
    }

    fn on_order(&mut self, signed: &Signed, now_ns: u64) -> Result<Reply, Refusal> {
        let (key, order) = self.endpoint.open(signed, false)?;
        let Audience::Agent { session, .. } = &order.audience else {
            return Err(Refusal::Session);
        };
        if let Some((_, reason)) = self.ended.as_ref().filter(|(ended, _)| ended == session) {
            let reason = reason.clone();
            return Err(Refusal::SessionEnded { reason });
        }
        let open = self.open.as_mut();
        let Some(open) = open.filter(|open| open.session.id == *session) else {
            return self.on_new(key, order, now_ns);
        };
        open.session.accept(&key, &order.audience, now_ns)?;
        match order.command {
            Command::Open | Command::Lease => Ok(open.stage()),
            Command::Call { call, body } => open.on_call(call, body),
            Command::Fetch { call, index } => open.piece_of_reply(call, index),
            Command::Close => {
                self.news.push("the session has ended".to_owned());
                self.open = None;
                Ok(Reply::Closed)
            }
            Command::Start { .. } | Command::Stop => Err(Refusal::Malformed {
                detail: "this agent changes its machine and makes no load".into(),
            }),
        }
    }

    fn on_new(&mut self, key: PublicKey, order: Order, now_ns: u64) -> Result<Reply, Refusal> {
        let accepted = self.endpoint.check_new(&order.audience, now_ns)?;
        if order.command != Command::Open {
            return Err(Refusal::Session);
        }
        if self.is_busy() {
            return Err(Refusal::HostBusy);
        }
        let deputy = self.deputies.start().map_err(|error| Refusal::Deputy {
            reason: Label::new(&error.to_string()),
        })?;
        self.news
            .push(format!("a session begins, by the key {key}"));
        let open = self.open.insert(HostedSession {
            session: self.endpoint.begin(key, order.run, accepted, now_ns),
            deputy,
            call: 0,
            body: None,
            progress: CallProgress::Open,
            waiting: None,
        });
        Ok(open.stage())
    }

    fn on_piece(&mut self, session: &Session, call: u64, piece: Piece) -> Result<Reply, Refusal> {
        let open = self.open.as_mut();
        let open = open.filter(|open| open.session.id == *session);
        let open = open.ok_or(Refusal::Session)?;
        if call != open.call {
            return Err(Refusal::CallOutOfOrder {
                call,
                latest: open.call,
            });
        }
        if let CallProgress::Receiving(assembly) = &mut open.progress
            && let Some(bytes) = assembly.accept(piece)?
        {
            open.work(&bytes);
        }
        Ok(open.stage())
    }

    /// Kills the deputy; its guardian restores the machine.
    fn end(&mut self, reason: &str) {
        if let Some(open) = self.open.take() {
            self.news.push(format!("the session was ended: {reason}"));
            self.ended = Some((open.session.id, Label::new(reason)));
        }
    }
}

impl<W: HostDeputy> HostedSession<W> {
    fn on_call(&mut self, call: u64, body: CallBody) -> Result<Reply, Refusal> {
        let is_repeated = call == self.call && self.body.as_ref() == Some(&body);
        let is_idle = matches!(self.progress, CallProgress::Open | CallProgress::Done(_));
        if is_idle && call == self.call.saturating_add(1) {
            match body.clone().receive("the call", MAX_CALL_BYTES)? {
                Incoming::Complete(bytes) => self.work(&bytes),
                Incoming::Pieces(assembly) => self.progress = CallProgress::Receiving(assembly),
            }
            self.call = call;
            self.body = Some(body);
        } else if !is_repeated {
            return Err(Refusal::CallOutOfOrder {
                call,
                latest: self.call,
            });
        }
        // The coordinator has given up waiting for the reply to an earlier question.
        self.waiting = None;
        Ok(self.stage())
    }

    fn work(&mut self, call: &[u8]) {
        self.deputy.begin(call);
        self.progress = CallProgress::Working;
    }

    fn stage(&self) -> Reply {
        let stage = match &self.progress {
            CallProgress::Open => Stage::Open,
            CallProgress::Receiving(assembly) => Stage::Receiving {
                missing: assembly.missing().take(MAX_MISSING).collect(),
            },
            CallProgress::Working => Stage::Working,
            CallProgress::Done(reply) => Stage::Finished {
                body: CallBody::of_reply(reply),
                ending: Ending::Completed,
            },
        };
        let call = self.call;
        Reply::Stage { call, stage }
    }

    fn piece_of_reply(&self, call: u64, index: u32) -> Result<Reply, Refusal> {
        match &self.progress {
            CallProgress::Done(reply) if call == self.call => piece_of_reply(reply, call, index),
            _ => piece_of_reply(&[], call, index),
        }
    }
}

impl<W> HostedSession<W> {
    fn is_working(&self) -> bool {
        matches!(self.progress, CallProgress::Working)
    }
}

/// How long the loop waits for a message without a session.
const IDLE_TURN: Duration = Duration::from_millis(500);
/// How long it waits with a session, while no call is being carried out.
const OPEN_TURN: Duration = Duration::from_millis(50);
/// How long it waits while the reply of the deputy is expected.
const BUSY_TURN: Duration = Duration::from_millis(2);

/// Serves coordinators until `stopped` is set. An open session is then ended as if its lease had
/// lapsed. `tell` gets lines for the user.
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
        served = bus.check();
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
