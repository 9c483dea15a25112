//! A run that was given several times, in one form or in several, counts once.

use std::collections::BTreeMap;

use plan::RunPlan;
use results::metric;

use super::limited;
use crate::resolution::rounding_us;
use crate::{Form, Observation};

/// Times that must agree if both runs have them. Requests and their rate are not enough: at a fixed
/// rate they are the same in every run.
const TIMES: [&str; 8] = [
    metric::DURATION_US,
    metric::LATENCY_MEAN_US,
    "latency_stdev_us",
    "latency_max_us",
    "latency_p50_us",
    "latency_p75_us",
    "latency_p90_us",
    "latency_p99_us",
];

/// How many of the times must agree, the duration included.
const TIMES_MIN: usize = 2;

/// A rate of at least this many requests per second, printed with two decimals, says more than any
/// time: one time must agree in addition.
const TELLING_RATE: f64 = 1_000.0;

/// Rates are printed with two decimals.
const RATE_STEP: f64 = 0.006;

/// The figures of a run by which copies are recognized. They are looked up once, since a text with
/// thousands of runs may have as many of the same rate.
struct Figures<'r> {
    run: &'r Observation,
    /// The form and the position among all runs: the smaller one of two copies is the original.
    order: (Form, usize),
    rate: f64,
    times: [Option<f64>; TIMES.len()],
}

/// Removes runs that were given before, or in a more complete form, with a note for each.
pub(crate) fn drop_copies<'a>(
    groups: impl Iterator<Item = &'a mut Vec<Observation>>,
) -> Vec<String> {
    let mut groups: Vec<&mut Vec<Observation>> = groups.collect();
    let originals = originals(groups.iter().flat_map(|runs| runs.iter()));
    let mut notes = Vec::new();
    let mut positions = 0..;
    for runs in &mut groups {
        runs.retain(|run| {
            let original = positions.next().and_then(|at| originals.get(&at));
            notes.extend(original.map(|original| {
                format!("{}: the same run as {original}, counted once", run.source)
            }));
            original.is_none()
        });
    }
    let more = "more runs were given several times, and counted once";
    limited(notes, more)
}

/// For each copy, by its position, the source of its original.
fn originals<'r>(runs: impl Iterator<Item = &'r Observation>) -> BTreeMap<usize, String> {
    let runs = runs.enumerate();
    let mut known: Vec<Figures<'_>> = runs.filter_map(|(at, run)| Figures::of(at, run)).collect();
    known.sort_by_key(|figures| figures.order);
    let mut originals = BTreeMap::new();
    // By the bits of their rates: those of positive numbers have the order of the numbers.
    let mut by_rate: BTreeMap<u64, Vec<&Figures<'_>>> = BTreeMap::new();
    for figures in &known {
        let near = (figures.rate - RATE_STEP).max(0.0)..=figures.rate + RATE_STEP;
        let near = by_rate.range(near.start().to_bits()..=near.end().to_bits());
        let mut near = near.flat_map(|(_, known)| known);
        match near.find(|original| figures.is_copy_of(original)) {
            Some(original) => {
                originals.insert(figures.order.1, original.run.source.clone());
            }
            None => {
                let same = by_rate.entry(figures.rate.to_bits()).or_default();
                same.push(figures);
            }
        }
    }
    originals
}

impl<'r> Figures<'r> {
    /// The figures of a run; `None` if it has no rate or has failed.
    fn of(at: usize, run: &'r Observation) -> Option<Self> {
        let rate = run.value(metric::REQUESTS_PER_SEC);
        let rate = rate.filter(|rate| run.failure.is_none() && *rate >= 0.0)?;
        Some(Self {
            run,
            order: (run.form, at),
            // Zero may have a sign, and then other bits.
            rate: rate.abs(),
            times: TIMES.map(|name| run.value(name)),
        })
    }

    /// Whether two runs of about the same rate are one.
    fn is_copy_of(&self, other: &Self) -> bool {
        let (form, other_form) = (self.run.form, other.run.form);
        let requests = || [self, other].map(|it| it.run.value(metric::REQUESTS));
        if form != other_form {
            let is_whole = form == Form::Object || other_form == Form::Object;
            let agree = |a: f64, b: f64| (a - b).abs() <= rounding_us(a.max(b), is_whole);
            return self.times_agree(other, agree)
                && matches!(requests(), [one, other] if one.zip(other).is_none_or(|(a, b)| a == b));
        }
        // Nothing is rounded anew in the same form, so all figures must be the same. Rows of tables
        // often have round figures, which are the same by chance.
        let is_same_row = || {
            let file = |run: &Observation| run.source.rsplit_once(':').map(|it| it.0.to_owned());
            let (one, other) = (self.run, other.run);
            one.is_same_cell(other) && (one.run == other.run || file(one) != file(other))
        };
        self.rate == other.rate
            && self.times_agree(other, |a, b| a == b)
            && matches!(requests(), [one, other] if one == other)
            && started(self.run) == started(other.run)
            && (form != Form::Table || is_same_row())
    }

    /// Whether all times that both have agree, and whether these are enough.
    fn times_agree(&self, other: &Self, agree: impl Fn(f64, f64) -> bool) -> bool {
        let both = self.times.iter().zip(other.times);
        let mut both = both.filter_map(|(a, b)| a.zip(b));
        let enough = if self.rate >= TELLING_RATE {
            1
        } else {
            TIMES_MIN
        };
        both.clone().count() >= enough && both.all(|(a, b)| agree(a, b))
    }
}

/// When a saved result started, its plan and its backend: runs that differ in them are different
/// ones, whatever their figures.
fn started(run: &Observation) -> Option<(u64, &RunPlan, &str)> {
    let result = run.result.as_deref()?;
    let backend = result.backend.name.as_str();
    Some((result.window.started_unix_ms, &result.plan, backend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(form: Form, source: &str, values: &[(&str, f64)]) -> Observation {
        let values = values.iter();
        Observation {
            source: source.to_owned(),
            form,
            values: values
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Observation::default()
        }
    }

    fn of_rate(form: Form, source: &str, max_us: f64) -> Observation {
        let values = [
            (metric::REQUESTS, 10_000.0),
            (metric::REQUESTS_PER_SEC, 1_000.0),
            (metric::DURATION_US, 10e6),
            (metric::LATENCY_MEAN_US, 120.0),
            ("latency_max_us", max_us),
        ];
        run(form, source, &values)
    }

    #[test]
    fn a_copy_has_the_same_times_within_their_rounding() {
        let mut groups = [
            vec![
                of_rate(Form::Saved, "a.json", 1_234.0),
                of_rate(Form::Saved, "b.json", 1_334.0),
            ],
            vec![
                of_rate(Form::Text, "a.txt", 1_230.0),
                of_rate(Form::Text, "c.txt", 1_300.0),
            ],
            vec![of_rate(Form::Table, "t:1", 1_334.0)],
        ];
        let notes = drop_copies(groups.iter_mut());
        assert_eq!(
            notes,
            [
                "a.txt: the same run as a.json, counted once",
                "t:1: the same run as b.json, counted once",
            ]
        );
        assert_eq!(groups.map(|runs| runs.len()), [2, 1, 0]);
    }

    #[test]
    fn the_same_run_in_the_same_form_counts_once() {
        let mut groups = [
            vec![
                of_rate(Form::Text, "a.txt:1", 1_230.0),
                of_rate(Form::Text, "a.txt:9", 1_300.0),
            ],
            vec![
                of_rate(Form::Text, "copy.txt:1", 1_230.0),
                of_rate(Form::Text, "copy.txt:9", 1_300.0),
                // A time that differs by less than its rounding is another run.
                of_rate(Form::Text, "copy.txt:17", 1_300.01),
            ],
        ];
        assert_eq!(
            drop_copies(groups.iter_mut()),
            [
                "copy.txt:1: the same run as a.txt:1, counted once",
                "copy.txt:9: the same run as a.txt:9, counted once",
            ]
        );
        assert_eq!(groups.map(|runs| runs.len()), [2, 1]);
    }

    #[test]
    fn equal_rows_of_one_file_are_copies_only_with_the_same_number() {
        let row = |source: &str, number| Observation {
            run: number,
            ..of_rate(Form::Table, source, 900.0)
        };
        let left = |second| {
            let mut runs = vec![row("a.md:3", 1), second];
            drop_copies(std::iter::once(&mut runs));
            runs.len()
        };
        assert_eq!(left(row("a.md:4", 2)), 2);
        assert_eq!(left(row("a.md:4", 1)), 1);
        assert_eq!(left(row("b.md:3", 2)), 1);
    }

    #[test]
    fn many_runs_of_one_rate_are_compared_quickly() {
        let runs = |max_us: fn(u32) -> f64| -> Vec<Observation> {
            let runs = (0..10_000).map(|at| of_rate(Form::Text, "x", max_us(at)));
            runs.collect()
        };
        let left = |mut runs: Vec<Observation>| {
            drop_copies(std::iter::once(&mut runs));
            runs.len()
        };
        assert_eq!(left(runs(|_| 900.0)), 1);
        assert_eq!(left(runs(f64::from)), 10_000);
    }

    #[test]
    fn runs_without_times_are_not_copies() {
        let bare = [
            (metric::REQUESTS, 10_000.0),
            (metric::REQUESTS_PER_SEC, 1_000.0),
        ];
        let mut groups = [
            vec![of_rate(Form::Text, "a.txt", 1_230.0)],
            vec![
                run(Form::Table, "t:1", &bare),
                run(Form::Table, "t:2", &bare),
            ],
        ];
        assert_eq!(drop_copies(groups.iter_mut()), [""; 0]);
    }
}
