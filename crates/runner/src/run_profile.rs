//! The profile of the server, from the plan to the result. Its errors during a run never affect it.

use results::{Profile, ProfileSamples, Recording};
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
    /// The run is over. The window is on CLOCK_MONOTONIC.
    pub(crate) fn finish(self, recording: &Recording, window_ns: (u64, u64)) -> Option<Profile> {
        let samples = match self {
            Self::Off => return None,
            Self::Running(profiling) => profiling.finish(),
            Self::Failed(error) => ProfileSamples {
                notes: vec![format!("no profile: {error}")],
                ..ProfileSamples::default()
            },
        };
        let slow_ns = slow_requests(recording, window_ns.0);
        Some(judging::profile(samples, &slow_ns, window_ns))
    }
}

/// The slow requests from sent to finished, on the clock on which the window begins at this time.
fn slow_requests(recording: &Recording, begin_ns: u64) -> Vec<(u64, u64)> {
    let slowest = recording.breakdown.iter().flat_map(|it| &it.slowest);
    let spans = slowest.map(|request| {
        let sent_ns = begin_ns
            .saturating_add(request.due_ns)
            .saturating_add(request.waited_ns);
        let finished_ns = sent_ns
            .saturating_add(request.first_byte_ns)
            .saturating_add(request.last_byte_ns);
        (sent_ns, finished_ns)
    });
    spans.collect()
}
