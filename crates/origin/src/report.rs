//! What the server observed: counters, and optionally a log of every arrival and departure.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request in the log. Times are CLOCK_MONOTONIC, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Number of the connection, from 0, unique within the server.
    pub connection: u64,
    /// When the event loop received the last byte of the request.
    pub arrival_ns: u64,
    /// When the last byte was handed to the event loop, or the connection was closed on purpose;
    /// `None` if there was no response before the connection or the server ended.
    pub departure_ns: Option<u64>,
    /// Status sent; 0 if no complete head was sent.
    pub status: u16,
    /// Bytes of the response: interim responses, head, framing and body (inside TLS, the
    /// plaintext).
    pub bytes: u64,
    /// What of a generation was sent; `None` if the response has none, or none began.
    pub generated: Option<Box<Generated>>,
}

/// What of a generation (`llm=`) was sent. Times are CLOCK_MONOTONIC, in nanoseconds: when the
/// last byte of an event was handed to the event loop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generated {
    /// Of the first event with tokens; `None` without any.
    pub first_token_ns: Option<u64>,
    /// Of the last event with tokens; `None` without any.
    pub last_token_ns: Option<u64>,
    /// Tokens sent, in all channels.
    pub tokens: u64,
    /// It ended with an error.
    pub is_failed: bool,
}

/// Counts since the start of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted, including those that no request was sent on.
    pub connections: u64,
    /// Requests that arrived completely.
    pub requests: u64,
    /// Responses sent to the last byte, without rejections and interim responses.
    pub responses: u64,
    /// Invalid requests, answered with 400, 413, 431, 501 or 505.
    pub refused: u64,
    /// Bytes of HTTP received (inside TLS, the plaintext).
    pub bytes_in: u64,
    /// Bytes of HTTP handed to the kernel (inside TLS, the plaintext). HTTP/2: the frames of
    /// responses, not those of the connection.
    pub bytes_out: u64,
    /// TLS handshakes and records that failed.
    pub tls_failures: u64,
    /// Tokens of generations sent.
    pub tokens_sent: u64,
}

impl Counts {
    /// The counts as one JSON object in one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        for (name, value) in self.named() {
            let separator = if text.len() == 1 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}\"{name}\":{value}");
        }
        text + "}\n"
    }

    fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("connections", self.connections),
            ("requests", self.requests),
            ("responses", self.responses),
            ("refused", self.refused),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("tls_failures", self.tls_failures),
            ("tokens_sent", self.tokens_sent),
        ]
    }

    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            requests: self.requests + other.requests,
            responses: self.responses + other.responses,
            refused: self.refused + other.refused,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
            tls_failures: self.tls_failures + other.tls_failures,
            tokens_sent: self.tokens_sent + other.tokens_sent,
        }
    }
}

/// Everything a server observed until it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Counts of all workers at the end.
    pub counts: Counts,
    /// All requests in order of arrival, if the log was enabled.
    pub requests: Vec<LoggedRequest>,
    /// Requests missing in `requests` because the log was full.
    pub requests_unlogged: u64,
    /// The bytes of the first requests, if recording was enabled. With one worker thread they are
    /// in order of arrival.
    pub recorded: Vec<Vec<u8>>,
    /// Why a worker ended early.
    pub failure: Option<String>,
}

impl ServerReport {
    /// Writes the log as CSV, with an empty departure for requests without a response, and empty
    /// columns of a generation for responses without one.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_csv(&self, output: &mut impl io::Write) -> io::Result<()> {
        writeln!(
            output,
            "connection,arrival_ns,departure_ns,status,bytes,first_token_ns,last_token_ns,\
             tokens,is_failed"
        )?;
        let written = |ns: Option<u64>| ns.map(|ns| ns.to_string()).unwrap_or_default();
        for request in &self.requests {
            let LoggedRequest {
                connection,
                arrival_ns,
                status,
                bytes,
                departure_ns,
                generated,
            } = request;
            let departure = written(*departure_ns);
            write!(
                output,
                "{connection},{arrival_ns},{departure},{status},{bytes},"
            )?;
            match generated.as_deref() {
                None => writeln!(output, ",,,")?,
                Some(generated) => writeln!(
                    output,
                    "{},{},{},{}",
                    written(generated.first_token_ns),
                    written(generated.last_token_ns),
                    generated.tokens,
                    u8::from(generated.is_failed),
                )?,
            }
        }
        Ok(())
    }

    /// Time from arrival to departure of every answered request, in nanoseconds, in order of
    /// arrival.
    #[must_use]
    pub fn sojourns_ns(&self) -> Vec<u64> {
        let sojourn = |request: &LoggedRequest| {
            request
                .departure_ns
                .map(|departure| departure.saturating_sub(request.arrival_ns))
        };
        self.requests.iter().filter_map(sojourn).collect()
    }

    /// Adds the report of another worker.
    pub(crate) fn merge(&mut self, other: Self) {
        self.counts = self.counts.plus(other.counts);
        self.requests.extend(other.requests);
        self.requests.sort_by_key(|request| request.arrival_ns);
        self.requests_unlogged += other.requests_unlogged;
        self.recorded.extend(other.recorded);
        self.failure = self.failure.take().or(other.failure);
    }
}

/// The counters of a worker: written by that worker only, read by any thread.
///
/// Aligned to two cache lines to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) requests: Counter,
    pub(crate) responses: Counter,
    pub(crate) refused: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) tls_failures: Counter,
    pub(crate) tokens_sent: Counter,
}

impl Counters {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.value(),
            requests: self.requests.value(),
            responses: self.responses.value(),
            refused: self.refused.value(),
            bytes_in: self.bytes_in.value(),
            bytes_out: self.bytes_out.value(),
            tls_failures: self.tls_failures.value(),
            tokens_sent: self.tokens_sent.value(),
        }
    }

    /// The sum over all workers.
    pub(crate) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Counts {
        all.into_iter()
            .map(Self::counts)
            .fold(Counts::default(), Counts::plus)
    }
}

/// A counter with a single writer: load and store, without a locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bounded log of a worker.
#[derive(Debug)]
pub(crate) struct Log {
    entries: Vec<LoggedRequest>,
    limit: usize,
    unlogged: u64,
    recorded: Vec<Vec<u8>>,
    recorded_limit: usize,
}

/// Maximum recorded bytes per request; the rest is cut off.
pub(crate) const RECORDED_MAX_BYTES: usize = 1024 * 1024;

impl Log {
    /// A log of at most `limit` requests (0 disables it) that records the bytes of the first
    /// `recorded_limit` requests.
    pub(crate) fn new(limit: usize, recorded_limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            limit,
            unlogged: 0,
            recorded: Vec::new(),
            recorded_limit,
        }
    }

    /// Adds an arrival; the index is for [`Self::depart`].
    pub(crate) fn arrive(&mut self, entry: LoggedRequest) -> Option<usize> {
        if self.entries.len() < self.limit {
            self.entries.push(entry);
            return Some(self.entries.len() - 1);
        }
        if self.limit > 0 {
            self.unlogged += 1;
        }
        None
    }

    pub(crate) fn depart(&mut self, index: usize, departure_ns: u64, bytes: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.departure_ns = Some(departure_ns);
            entry.bytes = bytes;
        }
    }

    /// A generation has begun.
    pub(crate) fn generate(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.generated = Some(Box::default());
        }
    }

    /// An event with this many tokens was handed to the event loop.
    pub(crate) fn tokens(&mut self, index: usize, at_ns: u64, count: u64) {
        if let Some(generated) = self.generated(index) {
            generated.first_token_ns.get_or_insert(at_ns);
            generated.last_token_ns = Some(at_ns);
            generated.tokens += count;
        }
    }

    /// The error of a generation was handed to the event loop.
    pub(crate) fn fail(&mut self, index: usize) {
        if let Some(generated) = self.generated(index) {
            generated.is_failed = true;
        }
    }

    fn generated(&mut self, index: usize) -> Option<&mut Generated> {
        self.entries.get_mut(index)?.generated.as_deref_mut()
    }

    /// Whether arrivals and departures are logged.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Whether the bytes of the next request are recorded.
    pub(crate) fn records(&self) -> bool {
        self.recorded.len() < self.recorded_limit
    }

    pub(crate) fn record(&mut self, bytes: Vec<u8>) {
        if self.records() {
            self.recorded.push(bytes);
        }
    }

    pub(crate) fn into_report(self, counts: Counts, failure: Option<String>) -> ServerReport {
        ServerReport {
            counts,
            requests: self.entries,
            requests_unlogged: self.unlogged,
            recorded: self.recorded,
            failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(connection: u64, arrival_ns: u64) -> LoggedRequest {
        LoggedRequest {
            connection,
            arrival_ns,
            departure_ns: None,
            status: 200,
            bytes: 0,
            generated: None,
        }
    }

    #[test]
    fn the_log_is_bounded_and_counts_missing_requests() {
        let mut log = Log::new(2, 0);
        assert_eq!(
            [1, 2, 3].map(|ns| log.arrive(arrival(0, ns))),
            [Some(0), Some(1), None]
        );
        log.depart(1, 9, 100);
        let report = log.into_report(Counts::default(), None);
        assert_eq!((report.requests.len(), report.requests_unlogged), (2, 1));
        assert_eq!(report.sojourns_ns(), [7]);
    }

    #[test]
    fn a_disabled_log_counts_no_missing_requests() {
        let mut log = Log::new(0, 0);
        assert_eq!(log.arrive(arrival(0, 1)), None);
        assert_eq!(
            log.into_report(Counts::default(), None).requests_unlogged,
            0
        );
    }

    #[test]
    fn the_csv_has_empty_columns_for_what_did_not_happen() {
        let mut log = Log::new(9, 0);
        let index = log.arrive(arrival(3, 10)).unwrap();
        log.arrive(arrival(4, 11));
        let generating = log.arrive(arrival(5, 12)).unwrap();
        log.generate(generating);
        log.tokens(generating, 15, 4);
        log.tokens(generating, 18, 1);
        log.fail(generating);
        let begun = log.arrive(arrival(6, 13)).unwrap();
        log.generate(begun);
        log.depart(index, 20, 157);
        let mut csv = Vec::new();
        log.into_report(Counts::default(), None)
            .write_csv(&mut csv)
            .unwrap();
        assert_eq!(
            String::from_utf8(csv).unwrap(),
            "connection,arrival_ns,departure_ns,status,bytes,first_token_ns,last_token_ns,\
             tokens,is_failed\n\
             3,10,20,200,157,,,,\n4,11,,200,0,,,,\n5,12,,200,0,15,18,5,1\n6,13,,200,0,,,0,0\n"
        );
    }

    #[test]
    fn truths_of_workers_merge_in_order_of_arrival() {
        let report = |ns| {
            let mut log = Log::new(9, 0);
            log.arrive(arrival(0, ns));
            log.into_report(
                Counts {
                    requests: 1,
                    ..Counts::default()
                },
                None,
            )
        };
        let mut merged = report(5);
        merged.merge(report(3));
        assert_eq!(merged.counts.requests, 2);
        assert_eq!(
            merged
                .requests
                .iter()
                .map(|one| one.arrival_ns)
                .collect::<Vec<_>>(),
            [3, 5]
        );
    }

    #[test]
    fn counts_print_as_json() {
        let counters = Counters::default();
        counters.requests.add(2);
        counters.requests.add(3);
        let json = Counters::sum([&counters, &Counters::default()]).to_json();
        assert!(
            json.starts_with("{\"connections\":0,\"requests\":5,"),
            "{json}"
        );
        assert!(json.ends_with("\"tokens_sent\":0}\n"), "{json}");
    }
}
