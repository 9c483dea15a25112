//! Traces that are sent with some of the requests (W3C Trace Context).

use super::WorkerSettings;

/// The header that carries a trace (section 3.2). Names of HTTP/2 and HTTP/3 are in lower case.
pub(super) const TRACEPARENT: &str = "traceparent";

/// The number of a trace, and the value of the header.
pub(super) type Trace = (u128, String);

/// Which requests have a trace.
pub(super) struct Traces {
    /// One in this many requests has one.
    one_in: u32,
    /// Which requests have one.
    random: fastrand::Rng,
    /// The numbers of traces. Not from the seed, which is the same in every run.
    numbers: fastrand::Rng,
}

impl Traces {
    /// `None` if the plan does not ask for it.
    pub(super) fn new(settings: &WorkerSettings) -> Option<Box<Self>> {
        let one_in = settings.plan.tracing.traceparent_one_in?;
        Some(Box::new(Self {
            one_in,
            random: fastrand::Rng::with_seed(settings.seed).fork(),
            numbers: fastrand::Rng::new(),
        }))
    }

    /// The trace of the next request, if it has one.
    pub(super) fn next(&mut self) -> Option<Trace> {
        if self.one_in > 1 && self.random.u32(..self.one_in) != 0 {
            return None;
        }
        let trace = self.numbers.u128(1..);
        let parent = self.numbers.u64(1..);
        // The last part says that the caller, which is the load generator, has kept it.
        Some((trace, format!("00-{trace:032x}-{parent:016x}-01")))
    }
}
