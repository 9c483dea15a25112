//! A number of connections that changes during the run, in a closed loop.

use super::Worker;
use super::network::Network;
use super::opening::OPENED_PER_TURN;
use crate::connection::ConnectionState;
use eventloop::EventLoop;
use plan::ConnectionStage;
use protocol::Session;
use std::time::Duration;

/// The stages, and how far a worker has followed them. Its connections with the lowest keys are
/// those that it has.
pub(super) struct ConnectionStages {
    stages: Vec<ConnectionStage>,
    /// Start of the window, CLOCK_MONOTONIC.
    measure_ns: u64,
    /// Number of the worker, and of all workers.
    worker: (u32, u32),
    /// Connections that it has, or is opening.
    active: u32,
}

impl ConnectionStages {
    /// Follows the stages of a plan; `None` if it has none.
    pub(super) fn new(
        stages: &[ConnectionStage],
        worker: (u32, u32),
        measure_ns: u64,
    ) -> Option<Self> {
        (!stages.is_empty()).then(|| Self {
            stages: stages.to_vec(),
            measure_ns,
            worker,
            active: 0,
        })
    }

    /// The window, and with it the first stage, begins at another time, which has not come yet.
    pub(super) fn move_window(&mut self, measure_ns: u64) {
        self.measure_ns = measure_ns;
    }

    /// The connections of this worker at a time. Those of all workers add up to the number of the
    /// stage.
    fn wanted(&self, now_ns: u64) -> u32 {
        let at = Duration::from_nanos(now_ns.saturating_sub(self.measure_ns));
        let all = ConnectionStage::at(&self.stages, at);
        let (number, workers) = (self.worker.0, self.worker.1.max(1));
        all / workers + u32::from(number < all % workers)
    }
}

impl<L, S: Session> Network<L, S> {
    /// Whether the connection is one too many at this time.
    pub(super) fn is_withdrawn(&self, key: u32) -> bool {
        let stages = self.connection_stages.as_ref();
        stages.is_some_and(|stages| key >= stages.active)
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Opens or closes connections as the stages ask. Those with a request in flight are closed
    /// after its response. Returns whether there is more to open.
    pub(super) fn follow_connection_stages(&mut self, now_ns: u64) -> bool {
        let Some(stages) = &mut self.network.connection_stages else {
            return false;
        };
        let wanted = stages.wanted(now_ns).min(self.settings.connections);
        let before = stages.active;
        stages.active = wanted.min(before.saturating_add(OPENED_PER_TURN));
        let active = stages.active;
        for key in before..active {
            let state = self.network.pool[key].state;
            // Another one is still waiting for its response, and goes on after it.
            if matches!(state, ConnectionState::Waiting | ConnectionState::Done) {
                self.network.open(key);
            }
        }
        for key in active..before {
            let connection = &mut self.network.pool[key];
            connection.use_up();
            if connection.exchanges.outstanding() == 0 {
                self.disconnect(key, now_ns);
                self.network.pool[key].state = ConnectionState::Done;
            }
        }
        active < wanted
    }
}
