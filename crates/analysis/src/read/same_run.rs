//! A run that was given several times, in one form or in several, counts once.

use results::metric;

use crate::resolution::rounding_us;
use crate::{Form, Observation};

/// Limit on notes of one kind.
const NOTES_MAX: usize = 20;

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

/// Removes runs that were given before, or in a more complete form, with a note for each.
pub(super) fn drop_copies<'a>(
    groups: impl Iterator<Item = &'a mut Vec<Observation>>,
) -> Vec<String> {
    let mut groups: Vec<&mut Vec<Observation>> = groups.collect();
    let mut known: Vec<Figures> = groups
        .iter()
        .flat_map(|runs| runs.iter())
        .enumerate()
        .filter_map(|(order, run)| Figures::of(run, order))
        .collect();
    known.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut notes = Vec::new();
    let mut orders = 0..;
    for runs in &mut groups {
        runs.retain(|run| {
            let figures = orders.next().and_then(|order| Figures::of(run, order));
            let original = figures.and_then(|figures| figures.original(&known));
            if let Some(original) = original {
                notes.push(format!(
                    "{}: the same run as {}, counted once",
                    run.source, original.source
                ));
            }
            original.is_none()
        });
    }
    if notes.len() > NOTES_MAX {
        let more = notes.len() - NOTES_MAX;
        notes.truncate(NOTES_MAX);
        notes.push(format!(
            "{more} more runs were given several times, and counted once"
        ));
    }
    notes
}

/// The values by which copies of a run are recognized.
struct Figures {
    form: Form,
    /// Position among all runs.
    order: usize,
    source: String,
    rate: f64,
    requests: Option<f64>,
    times: [Option<f64>; TIMES.len()],
    /// Of a saved result: when it started, its plan and its backend. Runs that differ in them are
    /// different ones, whatever their figures.
    identity: Option<String>,
    /// Of a row of a table: its name. Such figures are often round, and the same by chance.
    name: Option<String>,
    /// The number of the run, 0 if it is not known.
    run: u32,
}

impl Figures {
    fn of(run: &Observation, order: usize) -> Option<Self> {
        let has_measured = run.failure.is_none();
        Some(Self {
            form: run.form,
            order,
            source: run.source.clone(),
            rate: run
                .value(metric::REQUESTS_PER_SEC)
                .filter(|_| has_measured)?,
            requests: run.value(metric::REQUESTS),
            times: TIMES.map(|name| run.value(name)),
            identity: run.result.as_deref().map(|result| {
                let started = result.window.started_unix_ms;
                format!("{started} {:?} {}", result.plan, result.backend.name)
            }),
            name: (run.form == Form::Table)
                .then(|| format!("{:?} {:?} {:?}", run.settings, run.profile, run.target)),
            run: run.run,
        })
    }

    /// The run that this one is a copy of: in a more complete form, or in the same form and before
    /// this one.
    fn original<'k>(&self, known: &'k [Self]) -> Option<&'k Self> {
        // Rates are printed with two decimals.
        const RATE_STEP: f64 = 0.006;
        let first = known.partition_point(|other| other.rate < self.rate - RATE_STEP);
        let near = known[first..]
            .iter()
            .take_while(|other| other.rate <= self.rate + RATE_STEP);
        let originals = near.filter(|other| {
            let is_before = (other.form, other.order) < (self.form, self.order);
            is_before
                && match other.form == self.form {
                    true => self.is_equal_to(other),
                    false => self.agrees_with(other),
                }
        });
        originals.min_by_key(|other| (other.form, other.order))
    }

    /// Whether two runs in the same form are equal. Nothing is rounded anew then, so all figures
    /// that both have must be the same.
    fn is_equal_to(&self, other: &Self) -> bool {
        let is_same = self.rate == other.rate
            && self.requests == other.requests
            && self.identity == other.identity
            && self.name == other.name
            && !self.is_another_row_than(other);
        is_same && self.times_agree(other, |a, b| a == b)
    }

    /// Whether both are rows of one file with numbers of their own.
    fn is_another_row_than(&self, other: &Self) -> bool {
        let file = |it: &Self| it.source.rsplit_once(':').map(|(file, _)| file.to_owned());
        self.name.is_some() && self.run != other.run && file(self) == file(other)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        let requests = match (self.requests, other.requests) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let is_whole = self.form == Form::Object || other.form == Form::Object;
        requests
            && self.times_agree(other, |a, b| {
                (a - b).abs() <= rounding_us(a.max(b), is_whole)
            })
    }

    /// Whether all times that both have agree, and whether these are enough.
    fn times_agree(&self, other: &Self, agree: impl Fn(f64, f64) -> bool) -> bool {
        let pairs = self.times.iter().zip(&other.times);
        let mut known = 0;
        let all = pairs
            .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
            .inspect(|_| known += 1)
            .all(|(a, b)| agree(a, b));
        all && (known >= TIMES_MIN || known > 0 && self.rate >= TELLING_RATE)
    }
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
