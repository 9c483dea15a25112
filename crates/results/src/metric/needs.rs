//! What a run without a value of a metric lacks.

use crate::RunResult;

/// What a run without a value of a metric lacks.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// The heading of the metrics that need this in a list of all metrics.
    pub(crate) topic: &'static str,
    /// Why this run has no value, in words.
    pub(crate) missing: fn(&RunResult) -> &'static str,
    /// Whether each name of requests has it, too.
    pub(crate) is_of_requests: bool,
    /// Whether responses that have it can take many seconds.
    pub(crate) is_of_long_responses: bool,
}

impl Needs {
    pub(crate) const fn new(topic: &'static str, missing: fn(&RunResult) -> &'static str) -> Self {
        Self {
            topic,
            missing,
            is_of_requests: false,
            is_of_long_responses: false,
        }
    }

    const fn of_requests(missing: fn(&RunResult) -> &'static str) -> Self {
        Self {
            is_of_requests: true,
            ..Self::new(Self::OF_REQUESTS, missing)
        }
    }

    const OF_REQUESTS: &'static str = "requests";
    const OF_CONNECTIONS: &'static str = "connections";

    /// At least one request.
    pub(crate) const REQUESTS: Self = Self::of_requests(|_| "no request was sent");
    /// At least one response.
    pub(crate) const RESPONSES: Self = Self::of_requests(|_| "no request was answered");
    /// A rate, and a request that was due.
    pub(crate) const RATE: Self = Self::new(Self::OF_REQUESTS, |_| "no request was due");
    /// At least one established connection.
    pub(crate) const CONNECTIONS: Self =
        Self::new(Self::OF_CONNECTIONS, |_| "no connection was opened");
    /// TLS with a proxy, or a tunnel through it.
    pub(crate) const PROXY: Self = Self::new(
        Self::OF_CONNECTIONS,
        |_| "there was no TLS with a proxy and no tunnel (--proxy)",
    );
    /// At least one TLS handshake.
    pub(crate) const HANDSHAKES: Self =
        Self::new(Self::OF_CONNECTIONS, |_| "there was no TLS handshake");
    /// TCP sockets that were watched.
    pub(crate) const SOCKETS: Self = Self::new(
        "sockets (--sockets)",
        |_| "sockets were not watched (--sockets)",
    );
    /// A counter of the kernel.
    pub(crate) const COUNTER: Self = Self::new(
        "kernel counters (--counters)",
        |_| "this counter of the kernel was not read (--counters)",
    );
    /// A search of the highest rate.
    pub(crate) const SEARCH: Self = Self::new("searches", |_| "only a search has it");

    /// Why a run has no value, in words: `no request was answered`.
    #[must_use]
    pub fn missing(&self, result: &RunResult) -> &'static str {
        (self.missing)(result)
    }

    /// Whether it is about streams of tokens, or about what is good. Such responses can take many
    /// seconds.
    #[must_use]
    pub fn is_of_long_responses(&self) -> bool {
        self.is_of_long_responses
    }
}
