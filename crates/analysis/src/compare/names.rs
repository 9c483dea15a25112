//! New runs against old ones by the requests with each name.

use results::metric;
use serde::Serialize;

use super::{CompareError, CompareOptions, Comparison, Metric, Named, compare_with_base};
use crate::{of_request_name, request_names};

/// The comparisons of requests by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NameComparisons {
    /// Requests per second, p50 and p99 of the latency of each name that both sides have. The first
    /// part of the place is the name.
    pub comparisons: Vec<Comparison>,
    /// Names that only one side has, which are not compared.
    pub only_one_side: Vec<OnlyOneSide>,
}

/// Names that one side has and the other one does not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnlyOneSide {
    /// The side that has them.
    pub side: String,
    /// The names, in order of appearance.
    pub names: Vec<String>,
}

/// Compares the requests with each name as [`compare_with_base`] compares whole runs: what a run
/// measured of a name is one value. P-values are not adjusted for the number of names.
///
/// # Errors
/// If the requests of a side have no names, or there is nothing to compare.
pub fn compare_names(
    base: Named<'_>,
    new: Named<'_>,
    threshold: f64,
) -> Result<NameComparisons, CompareError> {
    let (old_names, new_names) = (names_of(base)?, names_of(new)?);
    let mut found = NameComparisons::default();
    let (common, only_old): (Vec<String>, Vec<String>) = old_names
        .into_iter()
        .partition(|name| new_names.contains(name));
    let is_only_new = |name: &String| !common.contains(name);
    let only_new = new_names.into_iter().filter(is_only_new).collect();
    for (side, names) in [(base, only_old), (new, only_new)] {
        let side = side.name.to_owned();
        found.only_one_side.push(OnlyOneSide { side, names });
    }
    found.only_one_side.retain(|side| !side.names.is_empty());
    for name in common {
        let [old, fresh] = [base, new].map(|side| of_request_name(side.runs, &name));
        let percentiles = [50.0, 99.0].map(|percent| metric::percentile("latency", percent));
        let metrics = [metric::REQUESTS_PER_SEC.to_owned()]
            .into_iter()
            .chain(percentiles);
        // Without a response, a name has no latency.
        let is_measured = |name: &String| {
            let mut runs = old.iter().chain(&fresh);
            runs.any(|run| run.value(name).is_some())
        };
        let options = CompareOptions {
            metrics: metrics
                .filter(is_measured)
                .map(|name| Metric::named(&name))
                .collect(),
            threshold,
            is_sequential: false,
        };
        let [old, fresh] = [(base, &old), (new, &fresh)].map(|(side, runs)| Named {
            name: side.name,
            runs,
        });
        let mut conclusions = compare_with_base(old, fresh, &options)?;
        for comparison in &mut conclusions.comparisons {
            comparison.place.insert(0, name.clone());
        }
        found.comparisons.append(&mut conclusions.comparisons);
    }
    Ok(found)
}

/// The names in the runs that did not fail.
fn names_of(side: Named<'_>) -> Result<Vec<String>, CompareError> {
    let good = side.runs.iter().filter(|run| run.failure.is_none());
    let names = request_names(good);
    if names.is_empty() {
        Err(CompareError::NoNames {
            which: side.name.to_owned(),
        })
    } else {
        Ok(names)
    }
}
