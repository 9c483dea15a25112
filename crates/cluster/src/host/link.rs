//! Connects the coordinator's side to a bus: a thread keeps the lease while nobody calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::caller::{CallerSettings, HostCaller, HostError, HostRollCall};
use super::message::HostHello;
use crate::bus::{Bus, BusError, Clock, INBOX_CAPACITY, Message};
use crate::names::{AgentId, FleetName, Label};
use crate::signing::SigningKey;

/// How long the thread waits for a message before it looks what is due.
const TURN: Duration = Duration::from_millis(50);

/// How often it is reported that a reply is waited for.
const TELL_NS: u64 = 500_000_000;

/// How long a roll call takes.
const ROLL_CALL: Duration = Duration::from_millis(600);

/// An open session with a host. Dropped, it is closed.
pub struct HostLink {
    shared: Arc<Shared>,
    clock: Clock,
    inbox: SyncSender<Message>,
    /// Where the thread says that something has happened.
    news: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    caller: Mutex<HostCaller>,
    /// To be set when the session has ended by itself.
    lost: Mutex<Option<Arc<AtomicBool>>>,
    is_over: AtomicBool,
}

impl Shared {
    fn caller(&self) -> MutexGuard<'_, HostCaller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
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
        fleet: FleetName,
        version: Label,
        host: AgentId,
        key: SigningKey,
    ) -> Result<Self, HostError> {
        let closed = |_: BusError| HostError::Closed;
        let (sender, inbox) = sync_channel(INBOX_CAPACITY);
        let subject = bus.new_inbox();
        bus.subscribe(&subject, &sender).map_err(closed)?;
        let settings = CallerSettings {
            fleet,
            version,
            host,
            inbox: subject,
        };
        let shared = Arc::new(Shared {
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
            // The thread ends only after this.
            let _ = link.news.recv_timeout(TURN);
        }
        Ok(link)
    }

    /// Makes a call and waits for its reply. `on_wait` is called about twice a second meanwhile.
    ///
    /// # Errors
    /// If the link is lost, the host has ended the session, or something is too large.
    pub fn call(&self, call: Vec<u8>, on_wait: &mut dyn FnMut()) -> Result<Vec<u8>, HostError> {
        let mut told_ns = (self.clock)();
        self.shared.caller().begin(call, told_ns);
        self.wake();
        loop {
            if let Some(reply) = self.shared.caller().take_reply() {
                return reply;
            }
            let _ = self.news.recv_timeout(TURN);
            let now_ns = (self.clock)();
            if now_ns.saturating_sub(told_ns) >= TELL_NS {
                told_ns = now_ns;
                on_wait();
            }
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
        let _ = self.inbox.try_send(Message {
            subject: String::new(),
            reply: None,
            payload: Vec::new(),
            received_ns: 0,
        });
    }
}

impl Drop for HostLink {
    fn drop(&mut self) {
        self.shared.caller().close((self.clock)());
        self.wake();
        while self.shared.caller().ended().is_none() {
            // It takes two seconds at most.
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
    shared: &Shared,
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
        // Full, it says the same.
        let _ = news.try_send(());
    }
}

/// Asks which hosts of a fleet are there: name, version and introduction of each.
///
/// # Errors
/// If the bus is closed.
pub fn call_hosts(
    bus: &dyn Bus,
    clock: &Clock,
    fleet: &FleetName,
) -> Result<Vec<(AgentId, Label, HostHello)>, BusError> {
    let (sender, inbox) = sync_channel(INBOX_CAPACITY);
    let subject = bus.new_inbox();
    bus.subscribe(&subject, &sender)?;
    let mut roll_call = HostRollCall::new(fleet, subject);
    let limit_ns = u64::try_from(ROLL_CALL.as_nanos()).unwrap_or(u64::MAX);
    let end_ns = clock().saturating_add(limit_ns);
    // Twice: the subscription may have come too late for the first replies.
    for until_ns in [clock().saturating_add(limit_ns / 2), end_ns] {
        bus.publish(roll_call.question())?;
        loop {
            let left_ns = until_ns.saturating_sub(clock());
            match inbox.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(message) => roll_call.on_message(&message),
                Err(_) => break,
            }
        }
    }
    Ok(roll_call.into_present().collect())
}
