//! One connection: its session, its socket, and its requests in flight.

use crate::addresses::NO_ADDRESS;
use crate::exchanges::Exchanges;
use eventloop::Token;
use protocol::Session;

/// A connection. It is opened again for the whole run and keeps its index and its cookies.
pub(crate) struct Connection<S> {
    pub(crate) session: S,
    pub(crate) token: Option<Token>,
    pub(crate) state: ConnectionState,
    /// When the current state began.
    pub(crate) since_ns: u64,
    /// When the last attempt to connect began.
    pub(crate) tried_ns: u64,
    /// When a deferred action is due (reconnect, next request); see `state`.
    pub(crate) due_ns: u64,
    pub(crate) exchanges: Exchanges,
    /// When the socket was connected, over datagrams when the handshake was complete; until then
    /// the end of all time.
    pub(crate) connected_ns: u64,
    /// How long the kernel took to connect: a round trip, plus the delay of the server's accept
    /// queue.
    pub(crate) connect_took_ns: u64,
    /// Requests sent on this connection.
    pub(crate) sent: u64,
    /// It has sent a request other than a probe, now or before it was opened again.
    pub(crate) has_sent: bool,
    /// Responses received on this connection. With at least one, the connection has been reused.
    pub(crate) answered: u64,
    /// Buffers that the kernel has not taken yet. Not counted for protocols that send text.
    pub(crate) sending: u32,
    /// Buffers that the kernel has taken.
    pub(crate) taken: u32,
    /// The server accepts no further requests on this connection.
    pub(crate) is_draining: bool,
    /// Over datagrams: its session may have something to send, or new timers.
    pub(crate) unflushed: bool,
    /// Waits with other connections to send on its free streams.
    pub(crate) refills: bool,
    /// Exchanges that were cancelled, and since when they are counted.
    pub(crate) cancelled: (u32, u64),
    /// The number of its address.
    pub(crate) address: u32,
    /// Consecutive failures, for the back-off.
    pub(crate) failures: u32,
    /// The kernel refused to send. The fate of the outstanding requests is not known yet.
    pub(crate) send_failed: bool,
    /// Its turn to be opened has come, as `--connect-rate` limits.
    pub(crate) has_turn: bool,
    /// The delay before the next request has already passed, on the previous connection.
    pub(crate) has_waited: bool,
    /// Until when users of the connection wait, because a response has asked them to. It outlasts
    /// the connection.
    pub(crate) pauses: Vec<u64>,
    /// At a fixed rate: is in the worker's queue of free connections.
    pub(crate) offered: bool,
    /// At a fixed rate: since when a request could have been sent.
    pub(crate) free_ns: u64,
    /// How much earlier it would have been free if the load generator had never been late
    /// ([`results::Attribution`]).
    pub(crate) own_ns: u64,
    /// Bytes of incomplete responses that had arrived at the start of the window, as far as they
    /// are not accounted for.
    pub(crate) early_bytes: u64,
    /// When bytes arrived that have not been read: the loop had no buffer for them, or the run
    /// ended before.
    pub(crate) arrived_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// No socket. Reconnects at `due_ns`.
    Waiting,
    /// The kernel is connecting.
    Connecting,
    /// The session's handshake is in progress.
    Handshaking,
    /// Requests can be sent or are in flight.
    Open,
    /// Open, and the next request is sent at `due_ns` (a script's delay).
    Thinking,
    /// No socket, and no further connection.
    Done,
}

/// More cancelled exchanges than this within a second close the connection. Servers take many
/// resets for an attack (CVE-2023-44487).
const CANCELLED_PER_SEC_MAX: u32 = 10;
const SECOND_NS: u64 = 1_000_000_000;

impl<S: Session> Connection<S> {
    pub(crate) fn new(session: S) -> Self {
        Self {
            session,
            token: None,
            state: ConnectionState::Waiting,
            since_ns: 0,
            tried_ns: 0,
            due_ns: 0,
            exchanges: Exchanges::new(),
            connected_ns: 0,
            connect_took_ns: 0,
            sent: 0,
            has_sent: false,
            answered: 0,
            sending: 0,
            taken: 0,
            is_draining: false,
            unflushed: false,
            refills: false,
            cancelled: (0, 0),
            address: NO_ADDRESS,
            failures: 0,
            send_failed: false,
            has_turn: false,
            has_waited: false,
            pauses: Vec::new(),
            offered: false,
            free_ns: 0,
            own_ns: 0,
            early_bytes: 0,
            arrived_ns: None,
        }
    }

    /// When a request could have been sent if the load generator had never been late.
    #[inline]
    pub(crate) fn ideal_free_ns(&self) -> u64 {
        self.free_ns.saturating_sub(self.own_ns)
    }

    /// At a fixed rate: the response that was read at `read_ns` had waited for that.
    pub(crate) fn was_read_late(&mut self, read_ns: u64, late_ns: u64) {
        self.own_ns = self.own_ns.saturating_add(late_ns);
        let ideal_free_ns = self.ideal_free_ns();
        if let Some(next) = self.exchanges.newest_mut()
            && next.sent_ns >= read_ns
        {
            next.own_ns = next.sent_ns.saturating_sub(next.due_ns.max(ideal_free_ns));
        }
    }

    /// How many of these bytes of a response to a request of the warm-up arrived within the window.
    pub(crate) fn since_window(&mut self, bytes: u64) -> u64 {
        let early_bytes = self.early_bytes.min(bytes);
        self.early_bytes -= early_bytes;
        bytes - early_bytes
    }

    /// Nothing more is sent, and the connection is replaced after its responses.
    pub(crate) fn use_up(&mut self) {
        self.sent = u64::MAX;
    }

    /// How many more batches can be sent now.
    #[inline]
    pub(crate) fn room(&self, pipeline: u32, requests_per_batch: u32) -> u32 {
        if S::SENDS_TEXT {
            let under_way = self.exchanges.outstanding().div_ceil(requests_per_batch);
            return pipeline.saturating_sub(under_way);
        }
        pipeline
            .saturating_sub(self.exchanges.outstanding())
            .min(self.session.capacity())
    }

    /// Counts a cancelled exchange. Returns false if there are too many.
    pub(crate) fn may_cancel(&mut self, now_ns: u64) -> bool {
        let (count, since_ns) = &mut self.cancelled;
        if now_ns.saturating_sub(*since_ns) > SECOND_NS {
            (*count, *since_ns) = (0, now_ns);
        }
        *count += 1;
        *count <= CANCELLED_PER_SEC_MAX
    }

    /// Whether the connection is established, and was already before `moment_ns`.
    pub(crate) fn was_established_before(&self, moment_ns: u64) -> bool {
        self.is_established() && self.connected_ns < moment_ns
    }

    /// Whether the connection is being established.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Connecting | ConnectionState::Handshaking
        )
    }

    /// Whether there is a connected socket.
    pub(crate) fn is_established(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Handshaking | ConnectionState::Open | ConnectionState::Thinking
        )
    }

    /// Whether a close seen at `at_ns`, without a byte of a response, was sent before the
    /// outstanding requests reached the server. It then ended a connection that the server
    /// considered idle, and the requests did not fail. Such a close is seen within one round trip
    /// after sending, and connecting took at least one round trip. A later close counts as a
    /// failure of the server: it is better to report one too many.
    pub(crate) fn looks_stale(&self, at_ns: u64) -> bool {
        let oldest = self.exchanges.oldest();
        let out_ns = oldest.map_or(0, |exchange| at_ns.saturating_sub(exchange.sent_ns));
        self.answered > 0
            && out_ns <= self.connect_took_ns
            && oldest.is_none_or(|exchange| exchange.began_ns.is_none())
            && self.session.partial_bytes() == 0
    }
}
