//! Doubts about a result: everything that the program may warn of, with what to do about it.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::summary::{SAMPLES_ABOVE_MIN, enough_samples};
use crate::verdict::{connects_failed, is_short, tail, verdict};
use crate::{Counters, Delay, ErrorKind, Recording, RunResult};

/// So many samples are needed for the 99th percentile, the last one of the report: [`enough_samples`].
const SAMPLES_FOR_P99: u64 = 1000;

/// Stale connections are worth a word from this share of the answers on: one in so many.
const STALE_SHARE: u64 = 100;

/// Requests in flight at the end are worth a word when the oldest has waited longer than this
/// multiple of the slowest finished request, and longer than [`LONG_WAIT_NS`].
const LONG_WAIT_FACTOR: u64 = 2;

/// Below a tenth of a second nothing is said about requests in flight: in a fast run with few
/// samples the slowest one is no measure.
const LONG_WAIT_NS: u64 = 100_000_000;

/// Requests in flight that are this multiple of their average at the end have grown in number.
const GROWN_FACTOR: f64 = 1.5;

/// Fewer than this share of what was due is nothing to speak of.
const GROWN_SHARE: f64 = 0.01;

/// Answers to requests of the warm-up are worth a word when they are more than this share of all that came in the
/// window.
const WARMUP_SHARE: f64 = 0.05;

/// Pauses before a reconnect are worth a word when one request in so many met one ...
const PAUSED_SHARE: u64 = 100;

/// ... and when the longest is more than this share of the median response time: one in so many.
const PAUSE_SHARE: u64 = 20;

/// So many standard deviations are not chance, whatever the distribution.
pub(crate) const SIGMAS: f64 = 6.0;

/// A doubt, with the numbers it rests on. [`fmt::Display`] gives one line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// No request was answered, so there is no latency at all.
    NothingAnswered {
        /// Requests sent.
        sent: u64,
    },
    /// No response was a success, and some had a status above 399: the run measured error pages.
    OnlyBadStatuses {
        /// Responses.
        answered: u64,
        /// Their status codes, the most frequent one first.
        #[serde(default)]
        statuses: Vec<u16>,
    },
    /// Every response was a redirect: the run measured a server that points elsewhere.
    OnlyRedirects {
        /// Responses.
        answered: u64,
        /// Their status codes, the most frequent one first.
        statuses: Vec<u16>,
        /// Where the first redirect points to: its Location, as the server wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
    },
    /// The run was interrupted before the first response of the window, so nothing was measured.
    InterruptedEarly {
        /// Requests sent in the window.
        sent: u64,
        /// It was still in the warm-up.
        in_warmup: bool,
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
    /// Fewer requests were sent than the run was asked for (`-n`): it gave up, as no response came for long.
    GaveUp {
        /// Requests sent.
        sent: u64,
        /// Requests asked for.
        wanted: u64,
    },
    /// With a rate: pauses between attempts to connect are a part of response times that matters.
    PausedBeforeReconnect {
        /// Requests that met such a pause.
        requests: u64,
        /// The longest part of a response time that was such a pause, microseconds.
        longest_us: u64,
    },
    /// With a rate: requests were due and no connection was free for them for so long that the window
    /// ended.
    RateNotReached {
        /// Requests due in the window.
        due: u64,
        /// Those that were sent.
        sent: u64,
    },
    /// With a rate: requests were sent late as they had to wait for a free connection.
    WaitedForConnection {
        /// A percentile of the time that requests waited, 0..=100.
        percent: u32,
        /// Its value, milliseconds.
        waited_ms: u64,
    },
    /// With a rate: requests in flight became more and more, so no figure is that of a steady state.
    RateNotSustained {
        /// Requests due in the window.
        due: u64,
        /// Those that were answered.
        answered: u64,
        /// Those that were in flight at the end.
        in_flight: u64,
    },
    /// Many answers came within the window to requests of the warm-up: the rate is far below what the server did.
    AnswersOfWarmup {
        /// Such answers.
        of_warmup: u64,
        /// Answers to requests of the window.
        answered: u64,
    },
    /// With a rate: the schedule gave another number of requests than was asked for.
    InconsistentSchedule {
        /// Requests due in the window.
        due: u64,
        /// What the plan asks for.
        expected: u64,
    },
    /// Little's law does not hold: the number of requests in flight, counted over time, is not what the
    /// samples of latency add up to, or not what connections that always wait for an answer give.
    InconsistentConcurrency {
        /// Counted over time, request-nanoseconds.
        in_flight_time_ns: u64,
        /// What it should at least be, request-nanoseconds.
        least_ns: u64,
        /// What it should at most be, request-nanoseconds.
        most_ns: u64,
        /// Length of the window, nanoseconds.
        duration_ns: u64,
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
                    "no response came ({sent} requests sent): check the URL and the server"
                )
            }
            Self::OnlyBadStatuses { answered, statuses } => write!(
                f,
                "none of {answered} responses was a success{}: check the URL and the server",
                listed(statuses)
            ),
            Self::OnlyRedirects {
                answered,
                statuses,
                location,
            } => {
                write!(
                    f,
                    "all {answered} responses were redirects{}",
                    listed(statuses)
                )?;
                match location {
                    Some(location) => write!(f, " to {location}: measure that URL"),
                    None => f.write_str(": measure the URL that they point to"),
                }
            }
            Self::InterruptedEarly {
                in_warmup: true, ..
            } => f.write_str("interrupted during the warm-up: nothing was measured"),
            Self::InterruptedEarly { sent, .. } => write!(
                f,
                "interrupted before the first response ({sent} requests sent): nothing was measured"
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
            Self::GaveUp { sent, wanted } => write!(
                f,
                "only {sent} of {wanted} requests were sent (-n): the run gave up, as no response came for 30 s or for the timeout"
            ),
            Self::PausedBeforeReconnect {
                requests,
                longest_us,
            } => write!(
                f,
                "response times of {requests} requests contain up to {:.1} ms in which no connection was tried: no server was there before",
                *longest_us as f64 / 1e3
            ),
            Self::RateNotReached { due, sent } => write!(
                f,
                "only {sent} of {due} requests that were due were sent, as no connection was free: the server was slower than the rate, or use more connections (-c)"
            ),
            Self::WaitedForConnection { percent, waited_ms } => write!(
                f,
                "requests waited for a free connection, {} % of them for {waited_ms} ms or more: the server was slower than the rate, or use more connections (-c)",
                100_u32.saturating_sub(*percent)
            ),
            Self::RateNotSustained {
                due,
                answered,
                in_flight,
            } => write!(
                f,
                "{answered} of {due} requests that were due were answered and {in_flight} were in flight at the end, more than ever before: the server was slower than the rate"
            ),
            Self::AnswersOfWarmup {
                of_warmup,
                answered,
            } => write!(
                f,
                "the server gave {} answers in the window, and {of_warmup} of them were to requests of the warm-up: the rate counts the other {answered}; run longer or with a lower rate",
                of_warmup.saturating_add(*answered)
            ),
            Self::InconsistentSchedule { due, expected } => write!(
                f,
                "{due} requests were due where the rate asks for {expected}: this is a defect of the program, please report it"
            ),
            Self::InconsistentConcurrency {
                in_flight_time_ns,
                least_ns,
                most_ns,
                duration_ns,
            } => {
                let mean = |time_ns: &u64| *time_ns as f64 / (*duration_ns).max(1) as f64;
                write!(
                    f,
                    "{:.3} requests were in flight on average where {:.3} to {:.3} are expected (Little's law): this is a defect of the program, please report it",
                    mean(in_flight_time_ns),
                    mean(least_ns),
                    mean(most_ns)
                )
            }
            Self::ScriptStuck { worker } => write!(
                f,
                "the script of thread {worker} did not return before the end of the run: its requests may be missing"
            ),
        }
    }
}

/// The status codes in parentheses; a run that met many kinds shows the most frequent ones.
fn listed(statuses: &[u16]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = statuses.iter().take(SHOWN).map(u16::to_string).collect();
    match (shown.is_empty(), statuses.len() > SHOWN) {
        (true, _) => String::new(),
        (false, true) => format!(" (status {}, ...)", shown.join(", ")),
        (false, false) => format!(" (status {})", shown.join(", ")),
    }
}

impl Warning {
    /// Whether it says that the run did not measure what was meant. It goes before everything else that is said of
    /// the run.
    #[must_use]
    pub fn is_headline(&self) -> bool {
        matches!(
            self,
            Self::NothingAnswered { .. }
                | Self::OnlyBadStatuses { .. }
                | Self::OnlyRedirects { .. }
                | Self::InterruptedEarly { .. }
        )
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
        about_rate(result),
        crate::consistency::doubts(result),
    ]
    .concat()
}

fn about_answers(result: &RunResult) -> Vec<Warning> {
    let counters = &result.recording.counters;
    let (sent, answered) = (counters.sent, counters.answered);
    let samples = result.recording.latency().count();
    let mut found = Vec::new();
    if answered > 0 {
        found.extend(about_statuses(result));
    } else if result.window.interrupted {
        found.push(Warning::InterruptedEarly {
            sent,
            in_warmup: result.window.duration_ns == 0,
        });
    } else if counters.answered_of_warmup == 0 {
        found.push(Warning::NothingAnswered { sent });
    }
    if samples > 0 && !enough_samples(99.0, samples) {
        found.push(Warning::FewSamples {
            samples,
            needed: SAMPLES_FOR_P99,
        });
    }
    found
}

/// Of a run without a single success. A 304 is one: who asks for it has the content.
fn about_statuses(result: &RunResult) -> Option<Warning> {
    let recording = &result.recording;
    let answered = recording.counters.answered;
    let (mut redirects, mut bad) = (0, 0);
    let mut counts: Vec<(u16, u64)> = recording.statuses.iter().collect();
    for &(status, count) in &counts {
        match status {
            301..=303 | 307 | 308 => redirects += count,
            400.. => bad += count,
            _ => {}
        }
    }
    if redirects + bad < answered {
        return None;
    }
    counts.sort_by_key(|(status, count)| (Reverse(*count), *status));
    let statuses = counts.into_iter().map(|(status, _)| status).collect();
    Some(match bad {
        0 => Warning::OnlyRedirects {
            answered,
            statuses,
            location: recording.redirect_location.clone(),
        },
        _ => Warning::OnlyBadStatuses { answered, statuses },
    })
}

fn about_connections(result: &RunResult) -> Vec<Warning> {
    // The window never began: what stood in the warm-up was not counted.
    if result.window.interrupted && result.window.duration_ns == 0 {
        return Vec::new();
    }
    let counters = &result.recording.counters;
    let events = |kind| result.recording.errors.count(kind).events;
    let mut found = Vec::new();
    let (opened, wanted) = (
        counters.connections_opened + counters.connections_at_start,
        u64::from(result.plan.load.connections),
    );
    if opened < wanted {
        found.push(Warning::ConnectionsMissing { opened, wanted });
    }
    // What limited the load is evidence of the verdict, which says what to do.
    let is_rare = |kind| events(kind) > 0 && connects_failed(result, kind).is_none();
    if is_rare(ErrorKind::FileLimit) {
        found.push(Warning::FileLimit {
            events: events(ErrorKind::FileLimit),
        });
    }
    if is_rare(ErrorKind::AddressUnavailable) {
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
    let timeout_ns = u64::try_from(result.plan.time_limit().as_nanos()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let (answered, of_warmup) = (counters.answered, counters.answered_of_warmup);
    if of_warmup as f64 > (answered.saturating_add(of_warmup)) as f64 * WARMUP_SHARE {
        found.push(Warning::AnswersOfWarmup {
            of_warmup,
            answered,
        });
    }
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
        // With a rate they are in the latency at their age.
        && !result.plan.pacing.is_open()
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

/// What the server, or too few connections, did to the schedule. When the generator was the limit the
/// verdict says so, and the server is not to blame.
fn about_rate(result: &RunResult) -> Vec<Warning> {
    if !result.plan.pacing.is_open() || verdict(result).is_generator_limited() {
        return Vec::new();
    }
    let counters = &result.recording.counters;
    let Counters {
        due,
        sent,
        answered,
        in_flight,
        ..
    } = *counters;
    let mut found = Vec::new();
    found.extend(paused_before_reconnect(&result.recording));
    if is_short(result) {
        found.push(Warning::RateNotReached { due, sent });
    } else if let Some(waited) = waited_for_connection(&result.recording) {
        found.push(Warning::WaitedForConnection {
            percent: waited.percent,
            waited_ms: whole_ms(waited.delay_ns),
        });
    }
    let is_told = |warning: &Warning| !matches!(warning, Warning::PausedBeforeReconnect { .. });
    if !found.iter().any(is_told) && grew(in_flight, counters.in_flight_time_ns, result) {
        found.push(Warning::RateNotSustained {
            due,
            answered,
            in_flight,
        });
    }
    found
}

/// Pauses that a hundredth of the requests met, and that matter beside the median response time.
fn paused_before_reconnect(recording: &Recording) -> Option<Warning> {
    let pauses = &recording.lags.reconnect;
    let longest_ns = pauses.max_ns()?;
    let latency = recording.latency();
    let median_ns = latency.value_at_percentile(50.0);
    let matters = pauses.count().saturating_mul(PAUSED_SHARE) >= latency.count()
        && longest_ns.saturating_mul(PAUSE_SHARE) > median_ns;
    matters.then_some(Warning::PausedBeforeReconnect {
        requests: pauses.count(),
        longest_us: longest_ns / 1_000,
    })
}

/// A wait that matters beside the time that a request takes, and that was not mostly the generator's.
fn waited_for_connection(recording: &Recording) -> Option<Delay> {
    let waited = tail(&recording.lags.send, &recording.uncorrected())?;
    let own_ns = recording
        .lags
        .own
        .value_at_percentile(f64::from(waited.percent));
    (own_ns <= waited.delay_ns / 2).then_some(waited)
}

/// Whether more requests are in flight at the end than on average, beyond chance. If their number
/// grows steadily it is twice the average at the end; if it is steady it scatters as a Poisson number.
fn grew(in_flight: u64, in_flight_time_ns: u64, result: &RunResult) -> bool {
    let duration_ns = result.window.duration_ns;
    if duration_ns == 0 || result.window.interrupted {
        return false;
    }
    let mean = in_flight_time_ns as f64 / duration_ns as f64;
    let in_flight = in_flight as f64;
    in_flight > mean * GROWN_FACTOR
        && in_flight > mean + SIGMAS * mean.sqrt() + SAMPLES_ABOVE_MIN as f64
        && in_flight > result.recording.counters.due as f64 * GROWN_SHARE
}

fn whole_ms(ns: u64) -> u64 {
    ns / 1_000_000
}
