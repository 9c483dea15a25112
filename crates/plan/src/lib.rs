//! What to run: a plan of one run, checked, serializable and inert.
//!
//! A [`RunPlan`] is built once from the command line, travels to the engine, and is saved in the
//! result document. Names of fields are part of that document: they carry their unit
//! (`timeout_ns`) and stay as they are.

#![forbid(unsafe_code)]

mod backend;
mod check;
mod load;
mod options;
mod pacing;
mod rate;
mod rate_curve;
pub mod readable;
mod request;
mod saved;
pub mod secrets;
pub mod shell;
mod source;
mod stop;
mod target;
mod telemetry;
mod tls;
pub mod units;

pub use backend::BackendChoice;
pub use check::PlanError;
pub use load::{Load, MAX_CONNECTIONS, MAX_PIPELINE, MAX_THREADS};
pub use options::{OptionName, OptionValue, PlanOption};
pub use pacing::{Arrivals, MAX_RATE_PER_SEC, MAX_STAGES, MIN_RATE_PER_SEC, Pacing, Stage};
pub use rate_curve::RateCurve;
pub use request::{Body, HeaderError, RequestSpec, parse_headers};
pub use source::SourceRange;
pub use stop::Stop;
pub use target::{Scheme, Target, UrlError};
pub use telemetry::{MIN_SAMPLE_INTERVAL, TelemetrySpec};
pub use tls::TlsSpec;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Everything that defines one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Where the requests go.
    pub target: Target,
    /// How many threads and connections, and how each connection is used.
    pub load: Load,
    /// When requests are due.
    pub pacing: Pacing,
    /// When the run ends.
    pub stop: Stop,
    /// Time at the start whose requests are sent but not measured; zero is none.
    #[serde(rename = "warmup_ns", with = "saved::duration_ns")]
    pub warmup: Duration,
    /// How long a connect or a response may take before it counts as a timeout; zero is without a limit
    /// ([`RunPlan::time_limit`]).
    #[serde(rename = "timeout_ns", with = "saved::duration_ns")]
    pub timeout: Duration,
    /// What is sent.
    pub request: RequestSpec,
    /// How https connections are verified.
    pub tls: TlsSpec,
    /// Which kernel interface drives the sockets.
    pub backend: BackendChoice,
    /// What is watched in the kernel meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetrySpec>,
}

impl RunPlan {
    /// A plan with the defaults of wrk: a closed loop with 2 threads and 10 connections for 10 s, and a
    /// timeout of 2 s.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            load: Load::default(),
            pacing: Pacing::Closed,
            stop: Stop {
                duration: Some(Duration::from_secs(10)),
                requests: None,
            },
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(2),
            request: RequestSpec::default(),
            tls: TlsSpec::default(),
            backend: BackendChoice::Auto,
            telemetry: None,
        }
    }

    /// How long a connect or a response may take; longer than any run where the plan sets no limit.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        if self.timeout.is_zero() {
            Duration::MAX
        } else {
            self.timeout
        }
    }
}
