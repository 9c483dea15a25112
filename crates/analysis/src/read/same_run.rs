//! A run that was saved in several forms counts once.

use results::metric;

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

/// How many of them must agree, the duration included.
const TIMES_MIN: usize = 2;

/// Removes runs that also exist in a more complete form, with a note for each.
pub(super) fn drop_copies<'a>(
    groups: impl Iterator<Item = &'a mut Vec<Observation>>,
) -> Vec<String> {
    let mut groups: Vec<&mut Vec<Observation>> = groups.collect();
    let forms: std::collections::BTreeSet<Form> = groups
        .iter()
        .flat_map(|runs| runs.iter().map(|run| run.form))
        .collect();
    if forms.len() < 2 {
        return Vec::new();
    }
    let mut known: Vec<Figures> = groups
        .iter()
        .flat_map(|runs| runs.iter())
        .filter_map(Figures::of)
        .collect();
    known.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut notes = Vec::new();
    for runs in &mut groups {
        runs.retain(|run| {
            let original = Figures::of(run).and_then(|figures| figures.original(&known));
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
            "{more} more runs are there in several forms, and counted once"
        ));
    }
    notes
}

/// The values by which copies of a run are recognized.
struct Figures {
    form: Form,
    source: String,
    rate: f64,
    requests: Option<f64>,
    times: [Option<f64>; TIMES.len()],
}

impl Figures {
    fn of(run: &Observation) -> Option<Self> {
        let has_measured = run.failure.is_none();
        Some(Self {
            form: run.form,
            source: run.source.clone(),
            rate: run
                .value(metric::REQUESTS_PER_SEC)
                .filter(|_| has_measured)?,
            requests: run.value(metric::REQUESTS),
            times: TIMES.map(|name| run.value(name)),
        })
    }

    /// The same run in a more complete form.
    fn original<'k>(&self, known: &'k [Self]) -> Option<&'k Self> {
        // Rates are printed with two decimals.
        const RATE_STEP: f64 = 0.006;
        let first = known.partition_point(|other| other.rate < self.rate - RATE_STEP);
        let near = known[first..]
            .iter()
            .take_while(|other| other.rate <= self.rate + RATE_STEP);
        let originals = near.filter(|other| other.form < self.form && self.agrees_with(other));
        originals.min_by_key(|other| other.form)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        let requests = match (self.requests, other.requests) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let is_whole = self.form == Form::Object || other.form == Form::Object;
        let pairs = self.times.iter().zip(&other.times);
        let mut known = 0;
        let agree = pairs
            .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
            .inspect(|_| known += 1)
            .all(|(a, b)| (a - b).abs() <= rounding_us(a.max(b), is_whole));
        requests && agree && known >= TIMES_MIN
    }
}

/// How far a time may be from its exact value, in microseconds. Texts have two decimals of a unit,
/// which is used from 0.85 of it upwards; json.lua prints whole microseconds.
fn rounding_us(time_us: f64, is_whole: bool) -> f64 {
    let step_us = match time_us {
        _ if time_us >= 51e6 => 600_000.0,
        _ if time_us >= 850_000.0 => 10_000.0,
        _ if time_us >= 850.0 => 10.0,
        _ => 0.01,
    };
    let step_us = if is_whole {
        f64::max(step_us, 1.0)
    } else {
        step_us
    };
    step_us * 0.51
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
    fn runs_without_times_and_runs_of_one_form_are_not_copies() {
        let bare = [
            (metric::REQUESTS, 10_000.0),
            (metric::REQUESTS_PER_SEC, 1_000.0),
        ];
        let mut groups = [
            vec![
                of_rate(Form::Text, "a.txt", 1_230.0),
                of_rate(Form::Text, "b.txt", 1_230.0),
            ],
            vec![run(Form::Table, "t:1", &bare)],
        ];
        assert_eq!(drop_copies(groups.iter_mut()), [""; 0]);
    }
}
