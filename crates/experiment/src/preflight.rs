//! Checks and describes an experiment before anything is changed.
//!
//! Files are read and opened without being written, programs are looked up, and URLs are requested
//! once. Nothing is changed.

mod checks;
mod places;
mod text;

pub(crate) use text::describe_left;

use std::collections::BTreeMap;
use std::time::Duration;

use plan::RunPlan;
use results::Cell;

use crate::agents::Agent;
use crate::design::Schedule;
use crate::hooks::Failure;
use crate::host::Host;
use crate::remote::{Machines, RemoteHosts};
use crate::spec::Spec;

/// What is known before the first trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// Description of the experiment, complete lines.
    pub text: String,
    /// Why trials would fail, a line each; the sweep can only begin without any.
    pub problems: Vec<String>,
    /// Advice, a line each.
    pub notes: Vec<String>,
}

/// One command line of a run, and the cells that have it.
#[derive(Debug, Clone, PartialEq)]
struct PlannedLoad {
    arguments: Vec<String>,
    /// Numbers of the cells.
    cells: Vec<u32>,
    /// What the caller made of it.
    plan: Result<RunPlan, Failure>,
}

/// Checks an experiment and the machines that it changes. `agents` are those of the fleet, if one
/// makes the runs. `make_plan` makes the plan of a cell's run, or says why it cannot:
/// an invalid option, or a script that does not load.
pub fn preflight(
    spec: &Spec,
    schedule: &Schedule,
    host: &mut dyn Host,
    others: &mut RemoteHosts,
    agents: Option<&[Agent]>,
    make_plan: &mut dyn FnMut(&Cell) -> Result<RunPlan, Failure>,
) -> Preflight {
    let loads = loads(spec, schedule, make_plan);
    let mut findings = checks::Findings::default();
    let mut machines = Machines {
        local: host,
        others,
    };
    checks::check(spec, schedule, &loads, &mut machines, agents, &mut findings);
    places::check(spec, schedule, &loads, agents, &mut findings);
    let text = text::describe(spec, schedule, &loads, &machines, agents);
    Preflight {
        text,
        problems: findings.problems,
        notes: findings.notes,
    }
}

/// The nominal duration of a run: warm-up and duration; `None` if only the number of requests ends
/// it.
#[must_use]
pub fn nominal_time(plan: &RunPlan) -> Option<Duration> {
    Some(plan.stop.duration?.saturating_add(plan.warmup))
}

/// The distinct runs of an experiment. Cells that differ only in settings of the machine share one.
fn loads(
    spec: &Spec,
    schedule: &Schedule,
    make_plan: &mut dyn FnMut(&Cell) -> Result<RunPlan, Failure>,
) -> Vec<PlannedLoad> {
    let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut loads: Vec<PlannedLoad> = Vec::new();
    for cell in &schedule.cells {
        let arguments = spec.arguments_of(cell).unwrap_or_default();
        if let Some(at) = known.get(&arguments) {
            loads[*at].cells.push(cell.number);
            continue;
        }
        known.insert(arguments.clone(), loads.len());
        loads.push(PlannedLoad {
            arguments,
            cells: vec![cell.number],
            plan: make_plan(cell),
        });
    }
    loads
}

#[cfg(test)]
mod tests;
