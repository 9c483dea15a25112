//! Opens, replaces and gives up connections, and interprets how they end.

use super::network::Network;
use super::{StopReason, Worker};
use crate::WorkerSettings;
use crate::connection::ConnectionState;
use crate::error_kinds;
use crate::recorder::Labels;
use eventloop::{Address, CloseMode, EventLoop, SocketOptions, Token};
use protocol::{ExchangeId, Session, SessionError, Transport};
use results::ErrorKind;

/// The first connections of each thread use receive timestamps. With few connections, these are all
/// of them; otherwise there would be too few samples.
const TIMESTAMPED_MIN: u32 = 8;
/// Of further connections, one in this many does.
const TIMESTAMPED_ONE_IN: u32 = 64;
/// Whether the connection with this key uses receive timestamps, where the kernel has them. All
/// datagram sockets do: the kernel returns what one socket has received at once, whenever it
/// arrived, so the order of completions tells little. And datagrams have control data anyway.
fn is_timestamped(key: u32, transport: Transport) -> bool {
    transport == Transport::Datagrams
        || key < TIMESTAMPED_MIN
        || key.is_multiple_of(TIMESTAMPED_ONE_IN)
}

/// Whether so many of the connections have no receive timestamps that the others do not tell
/// enough of them.
pub(super) fn has_unstamped(settings: &WorkerSettings, transport: Transport) -> bool {
    let has_many = settings.connections_total() >= 2 * TIMESTAMPED_MIN;
    settings.plan.target.unix_socket.is_some() || transport == Transport::Stream && has_many
}

/// The first and the longest pause after repeated failures.
const BACK_OFF_FIRST_NS: u64 = 1_000_000;
const BACK_OFF_LAST_NS: u64 = 1_000_000_000;

/// What a connection that was closed has left.
pub(super) struct Abandoned {
    /// Requests without a response.
    pub(super) requests: u64,
    /// If there are any: the bytes of unfinished responses that arrived in the window, and the
    /// labels of the oldest of them.
    pub(super) partial: Option<(u64, Labels)>,
}

impl<L: EventLoop, S: Session> Network<L, S> {
    /// Opens a connection, or lets it wait for its turn.
    pub(super) fn open(&mut self, key: u32) {
        if self.is_withdrawn(key) || self.stops_opening {
            self.pool[key].state = ConnectionState::Done;
            return;
        }
        let has_turn = std::mem::take(&mut self.pool[key].has_turn);
        if let Some(schedule) = self.connect_schedule.as_mut().filter(|_| !has_turn) {
            let now_ns = self.io.now_ns();
            let turn_ns = schedule.take(now_ns);
            if turn_ns > now_ns {
                let connection = &mut self.pool[key];
                connection.state = ConnectionState::Waiting;
                connection.has_turn = true;
                return self.pool.wake_at(key, turn_ns);
            }
        }
        self.open_now(key);
    }

    fn open_now(&mut self, key: u32) {
        let (slot, host) = self.slot_and_host(key);
        let options = self.socket_options(key);
        let connection = &mut self.pool[key];
        connection.state = ConnectionState::Connecting;
        connection.sent = 0;
        connection.answered = 0;
        connection.send_failed = false;
        (connection.sending, connection.taken) = (0, 0);
        connection.is_draining = false;
        connection.arrived_ns = None;
        // Read here, because a turn may open several connections, each of which takes time.
        let since_ns = self.io.now_ns();
        connection.since_ns = since_ns;
        connection.tried_ns = since_ns;
        let (worker, workers) = self.worker;
        let number = u64::from(slot) * u64::from(workers) + u64::from(worker);
        let address = self.addresses.assign(connection.address, host, number);
        connection.address = address;
        let token = self.connect(key, address, &options);
        self.pool[key].token = Some(token);
        self.set_deadline(key, since_ns);
    }

    /// Sets the deadline of what has begun at this time.
    #[inline]
    pub(super) fn set_deadline(&mut self, key: u32, since_ns: u64) {
        let due_ns = since_ns.saturating_add(self.timeout_ns);
        self.pool.deadlines.set(key, due_ns);
    }

    fn socket_options(&mut self, key: u32) -> SocketOptions {
        let mut options = self.options.clone();
        options.timestamps = is_timestamped(key, S::TRANSPORT);
        if let Some(source) = self.source_addresses.take() {
            options.source = Some(source);
        }
        options
    }

    /// Opens a socket for a connection to the address with this number.
    fn connect(&mut self, key: u32, address: u32, options: &SocketOptions) -> Token {
        match (S::TRANSPORT, self.addresses.get(address)) {
            (Transport::Datagrams, Address::Tcp(address)) => {
                self.io.connect_datagrams(key, *address, options)
            }
            (_, address) => self.io.connect(key, address, options),
        }
    }

    /// The kernel has connected the socket, which was read late by `late_ns`. Begins the session.
    fn begin_session(&mut self, key: u32, at_ns: u64, late_ns: u64) -> Result<(), SessionError> {
        if self.hosts > 1 {
            let (_, host) = self.slot_and_host(key);
            S::select_host(&mut self.context, host);
        }
        self.pool.established += 1;
        let connection = &mut self.pool[key];
        connection.connect_took_ns = at_ns.saturating_sub(connection.since_ns);
        connection.own_ns += late_ns;
        connection.connected_ns = u64::MAX;
        connection.since_ns = at_ns;
        let begun = connection
            .session
            .begin(&mut self.context, &mut self.output);
        connection.state = if connection.session.is_ready() {
            ConnectionState::Open
        } else {
            ConnectionState::Handshaking
        };
        self.flush_output(key);
        self.note_unflushed(key);
        begun
    }

    /// Closes the socket, after what the protocol sends at the end.
    fn close(&mut self, key: u32) {
        let connection = &mut self.pool[key];
        if !S::SENDS_TEXT && connection.is_established() {
            let (context, output) = (&mut self.context, &mut self.output);
            connection.session.close(context, output);
            self.flush_output(key);
        }
        if let Some(token) = self.pool[key].token.take() {
            self.io.close(token, CloseMode::Graceful);
        }
    }

    /// Closes the socket and clears the outstanding requests.
    fn disconnect(&mut self, key: u32) -> Abandoned {
        self.close(key);
        let connection = &mut self.pool[key];
        let was_established = connection.is_established();
        let oldest = connection.exchanges.oldest().map(|oldest| Labels {
            name: oldest.name,
            address: connection.address,
        });
        let partial_bytes = connection.session.partial_bytes();
        let partial_bytes = connection.since_window(partial_bytes);
        let requests = u64::from(connection.exchanges.outstanding());
        connection.exchanges.clear();
        connection.state = ConnectionState::Waiting;
        self.pool.established -= u64::from(was_established);
        self.pool.outstanding -= requests;
        Abandoned {
            requests,
            partial: oldest.map(|labels| (partial_bytes, labels)),
        }
    }

    /// Ends the oldest exchange, whose time is over. `None` if the connection must be closed.
    fn cancel_oldest(&mut self, key: u32, now_ns: u64) -> Option<ExchangeId> {
        let connection = &mut self.pool[key];
        let oldest = connection.exchanges.oldest_id()?;
        if S::SENDS_TEXT || !connection.may_cancel(now_ns) {
            return None;
        }
        let (context, output) = (&mut self.context, &mut self.output);
        let cancelled = connection.session.cancel(context, oldest, output);
        self.flush_output(key);
        self.note_unflushed(key);
        matches!(cancelled, Ok(true)).then_some(oldest)
    }

    /// What a session error is. A close without a response is not always the server's failure. It
    /// may arrive as the end of the stream, or as bytes, because TLS has its own close.
    fn kind_of(&self, key: u32, error: &SessionError, at_ns: u64) -> ErrorKind {
        let connection = &self.pool[key];
        match error {
            error
                if S::TRANSPORT == Transport::Datagrams
                    && connection.state == ConnectionState::Handshaking =>
            {
                error_kinds::of_quic_handshake(error)
            }
            SessionError::ClosedEarly if connection.looks_stale(at_ns) => ErrorKind::Stale,
            SessionError::ClosedEarly if connection.send_failed => ErrorKind::BrokenPipe,
            error => error_kinds::of_session(error),
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(super) fn on_connected(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        let late_ns = self.accounting.read_late.first_ns;
        let begun = self.network.begin_session(key, at_ns, late_ns);
        if S::TRANSPORT == Transport::Stream {
            self.note_connection(key, at_ns);
        }
        if let Err(error) = begun {
            self.fail_session(key, &error, at_ns);
            return Ok(());
        }
        if self.network.pool[key].state != ConnectionState::Open {
            self.network.set_deadline(key, at_ns);
            return Ok(());
        }
        // A session over datagrams that may send at once has not heard of the server yet.
        if S::TRANSPORT == Transport::Stream {
            self.note_server(key, false);
        }
        self.network
            .note_opened(key, at_ns, &mut self.accounting.usage);
        self.advance(key, at_ns)
    }

    /// Counts a connection that both ends know of: a socket for streams that is connected, and one
    /// for datagrams after the handshake. Before, a server may not have got a single datagram.
    pub(super) fn note_connection(&mut self, key: u32, at_ns: u64) {
        let connection = &mut self.network.pool[key];
        connection.connected_ns = at_ns;
        let (took_ns, address) = (connection.connect_took_ns, connection.address);
        if self.accounting.recorder().is_in_window(at_ns) {
            self.accounting.recorder().connected(took_ns, address);
        }
    }

    /// Closes all sockets at the end of the run. Those of protocols that send text are closed with
    /// the loop.
    pub(super) fn close_all(&mut self) {
        if S::SENDS_TEXT {
            return;
        }
        for key in 0..self.network.pool.connections.len() as u32 {
            self.accounting.count_packets(key, &self.network.pool[key]);
            self.network.close(key);
        }
    }

    /// Closes the socket and clears the outstanding requests. Bytes that did arrive are counted.
    pub(super) fn disconnect(&mut self, key: u32, at_ns: u64) {
        self.accounting.count_packets(key, &self.network.pool[key]);
        let abandoned = self.network.disconnect(key);
        self.sender.disconnect(key, at_ns);
        self.accounting.abandoned(&abandoned, at_ns);
    }

    /// Takes over new addresses, and replaces the connections to those that are no longer used.
    pub(super) fn refresh_addresses(&mut self, now_ns: u64) {
        if !self.network.addresses.refresh() {
            return;
        }
        if let Some(recorder) = &mut self.accounting.recorder {
            recorder.add_addresses(self.network.addresses.labels());
        }
        for key in 0..self.network.pool.connections.len() as u32 {
            let (_, host) = self.network.slot_and_host(key);
            let connection = &mut self.network.pool[key];
            if !connection.is_established()
                || self.network.addresses.is_current(host, connection.address)
            {
                continue;
            }
            connection.use_up();
            let is_open = connection.state == ConnectionState::Open;
            if is_open && connection.exchanges.outstanding() == 0 {
                self.reopen(key, now_ns);
            }
        }
    }

    /// Replaces a connection that ended without an error. One that brought no response counts as a
    /// failure for the pauses between attempts: a server that ends each connection at once would
    /// otherwise be asked for the next one without a pause.
    pub(super) fn replace(&mut self, key: u32, now_ns: u64) {
        match self.network.pool[key].answered {
            0 => self.reopen_later(key, now_ns),
            _ => self.reopen(key, now_ns),
        }
    }

    /// Opens the connection again without a pause.
    pub(super) fn reopen(&mut self, key: u32, now_ns: u64) {
        self.disconnect(key, now_ns);
        if !self.is_needed(key, now_ns) {
            self.network.pool[key].state = ConnectionState::Done;
        } else {
            self.network.open(key);
        }
    }

    /// Whether requests are left that may be sent on the connection once it is open again.
    fn is_needed(&self, key: u32, now_ns: u64) -> bool {
        match &self.sender.slots {
            None => self.sender.remaining() > 0 && !self.has_enough_opening(now_ns),
            Some(slots) => slots.awaits(key) || self.sender.remaining() > 0,
        }
    }

    /// Whether the connections that are being established are enough for the remaining requests.
    fn has_enough_opening(&self, now_ns: u64) -> bool {
        now_ns >= self.times.measure_ns
            && self
                .network
                .pool
                .are_enough_opening(self.sender.remaining())
    }

    /// Replaces a connection that the server closed during a delay of the script, when the delay is
    /// over. Earlier, the server would only close it again, and a new delay would postpone the
    /// request forever.
    pub(super) fn reopen_when_due(&mut self, key: u32, now_ns: u64) {
        let due_ns = self.network.pool[key].due_ns;
        self.disconnect(key, now_ns);
        self.network.pool[key].has_waited = true;
        self.network.pool.wake_at(key, due_ns);
    }

    /// Replaces a connection that failed. In a closed loop, a pause grows with consecutive
    /// failures, because each failure leads to the next attempt. At a fixed rate, a connection
    /// whose request failed is replaced at once, because the schedule limits how often that
    /// happens.
    pub(super) fn reopen_later(&mut self, key: u32, now_ns: u64) {
        let connection = &self.network.pool[key];
        let failed_request = connection.exchanges.outstanding() > 0;
        let was_established = connection.is_established();
        self.disconnect(key, now_ns);
        let connection = &mut self.network.pool[key];
        connection.failures = connection.failures.saturating_add(1);
        if self.sender.is_paced() && failed_request {
            return self.reopen(key, now_ns);
        }
        if was_established && !self.network.pool.is_idle(key) {
            self.network.note_unserved();
        }
        let connection = &self.network.pool[key];
        // If no connection of this worker is established, it waits with the others.
        let has_none = self.sender.is_paced() && self.network.pool.established == 0;
        if connection.failures > 1 && has_none {
            return self.network.await_server(key, now_ns);
        }
        let doublings = connection.failures.saturating_sub(2).min(20);
        // After the first failure there is no pause, because servers do reset connections.
        let pause_ns = match connection.failures {
            0 | 1 => 0,
            _ => (BACK_OFF_FIRST_NS << doublings).min(BACK_OFF_LAST_NS),
        };
        if pause_ns == 0 {
            return self.reopen(key, now_ns);
        }
        self.network.pool.wake_after(key, now_ns, pause_ns);
    }

    /// Counts a failure once, with the requests that it ended, and replaces the connection.
    pub(super) fn fail(&mut self, key: u32, kind: ErrorKind, at_ns: u64) {
        if kind == ErrorKind::Timeout {
            self.accounting
                .note_timed_out(&mut self.network, key, at_ns);
        }
        self.accounting
            .count_failed((key, &self.network.pool[key]), kind, at_ns);
        self.reopen_later(key, at_ns);
    }

    pub(super) fn on_end(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        let connection = &mut self.network.pool[key];
        let ended = connection
            .session
            .end(&mut self.network.context, &mut self.network.events);
        self.take_events(key, at_ns)?;
        let outstanding = self.network.pool[key].exchanges.outstanding() > 0;
        match ended {
            Err(error) => self.fail_session(key, &error, at_ns),
            // Responses were outstanding when the last one had announced the close.
            Ok(()) if outstanding => self.fail(key, ErrorKind::Stale, at_ns),
            Ok(()) if self.network.pool[key].state == ConnectionState::Thinking => {
                self.accounting.note_reconnect(at_ns);
                self.reopen_when_due(key, at_ns);
            }
            Ok(()) => {
                self.accounting.note_reconnect(at_ns);
                self.replace(key, at_ns);
            }
        }
        Ok(())
    }

    /// Counts a session error, and replaces the connection.
    pub(super) fn fail_session(&mut self, key: u32, error: &SessionError, at_ns: u64) {
        let kind = self.network.kind_of(key, error, at_ns);
        self.accounting.note_detail(kind, error);
        if error.is_refusal() {
            self.accounting.stall.note_refusal();
        }
        self.fail(key, kind, at_ns);
    }

    pub(super) fn on_receive_failed(&mut self, key: u32, errno: i32, at_ns: u64) {
        let connection = &self.network.pool[key];
        let handshaking = connection.state == ConnectionState::Handshaking;
        if connection.exchanges.outstanding() == 0 && connection.answered > 0 {
            let thinking = connection.state == ConnectionState::Thinking;
            self.accounting.note_reconnect(at_ns);
            if thinking {
                self.reopen_when_due(key, at_ns);
            } else {
                self.reopen(key, at_ns);
            }
        } else if connection.looks_stale(at_ns) {
            // A server that closes with an unread request sends RST, not FIN.
            self.fail(key, ErrorKind::Stale, at_ns);
        } else {
            let interruption = connection.session.interruption(&self.network.context);
            match interruption.filter(|_| handshaking) {
                Some(error) => self.fail_session(key, &error, at_ns),
                // Nobody receives at that port, as a server of TCP would have refused.
                None if handshaking && S::TRANSPORT == Transport::Datagrams => {
                    self.fail(key, error_kinds::of_connect(errno), at_ns);
                }
                None => self.fail(key, error_kinds::of_receive(errno), at_ns),
            }
        }
    }

    pub(super) fn on_wake(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        let connection = &mut self.network.pool[key];
        if connection.state == ConnectionState::Open {
            return self.on_pause_end(key, now_ns);
        }
        if !matches!(
            connection.state,
            ConnectionState::Waiting | ConnectionState::Thinking
        ) {
            return Ok(());
        }
        if connection.due_ns > now_ns {
            let due_ns = connection.due_ns;
            self.network.pool.wakes.set(key, due_ns);
            return Ok(());
        }
        if connection.state == ConnectionState::Waiting {
            // Others may rely on this connection, see `has_enough_opening`.
            let is_awaited = self
                .sender
                .slots
                .as_ref()
                .is_some_and(|slots| slots.awaits(key));
            if self.sender.remaining() > 0 || is_awaited {
                self.network.open(key);
            } else {
                self.network.pool[key].state = ConnectionState::Done;
            }
            return Ok(());
        }
        connection.state = ConnectionState::Open;
        if connection.is_draining {
            self.accounting.note_reconnect(now_ns);
            self.replace(key, now_ns);
            self.network.pool[key].has_waited = true;
            return Ok(());
        }
        self.send_or_offer(key, now_ns)
    }

    pub(super) fn on_deadline(&mut self, key: u32, now_ns: u64) -> Result<(), StopReason> {
        let timeout_ns = self.settings.timeout_ns;
        let connection = &self.network.pool[key];
        if connection.is_opening() {
            match connection.since_ns.saturating_add(timeout_ns) {
                due_ns if due_ns > now_ns => self.network.pool.deadlines.set(key, due_ns),
                _ => {
                    let is_handshaking = connection.state == ConnectionState::Handshaking;
                    if let Some(awaited) = connection.session.awaits().filter(|_| is_handshaking) {
                        self.accounting
                            .note_text(ErrorKind::ConnectTimeout, awaited.to_owned());
                    }
                    self.fail(key, ErrorKind::ConnectTimeout, now_ns);
                }
            }
            return Ok(());
        }
        let mut has_cancelled = false;
        while let Some(oldest) = self.network.pool[key].exchanges.oldest() {
            let due_ns = oldest.sent_ns.saturating_add(timeout_ns);
            if due_ns > now_ns {
                self.network.pool.deadlines.set(key, due_ns);
                break;
            }
            let Some(oldest) = self.network.cancel_oldest(key, now_ns) else {
                self.fail(key, ErrorKind::Timeout, now_ns);
                return Ok(());
            };
            self.fail_exchange(key, oldest, ErrorKind::Timeout, 0, now_ns);
            has_cancelled = true;
        }
        if has_cancelled {
            self.go_on(key, now_ns)
        } else {
            Ok(())
        }
    }
}
