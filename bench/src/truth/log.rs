//! The server's log of a run: arrival and departure of each request, and counters.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;

/// The first line of the log.
const COLUMNS: &str = "connection,arrival_ns,departure_ns,status,bytes,first_token_ns,\
                       last_token_ns,tokens,is_failed";

/// A request in the log. Times are CLOCK_MONOTONIC, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedRequest {
    pub(crate) connection: u64,
    /// When the last byte of the request was read.
    pub(crate) arrival_ns: u64,
    /// When the last byte of the response was handed to the kernel; `None` without a response.
    pub(crate) departure_ns: Option<u64>,
    /// Status of the response.
    pub(crate) status: u16,
    /// Bytes of the response.
    pub(crate) bytes: u64,
    /// Its tokens, if it was a stream of a language model's server.
    pub(crate) tokens: Option<ServedTokens>,
}

/// The tokens of a stream in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedTokens {
    /// When the first event with tokens was handed to the kernel; `None` without one.
    pub(crate) first_ns: Option<u64>,
    /// The same for the last one.
    pub(crate) last_ns: Option<u64>,
    /// Tokens sent.
    pub(crate) count: u64,
}

/// Counters of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Counts {
    /// Connections that the server accepted.
    pub(crate) connections: u64,
    /// Requests that arrived completely.
    pub(crate) requests: u64,
    /// Responses sent to the last byte.
    pub(crate) responses: u64,
    /// Bytes of HTTP sent.
    pub(crate) bytes_out: u64,
}

/// Everything a server reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerLog {
    /// In the order of arrival.
    pub(crate) served: Vec<ServedRequest>,
    /// The counters at its end.
    pub(crate) counts: Counts,
}

impl ServerLog {
    /// Reads the CSV of `--log` and the last line that the server printed.
    ///
    /// # Errors
    /// When one of them is not what a server writes.
    pub(crate) fn parse(csv: &str, printed: &str) -> anyhow::Result<Self> {
        let last = printed.lines().last().unwrap_or_default();
        let counts = serde_json::from_str(last)
            .with_context(|| format!("the server's last line is not its counts: {last:?}"))?;
        let mut lines = csv.lines();
        let head = lines.next().unwrap_or_default();
        if head != COLUMNS {
            bail!("unexpected columns in the server's log: {head:?}");
        }
        let served = lines
            .map(|line| parse_line(line).with_context(|| format!("server log: {line:?}")))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { served, counts })
    }

    /// Time from arrival to departure of every answered request in milliseconds, in order of
    /// arrival.
    pub(crate) fn sojourns_ms(&self) -> Vec<f64> {
        let sojourn =
            |one: &ServedRequest| Some(ms(one.departure_ns?.saturating_sub(one.arrival_ns)));
        self.served.iter().filter_map(sojourn).collect()
    }

    /// The same for requests that arrived in the last `duration_s` seconds, which is the window of
    /// a run with a warm-up.
    pub(crate) fn last(&self, duration_s: f64) -> Self {
        let begin_ns = self.begin_of_last_ns(duration_s);
        Self {
            served: self
                .served
                .iter()
                .filter(|one| one.arrival_ns > begin_ns)
                .copied()
                .collect(),
            counts: self.counts,
        }
    }

    /// The `count` requests that were answered first. A client that is slow at the end of a run
    /// does not read the other responses.
    pub(crate) fn answered_first(mut self, count: usize) -> Self {
        self.served.retain(|one| one.departure_ns.is_some());
        self.served.sort_by_key(|one| one.departure_ns);
        self.served.truncate(count);
        self.served.sort_by_key(|one| one.arrival_ns);
        self
    }

    /// Service times at a server that serves one request at a time, in milliseconds: from the
    /// arrival, or from the previous departure if that is later. Only requests that were answered
    /// in the last `duration_s` seconds.
    pub(crate) fn services_in_last_ms(&self, duration_s: f64) -> Vec<f64> {
        let begin_ns = self.begin_of_last_ns(duration_s);
        let mut free_ns = 0;
        let service = |one: &ServedRequest| {
            let departure_ns = one.departure_ns?;
            let start_ns = one.arrival_ns.max(free_ns);
            free_ns = departure_ns;
            let is_in_it = departure_ns > begin_ns;
            is_in_it.then(|| ms(departure_ns.saturating_sub(start_ns)))
        };
        self.served.iter().filter_map(service).collect()
    }

    /// Responses in the `duration_s` seconds before the last arrival, per second. In a closed loop
    /// a request arrives when a response has left, so these are the last seconds of the run.
    pub(crate) fn answered_per_sec(&self, duration_s: f64) -> f64 {
        let end_ns = self.served.last().map_or(0, |one| one.arrival_ns);
        let begin_ns = self.begin_of_last_ns(duration_s);
        let departures = self.served.iter().filter_map(|one| one.departure_ns);
        let within = departures.filter(|at_ns| (begin_ns..=end_ns).contains(at_ns));
        within.count() as f64 / duration_s
    }

    fn begin_of_last_ns(&self, duration_s: f64) -> u64 {
        let end_ns = self.served.last().map_or(0, |one| one.arrival_ns);
        end_ns.saturating_sub((duration_s * 1e9) as u64)
    }

    /// Number and bytes of the responses with this status.
    pub(crate) fn of_status(&self, status: u16) -> (u64, u64) {
        let answered = self.served.iter().filter(|one| one.departure_ns.is_some());
        answered
            .filter(|one| one.status == status)
            .fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.bytes))
    }

    /// Seconds between consecutive arrivals.
    pub(crate) fn gaps_s(&self) -> Vec<f64> {
        let gap = |pair: &[ServedRequest]| (pair[1].arrival_ns - pair[0].arrival_ns) as f64 / 1e9;
        self.served.windows(2).map(gap).collect()
    }

    /// Number of arrivals in each bin of this length, from the first arrival; an incomplete last
    /// bin is omitted.
    pub(crate) fn counts_per_bin(&self, bin_s: f64) -> Vec<f64> {
        let first_ns = self.served.first().map_or(0, |one| one.arrival_ns);
        let mut counts = Vec::new();
        for one in &self.served {
            let bin = ((one.arrival_ns - first_ns) as f64 / 1e9 / bin_s) as usize;
            if counts.len() <= bin {
                counts.resize(bin + 1, 0.0);
            }
            counts[bin] += 1.0;
        }
        counts.pop();
        counts
    }

    /// Number of unanswered requests.
    pub(crate) fn unanswered(&self) -> u64 {
        let is_open = |one: &&ServedRequest| one.departure_ns.is_none();
        self.served.iter().filter(is_open).count() as u64
    }

    /// Number of connections with exactly this many requests.
    pub(crate) fn connections_with(&self, requests: u64) -> u64 {
        let mut carried = BTreeMap::<u64, u64>::new();
        for one in &self.served {
            *carried.entry(one.connection).or_default() += 1;
        }
        carried.values().filter(|count| **count == requests).count() as u64
    }

    /// When each request was due, in nanoseconds, assuming an even schedule at this rate, in order
    /// of arrival. The start of the schedule is chosen such that the fastest request took no time.
    pub(crate) fn even_schedule_ns(&self, rate_per_sec: f64) -> Vec<f64> {
        let due_ns = |index: usize| index as f64 / rate_per_sec * 1e9;
        // Relative to the first arrival, because an f64 cannot represent nanoseconds since boot
        // exactly.
        let lateness_ns = (0..).zip(&self.served);
        let start_ns = lateness_ns
            .map(|(index, one)| self.since_first_ns(one.arrival_ns) - due_ns(index))
            .fold(f64::INFINITY, f64::min);
        (0..self.served.len())
            .map(|index| start_ns + due_ns(index))
            .collect()
    }

    /// Arrival times in nanoseconds since the first one.
    pub(crate) fn arrivals_ns(&self) -> Vec<f64> {
        let arrival_ns = |one: &ServedRequest| self.since_first_ns(one.arrival_ns);
        self.served.iter().map(arrival_ns).collect()
    }

    pub(crate) fn since_first_ns(&self, at_ns: u64) -> f64 {
        let first_ns = self.served.first().map_or(0, |one| one.arrival_ns);
        at_ns.saturating_sub(first_ns) as f64
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn parse_line(line: &str) -> anyhow::Result<ServedRequest> {
    let fields: Vec<&str> = line.split(',').collect();
    let [
        connection,
        arrival,
        departure,
        status,
        bytes,
        first,
        last,
        tokens,
        _failed,
    ] = fields[..]
    else {
        bail!("{} fields instead of 9", fields.len());
    };
    let time = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some),
    };
    let tokens = match tokens {
        "" => None,
        count => Some(ServedTokens {
            first_ns: time(first)?,
            last_ns: time(last)?,
            count: count.parse()?,
        }),
    };
    Ok(ServedRequest {
        connection: connection.parse()?,
        arrival_ns: arrival.parse()?,
        departure_ns: time(departure)?,
        status: status.parse()?,
        bytes: bytes.parse()?,
        tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "{\"connections\":2,\"requests\":3,\"responses\":2,\"refused\":0,\
                          \"bytes_in\":9,\"bytes_out\":40,\"tls_failures\":0}";

    fn log(lines: &str) -> ServerLog {
        ServerLog::parse(&format!("{COLUMNS}\n{lines}"), &format!("more\n{COUNTS}\n")).unwrap()
    }

    #[test]
    fn a_log_is_read_with_its_counts_and_what_was_never_answered() {
        let log = log("0,1000000,3000000,200,20,,,,\n1,2000000,,200,0,,,0,0\n\
                       0,4000000,4500000,0,20,,,,\n");
        assert_eq!((log.counts.connections, log.counts.bytes_out), (2, 40));
        assert_eq!(log.sojourns_ms(), [2.0, 0.5]);
        assert_eq!((log.unanswered(), log.connections_with(2)), (1, 1));
        assert_eq!(log.gaps_s(), [0.001, 0.002]);
        let tokens: Vec<_> = log.served.iter().map(|one| one.tokens).collect();
        let none = ServedTokens {
            first_ns: None,
            last_ns: None,
            count: 0,
        };
        assert_eq!(tokens, [None, Some(none), None]);
    }

    #[test]
    fn requests_are_chosen_by_when_they_were_answered() {
        let lines = ["0,1000000,9000000", "1,2000000,", "2,3000000,7000000"];
        let log = log(&lines.map(|line| format!("{line},200,20,,,,\n")).concat());
        assert_eq!(log.clone().answered_first(1).sojourns_ms(), [4.0]);
        assert_eq!(log.answered_first(3).sojourns_ms(), [8.0, 4.0]);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        for csv in [
            "",
            "a,b\n",
            &format!("{COLUMNS}\n1,2,3\n"),
            &format!("{COLUMNS}\n0,1,2,200,1,x,2,1,0\n"),
            &format!("{COLUMNS}\n0,x,1,200,1,,,,\n"),
        ] {
            assert!(ServerLog::parse(csv, COUNTS).is_err(), "{csv:?}");
        }
        assert!(ServerLog::parse(COLUMNS, "no counts").is_err());
    }

    #[test]
    fn services_of_a_queue_are_told_from_waiting() {
        // Arrives at an idle server; waits 1 ms; arrives at an idle server again.
        let log = log("0,0,2000000,200,1,,,,\n1,1000000,5000000,200,1,,,,\n\
                       0,9000000,9500000,200,1,,,,\n");
        assert_eq!(log.services_in_last_ms(1.0), [2.0, 3.0, 0.5]);
        assert_eq!(log.services_in_last_ms(0.005), [3.0, 0.5]);
        assert_eq!(log.last(0.0085).sojourns_ms(), [4.0, 0.5]);
    }

    #[test]
    fn responses_after_the_last_arrival_are_not_in_the_rate() {
        let log = log("0,0,2000000,200,1,,,,\n0,2000000,4000000,200,1,,,,\n\
                       1,4000000,9000000,200,1,,,,\n");
        assert_eq!(log.answered_per_sec(0.004), 500.0);
        assert_eq!(log.answered_per_sec(0.001), 1000.0);
    }

    #[test]
    fn arrivals_are_counted_in_whole_bins() {
        let log = log("0,10,,0,0,,,,\n0,1000000,,0,0,,,,\n0,1000011,,0,0,,,,\n\
                       0,3500000,,0,0,,,,\n");
        assert_eq!(log.counts_per_bin(0.001), [2.0, 1.0, 0.0]);
    }

    #[test]
    fn the_even_schedule_starts_with_the_promptest_request() {
        // Due every 1 ms; the second was on time, the others late by 20 us and 1.5 ms.
        let start = 1_u64 << 60;
        let at = |ns: u64| format!("0,{},,0,0,,,,\n", start + ns);
        let log = log(&[at(20_000), at(1_000_000), at(3_500_000)].concat());
        assert_eq!(
            log.even_schedule_ns(1000.0),
            [-20_000.0, 980_000.0, 1_980_000.0]
        );
    }
}
