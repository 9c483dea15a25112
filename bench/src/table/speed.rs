//! The table of `bench`.

use std::io::{self, Write};

use super::{write_disturbance, write_machine};
use crate::figures::{self, ClientResult, Medians, RatioInterval, RowResult};
use crate::machine::Machine;
use crate::options::SpeedOptions;
use crate::rows::Figure;
use crate::tool::QUIET_LABEL;
use crate::truth::timing::{ACHIEVED_WITHIN, BIAS_MAX_US, Timing, TimingResult};

/// Writes where and how the numbers below were measured.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_heading(
    out: &mut dyn Write,
    machine: &Machine,
    options: &SpeedOptions,
) -> io::Result<()> {
    write_machine(out, machine)?;
    writeln!(out, "congestion control: {}", machine.congestion_control)?;
    writeln!(
        out,
        "{}; {}; {}; {}",
        machine.wrkbench,
        machine.wrk.as_deref().unwrap_or("no wrk"),
        machine
            .wrk2
            .as_deref()
            .map_or_else(|| "no wrk2".to_owned(), |line| format!("wrk2: {line}")),
        machine.h2load.as_deref().unwrap_or("no h2load")
    )?;
    writeln!(
        out,
        "server on core {}, client on core {}, one client thread; {} interleaved repetitions of \
         {} s; medians",
        options.common.server_core, options.common.client_core, options.repeats, options.duration
    )?;
    writeln!(
        out,
        "ratios: median ratio to wrk's run of the same repetition (rows with a rate: to wrk2's; \
         over HTTP/2: to h2load's; with a display: to the run without one)"
    )
}

/// Writes one row with all its clients.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_row(out: &mut dyn Write, row: &RowResult) -> io::Result<()> {
    writeln!(out, "\n{} ({}) on {}", row.title, row.name, row.server)?;
    for note in &row.notes {
        writeln!(out, "  {note}")?;
    }
    write_disturbance(out, "  ", figures::others_share(&row.clients))?;
    writeln!(
        out,
        "  {:<24} {:>10} {:>9} {:>10} {:>9} {:>10} {:>10}  {:<13} met",
        "client", "req/s", "us CPU", "RSS MB", "x req/s", "x CPU", "x RSS", "target"
    )?;
    for client in &row.clients {
        write_client(out, client, row)?;
    }
    out.flush()
}

fn write_client(out: &mut dyn Write, client: &ClientResult, row: &RowResult) -> io::Result<()> {
    let is_baseline = client.label == row.baseline;
    let asked = match row.figure {
        Figure::CpuPerRequest(at_most) => format!("CPU <= {at_most:.2}"),
        Figure::ResidentMemory(at_most) => format!("RSS <= {at_most:.2}"),
        Figure::RequestsLost(at_most) => format!("lost <= {:.0} %", at_most * 100.0),
    };
    // These rows are about differences of 0.01.
    let decimals = if row.baseline == QUIET_LABEL { 3 } else { 2 };
    let met = match client.meets(row.figure) {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    };
    let (asked, met) = if is_baseline {
        ("", "")
    } else {
        (asked.as_str(), met)
    };
    writeln!(
        out,
        "  {:<24} {:>10} {:>9} {:>10} {:>9} {:>10} {:>10}  {:<13} {}",
        client.label,
        number(client.median, |m| m.requests_per_sec, 0),
        number(client.median, |m| m.cpu_us_per_request, 2),
        number(client.median, |m| m.peak_rss_kb / 1024.0, 1),
        number(client.ratio_to_baseline, |m| m.requests_per_sec, decimals),
        number(client.ratio_to_baseline, |m| m.cpu_us_per_request, decimals),
        number(client.ratio_to_baseline, |m| m.peak_rss_kb, decimals),
        asked,
        met
    )?;
    if let Some(cost) = client.cost.filter(|_| !is_baseline) {
        let percent = cost.other_threads_share * 100.0;
        write!(
            out,
            "    threads other than the worker use {percent:.2} % more of a core"
        )?;
        if let Some(RatioInterval {
            low,
            high,
            confidence,
        }) = cost.requests_ratio
        {
            let percent = confidence * 100.0;
            write!(
                out,
                "; x req/s is in {low:.3} .. {high:.3} ({percent:.0} % confidence)"
            )?;
        }
        writeln!(out)?;
    }
    let runs_with_errors = client
        .samples
        .iter()
        .filter(|sample| !sample.errors.is_empty());
    if let Some(first) = runs_with_errors.clone().next() {
        writeln!(
            out,
            "    errors in {} of {} runs, first: {}",
            runs_with_errors.count(),
            client.samples.len(),
            first.errors.join("; ")
        )?;
    }
    Ok(())
}

/// Writes how accurately wrkbench keeps its schedule.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_timing(out: &mut dyn Write, results: &[TimingResult]) -> io::Result<()> {
    writeln!(
        out,
        "\nschedule accuracy ({}): 100 connections, runs of 10 s; us, medians of the runs",
        crate::rows::TIMING
    )?;
    writeln!(
        out,
        "  {:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}  \
         target: rate within {:.1} %, median within {BIAS_MAX_US:.0} us",
        "client",
        "rate",
        "achieved",
        "lag p50",
        "lag p99",
        "own p99",
        "median-truth",
        ACHIEVED_WITHIN * 100.0
    )?;
    for result in results {
        let median = |pick: fn(&Timing) -> f64| {
            let values: Vec<f64> = result.samples.iter().map(pick).collect();
            stats::median(&values).unwrap_or(f64::NAN)
        };
        let achieved = median(|timing| timing.achieved_share);
        let bias_us = median(|timing| timing.median_bias_us);
        let met = |is_met| if is_met { "yes" } else { "NO" };
        writeln!(
            out,
            "  {:<24} {:>7}/s {:>8.2}% {:>9.1} {:>9.1} {:>9.1} {:>12.1}  rate {}, median {}",
            format!("wrkbench {}", result.io),
            result.rate_per_sec,
            achieved * 100.0,
            median(|timing| timing.send_lag_p50_us),
            median(|timing| timing.send_lag_p99_us),
            median(|timing| timing.own_lag_p99_us),
            bias_us,
            met((achieved - 1.0).abs() <= ACHIEVED_WITHIN),
            met(bias_us.abs() <= BIAS_MAX_US)
        )?;
        write_disturbance(out, "    ", result.others_share)?;
    }
    out.flush()
}

/// A median, or a dash without one.
fn number(medians: Option<Medians>, pick: fn(Medians) -> f64, decimals: usize) -> String {
    medians.map_or_else(
        || "-".to_owned(),
        |medians| format!("{:.decimals$}", pick(medians)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Sample;

    fn row(figure: Figure) -> RowResult {
        let sample = |cpu: f64, errors: Vec<String>| Sample {
            requests_per_sec: 1e6 / cpu,
            cpu_us_per_request: cpu,
            peak_rss_kb: 2048.0,
            others_share: 0.2,
            other_threads_share: None,
            errors,
        };
        let theirs = vec![sample(8.0, Vec::new())];
        let ours = vec![sample(4.0, vec!["Socket errors: connect 1".into()])];
        let ours = ClientResult::new("wrkbench epoll".into(), ours, Some(&theirs));
        let baseline = theirs.clone();
        let theirs = ClientResult::new(crate::tool::WRK_LABEL.into(), theirs, Some(&baseline));
        RowResult {
            name: "keepalive",
            title: "a row".into(),
            server: "a server".into(),
            baseline: crate::tool::WRK_LABEL,
            figure,
            notes: vec!["a note".into()],
            clients: vec![theirs, ours],
        }
    }

    fn shown(figure: Figure) -> String {
        let mut out = Vec::new();
        write_row(&mut out, &row(figure)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_shows_numbers_ratio_and_verdict() {
        let text = shown(Figure::CpuPerRequest(0.5));
        let line = text
            .lines()
            .find(|line| line.contains("wrkbench epoll"))
            .unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected = [
            "wrkbench", "epoll", "250000", "4.00", "2.0", "2.00", "0.50", "1.00", "CPU", "<=",
        ];
        assert_eq!(words[..10], expected);
        assert_eq!(words[10..], ["0.50", "yes"]);
        assert!(shown(Figure::CpuPerRequest(0.4)).contains("CPU <= 0.40   NO\n"));
        assert!(shown(Figure::ResidentMemory(0.5)).contains("RSS <= 0.50   NO\n"));
    }

    #[test]
    fn a_row_with_a_display_shows_the_interval_and_the_cost_of_other_threads() {
        let sample = |rate: f64, share: f64| Sample {
            requests_per_sec: rate,
            cpu_us_per_request: 1.0,
            peak_rss_kb: 1.0,
            others_share: 0.0,
            other_threads_share: Some(share),
            errors: Vec::new(),
        };
        let quiet = vec![sample(100.0, 0.01); 6];
        let mut row = row(Figure::RequestsLost(0.01));
        let mut shown = |rates: &[f64]| {
            let seen = rates.iter().map(|rate| sample(*rate, 0.014)).collect();
            row.clients = vec![ClientResult::new("seen".into(), seen, Some(&quiet))];
            let mut out = Vec::new();
            write_row(&mut out, &row).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = shown(&[99.5, 99.6, 101.0, 100.0, 99.9, 99.7]);
        assert!(text.contains("lost <= 1 %   yes\n"), "{text}");
        let cost = "    threads other than the worker use 0.40 % more of a core";
        assert!(
            text.contains(&format!(
                "{cost}; x req/s is in 0.995 .. 1.010 (97 % confidence)\n"
            )),
            "{text}"
        );
        let text = shown(&[99.5; 5]);
        assert!(text.contains(&format!("{cost}\n")), "{text}");
    }

    #[test]
    fn errors_of_a_run_are_shown_below_its_row() {
        let text = shown(Figure::CpuPerRequest(0.5));
        assert!(
            text.contains("errors in 1 of 1 runs, first: Socket errors: connect 1"),
            "{text}"
        );
        assert!(text.contains("a note"));
        assert!(text.contains("other programs used up to 20 % of the machine"));
    }
}
