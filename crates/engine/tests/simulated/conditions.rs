//! What random runs vary whatever the protocol.

use std::ops::Range;

use crate::simulation::{MS, Simulation, US};
use eventloop::sim::SimOptions;
use plan::{Arrivals, Pacing};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    per_connection: u64,
    pub(crate) timeout_ms: u64,
    pub(crate) warmup_ms: u64,
    pub(crate) requests: Option<u64>,
    pub(crate) latency_us: u64,
    jitter_us: u64,
    clock_cost_ns: u64,
    /// Requests per second, and whether they are random. `None` is a closed loop.
    rate: Option<(f64, bool)>,
    pub(crate) seed: u64,
}

prop_compose! {
    /// Conditions with timeouts in this range and values below these.
    pub(crate) fn any_conditions(
        timeouts_ms: Range<u64>, warmup_ms: u64, latency_us: u64, rate_per_sec: f64,
    )(
        per_connection in prop_oneof![Just(u64::MAX), 1..9_u64],
        (timeout_ms, warmup_ms) in (timeouts_ms, prop_oneof![Just(0), 0..warmup_ms]),
        requests in prop_oneof![Just(None), (1..300_u64).prop_map(Some)],
        (latency_us, jitter_us, clock_cost_ns) in (1..latency_us, 0..2_000_u64, 0..200_u64),
        rate in prop_oneof![Just(None), (1.0..rate_per_sec, any::<bool>()).prop_map(Some)],
        seed in any::<u64>(),
    ) -> Conditions {
        Conditions {
            per_connection, timeout_ms, warmup_ms, requests, latency_us, jitter_us, clock_cost_ns,
            rate, seed,
        }
    }
}

impl Conditions {
    /// A run under them. `arrivals` are those at a rate, if they are random.
    pub(crate) fn simulation(&self, arrivals: Arrivals) -> Simulation {
        let mut simulation = Simulation::new()
            .requests_per_connection(self.per_connection)
            .timeout(self.timeout_ms * MS)
            .warmed_up(self.warmup_ms * MS);
        if let Some((rate_per_sec, random)) = self.rate {
            simulation.settings.plan.pacing = Pacing::Constant {
                rate_per_sec,
                arrivals: if random { arrivals } else { Arrivals::Even },
                seed: self.seed,
            };
        }
        simulation.settings.requests = self.requests;
        simulation.sim = SimOptions {
            seed: self.seed,
            latency_ns: self.latency_us * US,
            jitter_ns: self.jitter_us * US,
            clock_cost_ns: self.clock_cost_ns,
            close_ns: 10 * US,
            ..SimOptions::default()
        };
        simulation
    }
}
