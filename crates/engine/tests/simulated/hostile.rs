//! Servers that do anything, taken from bytes. Whatever they do, the run ends on time, its counts
//! add up, its memory is bounded, and it does not ask for connections without pauses. The fuzz
//! target `engine_hostile` runs the same check.

use crate::simulation::{LAST_OK, MS, OK, S, Simulation, US};
use engine::WorkerResult;
use eventloop::sim::{Actions, Attempt, ConnectReaction, Peer, PeerEvent, PeerLog, SimOptions};
use protocol::h2::error::ErrorCode;
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::writer;
use std::collections::BTreeMap;

/// What a server may do in a run. More would only repeat what it has done before.
const ACTS_MAX: u32 = 3_000;

/// Unsent bytes of a connection: the replies that a flood may wait for, and a little.
const UNSENT_BYTES_MAX: usize = 1_000_000;

/// Attempts to connect that no pause precedes or only a short one, for each connection and each of
/// its responses: one at once, and random pauses of up to 1 ms that double up to the longest.
const SHORT_PAUSES: u64 = 18;

const TIMEOUT_NS: u64 = 100 * MS;
const DURATION_NS: u64 = 2 * S;

/// A server that does on each connection what its bytes say, over and over.
struct Hostile<'a> {
    bytes: &'a [u8],
    /// How much later in the bytes each connection begins than the one before.
    stride: usize,
    /// The connection of the current call, and where each is in the bytes.
    current: u32,
    at: BTreeMap<u32, usize>,
    acts: u32,
    has_streams: bool,
    /// The last stream of each connection that had a request.
    streams: BTreeMap<u32, u32>,
}

impl Hostile<'_> {
    fn byte(&mut self) -> u8 {
        let first = self.current as usize * self.stride;
        let at = self.at.entry(self.current).or_insert(first);
        let byte = self.bytes.get(*at % self.bytes.len().max(1));
        *at += 1;
        byte.copied().unwrap_or(0)
    }

    /// A time of up to a quarter of a second, mostly short.
    fn delay_ns(&mut self) -> u64 {
        let byte = self.byte();
        ((10 + u64::from(byte & 0x0f)) * US) << (byte >> 4)
    }

    fn piece(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte());
        (0..length).map(|_| self.byte()).collect()
    }

    fn response(&mut self, connection: u32, is_last: bool) -> Vec<u8> {
        if !self.has_streams {
            return if is_last { LAST_OK } else { OK }.to_vec();
        }
        let mut bytes = Vec::new();
        let stream = self.streams.get(&connection).copied().unwrap_or(1);
        if is_last {
            writer::goaway(stream, ErrorCode::NO_ERROR, b"bye", &mut bytes);
        }
        let mut block = Vec::new();
        field(b":status", b"200", Literal::Unindexed, &mut block);
        writer::headers(stream, &block, false, 16_384, &mut bytes);
        writer::data(stream, b"hello", true, &mut bytes);
        bytes
    }

    /// The same small thing many times.
    fn flood(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let kind = self.byte();
        for _ in 0..1 + u32::from(self.byte()) * 8 {
            match (self.has_streams, kind % 4) {
                (true, 0) => writer::ping([kind; 8], false, &mut bytes),
                (true, 1) => writer::settings([], &mut bytes),
                (true, 2) => writer::window_update(0, 1, &mut bytes),
                (true, _) => writer::data(1, b"", false, &mut bytes),
                (false, 0) => bytes.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
                (false, 1) => bytes.extend_from_slice(b"x-header: value\r\n"),
                (false, 2) => bytes.extend_from_slice(OK),
                (false, _) => bytes.extend_from_slice(b"1\r\nx\r\n"),
            }
        }
        bytes
    }

    fn act(&mut self, connection: u32, actions: &mut Actions) {
        self.current = connection;
        if self.acts == ACTS_MAX {
            return;
        }
        self.acts += 1;
        match self.byte() % 16 {
            0 => {}
            1..=4 => {
                let (delay_ns, response) = (self.delay_ns(), self.response(connection, false));
                actions.send(delay_ns, response);
            }
            5 => {
                let (delay_ns, response) = (self.delay_ns(), self.response(connection, true));
                actions.send(delay_ns, response);
            }
            6 => {
                let (delay_ns, response) = (self.delay_ns(), self.response(connection, false));
                let cut = usize::from(self.byte()) % response.len();
                actions.send(delay_ns, &response[..cut]);
            }
            7 => drop(actions.send(0, self.piece())),
            8 => {
                let (kind, flags, stream) = (self.byte() % 11, self.byte(), self.byte());
                let mut bytes = Vec::new();
                let payload = self.piece();
                writer::frame(kind, flags, u32::from(stream), &payload, &mut bytes);
                actions.send(0, bytes);
            }
            9 | 10 => drop(actions.send(0, self.flood())),
            11 => drop(actions.finish(self.delay_ns())),
            12 => drop(actions.close(self.delay_ns())),
            13 => drop(actions.reset(self.delay_ns())),
            14 => actions.stop_reading(0),
            _ => actions.resume_reading(self.delay_ns()),
        }
        if self.byte().is_multiple_of(2) {
            actions.wake(self.delay_ns());
        }
    }
}

impl Peer for Hostile<'_> {
    fn on_connect(&mut self, attempt: &Attempt<'_>, _now_ns: u64) -> ConnectReaction {
        self.current = attempt.connection;
        match self.byte() {
            0..=15 => ConnectReaction::refuse(),
            16..=20 => ConnectReaction::Ignore,
            _ => ConnectReaction::Accept {
                after_ns: self.delay_ns(),
            },
        }
    }

    fn on_open(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        self.current = connection;
        if self.has_streams && !self.byte().is_multiple_of(8) {
            let mut bytes = Vec::new();
            writer::settings([], &mut bytes);
            actions.send(0, bytes);
        }
        self.act(connection, actions);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], _now_ns: u64, actions: &mut Actions) {
        // A request is one HEADERS frame of a known length behind other frames, and nothing else
        // that a client sends has this type and END_STREAM.
        let is_head = |at: &&[u8]| at[0] == 1 && at[1] & 1 == 1 && at[2..4] == [0, 0];
        if let Some(head) = bytes.windows(6).rfind(is_head) {
            let stream = u32::from(head[4]) << 8 | u32::from(head[5]);
            self.streams.insert(connection, stream);
        }
        self.act(connection, actions);
    }

    fn on_wake(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        self.act(connection, actions);
    }
}

/// Runs against a server that does what these bytes say.
///
/// # Panics
/// If something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let (choices, bytes) = bytes.split_at(bytes.len().min(5));
    let choice = |at: usize| choices.get(at).copied().unwrap_or(0);
    let has_streams = choice(0).is_multiple_of(2);
    let connections = 1 + u32::from(choice(1) % 4);
    let in_flight = 1 + u32::from(choice(2) % 4);
    let mut simulation = Simulation::new()
        .connections(connections)
        .pipeline(in_flight)
        .timeout(TIMEOUT_NS)
        .lasting(DURATION_NS);
    if choice(3).is_multiple_of(2) {
        simulation = simulation.rate(1.0 + 10.0 * f64::from(choice(3)));
    }
    simulation.sim = SimOptions {
        seed: u64::from(choice(3)),
        latency_ns: 20 * US,
        jitter_ns: 10 * US,
        clock_cost_ns: 100,
        send_buffer_bytes: 64 * 1024,
        random_cuts: true,
        close_ns: 10 * US,
        ..SimOptions::default()
    };
    let is_open = simulation.settings.plan.pacing.is_open();
    let peer = Hostile {
        bytes,
        stride: usize::from(choice(4)),
        current: 0,
        at: BTreeMap::new(),
        acts: 0,
        has_streams,
        streams: BTreeMap::new(),
    };
    let (ended, peer_log) = if has_streams {
        simulation.run_multiplexed(in_flight, peer)
    } else {
        simulation.run_with(peer)
    };
    check_counts(&ended);
    check_attempts(&ended, &peer_log, u64::from(connections), is_open);
    let unsent_bytes = peer_log.most_unsent_bytes();
    assert!(unsent_bytes < UNSENT_BYTES_MAX, "{unsent_bytes} bytes");
    let late_ns = ended.ended_ns.saturating_sub(DURATION_NS);
    assert!(late_ns < MS, "the run ended {late_ns} ns late");
}

fn check_counts(ended: &WorkerResult) {
    let recording = &ended.recording;
    let counters = &recording.counters;
    let settled = counters.answered + recording.errors.exchanges() + counters.in_flight;
    assert_eq!(
        counters.sent, settled,
        "{counters:?} {:?}",
        recording.errors
    );
    assert_eq!(recording.service_time.count(), counters.answered);
    assert_eq!(recording.statuses.total(), counters.answered);
    assert_eq!(counters.in_flight == 0, counters.oldest_in_flight_ns == 0);
}

/// In a closed loop there are pauses between attempts that bring no response. With a rate, a
/// connection whose request failed is replaced at once, and one of those that fail otherwise tries
/// every 2 to 4 ms for all.
fn check_attempts(ended: &WorkerResult, peer_log: &PeerLog, connections: u64, is_open: bool) {
    let entries = peer_log.entries();
    let is_attempt = |what: &PeerEvent| matches!(what, PeerEvent::Attempted(_));
    let attempts = entries.iter().filter(|it| is_attempt(&it.what)).count() as u64;
    let counters = &ended.recording.counters;
    let probes = if is_open {
        counters.sent + DURATION_NS / (2 * MS)
    } else {
        DURATION_NS / S
    };
    let most = (connections + counters.answered) * SHORT_PAUSES + connections * probes;
    assert!(
        attempts <= most,
        "{attempts} attempts, at most {most}: {counters:?}"
    );
}

/// Numbers that look random, the same for the same seed.
fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

#[test]
fn whatever_a_server_does_the_run_is_bounded_and_its_counts_add_up() {
    for seed in 0..200 {
        // Short ones are repeated, so that servers go on with what they do.
        let length = 6 + seed as usize % 50;
        let bytes = random_bytes(seed, length);
        let outcome = std::panic::catch_unwind(|| check(&bytes));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_server_that_ends_every_connection_is_asked_after_pauses_whatever_the_end() {
    // FIN, close, RST, GOAWAY, or a frame that breaks a rule, as soon as it is established.
    let goaway = [8, 7, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    for ending in [&[11, 0][..], &[12, 0], &[13, 0], &goaway, &[8, 6, 0, 0, 0]] {
        let idle = [1, 0, 1, 0, 1, 0, 1];
        // HTTP/2, four connections, a closed loop; SETTINGS, the end, and then nothing.
        let bytes = [&[0, 3, 0, 1, 0, 200, 0, 1][..], ending, &idle].concat();
        check(&bytes);
        // HTTP/1, without SETTINGS.
        let bytes = [&[1, 3, 0, 1, 0, 200, 0][..], ending, &idle].concat();
        check(&bytes);
    }
}

#[test]
fn floods_that_nobody_reads_are_bounded() {
    for kind in 0..4 {
        // HTTP/2, a closed loop; SETTINGS, and nothing is read.
        let mut bytes = vec![0, 0, 3, 1, 0, 200, 0, 1, 14, 0, 0];
        // Floods at once, as often as there are acts.
        (0..ACTS_MAX).for_each(|_| bytes.extend([9, kind, 255, 0, 0]));
        check(&bytes);
    }
}
