//! Searches of the highest rate of a queue whose rate is known.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use fastrand::Rng;
use results::file::load_trial;

use crate::process::Process;
use crate::server::announced_port;
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;

/// The searches, and in how many of them the interval has to contain the rate.
const SEARCHES: u64 = 20;
const CONTAINED_MIN: f64 = 19.0;

/// As many at a time as a core has time for: each makes about 160 requests/s.
const AT_A_TIME: usize = 5;

/// The server answers this many requests per second.
const CAPACITY_PER_SEC: f64 = 200.0;
const SERVER: &str = "serve --listen 127.0.0.1:0 --queue --answer delay=exp:5ms";

const LIMIT_S: f64 = 0.1;
const RUN_S: f64 = 10.0;
const WARMUP_S: f64 = 1.0;
const SEARCH: &str =
    "search --slo p99<100ms -t1 -c64 -d10s --warmup 1s --precision 5% --budget 20m";

/// Beyond the budget.
const SEARCH_LIMIT: Duration = Duration::from_secs(22 * 60);
const POLL: Duration = Duration::from_secs(1);

/// Excesses are clipped at a factor of two (`docs/search.md`).
const CLIP: f64 = 0.7;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let truth = true_rate(&mut Rng::with_seed(1));
    case.notes.push(format!(
        "truth: {truth:.1} requests/s for runs of {RUN_S} s, simulated apart from wrkbench"
    ));
    let numbers: Vec<u64> = (1..=SEARCHES).collect();
    let mut contained = 0;
    for batch in numbers.chunks(AT_A_TIME) {
        let begun: Vec<Search> = batch
            .iter()
            .map(|number| Search::begin(lab, *number))
            .collect::<anyhow::Result<_>>()?;
        for search in begun {
            let (text, [low, high]) = search.finish(lab)?;
            contained += u32::from((low..=high).contains(&truth));
            case.notes.push(text);
        }
    }
    case.ours(
        format!("intervals of {SEARCHES} searches that contain it"),
        Figure::Plain(CONTAINED_MIN),
        Tolerance::AtLeast,
        Some(Figure::Plain(contained.into())),
    );
    Ok(())
}

/// A search and its server.
struct Search {
    _server: Process,
    client: Process,
    results: String,
}

impl Search {
    fn begin(lab: &Lab, number: u64) -> anyhow::Result<Self> {
        let mut server = lab.start_server(&format!("{SERVER} --seed {number}"))?;
        let port = server.announced(announced_port)?;
        let [results, journal] =
            ["results", "journal"].map(|name| lab.file(&format!("search-{name}-{number}")));
        let results = results.display().to_string();
        let client = lab.start_client(&format!(
            "{SEARCH} --seed {number} --results {results} --journal {} http://127.0.0.1:{port}/",
            journal.display()
        ))?;
        Ok(Self {
            _server: server,
            client,
            results,
        })
    }

    /// What it says, and its interval.
    fn finish(self, lab: &Lab) -> anyhow::Result<(String, [f64; 2])> {
        let ended = self.client.watch(SEARCH_LIMIT, POLL, lab.interrupted())?;
        if !ended.status.success() {
            bail!(
                "a search failed ({}): {}",
                ended.status,
                ended.stderr.trim()
            );
        }
        let text = ended.stdout.lines().next().unwrap_or_default();
        Ok((text.to_owned(), interval(Path::new(&self.results))?))
    }
}

/// The interval that a search has saved.
fn interval(results: &Path) -> anyhow::Result<[f64; 2]> {
    let folder = results.join("trials");
    for file in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let trial = load_trial(&fs::read(file?.path())?)?;
        if let Some(outcome) = trial.search.and_then(|step| step.outcome) {
            return outcome
                .interval_per_sec
                .context("a search found no interval");
        }
    }
    bail!("a search did not end")
}

/// The rate at which the mean clipped excess of runs of [`RUN_S`] is zero.
fn true_rate(random: &mut Rng) -> f64 {
    const RUNS: usize = 4_000;
    const HALVINGS: usize = 10;
    // Every rate has the same random numbers, so that the mean excess rises with the rate.
    let seeds: Vec<u64> = (0..RUNS).map(|_| random.u64(..)).collect();
    let (mut low, mut high) = (0.7 * CAPACITY_PER_SEC, 0.9 * CAPACITY_PER_SEC);
    for _ in 0..HALVINGS {
        let rate = f64::midpoint(low, high);
        let excesses = seeds.iter().map(|seed| excess(*seed, rate));
        let end = if excesses.sum::<f64>() > 0.0 {
            &mut high
        } else {
            &mut low
        };
        *end = rate;
    }
    f64::midpoint(low, high)
}

/// The clipped excess of one run: Poisson arrivals at a queue that is empty before the warm-up.
fn excess(seed: u64, rate_per_sec: f64) -> f64 {
    let mut random = Rng::with_seed(seed);
    let mut exponential = |mean_s: f64| -(1.0 - random.f64()).ln() * mean_s;
    let (mut due_s, mut free_s) = (-WARMUP_S, -WARMUP_S);
    let mut sojourns_s = Vec::new();
    loop {
        due_s += exponential(1.0 / rate_per_sec);
        if due_s >= RUN_S {
            break;
        }
        free_s = free_s.max(due_s) + exponential(1.0 / CAPACITY_PER_SEC);
        if due_s >= 0.0 {
            sojourns_s.push(free_s - due_s);
        }
    }
    let p99_s = stats::quantile(&stats::sorted(&sojourns_s), 0.99).unwrap_or(0.0);
    (p99_s / LIMIT_S).ln().clamp(-CLIP, CLIP)
}
