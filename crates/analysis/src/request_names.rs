//! The requests with one name as runs of their own, to be shown and compared like runs.

use results::{RunResult, Setting, Warning, metric};

use crate::places::without_result;
use crate::{Observation, distinct};

/// The setting that has the name in [`by_request_name`].
pub const NAME_FACTOR: &str = "name";

/// The names of requests in these runs, in order of appearance.
#[must_use]
pub fn request_names<'a>(runs: impl IntoIterator<Item = &'a Observation>) -> Vec<String> {
    let results = runs.into_iter().filter_map(|run| run.result.as_deref());
    distinct(results.flat_map(RunResult::names).map(str::to_owned))
}

/// One run for each run and each name of its requests. Runs whose requests have no names are left
/// out.
#[must_use]
pub fn by_request_name(runs: &[Observation]) -> Vec<Observation> {
    let parts = runs.iter().flat_map(|run| {
        let names = request_names([run]).into_iter();
        names.filter_map(|name| {
            let mut part = part(run, &name)?;
            part.settings.push(Setting {
                factor: NAME_FACTOR.to_owned(),
                level: name,
            });
            Some(part)
        })
    });
    parts.collect()
}

/// Each run as if the requests with this name were all of its requests. Runs without such requests
/// are left out.
#[must_use]
pub fn of_request_name(runs: &[Observation], name: &str) -> Vec<Observation> {
    runs.iter().filter_map(|run| part(run, name)).collect()
}

fn part(run: &Observation, name: &str) -> Option<Observation> {
    let whole = run.result.as_deref()?;
    let mut result = whole.of_name(name)?;
    // What connections waited for the load generator slowed the requests of every name.
    result.recording.attribution.idle_ns = whole.recording.attribution.idle_ns;
    keep_missed_rate(&mut result, whole);
    Some(Observation {
        values: metric::values(&result),
        result: Some(Box::new(result)),
        failure: run.failure.clone(),
        ..without_result(run)
    })
}

/// A fixed rate belongs to the whole run, so a part has missed it if the run has. The names of the
/// requests that were not sent are unknown: each name gets its share of them.
fn keep_missed_rate(part: &mut RunResult, whole: &RunResult) {
    let counters = &mut part.recording.counters;
    let of_whole = &whole.recording.counters;
    if of_whole.sent > 0 {
        let due = u128::from(counters.due) * u128::from(of_whole.due) / u128::from(of_whole.sent);
        counters.due = u64::try_from(due).unwrap_or(u64::MAX);
    }
    let mut warnings = whole.warnings.clone();
    warnings.retain(|warning| matches!(warning.data, Warning::RateNotSustained { .. }));
    part.warnings = warnings;
}
