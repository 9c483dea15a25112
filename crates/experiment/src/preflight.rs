//! Before anything is touched: the whole plan in words, and everything that can be known to fail.
//!
//! Files are read and opened without being written, programs are looked for, URLs are asked once. Nothing is
//! changed.

mod checks;
mod programs;
mod settings;
mod text;
mod units;

pub(crate) use checks::check_folder;
pub(crate) use settings::why_irreversible;

use std::collections::BTreeMap;
use std::time::Duration;

use plan::RunPlan;
use results::Cell;

use crate::design::{Planned, Schedule};
use crate::host::Host;
use crate::spec::Spec;

/// What is known before the first trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// The plan in words, lines with line feeds.
    pub text: String,
    /// What will fail, a line each; without any the sweep can begin.
    pub problems: Vec<String>,
    /// What deserves a thought, a line each.
    pub notes: Vec<String>,
}

/// One run as the command line would have it, and the cells that have it.
#[derive(Debug, Clone, PartialEq)]
struct Load {
    arguments: Vec<String>,
    /// Numbers of the cells.
    cells: Vec<u32>,
    /// What the caller made of it.
    plan: Result<RunPlan, String>,
}

/// Looks at a plan and at the machine it is for. `make_plan` makes the plan of a cell's run, and says
/// in one line why there can be none: an option that is not understood, a script that does not load.
pub fn preflight(
    spec: &Spec,
    schedule: &Schedule,
    host: &mut dyn Host,
    make_plan: &mut dyn FnMut(&Cell) -> Result<RunPlan, String>,
) -> Preflight {
    let loads = loads(spec, schedule, make_plan);
    let mut findings = checks::Findings::default();
    checks::check(spec, schedule, &loads, host, &mut findings);
    let text = text::describe(spec, schedule, &loads, host);
    Preflight {
        text,
        problems: findings.problems,
        notes: findings.notes,
    }
}

/// What of an experiment that was begun is still to be made, in words; nothing if it is nothing.
#[must_use]
pub fn left_in_words(remaining: &[Planned], total: usize) -> String {
    text::describe_left(remaining, total)
}

/// How long a run takes by its plan: warm-up and duration; `None` for one that ends by its requests.
#[must_use]
pub fn nominal_time(plan: &RunPlan) -> Option<Duration> {
    Some(plan.stop.duration?.saturating_add(plan.warmup))
}

/// The different runs of a plan. Cells that differ in the machine only share theirs.
fn loads(
    spec: &Spec,
    schedule: &Schedule,
    make_plan: &mut dyn FnMut(&Cell) -> Result<RunPlan, String>,
) -> Vec<Load> {
    let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut loads: Vec<Load> = Vec::new();
    for cell in &schedule.cells {
        let arguments = spec.arguments_of(cell).unwrap_or_default();
        if let Some(at) = known.get(&arguments) {
            loads[*at].cells.push(cell.number);
            continue;
        }
        known.insert(arguments.clone(), loads.len());
        loads.push(Load {
            arguments,
            cells: vec![cell.number],
            plan: make_plan(cell),
        });
    }
    loads
}

#[cfg(test)]
mod tests;
