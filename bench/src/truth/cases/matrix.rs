//! Whose delay it was, with 1 to 1,000 connections, over each protocol and on both backends.
//!
//! The truth is a second run: the same schedule against the same kind of server, without the
//! disturbance. What a percentile has grown by is the load generator's. A second run that was
//! disturbed as well is no truth and is repeated, if the kernel says that its threads waited for a
//! CPU: the machine may have been busy. Two threads on one core with many connections disturb each
//! other in every run, so such combinations have no truth.
//!
//! A closed loop that is disturbed sends fewer requests. A server that stops keeps as many of them
//! as are in flight in both runs, so they are a larger share of fewer requests. Percentiles are
//! compared where both runs have the same part of the kept requests or of the others above them.
//!
//! A closed loop that is disturbed also sends its requests at other times: into a stall, for
//! example, or when the queue of the server is shorter. So there is a second truth for it, what the
//! server's log of the same run leaves over: the time in which the server did not have the request.
//! What is between both truths is right. The same holds for a server with slow responses, at any
//! rate: how many of them are in a run is chance, and its delays do not depend on when requests
//! come.
//!
//! The second run has delays of its own, with 1,000 responses to read at once. What it calls its
//! own may be called so in the first run as well, as far as the server did not have the requests.
//!
//! All combinations would take half a day, so a sample of them is measured; `--rows 0` measures
//! all.

use std::time::Duration;

use results::Warning;

use crate::hog::{Hog, Rhythm};
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{Disturbance, DisturbedRun, HTTP3_SERVER, Lab, RowSample};
use crate::truth::quota::Quota;

const DURATION_S: u32 = 2;
const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];

const CONNECTIONS: [u32; 6] = [1, 8, 30, 100, 200, 1_000];
const THREADS: [u32; 2] = [1, 2];
const BACKENDS: [&str; 2] = ["uring", "epoll"];

/// Requests per second of a server without a queue. A thread can do several times as many.
const RATE_PER_SEC: u32 = 8_000;

/// Requests per second of the server with a queue, at a rate: 95 % of what it can do.
const QUEUE_RATE_PER_SEC: u32 = 500;
const QUEUE_SERVICE_US: u32 = 1_900;

const DELAY_MIN_US: u32 = 2_000;

/// With more requests in flight, the server would need longer for each than a run has time for.
const IN_FLIGHT_MAX: u32 = 3_200;

/// Tolerances of the part that is the load generator's.
const NEAR_SHARE: f64 = 0.2;
const NEAR_MS: f64 = 1.0;

/// A percentile beside a stall is that of the requests in it, or not, depending on how many others
/// there are. So all values within this share of the requests above a percentile are right.
const NEAR_RANK: f64 = 0.15;

/// A run is called disturbed if a tenth of a percentile is the load generator's. From this share
/// on, the verdict may say so: a machine can wake a thread late without a disturbance.
const NEAR_VERDICT_SHARE: f64 = 0.08;

/// What must be said of a disturbance: the percentile that has grown most has at least this share
/// more, and grew by more than the tolerance.
const SAID_SHARE: f64 = 0.25;

#[derive(Debug, Clone, Copy)]
struct Protocol {
    name: &'static str,
    client: &'static str,
    server: &'static str,
    streams: u32,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol::new("HTTP/1.1", "", "", 1),
    Protocol::new("HTTP/2 m1", "--http2 -m1", "", 1),
    Protocol::new("HTTP/2 m16", "--http2 -m16", "", 16),
    Protocol::new("HTTP/3", "--http3", HTTP3_SERVER, 1),
];

impl Protocol {
    const fn new(
        name: &'static str,
        client: &'static str,
        server: &'static str,
        streams: u32,
    ) -> Self {
        Self {
            name,
            client,
            server,
            streams,
        }
    }
}

/// What keeps the load generator from running.
#[derive(Debug, Clone, Copy)]
enum Cause {
    Nothing,
    /// It is stopped once, for this long.
    Stop(Duration),
    /// Another program on its core.
    Program(Rhythm),
    /// Half of a core.
    Quota,
    /// Each request costs the script this much CPU time, microseconds.
    Script(u32),
    /// A busy program on its core, and the lowest priority.
    Nice,
}

const CAUSES: [(&str, Cause); 10] = [
    ("nothing", Cause::Nothing),
    ("stop of 0.15 s", Cause::Stop(Duration::from_millis(150))),
    ("stop of 0.5 s", Cause::Stop(Duration::from_millis(500))),
    ("program 6 of 12 ms", Cause::Program(Rhythm::ms(6, 6))),
    ("program 50 of 100 ms", Cause::Program(Rhythm::ms(50, 50))),
    ("program 5 of 100 ms", Cause::Program(Rhythm::ms(5, 95))),
    ("quota of half a core", Cause::Quota),
    ("script of 30 us", Cause::Script(30)),
    ("script of 1.4 ms", Cause::Script(1_400)),
    ("nice 19", Cause::Nice),
];

/// After the start of the process. Stalls of the server begin later.
const STOP_FROM: Duration = Duration::from_millis(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Healthy,
    Stall,
    Freeze,
    Queue,
    Bimodal,
}

const SERVERS: [(&str, Server); 5] = [
    ("healthy", Server::Healthy),
    ("stall", Server::Stall),
    ("freeze", Server::Freeze),
    ("queue at 95 %", Server::Queue),
    ("bimodal", Server::Bimodal),
];

/// A combination of what is varied, which is one row of the matrix.
#[derive(Debug, Clone, Copy)]
struct Combination {
    connections: u32,
    threads: u32,
    protocol: Protocol,
    backend: &'static str,
    cause: (&'static str, Cause),
    server: (&'static str, Server),
    is_paced: bool,
}

/// The number of combinations.
const ALL: usize = CONNECTIONS.len()
    * CAUSES.len()
    * THREADS.len()
    * PROTOCOLS.len()
    * BACKENDS.len()
    * SERVERS.len()
    * 2;

impl Combination {
    /// The combination with this number, below [`ALL`]. Those after each other differ in
    /// connections and cause first, so that [`CONNECTIONS`] x [`CAUSES`] of them have all pairs of
    /// both.
    fn numbered(number: usize) -> Self {
        let mut rest = number;
        let mut digit = |base: usize| {
            let digit = rest % base;
            rest /= base;
            digit
        };
        Self {
            connections: CONNECTIONS[digit(CONNECTIONS.len())],
            cause: CAUSES[digit(CAUSES.len())],
            threads: THREADS[digit(THREADS.len())],
            protocol: PROTOCOLS[digit(PROTOCOLS.len())],
            backend: BACKENDS[digit(BACKENDS.len())],
            server: SERVERS[digit(SERVERS.len())],
            is_paced: digit(2) == 1,
        }
    }

    fn name(&self) -> String {
        let (connections, threads) = (self.connections, self.threads);
        format!(
            "{}, {}, c{connections} t{threads}, {}, {}, {}",
            self.server.0,
            self.cause.0,
            self.protocol.name,
            self.backend,
            if self.is_paced { "-R" } else { "closed" }
        )
    }

    /// There is a connection for each thread, and time for a few responses.
    fn is_possible(&self) -> bool {
        self.connections >= self.threads && self.in_flight() <= IN_FLIGHT_MAX
    }

    fn in_flight(&self) -> u32 {
        self.connections * self.protocol.streams
    }

    /// The share of so many requests that a server that stops keeps, in a closed loop.
    fn kept_share(&self, requests: u64) -> f64 {
        match self.server.1 {
            Server::Stall | Server::Freeze if !self.is_paced => {
                (f64::from(self.in_flight()) / requests as f64).min(1.0)
            }
            _ => 0.0,
        }
    }

    fn server_options(&self) -> String {
        let in_flight = self.in_flight();
        let delay_us = (in_flight * (1_000_000 / RATE_PER_SEC)).max(DELAY_MIN_US);
        let plain = format!("--answer delay={delay_us}us");
        let own = match self.server.1 {
            Server::Healthy => plain,
            Server::Stall => format!("{plain} --stall 1.3s,0.3s"),
            Server::Freeze => format!("{plain} --stall 1.7s,20s"),
            Server::Queue => format!("--queue --answer delay={QUEUE_SERVICE_US}us"),
            Server::Bimodal => {
                let long_us = delay_us * 10;
                format!("--answer delay=bimodal:3%,{delay_us}us,{long_us}us")
            }
        };
        format!("{own} {}", self.protocol.server)
    }

    fn client_options(&self) -> String {
        let in_flight = self.in_flight();
        let possible = match self.server.1 {
            Server::Queue => QUEUE_RATE_PER_SEC * 2,
            _ => RATE_PER_SEC.min(in_flight * (1_000_000 / DELAY_MIN_US)),
        };
        let rate = if self.is_paced {
            format!("-R{}", possible / 2)
        } else {
            String::new()
        };
        let (connections, threads) = (self.connections, self.threads);
        format!(
            "-t{threads} -c{connections} -d{DURATION_S}s --io {} --timeout 20s {} {rate}",
            self.backend, self.protocol.client
        )
    }
}

/// The numbers of the combinations to measure: each pair of connections and cause equally often.
fn sample(rows: usize, seed: u64) -> Vec<usize> {
    let pairs = CONNECTIONS.len() * CAUSES.len();
    if rows == 0 || rows >= ALL {
        return (0..ALL).collect();
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let others = ALL / pairs;
    let mut numbers = Vec::with_capacity(rows);
    while numbers.len() < rows {
        let mut round: Vec<usize> = (0..pairs).collect();
        random.shuffle(&mut round);
        numbers.extend(
            round
                .iter()
                .map(|pair| pair + pairs * random.usize(0..others)),
        );
    }
    numbers.truncate(rows);
    numbers
}

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let RowSample { rows, seed, named } = lab.sample();
    let is_named = |number: &usize| {
        let name = Combination::numbered(*number).name();
        named.iter().any(|part| name.contains(part))
    };
    let numbers = if named.is_empty() {
        sample(*rows, *seed)
    } else {
        (0..ALL).filter(is_named).collect()
    };
    case.notes.push(format!(
        "{} of {ALL} combinations, --seed {seed}",
        numbers.len()
    ));
    for number in numbers {
        let row = Combination::numbered(number);
        if row.is_possible() {
            compare(lab, case, &row)?;
        }
    }
    Ok(())
}

/// Limit on runs without the disturbance, of which one must be undisturbed.
const QUIET_RUNS_MAX: usize = 3;

/// A thread that waited for a CPU for more than this share of a run was disturbed, whatever the
/// verdict says.
const CPU_WAIT_MAX: f64 = 0.01;

/// A run, and what its server's log says.
struct Observed {
    run: DisturbedRun,
    /// How long the server had each request that it answered, milliseconds, in ascending order.
    sojourns_ms: Vec<f64>,
}

impl Observed {
    fn latency_ms(&self, percent: f64) -> f64 {
        let latency = self.run.report.recording().latency();
        ms(latency.value_at_percentile(percent))
    }

    /// A percentile of the time that the server had the requests, milliseconds.
    fn sojourn_ms(&self, percent: f64) -> f64 {
        let at = (self.sojourns_ms.len() as f64 * percent / 100.0) as usize;
        let last = self.sojourns_ms.len().saturating_sub(1);
        self.sojourns_ms.get(at.min(last)).copied().unwrap_or(0.0)
    }

    /// A percentile without what the run calls its own, as far as the server's log does not
    /// contradict it, milliseconds.
    fn without_own_ms(&self, percent: f64) -> f64 {
        let parts = self.run.report.recording().latency_parts_at(&[percent]);
        let own_ns = parts.first().map_or(0, |parts| parts.own_ns);
        let shown_ms = self.latency_ms(percent);
        let least_ms = self.sojourn_ms(percent).min(shown_ms);
        (shown_ms - ms(own_ns)).max(least_ms)
    }
}

/// The combination without its cause; `None` if each run was disturbed all the same. A verdict that
/// the kernel's counters do not support is no reason to leave a run out.
fn undisturbed(
    lab: &Lab,
    case: &mut CaseResult,
    row: &Combination,
) -> anyhow::Result<Option<Observed>> {
    for _ in 0..QUIET_RUNS_MAX {
        let run = measure(lab, case, row, Cause::Nothing)?;
        let is_truth =
            |run: &DisturbedRun| run.is_disturbed() != Some(true) || cpu_wait(run) < CPU_WAIT_MAX;
        if let Some(run) = run.filter(|observed| is_truth(&observed.run)) {
            return Ok(Some(run));
        }
    }
    case.notes.push(format!(
        "{}: {QUIET_RUNS_MAX} runs without the disturbance were disturbed as well",
        row.name()
    ));
    Ok(None)
}

/// The largest share of a run that one of its threads waited for a CPU.
fn cpu_wait(run: &DisturbedRun) -> f64 {
    let workers = run.report.result.generator.workers.iter();
    let shares = workers.filter_map(|worker| {
        let wait_ns = worker.usage.run_queue_wait_ns? as f64;
        Some(wait_ns / worker.elapsed_ns as f64)
    });
    shares.fold(0.0, f64::max)
}

/// Measures the combination with and without its cause.
fn compare(lab: &Lab, case: &mut CaseResult, row: &Combination) -> anyhow::Result<()> {
    let Some(quiet) = undisturbed(lab, case, row)? else {
        return Ok(());
    };
    let Some(disturbed) = measure(lab, case, row, row.cause.1)? else {
        return Ok(());
    };
    let name = row.name();
    let has_success = |observed: &Observed| observed.run.report.recording().counters.answered > 0;
    if !has_success(&quiet) || !has_success(&disturbed) {
        case.notes.push(format!("{name}: no request was answered"));
        return Ok(());
    }
    let grown = shares(case, &name, row, &quiet, &disturbed);
    conclusions(case, &name, row, &disturbed.run, grown);
    Ok(())
}

/// `None` if the machine cannot do it.
fn measure(
    lab: &Lab,
    case: &mut CaseResult,
    row: &Combination,
    cause: Cause,
) -> anyhow::Result<Option<Observed>> {
    let mut options = row.client_options();
    let mut disturbance = Disturbance::default();
    let quota;
    match cause {
        Cause::Nothing | Cause::Program(_) => {}
        Cause::Stop(length) => disturbance.pauses = vec![(STOP_FROM, length)],
        Cause::Quota => {
            quota = Quota::half_a_core();
            let Some(quota) = &quota else {
                case.notes.push("no quota is possible here".to_owned());
                return Ok(None);
            };
            disturbance.launcher = quota.launcher();
        }
        Cause::Script(cost_us) => {
            let script = lab.write("costly.lua", &costly(cost_us))?;
            options = format!("{options} -s {}", script.display());
        }
        Cause::Nice => disturbance.launcher = ["nice", "-n", "19"].map(Into::into).to_vec(),
    }
    let (run, log) = lab.observe(case, &row.server_options(), |origin| {
        let _burner = matches!(cause, Cause::Nice)
            .then(|| lab.burn())
            .transpose()?;
        let _hog = match cause {
            Cause::Program(rhythm) => Some(Hog::start(lab.client_core(), rhythm)?),
            _ => None,
        };
        lab.ours_disturbed(&options, &origin.url("/"), DURATION_S, &disturbance)
    })?;
    let answered = run.report.recording().counters.answered;
    let mut sojourns_ms = log.answered_first(answered as usize).sojourns_ms();
    sojourns_ms.sort_by(f64::total_cmp);
    Ok(Some(Observed { run, sojourns_ms }))
}

/// A script that needs this much CPU time for each request.
fn costly(cost_us: u32) -> String {
    format!(
        "function request()\n    local from = os.clock()\n    \
         while os.clock() - from < {cost_us}e-6 do end\n    return wrk.format()\nend\n"
    )
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What a percentile of the run with the disturbance is without the load generator's part,
/// milliseconds.
struct Near {
    least_ms: f64,
    most_ms: f64,
    /// The most that it is without the disturbance.
    quiet_ms: f64,
}

fn near(row: &Combination, quiet: &Observed, disturbed: &Observed, percent: f64) -> Near {
    let kept =
        |observed: &Observed| row.kept_share(observed.run.report.recording().latency().count());
    let (from, to) = (kept(disturbed), kept(quiet));
    let rank = (100.0 - percent) * NEAR_RANK;
    let (lower, upper) = (percent - rank, percent + rank);
    let in_quiet = |percent: f64| {
        let above = moved_share(1.0 - percent / 100.0, from, to);
        100.0 * (1.0 - above)
    };
    let least_ms = quiet.without_own_ms(in_quiet(lower));
    let most_ms = quiet.latency_ms(in_quiet(upper));
    let mut near = Near {
        least_ms,
        most_ms,
        quiet_ms: most_ms,
    };
    if !row.is_paced || row.server.1 == Server::Bimodal {
        near.least_ms = least_ms.min(disturbed.sojourn_ms(lower));
        near.most_ms = most_ms.max(disturbed.sojourn_ms(upper));
    }
    near
}

/// The share of the requests of one run that is above the same point as the share `above` of
/// another one's. The first requests above are those that a server kept: the share `from` in the
/// other run, and `to` in this one.
fn moved_share(above: f64, from: f64, to: f64) -> f64 {
    if above < from {
        return above / from * to;
    }
    to + (above - from) / (1.0 - from) * (1.0 - to)
}

/// How much a disturbance has changed.
#[derive(Debug, Clone, Copy)]
struct Grown {
    /// The most that a percentile has grown by, as a share of that without the disturbance.
    share: f64,
    /// The same percentile, milliseconds.
    ms: f64,
    /// Whether the server's log of a closed loop shows that the load generator was late without a
    /// disturbance, for example because a thousand responses came at once.
    is_late_by_log: bool,
    /// Whether the server's log shows that it was late by so much that the verdict may blame it.
    may_be_said: bool,
}

/// The load generator's part of each percentile, beside what it has grown by.
fn shares(
    case: &mut CaseResult,
    name: &str,
    row: &Combination,
    quiet: &Observed,
    disturbed: &Observed,
) -> Grown {
    let mut most = Grown {
        share: 0.0,
        ms: 0.0,
        is_late_by_log: false,
        may_be_said: false,
    };
    let parts = disturbed.run.report.recording().latency_parts_at(&PERCENTS);
    for (percent, parts) in PERCENTS.into_iter().zip(parts) {
        let (shown_ms, own_ms) = (ms(parts.shown_ns), ms(parts.own_ns));
        let Near {
            least_ms,
            most_ms,
            quiet_ms,
        } = near(row, quiet, disturbed, percent);
        let truth_ms = own_ms
            .max(shown_ms - most_ms)
            .min(shown_ms - least_ms)
            .max(0.0);
        let (what, truth_ms, tolerance) = if row.server.1 == Server::Queue {
            // The queue of the server keeps what arrived together.
            let most_ms = truth_ms * (1.0 + NEAR_SHARE) + NEAR_MS;
            ("own part, a lower bound", most_ms, Tolerance::AtMost)
        } else {
            let near = Tolerance::ShareOr(NEAR_SHARE, NEAR_MS);
            ("own part", truth_ms, near)
        };
        case.ours(
            format!("{name}: {what} of p{percent}"),
            Figure::Ms(truth_ms),
            tolerance,
            Some(Figure::Ms(own_ms)),
        );
        if !case.checks.last().is_some_and(|check| check.holds) {
            case.notes.push(format!(
                "{name}: p{percent} is {shown_ms:.1} ms, of which {least_ms:.1} to {most_ms:.1} ms \
                 are not the load generator's"
            ));
        }
        let late_ms = shown_ms - disturbed.sojourn_ms(percent);
        most.is_late_by_log |=
            !row.is_paced && late_ms > NEAR_MS && late_ms / shown_ms > SAID_SHARE;
        // Requests at a rate also wait for a connection, if the server is slow.
        most.may_be_said |= (!row.is_paced || row.server.1 == Server::Healthy)
            && late_ms / shown_ms > NEAR_VERDICT_SHARE;
        let grown_ms = shown_ms - quiet_ms;
        if grown_ms / quiet_ms > most.share {
            (most.share, most.ms) = (grown_ms / quiet_ms, grown_ms);
        }
    }
    most
}

impl Combination {
    /// Whether the verdict must blame the load generator. `None` at the limit.
    fn is_said(&self, grown: Grown) -> Option<bool> {
        let is_large = grown.share > SAID_SHARE && grown.ms > NEAR_MS;
        match self.cause.1 {
            Cause::Nothing => (!is_large && !grown.may_be_said).then_some(false),
            // More than 5 % of a run.
            Cause::Stop(_) => Some(true),
            _ => is_large.then_some(true),
        }
    }
}

/// The verdict, the exit code, and whether a healthy server is blamed.
fn conclusions(
    case: &mut CaseResult,
    name: &str,
    row: &Combination,
    run: &DisturbedRun,
    grown: Grown,
) {
    let result = &run.report.result;
    let verdict = &result.generator.verdict;
    let is_disturbed = run.is_disturbed();
    run.check_exit_code(case, name);
    let blamed: Vec<&str> = result
        .warnings
        .iter()
        .filter(|warning| matches!(warning.data, Warning::ServerStalled { .. }))
        .map(|warning| warning.text.as_str())
        .collect();
    let word = |said: bool| Figure::word(if said { "late" } else { "on time" });
    let mut sides = Vec::new();
    if let Some(expected) = row.is_said(grown) {
        sides.push(("load generator", expected, is_disturbed));
    }
    match row.server.1 {
        Server::Healthy => sides.push(("server", false, Some(!blamed.is_empty()))),
        Server::Stall if matches!(row.cause.1, Cause::Nothing) && !grown.is_late_by_log => {
            sides.push(("server", true, Some(!blamed.is_empty())));
        }
        _ => {}
    }
    for (side, expected, said) in sides {
        let what = format!("{name}: {side}");
        case.ours(what, word(expected), Tolerance::Exact, said.map(word));
        if said != Some(expected) {
            let lines = judging::sentences::verdict_lines(verdict).join("; ");
            case.notes
                .push(format!("{name}: {lines}; {}", blamed.join("; ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_sample_has_each_pair_of_connections_and_cause_equally_often() {
        let pairs = CONNECTIONS.len() * CAUSES.len();
        let numbers = sample(2 * pairs, 7);
        assert_eq!(numbers, sample(2 * pairs, 7));
        assert_ne!(numbers, sample(2 * pairs, 8));
        for round in numbers.chunks(pairs) {
            let seen: BTreeSet<usize> = round.iter().map(|number| number % pairs).collect();
            assert_eq!(seen.len(), pairs);
        }
        assert_eq!(sample(0, 7).len(), ALL);
    }

    #[test]
    fn kept_requests_are_compared_with_kept_ones_and_others_with_others() {
        // 30 requests of 1,000 are kept, and 30 of 10,000.
        for (above, expected) in [
            (0.0, 0.0),
            (0.01, 0.001),
            (0.03, 0.003),
            (0.515, 0.5015),
            (1.0, 1.0),
        ] {
            let moved = moved_share(above, 0.03, 0.003);
            assert!((moved - expected).abs() < 1e-12, "{above}: {moved}");
        }
        assert!((moved_share(0.1, 0.0, 0.0) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn each_combination_has_a_name_of_its_own() {
        let names: BTreeSet<String> = (0..ALL)
            .map(|it| Combination::numbered(it).name())
            .collect();
        assert_eq!(names.len(), ALL);
    }
}
