//! Requests with moments: those of a log, or of a file with the key `at`.

use crate::set::RecordedRequests;

/// The most requests with moments: each takes 30 bytes of memory.
pub(crate) const MAX_ARRIVALS: usize = 50_000_000;

/// What a file with more of them is told; `what` they are in it.
pub(crate) fn too_many(what: &str) -> String {
    let most = plan::readable::count(MAX_ARRIVALS as u64);
    format!("the file has more than {most} {what}: replay a part of it")
}

pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// A request at its moment. Few bytes, because there are many.
pub(crate) struct Arrival {
    /// Unix time, nanoseconds; of a file with the key `at`, since the moment that is its 0.
    pub(crate) unix_ns: i64,
    pub(crate) request: u32,
    /// The status of the response; 0 if it is not known.
    pub(crate) status: u16,
    /// Whether the moment is known better than to the second.
    pub(crate) is_exact: bool,
}

/// Sorts requests by their moments, since a server writes its log when it has responded. The first
/// one is due at once, and the others `speed` times as fast as they arrived.
pub(crate) fn in_order(mut arrivals: Vec<Arrival>, speed: f64) -> RecordedRequests {
    // A stable sort: within a second, the order of the log is all that is known.
    arrivals.sort_by_key(|arrival| arrival.unix_ns);
    spread_seconds(&mut arrivals);
    arrivals.sort_by_key(|arrival| arrival.unix_ns);
    let first_ns = arrivals.first().map_or(0, |first| first.unix_ns);
    let due_ns = arrivals.iter().map(|arrival| {
        let since_ns = arrival.unix_ns.saturating_sub(first_ns);
        (since_ns as f64 / speed).round() as u64
    });
    RecordedRequests {
        due_ns: due_ns.collect(),
        requests: arrivals.iter().map(|arrival| arrival.request).collect(),
        statuses: arrivals.iter().map(|arrival| arrival.status).collect(),
    }
}

/// Spreads the requests evenly over each second whose moments are known no better.
fn spread_seconds(arrivals: &mut [Arrival]) {
    let same = |a: &Arrival, b: &Arrival| !a.is_exact && !b.is_exact && a.unix_ns == b.unix_ns;
    for second in arrivals.chunk_by_mut(same) {
        let count = second.len() as i64;
        for (number, arrival) in (0..).zip(second) {
            if !arrival.is_exact {
                arrival.unix_ns += SECOND_NS * number / count;
            }
        }
    }
}
