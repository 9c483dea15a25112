//! Datagrams of the simulated network: they are lost, doubled and overtaken, and arrive as a whole.

use super::link::{ClientSocket, Link, PeerSocket};
use super::{Arrival, Attempt, ConnectReaction, Event, Peer, PeerEvent, World};
use crate::datagrams::{RECEIVE_BYTES, SEND_BYTES_MAX};
use crate::{Address, Completion, Payload, SocketEvent, SocketOptions, Token};
use std::net::SocketAddr;

/// What the network does to datagrams. Each datagram has its own luck, which [`SimOptions::seed`]
/// determines. Without faults they arrive in order, even with jitter.
///
/// [`SimOptions::seed`]: super::SimOptions::seed
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramFaults {
    /// How many of a million are lost.
    pub lost_ppm: u32,
    /// How many of a million arrive twice.
    pub doubled_ppm: u32,
    /// How many of a million are late, so that others overtake them.
    pub late_ppm: u32,
    /// How late they are at most, in addition to latency and jitter.
    pub late_ns: u64,
}

/// What happened to datagrams, in both directions together. If nothing is on its way,
/// `sent + doubled = lost + arrived`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams that were given to the network.
    pub sent: u64,
    /// Datagrams of which the network made a second one.
    pub doubled: u64,
    /// Datagrams that it made late.
    pub late: u64,
    /// Datagrams that it lost.
    pub lost: u64,
    /// Datagrams that came to the other machine, including those that nobody received there.
    pub arrived: u64,
    /// Datagrams that never left the machine, because they are too long.
    pub too_long: u64,
}

impl<P: Peer> World<P> {
    pub(super) fn connect_datagrams(
        &mut self,
        owner: usize,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token {
        let (connection, token, is_open) = self.open(owner, key, options);
        let link = self.link(connection);
        link.datagrams = Some(Box::new((Address::Tcp(address), options.clone())));
        // There is no end to send.
        link.fin_sent = true;
        if is_open {
            link.client = ClientSocket::Open;
            self.complete(connection, SocketEvent::Connected, Vec::new());
        }
        token
    }

    /// Moves queued datagrams into the send buffer as far as they fit. A datagram longer than the
    /// whole buffer fits into an empty one.
    pub(super) fn fill_buffer_with_datagrams(&mut self, connection: u32) {
        loop {
            let link = &mut self.links[connection as usize];
            let Some(pending) = link.queue.front_mut() else {
                return;
            };
            let segment = match &pending.payload {
                Payload::Datagrams { segment, .. } if *segment > 0 => usize::from(*segment),
                _ => usize::MAX,
            };
            if pending.remaining() == 0 {
                let payload = link.queue.pop_front().map(|pending| pending.payload);
                if let Some(Payload::Datagrams { buffer, .. }) = payload {
                    self.complete(connection, SocketEvent::Sent(buffer), Vec::new());
                }
                continue;
            }
            let datagram = pending.piece(&self.shared, segment).to_vec();
            let is_full = link.buffered_bytes + datagram.len() > self.options.send_buffer_bytes;
            if is_full && link.buffered_bytes > 0 {
                return;
            }
            pending.taken += datagram.len();
            if datagram.len() > SEND_BYTES_MAX {
                self.datagram_counts.too_long += 1;
            } else {
                link.buffer(datagram);
            }
        }
    }

    pub(super) fn datagram_to_peer(&mut self, connection: u32, datagram: Vec<u8>, left_ns: u64) {
        let ordered = |link: &mut Link, at_ns: u64| {
            link.last_at_peer_ns = link.last_at_peer_ns.max(at_ns);
            link.last_at_peer_ns
        };
        for at_ns in self.arrivals_ns(connection, left_ns, ordered) {
            let arrives = Event::ReachesPeer(Arrival::Datagram(datagram.clone()));
            self.schedule(at_ns, connection, arrives);
        }
    }

    pub(super) fn peer_sends_datagram(&mut self, connection: u32, datagram: Vec<u8>, at_ns: u64) {
        if datagram.is_empty() {
            return;
        }
        let sent = PeerEvent::DatagramSent(datagram.len());
        self.peer_log.note(at_ns, connection, sent);
        let ordered = |link: &mut Link, at_ns: u64| {
            link.last_at_client_ns = link.last_at_client_ns.max(at_ns);
            link.last_at_client_ns
        };
        for at_ns in self.arrivals_ns(connection, at_ns, ordered) {
            let arrives = Event::ReachesClient(Arrival::Datagram(datagram.clone()));
            self.schedule(at_ns, connection, arrives);
        }
    }

    /// When a datagram arrives: never, once or twice. `ordered` keeps those that are not late
    /// behind the ones before them.
    fn arrivals_ns(
        &mut self,
        connection: u32,
        left_ns: u64,
        ordered: impl Fn(&mut Link, u64) -> u64,
    ) -> Vec<u64> {
        let faults = self.options.datagram_faults;
        self.datagram_counts.sent += 1;
        if self.has_luck(faults.lost_ppm) {
            self.datagram_counts.lost += 1;
            return Vec::new();
        }
        let is_doubled = self.has_luck(faults.doubled_ppm);
        self.datagram_counts.doubled += u64::from(is_doubled);
        let copies = 1 + usize::from(is_doubled);
        let arrival_ns = |world: &mut Self| {
            let at_ns = left_ns.saturating_add(world.travel_ns());
            if world.has_luck(faults.late_ppm) {
                world.datagram_counts.late += 1;
                let late_ns = world.random.below(faults.late_ns.saturating_add(1));
                return at_ns.saturating_add(late_ns);
            }
            ordered(world.link(connection), at_ns)
        };
        (0..copies).map(|_| arrival_ns(self)).collect()
    }

    /// True for this share of calls. Without faults, nothing is drawn, and a seed means the same
    /// run for streams as ever.
    fn has_luck(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.below(1_000_000) < u64::from(ppm)
    }

    /// Hands a datagram to the client. As a kernel does, it joins those that have not been taken
    /// yet to one receive, as long as only the last one is shorter.
    pub(super) fn on_client_datagram(&mut self, connection: u32, datagram: Vec<u8>, at_ns: u64) {
        self.datagram_counts.arrived += 1;
        let since_ns = self.clock_ns.saturating_sub(at_ns);
        let delay_ns = since_ns.saturating_add(self.options.receive_delay_ns);
        let link = &self.links[connection as usize];
        let (token, owner) = (link.token, link.owner);
        let delay_ns = link.timestamped.then_some(delay_ns);
        let length = datagram.len();
        if let Some(last) = self.loops[owner].ready.back_mut()
            && last.completion.token == token
            && let Some(segment) = last.segment
            && last.bytes.len().is_multiple_of(segment)
            && length <= segment
            && last.bytes.len() + length <= RECEIVE_BYTES
        {
            last.bytes.extend_from_slice(&datagram);
            last.delay_ns = delay_ns;
            last.completion = Completion {
                at_ns: self.clock_ns,
                event: SocketEvent::Received(last.bytes.len()),
                ..last.completion
            };
            return;
        }
        self.complete(connection, SocketEvent::Received(length), datagram);
        if let Some(ready) = self.loops[owner].ready.back_mut() {
            ready.segment = Some(length);
            ready.delay_ns = delay_ns;
        }
    }

    pub(super) fn on_peer_datagram(&mut self, connection: u32, datagram: &[u8], at_ns: u64) {
        self.datagram_counts.arrived += 1;
        if self.link(connection).peer_socket != PeerSocket::Open
            && !self.accepts_datagram(connection, at_ns)
        {
            return;
        }
        let arrived = PeerEvent::DatagramArrived(datagram.len());
        self.peer_log.note(at_ns, connection, arrived);
        self.ask_peer(connection, at_ns, |peer, actions| {
            peer.on_datagram(connection, datagram, at_ns, actions);
        });
    }

    /// Asks the peer whether it receives datagrams of this socket. If it fails, its host says so.
    fn accepts_datagram(&mut self, connection: u32, at_ns: u64) -> bool {
        let link = &self.links[connection as usize];
        let Some(asked) = &link.datagrams else {
            return false;
        };
        let attempt = Attempt {
            connection,
            key: link.key,
            address: &asked.0,
            options: &asked.1,
            is_datagram: true,
        };
        match self.peer.on_connect(&attempt, at_ns) {
            ConnectReaction::Accept { .. } => {
                self.link(connection).peer_socket = PeerSocket::Open;
                true
            }
            ConnectReaction::Fail { errno, .. } => {
                self.peer_log
                    .note(at_ns, connection, PeerEvent::Refused(errno));
                self.travel_to_client(connection, Arrival::Refused(errno), at_ns);
                false
            }
            ConnectReaction::Ignore => false,
        }
    }
}
