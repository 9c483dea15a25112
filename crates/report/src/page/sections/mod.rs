//! The sections of a page, in reading order. Each is `None` where it does not apply.

mod averages;
mod capacity;
mod conclusions;
mod course;
mod differences;
mod effects;
mod environment;
mod fleet;
mod hooks;
mod latency;
mod levels;
mod load_generator;
mod order;
mod over_time;
mod parts;
mod phases;
mod requests;
mod responses;
mod run_verdict;
mod searches;
mod telemetry;
mod verdict;

pub(crate) use responses::{is_failing, nothing_good, statuses_in_words};
pub(crate) use run_verdict::lost_requests;

use presentation::{Block, Section, Tone, tables, words};
use results::parts::SectionPosition;
use results::{Measured, RunResult, Verdict, cells};

use super::runs::Runs;

/// What a page has, in its order.
enum Entry {
    /// A section that pages of all kinds may have.
    Own(fn(&Runs<'_>) -> Option<Section>),
    /// The sections of the optional measurements at this position.
    Parts(SectionPosition),
}

use Entry::{Own, Parts};

const ALL: [Entry; 30] = [
    Own(verdict::section),
    Own(searches::section),
    Own(capacity::section),
    Own(fleet::section),
    Own(levels::section),
    Own(effects::section),
    Own(order::section),
    Own(averages::section),
    Own(latency::section),
    Own(latency::distribution),
    Parts(SectionPosition::LatencyParts),
    Parts(SectionPosition::Names),
    Parts(SectionPosition::Contents),
    Parts(SectionPosition::Addresses),
    Own(over_time::section),
    Own(requests::section),
    Own(phases::section),
    Own(responses::section),
    Parts(SectionPosition::Server),
    Own(load_generator::section),
    Parts(SectionPosition::Connections),
    Own(telemetry::section),
    Own(verdict::warnings_of_runs),
    Own(averages::values),
    Own(differences::section),
    Own(hooks::section),
    Own(environment::section),
    Own(telemetry::counters),
    Own(environment::plan),
    Own(verdict::reading_notes),
];

pub(super) fn all(runs: &Runs<'_>) -> Vec<Section> {
    let sections = ALL.iter().flat_map(|entry| match entry {
        Own(section) => section(runs).into_iter().collect(),
        Parts(position) => parts::sections(*position, runs),
    });
    sections.collect()
}

/// A finding has no more lines of evidence.
const DETAILS_MAX: usize = 20;

/// The first lines, and the number of the others.
fn bounded(mut details: Vec<String>) -> Vec<String> {
    let more = details.len().saturating_sub(DETAILS_MAX);
    if more > 0 {
        details.truncate(DETAILS_MAX);
        details.push(format!("and {more} more"));
    }
    details
}

/// A finding that rests on its evidence: `None` without any.
fn finding_of(tone: Tone, text: impl Into<String>, details: Vec<String>) -> Option<Block> {
    (!details.is_empty()).then(|| tables::finding(tone, text, bounded(details)))
}

/// The name of the latency that reports show: response time or service time.
fn latency_name(result: &RunResult) -> &'static str {
    if result.recording.counters.due == 0 {
        "service time"
    } else {
        "response time"
    }
}

/// How serious a verdict on the load generator is.
fn tone_of(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Undisturbed | Verdict::Unknown => Tone::Neutral,
        Verdict::Disturbed { .. } => Tone::Warning,
        Verdict::Saturated { .. } => Tone::Bad,
    }
}

/// A latency that may be only a lower bound.
fn latency_text(known: Option<Measured>) -> String {
    cells::measured(known, words::time_us).text
}
