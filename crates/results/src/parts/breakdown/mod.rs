//! What the latency consists of, by latency: the load generator, connections, the network, the
//! server. Sums over ranges of latency add up over threads and machines, and any share of the
//! slowest requests can be taken from them.

mod slowest;
mod view;

use std::cmp::Reverse;
use std::fmt;

use presentation::{Tone, words};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Measurement, PartFinding, PartSection, PartTable, PartView, SectionPosition, profile};
use crate::counters::is_zero;
use crate::{Contradiction, Histogram, RunResult};

/// A range of latency is a 32nd of the power of two below it: at most 3.1 % wide.
const RANGE_BITS: u32 = 5;

/// A cluster of latencies that the slowest requests would cut in two begins at most this far below
/// the cut, as a part of it.
const CLUSTER_WIDTH: f64 = 0.9;

/// It ends where a range has one request for this many of its densest range.
const CLUSTER_GAP: u64 = 4;

/// How many requests are listed one by one, in each of the two lists.
pub const LISTED: usize = 100;

/// How many metrics of a server are kept. Servers send a handful.
pub const SERVER_METRICS_MAX: usize = 8;

/// The metric of a server that covers all of its own time, by convention.
pub const TOTAL: &str = "total";

/// What the latency consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakdownRecording {
    /// Sums over requests of about the same latency, the fastest first.
    pub ranges: Vec<BreakdownRange>,
    /// The slowest requests, the slowest first; at most [`LISTED`].
    pub slowest: Vec<SlowRequest>,
    /// With `--traceparent`: the slowest of the requests that have a trace, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest_traced: Vec<SlowRequest>,
    /// Requests of the window that were sent with a trace.
    #[serde(default)]
    pub traced: u64,
    /// Responses with a `Server-Timing` header from which a duration was read.
    #[serde(default)]
    pub with_server_timing: u64,
    /// The metrics of the server, in the order in which they were seen first; at most
    /// [`SERVER_METRICS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_timing: Vec<ServerTiming>,
}

/// A metric of `Server-Timing` headers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerTiming {
    /// Its name in the header.
    pub name: String,
    /// Its durations, nanoseconds; one sample per response that has it.
    pub times: Histogram,
}

/// Requests whose latency is in one range, and what their latencies consist of. The times are sums
/// over these requests, nanoseconds. All but `round_trip_ns` and `server_timing_ns`, which are
/// parts of others, add up to the sum of the latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakdownRange {
    /// No latency in the range is above this, nanoseconds.
    pub latency_ns: u64,
    /// Requests, answered or timed out.
    pub requests: u64,
    /// The load generator: it sent late, or read late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_ns: u64,
    /// With a rate: from due to sent, while the connection of the request was being opened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connecting_ns: u64,
    /// With a rate: the rest of the time from due to sent, without a free connection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued_ns: u64,
    /// Requests on whose connection packets were sent again, by either end, as far as the kernel of
    /// the load generator knows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retransmitted: u64,
    /// The time of these requests from sending to the last byte, without a round trip and the time
    /// of the server, if they are known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retransmitted_ns: u64,
    /// The time of the server as its `Server-Timing` header states it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub server_ns: u64,
    /// The rest of the time from sending to the first byte, of responses with that header: on the
    /// network, and in queues before the server. Of requests with packets that were sent again, a
    /// round trip.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_server_ns: u64,
    /// The time from sending to the first byte of responses without that header. Of requests with
    /// packets that were sent again, a round trip.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_byte_ns: u64,
    /// From the first byte to the last one, of requests without packets that were sent again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_byte_ns: u64,
    /// Requests that timed out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u64,
    /// Their time from sending until they were given up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered_ns: u64,
    /// The least round-trip time of the connection, as far as it is known: a part of
    /// `before_server_ns` or `first_byte_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round_trip_ns: u64,
    /// By metric of [`BreakdownRecording::server_timing`]: parts of the time of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_timing_ns: Vec<u64>,
}

/// When a request was in flight, nanoseconds on one clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct SlowSpan {
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the last byte of its response arrived, or it was given up.
    pub ended_ns: u64,
}

impl From<[u64; 3]> for SlowSpan {
    fn from([due_ns, sent_ns, ended_ns]: [u64; 3]) -> Self {
        Self {
            due_ns,
            sent_ns,
            ended_ns,
        }
    }
}

impl From<SlowSpan> for [u64; 3] {
    fn from(span: SlowSpan) -> Self {
        [span.due_ns, span.sent_ns, span.ended_ns]
    }
}

impl SlowSpan {
    /// From due to its end, as in [`SlowRequest::latency_ns`].
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.due_ns)
    }
}

/// One request, with its times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlowRequest {
    /// When it was due (in a closed loop: sent), since the start of the window.
    pub due_ns: u64,
    /// From due to sent; 0 in a closed loop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// The part of that time in which its connection was being opened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connecting_ns: u64,
    /// The part of the latency that the load generator caused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_ns: u64,
    /// The part of that in which the response waited to be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_late_ns: u64,
    /// From sent to the first byte of the response, or until it was given up.
    pub first_byte_ns: u64,
    /// From the first byte to the last one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_byte_ns: u64,
    /// Status of the response; 0 if it timed out.
    pub status: u16,
    /// What the kernel says of its connection, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<SlowPath>,
    /// Its trace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
    /// By metric of [`BreakdownRecording::server_timing`].
    #[serde(default, skip_serializing_if = "ServerTimes::is_empty")]
    pub server_timing_ns: ServerTimes,
}

/// The path of a slow request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlowPath {
    /// Packets that the load generator sent again, and packets that arrived out of order because
    /// others were lost, since the kernel was asked about this connection before.
    pub retransmitted: u32,
    /// The least round-trip time of the connection, nanoseconds; 0 if it is unknown.
    pub min_round_trip_ns: u64,
}

/// The durations of one `Server-Timing` header, by metric, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTimes([u64; SERVER_METRICS_MAX]);

/// The number of a trace (W3C Trace Context, trace-id). 0 is invalid there and none here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct TraceId(pub u128);

impl ServerTimes {
    const UNKNOWN: u64 = u64::MAX;

    /// The time of this metric.
    #[must_use]
    pub fn get(&self, metric: usize) -> Option<u64> {
        let time_ns = self.0.get(metric).copied();
        time_ns.filter(|time_ns| *time_ns != Self::UNKNOWN)
    }

    /// Sets the time of a metric; one that is beyond the limit is ignored.
    pub fn set(&mut self, metric: usize, time_ns: u64) {
        if let Some(place) = self.0.get_mut(metric) {
            *place = time_ns.min(Self::UNKNOWN - 1);
        }
    }

    /// Whether no time is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|time_ns| *time_ns == Self::UNKNOWN)
    }

    /// The longest of the times.
    fn longest(&self) -> Option<u64> {
        self.iter().map(|(_, time_ns)| time_ns).max()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..SERVER_METRICS_MAX).filter_map(|metric| Some((metric, self.get(metric)?)))
    }
}

impl Default for ServerTimes {
    fn default() -> Self {
        Self([Self::UNKNOWN; SERVER_METRICS_MAX])
    }
}

impl Serialize for ServerTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.iter().last().map_or(0, |(metric, _)| metric + 1);
        serializer.collect_seq((0..last).map(|metric| self.get(metric)))
    }
}

impl<'de> Deserialize<'de> for ServerTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Vec::<Option<u64>>::deserialize(deserializer)?;
        let mut times = Self::default();
        for (metric, time_ns) in given.into_iter().enumerate() {
            if let Some(time_ns) = time_ns {
                times.set(metric, time_ns);
            }
        }
        Ok(times)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ServerTimes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServerTimes".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Option<u64>>::json_schema(generator)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16);
        let valid = number
            .ok()
            .filter(|_| text.len() == 32 && !text.starts_with('+'));
        let invalid = || de::Error::custom("a trace id has 32 hexadecimal digits");
        valid.map(Self).ok_or_else(invalid)
    }
}

impl SlowRequest {
    /// From due to the last byte, or until it was given up.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.waited_ns
            .saturating_add(self.first_byte_ns)
            .saturating_add(self.last_byte_ns)
    }

    /// The time of the server: its metric `total`, which has this number, or else the longest of
    /// its metrics, as these may be parts of each other.
    fn server_ns(&self, total: Option<usize>) -> Option<u64> {
        let stated = total.and_then(|total| self.server_timing_ns.get(total));
        stated.or_else(|| self.server_timing_ns.longest())
    }

    /// The slowest first; equal ones in an order that does not depend on that of merging.
    fn order(&self) -> impl Ord + use<> {
        let trace = self.trace_id.map_or(0, |TraceId(number)| number);
        (
            Reverse(self.latency_ns()),
            self.due_ns,
            self.first_byte_ns,
            trace,
        )
    }
}

impl BreakdownRecording {
    /// The number of the metric with this name, which is added if there is room.
    pub fn metric(&mut self, name: &[u8]) -> Option<usize> {
        let known = self.server_timing.iter();
        if let Some(at) = known.clone().position(|it| it.name.as_bytes() == name) {
            return Some(at);
        }
        if self.server_timing.len() >= SERVER_METRICS_MAX {
            return None;
        }
        self.server_timing.push(ServerTiming {
            name: String::from_utf8_lossy(name).into_owned(),
            times: Histogram::new(),
        });
        Some(self.server_timing.len() - 1)
    }

    /// A response has these times of its server.
    pub fn note_server_times(&mut self, times: &ServerTimes) {
        if times.is_empty() {
            return;
        }
        self.with_server_timing += 1;
        for (metric, time_ns) in times.iter() {
            if let Some(metric) = self.server_timing.get_mut(metric) {
                metric.times.record(time_ns);
            }
        }
    }

    /// Adds a request that was answered, or given up.
    pub fn add(&mut self, request: &SlowRequest) {
        let total = self.total();
        let latency_ns = request.latency_ns();
        let index = latency_range(latency_ns);
        let at = self
            .ranges
            .partition_point(|it| it.latency_ns < range_end_ns(index));
        if self
            .ranges
            .get(at)
            .is_none_or(|it| it.latency_ns != range_end_ns(index))
        {
            let new = BreakdownRange {
                latency_ns: range_end_ns(index),
                ..BreakdownRange::default()
            };
            self.ranges.insert(at, new);
        }
        self.ranges[at].add(request, total);
        list(&mut self.slowest, request);
        if request.trace_id.is_some() {
            list(&mut self.slowest_traced, request);
        }
    }

    fn total(&self) -> Option<usize> {
        self.server_timing.iter().position(|it| it.name == TOTAL)
    }

    /// Requests in all ranges.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.ranges.iter().map(|range| range.requests).sum()
    }

    /// What the latency of the slowest requests consists of. `share` is from 0 to 1, and at least
    /// `least` requests are taken if there are as many. Requests of about equal latency are taken
    /// together: all of the range in which the share ends, and all of a cluster of ranges that it
    /// would cut in two. `None` without requests.
    #[must_use]
    pub fn slowest(&self, share: f64, least: u64) -> Option<BreakdownRange> {
        let mut sum = BreakdownRange::default();
        for range in self.slowest_ranges(share, least) {
            sum.latency_ns = sum.latency_ns.max(range.latency_ns);
            sum.merge_sums(range);
        }
        (sum.requests > 0).then_some(sum)
    }

    /// The least latency of the requests that [`Self::slowest`] takes, within the width of a range,
    /// nanoseconds.
    #[must_use]
    pub fn slowest_from_ns(&self, share: f64, least: u64) -> Option<u64> {
        let last = self.slowest_ranges(share, least).first()?;
        Some(range_start_ns(last.latency_ns))
    }

    fn slowest_ranges(&self, share: f64, least: u64) -> &[BreakdownRange] {
        let all = self.requests();
        let wanted = ((all as f64 * share).ceil() as u64).max(least).min(all);
        let (mut from, mut taken) = (self.ranges.len(), 0);
        while taken < wanted && from > 0 {
            from -= 1;
            taken += self.ranges[from].requests;
        }
        let whole = self.cluster_start(from, taken, all).unwrap_or(from);
        self.ranges.get(whole..).unwrap_or_default()
    }

    /// Where the cluster begins in which the slowest requests end, from the range with this index
    /// on. `None` if there is none: the ranges below have more and more requests, or most requests
    /// of the run are in it.
    fn cluster_start(&self, from: usize, taken: u64, all: u64) -> Option<usize> {
        let edge_ns = self.ranges.get(from)?.latency_ns as f64;
        let above = self.ranges[from..].iter();
        let near = above.take_while(|it| it.latency_ns as f64 <= edge_ns / CLUSTER_WIDTH);
        let mut densest = near.map(|it| it.requests).max()?;
        let (mut at, mut taken) = (from, taken);
        loop {
            let below = self.ranges.get(at.checked_sub(1)?)?;
            let is_next =
                latency_range(below.latency_ns) + 1 == latency_range(self.ranges[at].latency_ns);
            if !is_next || below.requests.saturating_mul(CLUSTER_GAP) <= densest {
                return (taken.saturating_mul(2) <= all).then_some(at);
            }
            if (below.latency_ns as f64) < edge_ns * CLUSTER_WIDTH {
                return None;
            }
            densest = densest.max(below.requests);
            taken += below.requests;
            at -= 1;
        }
    }
}

/// Puts a request in its place in a list of the slowest ones, if it is one of them.
fn list(slowest: &mut Vec<SlowRequest>, request: &SlowRequest) {
    let is_full = slowest.len() >= LISTED;
    if is_full
        && slowest
            .last()
            .is_some_and(|last| last.latency_ns() > request.latency_ns())
    {
        return;
    }
    let at = slowest.partition_point(|it| it.order() <= request.order());
    slowest.insert(at, *request);
    slowest.truncate(LISTED);
}

impl BreakdownRange {
    fn add(&mut self, request: &SlowRequest, total: Option<usize>) {
        let SlowRequest {
            waited_ns,
            connecting_ns,
            own_ns,
            read_late_ns,
            first_byte_ns,
            last_byte_ns,
            status,
            ..
        } = *request;
        self.requests += 1;
        // Each part takes what the ones before it have left, so that they add up.
        let sent_late_ns = own_ns.saturating_sub(read_late_ns).min(waited_ns);
        let waited_ns = waited_ns - sent_late_ns;
        let connecting_ns = connecting_ns.min(waited_ns);
        let late_in_body_ns = read_late_ns.min(last_byte_ns);
        let late_in_head_ns = (read_late_ns - late_in_body_ns).min(first_byte_ns);
        let first_byte_ns = first_byte_ns - late_in_head_ns;
        self.own_ns += sent_late_ns + late_in_body_ns + late_in_head_ns;
        self.connecting_ns += connecting_ns;
        self.queued_ns += waited_ns - connecting_ns;
        let last_byte_ns = last_byte_ns - late_in_body_ns;
        let path = request.path.unwrap_or_default();
        let is_retransmitted = path.retransmitted > 0;
        self.retransmitted += u64::from(is_retransmitted);
        if status == 0 {
            self.unanswered += 1;
            self.unanswered_ns += first_byte_ns;
            return;
        }
        let server_ns = request.server_ns(total).map(|it| it.min(first_byte_ns));
        self.server_ns += server_ns.unwrap_or(0);
        let rest_ns = first_byte_ns - server_ns.unwrap_or(0);
        let round_trip_ns = path.min_round_trip_ns.min(rest_ns);
        self.round_trip_ns += round_trip_ns;
        // Without the loss, there would have been a round trip all the same.
        let before_ns = if is_retransmitted {
            self.retransmitted_ns += rest_ns - round_trip_ns + last_byte_ns;
            round_trip_ns
        } else {
            self.last_byte_ns += last_byte_ns;
            rest_ns
        };
        match server_ns {
            Some(_) => self.before_server_ns += before_ns,
            None => self.first_byte_ns += before_ns,
        }
        for (metric, time_ns) in request.server_timing_ns.iter() {
            self.add_metric(metric, time_ns);
        }
    }

    fn add_metric(&mut self, metric: usize, time_ns: u64) {
        if self.server_timing_ns.len() <= metric {
            self.server_timing_ns.resize(metric + 1, 0);
        }
        let sum = &mut self.server_timing_ns[metric];
        *sum = sum.saturating_add(time_ns);
    }

    /// Adds a range of another recording, whose metrics have these numbers here.
    fn merge(&mut self, other: &Self, numbers: &[Option<usize>]) {
        let named = Self {
            server_timing_ns: Vec::new(),
            ..other.clone()
        };
        self.merge_sums(&named);
        for (number, time_ns) in numbers.iter().zip(&other.server_timing_ns) {
            if let Some(number) = number {
                self.add_metric(*number, *time_ns);
            }
        }
    }

    fn merge_sums(&mut self, other: &Self) {
        for (mine, theirs) in self.sums_mut().into_iter().zip(other.clone().sums_mut()) {
            *mine = mine.saturating_add(*theirs);
        }
        for (metric, time_ns) in other.server_timing_ns.iter().enumerate() {
            self.add_metric(metric, *time_ns);
        }
    }

    /// The requests that are not among `part`, which is a part of these.
    #[must_use]
    pub fn without(&self, part: &Self) -> Self {
        let mut rest = self.clone();
        for (mine, theirs) in rest.sums_mut().into_iter().zip(part.clone().sums_mut()) {
            *mine = mine.saturating_sub(*theirs);
        }
        for (mine, theirs) in rest.server_timing_ns.iter_mut().zip(&part.server_timing_ns) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest
    }

    /// All counts and sums but those of single metrics.
    fn sums_mut(&mut self) -> [&mut u64; 13] {
        let Self {
            latency_ns: _,
            requests,
            own_ns,
            connecting_ns,
            queued_ns,
            retransmitted,
            retransmitted_ns,
            server_ns,
            before_server_ns,
            first_byte_ns,
            last_byte_ns,
            unanswered,
            unanswered_ns,
            round_trip_ns,
            server_timing_ns: _,
        } = self;
        [
            requests,
            own_ns,
            connecting_ns,
            queued_ns,
            retransmitted,
            retransmitted_ns,
            server_ns,
            before_server_ns,
            first_byte_ns,
            last_byte_ns,
            unanswered,
            unanswered_ns,
            round_trip_ns,
        ]
    }

    /// The sum of the latencies, nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        [
            self.own_ns,
            self.connecting_ns,
            self.queued_ns,
            self.retransmitted_ns,
            self.server_ns,
            self.before_server_ns,
            self.first_byte_ns,
            self.last_byte_ns,
            self.unanswered_ns,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// The number of the range of a latency: its highest bits. Latencies of one range are taken as
/// equal.
#[must_use]
pub fn latency_range(latency_ns: u64) -> u32 {
    let exponent = (u64::BITS - latency_ns.leading_zeros()).saturating_sub(RANGE_BITS + 1);
    (exponent << RANGE_BITS) + (latency_ns >> exponent) as u32
}

/// The highest latency of a range.
fn range_end_ns(index: u32) -> u64 {
    let step = 1 << RANGE_BITS;
    let exponent = (index / step).saturating_sub(1);
    let top = u128::from(index - exponent * step) + 1;
    u64::try_from((top << exponent) - 1).unwrap_or(u64::MAX)
}

/// The least latency of the range that ends here.
fn range_start_ns(end_ns: u64) -> u64 {
    match latency_range(end_ns) {
        0 => 0,
        index => range_end_ns(index - 1).saturating_add(1),
    }
}

impl Measurement for BreakdownRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            ranges,
            slowest,
            slowest_traced,
            traced,
            with_server_timing,
            server_timing,
        } = other;
        let numbers: Vec<Option<usize>> = server_timing
            .iter()
            .map(|it| self.metric(it.name.as_bytes()))
            .collect();
        for (number, it) in numbers.iter().zip(server_timing) {
            if let Some(number) = number {
                self.server_timing[*number].times.merge(&it.times);
            }
        }
        for range in ranges {
            match self
                .ranges
                .binary_search_by_key(&range.latency_ns, |it| it.latency_ns)
            {
                Ok(at) => self.ranges[at].merge(range, &numbers),
                Err(at) => {
                    let mut new = BreakdownRange {
                        latency_ns: range.latency_ns,
                        ..BreakdownRange::default()
                    };
                    new.merge(range, &numbers);
                    self.ranges.insert(at, new);
                }
            }
        }
        let lists = [
            (&mut self.slowest, slowest),
            (&mut self.slowest_traced, slowest_traced),
        ];
        for (mine, theirs) in lists {
            for request in theirs {
                let mut times = ServerTimes::default();
                for (metric, time_ns) in request.server_timing_ns.iter() {
                    if let Some(Some(number)) = numbers.get(metric) {
                        times.set(*number, time_ns);
                    }
                }
                let request = SlowRequest {
                    server_timing_ns: times,
                    ..*request
                };
                list(mine, &request);
            }
        }
        self.traced += traced;
        self.with_server_timing += with_server_timing;
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        self.server_timing
            .iter_mut()
            .map(|it| &mut it.times)
            .collect()
    }
}

pub use slowest::{ComponentTime, LatencyComponent, Slowest, slowest_from_ns};

pub(super) static VIEW: PartView = PartView {
    check,
    text: view::text_of_run,
    section: Some(PartSection {
        findings: |recording, single| {
            let slowest = recording.parts.breakdown.as_ref().and_then(Slowest::of)?;
            Some(PartFinding {
                tone: Tone::Neutral,
                text: words::sentence(&slowest.sentence()),
                details: single.map(profile::lines).unwrap_or_default(),
            })
        },
        ..PartSection::of_tables(
            ("slowest", "Why it was slow"),
            "The latency of each request is split into what the load generator caused, the wait \
             for a connection, the network, the server as its Server-Timing header states it, and \
             the body. The slowest 1 % are compared with all others.",
            SectionPosition::LatencyParts,
            &[
                PartTable::OfGroups(view::parts),
                PartTable::OfGroups(view::server_timing),
                PartTable::OfSingleRun(view::slowest),
            ],
        )
    }),
    ..PartView::NONE
};

/// Checks that sums, lists and counts agree.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let Some(breakdown) = &result.recording.parts.breakdown else {
        return Ok(());
    };
    let mut before_ns = None;
    for range in &breakdown.ranges {
        let end_ns = range.latency_ns;
        if before_ns
            .replace(end_ns)
            .is_some_and(|before| before >= end_ns)
        {
            return Err(Contradiction(format!(
                "breakdown: the range {end_ns} is out of order"
            )));
        }
        let most_ns = u128::from(range.requests) * u128::from(end_ns);
        if u128::from(range.sum_ns()) > most_ns {
            return Err(Contradiction(format!(
                "breakdown: {} requests of at most {end_ns} ns took {} ns",
                range.requests,
                range.sum_ns()
            )));
        }
        if range.unanswered > range.requests || range.retransmitted > range.requests {
            return Err(Contradiction(format!(
                "breakdown: the range {end_ns} has parts above its whole"
            )));
        }
    }
    let samples = result.recording.uncorrected().count();
    let requests = breakdown.requests();
    if requests != samples {
        return Err(Contradiction(format!(
            "breakdown: {requests} requests, but {samples} latencies"
        )));
    }
    if breakdown.slowest.len() as u64 != requests.min(LISTED as u64) {
        return Err(Contradiction(format!(
            "breakdown: {} requests are listed",
            breakdown.slowest.len()
        )));
    }
    Ok(())
}
