//! Arguments that hand a run in progress to other programs.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use clap::Args;
use plan::InvalidValue;

/// Outputs of a run or an experiment in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Live outputs")]
pub(crate) struct OutputsArgs {
    /// Write a line of JSON for each second and event while the run goes on.
    ///
    /// - is stdout, and the report then goes to stderr; fd:N is an open descriptor.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_parser = parse_stream)]
    pub(crate) stream: Option<StreamTarget>,
    /// Serve metrics at http://ADDR/metrics while the run goes on, for Prometheus to scrape.
    ///
    /// ADDR is like localhost:9464, or :9464 for all addresses of this machine.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) prometheus: Option<String>,
    /// Send metrics each second to a collector, like http://localhost:4318 (OTLP over HTTP).
    ///
    /// They go to URL/v1/metrics, and events at the start and the end of a run to URL/v1/logs. The
    /// variables of OpenTelemetry, like OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES,
    /// are used; with env in place of a URL also those that name the endpoint.
    #[arg(long, value_name = "URL|env", allow_hyphen_values = true)]
    pub(crate) otlp: Option<String>,
}

/// Destination of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamTarget {
    /// Then everything else that is for stdout goes to stderr.
    Stdout,
    /// The number of an open descriptor, above 1.
    Descriptor(RawFd),
    File(PathBuf),
}

impl OutputsArgs {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether stdout belongs to the stream.
    pub(crate) fn take_stdout(&self) -> bool {
        self.stream == Some(StreamTarget::Stdout)
    }
}

impl StreamTarget {
    /// Whether it is this file.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        matches!(self, Self::File(own) if own == path)
    }
}

/// An address to listen at, with a host.
pub(crate) fn parse_address(text: &str) -> Result<String, InvalidValue> {
    let unusable = || {
        InvalidValue::new(format!(
            "{text:?} is not an address (expected like localhost:9464 or :9464)"
        ))
    };
    let (host, port) = text.rsplit_once(':').ok_or_else(unusable)?;
    let is_bare = host.contains(':') && !host.starts_with('[');
    if is_bare || port.parse::<u16>().is_err() {
        return Err(unusable());
    }
    Ok(match host {
        "" => format!("[::]:{port}"),
        _ => text.to_owned(),
    })
}

fn parse_stream(text: &str) -> Result<StreamTarget, InvalidValue> {
    match (text, text.strip_prefix("fd:")) {
        ("", _) => Err("expected a file, - or fd:N".into()),
        ("-", _) | (_, Some("1")) => Ok(StreamTarget::Stdout),
        (_, Some(number)) => match number.parse() {
            Ok(number) if number >= 0 => Ok(StreamTarget::Descriptor(number)),
            _ => Err(format!("{text:?} is not a descriptor (expected like fd:3)").into()),
        },
        (path, None) => Ok(StreamTarget::File(path.into())),
    }
}
