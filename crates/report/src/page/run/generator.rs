//! The generator's own part in the numbers.

use judging::{ThinPercentiles, sentences};
use results::{Histogram, MachineUsage, RunResult, Verdict, WorkerUsage};

use super::verdict::capital;
use crate::page::tables::{self, number_column, words_column};
use crate::page::{Block, Section, TableBlock, TableCell, Tone, words};

/// A worker with more than this share of a CPU has little room left.
const BUSY: f64 = 0.9;

/// A worker that waits for a CPU for more than this share of its time is held up.
const WAITING: f64 = 0.1;

/// The verdict in one sentence.
pub(crate) fn judgement(result: &RunResult) -> (Tone, String) {
    let (tone, text) = match &result.generator.verdict {
        Verdict::NotSaturated => (Tone::Good, sentences::NOT_SATURATED),
        Verdict::Saturated { .. } => (Tone::Bad, sentences::SATURATED),
        Verdict::Unknown => (Tone::Neutral, sentences::SATURATION_UNKNOWN),
    };
    let tone = match result.recording.counters.answered {
        // Without responses there are no numbers to trust.
        0 if tone == Tone::Good => Tone::Neutral,
        _ => tone,
    };
    (tone, format!("{}.", capital(text)))
}

/// The verdict with its symptoms.
pub(super) fn finding_of(result: &RunResult) -> Block {
    let (tone, text) = judgement(result);
    tables::finding(tone, text, symptoms(result))
}

fn symptoms(result: &RunResult) -> Vec<String> {
    match &result.generator.verdict {
        Verdict::Saturated { symptoms, remedy } => symptoms
            .iter()
            .map(|symptom| capital(&symptom.text))
            .chain((!remedy.is_empty()).then(|| capital(remedy)))
            .collect(),
        Verdict::NotSaturated | Verdict::Unknown => Vec::new(),
    }
}

/// Threads, delays and the machine; nothing where nothing was recorded.
pub(super) fn section(result: &RunResult) -> Option<Section> {
    let generator = &result.generator;
    let mut blocks = Vec::new();
    blocks.extend((!generator.workers.is_empty()).then(|| workers(result)));
    blocks.extend(lags(result));
    blocks.extend(generator.machine.as_ref().map(machine));
    let (_, judgement) = judgement(result);
    let missing = if generator.workers.is_empty() {
        "What its threads used was not recorded"
    } else {
        ""
    };
    (!blocks.is_empty()).then(|| Section {
        id: "generator".to_owned(),
        title: "The generator's own health".to_owned(),
        lead: words::sentences([judgement.as_str(), missing]),
        blocks,
        is_folded: false,
    })
}

fn share(part_ns: u64, whole_ns: u64) -> Option<f64> {
    (whole_ns > 0).then(|| part_ns as f64 / whole_ns as f64)
}

/// A share with a tone from a limit on; its value is in percent.
fn share_cell(share: Option<f64>, limit: f64) -> TableCell {
    let tone = match share {
        Some(share) if share >= limit => Tone::Warning,
        _ => Tone::Neutral,
    };
    let percent = share.map(|share| share * 100.0);
    let cell = tables::known(percent, |percent| words::percent(percent / 100.0));
    tables::toned(cell, tone)
}

fn workers(result: &RunResult) -> Block {
    let row = |worker: &WorkerUsage| {
        let WorkerUsage {
            worker,
            elapsed_ns,
            usage,
        } = worker;
        let wait = usage
            .run_queue_wait_ns
            .and_then(|wait_ns| share(wait_ns, *elapsed_ns));
        let switches = usage
            .timeslices
            .filter(|_| *elapsed_ns > 0)
            .map(|slices| slices as f64 / (*elapsed_ns as f64 / 1e9));
        let lags = result
            .generator
            .lags
            .iter()
            .find(|lags| lags.worker == *worker);
        let mut cells = vec![
            tables::value(worker.to_string(), f64::from(*worker)),
            share_cell(share(usage.cpu_ns, *elapsed_ns), BUSY),
            share_cell(wait, WAITING),
            tables::known(switches, words::number),
        ];
        for digest in [lags.map(|lags| lags.own), lags.map(|lags| lags.receive)] {
            let p99_us = digest
                .filter(|digest| digest.count > 0)
                .map(|digest| digest.p99_ns as f64 / 1e3);
            cells.push(tables::time_us(p99_us));
        }
        cells
    };
    Block::Table(TableBlock {
        caption: "Threads".to_owned(),
        columns: [
            "Thread",
            "On a CPU",
            "Waited for a CPU",
            "Times put on a CPU, per second",
            "Own lag, p99",
            "Receive lag, p99",
        ]
        .map(number_column)
        .to_vec(),
        rows: result.generator.workers.iter().map(row).collect(),
    })
}

fn lags(result: &RunResult) -> Option<Block> {
    let lags = &result.recording.lags;
    let row = |(name, meaning, samples): (&str, &str, &Histogram)| {
        let mut cells = vec![
            tables::text(name),
            tables::text(meaning),
            tables::count(samples.count()),
        ];
        for percent in [50.0, 99.0] {
            let is_thin = ThinPercentiles::among(&[percent], samples.count()).is_some();
            let cell = tables::time_ns(samples.value_at_percentile(percent));
            cells.push(if is_thin {
                tables::toned(cell, Tone::Warning)
            } else {
                cell
            });
        }
        cells.push(tables::time_ns(samples.max_ns().unwrap_or(0)));
        cells
    };
    let rows: Vec<_> = [
        ("Send", "from due to sent, whatever the reason", &lags.send),
        (
            "Own",
            "the part of it that was the generator's: due, and a connection was free",
            &lags.own,
        ),
        (
            "Wake-up",
            "how much too late a wait ended that had a time to end",
            &lags.wakeup,
        ),
        (
            "Receive",
            "from the kernel's stamp of an answer to its reading, of a sample of answers",
            &lags.receive,
        ),
    ]
    .into_iter()
    .filter(|(_, _, samples)| !samples.is_empty())
    .map(row)
    .collect();
    (!rows.is_empty()).then(|| {
        Block::Table(TableBlock {
            caption: "How late the generator itself was; it is part of the latency".to_owned(),
            columns: vec![
                words_column("Lag"),
                words_column("Meaning"),
                number_column("Samples"),
                number_column("p50"),
                number_column("p99"),
                number_column("Longest"),
            ],
            rows,
        })
    })
}

fn machine(machine: &MachineUsage) -> Block {
    let MachineUsage {
        elapsed_ns,
        cpus,
        busy_ns,
        steal_ns,
        throttled_periods,
        throttled_ns,
        cpu_pressure_ns,
    } = *machine;
    let all_ns = elapsed_ns.saturating_mul(u64::from(cpus));
    let known =
        |share: Option<f64>| share.map_or_else(|| words::UNKNOWN.to_owned(), words::percent);
    let mut facts = vec![
        ("CPUs".to_owned(), cpus.to_string()),
        (
            "CPU time in use, all programs".to_owned(),
            known(share(busy_ns, all_ns)),
        ),
        (
            "Taken by the hypervisor (steal)".to_owned(),
            known(share(steal_ns, all_ns)),
        ),
        (
            "Some task waited for a CPU".to_owned(),
            cpu_pressure_ns.map_or_else(
                || "not counted by this kernel".to_owned(),
                |ns| format!("{} of the time", known(share(ns, elapsed_ns))),
            ),
        ),
    ];
    let quota = match (throttled_periods, throttled_ns) {
        (Some(periods), Some(ns)) => format!(
            "stopped {} for {} altogether",
            words::counted(periods, "time"),
            words::time_ns(ns)
        ),
        _ => "none".to_owned(),
    };
    facts.push(("CPU quota of the control group".to_owned(), quota));
    Block::Facts { facts }
}
