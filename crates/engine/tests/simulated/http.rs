//! A simulated HTTP/1.1 server: finds complete requests and responds as the test says.
//!
//! It knows just enough of the protocol to find the end of a request (an empty line, and
//! Content-Length). It does so without the code under test, so that its records are a second
//! opinion.

use eventloop::sim::{Actions, Attempt, ConnectReaction, Peer};

/// Longest head of a request. Longer ones are answered with RST.
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Longest body of a request. Longer ones are answered with RST.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One complete request, as the server received it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// Number among the requests of all connections, from 0, in the order in which they were
    /// complete.
    pub(crate) number: u64,
    /// Number of the connection attempt, from 0.
    pub(crate) connection: u32,
    /// Number among the requests of this connection, from 0.
    pub(crate) number_on_connection: u64,
    /// When its last byte arrived, in virtual nanoseconds.
    pub(crate) arrived_ns: u64,
    /// Head and body as received.
    pub(crate) bytes: &'a [u8],
}

/// The response to one request. Responses of one connection leave in the order of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    parts: Vec<(u64, Vec<u8>)>,
    ending: Ending,
    ending_after_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    KeepOpen,
    Finish,
    Close,
    Reset,
}

impl Reply {
    /// These bytes, this long after the request arrived.
    #[must_use]
    pub(crate) fn after(after_ns: u64, bytes: impl Into<Vec<u8>>) -> Self {
        let parts = vec![(after_ns, bytes.into())];
        Self {
            parts,
            ending: Ending::KeepOpen,
            ending_after_ns: after_ns,
        }
    }

    /// There is never a response.
    #[must_use]
    pub(crate) const fn silence() -> Self {
        Self {
            parts: Vec::new(),
            ending: Ending::KeepOpen,
            ending_after_ns: 0,
        }
    }

    /// More bytes, this long after the previous ones.
    #[must_use]
    pub(crate) fn then(mut self, after_ns: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.ending_after_ns = self.ending_after_ns.saturating_add(after_ns);
        self.parts.push((self.ending_after_ns, bytes.into()));
        self
    }

    /// FIN, this long after the previous part. The server keeps reading.
    #[must_use]
    pub(crate) const fn then_finish(self, after_ns: u64) -> Self {
        self.ending(Ending::Finish, after_ns)
    }

    /// FIN, this long after the previous part. What the client still sends is answered with RST.
    #[must_use]
    pub(crate) const fn then_close(self, after_ns: u64) -> Self {
        self.ending(Ending::Close, after_ns)
    }

    /// RST, this long after the previous part.
    #[must_use]
    pub(crate) const fn then_reset(self, after_ns: u64) -> Self {
        self.ending(Ending::Reset, after_ns)
    }

    const fn ending(mut self, ending: Ending, after_ns: u64) -> Self {
        self.ending = ending;
        self.ending_after_ns = self.ending_after_ns.saturating_add(after_ns);
        self
    }

    /// Schedules the reply. Returns when its first and its last bytes leave.
    fn act(self, actions: &mut Actions) -> Option<(u64, u64)> {
        let mut departures = None;
        for (after_ns, bytes) in self.parts {
            let left_ns = actions.send(after_ns, bytes);
            departures = Some((
                departures.map_or(left_ns, |(first_ns, _)| first_ns),
                left_ns,
            ));
        }
        match self.ending {
            Ending::KeepOpen => {}
            Ending::Finish => {
                actions.finish(self.ending_after_ns);
            }
            Ending::Close => {
                actions.close(self.ending_after_ns);
            }
            Ending::Reset => {
                actions.reset(self.ending_after_ns);
            }
        }
        departures
    }
}

/// The truth about one request, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// Number of the connection attempt, from 0.
    pub(crate) connection: u32,
    /// When the request was complete.
    pub(crate) arrived_ns: u64,
    /// When the first byte of the response leaves, if there is one and the connection lives that
    /// long.
    pub(crate) first_byte_ns: Option<u64>,
    /// When the last byte of the response leaves, if there is one and the connection lives that
    /// long.
    pub(crate) last_byte_ns: Option<u64>,
}

type Answer = Box<dyn FnMut(&Request<'_>) -> Reply + Send>;
type Admit = Box<dyn FnMut(u32, u64) -> ConnectReaction + Send>;

/// A [`Peer`] that answers every complete request with the result of a function of the test.
pub(crate) struct HttpPeer {
    answer: Answer,
    admit: Admit,
    idle_close_ns: Option<u64>,
    connections: Vec<Inbox>,
    served: Vec<Served>,
}

/// What one connection has sent so far.
#[derive(Debug, Default)]
struct Inbox {
    pending: Vec<u8>,
    requests: u64,
    /// Since when the connection has been idle.
    idle_since_ns: u64,
}

impl HttpPeer {
    /// A server that accepts at once and responds with `answer`.
    #[must_use]
    pub(crate) fn new(answer: impl FnMut(&Request<'_>) -> Reply + Send + 'static) -> Self {
        Self {
            answer: Box::new(answer),
            admit: Box::new(|_, _| ConnectReaction::Accept { after_ns: 0 }),
            idle_close_ns: None,
            connections: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Lets a function of the attempt's number and time decide about connection attempts.
    #[must_use]
    pub(crate) fn admitting(
        mut self,
        admit: impl FnMut(u32, u64) -> ConnectReaction + Send + 'static,
    ) -> Self {
        self.admit = Box::new(admit);
        self
    }

    /// Closes a connection without a request for this long after the last response.
    #[must_use]
    pub(crate) const fn closing_idle_after(mut self, idle_ns: u64) -> Self {
        self.idle_close_ns = Some(idle_ns);
        self
    }

    /// All requests in the order in which they were complete.
    #[must_use]
    pub(crate) fn served(&self) -> &[Served] {
        &self.served
    }

    fn inbox(&mut self, connection: u32) -> &mut Inbox {
        let index = connection as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, Inbox::default);
        }
        &mut self.connections[index]
    }

    fn serve(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions) {
        let number = self.served.len() as u64;
        let inbox = self.inbox(connection);
        let number_on_connection = inbox.requests;
        inbox.requests += 1;
        let request = Request {
            number,
            connection,
            number_on_connection,
            arrived_ns: now_ns,
            bytes,
        };
        let departures = (self.answer)(&request).act(actions);
        self.served.push(Served {
            connection,
            arrived_ns: now_ns,
            first_byte_ns: departures.map(|(first_ns, _)| first_ns),
            last_byte_ns: departures.map(|(_, last_ns)| last_ns),
        });
        // Without a response, the request stays outstanding: the connection is never idle again.
        let idle_since_ns = departures.map_or(u64::MAX, |(_, last_ns)| last_ns);
        self.become_idle(connection, idle_since_ns, now_ns, actions);
    }

    fn become_idle(&mut self, connection: u32, since_ns: u64, now_ns: u64, actions: &mut Actions) {
        let inbox = self.inbox(connection);
        inbox.idle_since_ns = inbox.idle_since_ns.max(since_ns);
        let since_ns = inbox.idle_since_ns;
        if let Some(idle_ns) = self.idle_close_ns
            && since_ns != u64::MAX
        {
            actions.wake(since_ns.saturating_add(idle_ns).saturating_sub(now_ns));
        }
    }
}

impl Peer for HttpPeer {
    fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
        (self.admit)(attempt.connection, now_ns)
    }

    fn on_open(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        self.become_idle(connection, now_ns, now_ns, actions);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions) {
        let mut pending = std::mem::take(&mut self.inbox(connection).pending);
        pending.extend_from_slice(bytes);
        let mut start = 0;
        while start < pending.len() {
            match request_length(&pending[start..]) {
                Framing::Complete(length) => {
                    self.serve(connection, &pending[start..start + length], now_ns, actions);
                    start += length;
                }
                Framing::Incomplete => break,
                Framing::Refused => {
                    actions.reset(0);
                    return;
                }
            }
        }
        pending.drain(..start);
        self.inbox(connection).pending = pending;
    }

    fn on_wake(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let Some(idle_ns) = self.idle_close_ns else {
            return;
        };
        let inbox = self.inbox(connection);
        let since_ns = inbox.idle_since_ns;
        if inbox.pending.is_empty() && since_ns.saturating_add(idle_ns) <= now_ns {
            actions.close(0);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    Complete(usize),
    Incomplete,
    /// Too long, or an invalid length.
    Refused,
}

/// The length of the first request in `bytes` (RFC 9112 section 6.3, without transfer codings).
fn request_length(bytes: &[u8]) -> Framing {
    let searched = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let Some(end) = searched.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() < HEAD_BYTES_MAX {
            Framing::Incomplete
        } else {
            Framing::Refused
        };
    };
    let Some(body) = body_length(&bytes[..end]) else {
        return Framing::Refused;
    };
    let length = end + 4 + body;
    if bytes.len() < length {
        Framing::Incomplete
    } else {
        Framing::Complete(length)
    }
}

/// The Content-Length of a head, 0 without one. `None` if it is invalid or too long.
fn body_length(head: &[u8]) -> Option<usize> {
    let mut length = 0;
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        if line[..colon].eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(line[colon + 1..].trim_ascii()).ok()?;
            length = value.parse().ok()?;
        }
    }
    (length <= BODY_BYTES_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{GET, MS, S};
    use eventloop::sim::{Sim, SimOptions};
    use eventloop::{Address, EventLoop, Payload, SocketEvent, SocketOptions, Token};

    /// A time, a connection, and what it saw.
    type Seen = (u64, u32, String);

    fn connected(sim: &mut Sim<HttpPeer>, key: u32) -> Token {
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        let token = sim.connect(key, &address, &SocketOptions::default());
        let now_ns = sim.now_ns();
        assert_eq!(
            run_until(sim, now_ns),
            [(now_ns, key, "Connected".to_owned())]
        );
        token
    }

    fn send(sim: &mut Sim<HttpPeer>, token: Token, bytes: &[u8]) {
        sim.send(token, Payload::Owned(bytes.to_vec()));
    }

    /// What the server made the connections see until there is nothing more before `until_ns`.
    fn run_until(sim: &mut Sim<HttpPeer>, until_ns: u64) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            sim.wait(Some(until_ns)).expect("the simulator works");
            let Some(completion) = sim.next() else {
                return seen;
            };
            let what = match completion.event {
                SocketEvent::Sent(_) => continue,
                SocketEvent::Received(_) => String::from_utf8_lossy(sim.received()).into_owned(),
                event => format!("{event:?}"),
            };
            seen.push((completion.at_ns, completion.key, what));
        }
    }

    #[test]
    fn idle_connections_are_closed_at_their_time_and_busy_ones_are_not() {
        let peer = HttpPeer::new(|_| Reply::after(20 * MS, "x")).closing_idle_after(10 * MS);
        let mut sim = Sim::new(SimOptions::default(), peer);
        let busy = connected(&mut sim, 1);
        connected(&mut sim, 2);
        run_until(&mut sim, 5 * MS);
        send(&mut sim, busy, GET);
        assert_eq!(
            run_until(&mut sim, S),
            [
                (10 * MS, 2, "EndOfStream".to_owned()),
                (25 * MS, 1, "x".to_owned()),
                (35 * MS, 1, "EndOfStream".to_owned()),
            ]
        );
    }

    #[test]
    fn a_connection_with_an_outstanding_response_or_an_incomplete_request_is_not_idle() {
        let peer = HttpPeer::new(|_| Reply::silence()).closing_idle_after(10 * MS);
        let mut sim = Sim::new(SimOptions::default(), peer);
        for (key, bytes) in [(1, GET), (2, &GET[..9])] {
            let token = connected(&mut sim, key);
            send(&mut sim, token, bytes);
        }
        assert_eq!(run_until(&mut sim, S), []);
    }

    #[test]
    fn pipelined_requests_are_answered_in_order_and_the_records_have_their_times() {
        let delays_ns = [5 * MS, MS, 3 * MS];
        let peer = HttpPeer::new(move |request| {
            assert_eq!(request.bytes, GET);
            assert_eq!(request.number_on_connection, request.number);
            let number = request.number;
            Reply::after(delays_ns[number as usize], format!("{number}-")).then(MS, "end")
        });
        let mut sim = Sim::new(SimOptions::default(), peer);
        let token = connected(&mut sim, 0);
        send(&mut sim, token, &GET.repeat(3));
        let answers: String = run_until(&mut sim, S)
            .into_iter()
            .map(|(_, _, what)| what)
            .collect();
        assert_eq!(answers, "0-end1-end2-end");
        let served = |first_byte_ns| Served {
            connection: 0,
            arrived_ns: 0,
            first_byte_ns: Some(first_byte_ns),
            last_byte_ns: Some(6 * MS),
        };
        let truth = [served(5 * MS), served(6 * MS), served(6 * MS)];
        assert_eq!(sim.peer().served(), truth);
    }

    #[test]
    fn a_request_arrives_with_its_last_byte() {
        let peer = HttpPeer::new(|_| Reply::silence());
        let mut sim = Sim::new(SimOptions::default(), peer);
        let token = connected(&mut sim, 0);
        for byte in GET {
            let later_ns = sim.now_ns() + MS;
            run_until(&mut sim, later_ns);
            send(&mut sim, token, &[*byte]);
        }
        run_until(&mut sim, S);
        let unanswered = Served {
            connection: 0,
            arrived_ns: GET.len() as u64 * MS,
            first_byte_ns: None,
            last_byte_ns: None,
        };
        assert_eq!(sim.peer().served(), [unanswered]);
    }

    #[test]
    fn the_end_of_a_reply_is_seen_after_its_bytes() {
        let end = "EndOfStream".to_owned();
        let reset = format!("ReceiveFailed({})", libc::ECONNRESET);
        let reply = || Reply::after(MS, "x");
        for (reply, saw) in [
            (reply().then_finish(MS), end.clone()),
            (reply().then_close(MS), end),
            (reply().then_reset(MS), reset),
        ] {
            let peer = HttpPeer::new(move |_| reply.clone());
            let mut sim = Sim::new(SimOptions::default(), peer);
            let token = connected(&mut sim, 0);
            send(&mut sim, token, GET);
            assert_eq!(
                run_until(&mut sim, S),
                [(MS, 0, "x".to_owned()), (2 * MS, 0, saw)]
            );
        }
    }

    #[test]
    fn an_invalid_request_is_reset_after_the_requests_before_it() {
        let peer = HttpPeer::new(|_| Reply::after(MS, "x"));
        let mut sim = Sim::new(SimOptions::default(), peer);
        let token = connected(&mut sim, 0);
        let hostile: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n";
        send(&mut sim, token, &[GET, hostile, GET].concat());
        let reset = format!("ReceiveFailed({})", libc::ECONNRESET);
        assert_eq!(
            run_until(&mut sim, S),
            [(MS, 0, "x".to_owned()), (MS, 0, reset)]
        );
        assert_eq!(sim.peer().served().len(), 1);
    }

    #[test]
    fn a_request_ends_at_its_empty_line_or_after_its_body() {
        assert_eq!(
            request_length(b"GET / HTTP/1.1\r\n\r\nGET"),
            Framing::Complete(18)
        );
        let post = b"POST / HTTP/1.1\r\ncontent-LENGTH: 3 \r\n\r\nabcd";
        assert_eq!(request_length(post), Framing::Complete(post.len() - 1));
    }

    #[test]
    fn a_truncated_request_is_incomplete() {
        let post = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        for end in 0..post.len() {
            assert_eq!(
                request_length(&post[..end]),
                Framing::Incomplete,
                "cut at {end}"
            );
        }
        assert_eq!(request_length(post), Framing::Complete(post.len()));
    }

    #[test]
    fn invalid_lengths_are_rejected() {
        for value in [
            "-1",
            "1e3",
            "",
            "99999999999999999999999",
            "67108865",
            "\u{fffd}",
        ] {
            let post = format!("POST / HTTP/1.1\r\nContent-Length: {value}\r\n\r\n");
            assert_eq!(
                request_length(post.as_bytes()),
                Framing::Refused,
                "{value:?}"
            );
        }
        assert_eq!(
            request_length(&vec![b'a'; HEAD_BYTES_MAX]),
            Framing::Refused
        );
    }
}
