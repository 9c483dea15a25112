//! The requests of one worker, made by its Lua state.

use std::sync::{Arc, Mutex};

use engine::source::{Address, Batch, Captured, RequestSource, SourceError};

use crate::api::{ThreadControl, lock};
use crate::state::{LuaState, RequestFault};
use crate::{Phase, ScriptError};

/// What the script of thread 1 defines. The same is assumed for all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// `request` is a function, so every batch comes from Lua.
    pub(crate) dynamic: bool,
    /// `response` is a function.
    pub(crate) response: bool,
    /// `delay` is a function.
    pub(crate) delay: bool,
}

/// A [`RequestSource`] on one Lua state.
///
/// The state is locked for each call: the main state reads it in `done`, and must be able to detect
/// a worker that has not returned.
pub(crate) struct ScriptSource {
    state: Arc<Mutex<LuaState>>,
    control: Arc<ThreadControl>,
    features: Features,
    fixed: Option<Batch>,
}

impl ScriptSource {
    /// A source that calls `request`, or sends `fixed`.
    pub(crate) fn new(
        state: Arc<Mutex<LuaState>>,
        control: Arc<ThreadControl>,
        features: Features,
        fixed: Option<Batch>,
    ) -> Self {
        Self {
            state,
            control,
            features,
            fixed,
        }
    }
}

impl RequestSource for ScriptSource {
    fn fixed(&self) -> Option<Batch> {
        self.fixed.clone()
    }

    fn next(&mut self, _connection: u32, output: &mut Batch) -> Result<(), SourceError> {
        if let Some(batch) = &self.fixed {
            output.extend_from_slice(batch);
            return Ok(());
        }
        let mut state = lock(&self.state);
        match state.request(output) {
            // This thread has sent all of its requests.
            Err(RequestFault::Nil) => Ok(()),
            made => made.map_err(|fault| source_error(&request_error(&mut state, fault))),
        }
    }

    fn wants_delay(&self) -> bool {
        self.features.delay
    }

    fn delay_ns(&mut self) -> Result<u64, SourceError> {
        let delay = lock(&self.state).delay();
        let delay_ms = delay.map_err(|message| phase_error(Phase::Delay, message))?;
        Ok(delay_ms.map_or(0, nanoseconds))
    }

    fn wants_responses(&self) -> bool {
        self.features.response
    }

    fn response(&mut self, response: &Captured) -> Result<(), SourceError> {
        let outcome = lock(&self.state).response(response);
        outcome.map_err(|message| phase_error(Phase::Response, message))
    }

    fn take_address(&mut self) -> Option<Address> {
        self.control.take_address()
    }

    fn stopped(&self) -> bool {
        self.control.stopped()
    }
}

/// Appends the result of `request()` or of the default request.
///
/// # Errors
/// If it fails, or returns nothing that can be sent.
pub(crate) fn make_request(state: &mut LuaState, output: &mut Batch) -> Result<(), ScriptError> {
    let made = state.request(output);
    made.map_err(|fault| request_error(state, fault))
}

fn request_error(state: &mut LuaState, fault: RequestFault) -> ScriptError {
    let mut returned = |what: &str| {
        let place = place_of_request(state);
        format!("{place}: request() returned {what}, expected a string")
    };
    let message = match fault {
        RequestFault::Raised(message) => message,
        RequestFault::Nil => returned("nil"),
        RequestFault::Returned(what) => returned(&what),
    };
    ScriptError::Failed {
        phase: Phase::Request,
        message,
    }
}

/// `file:line` of the function `request`.
fn place_of_request(state: &mut LuaState) -> String {
    let place = state.call(c"place", &[crate::transfer::Value::text("request")]);
    let place = place.ok().and_then(|place| Some(place.as_text()?.to_vec()));
    place.map_or_else(
        || "script".to_owned(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// The longest delay: a year. It keeps sums with a clock far from overflow.
const DELAY_MAX_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// Converts milliseconds, including fractions, to nanoseconds. Negative numbers and NaN become 0.
fn nanoseconds(delay_ms: f64) -> u64 {
    // The cast saturates and turns NaN into 0.
    ((delay_ms * 1e6) as u64).min(DELAY_MAX_NS)
}

fn phase_error(phase: Phase, message: String) -> SourceError {
    source_error(&ScriptError::Failed { phase, message })
}

fn source_error(error: &ScriptError) -> SourceError {
    SourceError {
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_keeps_its_fraction_and_does_not_overflow() {
        assert_eq!(nanoseconds(1.5), 1_500_000);
        assert_eq!(nanoseconds(0.0), 0);
        assert_eq!(nanoseconds(-3.0), 0);
        assert_eq!(nanoseconds(f64::NAN), 0);
        assert_eq!(nanoseconds(f64::INFINITY), DELAY_MAX_NS);
        assert_eq!(nanoseconds(1e300), DELAY_MAX_NS);
    }
}
