//! The last lines: requests, bytes, errors, and the two rates.

use std::io::{self, Write};

use plan::units;
use results::{Legacy, RunResult};

use super::time_ns;

pub(super) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let counters = &result.recording.counters;
    let runtime = time_ns(result.window.duration_ns as f64);
    let bytes = units::binary(counters.bytes as f64);
    writeln!(
        output,
        "  {} requests in {runtime}, {bytes}B read",
        counters.responses()
    )?;
    let errors = &result.recording.errors;
    let [connect, read, write, timeout] = [
        Legacy::Connect,
        Legacy::Read,
        Legacy::Write,
        Legacy::Timeout,
    ]
    .map(|counter| errors.legacy(counter));
    if [connect, read, write, timeout] != [0; 4] {
        writeln!(
            output,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        )?;
    }
    let over_399 = result.recording.statuses.over_399();
    if over_399 != 0 {
        writeln!(output, "  Non-2xx or 3xx responses: {over_399}")?;
    }
    writeln!(output, "Requests/sec: {:>9.2}", result.requests_per_sec())?;
    writeln!(
        output,
        "Transfer/sec: {:>10}B",
        units::binary(result.bytes_per_sec())
    )
}
