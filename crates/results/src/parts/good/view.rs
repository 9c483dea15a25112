//! How many requests were good.

use plan::readable::{count, counted, decimal, percent};
use presentation::TextBlock;

use crate::{GoodRecording, RunResult};

/// `98.4 % of 192 requests`, and how many are not decided.
#[must_use]
pub fn share(good: &GoodRecording) -> String {
    let judged = good.judged();
    let mut text = match judged {
        0 => "of no request is it known whether it was good".to_owned(),
        _ => format!(
            "{} of {}",
            percent(good.good as f64 / judged as f64 * 100.0),
            counted(judged, "request")
        ),
    };
    if good.undecided > 0 {
        text += &format!(", {} not decided at the end", count(good.undecided));
    }
    text
}

/// Two lines below the text of a run.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let good = result.recording.good_requests();
    let (Some(good), Some(limits)) = (good, &result.plan.good) else {
        return Vec::new();
    };
    let per_sec = decimal(result.per_sec(good.responses()), 2);
    vec![
        TextBlock::Line(format!("Good:         {} ({limits})", share(&good))),
        TextBlock::Line(format!("Good/sec:     {per_sec}")),
    ]
}
