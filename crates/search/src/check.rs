//! Whether a server carries a given rate.

use crate::connections::Connections;
use crate::run::{
    Finding, Load, Measured, Phase, Record, RunLengths, SettingsError, Step, UnexpectedStep,
    positive, require,
};

/// What the runs at one rate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Votes {
    /// All conditions held.
    pub held: usize,
    /// At least one did not.
    pub failed: usize,
    /// At least one did not, perhaps because of the generator.
    pub generator_limited: usize,
    /// There was no result.
    pub lost: usize,
}

impl Votes {
    /// How many runs there were.
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

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckSettings {
    /// Requests per second.
    pub rate: f64,
    /// How long runs are.
    pub lengths: RunLengths,
    /// How many connections the runs have, and may have if these limit the rate.
    pub connections: Connections,
    /// The most runs; at least three, which a judgement takes. 15 is enough for 99 % of rates that
    /// hold in four of five runs, or in one of five.
    pub runs_max: usize,
}

/// The judgement on a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server carries the rate.
    Carried,
    /// It does not.
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
    /// If it asked for another, or for none.
    pub fn record(&mut self, step: Step, measured: Measured) -> Result<(), UnexpectedStep> {
        let expected = self.next().filter(|expected| step.is(expected));
        let step = expected.ok_or(UnexpectedStep {
            number: step.number,
        })?;
        let most = self.settings.connections.most;
        if measured.finding() == Finding::Failed
            && measured.waited_for_connection
            && self.connections < most
        {
            // Perhaps the server would carry it over more connections. If not, nothing is lost but
            // this run.
            self.connections = most;
        } else {
            self.votes.count(measured.finding());
        }
        self.records.push(Record { step, measured });
        Ok(())
    }

    /// The next run; `None` if there is a verdict.
    #[must_use]
    pub fn next(&self) -> Option<Step> {
        let rate = self.settings.rate;
        self.outcome().is_none().then(|| Step {
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
        } else if self.records.len() >= self.settings.runs_max {
            Some(Verdict::Undecided)
        } else {
            None
        }
    }

    /// What the runs so far said.
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
