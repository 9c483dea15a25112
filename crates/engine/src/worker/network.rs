//! The connections of a worker, and the event loop that they use.

use super::WorkerSettings;
use super::connection_stages::ConnectionStages;
use super::opening::Opening;
use super::outage::Outage;
use super::pool::{ConnectSchedule, ConnectionPool, SourceAddresses};
use crate::addresses::WorkerAddresses;
use protocol::{Event, Session};

/// What a worker has of the network: the event loop, the connections with their sessions, and when
/// connections are opened and closed.
///
/// It is a value of its own because most of what happens to a connection concerns neither the
/// schedule nor the recording: a session answers a ping, a socket is opened, a timer is set. Such a
/// function has only this value, so it cannot send a request or count anything. What it has found
/// out is its result, and [`Worker`](super::Worker) passes that on.
pub(super) struct Network<L, S: Session> {
    pub(super) io: L,
    /// What all sessions share.
    pub(super) shared: S::Shared,
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
    /// Over datagrams: the connections whose sessions may have something to send.
    pub(super) unflushed: Vec<u32>,
    /// Events and output of a session, empty between calls.
    pub(super) events: Vec<Event>,
    pub(super) output: Vec<u8>,
}

impl<L, S: Session> Network<L, S> {
    pub(super) fn new(io: L, mut shared: S::Shared, settings: &WorkerSettings) -> Self {
        Self {
            io,
            pool: ConnectionPool::new(&mut shared, settings),
            shared,
            addresses: WorkerAddresses::new(settings.addresses.clone()),
            source_addresses: SourceAddresses::new(settings),
            connect_schedule: None,
            connection_stages: None,
            opening: Opening::new(),
            outage: Outage::default(),
            unflushed: Vec::new(),
            events: Vec::with_capacity(64),
            output: Vec::new(),
        }
    }
}
