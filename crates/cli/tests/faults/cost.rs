//! What a fault costs on a connection with several requests in flight, and how that is checked.
//!
//! Each fault is tried twice. First every request is affected, one at a time on each connection:
//! that shows how the fault is counted. Then one of three is, with four streams on each connection:
//! that shows that nothing is lost or counted twice, and that connections recover.

use results::ErrorKind::{self, BrokenPipe, ClosedEarly, ConnectTimeout, Reset, Stale};
use results::ErrorKind::{Flooded, Timeout, Truncated};
use testkit::one_line;

use crate::adversary::Tally;
use crate::client::Finished;

/// Requests of a run of which all are affected.
pub(crate) const REQUESTS: u64 = 6;
/// Requests of a run of which one of [`ONE_OF`] is affected.
pub(crate) const REQUESTS_MIXED: u64 = 60;
pub(crate) const ONE_OF: u64 = 3;

pub(crate) const DURATION_MS: u64 = 400;
/// Where no timeout is expected, even on a busy machine.
const TIMEOUT_MS: u64 = 30_000;
/// More for floods: a connection takes 65,536 frames before it is given up.
const FLOOD_MS: u64 = 5_000;

/// What a fault costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Nothing: there is a response.
    Nothing,
    /// Its request, with this kind.
    Request(ErrorKind),
    /// Its request and all others of its connection, with this kind.
    Connection(ErrorKind),
    /// Its connection, once its response is there.
    ConnectionAfterwards(ErrorKind),
}

impl Cost {
    /// What is expected, for the table.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Nothing => "a response".to_owned(),
            Self::Request(kind) => format!("{kind}, the connection lives"),
            Self::Connection(kind) => format!("{kind}, for the whole connection"),
            Self::ConnectionAfterwards(kind) => format!("a response, then {kind}"),
        }
    }

    /// The timeout of a run with this many requests, and how long the run may take, both in
    /// milliseconds. A fault that is a timeout gets the short one.
    pub(crate) fn times_ms(self, requests: u64, short_timeout_ms: u64) -> (u64, u64) {
        match self {
            Self::Request(Timeout) => (short_timeout_ms, DURATION_MS + requests * short_timeout_ms),
            Self::Connection(Flooded) => (TIMEOUT_MS, DURATION_MS + FLOOD_MS),
            _ => (TIMEOUT_MS, DURATION_MS),
        }
    }

    /// Checks a run of [`REQUESTS`] requests that were all affected.
    pub(crate) fn check_all(self, run: &Finished, tally: &Tally) {
        let story = format!("{}\n{tally:?}", run.story());
        match self {
            Self::Nothing => {
                assert_eq!(run.kinds(), [], "{story}");
                let counted = (run.answered(), tally.requests());
                assert_eq!(counted, (REQUESTS, REQUESTS), "{story}");
            }
            Self::Request(kind) | Self::Connection(kind) => {
                let counted = (run.kinds(), run.sent(), run.answered(), run.failed());
                assert_eq!(counted, (vec![kind], REQUESTS, 0, REQUESTS), "{story}");
                assert_eq!(run.events(), REQUESTS, "events\n{story}");
                assert_eq!(run.output.code, Some(1), "{story}");
                let line = one_line(&run.output.stderr);
                let begin = format!("wrkbench: no request succeeded: {}", kind.describe());
                assert!(line.starts_with(&begin), "{line}");
            }
            Self::ConnectionAfterwards(kind) => {
                assert_eq!(run.kinds(), [kind], "{story}");
                assert_eq!((run.answered(), run.failed()), (REQUESTS, 0), "{story}");
            }
        }
    }

    /// Checks a run of [`REQUESTS_MIXED`] requests of which one of [`ONE_OF`] was affected.
    pub(crate) fn check_some(self, run: &Finished, tally: &Tally) {
        let (requests, wrong) = (tally.requests(), tally.wrong());
        let story = format!("{}\n{tally:?}", run.story());
        assert_eq!(run.output.code, Some(0), "{story}");
        assert_eq!(run.sent(), REQUESTS_MIXED, "{story}");
        assert_eq!(run.answered() + run.failed(), REQUESTS_MIXED, "{story}");
        let (expected, or_else): (_, &[ErrorKind]) = match self {
            Self::Nothing => (None, &[]),
            // On a busy machine, new connections may run out of time too.
            Self::Request(Timeout) => (Some(Timeout), &[ConnectTimeout]),
            // Without a byte of a response it may look like the end of an idle connection.
            Self::Connection(ClosedEarly) => (Some(ClosedEarly), &[Stale]),
            // If the client sends meanwhile, that fails with the reset, and reading sees the end.
            Self::Connection(Reset) => (Some(Reset), &[Stale, Truncated, ClosedEarly, BrokenPipe]),
            Self::Request(kind) | Self::Connection(kind) | Self::ConnectionAfterwards(kind) => {
                (Some(kind), &[])
            }
        };
        let mut kinds = run.kinds();
        kinds.retain(|kind| !or_else.contains(kind));
        assert_eq!(kinds, Vec::from_iter(expected), "{story}");
        match self {
            Self::Nothing => assert_eq!(run.answered(), REQUESTS_MIXED, "{story}"),
            // A slow machine may let further requests run out of time.
            Self::Request(Timeout) => assert!(run.failed() >= wrong, "{story}"),
            Self::Request(_) => {
                assert_eq!(requests, REQUESTS_MIXED, "{story}");
                assert_eq!(run.failed(), run.events(), "{story}");
                assert_eq!(run.failed(), wrong, "{story}");
            }
            Self::Connection(_) | Self::ConnectionAfterwards(_) => {
                assert!(requests <= REQUESTS_MIXED, "{story}");
            }
        }
        assert!(wrong > 0, "{story}");
        assert!(run.answered() > 0, "no connection recovered\n{story}");
    }
}
