//! The profile of the server, from the plan to the result. Its errors during a run never affect it.

use results::{Profile, ProfileSamples, SlowSpan};
use telemetry::{Profiler, Profiling};

use crate::RunnerError;

/// Finds the server and prepares to sample it.
///
/// # Errors
/// If there is no such server, or this user may not sample it.
pub(crate) fn prepare(server: Option<&str>) -> Result<Option<Profiler>, RunnerError> {
    let prepared = server.map(|server| {
        Profiler::prepare(server)
            .map_err(|error| RunnerError::Telemetry(format!("--profile {server}: {error}")))
    });
    prepared.transpose()
}

/// The profile during a run.
pub(crate) enum RunProfile {
    /// The plan asks for none.
    Off,
    /// A thread takes samples.
    Running(Profiling),
    /// It could not be started.
    Failed(std::io::Error),
}

/// Starts the prepared profiler.
pub(crate) fn start(profiler: Option<Profiler>) -> RunProfile {
    match profiler.map(Profiler::start) {
        None => RunProfile::Off,
        Some(Ok(profiling)) => RunProfile::Running(profiling),
        Some(Err(error)) => RunProfile::Failed(error),
    }
}

impl RunProfile {
    /// The run is over. `slow` are the slowest requests; they and the window are on
    /// CLOCK_MONOTONIC.
    pub(crate) fn finish(self, slow: &[SlowSpan], window_ns: (u64, u64)) -> Option<Profile> {
        let samples = match self {
            Self::Off => return None,
            Self::Running(profiling) => profiling.finish(),
            Self::Failed(error) => ProfileSamples {
                notes: vec![format!("no profile: {error}")],
                ..ProfileSamples::default()
            },
        };
        Some(judging::profile(samples, slow, window_ns))
    }
}
