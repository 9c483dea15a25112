//! Histograms with exponential buckets, as OTLP has them and Prometheus as native histograms.

use results::Histogram;

/// The finest scale: a bucket is 2^(1/128) wide, 0.54 %.
pub(crate) const SCALE_MAX: i32 = 7;

/// Buckets from the first to the last one with samples. Those of all times between 1 us and an hour
/// are as many at the finest scale.
pub(crate) const BUCKETS_MAX: usize = 4096;

/// Counts of samples in seconds. Bucket `i` has those above `base^i` and up to `base^(i + 1)`, with
/// a `base` of 2^(2^-scale) (the data model of OpenTelemetry's metrics, "ExponentialHistogram").
///
/// A sample is counted where the value is that the report shows for it, so that a quantile from
/// these buckets is at most half a bucket away from that in the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exponential {
    pub(crate) scale: i32,
    /// Samples of exactly zero, which no bucket has.
    pub(crate) zeros: u64,
    /// The number of the first bucket in `counts`.
    pub(crate) offset: i32,
    /// From the first to the last bucket with samples.
    pub(crate) counts: Vec<u64>,
}

impl Exponential {
    /// The buckets of a histogram, at the finest scale up to `scale_max` with at most `buckets_max`
    /// of them (at least 2).
    pub(crate) fn of(histogram: &Histogram, scale_max: i32, buckets_max: usize) -> Self {
        let (mut scale, mut zeros) = (scale_max, 0);
        let mut numbered = Vec::new();
        for (value_ns, count) in histogram.distinct() {
            match value_ns {
                0 => zeros += count,
                _ => numbered.push((number(value_ns, scale), count)),
            }
        }
        let mut ends = (numbered.first().map(|it| it.0)).zip(numbered.last().map(|it| it.0));
        let mut shift = 0;
        while let Some((first, last)) = ends
            && (last - first) as usize >= buckets_max
        {
            // Two buckets become one: number 2i and 2i + 1 become i.
            shift += 1;
            scale -= 1;
            ends = Some((first >> 1, last >> 1));
        }
        let (offset, last) = ends.unwrap_or((0, -1));
        let mut counts = vec![0; (last - offset + 1) as usize];
        for (number, count) in numbered {
            counts[((number >> shift) - offset) as usize] += count;
        }
        Self {
            scale,
            zeros,
            offset,
            counts,
        }
    }
}

/// The number of the bucket of a time above zero.
fn number(value_ns: u64, scale: i32) -> i32 {
    let log2 = (value_ns as f64 / 1e9).log2();
    (log2 * f64::from(scale).exp2()).ceil() as i32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of a bucket, seconds.
    fn limits(number: i32, scale: i32) -> (f64, f64) {
        let width = f64::from(-scale).exp2();
        let limit = |number: i32| (f64::from(number) * width).exp2();
        (limit(number), limit(number + 1))
    }

    /// The middle of the bucket of the sample with this rank, seconds.
    fn value_at_rank(buckets: &Exponential, rank: u64) -> f64 {
        let mut seen = buckets.zeros;
        for (number, count) in (buckets.offset..).zip(&buckets.counts) {
            seen += count;
            if seen >= rank {
                let (low, high) = limits(number, buckets.scale);
                return (low * high).sqrt();
            }
        }
        panic!("there are fewer samples than {rank}")
    }

    fn skewed() -> Histogram {
        let mut histogram = Histogram::new();
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            histogram.record((20_000.0 / random.f64().max(1e-5)) as u64);
        }
        histogram
    }

    #[test]
    fn every_sample_is_counted_once() {
        let mut histogram = skewed();
        histogram.record_n(0, 7);
        let buckets = Exponential::of(&histogram, SCALE_MAX, BUCKETS_MAX);
        assert_eq!(buckets.zeros, 7);
        assert_eq!(buckets.counts.iter().sum::<u64>() + 7, histogram.count());
        assert_eq!(buckets.scale, SCALE_MAX);
        assert!(buckets.counts.first().is_some_and(|count| *count > 0));
        assert!(buckets.counts.last().is_some_and(|count| *count > 0));
    }

    #[test]
    fn quantiles_are_at_most_half_a_bucket_away_from_those_of_the_report() {
        let histogram = skewed();
        for (scale_max, buckets_max) in [(SCALE_MAX, BUCKETS_MAX), (SCALE_MAX, 160), (3, 20)] {
            let buckets = Exponential::of(&histogram, scale_max, buckets_max);
            assert!(buckets.counts.len() <= buckets_max);
            let half = (f64::from(-buckets.scale).exp2() / 2.0).exp2();
            for permille in 1..=1000_u64 {
                let rank = histogram.count() * permille / 1000;
                let reported = histogram.value_at_percentile(permille as f64 / 10.0) as f64 / 1e9;
                let ratio = value_at_rank(&buckets, rank) / reported;
                let ok = ratio <= half * (1.0 + 1e-9) && ratio >= (1.0 - 1e-9) / half;
                assert!(ok, "{permille}: {ratio}, half a bucket is {half}");
            }
        }
    }

    #[test]
    fn a_bucket_has_its_upper_limit_and_not_its_lower_one() {
        let number_of = |value_ns: u64| {
            let mut histogram = Histogram::new();
            histogram.record(value_ns);
            let buckets = Exponential::of(&histogram, 0, 2);
            assert_eq!(buckets.counts, [1]);
            buckets.offset
        };
        // 1 s = 2^0 is in (0.5, 1].
        assert_eq!(number_of(1_000_000_000), -1);
        assert_eq!(number_of(1_000_000_001), 0);
        assert_eq!(number_of(500_000_000), -2);
        assert_eq!(number_of(2_000_000_000), 0);
        assert_eq!(number_of(1), -30);
    }

    #[test]
    fn any_range_fits_into_two_buckets() {
        let mut histogram = Histogram::new();
        histogram.record(1);
        histogram.record(u64::MAX);
        let buckets = Exponential::of(&histogram, SCALE_MAX, 2);
        assert_eq!(buckets.counts, [1, 1]);
        assert!(buckets.scale < 0, "{}", buckets.scale);
    }

    #[test]
    fn without_samples_there_are_no_buckets() {
        let buckets = Exponential::of(&Histogram::new(), SCALE_MAX, BUCKETS_MAX);
        assert_eq!((buckets.zeros, buckets.counts.len()), (0, 0));
    }
}
