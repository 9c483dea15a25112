//! What the kernel's books said beside a run: sockets and counters, summed up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Telemetry of one run. Every sample stands in a file of its own, a JSON line each; this is what
/// they come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Time between samples, nanoseconds.
    pub interval_ns: u64,
    /// Times that all sockets were asked for within the window.
    pub samples: u64,
    /// CPU time of the thread that watched, nanoseconds: what all this has cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The sockets that the filter let through; `None` if none were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketSummary>,
    /// Counters of the kernel by name (`TcpExt.ListenDrops`, `Tcp.RetransSegs`, `softnet.dropped`),
    /// their growth from the begin of the window to its end, zeros included. What this kernel does
    /// not count is not there.
    pub counters: BTreeMap<String, i64>,
    /// The sockets over time; `None` if none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<SocketTimeline>,
    /// What could not be watched, a line each: the figures are then too low, or those of a part of
    /// the window.
    pub notes: Vec<String>,
}

/// Sockets of one run, each counted once however often it was sampled, with the final values of
/// those that closed. A sum is `None` when this kernel does not count such a thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketSummary {
    /// Different sockets seen, listening ones left out.
    pub sockets: u64,
    /// Of these, how many closed within the run with their last values told by the kernel.
    pub closed: u64,
    /// Bytes sent within the run, again sent ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Of these, bytes that were sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_retransmitted: Option<u64>,
    /// Bytes received within the run; the kernel counts the end of a connection as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Segments with data sent within the run, again sent ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_sent: Option<u64>,
    /// Segments sent again within the run.
    pub segments_retransmitted: u64,
    /// Smoothed round trip times over all samples of all sockets, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<Spread>,
    /// Congestion windows over all samples of all sockets, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<Spread>,
    /// Time that sockets had something to send, microseconds, summed over sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// Of it, time limited by the peer's receive window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_us: Option<u64>,
    /// Of it, time limited by the send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_us: Option<u64>,
    /// Connections that listening sockets dropped within the run; `None` also when the filter lets
    /// no listening socket through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_drops: Option<u64>,
    /// Longest queue of connections waiting to be accepted that a sample saw; `None` when no sample
    /// saw a listening socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_queue_max: Option<u64>,
}

impl SocketSummary {
    /// Share of sent segments that were sent again, 0 to 1; `None` when nothing was sent.
    #[must_use]
    pub fn retransmitted_share(&self) -> Option<f64> {
        share(Some(self.segments_retransmitted), self.segments_sent)
    }

    /// Share of the busy time that was limited by the peer's receive window, 0 to 1.
    #[must_use]
    pub fn rwnd_limited_share(&self) -> Option<f64> {
        share(self.rwnd_limited_us, self.busy_us)
    }

    /// Share of the busy time that was limited by the send buffer, 0 to 1.
    #[must_use]
    pub fn sndbuf_limited_share(&self) -> Option<f64> {
        share(self.sndbuf_limited_us, self.busy_us)
    }
}

fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0)?;
    Some(part? as f64 / whole as f64)
}

/// No sampler writes more rows than this, and no chart shows more.
const TIMELINE_ROWS_MAX: usize = 4_096;

/// Sockets over time, in equal intervals from the begin of the window on, without gaps and in
/// bounded number: where there are more, two become one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "WrittenTimeline")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct SocketTimeline {
    /// Length of each interval, milliseconds.
    pub interval_ms: u64,
    /// The intervals in order of time.
    pub rows: Vec<SocketMoment>,
}

/// As it stands in a document, which may be damaged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTimeline {
    interval_ms: u64,
    rows: Vec<SocketMoment>,
}

impl TryFrom<WrittenTimeline> for SocketTimeline {
    type Error = String;

    fn try_from(written: WrittenTimeline) -> Result<Self, String> {
        let WrittenTimeline { interval_ms, rows } = written;
        if rows.len() > TIMELINE_ROWS_MAX {
            return Err(format!(
                "telemetry over time: {} rows are more than {TIMELINE_ROWS_MAX}",
                rows.len()
            ));
        }
        // An interval's true length may be half a millisecond more than is written.
        let latest_ms = |at: u64| at.saturating_mul(interval_ms.saturating_add(1));
        if let Some((at, row)) = (0..)
            .zip(&rows)
            .find(|(at, row)| row.start_ms > latest_ms(*at))
        {
            return Err(format!(
                "telemetry over time: row {at} starts at {} ms",
                row.start_ms
            ));
        }
        Ok(Self { interval_ms, rows })
    }
}

/// What sockets were like in one interval: over all samples of all sockets that the filter let
/// through, listening ones left out. What this kernel does not tell, or what no sample was taken
/// of, is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketMoment {
    /// Begin of the interval, milliseconds after the begin of the window.
    pub start_ms: u64,
    /// Most sockets that a sample saw; `None` where no sample was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u64>,
    /// Median of the smoothed round trip times, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_us: Option<f64>,
    /// Their 99th percentile, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p99_us: Option<f64>,
    /// Median of the congestion windows, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_p50: Option<f64>,
    /// Median of the delivery rates (`tcpi_delivery_rate`), bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate_p50_bytes_per_sec: Option<f64>,
    /// Segments sent again within the interval. This and the bytes are what was found at its end:
    /// where no sample was taken, they are with the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_retransmitted: Option<u64>,
    /// Bytes sent within the interval, again sent ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes received within the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Longest queue of connections waiting to be accepted that a sample saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_queue_max: Option<u64>,
}

/// How values spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_or_of_something_unknown_is_unknown() {
        let mut summary = SocketSummary {
            segments_sent: Some(200),
            segments_retransmitted: 5,
            busy_us: Some(0),
            rwnd_limited_us: Some(0),
            ..SocketSummary::default()
        };
        assert_eq!(summary.retransmitted_share(), Some(0.025));
        assert_eq!(summary.rwnd_limited_share(), None);
        summary.busy_us = Some(8);
        summary.rwnd_limited_us = Some(2);
        assert_eq!(summary.rwnd_limited_share(), Some(0.25));
        assert_eq!(summary.sndbuf_limited_share(), None);
        summary.segments_sent = None;
        assert_eq!(summary.retransmitted_share(), None);
    }

    #[test]
    fn a_document_of_before_there_was_anything_over_time_is_read() {
        let mut document = serde_json::to_value(Telemetry::default()).unwrap();
        assert!(document.get("timeline").is_none());
        let read: Telemetry = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(read, Telemetry::default());
        document["timeline"] = serde_json::json!({"interval_ms": 1_000, "rows": [{"sockets": 3}]});
        assert!(
            serde_json::from_value::<Telemetry>(document).is_err(),
            "half a row is damage"
        );
    }

    #[test]
    fn a_timeline_that_no_sampler_writes_is_damage() {
        let written = |count: usize, start_ms: fn(u64) -> u64| {
            let rows = (0..).take(count).map(|at| SocketMoment {
                start_ms: start_ms(at),
                ..SocketMoment::default()
            });
            let timeline = SocketTimeline {
                interval_ms: 100,
                rows: rows.collect(),
            };
            let read: Result<SocketTimeline, _> =
                serde_json::from_value(serde_json::to_value(&timeline).unwrap());
            read.map(|read| assert_eq!(read, timeline))
        };
        assert!(written(TIMELINE_ROWS_MAX, |at| at * 100).is_ok());
        // 100.4 ms each.
        assert!(written(600, |at| at * 1_004 / 10).is_ok());
        let error = written(TIMELINE_ROWS_MAX + 1, |at| at * 100).unwrap_err();
        assert!(
            error.to_string().contains("4097 rows are more than 4096"),
            "{error}"
        );
        let error = written(3, |_| u64::MAX).unwrap_err();
        assert!(error.to_string().contains("row 0 starts at"), "{error}");
    }
}
