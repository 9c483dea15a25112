//! A worker: an event loop and its connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eventloop::{
    Acceptor, CloseMode, Completion, EventLoop, Payload, SharedBytes, SocketEvent, Token,
};
use rustls::ServerConnection;

use crate::connection::{Action, Connection, InitialDelays};
use crate::context::Context;
use crate::http3::Http3;
use crate::options::Greeting;
use crate::prepared::PreparedResponse;
use crate::report::LoggedRequest;
use crate::timers::Timers;

/// Key of the listener for clients.
pub(crate) const KEY_SERVICE: u32 = 0;
/// Key of the listener whose connections only wake the loop.
pub(crate) const KEY_WAKE: u32 = 1;

/// Key of the socket for HTTP/3.
pub(crate) const KEY_DATAGRAMS: u32 = 2;

/// Maximum number of completions before timers and the stop flag are checked: a client that never
/// stops sending must not starve others.
const COMPLETIONS_PER_TURN: usize = 256;
/// Maximum number of responses shared with the loop, which never frees them.
const SHARED_MAX: usize = 256;
/// A shared response is repeated in memory so that pipelined requests can be answered by one send:
/// up to this many bytes and copies.
const SHARED_BYTES: usize = 64 * 1024;
const SHARED_COPIES: usize = 64;
/// Sends of shared bytes are not reported. After this many bytes on a connection, a response is
/// sent the regular way, so that a peer that does not read is noticed.
const UNREPORTED_MAX_BYTES: u64 = 256 * 1024;

pub(crate) struct Worker<L> {
    pub(crate) io: L,
    pub(crate) context: Context,
    pub(crate) greeting: Greeting,
    pub(crate) delays: InitialDelays,
    pub(crate) is_polling: bool,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) http3: Option<Http3>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) numbers: Numbers,
    slots: Vec<Option<Slot>>,
    timers: Timers,
    shared: Vec<SharedResponse>,
}

/// Connection numbers, unique over all workers of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) next: u64,
    pub(crate) step: u64,
}

impl Numbers {
    fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += self.step;
        number
    }
}

struct Slot {
    generation: u32,
    connection: Connection,
    /// The deadline registered in the timers.
    armed_ns: Option<u64>,
    /// Shared bytes sent since the last reported send.
    unreported_bytes: u64,
}

/// A response kept by the loop, repeated several times.
#[derive(Clone, Copy)]
struct SharedResponse {
    entry: u64,
    bytes: SharedBytes,
    response_bytes: usize,
    copies: usize,
    status: u16,
}

impl<L: EventLoop + Acceptor> Worker<L> {
    pub(crate) fn new(io: L, context: Context, stop: Arc<AtomicBool>, numbers: Numbers) -> Self {
        Self {
            io,
            context,
            greeting: Greeting::Serve,
            delays: InitialDelays::default(),
            is_polling: false,
            tls: None,
            http3: None,
            stop,
            numbers,
            slots: Vec::new(),
            timers: Timers::default(),
            shared: Vec::new(),
        }
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// When the event loop fails.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while !self.stop.load(Ordering::Acquire) {
            // A time in the past: poll without sleeping.
            let until_ns = if self.is_polling {
                Some(0)
            } else {
                let http3 = self.http3.as_ref().and_then(Http3::next_ns);
                [self.timers.next_ns(), http3].into_iter().flatten().min()
            };
            self.io.wait(until_ns)?;
            for _ in 0..COMPLETIONS_PER_TURN {
                let Some(completion) = self.io.next() else {
                    break;
                };
                self.on_completion(completion);
            }
            self.fire_timers();
            if let Some(http3) = &mut self.http3 {
                http3.fire_timers(&mut self.io, &mut self.context);
            }
        }
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion) {
        let Completion {
            key,
            token,
            at_ns,
            event,
        } = completion;
        if key == KEY_DATAGRAMS {
            return self.on_datagrams(event, at_ns);
        }
        match event {
            SocketEvent::Accepted if key == KEY_WAKE => self.io.close(token, CloseMode::Graceful),
            SocketEvent::Accepted => self.on_accepted(token, at_ns),
            SocketEvent::Received(_) => self.on_received(token, at_ns),
            SocketEvent::EndOfStream => {
                if let Some(slot) = slot(&mut self.slots, token) {
                    slot.connection.end();
                    self.carry_out(token);
                }
            }
            SocketEvent::Sent(buffer) => {
                if let Some(slot) = slot(&mut self.slots, token) {
                    slot.unreported_bytes = 0;
                    slot.connection.sent(buffer.len());
                    self.carry_out(token);
                }
            }
            SocketEvent::ReceiveFailed(_) | SocketEvent::SendFailed(_) => {
                if slot(&mut self.slots, token).is_some() {
                    self.close(token, CloseMode::Graceful);
                }
            }
            SocketEvent::Connected
            | SocketEvent::ConnectFailed(_)
            | SocketEvent::Closed
            | SocketEvent::Discarded(_)
            | SocketEvent::Postponed => {}
        }
    }

    fn on_datagrams(&mut self, event: SocketEvent, at_ns: u64) {
        let Self {
            io,
            context,
            numbers,
            http3: Some(http3),
            ..
        } = self
        else {
            return;
        };
        match event {
            SocketEvent::Received(_) => http3.receive(io, at_ns, context, || numbers.take()),
            SocketEvent::Sent(buffer) => http3.sent(io, buffer, at_ns, context),
            // The socket goes on: an error is about one datagram.
            _ => {}
        }
    }

    fn on_accepted(&mut self, token: Token, at_ns: u64) {
        self.context.counters().connections.add(1);
        let number = self.numbers.take();
        let tls = match self.tls.clone().map(ServerConnection::new).transpose() {
            Ok(Some(mut tls)) => {
                // All output is taken before another connection is served.
                tls.set_buffer_limit(None);
                Some(tls)
            }
            Ok(None) => None,
            Err(_) => {
                self.context.counters().tls_failures.add(1);
                return self.io.close(token, CloseMode::Abort);
            }
        };
        let tls = tls.filter(|_| self.greeting == Greeting::Serve);
        let mut connection = Connection::new(number, tls);
        connection.wait_before_reading(self.delays, at_ns);
        if let Greeting::End(end) = self.greeting {
            connection.only(PreparedResponse::ending(end.steps()), at_ns);
        }
        let index = token.index as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Slot {
            generation: token.generation,
            connection,
            armed_ns: None,
            unreported_bytes: 0,
        });
        self.carry_out(token);
    }

    fn on_received(&mut self, token: Token, at_ns: u64) {
        if self.respond_instantly(token, at_ns) {
            return;
        }
        let Some(slot) = slot(&mut self.slots, token) else {
            return;
        };
        slot.connection
            .receive(self.io.received(), at_ns, &mut self.context);
        self.carry_out(token);
    }

    /// Answers input that consists of cached requests with instant responses. This is the path of
    /// nearly all requests of a load test; everything else may be slower.
    fn respond_instantly(&mut self, token: Token, at_ns: u64) -> bool {
        let Some(slot) = slot(&mut self.slots, token) else {
            return false;
        };
        let is_possible = slot.connection.is_quiet()
            && slot.unreported_bytes < UNREPORTED_MAX_BYTES
            && self.context.is_instant();
        if !is_possible {
            return false;
        }
        let input = self.io.received();
        let Some((entry, count, response)) = self.context.cache.repeated(input) else {
            return false;
        };
        let input_bytes = input.len() as u64;
        let known = self.shared.iter().position(|shared| shared.entry == entry);
        let index = match known {
            Some(index) => index,
            None if self.shared.len() < SHARED_MAX => {
                let Some(shared) = share(&mut self.io, entry, response) else {
                    return false;
                };
                self.shared.push(shared);
                self.shared.len() - 1
            }
            None => return false,
        };
        let connection = slot.connection.number();
        let output_bytes = (count * self.shared[index].response_bytes) as u64;
        slot.unreported_bytes += output_bytes;
        // Before sending: a client that has the response must find it counted.
        let counters = self.context.counters();
        counters.bytes_in.add(input_bytes);
        counters.bytes_out.add(output_bytes);
        counters.requests.add(count as u64);
        counters.responses.add(count as u64);
        self.send_shared(token, index, count);
        if self.context.log.is_on() {
            self.log_instant(connection, at_ns, index, count);
        }
        true
    }

    fn send_shared(&mut self, token: Token, index: usize, count: usize) {
        let SharedResponse {
            bytes,
            response_bytes,
            copies,
            ..
        } = self.shared[index];
        let mut left = count;
        while left > 0 {
            let now = left.min(copies);
            let range = 0..now * response_bytes;
            self.io.send(token, Payload::Shared { bytes, range });
            left -= now;
        }
    }

    fn log_instant(&mut self, connection: u64, arrival_ns: u64, index: usize, count: usize) {
        let SharedResponse {
            response_bytes,
            status,
            ..
        } = self.shared[index];
        let departure_ns = Some(self.io.now_ns());
        let bytes = response_bytes as u64;
        let entry = LoggedRequest {
            connection,
            arrival_ns,
            departure_ns,
            status,
            bytes,
            generated: None,
        };
        for _ in 0..count {
            self.context.log.arrive(entry.clone());
        }
    }

    /// Performs the actions of a connection until it waits.
    fn carry_out(&mut self, token: Token) {
        let mut now_ns = self.io.now_ns();
        while let Some(slot) = slot(&mut self.slots, token) {
            match slot.connection.next_move(now_ns, &mut self.context) {
                Action::Send(bytes) => self.io.send(token, Payload::Owned(bytes)),
                Action::Fin => self.io.shutdown_send(token),
                Action::Close(mode) => return self.close(token, mode),
                Action::Idle => return,
                Action::Wait(until_ns) => {
                    now_ns = self.io.now_ns();
                    if until_ns <= now_ns {
                        continue;
                    }
                    if slot.armed_ns != Some(until_ns) {
                        slot.armed_ns = Some(until_ns);
                        self.timers.add(until_ns, token);
                    }
                    return;
                }
            }
        }
    }

    fn fire_timers(&mut self) {
        // Only deadlines that were due at one time: a connection that repeatedly asks for the
        // present must not keep the loop from its sockets.
        let now_ns = self.io.now_ns();
        while let Some(token) = self.timers.pop_due(now_ns) {
            if let Some(slot) = slot(&mut self.slots, token) {
                slot.armed_ns = None;
                self.carry_out(token);
            }
        }
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        self.slots[token.index as usize] = None;
        self.io.close(token, mode);
    }
}

fn slot(slots: &mut [Option<Slot>], token: Token) -> Option<&mut Slot> {
    let slot = slots.get_mut(token.index as usize)?.as_mut()?;
    (slot.generation == token.generation).then_some(slot)
}

fn share<L: EventLoop>(
    io: &mut L,
    entry: u64,
    response: &PreparedResponse,
) -> Option<SharedResponse> {
    let response_bytes = response.instant_bytes()?;
    let copies = (SHARED_BYTES / response_bytes.len()).clamp(1, SHARED_COPIES);
    let bytes = io.share(response_bytes.repeat(copies));
    Some(SharedResponse {
        entry,
        bytes,
        response_bytes: response_bytes.len(),
        copies,
        status: response.status,
    })
}
