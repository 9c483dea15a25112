//! Whether a server carries a given rate.

use crate::connections::Connections;
use crate::run::{
    Finding, Load, Measured, Phase, PlannedStep, Record, RunLengths, SettingsError, UnexpectedStep,
    is_machine_disturbed, positive, require,
};

/// The runs at one rate, counted by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Votes {
    /// Runs in which all conditions held.
    pub held: usize,
    /// Runs in which at least one condition failed because of the server.
    pub failed: usize,
    /// Runs in which at least one condition failed, perhaps because of the generator.
    pub generator_limited: usize,
    /// Runs without a result.
    pub lost: usize,
}

impl Votes {
    /// The number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.held + self.failed + self.generator_limited + self.lost
    }

    pub(crate) fn count(&mut self, finding: Finding) {
        match finding {
            Finding::Held => self.held += 1,
            Finding::Failed => self.failed += 1,
            Finding::GeneratorLimited => self.generator_limited += 1,
            Finding::Lost => self.lost += 1,
        }
    }
}

/// The rate to judge, and the runs with which it is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckSettings {
    /// The rate to judge, requests per second.
    pub rate: f64,
    /// How long runs are.
    pub lengths: RunLengths,
    /// How many connections the runs have, and how many they get if these limit the rate.
    pub connections: Connections,
    /// The largest number of runs; at least three, because a verdict takes three. 15 runs suffice
    /// for 99 % of the rates at which the conditions hold in four of five runs, or in one of five.
    pub runs_max: usize,
}

/// The judgement on a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server carries the rate.
    Carried,
    /// The server does not carry the rate.
    NotCarried,
    /// The runs disagree, or the generator could not make the rate.
    Undecided,
}

/// Judges a rate by Wald's sequential probability ratio test ("Sequential Tests of Statistical
/// Hypotheses", 1945) on whether the conditions held: in 20 % of the runs or in 80 %, both errors
/// at most 5 %. With these numbers it ends when one answer is ahead by [`LEAD`].
#[derive(Debug, Clone)]
pub struct Check {
    settings: CheckSettings,
    records: Vec<Record>,
    votes: Votes,
    connections: u32,
}

/// ln(0.95 / 0.05) over ln(0.8 / 0.2), rounded up.
const LEAD: usize = 3;

impl Check {
    /// A check that has not begun.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(settings: CheckSettings) -> Result<Self, SettingsError> {
        positive("rate", settings.rate)?;
        settings.lengths.check()?;
        let runs_max = settings.runs_max;
        require(
            runs_max >= LEAD,
            "largest number of runs",
            runs_max as f64,
            "at least 3",
        )?;
        Ok(Self {
            settings,
            records: Vec::new(),
            votes: Votes::default(),
            connections: settings.connections.first,
        })
    }

    /// Takes the result of the run that [`next`](Self::next) asked for.
    ///
    /// # Errors
    ///
    /// If it is the result of another run, or if none was asked for.
    pub fn record(&mut self, step: PlannedStep, measured: Measured) -> Result<(), UnexpectedStep> {
        let expected = self.next().filter(|expected| step.is(expected));
        let step = expected.ok_or(UnexpectedStep {
            number: step.number,
        })?;
        let most = self.settings.connections.most;
        if measured.finding() == Finding::Failed
            && measured.waited_for_connection
            && self.connections < most
        {
            // The server may carry the rate over more connections. If it does not, only this run is
            // lost.
            self.connections = most;
        } else {
            self.votes.count(measured.finding());
        }
        self.records.push(Record { step, measured });
        Ok(())
    }

    /// The next run; `None` if there is a verdict.
    #[must_use]
    pub fn next(&self) -> Option<PlannedStep> {
        let rate = self.settings.rate;
        self.outcome().is_none().then(|| PlannedStep {
            number: self.records.len() + 1,
            phase: Phase::Confirm,
            load: Load::Rate(rate),
            duration_s: self.settings.lengths.full_s(rate),
            connections: self.connections,
        })
    }

    /// The verdict; `None` while it is open.
    #[must_use]
    pub fn outcome(&self) -> Option<Verdict> {
        let Votes { held, failed, .. } = self.votes;
        if held >= failed + LEAD {
            Some(Verdict::Carried)
        } else if failed >= held + LEAD {
            Some(Verdict::NotCarried)
        } else if self.records.len() >= self.settings.runs_max
            || is_machine_disturbed(&self.records)
        {
            Some(Verdict::Undecided)
        } else {
            None
        }
    }

    /// Whether it has no verdict because a disturbance of the machine spoiled several runs in a
    /// row.
    #[must_use]
    pub fn is_machine_disturbed(&self) -> bool {
        is_machine_disturbed(&self.records)
    }

    /// How the runs so far ended.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.votes
    }

    /// All runs so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }
}
