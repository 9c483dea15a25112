//! The metrics of good requests.

use crate::exported::{self, ExportedMetric, Value};
use crate::metric::Better::Higher;
use crate::metric::{Getter, MetricRow, Needs, Unit, row};

/// What is good may be a stream that takes many seconds.
const JUDGED: Needs = Needs {
    is_of_long_responses: true,
    ..Needs::new(
        "good requests (--good)",
        |_| "no request was judged (--good)",
    )
};

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 2] = [
    row("goodput", &[], "goodput", (Unit::Percent, Higher, JUDGED),
        Getter::Share(|run| Some(run.recording.good_requests()?.good),
                      |run| run.recording.good_requests().map_or(0, |good| good.judged()))),
    row("good_requests_per_sec", &[], "good requests/s",
        (Unit::RequestsPerSec, Higher, JUDGED),
        Getter::PerSec(|run| Some(run.recording.good_requests()?.responses()))),
];

#[rustfmt::skip]
pub(super) fn exported() -> Vec<ExportedMetric> {
    vec![ExportedMetric { attribute: Some("wrkbench.outcome"), ..exported::metric(
        "wrkbench.judged", exported::REQUESTS,
        "With --good: requests of the window that met all limits, missed one, or may still do",
        |it| {
            let good = it.snapshot.parts.good?;
            let parts = [("good", good.good), ("bad", good.bad), ("undecided", good.undecided)];
            Some(Value::Parts(parts.map(|(name, n)| (name.to_owned(), n)).into()))
        }) }]
}
