//! The arguments of the demonstration.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plan::units::parse_time;
use plan::{BackendChoice, Load, Pacing, RequestSpec, RunPlan, Stop, Target, TlsSpec};
use report::TextOptions;

use super::{Io, JsonTarget, Refusal, ReportWish, RunRequest};

/// Serve, load and report on loopback
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DemoArgs {
    /// File that the result is written to
    #[arg(short, long, value_name = "FILE", default_value = "demo-result.json")]
    output: PathBuf,
    /// How long to measure
    #[arg(short, long, value_name = "T", default_value = "5s", value_parser = parse_time,
          allow_hyphen_values = true)]
    duration: Duration,
    /// Kernel interface that drives the sockets
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    io: Io,
}

impl DemoArgs {
    /// The run against a server that has been started at `target`.
    ///
    /// # Errors
    /// When an option has a value that no run can have.
    pub(crate) fn into_request(self, target: Target) -> Result<RunRequest, Refusal> {
        let plan = RunPlan {
            telemetry: None,
            target,
            // One worker: the server shares the machine, and two cores are all we may assume.
            load: Load {
                threads: 1,
                connections: 64,
                ..Load::default()
            },
            pacing: Pacing::Closed,
            stop: Stop {
                duration: Some(self.duration),
                requests: None,
            },
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(2),
            request: RequestSpec::default(),
            tls: TlsSpec::default(),
            backend: BackendChoice::from(self.io),
        };
        plan.check().map_err(|error| Refusal::of_plan(&error))?;
        let report = ReportWish {
            text: TextOptions {
                latency: true,
                plain_if_empty: true,
                ..TextOptions::default()
            },
            json: Some(JsonTarget::File(self.output)),
            ..ReportWish::default()
        };
        Ok(RunRequest {
            plan,
            draws_seed: false,
            report,
            samples: None,
            tool: None,
            version: false,
        })
    }
}
