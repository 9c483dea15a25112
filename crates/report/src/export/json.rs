//! One document with the values and the summary of each run, and their comparison. A single saved
//! result is written as it is.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::compare::Conclusions;
use analysis::{Judged, Observation, judge_all};
use judging::Judgement;
use judging::sentences::{self, verdict_lines};
use plan::printable_json;
use results::Summary;
use serde::Serialize;

use super::Export;

/// Version of the document; increased when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 2;

#[derive(Serialize)]
struct RunsDocument<'a> {
    schema_version: u32,
    title: &'a str,
    experiments: Vec<ExperimentDocument<'a>>,
    runs: Vec<RunDocument<'a>>,
    /// Sentences that limit all conclusions.
    limits: Vec<String>,
    /// A sentence for each comparison.
    sentences: Vec<String>,
    /// Sentences that speak against the conclusions.
    #[serde(rename = "doubts")]
    caveats: Vec<String>,
    /// The numbers of all three.
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusions: Option<&'a Conclusions>,
}

#[derive(Serialize)]
struct ExperimentDocument<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<&'a str>,
    rounds: u32,
    cells: usize,
    seed: u64,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    source: &'a str,
    settings: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    run: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
    conditions: Vec<ConditionDocument>,
    /// Values by the names of their metrics (docs/tables.md).
    values: BTreeMap<&'a str, f64>,
    /// Names of the values that are lower bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lower_bounds: Vec<&'a str>,
    /// The summary as in a saved result; `None` for other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    /// Whether the load generator was saturated.
    is_saturated: bool,
    /// The same in words, a line for each symptom.
    verdict: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct ConditionDocument {
    condition: String,
    is_failed: bool,
    /// `passed`, `failed` or `undecided`.
    judgement: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Writes the runs and their comparison as one document.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    if let ([only], []) = (export.runs(), export.criteria)
        && let (Some(result), None) = (&only.result, &only.trial)
    {
        return results::file::save(result, &[], output);
    }
    let document = RunsDocument {
        schema_version: SCHEMA_VERSION,
        title: export.title(),
        experiments: export
            .subject
            .experiments
            .iter()
            .map(|experiment| ExperimentDocument {
                name: &experiment.name,
                started_at: experiment.started_at.as_deref(),
                rounds: experiment.rounds,
                cells: experiment.cells.len(),
                seed: experiment.seed,
            })
            .collect(),
        runs: export
            .runs()
            .iter()
            .map(|run| of_run(run, export))
            .collect(),
        limits: export.limits(),
        sentences: export.sentences(),
        caveats: export.caveats(),
        conclusions: export.subject.conclusions,
    };
    let text = serde_json::to_string_pretty(&document)?;
    output.write_all(printable_json(&text).as_bytes())?;
    output.write_all(b"\n")
}

fn of_run<'a>(run: &'a Observation, export: &Export<'_>) -> RunDocument<'a> {
    let result = run.result.as_deref();
    let judged = judge_all(std::slice::from_ref(run), export.criteria);
    let settings = run.settings.iter();
    let values = run.values.iter().filter(|(_, value)| value.is_finite());
    RunDocument {
        source: &run.source,
        settings: settings
            .map(|setting| (setting.factor.as_str(), setting.level.as_str()))
            .collect(),
        profile: run.profile.as_deref(),
        target: run.target.as_deref(),
        run: run.run,
        position: run.position,
        started_at: run.started_at(),
        failure: run.failure.as_deref(),
        conditions: judged.iter().map(of_condition).collect(),
        values: values
            .map(|(name, value)| (name.as_str(), *value))
            .collect(),
        lower_bounds: run.bounded_values(),
        summary: result.map(|result| Summary::of(result, &[])),
        is_saturated: run.is_saturated(),
        verdict: result
            .map(|result| verdict_lines(&result.generator.verdict))
            .unwrap_or_default(),
        warnings: result
            .iter()
            .flat_map(|result| &result.warnings)
            .map(ToString::to_string)
            .collect(),
    }
}

fn of_condition(judged: &Judged<'_>) -> ConditionDocument {
    let failure = judged.failure();
    ConditionDocument {
        condition: judged.criterion.to_string(),
        is_failed: failure.is_some(),
        judgement: match judged.judgement {
            Judgement::Passed => "passed",
            Judgement::Failed { .. } => "failed",
            Judgement::Unknown { .. } => sentences::UNDECIDED,
        },
        message: failure.or_else(|| judged.success()),
    }
}
