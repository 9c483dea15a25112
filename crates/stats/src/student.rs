//! Quantiles of Student's t-distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The quantile of Student's distribution ("The Probable Error of a Mean", 1908) for degrees of
/// freedom that need not be whole. `None` if `probability` is not between 0 and 1 or `freedom` is
/// not positive and finite.
#[must_use]
pub fn student_t_quantile(probability: f64, freedom: f64) -> Option<f64> {
    if !(probability > 0.0 && probability < 1.0 && freedom.is_finite()) {
        return None;
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(student.inverse_cdf(probability))
}

/// The two-sided p-value of a t statistic. `None` if `freedom` is not positive and finite, or `t`
/// is not a number.
#[must_use]
pub fn student_t_p_value(t: f64, freedom: f64) -> Option<f64> {
    if t.is_nan() || !freedom.is_finite() {
        return None;
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * student.sf(t.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, expected) in [
            (0.975, 1.0, 12.706_205),
            (0.975, 10.0, 2.228_139),
            (0.95, 5.0, 2.015_048),
            (0.025, 10.0, -2.228_139),
            (0.975, 1_000.0, 1.962_339),
        ] {
            let found = student_t_quantile(probability, freedom).expect("a share");
            assert!((found - expected).abs() < 1e-5, "{freedom}: {found}");
        }
        let between = student_t_quantile(0.975, 10.5).expect("a share");
        assert!((2.200_985..2.228_139).contains(&between), "{between}");
    }

    #[test]
    fn the_p_value_is_the_share_outside_the_quantiles() {
        for (t, freedom, expected) in [
            (12.706_205, 1.0, 0.05),
            (-2.228_139, 10.0, 0.05),
            (0.0, 5.0, 1.0),
            (f64::INFINITY, 5.0, 0.0),
        ] {
            let found = student_t_p_value(t, freedom).expect("a number");
            assert!((found - expected).abs() < 1e-6, "{t}: {found}");
        }
        assert_eq!(student_t_p_value(f64::NAN, 5.0), None);
        assert_eq!(student_t_p_value(1.0, 0.0), None);
    }

    #[test]
    fn what_is_no_share_and_no_freedom_has_no_quantile() {
        for (probability, freedom) in [
            (0.0, 5.0),
            (1.0, 5.0),
            (f64::NAN, 5.0),
            (0.9, 0.0),
            (0.9, -1.0),
            (0.9, f64::NAN),
            (0.9, f64::INFINITY),
        ] {
            assert_eq!(student_t_quantile(probability, freedom), None);
        }
    }
}
