//! The programs that follow a run or a sweep in progress, as the arguments ask.

use anyhow::Context;
use outputs::Output;
use outputs::otlp::{Otlp, Settings};

use crate::args::{FollowArgs, Refusal};

/// Prepares all of them, before the load starts.
///
/// # Errors
/// If an argument or a variable of the environment is wrong, or a server is unknown.
pub(super) fn open(arguments: &FollowArgs) -> anyhow::Result<Vec<Box<dyn Output>>> {
    let mut followers: Vec<Box<dyn Output>> = Vec::new();
    if let Some(value) = &arguments.otlp {
        let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
        let settings = Settings::of(value, variable).map_err(Refusal)?;
        let otlp = Otlp::start(settings, unix_ns).context("--otlp")?;
        followers.push(Box::new(otlp));
    }
    Ok(followers)
}

/// The time by the wall clock, nanoseconds since 1970.
fn unix_ns() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default()
}
