//! Optional measurements, a folder for each.

pub(crate) mod breakdown;
pub(crate) mod events;
pub(crate) mod good;
pub(crate) mod llm;
pub(crate) mod names;
pub(crate) mod profile;
pub(crate) mod quic;
pub(crate) mod telemetry;
