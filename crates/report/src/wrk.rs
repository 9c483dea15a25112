//! The report that wrk prints after a run: the same lines, columns and units, byte for byte.
//!
//! Scripts cut this text with awk by line, word and column; no line may move. What is printed in
//! them are our numbers: measured samples, no correction unless it is asked for.

use std::io::{self, Write};

use plan::units;
use results::{Histogram, Legacy, Rates, RunResult};

use crate::{TextOptions, correction};

/// The percentiles of wrk's latency distribution.
const PERCENTILES: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

/// The cells of one row of the table, before they are set.
struct Row {
    label: &'static str,
    mean: String,
    stdev: String,
    max: String,
    /// 0..=100; not a number without samples.
    within_stdev_percent: f64,
}

pub(crate) fn render(
    result: &RunResult,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    let latency = latency(result, options);
    writeln!(
        output,
        "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
        "Avg", "Stdev", "Max", "+/- Stdev"
    )?;
    write_row(&latency_row(&latency), output)?;
    write_row(&rate_row(&result.recording.rates), output)?;
    if options.latency || options.percentiles.is_some() {
        write_distribution(&latency, options, output)?;
    }
    write_totals(result, output)
}

/// What wrk calls latency, with the invented samples when they are asked for.
fn latency(result: &RunResult, options: &TextOptions) -> Histogram {
    let measured = result.recording.latency();
    if !options.wrk_correction {
        return measured;
    }
    let answered = result.recording.counters.answered;
    let connections = u64::from(result.plan.load.connections);
    match correction::expected_interval_ns(result.window.duration_ns, answered, connections) {
        Some(interval_ns) => correction::corrected(&measured, interval_ns),
        None => measured,
    }
}

fn latency_row(latency: &Histogram) -> Row {
    Row {
        label: "Latency",
        mean: time_ns(latency.mean_ns()),
        stdev: time_ns(latency.stdev_ns()),
        max: time_ns(latency.max_ns().unwrap_or(0) as f64),
        within_stdev_percent: latency.within_stdev_percent().unwrap_or(f64::NAN),
    }
}

fn rate_row(rates: &Rates) -> Row {
    Row {
        label: "Req/Sec",
        mean: units::metric(rates.mean()),
        stdev: units::metric(rates.stdev()),
        max: units::metric(rates.max().unwrap_or(0) as f64),
        within_stdev_percent: rates.within_stdev_percent().unwrap_or(f64::NAN),
    }
}

fn write_row(row: &Row, output: &mut dyn Write) -> io::Result<()> {
    let (mean, stdev) = (units::cell(&row.mean, 8), units::cell(&row.stdev, 10));
    let max = units::cell(&row.max, 9);
    // What C's printf makes of the 0/0 that wrk computes without samples.
    let within = if row.within_stdev_percent.is_nan() {
        "-nan".to_owned()
    } else {
        format!("{:.2}", row.within_stdev_percent)
    };
    writeln!(
        output,
        "    {:<10}{mean}{stdev}{max}{within:>8}%",
        row.label
    )
}

fn write_distribution(
    latency: &Histogram,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "  Latency Distribution")?;
    for &percent in options.percentiles.as_deref().unwrap_or(&PERCENTILES) {
        let value = time_ns(latency.value_at_percentile(percent) as f64);
        // wrk prints no decimals, and asks for no percentile that has any.
        writeln!(output, "{percent:>7}%{}", units::cell(&value, 10))?;
    }
    Ok(())
}

fn write_totals(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let counters = &result.recording.counters;
    let runtime = time_ns(result.window.duration_ns as f64);
    let bytes = units::binary(counters.bytes as f64);
    writeln!(
        output,
        "  {} requests in {runtime}, {bytes}B read",
        counters.answered
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

/// wrk's times are whole microseconds; ours keep the fraction that they have.
fn time_ns(time_ns: f64) -> String {
    units::time_us(time_ns / 1000.0)
}
