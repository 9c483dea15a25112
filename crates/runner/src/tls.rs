//! TLS settings from the files that the options name.

use crate::{RunnerError, TlsClient};
use plan::RunPlan;

pub(crate) fn client(_plan: &RunPlan) -> Result<TlsClient, RunnerError> {
    Err(RunnerError::Tls("https is not there yet".to_owned()))
}
