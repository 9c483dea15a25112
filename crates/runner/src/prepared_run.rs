//! A run that is ready to start, whoever makes its load.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use plan::RunPlan;

use crate::{Finished, RunObservers};

/// A run that is ready to start, on this machine ([`Prepared`](crate::Prepared)), on those of a
/// fleet, or in a test.
pub trait PreparedRun {
    /// The plan with the threads of all machines, without secrets unless they are to be shown.
    fn plan(&self) -> &RunPlan;

    /// Notes for the user before the start, one line each.
    fn notes(&self) -> &[String];

    /// Whether requests depend on the seed of the plan.
    fn draws_requests(&self) -> bool;

    /// The names of the requests of a file; `None` without a file.
    fn request_names(&self) -> Option<&[String]>;

    /// Whether its requests are turns of conversations. A fleet does not say so.
    fn has_conversations(&self) -> bool {
        false
    }

    /// The backend and why it was chosen, or who chooses it.
    fn backend(&self) -> String;

    /// The name by which other machines know the run.
    fn run_id(&self) -> Option<&str> {
        None
    }

    /// The agents that take part: name and place.
    fn agents(&self) -> &[(String, String)] {
        &[]
    }

    /// Generates the load. Setting `interrupted` ends the run early; the result then covers the
    /// time until then.
    ///
    /// # Errors
    /// If there was no load; the message is one line.
    fn start(
        self: Box<Self>,
        interrupted: &AtomicBool,
        observers: RunObservers<'_>,
    ) -> Result<Finished, Box<dyn Error + Send + Sync>>;
}
