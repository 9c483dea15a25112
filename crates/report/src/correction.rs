//! wrk's correction for coordinated omission (`stats_correct`): samples invented after the run.
//!
//! It assumes that a connection would have sent a request every `interval` if it had not waited for
//! a slow response, and adds for each slow sample those that these requests might have had. The
//! result is not a measured distribution; it is for comparisons with old numbers.

use results::Histogram;

/// The largest number of steps. A valid run needs fewer than it has requests; in a damaged file a
/// sample may last a century.
const STEPS_MAX: u64 = 100_000_000;

/// The mean time per request of a connection, computed as in wrk: in whole microseconds, each
/// division rounded down. `None` with less than one request per connection, or if the interval is
/// zero.
pub(crate) fn expected_interval_ns(
    duration_ns: u64,
    answered: u64,
    connections: u64,
) -> Option<u64> {
    let per_connection = answered.checked_div(connections)?;
    let interval_us = (duration_ns / 1000).checked_div(per_connection)?;
    (interval_us > 0).then(|| interval_us.saturating_mul(1000))
}

/// For each sample v of at least twice the interval, adds v - interval, v - 2 interval, ... while
/// they exceed the interval.
///
/// wrk does not update its smallest sample and so leaves invented samples below it out of the
/// percentiles, but not out of their count; here they are in both.
pub(crate) fn corrected(measured: &Histogram, interval_ns: u64) -> Histogram {
    corrected_within(STEPS_MAX, measured, interval_ns)
}

fn corrected_within(steps_max: u64, measured: &Histogram, interval_ns: u64) -> Histogram {
    let mut corrected = measured.clone();
    let mut steps = 0;
    for (value_ns, count) in measured.distinct() {
        if value_ns / 2 < interval_ns {
            continue;
        }
        let mut invented_ns = value_ns - interval_ns;
        while invented_ns > interval_ns && steps < steps_max {
            corrected.record_n(invented_ns, count);
            invented_ns -= interval_ns;
            steps += 1;
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn of(samples_us: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &sample_us in samples_us {
            histogram.record(sample_us * US);
        }
        histogram
    }

    #[test]
    fn the_interval_is_rounded_down_twice() {
        // 103 / 10 is 10, 3_010_000 us / 10 is 301_000 us.
        assert_eq!(
            expected_interval_ns(3_010_000_999, 103, 10),
            Some(301_000_000)
        );
        assert_eq!(expected_interval_ns(1_000_000_000, 7, 1), Some(142_857_000));
    }

    #[test]
    fn without_a_whole_request_per_connection_there_is_no_interval() {
        for (duration_ns, answered, connections) in [
            (1_000_000_000, 9, 10),
            (1_000_000_000, 0, 10),
            (1_000_000_000, 5, 0),
            (900, 5, 5),
        ] {
            assert_eq!(
                expected_interval_ns(duration_ns, answered, connections),
                None
            );
        }
    }

    #[test]
    fn each_slow_sample_adds_those_it_may_have_delayed() {
        let corrected = corrected(&of(&[10, 10, 100, 100]), 30 * US);
        // 70 and 40 for each 100; not 10, which is no more than the interval.
        let values: Vec<(u64, u64)> = corrected
            .distinct()
            .map(|(value_ns, count)| (value_ns / US, count))
            .collect();
        assert_eq!(values, [(10, 2), (40, 2), (70, 2), (100, 2)]);
    }

    #[test]
    fn a_sample_of_exactly_two_intervals_adds_none() {
        let measured = of(&[59, 60]);
        assert_eq!(corrected(&measured, 30 * US), measured);
        assert_eq!(corrected(&of(&[61]), 30 * US).count(), 2);
    }

    #[test]
    fn a_century_in_a_damaged_file_does_not_delay_the_report() {
        let mut measured = Histogram::new();
        measured.record(u64::MAX);
        let corrected = corrected_within(500, &measured, 1000);
        assert_eq!(corrected.count(), 501);
    }
}
