//! JUnit's XML, as Jenkins and others read it: a test suite for each run, a test case for each
//! condition.
//!
//! Each run has two more cases. `measured` is an error if the run failed. `generator` is skipped if
//! the load generator was saturated, or if that is not known, because the client's limits are not a
//! failure of the server. With several runs, the first suite says how far they can be trusted.

use std::io::{self, Write};

use analysis::{Judged, Observation, judge_all};
use askama::Template;
use judging::sentences::verdict_lines;
use results::metric;
use results::{RunResult, Verdict};

use super::{Export, names};

#[derive(Template)]
#[template(path = "junit.xml")]
struct JunitTemplate {
    name: String,
    tests: usize,
    failures: usize,
    errors: usize,
    suites: Vec<Suite>,
}

struct Suite {
    name: String,
    timestamp: Option<String>,
    hostname: Option<String>,
    time_s: Option<String>,
    properties: Vec<(String, String)>,
    cases: Vec<TestCase>,
}

struct TestCase {
    name: String,
    class: String,
    outcome: CaseOutcome,
}

enum CaseOutcome {
    Passed,
    Failed(String),
    Error(String),
    Skipped(String),
}

impl Suite {
    fn count(&self, is_one: fn(&CaseOutcome) -> bool) -> usize {
        self.cases
            .iter()
            .filter(|case| is_one(&case.outcome))
            .count()
    }

    fn failures(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::Failed(_)))
    }

    fn errors(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::Error(_)))
    }

    fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, CaseOutcome::Skipped(_)))
    }
}

/// Writes a suite for each run, with a case for each condition.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    let of_runs = export.runs().iter().map(|run| suite(run, export));
    let suites: Vec<Suite> = validity(export).into_iter().chain(of_runs).collect();
    let template = JunitTemplate {
        name: text(&names::short(export.title())),
        tests: suites.iter().map(|suite| suite.cases.len()).sum(),
        failures: suites.iter().map(Suite::failures).sum(),
        errors: suites.iter().map(Suite::errors).sum(),
        suites,
    };
    template.write_into(output)
}

/// With several runs, how far they can be trusted; skipped if something limits them.
fn validity(export: &Export<'_>) -> Option<Suite> {
    if export.runs().len() < 2 {
        return None;
    }
    let limits = export.limits();
    let outcome = if limits.is_empty() {
        CaseOutcome::Passed
    } else {
        CaseOutcome::Skipped(text(&limits.join("; ")))
    };
    Some(Suite {
        name: "all runs".to_owned(),
        timestamp: None,
        hostname: None,
        time_s: None,
        properties: Vec::new(),
        cases: vec![TestCase {
            name: "validity".to_owned(),
            class: "runs".to_owned(),
            outcome,
        }],
    })
}

fn suite(run: &Observation, export: &Export<'_>) -> Suite {
    let result = run.result.as_deref();
    // Readers split class names at points.
    let class = text(&names::of_cell(run)).replace('.', "_");
    let class = if class.is_empty() {
        "run".to_owned()
    } else {
        class
    };
    let measured = match &run.failure {
        Some(failure) => CaseOutcome::Error(text(failure)),
        None => CaseOutcome::Passed,
    };
    let mut cases = vec![("measured".to_owned(), measured)];
    cases.extend(result.map(|result| ("generator".to_owned(), generator(result))));
    cases.extend(
        judge_all(std::slice::from_ref(run), export.criteria)
            .iter()
            .map(condition),
    );
    Suite {
        name: text(&names::of_run(run)),
        timestamp: run
            .started_at()
            .map(|moment| text(moment.trim_end_matches('Z'))),
        hostname: result.and_then(|result| result.environment.hostname.as_deref().map(text)),
        time_s: run
            .value(metric::DURATION_US)
            .map(|duration_us| format!("{:.3}", duration_us / 1e6)),
        properties: properties(run),
        cases: cases
            .into_iter()
            .map(|(name, outcome)| TestCase {
                name,
                class: class.clone(),
                outcome,
            })
            .collect(),
    }
}

fn generator(result: &RunResult) -> CaseOutcome {
    let verdict = &result.generator.verdict;
    match verdict {
        Verdict::Undisturbed => CaseOutcome::Passed,
        Verdict::Disturbed { .. } | Verdict::Saturated { .. } | Verdict::Unknown => {
            CaseOutcome::Skipped(text(&verdict_lines(verdict).join("; ")))
        }
    }
}

fn condition(judged: &Judged<'_>) -> (String, CaseOutcome) {
    let outcome = match judged.failure() {
        Some(failure) => CaseOutcome::Failed(text(&failure)),
        None => CaseOutcome::Passed,
    };
    (text(&judged.criterion.to_string()), outcome)
}

/// Levels, profile and target, and the main numbers.
fn properties(run: &Observation) -> Vec<(String, String)> {
    let levels = run.settings.iter();
    let levels = levels.map(|setting| (text(&setting.factor), text(&setting.level)));
    let known = [("profile", &run.profile), ("target", &run.target)];
    let named = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), text(value.as_deref()?))));
    let p99 = metric::percentile("latency", 99.0);
    let numbers = [
        metric::REQUESTS_PER_SEC,
        metric::LATENCY_MEAN_US,
        &p99,
        metric::ERRORS,
    ]
    .into_iter()
    .filter_map(|name| Some((name, run.measured(name)?)))
    .flat_map(|(name, known)| {
        let value = (name.to_owned(), known.value.to_string());
        let mark = (format!("{name}_is_lower_bound"), "true".to_owned());
        std::iter::once(value).chain(known.is_lower_bound.then_some(mark))
    });
    std::iter::once(("source".to_owned(), text(&run.source)))
        .chain(levels)
        .chain(named)
        .chain(numbers)
        .collect()
}

/// The text without the characters that XML 1.0 cannot contain
/// (<https://www.w3.org/TR/xml/#charsets>); the template escapes the rest.
fn text(text: &str) -> String {
    plan::printable(text).replace(['\u{FFFE}', '\u{FFFF}'], "\u{FFFD}")
}
