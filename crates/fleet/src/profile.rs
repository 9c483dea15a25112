//! The profile of the server of a run by a fleet: samples from one machine, and requests of many.

use cluster::clock::Conversion;
use cluster::coordinator::ClockReport;
use plan::ProfiledServer;
use results::{Profile, ProfileSamples, RunResult, SlowSpan};
use runner::SlowSpans;
use telemetry::{Profiler, Profiling};

use crate::coordinator::{Coordinator, FleetError};
use crate::host::HostProfile;

/// A server that is being sampled. Dropped, sampling ends.
pub(crate) enum ServerProfile {
    /// On this machine, where the agents of a local fleet are as well.
    Here(Profiling),
    /// Through an agent on its machine.
    Elsewhere(HostProfile),
}

impl ServerProfile {
    /// Begins to sample the server of a plan.
    ///
    /// # Errors
    /// If there is no such server, or it may not be sampled, or its machine is not there.
    pub(crate) fn start(coordinator: &Coordinator, text: &str) -> Result<Self, FleetError> {
        let started = ProfiledServer::of(text).map_err(str::to_owned);
        let started = started.and_then(|ProfiledServer { host, server }| match host {
            Some(host) => coordinator.profile_host(host, server).map(Self::Elsewhere),
            None => {
                let profiler = Profiler::prepare(server).map_err(|error| error.to_string())?;
                let profiling = profiler.start().map_err(|error| error.to_string());
                profiling.map(Self::Here)
            }
        });
        started.map_err(|why| FleetError::Profile {
            server: text.to_owned(),
            why,
        })
    }

    /// The run is over. The times of the samples are those of this machine's clock.
    pub(crate) fn finish(self) -> ProfileSamples {
        let samples = match self {
            Self::Here(profiling) => Ok(profiling.finish()),
            Self::Elsewhere(profile) => profile.finish(),
        };
        samples.unwrap_or_else(|why| ProfileSamples {
            notes: vec![format!("no profile: {why}")],
            ..ProfileSamples::default()
        })
    }
}

/// When the slowest requests of all agents were in flight, on this machine's clock.
#[derive(Debug, Default)]
pub(crate) struct FleetSpans {
    spans: SlowSpans,
    /// The largest error of their times, nanoseconds.
    bound_ns: u64,
}

impl FleetSpans {
    /// Adds those of an agent, on its clock.
    pub(crate) fn add(&mut self, spans: &[SlowSpan], clock: &ClockReport) {
        let clock = Conversion::new(clock.offset, clock.latest);
        let here = |span: &SlowSpan| {
            Some(SlowSpan {
                due_ns: clock.here(span.due_ns)?,
                sent_ns: clock.here(span.sent_ns)?,
                ended_ns: clock.here(span.ended_ns)?,
            })
        };
        for span in spans {
            // An agent whose times are not on this clock contradicts itself.
            if let Some(span) = here(span) {
                self.spans.add(span);
                self.bound_ns = self.bound_ns.max(clock.bound_ns());
            }
        }
    }

    /// The profile of a run with this result, whose load began at `start_ns`.
    pub(crate) fn profile(
        self,
        mut samples: ProfileSamples,
        result: &RunResult,
        start_ns: u64,
    ) -> Profile {
        let sampled_ns = samples.clock_bound_ns.unwrap_or_default();
        samples.clock_bound_ns = Some(sampled_ns.saturating_add(self.bound_ns));
        let breakdown = result.recording.parts.breakdown.as_ref();
        let slow_from_ns = breakdown.and_then(results::parts::breakdown::slowest_from_ns);
        let slow = self.spans.slowest(slow_from_ns.unwrap_or(u64::MAX));
        let window = &result.window;
        let start_ns = start_ns.saturating_add(window.warmup_ns);
        let window_ns = (start_ns, start_ns.saturating_add(window.duration_ns));
        judging::profile(samples, &slow, window_ns)
    }
}

#[cfg(test)]
mod tests {
    use cluster::clock::{ClockSource, Offset};

    use super::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    fn clock(ahead_ns: i64, bound_ns: u64) -> ClockReport {
        ClockReport {
            offset: Offset {
                offset_ns: ahead_ns,
                bound_ns,
                at_ns: 100 * HOUR,
                round_trip_ns: 2 * bound_ns,
                source: ClockSource::Exchanges,
            },
            latest: None,
            drift: None,
        }
    }

    #[test]
    fn the_slowest_requests_of_agents_whose_clocks_are_hours_apart_are_merged() {
        let here = 100 * HOUR;
        let mut all = FleetSpans::default();
        let span = |due_ns: u64, ended_ns: u64| SlowSpan {
            due_ns,
            sent_ns: due_ns,
            ended_ns,
        };
        let fast = [span(here + 3 * HOUR, here + 3 * HOUR + MS)];
        let slow = [span(here - 50 * HOUR + MS, here - 50 * HOUR + 9 * MS)];
        all.add(&fast, &clock(3 * HOUR as i64, 20_000));
        all.add(&slow, &clock(-50 * (HOUR as i64), 70_000));
        assert_eq!(all.bound_ns, 70_000);
        let mut both = all.spans.clone().slowest(0);
        both.sort_unstable();
        let expected = [span(here, here + MS), span(here + MS, here + 9 * MS)];
        assert_eq!(both, expected);
        assert_eq!(all.spans.slowest(2 * MS), expected[1..]);
    }

    #[test]
    fn times_that_this_clock_does_not_have_are_left_out() {
        let mut all = FleetSpans::default();
        let unknown = |sent_ns, ended_ns| SlowSpan {
            due_ns: sent_ns,
            sent_ns,
            ended_ns,
        };
        let spans = [unknown(0, u64::MAX), unknown(5, 9)];
        all.add(&spans, &clock(HOUR as i64, 1));
        assert_eq!(all.spans.slowest(0), []);
    }
}
