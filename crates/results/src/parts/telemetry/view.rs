//! Notes about sockets and kernel counters.

use plan::readable::{counted, percent, time_us};

use crate::{SocketSummary, Spread, Telemetry};

/// Counters of lost, refused or late packets and connections.
const TROUBLES: [&str; 20] = [
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPReqQFullDrop",
    "TcpExt.TCPReqQFullDoCookies",
    "TcpExt.SyncookiesSent",
    "Tcp.RetransSegs",
    "TcpExt.TCPTimeouts",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.PruneCalled",
    "TcpExt.TCPMemoryPressures",
    "TcpExt.TCPAbortOnMemory",
    "TcpExt.TCPAbortFailed",
    "Tcp.InErrs",
    "Tcp.AttemptFails",
    "Ip.OutDiscards",
    "softnet.dropped",
    "softnet.time_squeeze",
    "stat.cpu_steal_ms",
];

/// Whether a counter counts lost, refused or late packets or connections.
#[must_use]
pub fn is_trouble(counter: &str) -> bool {
    TROUBLES.contains(&counter)
}

/// The number of known counters of lost, refused or late packets, and those that have grown.
#[must_use]
pub fn troubles(telemetry: &Telemetry) -> (usize, Vec<(&'static str, i64)>) {
    let growth = |name| Some((name, *telemetry.counters.get(name)?));
    let mut known: Vec<_> = TROUBLES.into_iter().filter_map(growth).collect();
    let number = known.len();
    known.retain(|(_, growth)| *growth != 0);
    (number, known)
}

/// A line for the sockets, one for the counters, and one for each failure.
pub(super) fn notes(telemetry: &Telemetry) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(telemetry.sockets.as_ref().map(sockets));
    if !telemetry.counters.is_empty() {
        notes.push(counters(telemetry));
    }
    let failures = telemetry.notes.iter();
    notes.extend(failures.map(|failure| format!("telemetry: {failure}")));
    notes
}

fn sockets(summary: &SocketSummary) -> String {
    let SocketSummary {
        sockets, closed, ..
    } = summary;
    let share = |share: f64| percent(share * 100.0);
    let at = |spread: Spread, print: fn(f64) -> String| {
        format!("median {}, p99 {}", print(spread.p50), print(spread.p99))
    };
    let count = |value: f64| format!("{value:.0}");
    let parts = [
        Some(match closed {
            0 => format!("sockets: {sockets}"),
            _ => format!("sockets: {sockets}, {closed} of them closed"),
        }),
        summary
            .retransmitted_share()
            .map(|again| format!("{} of segments retransmitted", share(again))),
        summary
            .rtt_us
            .map(|rtt| format!("round-trip time {}", at(rtt, time_us))),
        summary
            .cwnd
            .map(|cwnd| format!("congestion window {}", at(cwnd, count))),
        summary.rwnd_limited_share().map(|limited| {
            format!(
                "{} of the time with data to send limited by the peer's window",
                share(limited)
            )
        }),
        summary
            .sndbuf_limited_share()
            .map(|limited| format!("{} by the send buffer", share(limited))),
        summary
            .listen_drops
            .map(|drops| format!("{} dropped by the listener", counted(drops, "connection"))),
        summary
            .listen_queue_max
            .map(|waiting| format!("longest accept queue {waiting}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn counters(telemetry: &Telemetry) -> String {
    let (known, grown) = troubles(telemetry);
    let grown = grown
        .iter()
        .map(|(name, growth)| format!("{name} {growth}"));
    match grown.collect::<Vec<_>>().join(", ") {
        grown if grown.is_empty() => {
            format!("counters: none of {known} of lost, refused or late packets has grown")
        }
        grown => format!("counters: {grown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telemetry(sockets: Option<SocketSummary>, counters: &[(&str, i64)]) -> Telemetry {
        Telemetry {
            sockets,
            counters: counters
                .iter()
                .map(|(name, growth)| ((*name).to_owned(), *growth))
                .collect(),
            ..Telemetry::default()
        }
    }

    #[test]
    fn sockets_are_one_line() {
        let spread = |p50, p99| {
            Some(Spread {
                p50,
                p99,
                ..Spread::default()
            })
        };
        let summary = SocketSummary {
            sockets: 300,
            closed: 12,
            segments_sent: Some(10_000),
            segments_retransmitted: 12,
            rtt_us: spread(45.0, 1_200.0),
            cwnd: spread(10.0, 43.0),
            busy_us: Some(1_000),
            rwnd_limited_us: Some(31),
            sndbuf_limited_us: Some(5),
            listen_drops: Some(3),
            listen_queue_max: Some(129),
            ..SocketSummary::default()
        };
        let expected = "sockets: 300, 12 of them closed; 0.12 % of segments retransmitted; \
            round-trip time median 45 us, p99 1.2 ms; congestion window median 10, p99 43; \
            3.1 % of the time with data to send limited by the peer's window; \
            0.5 % by the send buffer; \
            3 connections dropped by the listener; longest accept queue 129";
        assert_eq!(notes(&telemetry(Some(summary), &[])), [expected]);
    }

    #[test]
    fn unknown_values_are_left_out() {
        let summary = SocketSummary::default();
        assert_eq!(notes(&telemetry(Some(summary), &[])), ["sockets: 0"]);
        assert_eq!(notes(&telemetry(None, &[])), Vec::<String>::new());
    }

    #[test]
    fn counters_that_grew_are_listed() {
        let quiet = [("Tcp.InSegs", 9_999), ("Tcp.RetransSegs", 0)];
        let notes_of = |counters| notes(&telemetry(None, counters)).join("\n");
        assert_eq!(
            notes_of(&quiet),
            "counters: none of 1 of lost, refused or late packets has grown"
        );
        let loud = [
            ("Tcp.InSegs", 9_999),
            ("Tcp.RetransSegs", 4),
            ("softnet.dropped", 2),
        ];
        assert_eq!(
            notes_of(&loud),
            "counters: Tcp.RetransSegs 4, softnet.dropped 2"
        );
    }

    #[test]
    fn failures_of_the_sampler_are_listed() {
        let mut telemetry = telemetry(None, &[]);
        telemetry.notes.push("the sampler died".to_owned());
        assert_eq!(notes(&telemetry), ["telemetry: the sampler died"]);
    }
}
