//! A simulated kernel, network and peer on a virtual clock. Runs are deterministic and take no
//! time.
//!
//! Nothing blocks: [`Sim::wait`](EventLoop::wait) sets the clock to the next event or to the
//! caller's deadline, whichever is earlier. A test describes the behavior of the remote end as a
//! [`Peer`].

mod datagrams;
mod link;
mod peer;
mod postponed;

pub use datagrams::{DatagramCounts, DatagramFaults};
pub use peer::{Actions, Attempt, ConnectReaction, Peer};

use crate::Waker;
use crate::{
    Address, CloseMode, Completion, EventLoop, Payload, SharedBytes, SocketEvent, SocketOptions,
    Token,
};
use link::{ClientSocket, Link, PeerSocket, Pending};
use peer::Action;
use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit of events in one `wait`. Beyond it, the peer is in a loop in which no time passes.
const EVENTS_PER_WAIT_MAX: u64 = 1_000_000;

/// Limit of pending events. Beyond it, the simulation has run away.
const EVENTS_PENDING_MAX: usize = 1_000_000;

/// Limit of consecutive waits that do not move the clock. Beyond it, the caller is spinning, alone
/// or together with a peer that takes no time.
const WAITS_WITHOUT_PROGRESS_MAX: u32 = 1_000_000;

/// Properties of the simulated machine and network.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Determines jitter and segment sizes. The same seed gives the same run.
    pub seed: u64,
    /// Initial time of the clock.
    pub start_ns: u64,
    /// Cost of reading the clock. With 0, no time passes while the caller works.
    pub clock_cost_ns: u64,
    /// Network latency, one way.
    pub latency_ns: u64,
    /// Random addition to the latency, at most this much. Bytes of a connection stay in order.
    pub jitter_ns: u64,
    /// Bytes per second from the client to the peer, per connection. `None` is unlimited.
    pub uplink_bytes_per_s: Option<NonZeroU64>,
    /// Bytes that the kernel accepts from a sender before the network has taken them; at least 1.
    pub send_buffer_bytes: usize,
    /// Most bytes of one [`SocketEvent::Received`] and of one [`Peer::on_bytes`]; at least 1.
    pub segment_bytes: usize,
    /// Splits what arrives at the client at random, into pieces of at most `segment_bytes`.
    pub random_cuts: bool,
    /// Sockets that may be open at once. Further ones fail with EMFILE.
    pub sockets_max: u32,
    /// How long it takes from a close to [`SocketEvent::Closed`].
    pub close_ns: u64,
    /// How long received bytes have been in the kernel when the loop notices them, in addition to
    /// the time in which the caller kept the loop from running. See
    /// [`EventLoop::receive_delay_ns`].
    pub receive_delay_ns: u64,
    /// Times in which the program does not run, from the first to the second, ascending. A wait
    /// that would end within one ends when it is over. The network and the peer go on.
    pub pauses_ns: Vec<(u64, u64)>,
    /// Whether sockets have receive timestamps, if the caller asks for them.
    pub has_timestamps: bool,
    /// Whether bytes are read when the caller takes them, all of a connection at once, as epoll
    /// does. Otherwise, they are read when a wait finds them, as they arrived.
    pub reads_when_taken: bool,
    /// How often bytes can be read between two waits. The rest is
    /// [postponed](SocketEvent::Postponed), as io_uring does when its buffers are used up.
    pub buffers: usize,
    /// Whether sends are passed to the kernel by waits and submissions, as io_uring does. One wait
    /// passes one payload of a connection, and the next one only after its completion was taken.
    pub queues_sends: bool,
    /// How long the program has worked since the clock was read last, nanoseconds. Whatever takes
    /// time adds to it.
    pub work_ns: Arc<AtomicU64>,
    /// What the network does to datagrams, in both directions.
    pub datagram_faults: DatagramFaults,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            start_ns: 0,
            clock_cost_ns: 0,
            latency_ns: 0,
            jitter_ns: 0,
            uplink_bytes_per_s: None,
            send_buffer_bytes: 256 * 1024,
            segment_bytes: 16 * 1024,
            random_cuts: false,
            sockets_max: u32::MAX,
            close_ns: 0,
            receive_delay_ns: 0,
            pauses_ns: Vec::new(),
            has_timestamps: true,
            reads_when_taken: false,
            buffers: usize::MAX,
            queues_sends: false,
            work_ns: Arc::default(),
            datagram_faults: DatagramFaults::default(),
        }
    }
}

/// An event at the peer, with the time at which it happened there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLogEntry {
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// Number of the connection attempt, from 0.
    pub connection: u32,
    /// What happened there, or what the peer did.
    pub what: PeerEvent,
}

/// What happened at the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEvent {
    /// A connection attempt arrived, with this key.
    Attempted(u32),
    /// The connection was established.
    Established,
    /// This many bytes arrived.
    Arrived(usize),
    /// The client's FIN arrived.
    EndOfStream,
    /// The client's RST arrived.
    Reset,
    /// This many bytes were sent.
    Sent(usize),
    /// A FIN was sent.
    Finished,
    /// A RST was sent.
    Aborted,
    /// A datagram of this length arrived.
    DatagramArrived(usize),
    /// A datagram of this length was sent.
    DatagramSent(usize),
    /// A datagram was refused, with this error at the client.
    Refused(i32),
}

/// What the peer saw and did, in order. Clones share the same log, so that a test can keep one when
/// it gives the simulator away.
#[derive(Debug, Clone, Default)]
pub struct PeerLog(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    entries: Vec<PeerLogEntry>,
    most_unsent_bytes: usize,
}

impl PeerLog {
    /// All entries so far.
    #[must_use]
    pub fn entries(&self) -> Vec<PeerLogEntry> {
        self.lock().entries.clone()
    }

    /// The most bytes that ever waited on a connection for its send buffer: memory of the caller.
    #[must_use]
    pub fn most_unsent_bytes(&self) -> usize {
        self.lock().most_unsent_bytes
    }

    fn note_unsent(&self, bytes: usize) {
        let mut log = self.lock();
        log.most_unsent_bytes = log.most_unsent_bytes.max(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at_ns: u64, connection: u32, what: PeerEvent) {
        let entry = PeerLogEntry {
            at_ns,
            connection,
            what,
        };
        self.lock().entries.push(entry);
    }
}

/// The simulator: an [`EventLoop`] with a virtual clock, connected to a [`Peer`].
///
/// Several loops can share one simulated world ([`Sim::sibling`]): one clock, one peer. They belong
/// to one thread, and the code that drives them decides which loop runs next. A wait ends when any
/// of the siblings has a completion to take.
///
/// There is one difference from a kernel that tests may notice: a graceful close with unread
/// received bytes sends FIN, where Linux sends RST.
#[derive(Debug)]
pub struct Sim<P> {
    world: Rc<RefCell<World<P>>>,
    /// Which of the world's loops this is.
    index: usize,
    lent: Vec<u8>,
    lent_segment: Option<usize>,
    lent_delay_ns: Option<u64>,
}

/// Clock, network and peer, and the state of each loop.
#[derive(Debug)]
struct World<P> {
    options: SimOptions,
    clock_ns: u64,
    random: SplitMix64,
    peer: P,
    peer_log: PeerLog,
    links: Vec<Link>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    shared: Vec<Arc<[u8]>>,
    /// Ordered by time, then by the order in which they were scheduled.
    events: BTreeMap<(u64, u64), (u32, Event)>,
    planned: u64,
    loops: Vec<LoopState>,
    datagram_counts: DatagramCounts,
    /// The clock after the last wait, and how many waits have ended at that time.
    last_wait_ns: u64,
    waits_at_this_time: u32,
    /// A loop passes everything to the kernel.
    submits: bool,
    run_queue_wait_ns: Arc<AtomicU64>,
    worked_ns: Arc<AtomicU64>,
}

/// Completions that a loop has not taken yet.
#[derive(Debug, Default)]
struct LoopState {
    ready: VecDeque<Ready>,
    /// How often bytes were read since the last wait.
    reads: usize,
    /// What the next wait finds, because there was no buffer for it.
    postponed: Vec<Ready>,
    /// When it last passed to the kernel what was queued.
    submitted_ns: u64,
    /// The key of its waker, and whether the waker has been used.
    waker: Option<(u32, Arc<AtomicBool>)>,
}

impl LoopState {
    /// Turns a use of the waker into a completion.
    fn take_wake(&mut self, at_ns: u64) {
        let Some((key, is_woken)) = &self.waker else {
            return;
        };
        if is_woken.swap(false, Ordering::SeqCst) {
            self.ready.push_back(Ready {
                completion: Completion {
                    key: *key,
                    token: Token {
                        index: u32::MAX,
                        generation: 0,
                    },
                    at_ns,
                    event: SocketEvent::Received(1),
                },
                bytes: vec![1],
                segment: None,
                delay_ns: None,
            });
        }
    }
}

/// An entry of the socket table.
#[derive(Debug)]
struct Slot {
    generation: u32,
    connection: u32,
}

/// A completion that has not been taken yet, with the bytes that it lends.
#[derive(Debug)]
struct Ready {
    completion: Completion,
    bytes: Vec<u8>,
    /// The length of each datagram in `bytes`.
    segment: Option<usize>,
    delay_ns: Option<u64>,
}

/// A scheduled event of one connection.
#[derive(Debug)]
enum Event {
    AttemptArrives(Address, SocketOptions),
    Opens,
    ReachesClient(Arrival),
    LeavesClient,
    ReachesPeer(Arrival),
    PeerActs(Action),
    ClientClosed,
}

/// What travels over the network.
#[derive(Debug)]
enum Arrival {
    Connected,
    ConnectFailed(i32),
    Bytes(Vec<u8>),
    Fin,
    Reset,
    Datagram(Vec<u8>),
    /// The remote host has refused a datagram.
    Refused(i32),
}

impl<P: Peer> Sim<P> {
    /// A machine with no open sockets, and this peer.
    ///
    /// # Panics
    /// If a size in `options` is 0.
    #[must_use]
    pub fn new(options: SimOptions, peer: P) -> Self {
        assert!(
            options.send_buffer_bytes > 0 && options.segment_bytes > 0,
            "sizes must be at least 1"
        );
        let world = World {
            clock_ns: options.start_ns,
            random: SplitMix64(options.seed),
            options,
            peer,
            peer_log: PeerLog::default(),
            links: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            shared: Vec::new(),
            events: BTreeMap::new(),
            planned: 0,
            loops: vec![LoopState::default()],
            datagram_counts: DatagramCounts::default(),
            last_wait_ns: 0,
            waits_at_this_time: 0,
            submits: false,
            run_queue_wait_ns: Arc::default(),
            worked_ns: Arc::default(),
        };
        Self::of(Rc::new(RefCell::new(world)), 0)
    }

    fn of(world: Rc<RefCell<World<P>>>, index: usize) -> Self {
        Self {
            world,
            index,
            lent: Vec::new(),
            lent_segment: None,
            lent_delay_ns: None,
        }
    }

    /// Another loop in the same world.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let mut world = self.world.borrow_mut();
        world.loops.push(LoopState::default());
        Self::of(Rc::clone(&self.world), world.loops.len() - 1)
    }

    /// What the peer saw and did.
    #[must_use]
    pub fn peer_log(&self) -> PeerLog {
        self.world.borrow().peer_log.clone()
    }

    /// How long the program could have run and did not ([`SimOptions::pauses_ns`]), nanoseconds: a
    /// kernel that lets another program run counts this. The number grows while the program runs.
    #[must_use]
    pub fn run_queue_wait_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.world.borrow().run_queue_wait_ns)
    }

    /// How long the program has worked ([`SimOptions::work_ns`]), nanoseconds. The number grows
    /// while the program runs.
    #[must_use]
    pub fn worked_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.world.borrow().worked_ns)
    }

    /// What happened to the datagrams of all sockets.
    #[must_use]
    pub fn datagram_counts(&self) -> DatagramCounts {
        self.world.borrow().datagram_counts
    }

    /// The peer, to look at what it has recorded.
    #[must_use]
    pub fn peer(&self) -> Ref<'_, P> {
        Ref::map(self.world.borrow(), |world| &world.peer)
    }

    /// Number of sockets of all loops that are open, connecting or closing.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.world.borrow().open_sockets()
    }

    fn end_loan(&mut self) {
        self.lent.clear();
        self.lent_segment = None;
        self.lent_delay_ns = None;
    }
}

impl<P: Peer> World<P> {
    fn open_sockets(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn schedule(&mut self, at_ns: u64, connection: u32, event: Event) {
        self.events
            .insert((at_ns, self.planned), (connection, event));
        self.planned += 1;
    }

    fn link(&mut self, connection: u32) -> &mut Link {
        &mut self.links[connection as usize]
    }

    /// The connection of a token that has not been closed.
    fn find(&self, token: Token) -> Option<u32> {
        let slot = self.slots.get(token.index as usize)?;
        let alive = slot.generation == token.generation
            && self.links[slot.connection as usize].client != ClientSocket::Gone;
        alive.then_some(slot.connection)
    }

    fn new_token(&mut self, connection: u32) -> Token {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.generation = slot.generation.wrapping_add(1);
            slot.connection = connection;
            return Token {
                index,
                generation: slot.generation,
            };
        }
        self.slots.push(Slot {
            generation: 0,
            connection,
        });
        Token {
            index: (self.slots.len() - 1) as u32,
            generation: 0,
        }
    }

    fn complete(&mut self, connection: u32, event: SocketEvent, bytes: Vec<u8>) {
        let at_ns = self.clock_ns;
        let link = &self.links[connection as usize];
        let ready = &mut self.loops[link.owner].ready;
        let completion = Completion {
            key: link.key,
            token: link.token,
            at_ns,
            event,
        };
        let comes_first = self.options.reads_when_taken && !is_arrival(&completion.event);
        let completed = Ready {
            completion,
            bytes,
            segment: None,
            delay_ns: None,
        };
        let before = if comes_first {
            ready.iter().position(|it| is_arrival(&it.completion.event))
        } else {
            None
        };
        ready.insert(before.unwrap_or(ready.len()), completed);
    }

    /// Handles everything that is due at the current time of the clock.
    fn run_due(&mut self, budget: &mut u64) -> io::Result<()> {
        while let Some(entry) = self.events.first_entry() {
            let at_ns = entry.key().0;
            if at_ns > self.clock_ns {
                break;
            }
            let (connection, event) = entry.remove();
            self.on_event(connection, event, at_ns);
            *budget = budget.checked_sub(1).ok_or_else(|| {
                simulation_error(format!(
                    "more than {EVENTS_PER_WAIT_MAX} events in one wait at {at_ns} ns; \
                     does the peer answer itself?"
                ))
            })?;
        }
        Ok(())
    }

    fn on_event(&mut self, connection: u32, event: Event, at_ns: u64) {
        match event {
            Event::AttemptArrives(address, options) => {
                self.on_attempt(connection, &address, &options, at_ns);
            }
            Event::Opens => self.on_opens(connection, at_ns),
            Event::ReachesClient(arrival) => self.on_client(connection, arrival, at_ns),
            Event::LeavesClient => self.on_leaves_client(connection, at_ns),
            Event::ReachesPeer(arrival) => self.on_peer(connection, arrival, at_ns),
            Event::PeerActs(action) => self.on_action(connection, action, at_ns),
            Event::ClientClosed => {
                self.complete(connection, SocketEvent::Closed, Vec::new());
                self.free.push(self.links[connection as usize].token.index);
            }
        }
    }

    fn on_attempt(&mut self, connection: u32, to: &Address, options: &SocketOptions, at_ns: u64) {
        let key = self.link(connection).key;
        self.peer_log
            .note(at_ns, connection, PeerEvent::Attempted(key));
        let attempt = Attempt {
            connection,
            key,
            address: to,
            options,
            is_datagram: false,
        };
        match self.peer.on_connect(&attempt, at_ns) {
            ConnectReaction::Accept { after_ns } => {
                self.schedule(at_ns.saturating_add(after_ns), connection, Event::Opens);
            }
            ConnectReaction::Fail { after_ns, errno } => {
                self.link(connection).peer_socket = PeerSocket::Closed;
                let left_ns = at_ns.saturating_add(after_ns);
                self.travel_to_client(connection, Arrival::ConnectFailed(errno), left_ns);
            }
            ConnectReaction::Ignore => {}
        }
    }

    fn on_opens(&mut self, connection: u32, at_ns: u64) {
        // The client may have given up before the peer accepted.
        if self.link(connection).peer_socket != PeerSocket::Opening {
            return;
        }
        self.link(connection).peer_socket = PeerSocket::Open;
        self.peer_log
            .note(at_ns, connection, PeerEvent::Established);
        self.travel_to_client(connection, Arrival::Connected, at_ns);
        self.ask_peer(connection, at_ns, |peer, actions| {
            peer.on_open(connection, at_ns, actions);
        });
    }

    /// Something reaches the client's socket.
    fn on_client(&mut self, connection: u32, arrival: Arrival, at_ns: u64) {
        if self.link(connection).client == ClientSocket::Gone {
            match arrival {
                Arrival::Bytes(_) => self.travel_to_peer(connection, Arrival::Reset, at_ns),
                Arrival::Datagram(_) => self.datagram_counts.arrived += 1,
                _ => {}
            }
            return;
        }
        match arrival {
            Arrival::Connected => {
                self.link(connection).client = ClientSocket::Open;
                self.complete(connection, SocketEvent::Connected, Vec::new());
                self.push_out(connection, at_ns);
            }
            Arrival::ConnectFailed(errno) => {
                self.link(connection).client = ClientSocket::Gone;
                self.complete(connection, SocketEvent::ConnectFailed(errno), Vec::new());
                self.free.push(self.links[connection as usize].token.index);
            }
            Arrival::Bytes(bytes) => self.on_client_bytes(connection, &bytes, at_ns),
            Arrival::Fin => {
                if self.link(connection).receives() {
                    self.link(connection).receive_ended = true;
                    self.complete(connection, SocketEvent::EndOfStream, Vec::new());
                }
            }
            Arrival::Reset => self.on_client_reset(connection),
            Arrival::Datagram(datagram) => self.on_client_datagram(connection, datagram, at_ns),
            Arrival::Refused(errno) => {
                self.complete(connection, SocketEvent::ReceiveFailed(errno), Vec::new());
            }
        }
    }

    fn on_client_bytes(&mut self, connection: u32, bytes: &[u8], at_ns: u64) {
        if !self.link(connection).receives() {
            return;
        }
        let since_ns = self.clock_ns.saturating_sub(at_ns);
        let delay_ns = since_ns.saturating_add(self.options.receive_delay_ns);
        let delay_ns = self.link(connection).timestamped.then_some(delay_ns);
        let mut rest = bytes;
        if self.options.reads_when_taken {
            rest = self.join(connection, rest, delay_ns);
        }
        while !rest.is_empty() {
            let longest = rest.len().min(self.options.segment_bytes);
            let length = if self.options.random_cuts {
                1 + self.random.below(longest as u64) as usize
            } else {
                longest
            };
            let (piece, tail) = rest.split_at(length);
            self.complete(connection, SocketEvent::Received(length), piece.to_vec());
            let owner = self.link(connection).owner;
            if let Some(ready) = self.loops[owner].ready.back_mut() {
                ready.delay_ns = delay_ns;
            }
            rest = tail;
        }
    }

    /// Adds what arrives to what a wait has found of the connection before, as far as one read can
    /// take it. Returns the rest.
    fn join<'b>(&mut self, connection: u32, bytes: &'b [u8], delay_ns: Option<u64>) -> &'b [u8] {
        let link = &self.links[connection as usize];
        let (owner, token) = (link.owner, link.token);
        let segment_bytes = self.options.segment_bytes;
        let newest = self.loops[owner].ready.iter_mut().rev();
        let newest = newest.filter(|ready| ready.completion.token == token);
        for ready in newest.take(1) {
            if let SocketEvent::Received(length) = &mut ready.completion.event {
                let room = segment_bytes.saturating_sub(*length).min(bytes.len());
                let (piece, rest) = bytes.split_at(room);
                ready.bytes.extend_from_slice(piece);
                *length += room;
                if room > 0 {
                    ready.delay_ns = delay_ns;
                }
                return rest;
            }
        }
        bytes
    }

    /// The caller takes what a wait has found.
    fn take(&mut self, mut ready: Ready) -> Ready {
        if self.options.reads_when_taken && is_arrival(&ready.completion.event) {
            let found_ns = std::mem::replace(&mut ready.completion.at_ns, self.clock_ns);
            let since_ns = self.clock_ns.saturating_sub(found_ns);
            ready.delay_ns = ready.delay_ns.map(|it| it.saturating_add(since_ns));
        }
        self.discarded(ready)
    }

    fn on_client_reset(&mut self, connection: u32) {
        let link = self.link(connection);
        let receives = link.receives();
        let sends = !link.queue.is_empty();
        link.client = ClientSocket::Broken;
        link.queue.clear();
        link.drop_buffered();
        if receives {
            self.complete(
                connection,
                SocketEvent::ReceiveFailed(libc::ECONNRESET),
                Vec::new(),
            );
        }
        if sends {
            self.complete(
                connection,
                SocketEvent::SendFailed(libc::ECONNRESET),
                Vec::new(),
            );
        }
    }

    /// The oldest bytes of the send buffer have left.
    fn on_leaves_client(&mut self, connection: u32, at_ns: u64) {
        let link = self.link(connection);
        link.transmitting = false;
        // An abort or a reset has emptied the buffer since.
        let Some(bytes) = link.take_buffered() else {
            return;
        };
        match self.link(connection).datagrams {
            None => self.travel_to_peer(connection, Arrival::Bytes(bytes), at_ns),
            Some(_) => self.datagram_to_peer(connection, bytes, at_ns),
        }
        self.push_out(connection, at_ns);
    }

    /// Something reaches the peer.
    fn on_peer(&mut self, connection: u32, arrival: Arrival, at_ns: u64) {
        let peer_socket = self.link(connection).peer_socket;
        match arrival {
            Arrival::Bytes(bytes) if peer_socket == PeerSocket::Open => {
                self.peer_log
                    .note(at_ns, connection, PeerEvent::Arrived(bytes.len()));
                self.ask_peer(connection, at_ns, |peer, actions| {
                    peer.on_bytes(connection, &bytes, at_ns, actions);
                });
            }
            Arrival::Bytes(_) if peer_socket == PeerSocket::Closed => {
                self.travel_to_client(connection, Arrival::Reset, at_ns);
            }
            Arrival::Fin if peer_socket == PeerSocket::Open => {
                self.peer_log
                    .note(at_ns, connection, PeerEvent::EndOfStream);
                self.ask_peer(connection, at_ns, |peer, actions| {
                    peer.on_end_of_stream(connection, at_ns, actions);
                });
            }
            Arrival::Reset if peer_socket == PeerSocket::Open => {
                self.link(connection).peer_socket = PeerSocket::Closed;
                self.peer_log.note(at_ns, connection, PeerEvent::Reset);
                self.peer.on_reset(connection, at_ns);
            }
            Arrival::Datagram(datagram) => self.on_peer_datagram(connection, &datagram, at_ns),
            Arrival::Fin | Arrival::Reset => self.link(connection).peer_socket = PeerSocket::Closed,
            Arrival::Bytes(_)
            | Arrival::Connected
            | Arrival::ConnectFailed(_)
            | Arrival::Refused(_) => {}
        }
    }

    /// Calls the peer and schedules the actions it asks for.
    fn ask_peer(
        &mut self,
        connection: u32,
        at_ns: u64,
        question: impl FnOnce(&mut P, &mut Actions),
    ) {
        let mut actions = Actions::new(at_ns, self.link(connection).last_departure_ns);
        question(&mut self.peer, &mut actions);
        let (list, last_departure_ns) = actions.into_parts();
        self.link(connection).last_departure_ns = last_departure_ns;
        for (due_ns, action) in list {
            self.schedule(due_ns, connection, Event::PeerActs(action));
        }
    }

    fn on_action(&mut self, connection: u32, action: Action, at_ns: u64) {
        let link = self.link(connection);
        if link.peer_socket == PeerSocket::Closed {
            return;
        }
        match action {
            Action::SendDatagram(datagram) => {
                self.peer_sends_datagram(connection, datagram, at_ns);
            }
            // There is nothing to end, and nobody waits for room.
            Action::StopReading
            | Action::ResumeReading
            | Action::Reset
            | Action::Send(_)
            | Action::Finish
            | Action::Close
                if link.datagrams.is_some() => {}
            Action::Wake => self.ask_peer(connection, at_ns, |peer, actions| {
                peer.on_wake(connection, at_ns, actions);
            }),
            Action::StopReading => link.peer_reads = false,
            Action::ResumeReading => {
                link.peer_reads = true;
                self.push_out(connection, at_ns);
            }
            Action::Reset => {
                link.peer_socket = PeerSocket::Closed;
                self.peer_log.note(at_ns, connection, PeerEvent::Aborted);
                self.travel_to_client(connection, Arrival::Reset, at_ns);
            }
            Action::Send(bytes) => {
                if !link.peer_finished && !bytes.is_empty() {
                    self.peer_log
                        .note(at_ns, connection, PeerEvent::Sent(bytes.len()));
                    self.travel_to_client(connection, Arrival::Bytes(bytes), at_ns);
                }
            }
            Action::Finish => self.finish_peer(connection, PeerSocket::Open, at_ns),
            Action::Close => self.finish_peer(connection, PeerSocket::Closed, at_ns),
        }
    }

    fn finish_peer(&mut self, connection: u32, becomes: PeerSocket, at_ns: u64) {
        let link = self.link(connection);
        link.peer_socket = becomes;
        if becomes == PeerSocket::Closed {
            // Nothing holds bytes back any more: they travel, and the reply to them is RST.
            link.peer_reads = true;
        }
        if !std::mem::replace(&mut link.peer_finished, true) {
            self.peer_log.note(at_ns, connection, PeerEvent::Finished);
            self.travel_to_client(connection, Arrival::Fin, at_ns);
        }
        self.push_out(connection, at_ns);
    }

    fn travel_to_client(&mut self, connection: u32, arrival: Arrival, left_ns: u64) {
        let travelled_ns = left_ns.saturating_add(self.travel_ns());
        let link = self.link(connection);
        link.last_at_client_ns = link.last_at_client_ns.max(travelled_ns);
        let at_ns = link.last_at_client_ns;
        self.schedule(at_ns, connection, Event::ReachesClient(arrival));
    }

    fn travel_to_peer(&mut self, connection: u32, arrival: Arrival, left_ns: u64) {
        let travelled_ns = left_ns.saturating_add(self.travel_ns());
        let link = self.link(connection);
        link.last_at_peer_ns = link.last_at_peer_ns.max(travelled_ns);
        let at_ns = link.last_at_peer_ns;
        self.schedule(at_ns, connection, Event::ReachesPeer(arrival));
    }

    fn travel_ns(&mut self) -> u64 {
        let jitter_ns = match self.options.jitter_ns {
            0 => 0,
            most => self.random.below(most.saturating_add(1)),
        };
        self.options.latency_ns.saturating_add(jitter_ns)
    }

    /// Moves queued payloads into the send buffer as far as they fit, and starts sending the oldest
    /// bytes of the buffer.
    fn push_out(&mut self, connection: u32, at_ns: u64) {
        if self.link(connection).client == ClientSocket::Open {
            self.fill_buffer(connection);
        }
        let uplink_bytes_per_s = self.options.uplink_bytes_per_s;
        let link = self.link(connection);
        if link.transmitting || !link.peer_reads {
            return;
        }
        match link.buffered.front() {
            Some(bytes) => {
                let duration_ns = uplink_bytes_per_s.map_or(0, |rate| {
                    (bytes.len() as u64).saturating_mul(1_000_000_000) / rate
                });
                link.transmitting = true;
                self.schedule(
                    at_ns.saturating_add(duration_ns),
                    connection,
                    Event::LeavesClient,
                );
            }
            None if link.fin_is_due() => {
                link.fin_sent = true;
                self.travel_to_peer(connection, Arrival::Fin, at_ns);
            }
            None => {}
        }
    }

    fn fill_buffer(&mut self, connection: u32) {
        loop {
            let link = &mut self.links[connection as usize];
            if link.datagrams.is_some() {
                return self.fill_buffer_with_datagrams(connection);
            }
            let room = self.options.send_buffer_bytes - link.buffered_bytes;
            let Some(pending) = link.queue.front_mut().filter(|_| !link.keeps_sends) else {
                break;
            };
            let piece = pending.piece(&self.shared, room.min(self.options.segment_bytes));
            let piece = piece.to_vec();
            pending.taken += piece.len();
            if pending.remaining() == 0 {
                let payload = link.queue.pop_front().map(|pending| pending.payload);
                link.buffer(piece);
                if let Some(Payload::Owned(buffer)) = payload {
                    link.keeps_sends = self.options.queues_sends && !self.submits;
                    self.complete(connection, SocketEvent::Sent(buffer), Vec::new());
                }
            } else if piece.is_empty() {
                break;
            } else {
                link.buffer(piece);
            }
        }
    }

    /// Sets the clock to the next event, or to `until_ns` if that is earlier. Returns false if the
    /// deadline has been reached.
    fn jump(&mut self, until_ns: Option<u64>) -> io::Result<bool> {
        let next_ns = self.events.first_key_value().map(|(&(at_ns, _), _)| at_ns);
        let (target_ns, event_comes) = match (next_ns, until_ns) {
            (None, None) => {
                return Err(simulation_error(format!(
                    "nothing can happen any more at {} ns: no event is scheduled and there is no \
                     deadline; does the peer never answer?",
                    self.clock_ns
                )));
            }
            (Some(next_ns), None) => (next_ns, true),
            (None, Some(until_ns)) => (until_ns, false),
            (Some(next_ns), Some(until_ns)) => (next_ns.min(until_ns), next_ns <= until_ns),
        };
        let mut pauses = self.options.pauses_ns.iter();
        let resumed_ns = pauses
            .find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&target_ns))
            .map_or(0, |(_, to_ns)| *to_ns);
        let is_late = resumed_ns > self.clock_ns;
        let woken_ns = self.clock_ns.max(target_ns);
        self.clock_ns = woken_ns.max(resumed_ns);
        let waited_ns = self.clock_ns - woken_ns;
        self.run_queue_wait_ns
            .fetch_add(waited_ns, Ordering::Relaxed);
        // Events may have come in a pause, whose end is after the deadline.
        Ok(event_comes || is_late)
    }

    /// Discards what the caller does not want of the bytes about to be handed out. With random
    /// splitting, some of them are handed out anyway, as a kernel does with bytes that arrived
    /// before the call of `discard`.
    fn discarded(&mut self, mut ready: Ready) -> Ready {
        let (SocketEvent::Received(length), Some(connection)) =
            (&ready.completion.event, self.find(ready.completion.token))
        else {
            return ready;
        };
        let length = *length as u64;
        let link = &mut self.links[connection as usize];
        let owner = link.owner;
        let unwanted = length.min(link.discard_bytes);
        link.discard_bytes -= unwanted;
        if unwanted == 0 || (self.options.random_cuts && self.random.below(2) == 0) {
            return ready;
        }
        let rest = ready.bytes.split_off(unwanted as usize);
        ready.bytes.clear();
        if !rest.is_empty() {
            self.loops[owner].ready.push_front(Ready {
                completion: Completion {
                    event: SocketEvent::Received(rest.len()),
                    ..ready.completion
                },
                bytes: rest,
                segment: None,
                delay_ns: ready.delay_ns,
            });
        }
        ready.completion.event = SocketEvent::Discarded(unwanted);
        ready
    }

    fn note_standstill(&mut self) -> io::Result<()> {
        self.waits_at_this_time += 1;
        if self.waits_at_this_time > WAITS_WITHOUT_PROGRESS_MAX {
            return Err(simulation_error(format!(
                "{WAITS_WITHOUT_PROGRESS_MAX} consecutive waits at {} ns; the caller does not \
                 advance its deadline, or exchanges take no time",
                self.clock_ns
            )));
        }
        Ok(())
    }

    fn has_completion(&mut self) -> bool {
        let now_ns = self.clock_ns;
        let mut loops = self.loops.iter_mut();
        loops.any(|state| {
            state.take_wake(now_ns);
            !state.ready.is_empty()
        })
    }

    /// Opens a socket. Returns the number and token of its connection, and whether there was room
    /// for it; if not, it fails.
    fn open(&mut self, owner: usize, key: u32, options: &SocketOptions) -> (u32, Token, bool) {
        let is_open = self.open_sockets() < self.options.sockets_max as usize;
        let connection = self.links.len() as u32;
        let token = self.new_token(connection);
        self.links.push(Link::new(
            owner,
            key,
            token,
            options.timestamps && self.options.has_timestamps,
        ));
        if !is_open {
            // The attempt never leaves the machine.
            let failed = Event::ReachesClient(Arrival::ConnectFailed(libc::EMFILE));
            self.schedule(self.clock_ns, connection, failed);
        }
        (connection, token, is_open)
    }

    fn connect(
        &mut self,
        owner: usize,
        key: u32,
        address: &Address,
        options: &SocketOptions,
    ) -> Token {
        let (connection, token, is_open) = self.open(owner, key, options);
        if !is_open {
            return token;
        }
        let now_ns = self.clock_ns;
        let at_ns = now_ns.saturating_add(self.travel_ns());
        self.link(connection).last_at_peer_ns = at_ns;
        let arrives = Event::AttemptArrives(address.clone(), options.clone());
        self.schedule(at_ns, connection, arrives);
        token
    }

    fn send(&mut self, token: Token, payload: Payload) {
        let Some(connection) = self.find(token) else {
            return;
        };
        let link = self.link(connection);
        debug_assert_eq!(
            link.datagrams.is_some(),
            matches!(payload, Payload::Datagrams { .. })
        );
        if link.client == ClientSocket::Broken || link.send_ended {
            self.complete(connection, SocketEvent::SendFailed(libc::EPIPE), Vec::new());
            return;
        }
        link.queue.push_back(Pending::new(payload));
        if !self.options.queues_sends {
            self.push_out(connection, self.clock_ns);
        }
        let unsent = self.link(connection).queue.iter().map(Pending::remaining);
        let unsent_bytes = unsent.sum();
        self.peer_log.note_unsent(unsent_bytes);
    }

    fn discard(&mut self, token: Token, bytes: u64) {
        if let Some(connection) = self.find(token)
            && self.link(connection).datagrams.is_none()
        {
            self.link(connection).discard_bytes = bytes;
        }
    }

    fn shutdown_send(&mut self, token: Token) {
        let Some(connection) = self.find(token) else {
            return;
        };
        if self.link(connection).datagrams.is_some() {
            return;
        }
        self.link(connection).send_ended = true;
        self.push_out(connection, self.clock_ns);
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        let Some(connection) = self.find(token) else {
            return;
        };
        let now_ns = self.clock_ns;
        let link = &mut self.links[connection as usize];
        let ready = &mut self.loops[link.owner].ready;
        ready.retain(|ready| ready.completion.token != token);
        let postponed = &mut self.loops[link.owner].postponed;
        postponed.retain(|ready| ready.completion.token != token);
        let established = link.client != ClientSocket::Broken && link.datagrams.is_none();
        link.client = ClientSocket::Gone;
        link.queue.clear();
        link.send_ended = true;
        match mode {
            CloseMode::Graceful => self.push_out(connection, now_ns),
            CloseMode::Abort => {
                link.drop_buffered();
                link.fin_sent = true;
                if established {
                    self.travel_to_peer(connection, Arrival::Reset, now_ns);
                }
            }
        }
        let closed_ns = now_ns.saturating_add(self.options.close_ns);
        self.schedule(closed_ns, connection, Event::ClientClosed);
    }

    /// Passes what a loop has queued to the kernel, after a pause if the program does not run now.
    /// `all`: also what waits would keep.
    fn submit(&mut self, owner: usize, all: bool) {
        if !self.options.queues_sends {
            return;
        }
        self.pass_work();
        let mut pauses = self.options.pauses_ns.iter();
        let pause = pauses.find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&self.clock_ns));
        self.clock_ns = pause.map_or(self.clock_ns, |(_, to_ns)| *to_ns);
        let now_ns = self.clock_ns;
        self.loops[owner].submitted_ns = now_ns;
        self.submits = all;
        for connection in 0..self.links.len() as u32 {
            let link = self.link(connection);
            if link.owner == owner && !link.queue.is_empty() {
                link.keeps_sends &= !all;
                self.push_out(connection, now_ns);
            }
        }
        self.submits = false;
    }

    /// What the program has worked has taken time.
    fn pass_work(&mut self) {
        let worked_ns = self.options.work_ns.swap(0, Ordering::Relaxed);
        self.clock_ns = self.clock_ns.saturating_add(worked_ns);
        self.worked_ns.fetch_add(worked_ns, Ordering::Relaxed);
    }

    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        if self.events.len() > EVENTS_PENDING_MAX {
            return Err(simulation_error(format!(
                "{} events are scheduled at {} ns; does the peer send more responses than there \
                 are requests?",
                self.events.len(),
                self.clock_ns
            )));
        }
        self.pass_work();
        let mut budget = EVENTS_PER_WAIT_MAX;
        self.run_due(&mut budget)?;
        while !self.has_completion() {
            if !self.jump(until_ns)? {
                break;
            }
            self.run_due(&mut budget)?;
        }
        if self.clock_ns == self.last_wait_ns {
            return self.note_standstill();
        }
        self.last_wait_ns = self.clock_ns;
        self.waits_at_this_time = 0;
        Ok(())
    }
}

impl<P: Peer> EventLoop for Sim<P> {
    fn now_ns(&self) -> u64 {
        let mut world = self.world.borrow_mut();
        world.pass_work();
        let now_ns = world.clock_ns.saturating_add(world.options.clock_cost_ns);
        world.clock_ns = now_ns;
        now_ns
    }

    fn share(&mut self, bytes: impl Into<Arc<[u8]>>) -> SharedBytes {
        let mut world = self.world.borrow_mut();
        world.shared.push(bytes.into());
        SharedBytes((world.shared.len() - 1) as u32)
    }

    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token {
        let mut world = self.world.borrow_mut();
        world.connect(self.index, key, address, options)
    }

    fn connect_datagrams(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token {
        let mut world = self.world.borrow_mut();
        world.connect_datagrams(self.index, key, address, options)
    }

    fn waker(&mut self, key: u32) -> io::Result<Waker> {
        let is_woken = Arc::new(AtomicBool::new(false));
        let mut world = self.world.borrow_mut();
        world.loops[self.index].waker = Some((key, Arc::clone(&is_woken)));
        Ok(Waker::of_flag(is_woken))
    }

    fn send(&mut self, token: Token, payload: Payload) {
        self.world.borrow_mut().send(token, payload);
    }

    fn discard(&mut self, token: Token, bytes: u64) {
        self.world.borrow_mut().discard(token, bytes);
    }

    fn shutdown_send(&mut self, token: Token) {
        self.world.borrow_mut().shutdown_send(token);
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        self.world.borrow_mut().close(token, mode);
    }

    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        self.end_loan();
        let mut world = self.world.borrow_mut();
        world.find_postponed(self.index);
        world.submit(self.index, false);
        world.wait(until_ns)
    }

    fn submit(&mut self) {
        self.world.borrow_mut().submit(self.index, true);
    }

    fn queues_sends(&self) -> bool {
        self.world.borrow().options.queues_sends
    }

    fn submitted_ns(&self) -> u64 {
        self.world.borrow().loops[self.index].submitted_ns
    }

    fn kept_sends(&self, token: Token) -> usize {
        let mut world = self.world.borrow_mut();
        let connection = world.find(token);
        connection.map_or(0, |it| world.link(it).queue.len())
    }

    fn next(&mut self) -> Option<Completion> {
        self.end_loan();
        let mut world = self.world.borrow_mut();
        let buffers = world.options.buffers;
        let ready = world.loops[self.index].take_with_buffer(buffers)?;
        let ready = world.take(ready);
        let sent = matches!(ready.completion.event, SocketEvent::Sent(_));
        if let Some(connection) = world.find(ready.completion.token).filter(|_| sent) {
            world.link(connection).keeps_sends = false;
        }
        self.lent = ready.bytes;
        self.lent_segment = ready.segment;
        self.lent_delay_ns = ready.delay_ns;
        Some(ready.completion)
    }

    fn found(&mut self) -> usize {
        let world = self.world.borrow();
        let ready = world.loops[self.index].ready.iter();
        let found = ready.filter(|it| self.was_found(&it.completion.event));
        found.count()
    }

    fn was_found(&self, event: &SocketEvent) -> bool {
        !self.world.borrow().options.reads_when_taken || is_arrival(event)
    }

    fn has_more(&mut self) -> bool {
        !self.world.borrow().loops[self.index].postponed.is_empty()
    }

    fn received(&self) -> &[u8] {
        &self.lent
    }

    fn received_segment(&self) -> Option<usize> {
        self.lent_segment
    }

    fn received_drops(&self) -> u32 {
        0
    }

    fn receive_delay_ns(&self) -> Option<u64> {
        self.lent_delay_ns
    }
}

/// Whether a wait has found this, and not what the loop has sent.
fn is_arrival(event: &SocketEvent) -> bool {
    !matches!(event, SocketEvent::Sent(_))
}

fn simulation_error(what: String) -> io::Error {
    io::Error::other(format!("simulator: {what}"))
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). It
/// is implemented here so that a seed means the same run forever.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1. The bias of the remainder does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests;
