//! Names of what is measured, in one spelling for all sources.
//!
//! The first five are those of wrk-cmm's json.lua, which buffertest's tables show:
//!
//! | name | unit |
//! |---|---|
//! | `requests` | answers |
//! | `duration_in_microseconds` | |
//! | `bytes` | of responses |
//! | `requests_per_sec` | |
//! | `bytes_transfer_per_sec` | |
//! | `latency_mean_us`, `_stdev_us`, `_min_us`, `_max_us` | microseconds |
//! | `latency_within_stdev_percent` | share within one standard deviation, 0 to 100 |
//! | `latency_p99.9_us` | any percentile, microseconds |
//! | `service_time_...` | the same, counted from the sending: wrk2's uncorrected latency |
//! | `connect_...`, `tls_...`, `first_byte_...`, `last_byte_...` | the same of a request's parts |
//! | `thread_rate_mean`, `_stdev`, `_min`, `_max`, `thread_rate_within_stdev_percent` | wrk's Req/Sec: requests per second of one thread |
//! | `errors_connect`, `errors_read`, `errors_write`, `errors_timeout`, `errors` | wrk's counters of events, and their sum |
//! | `statuses_over_399` | answers |
//! | `status_200` | answers with this status |
//! | `error_refused` | events of this kind of error |
//! | `threads`, `connections`, `rate` | what was asked for; requests per second |
//! | `sockets_...`, and counters as the kernel names them (`TcpExt.ListenDrops`) | telemetry |

use std::collections::BTreeMap;

use results::{
    AchievedRate, ErrorKind, Histogram, Legacy, Rates, RunResult, SocketSummary, Spread, Summary,
    Telemetry,
};

/// Answers.
pub const REQUESTS: &str = "requests";
/// Length of the measurement, microseconds.
pub const DURATION_US: &str = "duration_in_microseconds";
/// Bytes of responses.
pub const BYTES: &str = "bytes";
/// Answers per second.
pub const REQUESTS_PER_SEC: &str = "requests_per_sec";
/// Bytes of responses per second.
pub const BYTES_PER_SEC: &str = "bytes_transfer_per_sec";
/// Mean latency, microseconds.
pub const LATENCY_MEAN_US: &str = "latency_mean_us";
/// Events of wrk's four counters.
pub const ERRORS: &str = "errors";
/// Answers with a status above 399.
pub const STATUSES_OVER_399: &str = "statuses_over_399";

/// Name of a percentile (0..=100) of a time: `latency_p99.9_us` of `latency`.
#[must_use]
pub fn percentile(of: &str, percent: f64) -> String {
    format!("{of}_p{percent}_us")
}

/// The time and the percentile behind such a name.
#[must_use]
pub fn percentile_of(name: &str) -> Option<(&str, f64)> {
    let (of, percent) = name.strip_suffix("_us")?.rsplit_once("_p")?;
    let plain = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent: f64 = percent.parse().ok().filter(|_| plain)?;
    (percent <= 100.0).then_some((of, percent))
}

/// Something of a result by its name, beyond what [`all_of_result`] lists; `None` if it has no such
/// thing. Statuses and kinds of errors that did not happen are zero.
#[must_use]
pub fn of_result(result: &RunResult, name: &str) -> Option<f64> {
    if let Some(status) = name.strip_prefix("status_") {
        let status = status.parse().ok()?;
        return Some(result.recording.statuses.count(status) as f64);
    }
    if let Some(kind) = name.strip_prefix("error_") {
        let kind = ErrorKind::from_name(kind)?;
        return Some(result.recording.errors.count(kind).events as f64);
    }
    let (of, percent) = percentile_of(name)?;
    let histogram = histogram(result, of)?;
    (!histogram.is_empty()).then(|| us(histogram.value_at_percentile(percent)))
}

/// Whether it is a name that some source may have.
#[must_use]
pub fn is_known(name: &str) -> bool {
    let totals = [
        REQUESTS,
        DURATION_US,
        BYTES,
        REQUESTS_PER_SEC,
        BYTES_PER_SEC,
        ERRORS,
        STATUSES_OVER_399,
        "threads",
        "connections",
        "rate",
    ];
    let of_time = |of: &&str| {
        let rest = name
            .strip_prefix(of)
            .and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| MOMENTS.contains(&rest))
    };
    let of_rate = || {
        let rest = name.strip_prefix("thread_rate_");
        rest.is_some_and(|rest| {
            ["mean", "stdev", "min", "max", "within_stdev_percent"].contains(&rest)
        })
    };
    totals.contains(&name)
        || TIMES.iter().any(of_time)
        || percentile_of(name).is_some_and(|(of, _)| TIMES.contains(&of))
        || of_rate()
        || [
            "errors_connect",
            "errors_read",
            "errors_write",
            "errors_timeout",
        ]
        .contains(&name)
        || name
            .strip_prefix("status_")
            .is_some_and(|status| status.parse::<u16>().is_ok())
        || name
            .strip_prefix("error_")
            .is_some_and(|kind| ErrorKind::from_name(kind).is_some())
}

/// The unit of what has this name, in one word: `us`, `requests/s`, `count`.
#[must_use]
pub fn unit(name: &str) -> &'static str {
    match name {
        REQUESTS_PER_SEC | "rate" => "requests/s",
        BYTES_PER_SEC => "bytes/s",
        BYTES => "bytes",
        DURATION_US => "us",
        _ if name.ends_with("_percent") => "percent",
        _ if name.starts_with("thread_rate_") => "requests/s",
        _ if name.ends_with("_us") => "us",
        _ if name.ends_with("_ms") => "ms",
        _ if name.starts_with("sockets_cwnd") => "segments",
        _ => "count",
    }
}

/// In which order names are listed: what people look for first, then everything else that the load generator measured,
/// then the kernel's counters; by name within each.
#[must_use]
pub fn rank(name: &str) -> usize {
    const FIRST: [&str; 12] = [
        REQUESTS_PER_SEC,
        LATENCY_MEAN_US,
        "latency_p50_us",
        "latency_p75_us",
        "latency_p90_us",
        "latency_p95_us",
        "latency_p99_us",
        "latency_p99.9_us",
        "latency_max_us",
        ERRORS,
        STATUSES_OVER_399,
        REQUESTS,
    ];
    let place = FIRST.iter().position(|first| *first == name);
    place.unwrap_or_else(|| FIRST.len() + usize::from(is_telemetry(name)))
}

/// Of what the kernel's books say, what tells where the time or the packets went.
pub const TELEMETRY: [&str; 20] = [
    "sockets_rtt_p50_us",
    "sockets_rtt_p99_us",
    "sockets_cwnd_p50",
    "sockets_retransmitted_percent",
    "sockets_rwnd_limited_percent",
    "sockets_sndbuf_limited_percent",
    "sockets_listen_drops",
    "sockets_listen_queue_max",
    "Tcp.RetransSegs",
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPTimeouts",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.PruneCalled",
    "softnet.dropped",
    "softnet.time_squeeze",
    "stat.context_switches",
    "stat.cpu_user_ms",
    "stat.cpu_system_ms",
    "stat.cpu_softirq_ms",
];

/// Whether it is something that the kernel's books say: names with a point are its own.
#[must_use]
pub fn is_telemetry(name: &str) -> bool {
    name.starts_with("sockets_") || (name.contains('.') && percentile_of(name).is_none())
}

/// The samples behind the names that begin so: `latency`, `connect` and such.
#[must_use]
pub fn histogram(result: &RunResult, of: &str) -> Option<Histogram> {
    let recording = &result.recording;
    match of {
        "latency" => Some(recording.latency()),
        "service_time" => Some(recording.uncorrected()),
        "connect" => Some(recording.phases.connect.clone()),
        "tls" => Some(recording.phases.tls.clone()),
        "first_byte" => Some(recording.phases.first_byte.clone()),
        "last_byte" => Some(recording.phases.last_byte.clone()),
        _ => None,
    }
}

/// Everything that a result says, by name.
#[must_use]
pub fn all_of_result(result: &RunResult) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let recording = &result.recording;
    let counters = &recording.counters;
    let mut put = |name: &str, value: f64| {
        values.insert(name.to_owned(), value);
    };
    put(REQUESTS, counters.answered as f64);
    put(DURATION_US, us(result.window.duration_ns));
    put(BYTES, counters.bytes as f64);
    put(REQUESTS_PER_SEC, result.requests_per_sec());
    put(BYTES_PER_SEC, result.bytes_per_sec());
    put("threads", f64::from(result.plan.load.threads));
    put("connections", f64::from(result.plan.load.connections));
    if let Some(rate) = AchievedRate::of(result) {
        put("rate", rate.asked_per_sec);
    }
    let errors = &recording.errors;
    let legacy = [
        ("errors_connect", Legacy::Connect),
        ("errors_read", Legacy::Read),
        ("errors_write", Legacy::Write),
        ("errors_timeout", Legacy::Timeout),
    ];
    let mut sum = 0_u64;
    for (name, counter) in legacy {
        let events = errors.legacy(counter);
        sum = sum.saturating_add(events);
        put(name, events as f64);
    }
    put(ERRORS, sum as f64);
    put(STATUSES_OVER_399, recording.statuses.over_399() as f64);
    for (kind, count) in errors.iter() {
        put(&format!("error_{kind}"), count.events as f64);
    }
    for (status, count) in recording.statuses.iter() {
        put(&format!("status_{status}"), count as f64);
    }
    for of in TIMES {
        if let Some(histogram) = histogram(result, of) {
            put_times(&mut values, of, &histogram);
        }
    }
    put_rates(&mut values, &recording.rates);
    if let Some(telemetry) = &result.telemetry {
        put_telemetry(&mut values, telemetry);
    }
    values
}

/// What is said of each time, percentiles aside.
const MOMENTS: [&str; 5] = [
    "mean_us",
    "stdev_us",
    "min_us",
    "max_us",
    "within_stdev_percent",
];

/// Times that a result has a histogram of.
pub const TIMES: [&str; 6] = [
    "latency",
    "service_time",
    "connect",
    "tls",
    "first_byte",
    "last_byte",
];

fn put_times(values: &mut BTreeMap<String, f64>, of: &str, histogram: &Histogram) {
    if histogram.is_empty() {
        return;
    }
    let mut put = |what: &str, value: f64| {
        values.insert(format!("{of}_{what}"), value);
    };
    put("mean_us", histogram.mean_ns() / 1e3);
    put("stdev_us", histogram.stdev_ns() / 1e3);
    for (what, value_ns) in [
        ("min_us", histogram.min_ns()),
        ("max_us", histogram.max_ns()),
    ] {
        if let Some(value_ns) = value_ns {
            put(what, us(value_ns));
        }
    }
    if let Some(share) = histogram.within_stdev_percent() {
        put("within_stdev_percent", share);
    }
    let percentiles = histogram.values_at_percentiles(&Summary::PERCENTILES);
    for (percent, value_ns) in Summary::PERCENTILES.into_iter().zip(percentiles) {
        values.insert(percentile(of, percent), us(value_ns));
    }
}

fn put_rates(values: &mut BTreeMap<String, f64>, rates: &Rates) {
    let (Some(min), Some(max)) = (rates.min(), rates.max()) else {
        return;
    };
    let mut put = |what: &str, value: f64| {
        values.insert(format!("thread_rate_{what}"), value);
    };
    put("mean", rates.mean());
    put("stdev", rates.stdev());
    put("min", min as f64);
    put("max", max as f64);
    if let Some(share) = rates.within_stdev_percent() {
        put("within_stdev_percent", share);
    }
}

fn put_telemetry(values: &mut BTreeMap<String, f64>, telemetry: &Telemetry) {
    for (name, growth) in &telemetry.counters {
        values.insert(name.clone(), *growth as f64);
    }
    if let Some(sockets) = &telemetry.sockets {
        put_sockets(values, sockets);
    }
}

fn put_sockets(values: &mut BTreeMap<String, f64>, sockets: &SocketSummary) {
    let mut put = |what: &str, value: Option<f64>| {
        if let Some(value) = value {
            values.insert(format!("sockets_{what}"), value);
        }
    };
    let count = |count: u64| Some(count as f64);
    let known = |count: Option<u64>| count.map(|count| count as f64);
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    put("seen", count(sockets.sockets));
    put("closed", count(sockets.closed));
    put("segments_sent", known(sockets.segments_sent));
    put(
        "segments_retransmitted",
        count(sockets.segments_retransmitted),
    );
    put(
        "retransmitted_percent",
        percent(sockets.retransmitted_share()),
    );
    put(
        "rwnd_limited_percent",
        percent(sockets.rwnd_limited_share()),
    );
    put(
        "sndbuf_limited_percent",
        percent(sockets.sndbuf_limited_share()),
    );
    put("listen_drops", known(sockets.listen_drops));
    put("listen_queue_max", known(sockets.listen_queue_max));
    for (of, unit, spread) in [("rtt", "_us", sockets.rtt_us), ("cwnd", "", sockets.cwnd)] {
        let field = |field: fn(&Spread) -> f64| spread.as_ref().map(field);
        put(&format!("{of}_min{unit}"), field(|spread| spread.min));
        put(&format!("{of}_p50{unit}"), field(|spread| spread.p50));
        put(&format!("{of}_p90{unit}"), field(|spread| spread.p90));
        put(&format!("{of}_p99{unit}"), field(|spread| spread.p99));
        put(&format!("{of}_max{unit}"), field(|spread| spread.max));
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_listed_before_the_counters_of_the_kernel() {
        let mut names = [
            "Ip.InReceives",
            "TcpExt.ListenDrops",
            "bytes",
            "connect_p99_us",
            "errors",
            "latency_p99.9_us",
            "latency_p99_us",
            "requests_per_sec",
            "sockets_rtt_p50_us",
        ];
        names.sort_by_key(|name| rank(name));
        let expected = [
            "requests_per_sec",
            "latency_p99_us",
            "latency_p99.9_us",
            "errors",
            "bytes",
            "connect_p99_us",
            "Ip.InReceives",
            "TcpExt.ListenDrops",
            "sockets_rtt_p50_us",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_name_has_its_unit() {
        for (name, expected) in [
            ("requests", "count"),
            ("duration_in_microseconds", "us"),
            ("bytes", "bytes"),
            ("requests_per_sec", "requests/s"),
            ("bytes_transfer_per_sec", "bytes/s"),
            ("latency_p99.9_us", "us"),
            ("connect_within_stdev_percent", "percent"),
            ("thread_rate_mean", "requests/s"),
            ("thread_rate_within_stdev_percent", "percent"),
            ("rate", "requests/s"),
            ("status_404", "count"),
            ("stat.cpu_user_ms", "ms"),
            ("sockets_rtt_p50_us", "us"),
            ("sockets_cwnd_p50", "segments"),
            ("TcpExt.ListenDrops", "count"),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }
}
