//! Metrics and events of runs for a collector of OpenTelemetry (OTLP over HTTP, protobuf).

mod exporter;
mod messages;
mod settings;

pub use settings::{Endpoint, Settings};
