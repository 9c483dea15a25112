//! Arguments about other programs that follow a run or a sweep in progress.

use clap::Args;

/// Who else is told of runs in progress.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Live outputs")]
pub(crate) struct FollowArgs {
    /// Send metrics each second to a collector, like http://localhost:4318 (OTLP over HTTP).
    ///
    /// They go to URL/v1/metrics, and events at the start and the end of a run to URL/v1/logs. The
    /// variables of OpenTelemetry, like OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES,
    /// are used; with env in place of a URL also those that name the endpoint.
    #[arg(long, value_name = "URL|env", allow_hyphen_values = true)]
    pub(crate) otlp: Option<String>,
}

impl FollowArgs {
    /// Whether there is nobody else.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
