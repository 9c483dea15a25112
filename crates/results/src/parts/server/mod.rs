//! The CPU time of the server: what its requests cost.

mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartSection, PartTable, PartView, SectionPosition};
use crate::{Contradiction, Histogram, RunResult};

/// The CPU time of a server's processes within the window, those of their children included. Of a
/// fleet, it is that of all servers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerRecording {
    /// Time between the readings at the start and at the end of the window, nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time between the readings, nanoseconds (`/proc/PID/stat`, or `cpu.stat` of a control
    /// group).
    pub cpu_ns: u64,
    /// Processes that one of the readings, or both, found.
    pub processes: u64,
}

impl ServerRecording {
    /// How many CPUs were busy on average; `None` if nothing was measured.
    #[must_use]
    pub fn cores(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.cpu_ns as f64 / self.elapsed_ns as f64)
    }

    /// CPU time per response of the window, microseconds; `None` without any.
    #[must_use]
    pub fn cpu_per_request_us(&self, responses: u64) -> Option<f64> {
        (responses > 0 && self.elapsed_ns > 0).then(|| self.cpu_ns as f64 / 1e3 / responses as f64)
    }
}

impl Measurement for ServerRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            elapsed_ns,
            cpu_ns,
            processes,
        } = other;
        self.elapsed_ns = self.elapsed_ns.max(*elapsed_ns);
        self.cpu_ns = self.cpu_ns.saturating_add(*cpu_ns);
        self.processes = self.processes.saturating_add(*processes);
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        Vec::new()
    }
}

pub(super) static VIEW: PartView = PartView {
    metrics: &view::METRICS,
    check,
    text: view::text_of_run,
    section: Some(PartSection::of_tables(
        ("server-cpu", "CPU of the server"),
        "CPU time of the server's processes and their children within the window, without the time \
         that they waited for a CPU.",
        SectionPosition::Server,
        &[PartTable::OfRuns(view::table)],
    )),
    ..PartView::NONE
};

/// Checks that CPU time was measured over some time.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let server = result.recording.parts.server;
    match server.filter(|server| server.elapsed_ns == 0 && server.cpu_ns > 0) {
        Some(server) => Err(Contradiction(format!(
            "the server used {} ns of CPU time in no time",
            server.cpu_ns
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use plan::{RunPlan, Target};

    use super::*;
    use crate::Window;

    #[test]
    fn cpu_time_in_no_time_is_a_contradiction() {
        let plan = RunPlan::new(Target::parse("http://h/").expect("a URL"));
        let mut result = RunResult::new(plan, Window::default());
        let mut check = |server| {
            result.recording.parts.server = server;
            check(&result).is_ok()
        };
        let idle = ServerRecording::default();
        let used = ServerRecording { cpu_ns: 1, ..idle };
        assert_eq!(
            [None, Some(idle), Some(used)].map(&mut check),
            [true, true, false]
        );
    }

    #[test]
    fn servers_of_a_fleet_add_up() {
        let mut all = ServerRecording {
            elapsed_ns: 2_000_000_000,
            cpu_ns: 3_000_000_000,
            processes: 2,
        };
        all.merge(&ServerRecording {
            elapsed_ns: 1_000_000_000,
            cpu_ns: 1_000_000_000,
            processes: 1,
        });
        assert_eq!((all.cores(), all.processes), (Some(2.0), 3));
        assert_eq!(all.cpu_per_request_us(40_000), Some(100.0));
    }

    #[test]
    fn what_was_not_measured_is_not_zero() {
        let none = ServerRecording::default();
        assert_eq!((none.cores(), none.cpu_per_request_us(5)), (None, None));
        let idle = ServerRecording {
            elapsed_ns: 1,
            ..none
        };
        assert_eq!(
            (idle.cores(), idle.cpu_per_request_us(0)),
            (Some(0.0), None)
        );
    }
}
