//! Who makes runs. The commands know only this.

use experiment::{Agent, RemoteHosts, Spec};
use plan::RunPlan;
use results::Cell;
use runner::{Invocation, PreparedRun};

/// This machine, or the agents of a fleet.
pub(crate) trait RunMaker {
    /// Does everything that can fail before the load. In a sweep, the run is one of a cell.
    ///
    /// # Errors
    /// What would fail, in one line.
    fn prepare(
        &self,
        plan: RunPlan,
        invocation: Invocation,
        cell: Option<(&Spec, &Cell)>,
    ) -> anyhow::Result<Box<dyn PreparedRun + '_>>;

    /// What the user should know about a prepared run.
    fn note(&self, _run: &dyn PreparedRun) -> Option<String> {
        None
    }

    /// The agents that make the runs of a sweep; `None` if this machine does.
    fn agents(&self) -> Option<&[Agent]> {
        None
    }

    /// The agents that are there and take no part, in one line.
    fn left_out(&self) -> Option<&String> {
        None
    }

    /// Opens a session with each machine that the experiment changes.
    ///
    /// # Errors
    /// When one of them cannot be used.
    fn hosts(&self, _spec: &Spec) -> anyhow::Result<RemoteHosts> {
        Ok(RemoteHosts::new())
    }
}

/// Makes runs in this process.
pub(crate) struct ThisMachine;

impl RunMaker for ThisMachine {
    fn prepare(
        &self,
        plan: RunPlan,
        invocation: Invocation,
        _cell: Option<(&Spec, &Cell)>,
    ) -> anyhow::Result<Box<dyn PreparedRun + '_>> {
        Ok(Box::new(runner::prepare(plan, invocation)?))
    }
}
