//! The history of results: runs in the order of time, and where a metric changes its level.

use std::collections::BTreeMap;

use results::Metric;
use stats::{change_points, change_values_min, median_difference_interval};

use crate::compare::MedianInterval;
use crate::sequential::sequential_metrics;
use crate::{Observation, distinct};

/// Seed of permutations and resamples: the same runs give the same history.
const SEED: u64 = 1;

/// How often a history without a change has one marked, all metrics of a load together: at most.
pub const FALSE_ALARM_RATE: f64 = 0.05;

/// What a point of a history is, and which metrics are followed.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrendOptions<'a> {
    /// The label or factor whose values are points, such as `version`; `None` for the day (UTC) on
    /// which a run began.
    pub by: Option<&'a str>,
    /// The metrics; those of [`sequential_metrics`] if empty.
    pub metrics: &'a [Metric],
}

/// Histories: one for each load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trend {
    /// What points are: the name of a label or a factor, or `day`.
    pub by: String,
    /// In order of their first runs.
    pub histories: Vec<History>,
    /// Why runs were left out, and how many.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// The history of one load on one target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The profile and the target that the runs share, where there are several.
    pub place: Vec<String>,
    /// Oldest first.
    pub points: Vec<Point>,
    /// One for each metric.
    pub metrics: Vec<MetricHistory>,
}

/// The runs of a version or a day.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// The version, or the day.
    pub name: String,
    /// When its first run began, RFC 3339.
    pub started_at: String,
    /// Indexes of its runs among the observations.
    pub runs: Vec<usize>,
}

/// A metric over the points of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricHistory {
    /// The metric.
    pub metric: Metric,
    /// For each point, the values of its runs that have one, in their order.
    pub values: Vec<Vec<f64>>,
    /// For each point, their median.
    pub medians: Vec<Option<f64>>,
    /// For each point, the confidence interval of its median; `None` with fewer than five values.
    pub intervals: Vec<Option<MedianInterval>>,
    /// In order.
    pub changes: Vec<Change>,
    /// With fewer points than this, no change can be found.
    pub points_min: usize,
}

/// A point from which on a metric is higher or lower than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first point after the change.
    pub point: usize,
    /// Median of the points between the change before and this one.
    pub before: f64,
    /// Median of the points between this change and the next one.
    pub after: f64,
    /// The 95 % interval of the ratio of both; `None` unless all values are above zero.
    pub ratio: Option<[f64; 2]>,
    /// p-value of the split.
    pub p_value: f64,
}

/// Puts runs into the order of time and looks for changes in each metric. A point is one value, the
/// median of its runs: runs of the same day are more alike than those of different days.
///
/// Failed runs are left out, and so are those that cannot be placed, and values that are only lower
/// bounds.
#[must_use]
pub fn trend(observations: &[Observation], options: &TrendOptions<'_>) -> Trend {
    let mut trend = Trend {
        by: options.by.unwrap_or("day").to_owned(),
        ..Trend::default()
    };
    let mut placed: Vec<(usize, String, &str)> = Vec::new();
    for (index, run) in observations.iter().enumerate() {
        match place_in_time(run, options.by) {
            Ok((name, started_at)) => placed.push((index, name, started_at)),
            Err(reason) => *trend.left_out.entry(reason).or_default() += 1,
        }
    }
    placed.sort_by(|one, other| one.2.cmp(other.2));
    let place = |index: usize| {
        let run = &observations[index];
        (run.profile.as_deref(), run.target.as_deref())
    };
    let places = distinct(placed.iter().map(|(index, ..)| place(*index)));
    for wanted in &places {
        let here = placed.iter().filter(|(index, ..)| place(*index) == *wanted);
        let mut points: Vec<Point> = Vec::new();
        for (index, name, started_at) in here {
            match points.iter_mut().find(|point| point.name == *name) {
                Some(point) => point.runs.push(*index),
                None => points.push(Point {
                    name: name.clone(),
                    started_at: (*started_at).to_owned(),
                    runs: vec![*index],
                }),
            }
        }
        let metrics = match options.metrics {
            [] => {
                let runs = points.iter().flat_map(|point| &point.runs);
                let runs: Vec<Observation> = runs.map(|run| observations[*run].clone()).collect();
                sequential_metrics(&runs, &[])
            }
            given => given.to_vec(),
        };
        let level = FALSE_ALARM_RATE / metrics.len().max(1) as f64;
        let metrics = metrics.into_iter();
        trend.histories.push(History {
            place: name_of(*wanted, &places),
            metrics: metrics
                .map(|metric| history(metric, &points, observations, level))
                .collect(),
            points,
        });
    }
    trend
}

/// The name of the point of a run, and when the run began; otherwise why it has no point.
fn place_in_time<'a>(
    run: &'a Observation,
    by: Option<&str>,
) -> Result<(String, &'a str), &'static str> {
    if run.failure.is_some() {
        return Err("failed");
    }
    let started_at = run.started_at().ok_or("do not say when they began")?;
    let name = match by {
        None => started_at.get(..10),
        Some(name) => run.label_or_level(name),
    };
    let name = name.ok_or("do not have the label")?;
    Ok((name.to_owned(), started_at))
}

/// What sets a load and a target apart from the others.
fn name_of(
    (profile, target): (Option<&str>, Option<&str>),
    all: &[(Option<&str>, Option<&str>)],
) -> Vec<String> {
    let profiles = all
        .iter()
        .any(|other| other.0 != profile)
        .then_some(profile);
    let targets = all.iter().any(|other| other.1 != target).then_some(target);
    let names = [profiles, targets].into_iter().flatten().flatten();
    names.map(str::to_owned).collect()
}

fn history(
    metric: Metric,
    points: &[Point],
    observations: &[Observation],
    level: f64,
) -> MetricHistory {
    let values_of = |point: &Point| -> Vec<f64> {
        let known = point.runs.iter();
        let known = known.filter_map(|run| observations[*run].measured(&metric.name));
        let exact = known.filter(|known| !known.is_lower_bound && known.value.is_finite());
        exact.map(|known| known.value).collect()
    };
    let values: Vec<Vec<f64>> = points.iter().map(values_of).collect();
    let medians: Vec<Option<f64>> = values.iter().map(|values| stats::median(values)).collect();
    let of_series = medians.iter().enumerate();
    let series: Vec<(usize, f64)> = of_series
        .filter_map(|(at, it)| Some((at, (*it)?)))
        .collect();
    MetricHistory {
        intervals: values
            .iter()
            .map(|values| MedianInterval::of(values))
            .collect(),
        changes: changes(&series, level),
        points_min: change_values_min(level, SEED),
        metric,
        values,
        medians,
    }
}

/// The changes of a series of points with their medians.
fn changes(series: &[(usize, f64)], level: f64) -> Vec<Change> {
    let values: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
    let found = change_points(&values, level, SEED);
    let levels = stats::levels_between(&values, &found);
    let ends = levels.iter().skip(2).map(|(begin, _)| *begin);
    let parts = levels.windows(2).zip(ends.chain([values.len()]));
    let change = |(both, end): (&[(usize, f64)], usize)| {
        let [(begin, before), (at, after)] = [both[0], both[1]];
        (
            at,
            before,
            after,
            ratio(&values[begin..at], &values[at..end]),
        )
    };
    let both = parts.map(change).zip(&found);
    both.map(|((at, before, after, ratio), found)| Change {
        point: series[at].0,
        before,
        after,
        ratio,
        p_value: found.p_value,
    })
    .collect()
}

/// The 95 % interval of the ratio of the medians.
fn ratio(before: &[f64], after: &[f64]) -> Option<[f64; 2]> {
    if before.iter().chain(after).any(|value| *value <= 0.0) {
        return None;
    }
    let [before, after] =
        [before, after].map(|values| values.iter().map(|value| value.ln()).collect::<Vec<_>>());
    let interval = median_difference_interval(&before, &after, 0.95, SEED)?;
    Some([interval.low.exp(), interval.high.exp()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrialFacts;
    use results::Setting;

    /// A run of a day with this rate and a latency that never changes.
    fn run(day: usize, rate: f64) -> Observation {
        let trial = TrialFacts {
            started_at: Some(format!("2026-10-{day:02}T03:00:00Z")),
            ..TrialFacts::default()
        };
        let latency = 5_000.0 + (day * 7 % 5) as f64;
        let names = [("requests_per_sec", rate), ("latency_p99_us", latency)];
        Observation {
            values: names.map(|(name, value)| (name.to_owned(), value)).into(),
            settings: vec![Setting {
                factor: "version".to_owned(),
                level: format!("1.{day}"),
            }],
            trial: Some(Box::new(trial)),
            ..Observation::default()
        }
    }

    /// Five runs a day, the newest first, with a scatter of 1 % and a drop of 10 % on day 15.
    fn runs(days: usize) -> Vec<Observation> {
        let mut random = fastrand::Rng::with_seed(1);
        let days = (1..=days).rev().flat_map(|day| [day; 5]);
        days.map(|day| {
            let level = if day < 15 { 1_000.0 } else { 900.0 };
            run(day, level * (1.0 + 0.02 * (random.f64() - 0.5)))
        })
        .collect()
    }

    #[test]
    fn a_drop_is_found_at_its_day_with_an_interval() {
        let trend = trend(&runs(25), &TrendOptions::default());
        let [history] = &trend.histories[..] else {
            panic!("{trend:?}");
        };
        assert_eq!(history.points.len(), 25);
        assert!(history.points.iter().all(|point| point.runs.len() == 5));
        assert_eq!(history.points[0].name, "2026-10-01");
        let [rate, p99] = &history.metrics[..] else {
            panic!("{history:?}");
        };
        let [change] = rate.changes[..] else {
            panic!("{rate:?}");
        };
        assert_eq!(history.points[change.point].name, "2026-10-15");
        let [low, high] = change.ratio.expect("values are above zero");
        assert!(
            low <= 0.9 && 0.9 <= high && low > 0.88 && high < 0.92,
            "{change:?}"
        );
        assert!(change.p_value < 0.01, "{change:?}");
        assert!(rate.intervals.iter().all(Option::is_some));
        assert_eq!(p99.changes, []);
    }

    #[test]
    fn points_are_versions_if_a_label_is_named() {
        let options = TrendOptions {
            by: Some("version"),
            ..TrendOptions::default()
        };
        let mut all = runs(20);
        all[0].failure = Some("nothing was answered".to_owned());
        all.push(Observation::default());
        let found = trend(&all, &options);
        assert_eq!(found.by, "version");
        assert_eq!(found.histories[0].points[14].name, "1.15");
        assert_eq!(found.histories[0].metrics[0].changes[0].point, 14);
        let left_out = [("do not say when they began", 1), ("failed", 1)];
        assert_eq!(found.left_out, left_out.into());
        let options = TrendOptions {
            by: Some("branch"),
            ..options
        };
        let found = trend(&all, &options);
        assert_eq!(found.histories, []);
        assert_eq!(found.left_out["do not have the label"], 99);
    }

    #[test]
    fn few_points_have_no_change_and_say_how_many_are_needed() {
        let all: Vec<Observation> = runs(19)
            .into_iter()
            .filter(|run| run.started_at().is_some_and(|day| day > "2026-10-13"))
            .collect();
        let found = trend(&all, &TrendOptions::default());
        let rate = &found.histories[0].metrics[0];
        assert_eq!((rate.medians.len(), rate.changes.len()), (7, 0));
        assert!((9..=11).contains(&rate.points_min), "{rate:?}");
    }

    #[test]
    fn loads_and_targets_have_histories_of_their_own() {
        let mut all = runs(20);
        for (at, run) in all.iter_mut().enumerate() {
            run.target = Some(["http://a/", "http://b/"][at % 2].to_owned());
            run.profile = Some("c64".to_owned());
        }
        let found = trend(&all, &TrendOptions::default());
        let places: Vec<&[String]> = found.histories.iter().map(|it| &it.place[..]).collect();
        assert_eq!(places.len(), 2);
        assert!(places.iter().all(|place| place.len() == 1), "{places:?}");
        assert!(
            found
                .histories
                .iter()
                .all(|it| it.metrics[0].changes.len() == 1)
        );
    }
}
