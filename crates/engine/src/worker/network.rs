//! The connections of a worker, and the event loop that they use.

use super::WorkerSettings;
use super::connection_stages::ConnectionStages;
use super::opening::Opening;
use super::outage::Outage;
use super::pool::{ConnectSchedule, ConnectionPool, SourceAddresses};
use super::queued_sends::QueuedSends;
use crate::addresses::WorkerAddresses;
use crate::control::RunTimes;
use eventloop::{Completion, EventLoop, Payload, SocketEvent, SocketOptions};
use protocol::{Event, Session, SessionError, Transport};

/// Maximum number of send buffers kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// What a worker has of the network: the event loop, the connections with their sessions, and when
/// connections are opened and closed.
///
/// It is a value of its own because most of what happens to a connection concerns neither the
/// schedule nor the recording: a socket is opened, a session answers a ping, a timer is set. A
/// function that does this can neither take a request nor count one. What it has found out is its
/// result, which [`Worker`](super::Worker) passes on.
pub(super) struct Network<L, S: Session> {
    pub(super) io: L,
    /// What all sessions share.
    pub(super) context: S::Context,
    pub(super) pool: ConnectionPool<S>,
    pub(super) addresses: WorkerAddresses,
    pub(super) source_addresses: SourceAddresses,
    /// Set if the rate of new connections is limited.
    pub(super) connect_schedule: Option<ConnectSchedule>,
    /// Set if the number of connections changes.
    pub(super) connection_stages: Option<ConnectionStages>,
    pub(super) opening: Opening,
    /// At a fixed rate: how an outage of the server is handled.
    pub(super) outage: Outage,
    /// The options of all sockets.
    pub(super) options: SocketOptions,
    /// Number of hosts.
    pub(super) hosts: u32,
    /// Number of the worker, and of all workers.
    pub(super) worker: (u32, u32),
    /// Time limit of a request, and of establishing a connection.
    pub(super) timeout_ns: u64,
    /// No connection is opened any more.
    pub(super) stops_opening: bool,
    pub(super) spare: SpareBuffers,
    /// What waits in the event loop to be sent.
    pub(super) queued: QueuedSends,
    /// At a fixed rate: when the run began.
    pub(super) paced_since_ns: Option<u64>,
    /// Over datagrams: the connections whose sessions may have something to send.
    pub(super) unflushed: Vec<u32>,
    /// Events and output of a session, empty between calls.
    pub(super) events: Vec<Event>,
    pub(super) output: Vec<u8>,
}

impl<L, S: Session> Network<L, S> {
    pub(super) fn new(io: L, mut context: S::Context, settings: &WorkerSettings) -> Self {
        Self {
            io,
            pool: ConnectionPool::new(&mut context, settings),
            context,
            addresses: WorkerAddresses::new(settings.addresses.clone()),
            source_addresses: SourceAddresses::new(settings),
            connect_schedule: None,
            connection_stages: None,
            opening: Opening::new(),
            outage: Outage::default(),
            options: SocketOptions {
                path: settings.plan.breaks_latency_down(),
                ..settings.options.clone()
            },
            hosts: settings.hosts,
            worker: (settings.number(), settings.workers_total()),
            timeout_ns: settings.timeout_ns,
            stops_opening: false,
            spare: SpareBuffers::default(),
            queued: QueuedSends::default(),
            paced_since_ns: None,
            unflushed: Vec::new(),
            events: Vec::with_capacity(64),
            output: Vec::new(),
        }
    }

    /// Prepares a run with these times.
    pub(super) fn begin(&mut self, times: RunTimes, settings: &WorkerSettings, is_paced: bool) {
        let load = &settings.plan.load;
        self.paced_since_ns = is_paced.then_some(times.start_ns);
        self.connect_schedule = load
            .connect_rate_per_sec
            .map(|rate| ConnectSchedule::new(rate, settings.lanes(), times.start_ns));
        let stages = &load.connection_stages;
        self.connection_stages = ConnectionStages::new(stages, self.worker, times.measure_ns);
        if self.connection_stages.is_some() {
            self.opening.skip(settings.connections_total());
        } else if !is_paced && self.connect_schedule.is_none() {
            self.opening.hold(times.start_ns, times.end_ns);
        }
    }
}

impl<L: EventLoop, S: Session> Network<L, S> {
    /// The slot and the host of a connection for requests.
    pub(super) fn slot_and_host(&self, key: u32) -> (u32, u32) {
        match self.hosts {
            1 => (key, 0),
            _ if self.pool.is_idle(key) => (key, 0),
            hosts => (key / hosts, key % hosts),
        }
    }

    /// What is taken with this completion has not been read in the run, which ended at `limit_ns`.
    /// If it has no timestamp, it arrived at `since_ns`.
    pub(super) fn note_unread(&mut self, completion: &Completion, since_ns: u64, limit_ns: u64) {
        let connection = self.pool.connections.get_mut(completion.key as usize);
        if let Some(connection) = connection
            && connection.token == Some(completion.token)
            && matches!(completion.event, SocketEvent::Received(_))
        {
            let arrived_ns = match self.io.receive_delay_ns() {
                Some(delay_ns) => completion.at_ns.saturating_sub(delay_ns),
                None => since_ns,
            };
            let first_ns = connection.arrived_ns.unwrap_or(u64::MAX).min(arrived_ns);
            connection.arrived_ns = Some(first_ns).filter(|at_ns| *at_ns < limit_ns);
        }
    }

    /// Sends what a session has written.
    pub(super) fn flush_output(&mut self, key: u32) {
        if self.output.is_empty() {
            return;
        }
        if S::TRANSPORT == Transport::Datagrams {
            return self.send_datagrams(key);
        }
        let buffer = std::mem::replace(&mut self.output, self.spare.take());
        let connection = &mut self.pool[key];
        if let Some(token) = connection.token {
            connection.sending += u32::from(!S::SENDS_TEXT);
            self.io.send(token, Payload::Owned(buffer));
        }
    }

    /// The kernel has taken a buffer. After the last one, the session may send more.
    pub(super) fn on_sent(&mut self, key: u32, buffer: Vec<u8>) -> Result<(), SessionError> {
        self.spare.recycle(buffer);
        let connection = &mut self.pool[key];
        if S::SENDS_TEXT {
            return Ok(());
        }
        connection.sending = connection.sending.saturating_sub(1);
        connection.taken = connection.taken.wrapping_add(1);
        if connection.sending > 0 {
            return Ok(());
        }
        let (context, output) = (&mut self.context, &mut self.output);
        let resumed = connection.session.resume(context, output);
        self.flush_output(key);
        resumed
    }
}

/// Send buffers that the kernel has taken.
#[derive(Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// An empty buffer, with the memory of a returned one if there is any.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_BUFFERS {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
