//! A script that takes the thread longer than the load leaves it: what requests and responses wait
//! for it is the load generator's delay, over each protocol.

use crate::http::{HttpPeer, Reply};
use crate::multiplexed::{self, Server};
use crate::quic_server::{self, QuicServer};
use crate::simulation::{GET, MS, OK, S, Simulation, US, waits_ns};
use crate::truth::close;
use engine::source::{Batch, RequestSource, SourceError};
use eventloop::sim::{PeerEvent, PeerLogEntry};
use results::Recording;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A script that works this long on each request.
struct Costly {
    cost_ns: u64,
    work_ns: Arc<AtomicU64>,
}

impl RequestSource for Costly {
    fn next(&mut self, _connection: u32, output: &mut Batch) -> Result<(), SourceError> {
        self.work_ns.fetch_add(self.cost_ns, Ordering::Relaxed);
        output.extend_from_slice(GET);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2(u32),
    Http3,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol::Http1,
    Protocol::Http2(1),
    Protocol::Http2(16),
    Protocol::Http3,
];

impl Protocol {
    fn streams(self) -> u32 {
        match self {
            Self::Http2(streams) => streams,
            Self::Http1 | Self::Http3 => 1,
        }
    }
}

/// A server with this time for each request, which stalls for a while.
#[derive(Debug, Clone)]
struct Load {
    protocol: Protocol,
    connections: u32,
    is_paced: bool,
    stall_ns: Range<u64>,
}

/// Requests per second of the server without a queue.
const RATE_PER_SEC: u32 = 4_000;
const DELAY_MIN_NS: u64 = 2 * MS;

/// When the server stalls, if it does.
const STALL_NS: Range<u64> = 600 * MS..750 * MS;

impl Load {
    fn in_flight(&self) -> u32 {
        self.connections * self.protocol.streams()
    }

    fn service_ns(&self) -> u64 {
        (u64::from(self.in_flight()) * S / u64::from(RATE_PER_SEC)).max(DELAY_MIN_NS)
    }

    /// Half of what the server can do.
    fn rate_per_sec(&self) -> f64 {
        let possible = f64::from(self.in_flight()) * S as f64 / self.service_ns() as f64;
        possible / 2.0
    }

    fn simulation(&self, cost_ns: u64) -> Simulation {
        let mut simulation = Simulation::new()
            .connections(self.connections)
            .latency(20 * US)
            .lasting(S)
            .timeout(20 * S);
        simulation.sim.reads_when_taken = true;
        if self.is_paced {
            simulation = simulation.rate(self.rate_per_sec());
        }
        let work_ns = Arc::clone(&simulation.sim.work_ns);
        simulation.source(Costly { cost_ns, work_ns })
    }

    /// What was recorded with a script of this cost, and how long the server took for each request.
    fn run(&self, cost_ns: u64) -> (Recording, Vec<u64>) {
        let simulation = self.simulation(cost_ns);
        let (service_ns, stall_ns) = (self.service_ns(), self.stall_ns.clone());
        match self.protocol {
            Protocol::Http1 => {
                let run = simulation.run(HttpPeer::new(move |request| {
                    let waits_ns = waits_ns(&stall_ns, request.arrived_ns);
                    Reply::after(waits_ns + service_ns, OK)
                }));
                let served = run.served.iter();
                let took_ns = served.map(|it| it.last_byte_ns.unwrap_or(0) - it.arrived_ns);
                (run.recording, took_ns.collect())
            }
            Protocol::Http2(streams) => {
                let mut server = Server::new(|_| multiplexed::Reply::After(service_ns));
                server.stall_ns = stall_ns;
                let server = Arc::new(Mutex::new(server));
                let (ended, _) = simulation.run_multiplexed(streams, Arc::clone(&server));
                let took_ns = server.lock().expect("no panic").took_ns.clone();
                (ended.recording, took_ns)
            }
            Protocol::Http3 => {
                let mut server = QuicServer::new(|_| quic_server::Reply::After(service_ns));
                server.stall_ns = stall_ns;
                let log = server.log();
                let (ended, _) = simulation.run_over_quic(1, server);
                let log = log.borrow();
                let answered = log.iter().filter(|it| it.answered_ns.is_some());
                let took_ns = answered.map(|it| it.answered_ns.unwrap_or(0) - it.arrived_ns);
                (ended.recording, took_ns.collect())
            }
        }
    }
}

const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];

/// In a stall, a percentile depends on how many requests are not in it. So all values within this
/// share of the requests above a percentile are right.
const NEAR_RANK: f64 = 0.15;

const CONNECTIONS: [u32; 3] = [8, 100, 400];

/// What the script needs for each request: less than the rate leaves, and more.
const COSTS_NS: [u64; 2] = [30 * US, 1_400 * US];

/// With more in flight, a response takes longer than a run.
const IN_FLIGHT_MAX: u32 = 1_000;

impl Load {
    /// All at a rate, or in a closed loop.
    fn all(is_paced: bool) -> impl Iterator<Item = Self> {
        let protocols = PROTOCOLS.into_iter();
        let loads = protocols.flat_map(move |protocol| {
            CONNECTIONS.into_iter().flat_map(move |connections| {
                [0..0, STALL_NS].map(|stall_ns| Self {
                    protocol,
                    connections,
                    is_paced,
                    stall_ns,
                })
            })
        });
        loads.filter(|load| {
            // QUIC takes long to simulate.
            let in_flight_max = match load.protocol {
                Protocol::Http3 => 100,
                _ => IN_FLIGHT_MAX,
            };
            load.in_flight() <= in_flight_max
        })
    }

    /// Expects that each percentile without the part of the load generator is that of a script that
    /// costs nothing.
    fn assert_attributed_at_rate(&self, costs_ns: &[u64]) {
        let (undisturbed, _) = self.run(0);
        let truth = undisturbed.latency();
        let truth_ns = |percent| truth.value_at_percentile(percent);
        self.assert_attributed(0, &undisturbed, truth_ns);
        for &cost_ns in costs_ns {
            let (seen, _) = self.run(cost_ns);
            self.assert_attributed(cost_ns, &seen, truth_ns);
        }
    }

    /// Expects that each percentile without the part of the load generator is the truth.
    fn assert_attributed(&self, cost_ns: u64, seen: &Recording, truth_ns: impl Fn(f64) -> u64) {
        for parts in seen.latency_parts_at(&PERCENTS) {
            let (shown_ms, own_ms) = (ms(parts.shown_ns), ms(parts.own_ns));
            let rank = (100.0 - parts.percent) * NEAR_RANK;
            let (least_ms, most_ms) = (
                ms(truth_ns(parts.percent - rank)),
                ms(truth_ns(parts.percent + rank)),
            );
            let corrected_ms = shown_ms - own_ms;
            let truth_ms = corrected_ms.clamp(least_ms, most_ms);
            let grown_ms = (shown_ms - truth_ms).max(0.0);
            assert!(
                (own_ms - grown_ms).abs() <= (0.2 * grown_ms).max(1.0)
                    || close(corrected_ms, truth_ms, 0.03),
                "{self:?}, script of {} us: of {shown_ms:.1} ms of the p{}, {own_ms:.1} are said \
                 to be its own, truth {grown_ms:.1}",
                cost_ns / US,
                parts.percent,
            );
        }
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[test]
fn what_waits_for_a_slow_script_at_a_rate_is_late_by_the_load_generator() {
    for load in Load::all(true) {
        load.assert_attributed_at_rate(&COSTS_NS);
    }
}

#[test]
fn what_many_connections_have_not_read_at_the_end_is_late_by_the_load_generator() {
    let load = Load {
        protocol: Protocol::Http3,
        connections: 400,
        is_paced: true,
        stall_ns: 0..0,
    };
    load.assert_attributed_at_rate(&[1_400 * US]);
}

#[test]
fn what_waits_for_a_slow_script_in_a_closed_loop_is_late_by_the_load_generator() {
    for load in Load::all(false) {
        for cost_ns in COSTS_NS {
            let (seen, took_ns) = load.run(cost_ns);
            // The last ones were not answered in the run.
            let answered = took_ns.into_iter().take(seen.counters.answered as usize);
            let took: Vec<f64> = answered.map(|ns| ns as f64).collect();
            let took = stats::sorted(&took);
            load.assert_attributed(cost_ns, &seen, |percent| {
                stats::quantile(&took, percent / 100.0).unwrap_or(0.0) as u64
            });
        }
    }
}

#[test]
fn in_a_closed_loop_a_stream_does_not_wait_until_a_slow_script_has_made_requests_for_all() {
    let load = Load {
        protocol: Protocol::Http2(16),
        connections: 1,
        is_paced: false,
        stall_ns: 0..0,
    };
    let server = Server::new(|_| multiplexed::Reply::After(5 * MS));
    let (_, peer_log) = load.simulation(1_400 * US).run_multiplexed(16, server);
    let arrived = |entry: &PeerLogEntry| matches!(entry.what, PeerEvent::Arrived(_));
    let entries = peer_log.entries().into_iter().filter(arrived);
    // The time of seven requests.
    let early = entries.filter(|entry| entry.at_ns < 10 * MS).count();
    assert!(early >= 7, "{early} arrivals");
}
