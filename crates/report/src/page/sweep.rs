//! The page of a sweep: which level is better, how surely, and what stands behind it.

mod averages;
mod design;
mod differences;
mod effects;
mod hooks;
mod levels;
mod order;
mod percentiles;
mod quantities;
mod repeat;
mod telemetry;
mod verdict;

pub(super) use verdict::{doubt, few_or_one, has_too_few_runs, tone, too_few_text};

use analysis::compare::{Comparison, Metric};

use super::{Section, Subject};
use design::Design;

/// What a sweep comes to, in the order of reading. Of what nothing is known there is no section.
pub(crate) fn sections(subject: &Subject<'_>) -> Vec<Section> {
    if subject.observations.is_empty() {
        return Vec::new();
    }
    let design = Design::of(subject.observations);
    let metrics = metrics(subject);
    let mut sections = vec![verdict::section(subject, &design)];
    sections.extend(levels::section(subject, &design));
    sections.extend(effects::section(subject, &design));
    sections.extend(order::section(subject, &design, &metrics));
    sections.extend(averages::section(subject, &design, &metrics));
    sections.extend(percentiles::section(&design));
    sections.extend(telemetry::section(&design));
    sections.extend(differences::section(&design));
    sections.extend(hooks::section(&design));
    sections.extend(repeat::section(subject, &design));
    sections
}

/// What is looked at: what was compared, or would have been.
fn metrics(subject: &Subject<'_>) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for comparison in subject
        .conclusions
        .iter()
        .flat_map(|known| &known.comparisons)
    {
        if !metrics.contains(&comparison.metric) {
            metrics.push(comparison.metric.clone());
        }
    }
    if metrics.is_empty() {
        metrics = Metric::defaults(subject.observations);
    }
    metrics
}

/// What charts and tables of a comparison are called: `requests/s by buffers, php`.
fn title_of(comparison: &Comparison) -> String {
    let what = match &comparison.factor {
        Some(factor) => format!("{} by {factor}", comparison.metric.label),
        None => comparison.metric.label.clone(),
    };
    if comparison.place.is_empty() {
        what
    } else {
        format!("{what}: {}", comparison.place.join(", "))
    }
}

/// More lines than this are not read one by one.
const DETAILS_MAX: usize = 20;

/// Lines behind a sentence, the first of them if they are many.
fn bounded(mut details: Vec<String>) -> Vec<String> {
    let more = details.len().saturating_sub(DETAILS_MAX);
    if more > 0 {
        details.truncate(DETAILS_MAX);
        details.push(format!("and {more} more"));
    }
    details
}
