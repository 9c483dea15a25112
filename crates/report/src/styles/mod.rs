//! The reports of wrk, wrk2 and wrk-cmm, with the same lines, columns and units, byte for byte.
//!
//! Scripts parse these texts by line, word and column, so that no line may move. The numbers are
//! our own: measured samples, without a correction unless it is requested.

mod distribution;
mod table;
mod totals;

use std::io::{self, Write};

use distribution::Percentiles;
use plan::{Scheme, units};
use presentation::TextBlock;
use results::{Histogram, RunResult, parts};
use table::{StatisticsRow, Table};

use crate::{TextOptions, aligned, correction, fleet};

/// The differences between the three texts.
pub(crate) struct Style {
    table: Table,
    percentiles: Percentiles,
    title: &'static str,
    /// Whether wrk2's detailed spectrum follows the percentiles.
    spectrum: bool,
}

pub(crate) const WRK: Style = Style {
    table: Table {
        columns: &table::MEAN_STDEV_MAX,
        no_share: "-nan",
    },
    percentiles: Percentiles {
        usual: &[50.0, 75.0, 90.0, 99.0],
        decimals: 0,
    },
    title: "Latency Distribution",
    spectrum: false,
};

pub(crate) const WRK2: Style = Style {
    table: Table {
        columns: &table::MEAN_STDEV_MAX,
        no_share: "0.00",
    },
    percentiles: Percentiles {
        usual: &[50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0],
        decimals: 3,
    },
    title: "Latency Distribution (HdrHistogram - Recorded Latency)",
    spectrum: true,
};

pub(crate) const CMM: Style = Style {
    table: Table {
        columns: &table::MEAN_STDEV_MAX_MIN,
        no_share: "-nan",
    },
    percentiles: Percentiles {
        usual: &[50.0, 75.0, 90.0, 95.0, 99.0, 99.99],
        decimals: 2,
    },
    title: "Latency Distribution",
    spectrum: false,
};

/// wrk2's title, used in every style.
const UNCORRECTED_TITLE: &str = "Latency Distribution (HdrHistogram - Uncorrected Latency \
     (measured without taking delayed starts into account))";

/// Printed in place of the table of a run without a response.
const NO_LATENCY: &str = "  No request succeeded, so there is no latency to show";

/// Printed in place of the table if there were responses only to requests of the warm-up.
const NO_LATENCY_OF_WINDOW: &str =
    "  No request of the window was answered, so there is no latency to show";

/// Printed in place of the table if there were events, but no stream of them was complete.
const NO_LATENCY_OF_STREAMS: &str = "  No stream was complete, so there is no latency to show";

pub(crate) fn render(
    result: &RunResult,
    style: &Style,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    let latency = latency(result, options);
    if options.plain_if_empty && latency.is_empty() {
        let has_rate = result.recording.counters.responses() > 0;
        let why = match has_rate {
            true => NO_LATENCY_OF_WINDOW,
            false if result.has_answers() => NO_LATENCY_OF_STREAMS,
            false => NO_LATENCY,
        };
        writeln!(output, "{why}")?;
        return write_end(result, options, output);
    }
    style
        .table
        .write(&rows(result, &latency, options), output)?;
    if shows_latency(options) {
        write_block(style, style.title, &latency, options, output)?;
    }
    if options.uncorrected {
        let uncorrected = result.recording.uncorrected();
        writeln!(output)?;
        write_block(style, UNCORRECTED_TITLE, &uncorrected, options, output)?;
    }
    write_end(result, options, output)
}

/// The totals, and the tables below them.
fn write_end(result: &RunResult, options: &TextOptions, output: &mut dyn Write) -> io::Result<()> {
    totals::write(result, output)?;
    let parts = parts::ALL.iter();
    let shown = parts.filter(|part| options.by_name || !part.is_text_of_names);
    for block in shown.flat_map(|part| (part.text)(result)) {
        match block {
            TextBlock::Line(line) => writeln!(output, "{line}")?,
            TextBlock::Table(table) => aligned::write(&table, aligned::BELOW_WRK, output)?,
        }
    }
    fleet::write(result, output)
}

fn shows_latency(options: &TextOptions) -> bool {
    options.latency || options.uncorrected || options.percentiles.is_some()
}

/// The percentiles of latency that a text shows; empty unless a distribution is requested.
pub(crate) fn shown_percentiles<'a>(style: &Style, options: &'a TextOptions) -> &'a [f64] {
    match &options.percentiles {
        Some(asked) => asked,
        None if shows_latency(options) => style.percentiles.usual,
        None => &[],
    }
}

/// The latency of the texts, with invented samples if they are requested.
fn latency(result: &RunResult, options: &TextOptions) -> Histogram {
    let measured = result.recording.latency();
    if !options.wrk_correction || result.plan.pacing.is_open() {
        return measured;
    }
    let answered = result.recording.counters.responses();
    let connections = u64::from(result.plan.load.connections);
    match correction::expected_interval_ns(result.window.duration_ns, answered, connections) {
        Some(interval_ns) => correction::corrected(&measured, interval_ns),
        None => measured,
    }
}

fn rows(result: &RunResult, latency: &Histogram, options: &TextOptions) -> Vec<StatisticsRow> {
    let phases = &result.recording.phases;
    let mut rows = vec![StatisticsRow::of_times("Latency", latency)];
    if options.breakout {
        rows.push(StatisticsRow::of_times("Connect", &phases.connect));
        if !phases.proxy.is_empty() {
            rows.push(StatisticsRow::of_times("Proxy", &phases.proxy));
        }
        // wrk-cmm's Connect includes the handshake; here it is a row of its own.
        if result.plan.target.scheme == Scheme::Https {
            rows.push(StatisticsRow::of_times("TLS", &phases.tls));
        }
        rows.push(StatisticsRow::of_times("TTFB", &phases.first_byte));
        rows.push(StatisticsRow::of_times("TTLB", &phases.last_byte));
    }
    rows.push(StatisticsRow::of_rates(&result.recording.rates));
    rows
}

fn write_block(
    style: &Style,
    title: &str,
    samples: &Histogram,
    options: &TextOptions,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "  {title}")?;
    let asked = options.percentiles.as_deref();
    style.percentiles.write(samples, asked, output)?;
    if style.spectrum && (options.latency || options.uncorrected) {
        writeln!(output, "\n  Detailed Percentile spectrum:")?;
        distribution::write_spectrum(samples, output)?;
        writeln!(output, "{:-<58}", "")?;
    }
    Ok(())
}

/// A time in the form of wrk. Unlike wrk's own, it is not rounded to whole microseconds first.
fn time_ns(time_ns: f64) -> String {
    units::time_us(time_ns / 1000.0)
}
