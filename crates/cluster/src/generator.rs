//! The seam to what makes the load.

use std::path::PathBuf;

use crate::names::Label;
use crate::package::Package;
use crate::refusal::Refusal;
use crate::targets::Targets;

/// Makes the load of an agent. It works in threads of its own and no method waits, so that the
/// agent always hears its coordinator and sends beats.
pub trait Generator {
    /// Begins to prepare a run. [`GeneratorEvent::Prepared`] or [`GeneratorEvent::Failed`] follows.
    fn prepare(&mut self, work: Work);

    /// Starts the prepared run at a time of CLOCK_MONOTONIC. [`GeneratorEvent::Finished`] or
    /// [`GeneratorEvent::Failed`] follows.
    fn start_at(&mut self, start_ns: u64);

    /// Ends the load at once. The result covers the time until then.
    fn stop(&mut self);

    /// Ends and forgets everything; no event follows.
    fn discard(&mut self);

    /// What has happened since the last call.
    fn next_event(&mut self) -> Option<GeneratorEvent>;
}

/// A run to prepare.
#[derive(Debug)]
pub struct Work {
    /// The plan, with the paths of the files that came with it.
    pub package: Package,
    /// The folder of these files. Lua modules are in its `modules`.
    pub folder: PathBuf,
    /// What requests may go to. To be checked with the addresses, before anything is opened.
    pub targets: Targets,
}

/// What a generator reports.
#[derive(Debug)]
pub enum GeneratorEvent {
    /// The run can start. The notes are for the user.
    Prepared(Vec<Label>),
    /// The run is not permitted here.
    Refused(Refusal),
    /// The run cannot be prepared, or failed.
    Failed(String),
    /// A snapshot of the run in progress, for the live view.
    Progress(serde_json::Value),
    /// The load has ended; the result.
    Finished(Vec<u8>),
}
