//! Whose delay it was: pauses of the load generator x faults of the server.
//!
//! The load generator is stopped by signals, so that it is known when it did not run. The server
//! answers each request after 1 ms, except in a stall; what its percentiles would be without pauses
//! of the load generator follows from a formula. Both are judged independently of each other: by
//! numbers, sentences and exit codes.

use std::time::{Duration, SystemTime};

use results::{Symptom, Warning};

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{Disturbance, DisturbedRun, Lab};

const RATE_PER_SEC: u32 = 500;
const DURATION_S: u32 = 4;
const THREADS: [u32; 2] = [1, 4];
const BACKENDS: [&str; 2] = ["uring", "epoll"];

/// The first pause begins here, after the start of the process.
const PAUSE_FROM: Duration = Duration::from_millis(1_000);

/// Pauses that come again begin this far apart.
const EVERY: Duration = Duration::from_millis(100);

/// Tolerance of percentiles: a response that arrives in a pause on a connection without receive
/// timestamps may have arrived up to 10 ms before the pause.
const NEAR_SHARE: f64 = 0.03;
const NEAR_MS: f64 = 12.0;

/// How much earlier or later a pause may be reported: the start of the window is known to the
/// millisecond, and signals take a moment.
const MOMENT_MS: f64 = 30.0;

/// What the load generator goes through.
#[derive(Debug, Clone, Copy)]
struct Pauses {
    name: &'static str,
    length_ms: u64,
    is_repeated: bool,
}

const CONNECTIONS: u32 = 8;
const SERVICE_MS: f64 = 1.0;
const PERCENTS: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

const PAUSES: [Pauses; 7] = [
    Pauses::once("no pause", 0),
    Pauses::once("a pause of 0.1 s", 100),
    Pauses::once("a pause of 0.3 s", 300),
    Pauses::once("a pause of 0.45 s", 450),
    Pauses::once("a pause of 1 s", 1_000),
    Pauses::repeated("stopped 3 % of the time", 3),
    Pauses::repeated("stopped 50 % of the time", 50),
];

impl Pauses {
    const fn once(name: &'static str, length_ms: u64) -> Self {
        Self {
            name,
            length_ms,
            is_repeated: false,
        }
    }

    const fn repeated(name: &'static str, length_ms: u64) -> Self {
        Self {
            name,
            length_ms,
            is_repeated: true,
        }
    }

    /// When each begins, and its length.
    fn times(self) -> Vec<(Duration, Duration)> {
        let length = Duration::from_millis(self.length_ms);
        let numbers = match (self.length_ms, self.is_repeated) {
            (0, _) => 0..0,
            (_, false) => 0..1,
            // Until shortly before the end.
            (_, true) => 0..28,
        };
        numbers
            .map(|number| (PAUSE_FROM + EVERY * number, length))
            .collect()
    }
}

/// A time in which the server answers nothing.
#[derive(Debug, Clone, Copy)]
struct Stall {
    /// Within the window, seconds.
    length_s: f64,
    /// Whether what has waited is sent and answered within the window.
    ends_within: bool,
}

/// What the server does.
#[derive(Debug, Clone, Copy)]
struct Server {
    name: &'static str,
    options: &'static str,
    stall: Option<Stall>,
    /// Whether the percentiles without pauses are known.
    has_formula: bool,
}

const SERVERS: [Server; 4] = [
    Server {
        name: "healthy",
        options: "--answer delay=1ms",
        stall: None,
        has_formula: true,
    },
    Server {
        name: "stall",
        options: "--answer delay=1ms --stall 2.6s,0.6s",
        stall: Some(Stall {
            length_s: 0.6,
            ends_within: true,
        }),
        has_formula: true,
    },
    Server {
        name: "frozen at the end",
        options: "--answer delay=1ms --stall 3.4s,20s",
        stall: Some(Stall {
            length_s: 0.6,
            ends_within: false,
        }),
        has_formula: true,
    },
    // The backlog of the stall is worked off at 5 % of the capacity, so it lasts.
    Server {
        name: "drain at 95 %",
        options: "--queue --answer delay=1900us --stall 0s,0.5s",
        stall: None,
        has_formula: false,
    },
];

const GENERATOR: &str = "load generator";

/// What must be said of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Said,
    NotSaid,
    /// The effect is at the limit, or both sides have a part in it.
    Either,
}

/// Whether the load generator disturbed the run, which `--strict` refuses.
fn of_generator(server: &Server, pauses: Pauses) -> Expected {
    let is_stalled = server.stall.is_some();
    match (pauses.length_ms, pauses.is_repeated) {
        (0, _) => Expected::NotSaid,
        // The few requests that it delays are below the percentiles that a stall of 15 % of the run
        // reaches, and above the others.
        (100, _) if is_stalled => Expected::NotSaid,
        (3, true) if is_stalled => Expected::NotSaid,
        // The queue of the server may take the time of short pauses.
        (100, _) | (3, true) if !server.has_formula => Expected::Either,
        _ => Expected::Said,
    }
}

/// Whether the server let requests wait.
fn of_server(server: &Server, pauses: Pauses) -> Expected {
    match (server.stall, server.has_formula) {
        (Some(_), _) => Expected::Said,
        (None, true) => Expected::NotSaid,
        // Pauses that are longer than its queue take all of its backlog over.
        (None, false) if pauses.is_repeated => Expected::Either,
        (None, false) => Expected::Said,
    }
}

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for server in &SERVERS {
        for pauses in PAUSES {
            for threads in THREADS {
                for backend in BACKENDS {
                    row(lab, case, server, pauses, (threads, backend))?;
                }
            }
        }
    }
    Ok(())
}

fn row(
    lab: &Lab,
    case: &mut CaseResult,
    server: &Server,
    pauses: Pauses,
    (threads, backend): (u32, &str),
) -> anyhow::Result<()> {
    let options = format!(
        "-t{threads} -c{CONNECTIONS} -d{DURATION_S}s -R{RATE_PER_SEC} --io {backend} \
         --timeout 20s --latency"
    );
    let disturbance = Disturbance {
        pauses: pauses.times(),
        ..Disturbance::default()
    };
    let (run, _) = lab.observe(case, server.options, |origin| {
        lab.ours_disturbed(&options, &origin.url("/"), DURATION_S, &disturbance)
    })?;
    let name = format!("{}, {}, -t{threads}, {backend}", server.name, pauses.name);
    conclusions(case, &name, &run, server, pauses);
    moments(case, &name, &run, pauses);
    if server.has_formula {
        percentiles(case, &name, &run, server, pauses);
    }
    Ok(())
}

/// A percentile of the latency at an even rate without pauses, by formula, milliseconds.
fn truth_ms(server: &Server, percent: f64) -> f64 {
    let Some(stall) = server.stall else {
        return SERVICE_MS;
    };
    // The waits of an even schedule are distributed uniformly over the stall.
    let share = stall.length_s / f64::from(DURATION_S);
    let above = (1.0 - percent / 100.0) / share;
    if above >= 1.0 {
        return SERVICE_MS;
    }
    let stalled_ms = (1.0 - above) * stall.length_s * 1e3;
    // Then the requests that have waited are sent in their order, one at a time per connection.
    let before = above * stall.length_s * f64::from(RATE_PER_SEC);
    let drained_ms = if stall.ends_within {
        before * SERVICE_MS / f64::from(CONNECTIONS)
    } else {
        0.0
    };
    SERVICE_MS + stalled_ms + drained_ms
}

/// Whether the machine held the load generator up in a run without pauses: then it is right to say
/// so.
fn is_held_up(run: &DisturbedRun, server: &Server) -> bool {
    let latency = run.report.recording().latency();
    PERCENTS.into_iter().any(|percent| {
        let shown_ms = latency.value_at_percentile(percent) as f64 / 1e6;
        shown_ms > truth_ms(server, percent) * 1.1 + 0.1
    })
}

/// The verdict, the warnings about the server, and the exit code.
fn conclusions(
    case: &mut CaseResult,
    name: &str,
    run: &DisturbedRun,
    server: &Server,
    pauses: Pauses,
) {
    let result = &run.report.result;
    let verdict = &result.generator.verdict;
    let is_disturbed = run.is_disturbed();
    let is_server = result.warnings.iter().any(|warning| {
        matches!(
            warning.data,
            Warning::RateNotReached { .. }
                | Warning::WaitedForConnection { .. }
                | Warning::RateNotSustained { .. }
                | Warning::ServerStalled { .. }
        )
    });
    run.check_exit_code(case, name);
    let sides = [
        (GENERATOR, of_generator(server, pauses), is_disturbed),
        ("server", of_server(server, pauses), Some(is_server)),
    ];
    for (side, expected, said) in sides {
        let word = |said: bool| Figure::word(if said { "late" } else { "on time" });
        let expected = match expected {
            Expected::Said => true,
            Expected::NotSaid if side == GENERATOR && is_held_up(run, server) => {
                case.notes
                    .push(format!("{name}: the machine held the load generator up"));
                continue;
            }
            Expected::NotSaid => false,
            Expected::Either => continue,
        };
        let what = format!("{name}: {side}");
        let check_holds = said == Some(expected);
        case.ours(what, word(expected), Tolerance::Exact, said.map(word));
        if !check_holds {
            let lines = judging::sentences::verdict_lines(verdict).join("; ");
            let warnings: Vec<&str> = result.warnings.iter().map(|it| it.text.as_str()).collect();
            case.notes
                .push(format!("{name}: {lines}; {}", warnings.join("; ")));
        }
    }
}

/// The moments of a pause, if it is said.
fn moments(case: &mut CaseResult, name: &str, run: &DisturbedRun, pauses: Pauses) {
    let (evidence, _) = run.report.result.generator.verdict.evidence();
    let seen = evidence.iter().find_map(|symptom| match &symptom.data {
        Symptom::Paused { standstills, .. } => standstills.iter().max_by_key(|it| it.length_ns),
        _ => None,
    });
    let (Some(seen), [(from, to)]) = (seen, run.paused.as_slice()) else {
        return;
    };
    let started_ms = run.report.result.window.started_unix_ms as f64;
    let after_start = |moment: &SystemTime| {
        let unix = moment
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Figure::Ms(unix.as_secs_f64() * 1e3 - started_ms)
    };
    let begin_ms = seen.start_ns as f64 / 1e6;
    let end_ms = begin_ms + seen.length_ns as f64 / 1e6;
    debug_assert!(!pauses.is_repeated, "there is one pause");
    for (what, truth, seen_ms) in [("begin", from, begin_ms), ("end", to, end_ms)] {
        case.ours(
            format!("{name}: {what} of the pause"),
            after_start(truth),
            Tolerance::Within(MOMENT_MS),
            Some(Figure::Ms(seen_ms)),
        );
    }
}

/// The percentiles without the load generator's part, compared with those of the server alone. A
/// request that is sent late into a stall is delayed by both, so a delay of up to one pause may be
/// attributed to either.
fn percentiles(
    case: &mut CaseResult,
    name: &str,
    run: &DisturbedRun,
    server: &Server,
    pauses: Pauses,
) {
    let shared_ms = match server.stall {
        Some(_) if pauses.is_repeated => pauses.length_ms as f64,
        _ => 0.0,
    };
    let parts = run.report.recording().latency_parts_at(&PERCENTS);
    for (percent, parts) in PERCENTS.into_iter().zip(parts) {
        case.ours(
            format!("{name}: p{percent} without the load generator's part"),
            Figure::Ms(truth_ms(server, percent)),
            Tolerance::ShareOr(NEAR_SHARE, NEAR_MS + shared_ms),
            Some(Figure::Ms((parts.shown_ns - parts.own_ns) as f64 / 1e6)),
        );
    }
}
