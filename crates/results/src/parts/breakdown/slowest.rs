//! Why the slowest requests were slow: where their time went, beside that of all others.

use std::fmt;

use plan::readable::{count, counted, list, percent, time_us};

use crate::{BreakdownRange, BreakdownRecording};

/// The share of the requests that are the slowest ones.
const SLOWEST_SHARE: f64 = 0.01;

/// At least this many are looked at, if there are as many.
const SLOWEST_MIN: u64 = 10;

/// From which latency on a request is one of the slowest ones, nanoseconds. Whatever compares slow
/// requests with others compares these. `None` without requests.
#[must_use]
pub fn slowest_from_ns(breakdown: &BreakdownRecording) -> Option<u64> {
    breakdown.slowest_from_ns(SLOWEST_SHARE, SLOWEST_MIN)
}

/// A part of the additional time that is smaller is not named in the sentence.
const NAMED_SHARE: f64 = 0.05;

/// A part of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyComponent {
    /// The load generator sent or read late.
    Generator,
    /// No connection was free.
    NoFreeConnection,
    /// The connection was being opened.
    Connecting,
    /// Packets were lost and sent again.
    Retransmission,
    /// The least time that packets need for both ways.
    RoundTrip,
    /// Between the load generator and the server's own time: on the network, or in a queue. The
    /// kernel of the load generator does not see all packets of the server that are lost.
    BeforeServer,
    /// The server's own time.
    Server,
    /// From sent to the first byte, where the server does not state its time.
    Unexplained,
    /// From the first byte to the last.
    Body,
    /// There was no response before the timeout.
    NoResponse,
}

impl fmt::Display for LatencyComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "load generator",
            Self::NoFreeConnection => "waiting for a free connection",
            Self::Connecting => "connecting",
            Self::Retransmission => "lost packets",
            Self::RoundTrip => "round trip",
            Self::BeforeServer => "network or queues before the server",
            Self::Server => "server",
            Self::Unexplained => "not explained (server, network or queues)",
            Self::Body => "first to last byte",
            Self::NoResponse => "no response",
        })
    }
}

/// A part of the latency of the slowest requests, and of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComponentTime {
    /// Which part.
    pub part: LatencyComponent,
    /// Mean over the slowest requests, microseconds.
    pub slowest_us: f64,
    /// Mean over the others, microseconds; `None` if there are none.
    pub others_us: Option<f64>,
}

/// Where the time of the slowest requests went.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowest {
    /// How many requests are the slowest ones.
    pub requests: u64,
    /// How many there are in all.
    pub all: u64,
    /// The least latency of the slowest ones, within 3 %, microseconds.
    pub from_us: f64,
    /// Mean latency of the slowest ones, microseconds.
    pub mean_us: f64,
    /// Mean latency of the others, microseconds.
    pub others_us: Option<f64>,
    /// How many of the slowest had their packets sent again.
    pub retransmitted: u64,
    /// All parts in which one of both has any time, in the order of a request.
    pub parts: Vec<ComponentTime>,
    /// The metrics of the server: their means over the slowest requests and over the others,
    /// microseconds. A request without the metric counts as 0.
    pub server_timing: Vec<(String, f64, Option<f64>)>,
}

impl Slowest {
    /// Of the requests of a run; `None` without any.
    #[must_use]
    pub fn of(breakdown: &BreakdownRecording) -> Option<Self> {
        let slow = breakdown.slowest(SLOWEST_SHARE, SLOWEST_MIN)?;
        let from_ns = slowest_from_ns(breakdown)?;
        let all = breakdown.slowest(1.0, 0)?;
        let is_stated = breakdown.with_server_timing > 0;
        let rest = all.without(&slow);
        let others = (rest.requests > 0).then(|| Means::of(&rest, None, is_stated));
        let slowest = Means::of(&slow, others.as_ref(), is_stated);
        let time = |means: &Means, part| means.parts.iter().find(|it| it.0 == part).map(|it| it.1);
        let parts = slowest
            .parts
            .iter()
            .map(|(part, slowest_us)| ComponentTime {
                part: *part,
                slowest_us: *slowest_us,
                others_us: others.as_ref().and_then(|others| time(others, *part)),
            });
        let names = breakdown.server_timing.iter().enumerate();
        Some(Self {
            requests: slow.requests,
            all: all.requests,
            from_us: from_ns as f64 / 1e3,
            mean_us: slowest.latency_us,
            others_us: others.as_ref().map(|others| others.latency_us),
            retransmitted: slow.retransmitted,
            parts: parts
                .filter(|it| it.slowest_us > 0.0 || it.others_us.is_some_and(|us| us > 0.0))
                .collect(),
            server_timing: names
                .map(|(at, metric)| {
                    let of_others = others.as_ref().map(|others| others.metric(at));
                    (metric.name.clone(), slowest.metric(at), of_others)
                })
                .collect(),
        })
    }

    /// How much longer the slowest requests took than the others, on average, microseconds.
    #[must_use]
    pub fn additional_us(&self) -> Option<f64> {
        let additional_us = self.mean_us - self.others_us?;
        (additional_us > 0.0).then_some(additional_us)
    }

    /// The parts of the additional time, the largest first, as shares of it. Those above 0 add up
    /// to 1 at most: where other parts are shorter than usual, by shares below 0, these make up for
    /// a part of what the longer ones add.
    #[must_use]
    pub fn reasons(&self) -> Vec<(LatencyComponent, f64)> {
        let Some(additional_us) = self.additional_us() else {
            return Vec::new();
        };
        let share = |it: &ComponentTime| {
            let more_us = it.slowest_us - it.others_us.unwrap_or(0.0);
            (it.part, more_us / additional_us)
        };
        let mut reasons: Vec<_> = self.parts.iter().map(share).collect();
        let longer: f64 = reasons.iter().map(|(_, share)| share.max(0.0)).sum();
        for (_, share) in reasons.iter_mut().filter(|(_, share)| *share > 0.0) {
            *share /= longer.max(1.0);
        }
        reasons.sort_by(|one, other| other.1.total_cmp(&one.1));
        reasons
    }

    /// What is said of these requests, in one or two sentences without a full stop at the end.
    #[must_use]
    pub fn sentence(&self) -> String {
        let all = counted(self.all, "request");
        if self.requests < SLOWEST_MIN {
            return format!("{all}: too few to tell why the slowest were slow");
        }
        let mean = time_us(self.mean_us);
        let slowest = format!(
            "the slowest {} of {all} took {mean} on average, {} or more",
            count(self.requests),
            time_us(self.from_us)
        );
        let Some(additional_us) = self.additional_us() else {
            return format!("{slowest}; no request was faster than these");
        };
        let reasons: Vec<String> = self
            .reasons()
            .into_iter()
            .filter(|(_, share)| *share >= NAMED_SHARE)
            .map(|(part, share)| format!("{} {part}", percent(share * 100.0)))
            .collect();
        let packets = match self.retransmitted {
            0 => String::new(),
            some => format!("; packets of {} were sent again", count(some)),
        };
        format!(
            "{slowest}. Of the {} that they took longer than the others: {}{packets}",
            time_us(additional_us),
            list(&reasons)
        )
    }
}

/// Means over requests, microseconds.
struct Means {
    latency_us: f64,
    parts: [(LatencyComponent, f64); 10],
    server_timing_us: Vec<f64>,
}

impl Means {
    fn metric(&self, at: usize) -> f64 {
        self.server_timing_us.get(at).copied().unwrap_or(0.0)
    }

    /// `others`: those beside which these requests are seen. `is_stated`: servers state their time.
    fn of(range: &BreakdownRange, others: Option<&Self>, is_stated: bool) -> Self {
        let requests = range.requests.max(1) as f64;
        let us = |sum_ns: u64| sum_ns as f64 / 1e3 / requests;
        // Without the loss, these requests would have taken what the others take.
        let share = range.retransmitted as f64 / requests;
        let usual_us = |is_asked: fn(LatencyComponent) -> bool| {
            let parts = others.iter().flat_map(|others| others.parts);
            let asked = parts.filter(|(part, _)| is_asked(*part));
            asked.map(|(_, us)| us * share).sum::<f64>()
        };
        let mut lost_us = us(range.retransmitted_ns);
        let mut take = |usual_us: f64| {
            let taken_us = usual_us.min(lost_us);
            lost_us -= taken_us;
            taken_us
        };
        let usual_body_us = take(usual_us(|part| part == LatencyComponent::Body));
        let usual_before_us = usual_us(|part| {
            matches!(
                part,
                LatencyComponent::RoundTrip
                    | LatencyComponent::BeforeServer
                    | LatencyComponent::Unexplained
            )
        });
        // A round trip of theirs is there already.
        let usual_before_us = take((usual_before_us - us(range.round_trip_ns) * share).max(0.0));
        let (mut before_server_us, mut unexplained_us) =
            (us(range.before_server_ns), us(range.first_byte_ns));
        if is_stated {
            before_server_us += usual_before_us
        } else {
            unexplained_us += usual_before_us
        }
        let least_us = us(range.round_trip_ns);
        let of_stated_us = least_us.min(before_server_us);
        let of_unexplained_us = (least_us - of_stated_us).min(unexplained_us);
        let round_trip_us = of_stated_us + of_unexplained_us;
        before_server_us -= of_stated_us;
        unexplained_us -= of_unexplained_us;
        let parts = [
            (LatencyComponent::Generator, us(range.own_ns)),
            (LatencyComponent::NoFreeConnection, us(range.queued_ns)),
            (LatencyComponent::Connecting, us(range.connecting_ns)),
            (LatencyComponent::Retransmission, lost_us),
            (LatencyComponent::RoundTrip, round_trip_us),
            (LatencyComponent::BeforeServer, before_server_us),
            (LatencyComponent::Server, us(range.server_ns)),
            (LatencyComponent::Unexplained, unexplained_us),
            (
                LatencyComponent::Body,
                us(range.last_byte_ns) + usual_body_us,
            ),
            (LatencyComponent::NoResponse, us(range.unanswered_ns)),
        ];
        Self {
            latency_us: us(range.sum_ns()),
            parts,
            server_timing_us: range.server_timing_ns.iter().map(|it| us(*it)).collect(),
        }
    }
}
