//! Which percentiles rest on too few samples to be believed.

use std::fmt;

use crate::summary::{enough_samples, rank};

/// Percentiles with fewer samples above them than make a figure. [`fmt::Display`] gives one line for people.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinPercentiles {
    /// Samples of the distribution.
    pub samples: u64,
    /// The percentile, 0..=100, and how many samples lie above it.
    pub rows: Vec<(f64, u64)>,
}

impl ThinPercentiles {
    /// Those of `printed` that are thin in a distribution of so many samples; `None` if all can be
    /// believed, or if there is no distribution.
    #[must_use]
    pub fn among(printed: &[f64], samples: u64) -> Option<Self> {
        let rows: Vec<(f64, u64)> = printed
            .iter()
            .filter(|percent| samples > 0 && !enough_samples(**percent, samples))
            .map(|percent| (*percent, samples.saturating_sub(rank(*percent, samples))))
            .collect();
        (!rows.is_empty()).then_some(Self { samples, rows })
    }
}

impl fmt::Display for ThinPercentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (percent, above)) in self.rows.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{percent}% rests on {above}")?;
        }
        let samples = match self.rows.last() {
            Some((_, 1)) => "sample",
            _ => "samples",
        };
        write!(f, " {samples} above it, of {}", self.samples)?;
        f.write_str(": such figures are mostly chance; run longer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_listed_with_the_samples_above_them() {
        let printed = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
        let thin = ThinPercentiles::among(&printed, 1000).unwrap();
        assert_eq!(thin.rows, [(99.9, 1), (99.99, 0), (99.999, 0)]);
        assert_eq!(
            thin.to_string(),
            "99.9% rests on 1, 99.99% rests on 0, 99.999% rests on 0 samples above it, of 1000: \
             such figures are mostly chance; run longer"
        );
    }

    #[test]
    fn one_sample_is_one() {
        let thin = ThinPercentiles::among(&[99.9], 1_000).unwrap();
        let said =
            "99.9% rests on 1 sample above it, of 1000: such figures are mostly chance; run longer";
        assert_eq!(thin.to_string(), said);
    }

    #[test]
    fn nothing_is_listed_where_the_samples_suffice_or_where_there_are_none() {
        for (printed, samples) in [
            (&[50.0, 99.0, 100.0][..], 1000),
            (&[99.999, 100.0], 1_000_000),
            (&[100.0], 1),
            (&[50.0, 99.0], 0),
            (&[], 5),
        ] {
            assert_eq!(ThinPercentiles::among(printed, samples), None, "{samples}");
        }
        assert!(ThinPercentiles::among(&[99.999], 980_000).is_some());
    }
}
