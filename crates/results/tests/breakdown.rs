//! What the latency consists of: sums by latency, lists of the slowest, and their merging.

use results::{
    BreakdownRange, BreakdownRecording, LISTED, PartRecordings, Recording, ServerTimes, SlowPath,
    SlowRequest, TraceId,
};

const MS: u64 = 1_000_000;

fn request(first_byte_ns: u64) -> SlowRequest {
    SlowRequest {
        due_ns: 7,
        waited_ns: 0,
        connecting_ns: 0,
        own_ns: 0,
        read_late_ns: 0,
        first_byte_ns,
        last_byte_ns: 0,
        status: 200,
        path: None,
        trace_id: None,
        server_timing_ns: ServerTimes::default(),
    }
}

fn of(requests: impl IntoIterator<Item = SlowRequest>) -> BreakdownRecording {
    let mut breakdown = BreakdownRecording::default();
    requests.into_iter().for_each(|it| breakdown.add(&it));
    breakdown
}

fn whole(breakdown: &BreakdownRecording) -> BreakdownRange {
    breakdown.slowest(1.0, 0).expect("there are requests")
}

/// Merges through recordings, as workers and machines are.
fn merged(parts: &[BreakdownRecording]) -> BreakdownRecording {
    let mut all = Recording::new();
    for part in parts {
        let other = Recording {
            parts: PartRecordings {
                breakdown: Some(part.clone()),
                ..PartRecordings::default()
            },
            ..Recording::new()
        };
        all.merge(&other);
    }
    all.parts.breakdown.expect("a part was merged")
}

#[test]
fn the_parts_of_a_latency_add_up_to_it() {
    let mut breakdown = BreakdownRecording::default();
    let total = breakdown.metric(b"total").expect("there is room");
    let mut slow = SlowRequest {
        waited_ns: 10 * MS,
        connecting_ns: 3 * MS,
        own_ns: 4 * MS,
        read_late_ns: MS,
        first_byte_ns: 20 * MS,
        last_byte_ns: 5 * MS,
        path: Some(SlowPath {
            retransmitted: 0,
            min_round_trip_ns: MS,
        }),
        ..request(0)
    };
    slow.server_timing_ns.set(total, 12 * MS);
    breakdown.add(&slow);
    let range = whole(&breakdown);
    assert_eq!(range.sum_ns(), 35 * MS);
    assert_eq!(range.sum_ns(), slow.latency_ns());
    let BreakdownRange {
        own_ns,
        connecting_ns,
        queued_ns,
        server_ns,
        before_server_ns,
        first_byte_ns,
        last_byte_ns,
        round_trip_ns,
        ..
    } = range;
    // Sent 3 ms late, and read 1 ms late, which was after the first byte.
    let parts = [
        own_ns,
        connecting_ns,
        queued_ns,
        server_ns,
        before_server_ns,
        last_byte_ns,
    ];
    assert_eq!(parts.map(|it| it / MS), [4, 3, 4, 12, 8, 4]);
    assert_eq!((first_byte_ns, round_trip_ns), (0, MS));
}

#[test]
fn parts_that_contradict_each_other_still_add_up() {
    let mut breakdown = BreakdownRecording::default();
    let total = breakdown.metric(b"total").expect("there is room");
    let mut impossible = SlowRequest {
        waited_ns: 2 * MS,
        connecting_ns: 9 * MS,
        own_ns: 100 * MS,
        read_late_ns: 50 * MS,
        last_byte_ns: MS,
        ..request(3 * MS)
    };
    impossible.server_timing_ns.set(total, 1_000 * MS);
    breakdown.add(&impossible);
    assert_eq!(whole(&breakdown).sum_ns(), 6 * MS);
}

#[test]
fn without_a_header_the_time_to_the_first_byte_is_not_split() {
    let range = whole(&of([request(9 * MS)]));
    assert_eq!(
        (range.first_byte_ns, range.server_ns, range.before_server_ns),
        (9 * MS, 0, 0)
    );
}

#[test]
fn packets_that_were_sent_again_name_the_time_that_the_server_does_not_explain() {
    let mut breakdown = BreakdownRecording::default();
    let total = breakdown.metric(b"total").expect("there is room");
    let mut lost = SlowRequest {
        path: Some(SlowPath {
            retransmitted: 2,
            min_round_trip_ns: MS,
        }),
        ..request(210 * MS)
    };
    lost.server_timing_ns.set(total, 2 * MS);
    breakdown.add(&lost);
    let range = whole(&breakdown);
    assert_eq!((range.retransmitted, range.retransmitted_ns), (1, 207 * MS));
    // The round trip is there with or without a loss.
    assert_eq!(
        (range.server_ns, range.before_server_ns, range.round_trip_ns),
        (2 * MS, MS, MS)
    );
}

#[test]
fn a_request_that_timed_out_waited_without_an_answer() {
    let range = whole(&of([SlowRequest {
        status: 0,
        waited_ns: MS,
        ..request(2_000 * MS)
    }]));
    assert_eq!(
        (range.unanswered, range.unanswered_ns, range.queued_ns),
        (1, 2_000 * MS, MS)
    );
    assert_eq!(range.first_byte_ns, 0);
}

#[test]
fn without_a_total_the_longest_metric_is_the_time_of_the_server() {
    let mut breakdown = BreakdownRecording::default();
    let numbers = [b"db".as_slice(), b"app"].map(|name| breakdown.metric(name));
    let mut slow = request(10 * MS);
    for (number, time_ns) in numbers.into_iter().zip([4 * MS, 6 * MS]) {
        slow.server_timing_ns
            .set(number.expect("there is room"), time_ns);
    }
    breakdown.add(&slow);
    let range = whole(&breakdown);
    assert_eq!((range.server_ns, range.before_server_ns), (6 * MS, 4 * MS));
    assert_eq!(range.server_timing_ns, [4 * MS, 6 * MS]);
}

#[test]
fn the_slowest_share_has_the_requests_with_the_highest_latencies() {
    let breakdown = of((0..990)
        .map(|_| request(MS))
        .chain((0..10).map(|_| request(50 * MS))));
    let slow = breakdown.slowest(0.01, 0).expect("there are requests");
    assert_eq!((slow.requests, slow.first_byte_ns), (10, 500 * MS));
    let from_ns = breakdown
        .slowest_from_ns(0.01, 0)
        .expect("there are requests");
    assert!((48 * MS..=50 * MS).contains(&from_ns), "{from_ns}");
    // Of few requests, more than the share are taken; never more than there are.
    assert_eq!(
        of([request(5), request(9)])
            .slowest(0.01, 10)
            .map(|it| it.requests),
        Some(2)
    );
    assert_eq!(BreakdownRecording::default().slowest(0.01, 10), None);
}

#[test]
fn equal_latencies_are_taken_together() {
    let breakdown = of((0..1000).map(|_| request(MS)));
    let slow = breakdown.slowest(0.01, 0).expect("there are requests");
    assert_eq!(slow.requests, 1000);
}

#[test]
fn a_cluster_of_latencies_is_taken_as_a_whole() {
    // One in fifty takes 20 to 21.5 ms, which are three ranges; the others take 1 ms.
    let spread = |n: u64| request(20 * MS + n % 16 * MS / 10);
    let two_percent = of((0..4_900).map(|_| request(MS)).chain((0..100).map(spread)));
    let from_ns = two_percent.slowest_from_ns(0.01, 10);
    assert_eq!(
        two_percent.slowest(0.01, 10).map(|it| it.requests),
        Some(100)
    );
    assert!(from_ns.is_some_and(|it| (19 * MS..=20 * MS).contains(&it)));
    // A few slower ones change nothing, nor do some in between.
    let others = [30, 45, 7, 9, 12].map(|ms| request(ms * MS));
    let mut disturbed = two_percent;
    others.iter().for_each(|it| disturbed.add(it));
    assert_eq!(disturbed.slowest(0.01, 10).map(|it| it.requests), Some(102));
    // Most requests are never the slowest, however alike they are.
    let alike = of((0..5_000).map(|n| request(20 * MS + n % 16 * MS / 10)));
    let slow = alike.slowest(0.01, 10).expect("there are requests");
    assert!(slow.requests < 1_500, "{}", slow.requests);
    // There is no cluster where faster requests are more and more frequent.
    let tail = of((0..10_000_u64).map(|n| {
        let quantile = (n as f64 + 0.5) / 10_000.0;
        request((-quantile.ln() * 4e6) as u64)
    }));
    let slow = tail.slowest(0.01, 10).expect("there are requests");
    assert!((100..130).contains(&slow.requests), "{}", slow.requests);
}

#[test]
fn every_latency_is_in_a_range_that_is_at_most_a_32nd_wide() {
    for latency_ns in (0..2_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
        let breakdown = of([request(latency_ns)]);
        let end_ns = breakdown.ranges[0].latency_ns;
        let from_ns = breakdown.slowest_from_ns(1.0, 0).expect("there is one");
        assert!(
            (from_ns..=end_ns).contains(&latency_ns),
            "{latency_ns}: {from_ns} to {end_ns}"
        );
        assert!(
            end_ns - from_ns <= latency_ns / 32,
            "{latency_ns}: {from_ns} to {end_ns}"
        );
    }
}

#[test]
fn merging_gives_the_same_in_any_order() {
    let mut one = of((1..150).map(|n| request(n * MS)));
    let mut other = of((1..250).map(|n| request(2 * n * MS)));
    for (breakdown, names) in [(&mut one, [b"a", b"b"]), (&mut other, [b"b", b"a"])] {
        for (name, time_ns) in names.into_iter().zip([MS, 2 * MS]) {
            let number = breakdown.metric(name).expect("there is room");
            let mut slow = SlowRequest {
                trace_id: Some(TraceId(5)),
                ..request(900 * MS)
            };
            slow.server_timing_ns.set(number, time_ns);
            breakdown.note_server_times(&slow.server_timing_ns);
            breakdown.add(&slow);
        }
        breakdown.traced += 2;
    }
    let both = merged(&[one.clone(), other.clone()]);
    assert_eq!(both.requests(), one.requests() + other.requests());
    assert_eq!(
        (both.slowest.len(), both.slowest_traced.len(), both.traced),
        (LISTED, 4, 4)
    );
    let latencies: Vec<u64> = both.slowest.iter().map(SlowRequest::latency_ns).collect();
    assert!(
        latencies.is_sorted_by(|slower, faster| slower >= faster),
        "{latencies:?}"
    );
    assert_eq!(
        latencies[..5],
        [900 * MS, 900 * MS, 900 * MS, 900 * MS, 498 * MS]
    );
    // `a` took 1 ms in one and 2 ms in the other, and so did `b`.
    let slow = both.slowest(0.001, 4).expect("there are requests");
    assert_eq!(slow.server_timing_ns, [3 * MS, 3 * MS]);
    let again = merged(&[other, one]);
    assert_eq!(
        (again.ranges.len(), again.requests()),
        (both.ranges.len(), both.requests())
    );
    let due = |it: &BreakdownRecording| -> Vec<u64> {
        it.slowest.iter().map(SlowRequest::latency_ns).collect()
    };
    assert_eq!(due(&again), due(&both));
}

#[test]
fn metrics_beyond_the_limit_are_left_out() {
    let mut breakdown = BreakdownRecording::default();
    let numbers: Vec<_> = (0..20)
        .map(|n| breakdown.metric(format!("m{n}").as_bytes()))
        .collect();
    assert_eq!(
        numbers.iter().flatten().count(),
        results::SERVER_METRICS_MAX
    );
    assert_eq!(breakdown.metric(b"m3"), Some(3));
}

#[test]
fn it_is_the_same_after_it_was_saved_and_read() {
    let mut breakdown = BreakdownRecording::default();
    breakdown.metric(b"a");
    let number = breakdown.metric(b"b").expect("there is room");
    let mut slow = SlowRequest {
        trace_id: Some(TraceId(0xab << 100)),
        path: Some(SlowPath::default()),
        ..request(3 * MS)
    };
    slow.server_timing_ns.set(number, MS);
    breakdown.add(&slow);
    let text = serde_json::to_string(&breakdown).expect("it can be saved");
    assert!(
        text.contains("\"server_timing_ns\":[null,1000000]"),
        "{text}"
    );
    assert!(
        text.contains("\"trace_id\":\"00000ab0000000000000000000000000\""),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<BreakdownRecording>(&text).ok(),
        Some(breakdown)
    );
    for bad in [
        "",
        "12",
        "+0000000000000000000000000000000",
        "0x000000000000000000000000000000",
    ] {
        let text = format!("\"{bad}\"");
        assert!(serde_json::from_str::<TraceId>(&text).is_err(), "{bad}");
    }
}
