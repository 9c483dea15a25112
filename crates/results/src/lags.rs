//! How late the generator itself was: what it adds to the numbers, measured.

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// Delays on the generator's side. All in nanoseconds, all of the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lags {
    /// With a rate, per request sent: from due to sent, whatever the reason.
    pub send: Histogram,
    /// With a rate, per request sent: the part of `send` that was ours, counted from the later of
    /// two moments: the request was due, and a connection was free.
    pub own: Histogram,
    /// With a rate, per request that was due while no connection could be made: the part of `send`
    /// in which this program paused between two attempts to connect, the last time before the
    /// server was back.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub reconnect: Histogram,
    /// Per wait that ended by time: how much later than asked for the event loop came back.
    pub wakeup: Histogram,
    /// Per sampled receive: from the kernel's receive stamp (`SO_TIMESTAMPING`) to our stamp.
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
