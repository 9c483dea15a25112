//! What happens to a run, as events: log records with a name.

use std::collections::BTreeSet;

use judging::sentences::verdict_lines;
use plan::readable::counted;
use results::metric::{self, Metric};
use results::{RunResult, Verdict};

use super::messages::{
    AnyValue, KeyValue, LogRecord, LogsRequest, Resource, ResourceLogs, SEVERITY_INFO,
    SEVERITY_WARN, ScopeLogs, Value,
};
use super::{scope, text};
use crate::{ComparisonVerdict, RunEnd, RunStart};

/// The figures of the end of a run, by the names of `--fail-if`.
const FIGURES: [&str; 6] = [
    metric::REQUESTS,
    metric::REQUESTS_PER_SEC,
    metric::ERRORS,
    metric::STATUSES_OVER_399,
    "latency_p50_us",
    "latency_p99_us",
];

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunEvent {
    /// The name of such events.
    name: &'static str,
    is_warning: bool,
    body: String,
    attributes: Vec<KeyValue>,
}

/// The start of a run, with the agents and their places if a fleet makes it.
pub(super) fn start(start: &RunStart<'_>) -> RunEvent {
    let agents: Vec<&str> = start.agents.iter().map(|(name, _)| &**name).collect();
    let places: BTreeSet<&str> = start.agents.iter().map(|(_, place)| &**place).collect();
    let places: Vec<&str> = places.into_iter().collect();
    let lists = [("wrkbench.agents", agents), ("wrkbench.places", places)];
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    RunEvent {
        name: "wrkbench.run.start",
        is_warning: false,
        body: format!("the run started: {}", start.plan.target.url),
        attributes: lists
            .map(|(key, names)| text(key, &names.join(",")))
            .collect(),
    }
}

/// The end of a run, and the verdict if there is a result.
pub(super) fn end(end: &RunEnd<'_>) -> Vec<RunEvent> {
    match end.result {
        Ok(result) => vec![figures(result), verdict(result, end.failed)],
        Err(reason) => vec![RunEvent {
            name: "wrkbench.run.end",
            is_warning: true,
            body: format!("the run failed: {reason}"),
            attributes: vec![text("error.message", reason)],
        }],
    }
}

fn figures(result: &RunResult) -> RunEvent {
    let responses = result.recording.counters.responses();
    let word = if result.window.interrupted {
        "was interrupted"
    } else {
        "ended"
    };
    let figures = FIGURES.iter().filter_map(|name| {
        let value = Metric::known(name)?.of(result)?.value;
        Some(attribute(&format!("wrkbench.{name}"), Value::Double(value)))
    });
    RunEvent {
        name: "wrkbench.run.end",
        is_warning: false,
        body: format!("the run {word} with {}", counted(responses, "response")),
        attributes: figures.collect(),
    }
}

fn verdict(result: &RunResult, failed: &[String]) -> RunEvent {
    let verdict = &result.generator.verdict;
    let name = match verdict {
        Verdict::Undisturbed => "undisturbed",
        Verdict::Disturbed { .. } => "disturbed",
        Verdict::Saturated { .. } => "saturated",
        Verdict::Unknown => "unknown",
    };
    let lines = verdict_lines(verdict).into_iter();
    let lines: Vec<String> = lines
        .chain(failed.iter().map(|it| format!("failed: {it}")))
        .collect();
    RunEvent {
        name: "wrkbench.run.verdict",
        is_warning: verdict.is_disturbed() || verdict.is_saturated() || !failed.is_empty(),
        body: lines.join("\n"),
        attributes: vec![
            text("wrkbench.verdict", name),
            attribute("wrkbench.failed", Value::Bool(!failed.is_empty())),
        ],
    }
}

/// What a comparison of all trials of an experiment has shown.
pub(super) fn comparison(verdict: &ComparisonVerdict<'_>) -> RunEvent {
    let factor = verdict.factor.map(|factor| text("wrkbench.factor", factor));
    let metric = text("wrkbench.metric", verdict.metric);
    RunEvent {
        name: "wrkbench.experiment.verdict",
        is_warning: false,
        body: verdict.sentence.to_owned(),
        attributes: factor.into_iter().chain([metric]).collect(),
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(value.into()),
    }
}

/// The request that tells of it.
pub(super) fn request(happened: RunEvent, resource: &Resource, time_unix_ns: u64) -> LogsRequest {
    let RunEvent {
        name,
        is_warning,
        body,
        attributes,
    } = happened;
    let record = LogRecord {
        time_unix_ns,
        observed_unix_ns: time_unix_ns,
        severity: if is_warning {
            SEVERITY_WARN
        } else {
            SEVERITY_INFO
        },
        body: Some(AnyValue::from(Value::Text(body))),
        attributes,
        event_name: name.to_owned(),
    };
    LogsRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource.clone()),
            scope_logs: vec![ScopeLogs {
                scope: Some(scope()),
                records: vec![record],
            }],
        }],
    }
}
