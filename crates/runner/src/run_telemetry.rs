//! Telemetry of a run, from the plan to the result. Its errors never affect the run.

use std::io::{self, Write};

use engine::RunTimes;
use plan::TelemetrySpec;
use results::Telemetry;
use telemetry::sockets::Filter;
use telemetry::{Sampler, SamplerOptions, Sampling, Window};

use crate::RunnerError;

/// Opens everything that telemetry needs.
///
/// # Errors
/// If the filter is invalid, or the system does not report its sockets.
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
            "--sockets: the kernel does not report its sockets: {error} \
             (it needs the modules inet_diag and tcp_diag)"
        ))
    })
}

/// Telemetry during a run.
pub(crate) enum RunTelemetry {
    /// The plan asks for none.
    Off,
    /// A thread takes samples.
    Sampling(Sampling),
    /// It could not be started.
    Failed(io::Error),
}

/// Starts the prepared sampler.
pub(crate) fn start(
    sampler: Option<Sampler>,
    samples: Option<Box<dyn Write + Send>>,
) -> RunTelemetry {
    match sampler.map(|sampler| sampler.start(samples)) {
        None => RunTelemetry::Off,
        Some(Ok(sampling)) => RunTelemetry::Sampling(sampling),
        Some(Err(error)) => RunTelemetry::Failed(error),
    }
}

impl RunTelemetry {
    /// The times of the window are known, or have changed before it has begun.
    pub(crate) fn begin(&self, times: RunTimes) {
        if let Self::Sampling(sampling) = self {
            sampling.begin(Window {
                begin_ns: times.measure_ns,
                end_ns: times.end_ns,
            });
        }
    }

    /// The run is over.
    pub(crate) fn finish(self, spec: Option<&TelemetrySpec>) -> Option<Telemetry> {
        match self {
            Self::Off => None,
            Self::Sampling(sampling) => Some(sampling.finish()),
            Self::Failed(error) => Some(Telemetry {
                interval_ns: spec.map_or(0, |spec| {
                    u64::try_from(spec.interval.as_nanos()).unwrap_or(u64::MAX)
                }),
                notes: vec![format!("no telemetry: unable to create a thread: {error}")],
                ..Telemetry::default()
            }),
        }
    }
}
