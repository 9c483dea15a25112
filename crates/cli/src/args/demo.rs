//! Arguments of `wrkbench demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plan::units::parse_time;
use plan::{BackendChoice, Load, RunPlan, Stop, Target};
use report::TextOptions;

use super::{Io, JsonTarget, OutputOptions, Refusal, RunRequest};

/// Start a server on loopback, load it and print the report
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DemoArgs {
    /// File for the result
    #[arg(short, long, value_name = "FILE", default_value = "demo-result.json")]
    output: PathBuf,
    /// How long to measure
    #[arg(short, long, value_name = "T", default_value = "5s", value_parser = parse_time,
          allow_hyphen_values = true)]
    duration: Duration,
    /// Kernel interface for socket I/O
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    io: Io,
}

impl DemoArgs {
    /// A run against a server that already listens at `target`.
    ///
    /// # Errors
    /// When an option value is invalid.
    pub(crate) fn into_request(self, target: Target) -> Result<RunRequest, Refusal> {
        let plan = RunPlan {
            // One worker: the server runs on the same machine, which may have only two cores.
            load: Load {
                threads: 1,
                connections: 64,
                ..Load::default()
            },
            stop: Stop {
                duration: Some(self.duration),
                requests: None,
            },
            backend: BackendChoice::from(self.io),
            ..RunPlan::new(target)
        };
        plan.check().map_err(|error| Refusal::of_plan(&error))?;
        let report = OutputOptions {
            text: TextOptions {
                latency: true,
                plain_if_empty: true,
                ..TextOptions::default()
            },
            json: Some(JsonTarget::File(self.output)),
            ..OutputOptions::default()
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
