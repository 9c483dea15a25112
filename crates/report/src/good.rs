//! How many requests were good.

use std::io::{self, Write};

use plan::readable::{count, counted, decimal, percent};
use results::{GoodRecording, RunResult};

/// `98.4 % of 192 requests`, and how many are not decided.
pub(crate) fn share(good: &GoodRecording) -> String {
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

/// Writes a line about the good requests; nothing if requests are not judged.
pub(crate) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let good = result.recording.good_requests();
    let (Some(good), Some(limits)) = (good, &result.plan.good) else {
        return Ok(());
    };
    let per_sec = decimal(result.per_sec(good.responses()), 2);
    writeln!(output, "Good:         {} ({limits})", share(&good))?;
    writeln!(output, "Good/sec:     {per_sec}")
}
