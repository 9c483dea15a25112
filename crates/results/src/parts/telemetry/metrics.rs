//! The metrics of watched sockets; counters of the kernel have names of their own.

use crate::SocketSummary;

/// A value of the watched sockets; its name follows `sockets_`.
pub(crate) type SocketRow = (&'static str, fn(&SocketSummary) -> Option<f64>);

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

fn known(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

#[rustfmt::skip]
pub(crate) static SOCKETS: [SocketRow; 19] = [
    ("seen", |it| Some(it.sockets as f64)),
    ("closed", |it| Some(it.closed as f64)),
    ("segments_sent", |it| known(it.segments_sent)),
    ("segments_retransmitted", |it| Some(it.segments_retransmitted as f64)),
    ("retransmitted_percent", |it| percent(it.retransmitted_share())),
    ("rwnd_limited_percent", |it| percent(it.rwnd_limited_share())),
    ("sndbuf_limited_percent", |it| percent(it.sndbuf_limited_share())),
    ("listen_drops", |it| known(it.listen_drops)),
    ("listen_queue_max", |it| known(it.listen_queue_max)),
    ("rtt_min_us", |it| Some(it.rtt_us.as_ref()?.min)),
    ("rtt_p50_us", |it| Some(it.rtt_us.as_ref()?.p50)),
    ("rtt_p90_us", |it| Some(it.rtt_us.as_ref()?.p90)),
    ("rtt_p99_us", |it| Some(it.rtt_us.as_ref()?.p99)),
    ("rtt_max_us", |it| Some(it.rtt_us.as_ref()?.max)),
    ("cwnd_min", |it| Some(it.cwnd.as_ref()?.min)),
    ("cwnd_p50", |it| Some(it.cwnd.as_ref()?.p50)),
    ("cwnd_p90", |it| Some(it.cwnd.as_ref()?.p90)),
    ("cwnd_p99", |it| Some(it.cwnd.as_ref()?.p99)),
    ("cwnd_max", |it| Some(it.cwnd.as_ref()?.max)),
];
