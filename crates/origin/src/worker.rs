//! One worker: an event loop, its connections, and what they ask for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eventloop::{Acceptor, CloseMode, Completion, EventLoop, Outcome, Payload, SharedBytes, Token};
use rustls::ServerConnection;

use crate::connection::{Connection, Move, Patience};
use crate::options::Greeting;
use crate::plan::{Fin, Plan, Step};
use crate::site::Site;
use crate::timers::Timers;
use crate::truth::RequestTruth;

/// Key of the listener for requests.
pub(crate) const KEY_SERVICE: u32 = 0;
/// Key of the listener whose connections just wake the loop.
pub(crate) const KEY_WAKE: u32 = 1;

/// Completions taken before timers and the stop are looked at again: a client that sends without
/// end must not keep the others waiting.
const COMPLETIONS_PER_TURN: usize = 256;
/// Different answers that are shared with the loop, which keeps them for ever.
const SHARED_MAX: usize = 256;
/// An answer is shared so often in a row that pipelined requests are answered by one send: up to
/// this many bytes and copies.
const SHARED_BYTES: usize = 64 * 1024;
const SHARED_COPIES: usize = 64;
/// After so many bytes of a connection that were shared, and whose sending therefore nobody
/// reported, an answer goes the other way, so that a peer that does not read is noticed.
const UNREPORTED_MAX_BYTES: u64 = 256 * 1024;

/// See the module's text.
pub(crate) struct Worker<L> {
    pub(crate) io: L,
    pub(crate) site: Site,
    pub(crate) greeting: Greeting,
    pub(crate) patience: Patience,
    pub(crate) is_polling: bool,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) numbers: Numbers,
    places: Vec<Option<Place>>,
    timers: Timers,
    shared: Vec<SharedAnswer>,
}

/// Numbers of a worker's connections: no two workers of a server give the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) next: u64,
    pub(crate) step: u64,
}

struct Place {
    generation: u32,
    connection: Connection,
    /// The deadline that is in the timers.
    armed_ns: Option<u64>,
    /// Bytes sent as shared ones since the last report.
    unreported_bytes: u64,
    is_greeted: bool,
}

/// An answer that the loop keeps, several times in a row.
#[derive(Clone, Copy)]
struct SharedAnswer {
    recipe: u64,
    bytes: SharedBytes,
    answer_bytes: usize,
    copies: usize,
    status: u16,
}

impl<L: EventLoop + Acceptor> Worker<L> {
    pub(crate) fn new(io: L, site: Site, stop: Arc<AtomicBool>, numbers: Numbers) -> Self {
        Self {
            io,
            site,
            greeting: Greeting::Serve,
            patience: Patience::default(),
            is_polling: false,
            tls: None,
            stop,
            numbers,
            places: Vec::new(),
            timers: Timers::default(),
            shared: Vec::new(),
        }
    }

    /// Serves until told to stop.
    ///
    /// # Errors
    /// When the loop is broken.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while !self.stop.load(Ordering::Acquire) {
            // A moment that has passed: look, and do not sleep.
            let until_ns = if self.is_polling {
                Some(0)
            } else {
                self.timers.next_ns()
            };
            self.io.wait(until_ns)?;
            for _ in 0..COMPLETIONS_PER_TURN {
                let Some(completion) = self.io.next() else {
                    break;
                };
                self.on_completion(completion);
            }
            self.fire_timers();
        }
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion) {
        let Completion {
            key,
            token,
            at_ns,
            outcome,
        } = completion;
        match outcome {
            Outcome::Accepted if key == KEY_WAKE => self.io.close(token, CloseMode::Graceful),
            Outcome::Accepted => self.on_accepted(token, at_ns),
            Outcome::Received(_) => self.on_received(token, at_ns),
            Outcome::EndOfStream => {
                if let Some(place) = place(&mut self.places, token) {
                    place.connection.end();
                    self.carry_out(token);
                }
            }
            Outcome::Sent(buffer) => {
                if let Some(place) = place(&mut self.places, token) {
                    place.unreported_bytes = 0;
                    place.connection.sent(buffer.len());
                    self.carry_out(token);
                }
            }
            Outcome::ReceiveFailed(_) | Outcome::SendFailed(_) => {
                if place(&mut self.places, token).is_some() {
                    self.close(token, CloseMode::Graceful);
                }
            }
            Outcome::Connected
            | Outcome::ConnectFailed(_)
            | Outcome::Closed
            | Outcome::Discarded(_) => {}
        }
    }

    fn on_accepted(&mut self, token: Token, at_ns: u64) {
        self.site.counters().connections.add(1);
        let number = self.numbers.next;
        self.numbers.next += self.numbers.step;
        let tls = match self.tls.clone().map(ServerConnection::new).transpose() {
            Ok(Some(mut tls)) => {
                // Everything written is taken out again before anybody else gets the turn.
                tls.set_buffer_limit(None);
                Some(tls)
            }
            Ok(None) => None,
            Err(_) => {
                self.site.counters().tls_failures.add(1);
                return self.io.close(token, CloseMode::Abort);
            }
        };
        let tls = tls.filter(|_| self.greeting == Greeting::Serve);
        let mut connection = Connection::new(number, tls);
        connection.wait_before_reading(self.patience, at_ns);
        let at_once = match self.greeting {
            Greeting::Reset => Some(Step::Reset),
            Greeting::Fin => Some(Step::Fin(Fin::Linger)),
            Greeting::Stall => Some(Step::Hang),
            Greeting::Serve | Greeting::Alert | Greeting::Garbage => None,
        };
        let is_greeted = self.greeting == Greeting::Serve || at_once.is_some();
        if let Some(step) = at_once {
            connection.only(uncounted(vec![step]), at_ns);
        }
        let index = token.index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some(Place {
            generation: token.generation,
            connection,
            armed_ns: None,
            unreported_bytes: 0,
            is_greeted,
        });
        self.carry_out(token);
    }

    fn on_received(&mut self, token: Token, at_ns: u64) {
        if self.answer_instantly(token, at_ns) {
            return;
        }
        let Some(place) = place(&mut self.places, token) else {
            return;
        };
        if place.is_greeted {
            place
                .connection
                .receive(self.io.received(), at_ns, &mut self.site);
        } else {
            place.is_greeted = true;
            place.connection.only(late_greeting(self.greeting), at_ns);
        }
        self.carry_out(token);
    }

    /// Answers what consists of requests known to be answered at once with the same bytes.
    /// This is the path of nearly all requests of a load test; everything else may be slower.
    fn answer_instantly(&mut self, token: Token, at_ns: u64) -> bool {
        let Some(place) = place(&mut self.places, token) else {
            return false;
        };
        let is_possible = place.is_greeted
            && place.connection.is_quiet()
            && place.unreported_bytes < UNREPORTED_MAX_BYTES
            && self.site.is_instant();
        if !is_possible {
            return false;
        }
        let input = self.io.received();
        let Some((recipe, count, plan)) = self.site.recipes.repeated(input) else {
            return false;
        };
        let input_bytes = input.len() as u64;
        let known = self
            .shared
            .iter()
            .position(|shared| shared.recipe == recipe);
        let index = match known {
            Some(index) => index,
            None if self.shared.len() < SHARED_MAX => {
                let Some(shared) = share(&mut self.io, recipe, plan) else {
                    return false;
                };
                self.shared.push(shared);
                self.shared.len() - 1
            }
            None => return false,
        };
        let connection = place.connection.number();
        let output_bytes = (count * self.shared[index].answer_bytes) as u64;
        place.unreported_bytes += output_bytes;
        // Before the bytes leave: who has an answer must find it counted.
        let counters = self.site.counters();
        counters.bytes_in.add(input_bytes);
        counters.bytes_out.add(output_bytes);
        counters.requests.add(count as u64);
        counters.responses.add(count as u64);
        self.send_shared(token, index, count);
        if self.site.log.is_on() {
            self.log_instant(connection, at_ns, index, count);
        }
        true
    }

    fn send_shared(&mut self, token: Token, index: usize, count: usize) {
        let SharedAnswer {
            bytes,
            answer_bytes,
            copies,
            ..
        } = self.shared[index];
        let mut left = count;
        while left > 0 {
            let now = left.min(copies);
            let range = 0..now * answer_bytes;
            self.io.send(token, Payload::Shared { bytes, range });
            left -= now;
        }
    }

    fn log_instant(&mut self, connection: u64, arrival_ns: u64, index: usize, count: usize) {
        let SharedAnswer {
            answer_bytes,
            status,
            ..
        } = self.shared[index];
        let departure_ns = Some(self.io.now_ns());
        let bytes = answer_bytes as u64;
        let entry = RequestTruth {
            connection,
            arrival_ns,
            departure_ns,
            status,
            bytes,
        };
        for _ in 0..count {
            self.site.log.arrive(entry);
        }
    }

    /// Does what a connection asks for until it has nothing to ask.
    fn carry_out(&mut self, token: Token) {
        let mut now_ns = self.io.now_ns();
        while let Some(place) = place(&mut self.places, token) {
            match place.connection.next_move(now_ns, &mut self.site) {
                Move::Send(bytes) => self.io.send(token, Payload::Owned(bytes)),
                Move::Fin => self.io.shutdown_send(token),
                Move::Close(mode) => return self.close(token, mode),
                Move::Idle => return,
                Move::Wait(until_ns) => {
                    now_ns = self.io.now_ns();
                    if until_ns <= now_ns {
                        continue;
                    }
                    if place.armed_ns != Some(until_ns) {
                        place.armed_ns = Some(until_ns);
                        self.timers.add(until_ns, token);
                    }
                    return;
                }
            }
        }
    }

    fn fire_timers(&mut self) {
        // Only what was due at one time: a connection that asks for the present again and again
        // must not keep the loop from its sockets.
        let now_ns = self.io.now_ns();
        while let Some(token) = self.timers.pop_due(now_ns) {
            if let Some(place) = place(&mut self.places, token) {
                place.armed_ns = None;
                self.carry_out(token);
            }
        }
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        self.places[token.index as usize] = None;
        self.io.close(token, mode);
    }
}

fn place(places: &mut [Option<Place>], token: Token) -> Option<&mut Place> {
    let place = places.get_mut(token.index as usize)?.as_mut()?;
    (place.generation == token.generation).then_some(place)
}

fn share<L: EventLoop>(io: &mut L, recipe: u64, plan: &Plan) -> Option<SharedAnswer> {
    let answer = plan.instant_bytes()?;
    let copies = (SHARED_BYTES / answer.len()).clamp(1, SHARED_COPIES);
    let bytes = io.share(answer.repeat(copies));
    Some(SharedAnswer {
        recipe,
        bytes,
        answer_bytes: answer.len(),
        copies,
        status: plan.status,
    })
}

/// What the first bytes of a connection are answered with, by the greetings that wait for them.
fn late_greeting(greeting: Greeting) -> Plan {
    let bytes = if greeting == Greeting::Alert {
        // A fatal alert, handshake_failure (RFC 8446 section 6), in a TLS 1.2 record.
        vec![21, 3, 3, 0, 2, 2, 40]
    } else {
        vec![0xaa; 16 * 1024]
    };
    uncounted(vec![Step::Bytes(bytes), Step::Fin(Fin::Linger)])
}

fn uncounted(steps: Vec<Step>) -> Plan {
    Plan {
        is_counted: false,
        ..Plan::new(0, false, steps)
    }
}
