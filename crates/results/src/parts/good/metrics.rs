//! The metrics of good requests.

use crate::metric::Better::Higher;
use crate::metric::{Getter, Needs, Row, Unit, row};

/// What is good may be a stream that takes many seconds.
const JUDGED: Needs = Needs {
    is_of_long_responses: true,
    ..Needs::new(
        "good requests (--good)",
        |_| "no request was judged (--good)",
    )
};

#[rustfmt::skip]
pub(super) static METRICS: [Row; 2] = [
    row("goodput", &[], "goodput", (Unit::Percent, Higher, JUDGED),
        Getter::Share(|run| Some(run.recording.good_requests()?.good),
                      |run| run.recording.good_requests().map_or(0, |good| good.judged()))),
    row("good_requests_per_sec", &[], "good requests/s",
        (Unit::RequestsPerSec, Higher, JUDGED),
        Getter::PerSec(|run| Some(run.recording.good_requests()?.responses()))),
];
