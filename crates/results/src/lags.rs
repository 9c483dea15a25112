//! Delays in the load generator, measured during the run.

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// Delays in the load generator during the window, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lags {
    /// With a rate, per request sent: the time from due to sent, whatever the cause.
    pub send: Histogram,
    /// With a rate, per request sent: the part of `send` that the load generator caused, counted
    /// from when the request was due and a connection was free.
    pub own: Histogram,
    /// With a rate, per request that was due while no connection could be established: the part of
    /// `send` in which the program paused before the attempt to connect that succeeded.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub reconnect: Histogram,
    /// Per timed wait: how much later than requested the event loop returned.
    pub wakeup: Histogram,
    /// Per sampled receive: from the kernel's timestamp (`SO_TIMESTAMPING`) to the program's own.
    pub receive: Histogram,
}

impl Lags {
    /// Adds the samples of another worker.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            send,
            own,
            reconnect,
            wakeup,
            receive,
        } = other;
        self.send.merge(send);
        self.own.merge(own);
        self.reconnect.merge(reconnect);
        self.wakeup.merge(wakeup);
        self.receive.merge(receive);
    }
}
