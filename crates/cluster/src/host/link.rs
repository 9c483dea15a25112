//! Connects the coordinator's side to a bus: a thread keeps the lease while nobody calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::caller::{CallerSettings, HostCaller, HostError};
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY, Message};
use crate::clock::Offset;
use crate::coordinator::{MAX_AGENTS, Present, roll_call_question};
use crate::message::Subjects;
use crate::names::FleetName;
use crate::signing::SigningKey;

/// How long the thread waits for a message before it checks what is due.
const TURN: Duration = Duration::from_millis(50);

/// Interval between the calls of `on_wait`.
const REPORT_NS: u64 = 500_000_000;

/// How long a roll call takes.
const ROLL_CALL_NS: u64 = 600_000_000;

/// An open session with a host. Dropped, it is closed.
pub struct HostLink {
    shared: Arc<HostLinkState>,
    clock: Clock,
    inbox: SyncSender<Message>,
    /// Gets a message when something has happened.
    news: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

struct HostLinkState {
    caller: Mutex<HostCaller>,
    /// To be set when the session has ended by itself.
    lost: Mutex<Option<Arc<AtomicBool>>>,
    is_over: AtomicBool,
}

impl HostLinkState {
    fn caller(&self) -> MutexGuard<'_, HostCaller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise_lost(&self) {
        let flag = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flag) = &*flag {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

impl HostLink {
    /// Opens a session with a host.
    ///
    /// # Errors
    /// If there is no such host, or it refuses.
    pub fn open(
        bus: Arc<dyn Bus>,
        clock: Clock,
        settings: CallerSettings,
        key: SigningKey,
    ) -> Result<Self, HostError> {
        let (sender, inbox) = sync_channel(INBOX_CAPACITY);
        bus.subscribe(&settings.inbox, &sender)
            .map_err(|_: BusError| HostError::Closed)?;
        let shared = Arc::new(HostLinkState {
            caller: Mutex::new(HostCaller::new(settings, key, clock())),
            lost: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let (tell, news) = sync_channel(1);
        let (theirs, their_clock) = (Arc::clone(&shared), Arc::clone(&clock));
        let thread = std::thread::Builder::new()
            .name("host-link".to_owned())
            .spawn(move || keep(&theirs, &*bus, &their_clock, &inbox, &tell))
            .map_err(|_| HostError::Closed)?;
        let link = Self {
            shared,
            clock,
            inbox: sender,
            news,
            thread: Some(thread),
        };
        loop {
            {
                let caller = link.shared.caller();
                if let Some(error) = caller.ended() {
                    return Err(error.clone());
                }
                if caller.is_open() {
                    break;
                }
            }
            // An error is impossible: the thread ends only after this.
            let _ = link.news.recv_timeout(TURN);
        }
        Ok(link)
    }

    /// Makes a call and waits for its reply. `on_wait` is called about twice a second meanwhile.
    ///
    /// # Errors
    /// If the link is lost, the host has ended the session, or something is too large.
    pub fn call(&self, call: Vec<u8>, on_wait: &mut dyn FnMut()) -> Result<Vec<u8>, HostError> {
        let mut reported_ns = (self.clock)();
        self.shared.caller().begin(call, reported_ns);
        self.wake();
        loop {
            if let Some(reply) = self.shared.caller().take_reply() {
                return reply;
            }
            let _ = self.news.recv_timeout(TURN);
            let now_ns = (self.clock)();
            if now_ns.saturating_sub(reported_ns) >= REPORT_NS {
                reported_ns = now_ns;
                on_wait();
            }
        }
    }

    /// Reads the clock of the host, which takes five seconds at most if it replies.
    ///
    /// # Errors
    /// If the link is lost, the host has ended the session, or it contradicts itself.
    pub fn read_clock(&self) -> Result<Offset, HostError> {
        self.shared.caller().begin_clock((self.clock)());
        self.wake();
        loop {
            if let Some(offset) = self.shared.caller().take_clock((self.clock)()) {
                return offset;
            }
            let _ = self.news.recv_timeout(TURN);
        }
    }

    /// Sets this flag as soon as no call can be made any more.
    pub fn when_lost(&self, flag: Arc<AtomicBool>) {
        *self
            .shared
            .lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(flag);
        self.wake();
    }

    /// Why no call can be made any more.
    #[must_use]
    pub fn ended(&self) -> Option<HostError> {
        self.shared.caller().ended().cloned()
    }

    fn wake(&self) {
        // If the inbox is full, the thread is awake.
        let nothing = Message::new(String::new(), None, Vec::new(), 0);
        let _ = self.inbox.try_send(nothing);
    }
}

impl Drop for HostLink {
    fn drop(&mut self) {
        self.shared.caller().close((self.clock)());
        self.wake();
        while self.shared.caller().ended().is_none() {
            // This takes two seconds at most.
            let _ = self.news.recv_timeout(TURN);
        }
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Carries messages until the link is dropped.
fn keep(
    shared: &HostLinkState,
    bus: &dyn Bus,
    clock: &Clock,
    inbox: &Receiver<Message>,
    news: &SyncSender<()>,
) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let first = inbox.recv_timeout(TURN).ok();
        let outgoing = {
            let mut caller = shared.caller();
            for message in first.into_iter().chain(inbox.try_iter()) {
                caller.on_message(&message, clock());
            }
            caller.on_tick(clock());
            if caller
                .ended()
                .is_some_and(|error| *error != HostError::Closed)
            {
                shared.raise_lost();
            }
            caller.take_outgoing()
        };
        for message in outgoing {
            // A closed bus is noticed as silence.
            let _ = bus.publish(message);
        }
        // If it is full, the receiver will wake up anyway.
        let _ = news.try_send(());
    }
}

/// Asks which hosts of a fleet are there. The result is sorted by name; two hosts of the same name
/// are both in it.
///
/// # Errors
/// If the bus is closed.
pub fn call_hosts(
    bus: &dyn Bus,
    clock: &Clock,
    fleet: &FleetName,
) -> Result<Vec<Present>, BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    let subjects = Subjects::new(fleet);
    bus.subscribe(&subjects.host_hellos(), &sender)?;
    let question = roll_call_question(subjects.hosts());
    let mut hosts = BTreeMap::new();
    // Twice: the subscription may have come too late for the first replies.
    for _ in 0..2 {
        bus.publish(question.clone())?;
        let until_ns = clock().saturating_add(ROLL_CALL_NS / 2);
        let left = || Duration::from_nanos(until_ns.saturating_sub(clock()));
        while let Ok(message) = inbox.recv_timeout(left()) {
            let host = Present::of(&message)
                .filter(|host| message.subject == subjects.host_hello(&host.agent));
            if let Some(host) = host.filter(|_| hosts.len() < MAX_AGENTS) {
                hosts.insert((host.agent.clone(), host.hello.session.clone()), host);
            }
        }
    }
    Ok(hosts.into_values().collect())
}
