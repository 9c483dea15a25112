//! Latency over time: nothing is lost when intervals are joined, merged or saved.

use proptest::prelude::*;
use results::{Histogram, Interval, Intervals};

fn of(samples: &[(u64, u64)]) -> Intervals {
    let mut intervals = Intervals::default();
    for &(at_ms, value_ns) in samples {
        let mut one = Histogram::new();
        one.record(value_ns);
        intervals.add(at_ms, &one);
    }
    intervals
}

/// All samples in one histogram.
fn total(intervals: &Intervals) -> Histogram {
    let mut total = Histogram::new();
    for row in intervals.rows() {
        total.merge(&row.histogram());
    }
    total
}

/// Values with their counts.
fn distinct(histogram: &Histogram) -> Vec<(u64, u64)> {
    histogram.distinct().collect()
}

fn counts(intervals: &Intervals) -> Vec<u64> {
    let count = |row: &Interval| row.samples.iter().map(|(_, count)| count).sum();
    intervals.rows().iter().map(count).collect()
}

fn json(intervals: &Intervals) -> String {
    serde_json::to_string(intervals).expect("intervals can be written")
}

#[test]
fn a_sample_is_in_the_interval_of_its_time_and_gaps_are_empty_rows() {
    let intervals = of(&[(0, 5), (999, 7), (1000, 9), (4500, 5)]);
    assert_eq!(intervals.interval_ms(), 1000);
    assert_eq!(counts(&intervals), [2, 1, 0, 0, 1]);
    assert_eq!(
        (intervals.rows()[0].min_ns, intervals.rows()[0].max_ns),
        (5, 7)
    );
    assert_eq!(intervals.rows()[2], Interval::default());
}

#[test]
fn equal_values_of_one_interval_are_counted_together() {
    let mut intervals = of(&[(0, 5), (1, 7), (2, 5)]);
    assert_eq!(intervals.rows()[0].samples, [(5, 2), (7, 1)]);
    intervals.merge(&intervals.clone());
    assert_eq!(intervals.rows()[0].samples, [(5, 4), (7, 2)]);
}

#[test]
fn adding_nothing_makes_no_row() {
    let mut intervals = Intervals::default();
    intervals.add(u64::MAX, &Histogram::new());
    assert_eq!(intervals, Intervals::default());
}

#[test]
fn a_long_run_has_longer_intervals_and_keeps_every_sample() {
    let minutes: Vec<(u64, u64)> = (0..3000).map(|number| (number * 1000, number)).collect();
    let intervals = of(&minutes);
    assert_eq!(intervals.interval_ms(), 4000);
    assert_eq!(intervals.rows().len(), 750);
    assert!(counts(&intervals).iter().all(|&count| count == 4));
    // The largest time does not allocate without bound.
    let mut intervals = intervals;
    let mut one = Histogram::new();
    one.record(1);
    intervals.add(u64::MAX, &one);
    assert!(intervals.rows().len() <= 1024);
    assert_eq!(total(&intervals).count(), 3001);
}

proptest! {
    // Each case merges hundreds of histograms.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn merging_is_commutative_associative_and_loses_nothing(
        a in prop::collection::vec((0_u64..10_000, 0_u64..10_000_000_000), 0..20),
        b in prop::collection::vec((0_u64..3_000_000, 0_u64..10_000_000_000), 0..20),
        c in prop::collection::vec((0_u64..90_000_000, any::<u64>()), 0..20),
    ) {
        let (a, b, c) = (of(&a), of(&b), of(&c));
        let mut left = a.clone();
        left.merge(&b);
        left.merge(&c);
        let mut right = c.clone();
        right.merge(&b);
        right.merge(&a);
        prop_assert_eq!(json(&left), json(&right));
        let mut all = total(&a);
        all.merge(&total(&b));
        all.merge(&total(&c));
        prop_assert_eq!(distinct(&total(&left)), distinct(&all));
        prop_assert_eq!(serde_json::from_str::<Intervals>(&json(&left)).unwrap(), left);
    }
}

#[test]
fn invalid_intervals_are_rejected() {
    let refused = [
        // An invalid length.
        r#"{"interval_ms":0,"rows":[]}"#,
        r#"{"interval_ms":1500,"rows":[]}"#,
        r#"{"interval_ms":3000,"rows":[]}"#,
        // Samples out of order, duplicate, outside their extremes, or with a count of 0.
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"samples":[[9,1],[1,1]]}]}"#,
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"samples":[[1,1],[1,1]]}]}"#,
        r#"{"interval_ms":1000,"rows":[{"min_ns":2,"max_ns":9,"samples":[[1,1]]}]}"#,
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"samples":[[1,0]]}]}"#,
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"samples":[[1,-1]]}]}"#,
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"samples":[],"colour":1}]}"#,
        // Buckets that contradict their extremes or are invalid.
        concat!(
            r#"{"interval_ms":1000,"rows":[{"min_ns":9,"max_ns":1,"#,
            r#""hdr_v2_deflate_base64":"HISTFAAAABp42pNpmSzMwMDAxAABIErGHcrYbP8BAEFQA4c="}]}"#,
        ),
        r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":9,"hdr_v2_deflate_base64":"!"}]}"#,
        // More samples than the encoding of a histogram can hold: 2^63, also in several values.
        concat!(
            r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":1,"samples":[[1,"#,
            r#"9223372036854775808]]}]}"#,
        ),
        concat!(
            r#"{"interval_ms":1000,"rows":[{"min_ns":1,"max_ns":2,"samples":[[1,"#,
            r#"4611686018427387904],[2,4611686018427387904]]}]}"#,
        ),
    ];
    for text in refused {
        assert!(serde_json::from_str::<Intervals>(text).is_err(), "{text}");
    }
    let rows = vec![r#"{"min_ns":0,"max_ns":0,"samples":[]}"#; 1025].join(",");
    let text = format!(r#"{{"interval_ms":1000,"rows":[{rows}]}}"#);
    assert!(serde_json::from_str::<Intervals>(&text).is_err());
}

#[test]
fn the_largest_counts_that_can_be_read_can_be_added_up() {
    let max = u64::MAX;
    let (half, rest) = (1_u64 << 62, (1_u64 << 62) - 1);
    let row = format!(r#"{{"min_ns":1,"max_ns":{max},"samples":[[1,{half}],[{max},{rest}]]}}"#);
    let text = format!(r#"{{"interval_ms":1000,"rows":[{row},{row}]}}"#);
    let mut intervals: Intervals = serde_json::from_str(&text).unwrap();
    intervals.merge(&intervals.clone());
    assert_eq!(total(&intervals).count(), max);
}
