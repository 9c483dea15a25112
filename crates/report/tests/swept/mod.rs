//! Sweeps that were never run: the same on every machine.

use analysis::{Observation, TrialFacts};
use results::metric;
use results::{
    Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, HookOutput, Order, Setting, SocketMoment,
    SocketSummary, SocketTimeline, Spread, Telemetry,
};

use crate::fixture;

/// Between -1 and 1, the same for the same numbers, and without any order that shows.
pub(crate) fn noise(run: u64) -> f64 {
    (run.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 23) - 1.0
}

pub(crate) fn setting(factor: &str, level: &str) -> Setting {
    Setting {
        factor: factor.to_owned(),
        level: level.to_owned(),
    }
}

/// A run of an experiment with this number of responses of this service time.
pub(crate) fn run(
    cell: &Cell,
    round: u32,
    position: u32,
    responses: u64,
    service_us: u64,
) -> Observation {
    let service_ns: Vec<u64> = (0..responses)
        .map(|number| service_us * (500 + number * 7_919 % 1_000) + number * 400)
        .collect();
    let mut result = fixture::result(fixture::answered(&service_ns, 200, 150));
    result.telemetry = Some(telemetry(u64::from(position)));
    result.warnings.clear();
    let level = cell.settings.last().map_or("", |setting| &setting.level);
    let machine: [(&str, String); 4] = [
        ("net.core.rmem_max", level.to_owned()),
        (
            "load_1m",
            format!("{:.2}", 1.0 + f64::from(position) / 10.0),
        ),
        ("mem_available_kib", (8_000_000 - position).to_string()),
        ("uptime_s", (1_000 + 10 * position).to_string()),
    ];
    let machine = machine.map(|(name, value)| (name.to_owned(), value));
    let begin_s = 10 * position;
    let trial = TrialFacts {
        started_at: Some(format!(
            "2026-11-20T20:{:02}:{:02}Z",
            begin_s / 60,
            begin_s % 60
        )),
        round,
        is_baseline: cell.is_baseline,
        effective: [("net.core.rmem_max".to_owned(), level.to_owned())].into(),
        environment_before: machine.clone().into(),
        environment_after: machine.into(),
        hooks: vec![HookOutput {
            hook: "restart".to_owned(),
            command: "systemctl restart nginx".to_owned(),
            exit_code: Some(0),
            duration_ms: 900 + u64::from(position),
            ..HookOutput::default()
        }],
        ..TrialFacts::default()
    };
    Observation {
        source: format!("results/trials/r{round:02}-c{:03}.json", cell.number),
        cell: Some(cell.number),
        settings: cell.settings.clone(),
        profile: cell.profile.clone(),
        target: Some(cell.target.clone()),
        run: round,
        position: Some(position),
        values: metric::values(&result),
        result: Some(Box::new(result)),
        trial: Some(Box::new(trial)),
        ..Observation::default()
    }
}

/// Three seconds of sockets; the last interval is cut short by the window's end.
fn telemetry(run: u64) -> Telemetry {
    let row = |second: u64| SocketMoment {
        start_ms: second * 1_000,
        sockets: Some(20),
        rtt_p50_us: Some(40.0 + run as f64 + second as f64),
        rtt_p99_us: Some(400.0),
        cwnd_p50: Some(10.0),
        delivery_rate_p50_bytes_per_sec: Some(1e9 + run as f64),
        segments_retransmitted: Some(second),
        bytes_sent: Some(1_000_000),
        bytes_received: Some(50_000),
        listen_queue_max: Some(run % 3),
    };
    let spread = Spread {
        min: 20.0,
        p50: 41.0 + run as f64,
        p90: 100.0,
        p99: 400.0,
        max: 900.0,
    };
    Telemetry {
        interval_ns: 1_000_000_000,
        samples: 5,
        sockets: Some(SocketSummary {
            sockets: 20,
            segments_sent: Some(10_000),
            segments_retransmitted: 6,
            rtt_us: Some(spread),
            listen_drops: Some(0),
            ..SocketSummary::default()
        }),
        counters: [
            ("TcpExt.ListenDrops".to_owned(), 0),
            ("Tcp.RetransSegs".to_owned(), 6 + run as i64),
        ]
        .into(),
        timeline: Some(SocketTimeline {
            interval_ms: 1_000,
            rows: (0..4).map(row).collect(),
        }),
        ..Telemetry::default()
    }
}

pub(crate) fn experiment(cells: &[Cell], rounds: u32) -> Experiment {
    Experiment {
        schema_version: EXPERIMENT_SCHEMA_VERSION,
        name: "socket buffers".to_owned(),
        plan_toml: "name = \"socket buffers\"\nrounds = 5\n".to_owned(),
        seed: 42,
        order: Order::Shuffled,
        rounds,
        stopping: None,
        threshold: None,
        judge: Vec::new(),
        slo: None,
        cells: cells.to_vec(),
        started_at: Some("2026-11-20T20:00:00Z".to_owned()),
    }
}

/// One cell for each level of one factor.
pub(crate) fn cells_of_levels(levels: &[&str]) -> Vec<Cell> {
    let cell = |(level, number): (&&str, u32)| Cell {
        number,
        settings: vec![setting("rmem_max", level)],
        profile: None,
        target: "php".to_owned(),
        is_baseline: false,
    };
    levels.iter().zip(1..).map(cell).collect()
}

/// Rounds of these cells, each in another order; `responses` says how many a run has by cell and
/// position.
pub(crate) fn rounds(
    cells: &[Cell],
    rounds: u32,
    responses: impl Fn(usize, u32) -> f64,
) -> Vec<Observation> {
    let mut runs = Vec::new();
    let mut position = 0;
    for round in 1..=rounds {
        for place in 0..cells.len() {
            // Five has no divisor in common with the numbers of cells here but one.
            let at = (place * 5 + round as usize) % cells.len();
            position += 1;
            let responses = responses(at, position);
            let service_us = (2_000.0 / responses * 300.0) as u64;
            runs.push(run(
                &cells[at],
                round,
                position,
                responses as u64,
                service_us,
            ));
        }
    }
    runs
}

/// Levels of a factor.
pub(crate) const LEVELS: [&str; 7] = [
    "262144", "524288", "1048576", "2097152", "4194304", "8388608", "16777216",
];
