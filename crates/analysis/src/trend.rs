//! The history of results: runs in the order of time, and where a metric changes its level.

use std::collections::BTreeMap;

use results::Metric;
use stats::Course;

use crate::compare::own_part::{self, Figures};
use crate::compare::{CompareOptions, MedianInterval};
use crate::sequential::sequential_metrics;
use crate::{Observation, distinct};

/// Seed of permutations and resamples: the same runs give the same history.
const SEED: u64 = 1;

/// How often a history without a change says anything of one, all metrics of a load together: at
/// most.
pub const FALSE_ALARM_RATE: f64 = 0.05;

/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// A change without what the load generator caused is the same one if it is this near.
const NEAR_POINTS: usize = 2;

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
    /// A steady rise or fall beside the changes.
    pub drift: Option<Drift>,
    /// The newest points, if they differ and are too few for a change.
    pub newest: Option<NewestDifference>,
    /// For each point with a value the level that it has by changes and drift; none without them.
    pub levels: Vec<Option<f64>>,
    /// With fewer points than this, no change can be found.
    pub points_min: usize,
}

/// A point from which on a metric is higher or lower than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first point after the change.
    pub point: usize,
    /// Level of the points between the change before and this one.
    pub before: f64,
    /// Level of the points between this change and the next one.
    pub after: f64,
    /// The 95 % interval of the ratio of both; `None` unless all values are above zero.
    pub ratio: Option<[f64; 2]>,
    /// p-value of the change: by sizes or by ranks, whichever is clearer.
    pub p_value: f64,
    /// The p-values by sizes and by ranks, if the change is found by one of them only.
    pub disagreement: Option<[f64; 2]>,
    /// Whether it is not there without what the load generator caused.
    pub is_explained: bool,
}

/// A steady rise or fall of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Indexes of the last point before it and of the first one after it.
    pub points: [usize; 2],
    /// The levels at these points.
    pub levels: [f64; 2],
    /// The change from one point to the next, and the ends of its 95 % interval: as ratios if all
    /// values are above zero, otherwise as differences.
    pub each: [f64; 3],
    /// Whether `each` are ratios.
    pub is_ratio: bool,
    /// p-value of the changes that it would otherwise be.
    pub p_value: f64,
    /// Whether it is not there without what the load generator caused.
    pub is_explained: bool,
}

/// Newest points that differ from the last level, but are too few for a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewestDifference {
    /// Indexes of the first and the last of them.
    pub points: [usize; 2],
    /// Indexes of the first and the last point of the level.
    pub stable: [usize; 2],
    /// Level of the stable points before.
    pub before: f64,
    /// Level of the newest.
    pub after: f64,
    /// The 95 % interval of the ratio of both, which knows how much points of one level scatter;
    /// `None` unless all values are above zero.
    pub ratio: Option<[f64; 2]>,
    /// How many further points of the same level would make it a change in most cases; `None` if
    /// more than [`NewestDifference::FURTHER_MAX`].
    pub further: Option<usize>,
    /// Whether it is not there without what the load generator caused.
    pub is_explained: bool,
}

impl NewestDifference {
    /// The most further points that are tried.
    pub const FURTHER_MAX: usize = stats::Newest::FURTHER_MAX;
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
    let values = values_of(&metric, points, observations, Figures::Measured);
    let medians: Vec<Option<f64>> = values.iter().map(|values| stats::median(values)).collect();
    let mut found = Findings::of(&values, level);
    let runs = points.iter().flat_map(|point| &point.runs);
    let runs: Vec<&Observation> = runs.map(|run| &observations[*run]).collect();
    if own_part::matters(&runs, &metric, CompareOptions::THRESHOLD) {
        let without_own = values_of(&metric, points, observations, Figures::WithoutOwn);
        found.check_with(&Findings::of(&without_own, level));
    }
    MetricHistory {
        intervals: values
            .iter()
            .map(|values| MedianInterval::of(values))
            .collect(),
        changes: found.changes,
        drift: found.drift,
        newest: found.newest,
        levels: found.levels,
        points_min: Course::values_min(level, SEED),
        metric,
        values,
        medians,
    }
}

/// For each point, the values of its runs that are known exactly.
fn values_of(
    metric: &Metric,
    points: &[Point],
    observations: &[Observation],
    figures: Figures,
) -> Vec<Vec<f64>> {
    let of_point = |point: &Point| -> Vec<f64> {
        let runs = point.runs.iter().map(|run| &observations[*run]);
        let exact = runs.filter(|run| {
            let known = run.measured(&metric.name);
            known.is_some_and(|known| !known.is_lower_bound && known.value.is_finite())
        });
        exact
            .filter_map(|run| figures.value_of(run, metric))
            .collect()
    };
    points.iter().map(of_point).collect()
}

/// What the values of a metric show over the points.
#[derive(Debug, Default)]
struct Findings {
    changes: Vec<Change>,
    drift: Option<Drift>,
    newest: Option<NewestDifference>,
    levels: Vec<Option<f64>>,
}

impl Findings {
    /// Of the logarithms of the values, if they have some: then all differences are ratios.
    fn of(values: &[Vec<f64>], level: f64) -> Self {
        let is_ratio = values.iter().flatten().all(|value| *value > 0.0);
        let scale = Scale { is_ratio };
        let known = values.iter().enumerate().filter(|(_, it)| !it.is_empty());
        let (places, groups): (Vec<usize>, Vec<Vec<f64>>) = known
            .map(|(place, runs)| (place, runs.iter().map(|it| scale.of(*it)).collect()))
            .unzip();
        let course = Course::of(&groups, level, SEED);
        let has_levels = !course.changes.is_empty() || course.drift.is_some();
        let mut levels = vec![None; values.len()];
        for (place, fitted) in places.iter().zip(&course.levels).filter(|_| has_levels) {
            levels[*place] = Some(scale.back(*fitted));
        }
        let changes = course.changes.iter().enumerate();
        let changes = changes.map(|(number, change)| {
            let interval = course.interval(number, CONFIDENCE);
            let is_found = [change.by_sizes, change.by_ranks].map(|p| p <= course.level);
            Change {
                point: places[change.at],
                before: scale.back(course.levels[change.at - 1]),
                after: scale.back(course.levels[change.at]),
                ratio: interval.and_then(|ends| scale.ratios(ends)),
                p_value: change.p_value,
                disagreement: (is_found[0] != is_found[1])
                    .then_some([change.by_sizes, change.by_ranks]),
                is_explained: false,
            }
        });
        Self {
            changes: changes.collect(),
            drift: course
                .drift
                .map(|drift| scale.drift(&drift, &course, &places)),
            newest: course.newest.map(|newest| scale.newest(&newest, &places)),
            levels,
        }
    }

    /// Marks what `without_own`, the same without what the load generator caused, does not show.
    fn check_with(&mut self, without_own: &Self) {
        let is_near = |point: usize, is_higher: bool| {
            let changes = without_own.changes.iter();
            let mut same = changes.filter(|it| (it.after > it.before) == is_higher);
            same.any(|it| it.point.abs_diff(point) <= NEAR_POINTS)
        };
        let is_drift = |point: usize, is_higher: bool| {
            without_own.drift.is_some_and(|drift| {
                (drift.levels[1] > drift.levels[0]) == is_higher
                    && (drift.points[0]..=drift.points[1]).contains(&point)
            })
        };
        for change in &mut self.changes {
            let is_higher = change.after > change.before;
            let holds = is_near(change.point, is_higher) || is_drift(change.point, is_higher);
            change.is_explained = !holds;
        }
        if let Some(drift) = &mut self.drift {
            let is_higher = drift.levels[1] > drift.levels[0];
            let mut points = drift.points[0]..=drift.points[1];
            drift.is_explained =
                !points.any(|point| is_near(point, is_higher) || is_drift(point, is_higher));
        }
        if let Some(newest) = &mut self.newest {
            let is_higher = newest.after > newest.before;
            let other = without_own.newest;
            let holds = other.is_some_and(|other| (other.after > other.before) == is_higher);
            newest.is_explained = !holds && !is_near(newest.points[0], is_higher);
        }
    }
}

/// How values are compared: by ratios, which are differences of logarithms, or by differences.
#[derive(Debug, Clone, Copy)]
struct Scale {
    is_ratio: bool,
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        if self.is_ratio { value.ln() } else { value }
    }

    fn back(self, value: f64) -> f64 {
        if self.is_ratio { value.exp() } else { value }
    }

    fn ratios(self, ends: [f64; 2]) -> Option<[f64; 2]> {
        self.is_ratio.then(|| ends.map(f64::exp))
    }

    fn drift(self, drift: &stats::Drift, course: &Course, places: &[usize]) -> Drift {
        let [low, high] = drift.interval;
        Drift {
            points: [drift.from, drift.to].map(|at| places[at]),
            levels: [drift.from, drift.to].map(|at| self.back(course.levels[at])),
            each: [drift.slope, low, high].map(|it| self.back(it)),
            is_ratio: self.is_ratio,
            p_value: drift.p_value,
            is_explained: false,
        }
    }

    fn newest(self, newest: &stats::Newest, places: &[usize]) -> NewestDifference {
        let first = places.len() - newest.count;
        NewestDifference {
            points: [first, places.len() - 1].map(|at| places[at]),
            stable: [newest.stable_from, first - 1].map(|at| places[at]),
            before: self.back(newest.before),
            after: self.back(newest.before + newest.difference),
            ratio: self.ratios(newest.interval),
            further: newest.further,
            is_explained: false,
        }
    }
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

    /// Five runs of each of these levels, with a scatter of 1 % of versions and of runs.
    fn versions(levels: &[f64]) -> Vec<Observation> {
        let mut random = fastrand::Rng::with_seed(4);
        let mut scatter = || 0.02 * (random.f64() - 0.5);
        let mut all = Vec::new();
        for (level, day) in levels.iter().zip(1..) {
            let of_version = scatter();
            all.extend((0..5).map(|_| run(day, level * (1.0 + of_version + scatter()))));
        }
        all
    }

    fn rate_of(runs: &[Observation]) -> MetricHistory {
        let metrics = [Metric::named("requests_per_sec")];
        let options = TrendOptions {
            by: Some("version"),
            metrics: &metrics,
        };
        trend(runs, &options).histories.remove(0).metrics.remove(0)
    }

    #[test]
    fn newest_versions_that_fell_are_named_before_they_are_a_change() {
        let levels = [vec![1_000.0; 24], vec![900.0]].concat();
        let rate = rate_of(&versions(&levels));
        assert_eq!(rate.changes, []);
        let newest = rate.newest.expect("the newest version is 10 % lower");
        assert_eq!((newest.points, newest.stable), ([24, 24], [0, 23]));
        let [low, high] = newest.ratio.expect("values are above zero");
        assert!(low < 0.9 && 0.9 < high && high < 0.95, "{newest:?}");
        assert!(matches!(newest.further, Some(1 | 2)), "{newest:?}");
        let levels = [levels, vec![900.0; 2]].concat();
        let rate = rate_of(&versions(&levels));
        assert_eq!(rate.newest, None);
        assert_eq!(rate.changes.len(), 1, "{rate:?}");
        assert_eq!(rate.changes[0].point, 24);
    }

    #[test]
    fn a_steady_fall_is_a_drift_and_no_staircase() {
        let levels: Vec<f64> = (0..28).map(|at| 1_000.0 * 0.995_f64.powi(at)).collect();
        let rate = rate_of(&versions(&levels));
        let drift = rate.drift.expect("it falls by 0.5 % a version");
        assert_eq!(rate.changes, []);
        let [each, low, high] = drift.each;
        assert!(low < 0.995 && 0.995 < high && (each - 0.995).abs() < 1e-3);
        assert!(drift.points[0] < 4 && drift.points[1] > 23, "{drift:?}");
    }

    #[test]
    fn what_the_load_generator_caused_is_no_change_of_the_server() {
        let levels = [vec![1_000.0; 14], vec![900.0; 14]].concat();
        let mut all = versions(&levels);
        let of_server = rate_of(&all);
        assert!(!of_server.changes[0].is_explained, "{of_server:?}");
        // From version 15 on, the load generator took a tenth of the time.
        for run in &mut all {
            let rate = run.values["requests_per_sec"];
            let own = if rate < 950.0 { 0.9 } else { 1.0 };
            run.without_own
                .insert("requests_per_sec".to_owned(), rate / own);
        }
        let of_generator = rate_of(&all);
        assert_eq!(of_generator.changes.len(), 1);
        assert!(of_generator.changes[0].is_explained, "{of_generator:?}");
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
