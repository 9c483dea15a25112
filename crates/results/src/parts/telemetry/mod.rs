//! Telemetry of a run: TCP sockets and kernel counters, summarized.

pub(crate) mod metrics;
mod page;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::PartView;
use crate::Contradiction;
use crate::over_time::WrittenRows;

pub use page::{GAUGES, Gauge, SocketValue, scope, summary, troubles_finding};
pub use view::{is_trouble, troubles};

pub(super) static VIEW: PartView = PartView {
    notes: |result| result.telemetry.iter().flat_map(view::notes).collect(),
    ..PartView::NONE
};

/// Telemetry of one run, summarized. The single samples are in a separate file, one JSON line each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Time between samples, nanoseconds.
    pub interval_ns: u64,
    /// Number of samples of all sockets taken within the window.
    pub samples: u64,
    /// CPU time of the sampling thread, nanoseconds: the cost of telemetry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Sockets that match the filter; `None` if sockets were not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketSummary>,
    /// Growth of kernel counters over the window, by name (`TcpExt.ListenDrops`, `Tcp.RetransSegs`,
    /// `softnet.dropped`), zeros included. Counters that this kernel does not have are missing.
    pub counters: BTreeMap<String, i64>,
    /// Sockets over time; `None` if sockets were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<SocketTimeline>,
    /// What could not be sampled, one line each. The figures are then too low, or cover only part
    /// of the window.
    pub notes: Vec<String>,
}

/// Sockets of one run. Each is counted once, however often it was sampled, and with its final
/// values if it closed. A sum is `None` if this kernel does not count it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketSummary {
    /// Distinct sockets seen, without listening ones.
    pub sockets: u64,
    /// Number of these sockets that closed during the run and whose final values the kernel
    /// reported.
    pub closed: u64,
    /// Bytes sent during the run, retransmissions included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes retransmitted during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_retransmitted: Option<u64>,
    /// Bytes received during the run; the kernel counts the end of a connection as one byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Segments with data sent during the run, retransmissions included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_sent: Option<u64>,
    /// Segments retransmitted during the run.
    pub segments_retransmitted: u64,
    /// Smoothed round trip times over all samples of all sockets, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<Spread>,
    /// Congestion windows over all samples of all sockets, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<Spread>,
    /// Time that sockets had data to send, microseconds, summed over sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    /// Part of `busy_us` that was limited by the peer's receive window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_us: Option<u64>,
    /// Part of `busy_us` that was limited by the send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_us: Option<u64>,
    /// Connections that listening sockets dropped during the run; `None` also if no listening
    /// socket matches the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_drops: Option<u64>,
    /// Longest queue of connections waiting to be accepted in any sample; `None` if no sample has a
    /// listening socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_queue_max: Option<u64>,
}

impl SocketSummary {
    /// Share of the segments sent that were retransmissions, 0 to 1; `None` if nothing was sent.
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

/// Maximum number of rows of a timeline.
const TIMELINE_ROWS_MAX: usize = 4_096;

/// Sockets over time, in equal, consecutive intervals from the start of the window. Their number is
/// bounded: if there are more, every two are joined into one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "WrittenRows<SocketMoment>")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct SocketTimeline {
    /// Length of each interval, milliseconds.
    pub interval_ms: u64,
    /// The intervals in order of time.
    pub rows: Vec<SocketMoment>,
}

impl TryFrom<WrittenRows<SocketMoment>> for SocketTimeline {
    type Error = Contradiction;

    fn try_from(written: WrittenRows<SocketMoment>) -> Result<Self, Contradiction> {
        let WrittenRows { interval_ms, rows } = written;
        if rows.len() > TIMELINE_ROWS_MAX {
            return Err(Contradiction(format!(
                "telemetry over time: {} rows are more than {TIMELINE_ROWS_MAX}",
                rows.len()
            )));
        }
        // The true length of an interval may exceed the written one by half a millisecond.
        let latest_ms = |at: u64| at.saturating_mul(interval_ms.saturating_add(1));
        if let Some((at, row)) = (0..)
            .zip(&rows)
            .find(|(at, row)| row.start_ms > latest_ms(*at))
        {
            return Err(Contradiction(format!(
                "telemetry over time: row {at} starts at {} ms",
                row.start_ms
            )));
        }
        Ok(Self { interval_ms, rows })
    }
}

/// Sockets in one interval: figures over all samples of all sockets that match the filter, without
/// listening ones. Values that this kernel does not report, or that were not sampled, are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SocketMoment {
    /// Start of the interval, milliseconds after the start of the window.
    pub start_ms: u64,
    /// Largest number of sockets in a sample; `None` if no sample was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u64>,
    /// Median of the smoothed round trip times, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_us: Option<f64>,
    /// 99th percentile of the smoothed round trip times, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p99_us: Option<f64>,
    /// Median of the congestion windows, segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd_p50: Option<f64>,
    /// Median of the delivery rates (`tcpi_delivery_rate`), bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate_p50_bytes_per_sec: Option<f64>,
    /// Segments retransmitted within the interval. These and the bytes are read at the end of an
    /// interval; if no sample was taken there, the next interval includes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_retransmitted: Option<u64>,
    /// Bytes sent within the interval, retransmissions included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes received within the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Longest queue of connections waiting to be accepted in any sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_queue_max: Option<u64>,
}

/// The spread of a set of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The smallest of the values.
    pub min: f64,
    /// The median of the values.
    pub p50: f64,
    /// The 90th percentile of the values.
    pub p90: f64,
    /// The 99th percentile of the values.
    pub p99: f64,
    /// The largest of the values.
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
    fn a_document_without_a_timeline_is_read() {
        let mut document = serde_json::to_value(Telemetry::default()).unwrap();
        assert!(document.get("timeline").is_none());
        let read: Telemetry = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(read, Telemetry::default());
        document["timeline"] = serde_json::json!({"interval_ms": 1_000, "rows": [{"sockets": 3}]});
        assert!(
            serde_json::from_value::<Telemetry>(document).is_err(),
            "an incomplete row is rejected"
        );
    }

    #[test]
    fn a_timeline_that_no_sampler_writes_is_rejected() {
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
