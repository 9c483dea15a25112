//! Telemetry beside a run: from the plan's words to what stands in the result. Nothing of it can harm
//! the run.

use std::io::{self, Write};

use engine::RunTimes;
use plan::TelemetrySpec;
use results::Telemetry;
use telemetry::sockets::Filter;
use telemetry::{Sampler, SamplerOptions, Sampling, Window};

use crate::RunnerError;

/// Opens what is needed to watch.
///
/// # Errors
/// When the filter is not understood, or this system does not tell of its sockets.
pub(crate) fn prepare(spec: Option<&TelemetrySpec>) -> Result<Option<Sampler>, RunnerError> {
    let Some(spec) = spec else {
        return Ok(None);
    };
    let sockets = spec.sockets.as_deref();
    let filter = sockets.map(Filter::parse).transpose().map_err(|error| {
        let filter = sockets.unwrap_or_default();
        RunnerError::Telemetry(format!("--sockets {filter:?}: {error}"))
    })?;
    let options = SamplerOptions {
        sockets: filter,
        interval: spec.interval,
        counters: spec.counters,
    };
    Sampler::prepare(options).map(Some).map_err(|error| {
        RunnerError::Telemetry(format!(
            "--sockets: the kernel does not tell of its sockets: {error} (it needs the modules inet_diag and tcp_diag)"
        ))
    })
}

/// Telemetry while the run is on.
pub(crate) enum Beside {
    /// None was asked for.
    Nothing,
    /// On its way.
    On(Sampling),
    /// It could not be started.
    Failed(io::Error),
}

/// Starts what was prepared.
pub(crate) fn start(sampler: Option<Sampler>, samples: Option<Box<dyn Write + Send>>) -> Beside {
    match sampler.map(|sampler| sampler.start(samples)) {
        None => Beside::Nothing,
        Some(Ok(sampling)) => Beside::On(sampling),
        Some(Err(error)) => Beside::Failed(error),
    }
}

impl Beside {
    /// The engine has said when the window is.
    pub(crate) fn begin(&self, schedule: RunTimes) {
        if let Self::On(sampling) = self {
            sampling.begin(Window {
                begin_ns: schedule.measure_ns,
                end_ns: schedule.end_ns,
            });
        }
    }

    /// The run is over.
    pub(crate) fn finish(self, spec: Option<&TelemetrySpec>) -> Option<Telemetry> {
        match self {
            Self::Nothing => None,
            Self::On(sampling) => Some(sampling.finish()),
            Self::Failed(error) => Some(Telemetry {
                interval_ns: spec.map_or(0, |spec| {
                    u64::try_from(spec.interval.as_nanos()).unwrap_or(u64::MAX)
                }),
                notes: vec![format!("nothing was watched: no thread for it: {error}")],
                ..Telemetry::default()
            }),
        }
    }
}
