//! The cases and their names and titles.

mod arrivals;
mod bytes;
mod closed;
mod connections;
mod few_samples;
mod histogram;
mod hung;
mod littles_law;
mod phases;
mod queue;
mod stall;
mod starved;
mod threads;
mod wall_clock;

use anyhow::bail;

use super::check::CaseResult;
use super::lab::Lab;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// A server that stalls.
    Stall,
    /// Even arrivals.
    Even,
    /// Poisson arrivals.
    Poisson,
    /// A queue with a single server.
    Queue,
    /// Several threads with one queue.
    Threads,
    /// The closed loop.
    Closed,
    /// Little's law.
    Little,
    /// Histograms.
    Histogram,
    /// Requests that are never answered.
    Hung,
    /// Percentiles with too few samples.
    Few,
    /// Too little CPU time for the load generator.
    Starved,
    /// Changes of the wall clock.
    WallClock,
    /// The phases of a request.
    Phases,
    /// Bytes.
    Bytes,
    /// Connections.
    Connections,
}

impl Case {
    /// In the order of the table.
    pub(crate) const ALL: [Self; 15] = [
        Self::Stall,
        Self::Even,
        Self::Poisson,
        Self::Queue,
        Self::Threads,
        Self::Closed,
        Self::Little,
        Self::Histogram,
        Self::Hung,
        Self::Few,
        Self::Starved,
        Self::WallClock,
        Self::Phases,
        Self::Bytes,
        Self::Connections,
    ];

    /// For `--only`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Even => "even",
            Self::Poisson => "poisson",
            Self::Queue => "queue",
            Self::Threads => "threads",
            Self::Closed => "closed",
            Self::Little => "little",
            Self::Histogram => "histogram",
            Self::Hung => "hung",
            Self::Few => "few",
            Self::Starved => "starved",
            Self::WallClock => "wall-clock",
            Self::Phases => "phases",
            Self::Bytes => "bytes",
            Self::Connections => "connections",
        }
    }

    /// What the table prints.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Stall => "The server stalls 2 s of 10 s, 200 requests/s over 10 connections",
            Self::Even => "Even arrivals, 1,000/s over 16 connections",
            Self::Poisson => "Poisson arrivals, 200/s over 64 connections, five seeds",
            Self::Queue => "M/M/1: 700/s at a single server with a capacity of 1,000/s",
            Self::Threads => "1, 2, 4 and 8 threads: a stall, a slow drain, and 95 % load",
            Self::Closed => "Closed loop of N connections and a single server: exact MVA",
            Self::Little => "Little's law: in flight = rate x time",
            Self::Histogram => "A million lognormal samples: percentiles, and merging",
            Self::Hung => "One of a hundred requests is never answered, timeout 1 s",
            Self::Few => "A thousand requests: which percentiles have enough samples",
            Self::Starved => "Half a core for the load generator: the verdict",
            Self::WallClock => "The wall clock is set forward and back by an hour",
            Self::Phases => "Phases of known length over TLS: 5 + 7 ms, 11 ms, 13 ms",
            Self::Bytes => "Bytes and responses match what the server sent",
            Self::Connections => "Connections match what the server saw",
        }
    }

    /// The cases with these names, in the order of the table; all if there are no names.
    ///
    /// # Errors
    /// When a name is unknown: the message lists the cases.
    pub(crate) fn selected(names: &[String]) -> anyhow::Result<Vec<Self>> {
        for name in names {
            if !Self::ALL.iter().any(|case| case.name() == name) {
                let known = Self::ALL.map(Self::name).join(", ");
                bail!("--only: \"{name}\" is not a case; cases are {known}");
            }
        }
        let is_chosen =
            |case: &Self| names.is_empty() || names.iter().any(|name| name == case.name());
        Ok(Self::ALL.into_iter().filter(is_chosen).collect())
    }

    /// Runs the case.
    ///
    /// # Errors
    /// When it fails, or the user interrupts.
    pub(crate) fn run(self, lab: &Lab) -> anyhow::Result<CaseResult> {
        let mut result = CaseResult::new(self);
        let case = &mut result;
        match self {
            Self::Stall => stall::run(lab, case),
            Self::Even => arrivals::even(lab, case),
            Self::Poisson => arrivals::poisson(lab, case),
            Self::Queue => queue::run(lab, case),
            Self::Threads => threads::run(lab, case),
            Self::Closed => closed::run(lab, case),
            Self::Little => littles_law::run(lab, case),
            Self::Histogram => histogram::run(case),
            Self::Hung => hung::run(lab, case),
            Self::Few => few_samples::run(lab, case),
            Self::Starved => starved::run(lab, case),
            Self::WallClock => wall_clock::run(lab, case),
            Self::Phases => phases::run(lab, case),
            Self::Bytes => bytes::run(lab, case),
            Self::Connections => connections::run(lab, case),
        }?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_in_the_order_of_the_table() {
        assert_eq!(Case::selected(&[]).unwrap(), Case::ALL);
        let chosen = Case::selected(&["hung".into(), "stall".into()]).unwrap();
        assert_eq!(chosen, [Case::Stall, Case::Hung]);
        let message = Case::selected(&["x".into()]).unwrap_err().to_string();
        assert!(
            message.contains("\"x\"") && message.contains("wall-clock"),
            "{message}"
        );
    }

    #[test]
    fn names_of_cases_are_unique() {
        let mut names = Case::ALL.map(Case::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Case::ALL.len());
    }
}
