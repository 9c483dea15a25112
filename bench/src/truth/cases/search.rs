//! Searches of the highest rate of a queue whose rate is known.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use results::file::load_trial;

use crate::process::Process;
use crate::server::announced_port;
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;

/// Searches of each queue, and in how many of all the interval has to contain the rate.
const SEARCHES: u64 = 10;
const CONTAINED_MIN: f64 = 18.0;

/// The median time of a search, seconds.
const MEDIAN_S: f64 = 240.0;

/// The median time until a range of the rate is known, seconds.
const RANGE_S: f64 = 60.0;

/// The share of responses that may be above the limit.
const ALLOWED: f64 = 0.01;

/// As many at a time as a core has time for: each makes about 850 requests/s.
const AT_A_TIME: usize = 2;

/// A server with a queue, and its condition.
struct Queue {
    name: &'static str,
    delay: &'static str,
    limit: &'static str,
    /// Requests per second, by the formula.
    truth: Option<f64>,
}

fn queues() -> [Queue; 2] {
    [
        Queue {
            name: "M/M/1",
            delay: "exp:1ms",
            limit: "20ms",
            truth: stats::mm1_rate_at_limit(1_000.0, 0.02, ALLOWED),
        },
        Queue {
            name: "M/D/1",
            delay: "1ms",
            limit: "10ms",
            truth: stats::md1_rate_at_limit(0.001, 0.01, ALLOWED),
        },
    ]
}

/// A search is killed after this time, which is more than its budget.
const SEARCH_LIMIT: Duration = Duration::from_secs(17 * 60);
const POLL: Duration = Duration::from_secs(1);

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let (mut contained, mut times_s, mut ranges_s) = (0, Vec::new(), Vec::new());
    for queue in queues() {
        let truth = queue.truth.context("the formula has no rate")?;
        let name = queue.name;
        case.notes
            .push(format!("{name}: {truth:.1} requests/s by the formula"));
        let numbers: Vec<u64> = (1..=SEARCHES).collect();
        for batch in numbers.chunks(AT_A_TIME) {
            let begun: Vec<Search> = batch
                .iter()
                .map(|number| Search::begin(lab, &queue, *number))
                .collect::<anyhow::Result<_>>()?;
            for search in begun {
                let found = search.finish(lab)?;
                let is_contained = found
                    .interval
                    .is_some_and(|[low, high]| (low..=high).contains(&truth));
                contained += u32::from(is_contained);
                times_s.push(found.took_s);
                ranges_s.push(found.range_s);
                case.notes.push(format!("{name}: {}", found.text));
            }
        }
    }
    case.ours(
        format!("intervals of {} searches that contain it", times_s.len()),
        Figure::Plain(CONTAINED_MIN),
        Tolerance::AtLeast,
        Some(Figure::Plain(contained.into())),
    );
    case.ours(
        "median time of a search, s".to_owned(),
        Figure::Plain(MEDIAN_S),
        Tolerance::AtMost,
        stats::median(&times_s).map(Figure::Plain),
    );
    case.ours(
        "median time until a range is known, s".to_owned(),
        Figure::Plain(RANGE_S),
        Tolerance::AtMost,
        stats::median(&ranges_s).map(Figure::Plain),
    );
    Ok(())
}

/// A search and its server.
struct Search {
    _server: Process,
    client: Process,
    results: String,
}

/// What a search said and saved.
struct Found {
    text: String,
    interval: Option<[f64; 2]>,
    took_s: f64,
    /// What the runs took until a rate was carried and another was not.
    range_s: f64,
}

impl Search {
    fn begin(lab: &Lab, queue: &Queue, number: u64) -> anyhow::Result<Self> {
        let Queue { delay, limit, .. } = queue;
        let mut server = lab.start_server(&format!(
            "serve --listen 127.0.0.1:0 --queue --answer delay={delay} --seed {number}"
        ))?;
        let port = server.announced(announced_port)?;
        let [results, journal] =
            ["results", "journal"].map(|name| lab.file(&format!("search-{name}-{limit}-{number}")));
        let results = results.display().to_string();
        let client = lab.start_client(&format!(
            "search --slo p99<{limit} -t1 -c64 --precision 5% --budget 15m --seed {number} \
             --results {results} --journal {} http://127.0.0.1:{port}/",
            journal.display()
        ))?;
        Ok(Self {
            _server: server,
            client,
            results,
        })
    }

    fn finish(self, lab: &Lab) -> anyhow::Result<Found> {
        let ended = self.client.watch(SEARCH_LIMIT, POLL, lab.interrupted())?;
        if ended.stdout.is_empty() {
            bail!(
                "a search failed ({}): {}",
                ended.status,
                ended.stderr.trim()
            );
        }
        let text = ended.stdout.lines().next().unwrap_or_default();
        saved(Path::new(&self.results), text.to_owned())
    }
}

/// The interval that a search has saved, and what its runs took.
fn saved(results: &Path, text: String) -> anyhow::Result<Found> {
    let folder = results.join("trials");
    let mut found = Found {
        text,
        interval: None,
        took_s: 0.0,
        range_s: 0.0,
    };
    let mut trials = Vec::new();
    for file in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        trials.push(load_trial(&fs::read(file?.path())?)?);
    }
    trials.sort_by_key(|trial| trial.position);
    let mut has_range = false;
    for trial in trials {
        let took_s = trial.took_ms.unwrap_or_default() as f64 / 1e3;
        found.took_s += took_s;
        if !has_range {
            found.range_s += took_s;
        }
        let Some(step) = trial.search else { continue };
        has_range |= step.carried_per_sec.is_some() && step.not_carried_per_sec.is_some();
        let interval = step.outcome.and_then(|it| it.interval_per_sec);
        found.interval = found.interval.or(interval);
    }
    Ok(found)
}
