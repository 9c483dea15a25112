//! Why the slowest requests were slow: with a disturbed load generator, a slow server, both,
//! neither, lost packets, queues, and too few samples.

use proptest::prelude::*;
use results::parts::breakdown::{LatencyComponent, Slowest};
use results::{BreakdownRecording, ServerTimes, SlowPath, SlowRequest};

const MS: u64 = 1_000_000;

/// A request of 1 ms, of which the server takes half if it says so.
fn usual(server_ns: Option<u64>) -> SlowRequest {
    let mut server_timing_ns = ServerTimes::default();
    if let Some(server_ns) = server_ns {
        server_timing_ns.set(0, server_ns);
    }
    SlowRequest {
        due_ns: 0,
        waited_ns: 0,
        connecting_ns: 0,
        own_ns: 0,
        read_late_ns: 0,
        first_byte_ns: MS,
        last_byte_ns: 0,
        status: 200,
        path: Some(SlowPath {
            retransmitted: 0,
            min_round_trip_ns: MS / 10,
        }),
        trace_id: None,
        server_timing_ns,
    }
}

/// 9,900 usual requests, and 100 that `slow` makes.
fn run(stated: bool, slow: impl Fn(SlowRequest) -> SlowRequest) -> Slowest {
    let mut breakdown = BreakdownRecording::default();
    breakdown.metric(b"total");
    let usual = usual(stated.then_some(MS / 2));
    breakdown.note_server_times(&usual.server_timing_ns);
    (0..9_900).for_each(|_| breakdown.add(&usual));
    (0..100).for_each(|_| breakdown.add(&slow(usual)));
    let slowest = Slowest::of(&breakdown).expect("there are requests");
    let sum_us: f64 = slowest.parts.iter().map(|it| it.slowest_us).sum();
    assert!((sum_us - slowest.mean_us).abs() < 1e-6, "{slowest:?}");
    slowest
}

/// The reasons above 5 points, as whole percents.
fn reasons(slowest: &Slowest) -> Vec<(LatencyComponent, i64)> {
    let percents = slowest
        .reasons()
        .into_iter()
        .map(|(part, share)| (part, (share * 100.0).round() as i64));
    percents.filter(|(_, percent)| *percent >= 5).collect()
}

#[test]
fn a_slow_server_is_named() {
    let slowest = run(true, |request| {
        let mut slow = SlowRequest {
            first_byte_ns: 20 * MS,
            ..request
        };
        slow.server_timing_ns.set(0, 19 * MS);
        slow
    });
    assert_eq!(reasons(&slowest), [(LatencyComponent::Server, 97)]);
    assert_eq!((slowest.requests, slowest.all), (100, 10_000));
    assert_eq!(
        slowest.sentence(),
        "the slowest 100 of 10,000 requests took 20 ms on average, 19.9 ms or more. Of the 19 ms \
         that they took longer than the others: 97.4 % server"
    );
}

#[test]
fn a_load_generator_that_is_late_is_named_and_not_the_server() {
    let slowest = run(true, |request| SlowRequest {
        waited_ns: 4 * MS,
        own_ns: 9 * MS,
        read_late_ns: 5 * MS,
        first_byte_ns: 6 * MS,
        ..request
    });
    assert_eq!(reasons(&slowest), [(LatencyComponent::Generator, 100)]);
}

#[test]
fn of_a_late_load_generator_and_a_slow_server_both_have_their_shares() {
    let slowest = run(true, |request| {
        let mut slow = SlowRequest {
            waited_ns: 30 * MS,
            own_ns: 30 * MS,
            first_byte_ns: 71 * MS,
            ..request
        };
        slow.server_timing_ns.set(0, 70 * MS + MS / 2);
        slow
    });
    assert_eq!(
        reasons(&slowest),
        [
            (LatencyComponent::Server, 70),
            (LatencyComponent::Generator, 30)
        ]
    );
}

#[test]
fn what_is_before_the_server_is_a_queue_unless_packets_were_sent_again() {
    let late = |request| SlowRequest {
        first_byte_ns: 41 * MS,
        ..request
    };
    assert_eq!(
        reasons(&run(true, late)),
        [(LatencyComponent::BeforeServer, 100)]
    );
    let lost = run(true, |request| SlowRequest {
        path: Some(SlowPath {
            retransmitted: 1,
            min_round_trip_ns: MS / 10,
        }),
        ..late(request)
    });
    assert_eq!(reasons(&lost), [(LatencyComponent::Retransmission, 100)]);
    assert!(
        lost.sentence()
            .ends_with("100 % lost packets; packets of 100 were sent again")
    );
}

#[test]
fn without_the_time_of_the_server_only_what_is_known_is_named() {
    let late = |request| SlowRequest {
        first_byte_ns: 41 * MS,
        ..request
    };
    assert_eq!(
        reasons(&run(false, late)),
        [(LatencyComponent::Unexplained, 100)]
    );
    // Other requests tell what the first byte would have taken without the loss.
    let lost = run(false, |request| SlowRequest {
        path: Some(SlowPath {
            retransmitted: 3,
            min_round_trip_ns: MS / 10,
        }),
        ..late(request)
    });
    assert_eq!(reasons(&lost), [(LatencyComponent::Retransmission, 100)]);
}

#[test]
fn waiting_for_a_connection_opening_one_bodies_and_timeouts_are_told_apart() {
    for (part, slow) in [
        (LatencyComponent::NoFreeConnection, [20, 0, 1, 0]),
        (LatencyComponent::Connecting, [20, 20, 1, 0]),
        (LatencyComponent::Body, [0, 0, 1, 20]),
    ] {
        let [waited_ns, connecting_ns, first_byte_ns, last_byte_ns] = slow.map(|ms| ms * MS);
        let slowest = run(true, |request| SlowRequest {
            waited_ns,
            connecting_ns,
            first_byte_ns,
            last_byte_ns,
            ..request
        });
        assert_eq!(reasons(&slowest), [(part, 100)]);
    }
    let slowest = run(true, |_| SlowRequest {
        status: 0,
        first_byte_ns: 2_000 * MS,
        ..usual(None)
    });
    assert_eq!(reasons(&slowest), [(LatencyComponent::NoResponse, 100)]);
}

#[test]
fn no_reason_is_given_where_all_requests_took_the_same_or_were_too_few() {
    let mut breakdown = BreakdownRecording::default();
    assert_eq!(Slowest::of(&breakdown), None);
    (0..9).for_each(|_| breakdown.add(&usual(None)));
    let few = Slowest::of(&breakdown).expect("there are requests");
    assert_eq!(
        few.sentence(),
        "9 requests: too few to tell why the slowest were slow"
    );
    assert_eq!(few.reasons(), []);
    (0..1_000).for_each(|_| breakdown.add(&usual(None)));
    let equal = Slowest::of(&breakdown).expect("there are requests");
    assert_eq!(equal.reasons(), []);
    assert!(
        equal
            .sentence()
            .ends_with("no request was faster than these")
    );
}

#[test]
fn the_metrics_of_the_server_are_compared_too() {
    let mut breakdown = BreakdownRecording::default();
    breakdown.metric(b"total");
    let db = breakdown.metric(b"db").expect("there is room");
    (0..990).for_each(|_| breakdown.add(&usual(Some(MS / 2))));
    let mut slow = usual(Some(30 * MS));
    slow.first_byte_ns = 31 * MS;
    slow.server_timing_ns.set(db, 29 * MS);
    (0..10).for_each(|_| breakdown.add(&slow));
    let slowest = Slowest::of(&breakdown).expect("there are requests");
    let expected = [
        ("total".to_owned(), 30_000.0, Some(500.0)),
        ("db".to_owned(), 29_000.0, Some(0.0)),
    ];
    assert_eq!(slowest.server_timing, expected);
}

/// All parts of some requests, and of the others, add up to what these took.
fn assert_adds_up(slowest: &Slowest) {
    let near = |sum_us: f64, whole_us: f64| (sum_us - whole_us).abs() <= 1e-6 * (1.0 + whole_us);
    let parts = || slowest.parts.iter();
    assert!(parts().all(|it| it.slowest_us >= 0.0), "{slowest:?}");
    let sum_us: f64 = parts().map(|it| it.slowest_us).sum();
    assert!(near(sum_us, slowest.mean_us), "{slowest:?}");
    if let Some(others_us) = slowest.others_us {
        let sum_us: f64 = parts().filter_map(|it| it.others_us).sum();
        assert!(near(sum_us, others_us), "{slowest:?}");
    }
    let reasons = slowest.reasons();
    let longer: f64 = reasons.iter().map(|(_, share)| share.max(0.0)).sum();
    assert!(longer <= 1.0 + 1e-9, "{reasons:?}");
    assert!(reasons.is_empty() || longer >= 1.0 - 1e-9, "{reasons:?}");
}

#[test]
fn a_lost_packet_costs_what_is_beyond_the_usual_round_trip() {
    // A path of 20 ms, and a server of 10 ms that may say so. Lost packets cost 70 ms.
    for stated in [true, false] {
        let mut breakdown = BreakdownRecording::default();
        breakdown.metric(b"total");
        let request = |lost_ns| SlowRequest {
            first_byte_ns: 30 * MS + lost_ns,
            path: Some(SlowPath {
                retransmitted: u32::from(lost_ns > 0),
                min_round_trip_ns: 20 * MS,
            }),
            ..usual(stated.then_some(10 * MS))
        };
        breakdown.note_server_times(&request(0).server_timing_ns);
        (0..990).for_each(|_| breakdown.add(&request(0)));
        (0..10).for_each(|_| breakdown.add(&request(70 * MS)));
        let slowest = Slowest::of(&breakdown).expect("there are requests");
        assert_adds_up(&slowest);
        let of = |part| {
            let found = slowest.parts.iter().find(|it| it.part == part);
            found.map(|it| (it.slowest_us as u64, it.others_us.map(|us| us as u64)))
        };
        assert_eq!(
            of(LatencyComponent::RoundTrip),
            Some((20_000, Some(20_000)))
        );
        assert_eq!(
            of(LatencyComponent::Retransmission),
            Some((70_000, Some(0)))
        );
        let server = if stated {
            LatencyComponent::Server
        } else {
            LatencyComponent::Unexplained
        };
        assert_eq!(of(server), Some((10_000, Some(10_000))));
        assert_eq!(reasons(&slowest), [(LatencyComponent::Retransmission, 100)]);
    }
}

#[test]
fn a_part_that_is_shorter_than_usual_makes_no_other_one_longer_than_the_whole() {
    // The slowest wait for 21 ms, but their server is 5 ms faster than that of the others.
    let mut breakdown = BreakdownRecording::default();
    breakdown.metric(b"total");
    let request = |waited_ns, server_ns| SlowRequest {
        waited_ns,
        first_byte_ns: server_ns,
        ..usual(Some(server_ns))
    };
    breakdown.note_server_times(&request(0, 6 * MS).server_timing_ns);
    (0..990).for_each(|_| breakdown.add(&request(0, 6 * MS)));
    (0..10).for_each(|_| breakdown.add(&request(21 * MS, MS)));
    let slowest = Slowest::of(&breakdown).expect("there are requests");
    assert_adds_up(&slowest);
    assert_eq!(
        reasons(&slowest),
        [(LatencyComponent::NoFreeConnection, 100)]
    );
    let sentence = slowest.sentence();
    assert!(
        sentence.ends_with("longer than the others: 100 % waiting for a free connection"),
        "{sentence}"
    );
}

#[test]
fn no_part_is_below_zero_by_the_rounding_of_means() {
    // The means of these times differ from the sums of their parts in the last digit. Two of the
    // responses state a time of 0 for a metric of the server.
    let mut breakdown = BreakdownRecording::default();
    breakdown.metric(b"total");
    let db = breakdown.metric(b"db").expect("there is room");
    let request = |waited_ns, [first_byte_ns, last_byte_ns]: [u64; 2], path, states_db| {
        let mut request = SlowRequest {
            waited_ns,
            first_byte_ns,
            last_byte_ns,
            path,
            ..usual(None)
        };
        if states_db {
            request.server_timing_ns.set(db, 0);
        }
        request
    };
    let path = |retransmitted, min_round_trip_ns| {
        Some(SlowPath {
            retransmitted,
            min_round_trip_ns,
        })
    };
    let (lost, kept) = (path(1, 24_215_384), path(0, 40_938_938));
    let requests = [
        request(0, [0, 1_409_286_144], None, false),
        request(554_970_534, [820_158_113, 34_157_497], lost, true),
        request(0, [1, 0], None, false),
        request(1_333_700_796, [40_938_938, 34_646_410], kept, false),
        request(0, [0, 5], None, true),
    ];
    for request in requests.iter().cycle().take(20) {
        breakdown.note_server_times(&request.server_timing_ns);
        breakdown.add(request);
    }
    assert_adds_up(&Slowest::of(&breakdown).expect("there are requests"));
}

/// Any times, also such that contradict each other.
fn any_request() -> impl Strategy<Value = SlowRequest> {
    let time = || prop_oneof![3 => Just(0), 5 => 0..50 * MS, 1 => 0..2_000 * MS];
    let path = prop::option::of((0_u32..3, time()));
    let times = (time(), time(), time(), time(), time(), time());
    let server = (prop::option::of(time()), prop::option::of(time()));
    (times, path, server, prop::bool::weighted(0.9)).prop_map(
        |(times, path, (total_ns, other_ns), is_answered)| {
            let (waited_ns, connecting_ns, own_ns, read_late_ns, first_byte_ns, last_byte_ns) =
                times;
            let mut server_timing_ns = ServerTimes::default();
            for (metric, time_ns) in [(0, total_ns), (1, other_ns)] {
                if let Some(time_ns) = time_ns {
                    server_timing_ns.set(metric, time_ns);
                }
            }
            SlowRequest {
                waited_ns,
                connecting_ns,
                own_ns,
                read_late_ns,
                first_byte_ns,
                last_byte_ns: if is_answered { last_byte_ns } else { 0 },
                status: if is_answered { 200 } else { 0 },
                path: path.map(|(retransmitted, min_round_trip_ns)| SlowPath {
                    retransmitted,
                    min_round_trip_ns,
                }),
                server_timing_ns,
                ..usual(None)
            }
        },
    )
}

proptest! {
    #[test]
    fn parts_add_up_to_the_whole_whatever_the_requests_were(
        requests in prop::collection::vec(any_request(), 1..60),
        copies in 1_usize..30,
    ) {
        let mut breakdown = BreakdownRecording::default();
        breakdown.metric(b"total");
        breakdown.metric(b"db");
        let latency_ns: u64 = requests.iter().map(SlowRequest::latency_ns).sum();
        for request in requests.iter().cycle().take(requests.len() * copies) {
            breakdown.note_server_times(&request.server_timing_ns);
            breakdown.add(request);
        }
        for range in &breakdown.ranges {
            let before_ns = range.before_server_ns + range.first_byte_ns;
            prop_assert!(range.round_trip_ns <= before_ns, "{range:?}");
            prop_assert!(range.sum_ns() <= range.requests * range.latency_ns, "{range:?}");
        }
        let sum_ns: u64 = breakdown.ranges.iter().map(|range| range.sum_ns()).sum();
        prop_assert_eq!(sum_ns, latency_ns * copies as u64);
        assert_adds_up(&Slowest::of(&breakdown).expect("there are requests"));
    }
}
