//! Doubts about a result: everything that the program may warn of, with what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ErrorKind, RunResult};

/// A percentile is believed when at least this many samples lie above it.
pub(crate) const SAMPLES_ABOVE_MIN: f64 = 10.0;

/// So many samples are needed for the 99th percentile, the last one of the report.
const SAMPLES_FOR_P99: u64 = 1000;

/// Stale connections are worth a word from this share of the answers on: one in so many.
const STALE_SHARE: u64 = 100;

/// Requests in flight at the end are worth a word when the oldest has waited longer than this
/// multiple of the slowest finished request, and longer than [`LONG_WAIT_NS`].
const LONG_WAIT_FACTOR: u64 = 2;

/// Below a tenth of a second nothing is said about requests in flight: in a fast run with few
/// samples the slowest one is no measure.
const LONG_WAIT_NS: u64 = 100_000_000;

/// A doubt, with the numbers it rests on. [`fmt::Display`] gives one line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// No request was answered, so there is no latency at all.
    NothingAnswered {
        /// Requests sent.
        sent: u64,
    },
    /// Every answer had a status above 399: the run measured error pages.
    OnlyBadStatuses {
        /// Answers.
        answered: u64,
    },
    /// Too few samples for the 99th percentile.
    FewSamples {
        /// Samples there are.
        samples: u64,
        /// Samples that would be enough.
        needed: u64,
    },
    /// Fewer connections were ever established than asked for.
    ConnectionsMissing {
        /// Connections established.
        opened: u64,
        /// Connections asked for.
        wanted: u64,
    },
    /// The limit of open files stopped connections.
    FileLimit {
        /// Times it happened.
        events: u64,
    },
    /// No local port was free for connections.
    AddressesExhausted {
        /// Times it happened.
        events: u64,
    },
    /// The server often closes connections that are about to be used again.
    ManyStaleConnections {
        /// Times it happened.
        events: u64,
        /// Answers, for comparison.
        answered: u64,
    },
    /// Latency contains requests that were given up, at their age then.
    TimedOutRequests {
        /// Requests given up.
        requests: u64,
        /// The deadline, milliseconds.
        timeout_ms: u64,
    },
    /// At the end requests were older than the deadline that should have ended them.
    OverdueInFlight {
        /// Requests in flight.
        requests: u64,
        /// Age of the oldest, milliseconds.
        oldest_ms: u64,
        /// The deadline, milliseconds.
        timeout_ms: u64,
    },
    /// At the end requests had waited much longer than any finished one: latency looks better than
    /// the server was.
    LongInFlight {
        /// Requests in flight.
        requests: u64,
        /// Age of the oldest, milliseconds.
        oldest_ms: u64,
        /// The slowest finished request, milliseconds.
        slowest_ms: u64,
    },
    /// A worker's script did not return before the end of the run, so its numbers may be missing.
    ScriptStuck {
        /// Number of the worker, from 0.
        worker: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingAnswered { sent } => {
                write!(
                    f,
                    "nothing was answered ({sent} requests sent): check the URL and the server"
                )
            }
            Self::OnlyBadStatuses { answered } => write!(
                f,
                "all {answered} answers had a status above 399: error pages were measured; check the URL"
            ),
            Self::FewSamples { samples, needed } => write!(
                f,
                "only {samples} samples: the 99th percentile needs {needed}; run longer"
            ),
            Self::ConnectionsMissing { opened, wanted } => write!(
                f,
                "only {opened} of {wanted} connections were established: the load was lighter than asked for"
            ),
            Self::FileLimit { events } => write!(
                f,
                "the limit of open files was reached {events} times: raise it (ulimit -n) or use fewer connections"
            ),
            Self::AddressesExhausted { events } => write!(
                f,
                "no local port was free {events} times: widen net.ipv4.ip_local_port_range, or keep connections open"
            ),
            Self::ManyStaleConnections { events, answered } => write!(
                f,
                "the server closed {events} idle connections as they were used again ({answered} answers): its keep-alive timeout is short"
            ),
            Self::TimedOutRequests {
                requests,
                timeout_ms,
            } => write!(
                f,
                "{requests} requests had no answer within {timeout_ms} ms: latency contains them at the age at which they were given up"
            ),
            Self::OverdueInFlight {
                requests,
                oldest_ms,
                timeout_ms,
            } => write!(
                f,
                "{requests} requests were in flight at the end, the oldest for {oldest_ms} ms, longer than the timeout of {timeout_ms} ms: this machine was too busy"
            ),
            Self::LongInFlight {
                requests,
                oldest_ms,
                slowest_ms,
            } => write!(
                f,
                "{requests} requests were in flight at the end, the oldest for {oldest_ms} ms, and the slowest finished one took {slowest_ms} ms: latency does not show this wait; run longer"
            ),
            Self::ScriptStuck { worker } => write!(
                f,
                "the script of thread {worker} did not return before the end of the run: its requests may be missing"
            ),
        }
    }
}

/// The doubts that follow from the numbers of a result. What only the run itself can know (a stuck
/// script) is not among them.
#[must_use]
pub fn warnings(result: &RunResult) -> Vec<Warning> {
    [
        about_answers(result),
        about_connections(result),
        about_waiting(result),
    ]
    .concat()
}

fn about_answers(result: &RunResult) -> Vec<Warning> {
    let counters = &result.recording.counters;
    let (sent, answered) = (counters.sent, counters.answered);
    let samples = answered.saturating_add(result.recording.timed_out.count());
    let mut found = Vec::new();
    if answered == 0 {
        found.push(Warning::NothingAnswered { sent });
    } else if result.recording.statuses.over_399() == answered {
        found.push(Warning::OnlyBadStatuses { answered });
    }
    if (1..SAMPLES_FOR_P99).contains(&samples) {
        found.push(Warning::FewSamples {
            samples,
            needed: SAMPLES_FOR_P99,
        });
    }
    found
}

fn about_connections(result: &RunResult) -> Vec<Warning> {
    let counters = &result.recording.counters;
    let events = |kind| result.recording.errors.count(kind).events;
    let mut found = Vec::new();
    let (opened, wanted) = (
        counters.connections_opened,
        u64::from(result.plan.load.connections),
    );
    if opened < wanted {
        found.push(Warning::ConnectionsMissing { opened, wanted });
    }
    if events(ErrorKind::FileLimit) > 0 {
        found.push(Warning::FileLimit {
            events: events(ErrorKind::FileLimit),
        });
    }
    if events(ErrorKind::AddressUnavailable) > 0 {
        found.push(Warning::AddressesExhausted {
            events: events(ErrorKind::AddressUnavailable),
        });
    }
    let stale = events(ErrorKind::Stale);
    if stale > counters.answered / STALE_SHARE {
        found.push(Warning::ManyStaleConnections {
            events: stale,
            answered: counters.answered,
        });
    }
    found
}

fn about_waiting(result: &RunResult) -> Vec<Warning> {
    let recording = &result.recording;
    let counters = &recording.counters;
    let timeout_ns = u64::try_from(result.plan.timeout.as_nanos()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let requests = recording.errors.count(ErrorKind::Timeout).exchanges;
    if requests > 0 {
        found.push(Warning::TimedOutRequests {
            requests,
            timeout_ms: whole_ms(timeout_ns),
        });
    }
    let (requests, oldest_ns) = (counters.in_flight, counters.oldest_in_flight_ns);
    let slowest_ns = recording
        .service_time
        .max_ns()
        .max(recording.timed_out.max_ns())
        .unwrap_or(u64::MAX);
    let oldest_ms = whole_ms(oldest_ns);
    if requests > 0 && oldest_ns > timeout_ns {
        let timeout_ms = whole_ms(timeout_ns);
        found.push(Warning::OverdueInFlight {
            requests,
            oldest_ms,
            timeout_ms,
        });
    } else if requests > 0
        && oldest_ns > LONG_WAIT_NS
        && oldest_ns > slowest_ns.saturating_mul(LONG_WAIT_FACTOR)
    {
        let slowest_ms = whole_ms(slowest_ns);
        found.push(Warning::LongInFlight {
            requests,
            oldest_ms,
            slowest_ms,
        });
    }
    found
}

fn whole_ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// Warnings as they are saved: with their text, so that a reader need not know the kinds.
pub(crate) mod written {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Warning;

    #[derive(Serialize)]
    struct WithText<'a> {
        #[serde(flatten)]
        warning: &'a Warning,
        text: String,
    }

    pub(crate) fn serialize<S: Serializer>(
        warnings: &[Warning],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(warnings.iter().map(|warning| WithText {
            warning,
            text: warning.to_string(),
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Warning>, D::Error> {
        // The text follows from the kind and the numbers: what is read is not kept.
        Vec::deserialize(deserializer)
    }
}
