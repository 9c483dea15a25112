//! The histogram compared with sorted samples, exact sums, and merging in another order.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::serialization::Deserializer;
use proptest::prelude::*;
use results::Histogram;

fn of(samples: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for &sample in samples {
        histogram.record(sample);
    }
    histogram
}

/// The sample that at least `percent` of the sorted samples do not exceed.
fn exact_percentile(sorted: &[u64], percent: f64) -> u64 {
    let exact = percent * sorted.len() as f64 / 100.0;
    let rank = (exact - exact * 4.0 * f64::EPSILON).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn json(histogram: &Histogram) -> String {
    serde_json::to_string(histogram).expect("histograms can be written")
}

/// Samples as they occur (0 to a minute), and some extreme ones.
fn samples() -> impl Strategy<Value = Vec<u64>> {
    let sample = prop_oneof![
        10 => 0_u64..3000,
        10 => 0_u64..60_000_000_000,
        2 => 0_u64..100_000_000_000_000,
        1 => any::<u64>(),
    ];
    prop::collection::vec(sample, 0..200)
}

proptest! {
    #[test]
    fn percentiles_are_at_most_a_thousandth_above_the_exact_ones(
        mut samples in prop::collection::vec(0_u64..10_000_000_000_000, 1..500),
        percent in 0.0_f64..=100.0,
    ) {
        let histogram = of(&samples);
        samples.sort_unstable();
        let exact = exact_percentile(&samples, percent);
        let shown = histogram.value_at_percentile(percent);
        prop_assert!(shown >= exact, "p{percent}: {shown} < {exact}");
        prop_assert!((shown - exact) as f64 <= exact as f64 * 0.001, "p{percent}: {shown} > \
             {exact}");
        prop_assert_eq!(histogram.value_at_percentile(100.0), *samples.last().unwrap());
    }

    #[test]
    fn percentiles_stay_within_the_exact_extremes_and_never_decrease(samples in samples()) {
        let histogram = of(&samples);
        let mut before = histogram.min_ns().unwrap_or(0);
        for percent in 0..=20 {
            let value = histogram.value_at_percentile(f64::from(percent) * 5.0);
            prop_assert!(value >= before && value <= histogram.max_ns().unwrap_or(0));
            before = value;
        }
    }

    #[test]
    fn merging_gives_the_same_bits_as_recording_all_samples(a in samples(), b in samples()) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let all = of(&[a, b].concat());
        prop_assert_eq!(&merged, &all);
        prop_assert_eq!(json(&merged), json(&all));
    }

    #[test]
    fn merging_is_associative_and_commutative(a in samples(), b in samples(), c in samples()) {
        let (a, b, c) = (of(&a), of(&b), of(&c));
        let mut left = a.clone();
        left.merge(&b);
        left.merge(&c);
        let mut right = c;
        right.merge(&b);
        right.merge(&a);
        prop_assert_eq!(json(&left), json(&right));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn json_keeps_every_bit(samples in samples()) {
        let histogram = of(&samples);
        let text = json(&histogram);
        let read: Histogram = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &histogram);
        prop_assert_eq!(json(&read), text);
    }

    #[test]
    fn a_histogram_that_was_read_can_record_more(samples in samples(), more in any::<u64>()) {
        let mut read: Histogram = serde_json::from_str(&json(&of(&samples))).unwrap();
        read.record(more);
        prop_assert_eq!(read, of(&[samples, vec![more]].concat()));
    }

    #[test]
    fn damaged_histograms_are_read_or_rejected_without_a_panic(
        samples in samples(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = json(&of(&samples)).into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(read) = serde_json::from_slice::<Histogram>(&text) {
            prop_assert!(read.value_at_percentile(50.0) <= read.max_ns().unwrap_or(0));
        }
    }
}

proptest! {
    // Each case iterates over whole histograms many times.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn several_percentiles_at_once_equal_single_ones(
        samples in samples(),
        percents in prop::collection::vec(-5.0_f64..105.0, 0..20),
    ) {
        let histogram = of(&samples);
        let one_by_one: Vec<u64> = percents
            .iter()
            .map(|&percent| histogram.value_at_percentile(percent))
            .collect();
        prop_assert_eq!(histogram.values_at_percentiles(&percents), one_by_one);
    }

    #[test]
    fn hdrhistogram_reads_the_compressed_form_which_depends_on_the_samples_alone(
        a in prop::collection::vec(0_u64..1 << 61, 0..100),
        b in prop::collection::vec(0_u64..60_000_000_000, 0..100),
    ) {
        let mut merged = of(&b);
        merged.merge(&of(&a));
        let encoded = merged.to_v2_deflate_base64().unwrap();
        prop_assert_eq!(&encoded, &of(&[a, b].concat()).to_v2_deflate_base64().unwrap());
        let bytes = BASE64.decode(encoded).unwrap();
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        let counts = |(value, count): (u64, u64)| (read.lowest_equivalent(value), count);
        let read_counts: Vec<(u64, u64)> = read
            .iter_recorded()
            .map(|step| counts((step.value_iterated_to(), step.count_at_value())))
            .collect();
        prop_assert_eq!(read_counts, merged.distinct().map(counts).collect::<Vec<_>>());
        // The reader has the same layout.
        let (buckets, parts) = merged.layout();
        prop_assert_eq!(buckets, u32::from(read.buckets()));
        prop_assert_eq!((buckets + 1) * parts / 2, read.distinct_values() as u32);
    }
}

#[test]
fn a_million_lognormal_samples_keep_three_digits_everywhere() {
    let mut random = fastrand::Rng::with_seed(1);
    // The sum of twelve uniform numbers is close enough to a normal distribution for a long tail.
    let mut samples: Vec<u64> = (0..1_000_000)
        .map(|_| {
            let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            (1_000_000.0 * (1.5 * normal).exp()) as u64
        })
        .collect();
    let histogram = of(&samples);
    samples.sort_unstable();
    for percent in [
        0.01, 1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0,
    ] {
        let exact = exact_percentile(&samples, percent) as f64;
        let shown = histogram.value_at_percentile(percent) as f64;
        assert!(
            (shown - exact).abs() <= exact * 0.001,
            "p{percent}: {shown}, exact {exact}"
        );
    }
}

#[test]
fn mean_and_deviation_are_those_of_the_exact_samples() {
    let samples = [2, 4, 4, 4, 5, 5, 7, 9].map(|value| value * 1_000_003);
    let histogram = of(&samples);
    assert_eq!(histogram.mean_ns(), 5.0 * 1_000_003.0);
    let expected = (32.0_f64 / 7.0).sqrt() * 1_000_003.0;
    assert!((histogram.stdev_ns() - expected).abs() < 1e-6);
    assert_eq!(histogram.sum_ns(), 40 * 1_000_003);
}

#[test]
fn an_empty_histogram_has_no_extremes_and_no_share() {
    let histogram = Histogram::new();
    assert_eq!((histogram.min_ns(), histogram.max_ns()), (None, None));
    assert_eq!(histogram.within_stdev_percent(), None);
    assert_eq!((histogram.mean_ns(), histogram.stdev_ns()), (0.0, 0.0));
    assert_eq!(histogram.value_at_percentile(99.0), 0);
    assert_eq!(histogram.value_at_percentile(100.0), 0);
    assert_eq!(histogram.distinct().count(), 0);
}

#[test]
fn zero_is_a_sample() {
    let histogram = of(&[0, 0, 10]);
    assert_eq!(
        (histogram.count(), histogram.min_ns(), histogram.max_ns()),
        (3, Some(0), Some(10))
    );
    assert_eq!(histogram.distinct().collect::<Vec<_>>(), [(0, 2), (10, 1)]);
    assert_eq!(histogram.value_at_percentile(50.0), 0);
}

#[test]
fn the_largest_number_is_neither_lost_nor_truncated() {
    let mut histogram = of(&[5, u64::MAX, 7_200_000_000_000]);
    assert_eq!(histogram.count(), 3);
    assert_eq!(histogram.max_ns(), Some(u64::MAX));
    assert_eq!(histogram.value_at_percentile(100.0), u64::MAX);
    let two_hours = histogram.value_at_percentile(66.0) as f64;
    assert!((two_hours / 7.2e12 - 1.0).abs() < 0.001, "{two_hours}");
    let mut small = of(&[1]);
    small.merge(&histogram);
    histogram.record(1);
    assert_eq!(small, histogram);
}

#[test]
fn the_share_within_one_deviation_counts_both_ends() {
    assert_eq!(of(&[7_777_777]).within_stdev_percent(), Some(100.0));
    assert_eq!(of(&[5_000_001; 40]).within_stdev_percent(), Some(100.0));
    assert_eq!(of(&[10, 20, 30, 40]).within_stdev_percent(), Some(50.0));
    let mut mostly = vec![1000; 90];
    mostly.extend([1_000_000; 10]);
    assert_eq!(of(&mostly).within_stdev_percent(), Some(90.0));
}

#[test]
fn percentiles_out_of_range_are_clamped() {
    let histogram = of(&[10, 20, 30]);
    for percent in [-1.0, f64::NEG_INFINITY, f64::NAN, 0.0] {
        assert_eq!(histogram.value_at_percentile(percent), 10, "{percent}");
    }
    for percent in [100.0, 101.0, f64::INFINITY] {
        assert_eq!(histogram.value_at_percentile(percent), 30, "{percent}");
    }
}

#[test]
fn recording_many_at_once_equals_recording_one_many_times() {
    let mut many = Histogram::new();
    many.record_n(123_456, 1000);
    many.record_n(9, 0);
    assert_eq!(many, of(&[123_456; 1000]));
}

/// Cookie, length and zlib data.
fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(plain)
        .expect("writing to memory cannot fail");
    let zlib = encoder.finish().expect("writing to memory cannot fail");
    let length = (zlib.len() as u32).to_be_bytes();
    [vec![0x1c, 0x84, 0x93, 0x14], length.to_vec(), zlib].concat()
}

#[test]
fn what_has_no_samples_is_its_count_and_version_1_is_read() {
    assert_eq!(json(&Histogram::new()), r#"{"count":0}"#);
    let of_version_1 = r#"{"count":0,"min_ns":null,"max_ns":null,"sum_ns":"0",
        "sum_of_squares_ns2":"0",
        "hdr_v2_base64":"HISTEwAAAAEAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAAA="}"#;
    for text in [of_version_1, r#"{"count":0}"#] {
        let read: Histogram = serde_json::from_str(text).unwrap();
        assert_eq!(read, Histogram::new());
    }
    let of_version_1 = r#"{"count":3,"min_ns":1,"max_ns":3,"sum_ns":"6","sum_of_squares_ns2":"14",
        "hdr_v2_base64":"HISTEwAAAAQAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAAECAgI="}"#;
    let read: Histogram = serde_json::from_str(of_version_1).unwrap();
    assert_eq!(read, of(&[1, 2, 3]));
}

#[test]
fn hostile_encodings_are_rejected_with_a_reason() {
    let good = json(&of(&[1, 2, 3]));
    let value: serde_json::Value = serde_json::from_str(&good).unwrap();
    let encoded = value["hdr_v2_deflate_base64"].as_str().unwrap();
    let with_hdr = |hdr: &str| good.replace(encoded, hdr);
    // Not compressed, as in documents of version 1.
    let plain = "HISTEwAAAAMAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAAECAgI=";
    let with_plain = |hdr: &str| {
        let field = |name: &str, hdr: &str| format!("\"{name}\":\"{hdr}\"");
        let written = field("hdr_v2_deflate_base64", encoded);
        good.replace(&written, &field("hdr_v2_base64", hdr))
    };
    let deflated = |plain: &[u8]| with_hdr(&BASE64.encode(deflated(plain)));
    let cases = [
        (with_hdr("!"), "hdr_v2_deflate_base64"),
        (with_hdr(""), "shorter than its header"),
        (with_hdr(&encoded[..encoded.len() - 4]), "not the deflated"),
        (with_hdr(plain), "not the deflated V2 encoding"),
        (deflated(b""), "shorter than its header"),
        (deflated(&[0; 60]), "not the V2 encoding"),
        // A few kilobytes that would decompress to more than the limit.
        (deflated(&vec![0; 64 << 20]), "longer than any"),
        (with_plain("!"), "hdr_v2_base64"),
        (with_plain(""), "shorter than its header"),
        (with_plain(&plain[..plain.len() - 4]), "length"),
        // "Compressed V2" with a payload of four gigabytes.
        (
            with_plain(&format!("HISTFP////{}", &plain[10..])),
            "not the V2 encoding",
        ),
        (
            good.replace(
                "\"count\":3",
                &format!("\"hdr_v2_base64\":\"{plain}\",\"count\":3"),
            ),
            "twice",
        ),
        (
            good.replace("\"count\":3", "\"count\":4"),
            "3 samples are encoded",
        ),
        (good.replace("\"min_ns\":1", "\"min_ns\":2"), "contradict"),
        (good.replace("\"max_ns\":3", "\"max_ns\":4"), "contradict"),
        (
            good.replace("\"max_ns\":3", "\"max_ns\":null"),
            "only one of",
        ),
        (
            good.replace("\"sum_ns\":\"6\"", "\"sum_ns\":\"-6\""),
            "not a whole number",
        ),
        (
            good.replace("\"sum_ns\":\"6\"", "\"sum_ns\":\"600\""),
            "contradict",
        ),
        (good.replace("\"count\":3,", ""), "count"),
        (
            good.replace("\"count\":3,", "\"count\":3,\"colour\":1,"),
            "colour",
        ),
    ];
    for (text, said) in cases {
        let message = serde_json::from_str::<Histogram>(&text)
            .unwrap_err()
            .to_string();
        assert!(message.contains(said), "{text} gives {message}");
    }
}
