//! A run that was kept in several forms counts once.

use crate::{Form, Observation, quantity};

/// More notes of one kind would not be read.
const NOTES_MAX: usize = 20;

/// Times that were rounded to two decimals of their unit agree to this ratio.
const ROUNDING: f64 = 0.01;

/// What is compared beside requests per second, if both have it.
const TIMES: [&str; 4] = [
    quantity::DURATION_US,
    quantity::LATENCY_MEAN_US,
    "latency_p50_us",
    "latency_p99_us",
];

/// Takes away runs that are there in a form that says more, and notes each.
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

/// What tells a run from others.
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
                .value(quantity::REQUESTS_PER_SEC)
                .filter(|_| has_measured)?,
            requests: run.value(quantity::REQUESTS),
            times: TIMES.map(|name| run.value(name)),
        })
    }

    /// The same run in a form that says more.
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
        let pairs = self.times.iter().zip(&other.times);
        let near = |a: f64, b: f64| (a - b).abs() <= a.abs().max(b.abs()) * ROUNDING;
        let times: Vec<bool> = pairs
            .filter_map(|(a, b)| Some(near((*a)?, (*b)?)))
            .collect();
        match (self.requests, other.requests) {
            // wrk's correction may change the latencies of a text: requests and their rate say enough.
            (Some(a), Some(b)) => a == b,
            _ => !times.is_empty() && times.into_iter().all(|is_near| is_near),
        }
    }
}
