//! Order statistics and moments of samples.

/// The samples in ascending order.
#[must_use]
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut ascending = samples.to_vec();
    ascending.sort_by(f64::total_cmp);
    ascending
}

/// The sample of rank ceil(q * n), 1..=n, of samples in ascending order (nearest-rank definition:
/// the lowest one that at least a share `q` of the samples do not exceed); `None` without samples.
#[must_use]
pub fn quantile(ascending: &[f64], q: f64) -> Option<f64> {
    let exact = q.clamp(0.0, 1.0) * ascending.len() as f64;
    // 0.999 * 1000 is a little above 999 in floating point; without a tolerance the rank would be
    // one too high.
    let rank = (exact - exact * 4.0 * f64::EPSILON).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

/// The middle value, or the mean of the two middle ones; `None` without samples.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    let ascending = sorted(samples);
    let upper = *ascending.get(ascending.len() / 2)?;
    if ascending.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(ascending[ascending.len() / 2 - 1], upper))
}

/// Arithmetic mean; `None` without samples.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_sample_of_the_nearest_rank() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = [0.0, 0.1, 0.5, 0.51, 0.9, 0.95, 1.0].map(|q| quantile(&ten, q));
        let expected = [1.0, 1.0, 5.0, 6.0, 9.0, 10.0, 10.0].map(Some);
        assert_eq!(found, expected);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(quantile(&thousand, 0.999), Some(999.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&ten, f64::NAN), Some(1.0));
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn samples_are_sorted_and_averaged() {
        assert_eq!(sorted(&[3.0, -1.0, 2.0]), [-1.0, 2.0, 3.0]);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
    }
}
