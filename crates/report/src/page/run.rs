//! The page of one run.

mod environment;
mod generator;
mod latency;
mod outcome;
mod over_time;
mod parts;
mod story;
mod telemetry;
mod values;
mod verdict;

use analysis::Observation;

use super::Section;

pub(crate) use environment::{command_to_repeat, facts as environment_facts, plan_facts};
pub(crate) use telemetry::{curve as socket_curve, per_sec};
pub(crate) use values::by_percentile as values_by_percentile;
pub(crate) use verdict::{capital, lost_requests, warnings};

/// Charts over the time of the run have their pointers coupled by this word.
const TIME_GROUP: &str = "time";

/// Colours of one run's page: the same thing has the same one wherever it is drawn.
mod color {
    /// What the run's latency is: response time with a rate, otherwise service time.
    pub(super) const LATENCY: usize = 0;
    /// Service time beside response time.
    pub(super) const SERVICE_TIME: usize = 1;
    /// Requests per second.
    pub(super) const RATE: usize = 2;
    /// The rate that was asked for.
    pub(super) const ASKED: usize = 7;
    /// A high percentile.
    pub(super) const HIGH: usize = 3;
    /// The slowest.
    pub(super) const MAX: usize = 5;
    /// Errors.
    pub(super) const ERRORS: usize = 6;
    /// Bytes.
    pub(super) const BYTES: usize = 4;
    /// Times without responses.
    pub(super) const STALL: usize = 4;
}

/// What one run says, in the order of reading; of what it does not have there is no section.
pub(crate) fn sections(run: &Observation) -> Vec<Section> {
    let Some(result) = run.result.as_deref() else {
        return values::sections(run);
    };
    let stalls = analysis::story::stalls_of(result);
    let mut sections = vec![verdict::section(run, result, &stalls)];
    sections.extend(latency::sections(result));
    sections.extend(over_time::section(result, &stalls));
    sections.extend(parts::section(result));
    sections.push(outcome::section(result));
    sections.extend(generator::section(result));
    sections.extend(telemetry::section(result));
    sections.push(environment::section(run, result));
    sections.extend(telemetry::counters_section(result));
    sections.push(environment::plan_section(result));
    sections
}
