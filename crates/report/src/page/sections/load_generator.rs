//! The load generator's own threads, delays and machine.

use std::time::Duration;

use presentation::tables::{self, columns, time_ns, words_column};
use presentation::{Block, Section, TableBlock, TableCell, Tone, words};
use results::cells;
use results::{
    Histogram, LagDigest, LatencyParts, MachineUsage, Recording, RunResult, WorkerLags, WorkerUsage,
};

use super::run_verdict::judgement;
use crate::page::runs::Runs;

/// A worker with a larger share of a CPU has little room left.
const BUSY: f64 = 0.9;

/// The percentiles that are shown in parts.
const PARTS_OF: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A worker that waits for a CPU for a larger share of its time is held up.
const WAITING: f64 = 0.1;

/// With several runs, the table of threads has only the busiest thread of each.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let is_single = runs.single().is_some();
    let threads = threads(runs);
    let missing = match (threads.is_none(), is_single) {
        (true, _) => "CPU use of its threads was not recorded",
        (false, true) => "",
        (false, false) => "The table shows the busiest thread of each run",
    };
    let tables = [
        runs.of_groups(parts),
        threads,
        runs.of_groups(lags),
        runs.of_runs(machine),
    ];
    let blocks = tables.into_iter().flatten().collect();
    let verdict = runs.single_result().map(|result| judgement(result).1);
    let lead = words::sentences([verdict.as_deref().unwrap_or_default(), missing]);
    let section = Section::new("load-generator", "Load generator", lead, blocks);
    (!section.blocks.is_empty()).then(|| section.folded(!is_single))
}

/// The threads of a single run, or the busiest one of each run.
fn threads(runs: &Runs<'_>) -> Option<Block> {
    let is_single = runs.single().is_some();
    let numbers = [
        "Thread",
        "On a CPU",
        "Waiting for a CPU",
        "Times scheduled per second",
        "Own lag, p99",
        "Receive lag, p99",
    ];
    runs.of_runs(|result| {
        let generator = &result.generator;
        let mut workers: Vec<&WorkerUsage> = generator.workers.iter().collect();
        if !is_single {
            let busiest = workers.into_iter();
            let busiest = busiest.max_by(|a, b| cpu_share(a).total_cmp(&cpu_share(b)));
            workers = busiest.into_iter().collect();
        }
        let row = |worker: &WorkerUsage| cells_of_worker(worker, &generator.lags);
        let rows = workers.into_iter().map(row);
        TableBlock::new("Threads", columns(&[], &numbers), rows)
    })
}

/// The percentiles of latency in parts, where the load generator caused some of it.
fn parts(recording: &Recording, _: Duration) -> TableBlock {
    let parts = if recording.attribution.shown.is_empty() {
        Vec::new()
    } else {
        recording.latency_parts_at(&PARTS_OF)
    };
    let row = |parts: LatencyParts| {
        let LatencyParts {
            percent,
            shown_ns,
            server_ns,
            waiting_ns,
            own_ns,
        } = parts;
        let times = [shown_ns, server_ns, waiting_ns, own_ns].map(|ns| time_ns(Some(ns)));
        std::iter::once(tables::text(format!("p{percent}")))
            .chain(times)
            .collect()
    };
    let numbers = [
        "Latency",
        "Server and network",
        "Waiting for a connection",
        "Load generator",
    ];
    let columns = columns(&["Percentile"], &numbers);
    TableBlock::new("Whose delay it is", columns, parts.into_iter().map(row))
}

fn lags(recording: &Recording, _: Duration) -> TableBlock {
    let lags = &recording.lags;
    let kinds = [
        ("Send", "from due to sent", &lags.send),
        (
            "Own",
            "the part of it caused by the load generator: due, with a connection free",
            &lags.own,
        ),
        (
            "Wake-up",
            "from the end of a wait to the wake-up",
            &lags.wakeup,
        ),
        (
            "Receive",
            "from the kernel's timestamp of a response to its reading, of a sample of responses",
            &lags.receive,
        ),
    ];
    let kinds = kinds.into_iter();
    let known = kinds.filter(|(_, _, samples)| !samples.is_empty());
    let row = |(name, meaning, samples): (&str, &str, &Histogram)| {
        vec![
            tables::text(name),
            tables::text(meaning),
            tables::count(samples.count()),
            cells::percentile(samples, 50.0),
            cells::percentile(samples, 99.0),
            time_ns(samples.max_ns()),
        ]
    };
    let columns = columns(&["Lag", "Meaning"], &["Samples", "p50", "p99", "Longest"]);
    let caption = "Delays of the load generator, which are part of the latency";
    TableBlock::new(caption, columns, known.map(row))
}

fn machine(result: &RunResult) -> TableBlock {
    let numbers = [
        "CPUs",
        "CPU time in use, all programs",
        "Taken by the hypervisor (steal)",
        "Time with a task waiting for a CPU",
    ];
    let mut columns = columns(&[], &numbers);
    columns.push(words_column("CPU quota of the control group"));
    let machine = result.generator.machine.iter();
    TableBlock::new("Machine", columns, machine.map(cells_of_machine))
}

fn share(part_ns: u64, whole_ns: u64) -> Option<f64> {
    (whole_ns > 0).then(|| part_ns as f64 / whole_ns as f64)
}

fn cpu_share(worker: &WorkerUsage) -> f64 {
    share(worker.usage.cpu_ns, worker.elapsed_ns).unwrap_or(0.0)
}

/// Its value is in percent.
fn share_cell(share: Option<f64>, limit: f64) -> TableCell {
    let is_high = share.is_some_and(|share| share >= limit);
    let percent = share.map(|share| share * 100.0);
    let cell = tables::known(percent, |percent| words::percent(percent / 100.0));
    tables::toned_if(is_high, Tone::Warning, cell)
}

fn cells_of_worker(worker: &WorkerUsage, all_lags: &[WorkerLags]) -> Vec<TableCell> {
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
    let lags = all_lags.iter().find(|lags| lags.worker == *worker);
    let p99 = |digest: Option<LagDigest>| {
        let known = digest.filter(|digest| digest.count > 0);
        time_ns(known.map(|digest| digest.p99_ns))
    };
    vec![
        tables::value(worker.to_string(), f64::from(*worker)),
        share_cell(share(usage.cpu_ns, *elapsed_ns), BUSY),
        share_cell(wait, WAITING),
        tables::known(switches, words::number),
        p99(lags.map(|lags| lags.own)),
        p99(lags.map(|lags| lags.receive)),
    ]
}

fn cells_of_machine(machine: &MachineUsage) -> Vec<TableCell> {
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
    let percent = |share: Option<f64>| {
        tables::known(share.map(|share| share * 100.0), |percent| {
            words::percent(percent / 100.0)
        })
    };
    vec![
        tables::count(u64::from(cpus)),
        percent(share(busy_ns, all_ns)),
        percent(share(steal_ns, all_ns)),
        percent(cpu_pressure_ns.and_then(|ns| share(ns, elapsed_ns))),
        tables::text(match (throttled_periods, throttled_ns) {
            (Some(periods), Some(ns)) => format!(
                "throttled {}, for {}",
                words::counted(periods, "time"),
                words::time_ns(ns)
            ),
            _ => "none".to_owned(),
        }),
    ]
}
